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

enum append_column {
    COLUMN_ID,
    COLUMN_TYPE,
    COLUMN_PAYLOAD,
    COLUMN_KEY,
    COLUMN_TENANT,
    COLUMN_METADATA,
    COLUMN_PRODUCER,
    COLUMN_EMITTED_AT,
    COLUMN_ENTERED_AT,       /* plain */
    COLUMN_EXPECTED_VERSION, /* exact */
    COLUMN_HASH
};

static const enum param_type column_types[] = {
    [COLUMN_ID] = PARAM_UUID,
    [COLUMN_TYPE] = PARAM_TEXT,
    [COLUMN_PAYLOAD] = PARAM_JSON,
    [COLUMN_KEY] = PARAM_TEXT,
    [COLUMN_TENANT] = PARAM_TEXT,
    [COLUMN_METADATA] = PARAM_JSON,
    [COLUMN_PRODUCER] = PARAM_TEXT,
    [COLUMN_EMITTED_AT] = PARAM_TIME,
    [COLUMN_ENTERED_AT] = PARAM_TIME,
    [COLUMN_EXPECTED_VERSION] = PARAM_INT8,
    [COLUMN_HASH] = PARAM_INT8,
};

static void put_element(struct params *params, const struct new_event *event,
                        enum append_column column)
{
    switch (column) {
    case COLUMN_ID:
        element_uuid(params, event->id);
        break;
    case COLUMN_TYPE:
        element_text(params, event->type);
        break;
    case COLUMN_PAYLOAD:
        element_text(params, event->payload);
        break;
    case COLUMN_KEY:
        element_text(params, event->key);
        break;
    case COLUMN_TENANT:
        element_text(params, event->tenant);
        break;
    case COLUMN_METADATA:
        element_text(params, event->metadata);
        break;
    case COLUMN_PRODUCER:
        element_text(params, event->producer);
        break;
    case COLUMN_EMITTED_AT:
        element_time(params, event->emitted_at_us);
        break;
    case COLUMN_ENTERED_AT:
        element_time(params, uuid_v7_time_us(event->id));
        break;
    case COLUMN_EXPECTED_VERSION:
        element_int8(params, event->expected_version);
        break;
    case COLUMN_HASH:
        element_int8(params, event->hash);
        break;
    }
}

/* Whether all events lack it: then the column does not travel at all. */
static bool is_absent(const struct append *append, enum append_column column)
{
    for (size_t i = 0; i < append->count; i++) {
        const struct new_event *event = &append->events[i];
        struct text text = column == COLUMN_KEY      ? event->key
                           : column == COLUMN_TENANT ? event->tenant
                                                     : event->metadata;
        if (!text_is_absent(text)) {
            return false;
        }
    }
    return true;
}

static bool is_optional(enum append_column column)
{
    return column == COLUMN_KEY || column == COLUMN_TENANT || column == COLUMN_METADATA;
}

static void put_column(struct params *params, const struct append *append,
                       enum append_column column)
{
    for (size_t i = 0; i < append->count; i++) {
        put_element(params, &append->events[i], column);
    }
}

void append_fill_plain(struct params *params, size_t events, append_walk_fn next, void *ctx)
{
    for (enum append_column column = COLUMN_ID; column <= COLUMN_HASH; column++) {
        if (column == COLUMN_EXPECTED_VERSION) {
            continue;
        }
        bool absent = is_optional(column);
        for (struct append *at = next(ctx, NULL); at && absent; at = next(ctx, at)) {
            absent = is_absent(at, column);
        }
        if (absent) {
            param_no_array(params, column_types[column]);
            continue;
        }
        param_array(params, column_types[column], events);
        for (struct append *at = next(ctx, NULL); at; at = next(ctx, at)) {
            put_column(params, at, column);
        }
    }
}

bool append_take_plain(struct append *append, const PGresult *result, int *at)
{
    if ((size_t)(PQntuples(result) - *at) < append->count) {
        return false;
    }
    for (size_t i = 0; i < append->count; i++) {
        struct new_event *event = &append->events[i];
        event->position = result_int8(result, (*at)++, 0, 0);
        event->key_version = -1;
        event->duplicate = false;
    }
    return true;
}

/* ---- The exact way --------------------------------------------------------------------------- */

static hf_status append_fill(struct postgres_engine *engine, struct params *params,
                             struct change *change)
{
    (void)engine;
    const struct append *append = (const struct append *)change;
    for (enum append_column column = COLUMN_ID; column <= COLUMN_HASH; column++) {
        if (column != COLUMN_ENTERED_AT) {
            param_array(params, column_types[column], append->count);
            put_column(params, append, column);
        }
    }
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
