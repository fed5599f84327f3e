/*
 * append.c - the log's writing end. See append.h, and sql/postgres/0003_append.sql for what guards
 * an id against being stored twice.
 *
 * Columns travel as arrays, so the events of a whole group are ten parameters and one statement.
 */
#include "store/postgres/append.h"

#include "base/err.h"
#include "base/uuid.h"
#include "store/postgres/row.h"

#define PLAIN_AWAY_US (INT64_C(22) * 3600 * 1000000) /* the server's limit is 23 hours */

/* ---- The plain way --------------------------------------------------------------------------- */

bool append_is_plain(const struct postgres_engine *engine, const struct append *append,
                     int64_t now_us)
{
    if (engine->gapless) {
        return false;
    }
    for (size_t i = 0; i < append->count; i++) {
        const struct new_event *event = &append->events[i];
        int64_t time_us = uuid_v7_time_us(event->id);
        if (event->expected_version >= 0 || time_us < 0 || time_us < now_us - PLAIN_AWAY_US ||
            time_us > now_us + PLAIN_AWAY_US) {
            return false;
        }
    }
    return true;
}

void append_fill_plain(struct params *params, change_walk_fn next, void *ctx)
{
    event_columns_fill(params, NEW_COLUMNS_PLAIN, next, ctx);
}

hf_status append_take_plain(struct append *append, const PGresult *result, int *at)
{
    if ((size_t)(PQntuples(result) - *at) < append->count) {
        return fail(HF_CORRUPT, "too few positions were answered");
    }
    for (size_t i = 0; i < append->count; i++) {
        struct new_event *event = &append->events[i];
        event->position = result_int8(result, (*at)++, 0, 0);
        event->key_version = -1;
        event->duplicate = false;
    }
    return HF_OK;
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
    if (status != HF_OK) {
        struct text message = result_text(result, 0, 1);
        append->failed_index = (size_t)result_int8(result, 0, 2, -1);
        return fail(status, "%" TEXT_PRI, TEXT_ARG(message));
    }
    struct result_array positions = result_array(result, 0, 3);
    struct result_array versions = result_array(result, 0, 4);
    struct result_array duplicates = result_array(result, 0, 5);
    if (positions.count != append->count || versions.count != append->count ||
        duplicates.count != append->count) {
        return fail(HF_CORRUPT, "%s: append answered %zu positions for %zu events", engine->place,
                    positions.count, append->count);
    }
    for (size_t i = 0; i < append->count; i++) {
        struct new_event *event = &append->events[i];
        event->position = array_int8(&positions, 0);
        event->key_version = array_int8(&versions, -1);
        event->duplicate = array_int8(&duplicates, 0) != 0;
        *ret_ring = *ret_ring || !event->duplicate;
    }
    return HF_OK;
}

const struct verb postgres_verb_append = {
    .query = POSTGRES_QUERY_APPEND,
    .fill = append_fill,
    .read = append_read,
};
