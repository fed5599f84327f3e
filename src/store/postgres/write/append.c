/*
 * append.c - the log's writing end. See sql/postgres/functions/log/append.sql for what guards an id
 * against being stored twice.
 *
 * There are three ways of appending:
 *
 *   plain   one INSERT for the events of many appends, a bundle. Only for ids that the log's own
 *           index guards, without versions and unique keys; a repeated id makes the whole statement
 *           fail.
 *   listed  the same for appends of which some ids have no time inside (those of version 4): one
 *           statement that writes them into event_ids, too.
 *   exact   holdfast.append, event by event, a verb: every id, versions, unique keys, repetitions.
 *
 * Columns travel as arrays, so the events of a whole group are eleven parameters and one statement.
 */
#include "base/err.h"
#include "base/uuid.h"
#include "store/common/change.h"
#include "store/postgres/wire/bundle.h"
#include "store/postgres/wire/row.h"

#define PLAIN_AWAY_US (INT64_C(22) * 3600 * 1000000) /* the server's limit is 23 hours */

/* ---- The plain ways -------------------------------------------------------------------------- */

/* Whether all events of an append may be stored by one statement; with `listed` also those whose
 * ids have no time inside. The server looks at the times again, by its own clock: now_us only saves
 * it a vain attempt. */
static bool is_plain(const struct postgres_engine *engine, const struct change *change,
                     int64_t now_us, bool listed)
{
    if (change->kind != CHANGE_APPEND || engine->gapless) {
        return false;
    }
    const struct append *append = (const struct append *)change;
    for (size_t i = 0; i < append->count; i++) {
        const struct new_event *event = &append->events[i];
        int64_t time_us = uuid_v7_time_us(event->id);
        bool near = time_us >= now_us - PLAIN_AWAY_US && time_us <= now_us + PLAIN_AWAY_US;
        if (event->expected_version >= 0 || !text_is_absent(event->unique) ||
            (time_us < 0 ? !listed : !near)) {
            return false;
        }
    }
    return true;
}

static bool plain_admits(const struct postgres_engine *engine, const struct change *change,
                         int64_t now_us)
{
    return is_plain(engine, change, now_us, false);
}

static bool listed_admits(const struct postgres_engine *engine, const struct change *change,
                          int64_t now_us)
{
    return is_plain(engine, change, now_us, true);
}

static void plain_fill(struct postgres_engine *engine, struct params *params, change_walk_fn next,
                       void *ctx)
{
    (void)engine;
    event_columns_fill(params, NEW_COLUMNS_PLAIN, next, ctx);
}

/* The positions are the rows, from `*row` on, which moves. */
static hf_status take_positions(struct append *append, const PGresult *result, int *row)
{
    if ((size_t)(PQntuples(result) - *row) < append->count) {
        return fail(HF_CORRUPT, "too few positions were answered");
    }
    for (size_t i = 0; i < append->count; i++) {
        struct new_event *event = &append->events[i];
        event->position = result_int8(result, (*row)++, 0, 0);
        event->key_version = -1;
        event->duplicate = false;
    }
    return HF_OK;
}

static void plain_take(const PGresult *result, change_walk_fn next, void *ctx)
{
    int row = 0;
    for (struct change *at = next(ctx, NULL); at; at = next(ctx, at)) {
        change_draft(at, take_positions((struct append *)at, result, &row));
    }
}

const struct bundle postgres_bundle_append = {
    .query = POSTGRES_QUERY_APPEND_PLAIN,
    .admits = plain_admits,
    .fill = plain_fill,
    .take = plain_take,
};

const struct bundle postgres_bundle_append_listed = {
    .query = POSTGRES_QUERY_APPEND_LISTED,
    .admits = listed_admits,
    .fill = plain_fill,
    .take = plain_take,
};

/* ---- Unique keys ----------------------------------------------------------------------------- */

void unique_read(struct result_array *firsts, struct new_event *event)
{
    event->is_second = firsts->count > 0 && array_uuid(firsts, event->first_id);
    /* Our own id: it was stored by a try of this very change, whose answer was lost. */
    if (event->is_second && memcmp(event->first_id, event->id, sizeof event->id) == 0) {
        event->is_second = false;
        event->duplicate = event->duplicate && !event->made_id;
    }
}

/* ---- The exact way --------------------------------------------------------------------------- */

static hf_status append_fill(struct postgres_engine *engine, struct params *params,
                             struct change *change)
{
    (void)engine;
    event_columns_fill_one(params, NEW_COLUMNS_EXACT, change);
    return HF_OK;
}

static hf_status append_read(struct postgres_engine *engine, struct change *change,
                             const PGresult *result, bool *ret_ring)
{
    struct append *append = (struct append *)change;
    hf_status status = (hf_status)result_int8(result, 0, 0, HF_CORRUPT);
    if (status) {
        struct text message = result_text(result, 0, 1);
        append->failed_index = (size_t)result_int8(result, 0, 2, -1);
        return fail(status, "%" TEXT_PRI, TEXT_ARG(message));
    }
    struct result_array positions = result_array(result, 0, 3);
    struct result_array versions = result_array(result, 0, 4);
    struct result_array duplicates = result_array(result, 0, 5);
    struct result_array firsts = result_array(result, 0, 6);
    if (positions.count != append->count || versions.count != append->count ||
        duplicates.count != append->count) {
        return fail(HF_CORRUPT, "%s: append answered %zu positions for %zu events", engine->place,
                    positions.count, append->count);
    }
    for (size_t i = 0; i < append->count; i++) {
        struct new_event *event = &append->events[i];
        event->position = array_int8(&positions, 0);
        event->key_version = array_int8(&versions, -1);
        /* An id that we made is in the log already only if a try of this very append, whose answer
         * was lost, had stored it. */
        bool found = array_int8(&duplicates, 0) != 0;
        event->duplicate = found && !event->made_id;
        unique_read(&firsts, event);
        event->duplicate = event->duplicate || event->is_second;
        *ret_ring = *ret_ring || !event->duplicate;
    }
    return HF_OK;
}

const struct verb postgres_verb_append = {
    .query = POSTGRES_QUERY_APPEND,
    .fill = append_fill,
    .read = append_read,
};
