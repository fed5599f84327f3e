/*
 * event_columns.c - new events as parameters. See event_columns.h.
 *
 * Column by column, because that is how arrays are sent; so the changes are walked through once for
 * each, and twice for one that may be absent.
 */
#include "store/postgres/wire/event_columns.h"

#include "base/uuid.h"
#include "store/common/change.h"

static const enum param_type types[NEW_COLUMNS] = {
    [NEW_ID] = PARAM_UUID,
    [NEW_TYPE] = PARAM_TEXT,
    [NEW_PAYLOAD] = PARAM_JSON,
    [NEW_KEY] = PARAM_TEXT,
    [NEW_TENANT] = PARAM_TEXT,
    [NEW_METADATA] = PARAM_JSON,
    [NEW_PRODUCER] = PARAM_TEXT,
    [NEW_SCHEDULE_ID] = PARAM_TEXT,
    [NEW_EMITTED_AT] = PARAM_TIME,
    [NEW_GUARD_AT] = PARAM_TIME,
    [NEW_EXPECTED_VERSION] = PARAM_INT8,
    [NEW_HASH] = PARAM_INT8,
    [NEW_CONTENT] = PARAM_INT8,
    [NEW_UNIQUE] = PARAM_TEXT,
    [NEW_UNIQUE_US] = PARAM_INT8,
};

struct change *change_walk_one(void *ctx, struct change *after)
{
    return after ? NULL : ctx;
}

size_t events_count(change_walk_fn next, void *ctx)
{
    size_t events = 0;
    for (struct change *at = next(ctx, NULL); at; at = next(ctx, at)) {
        size_t count;
        (void)change_events(at, &count);
        events += count;
    }
    return events;
}

/* Columns that no event lacks are told by the first one. */
static bool is_absent(const struct new_event *event, enum new_column column)
{
    switch (column) {
    case NEW_KEY:
        return text_is_absent(event->key);
    case NEW_TENANT:
        return text_is_absent(event->tenant);
    case NEW_METADATA:
        return text_is_absent(event->metadata);
    case NEW_UNIQUE:
    case NEW_UNIQUE_US:
        return text_is_absent(event->unique);
    default:
        return false;
    }
}

/* Whether there are events, and all of them lack it. */
static bool is_absent_in_all(enum new_column column, change_walk_fn next, void *ctx)
{
    bool any = false;
    for (struct change *at = next(ctx, NULL); at; at = next(ctx, at)) {
        size_t count;
        const struct new_event *events = change_events(at, &count);
        any = any || count > 0;
        for (size_t i = 0; i < count; i++) {
            if (!is_absent(&events[i], column)) {
                return false;
            }
        }
    }
    return any;
}

static void put_guard(struct params *params, const struct new_event *event)
{
    int64_t time_us = uuid_v7_time_us(event->id);
    if (time_us < 0) {
        element_null(params);
    } else {
        element_time(params, time_us);
    }
}

static void put_element(struct params *params, const struct new_event *event,
                        enum new_column column)
{
    switch (column) {
    case NEW_ID:
        element_uuid(params, event->id);
        break;
    case NEW_TYPE:
        element_text(params, event->type);
        break;
    case NEW_PAYLOAD:
        element_text(params, event->payload);
        break;
    case NEW_KEY:
        element_text(params, event->key);
        break;
    case NEW_TENANT:
        element_text(params, event->tenant);
        break;
    case NEW_METADATA:
        element_text(params, event->metadata);
        break;
    case NEW_PRODUCER:
        element_text(params, event->producer);
        break;
    case NEW_SCHEDULE_ID:
        element_text(params, event->schedule_id);
        break;
    case NEW_EMITTED_AT:
        element_time(params, event->emitted_at_us);
        break;
    case NEW_GUARD_AT:
        put_guard(params, event);
        break;
    case NEW_EXPECTED_VERSION:
        element_int8(params, event->expected_version);
        break;
    case NEW_HASH:
        element_int8(params, event->hash);
        break;
    case NEW_CONTENT:
        element_int8(params, event->content);
        break;
    case NEW_UNIQUE:
        element_text(params, event->unique);
        break;
    case NEW_UNIQUE_US:
        element_int8(params, event->unique_us);
        break;
    case NEW_COLUMNS:
        break;
    }
}

void event_columns_fill(struct params *params, unsigned columns, change_walk_fn next, void *ctx)
{
    size_t events = events_count(next, ctx);
    for (enum new_column column = 0; column < NEW_COLUMNS; column++) {
        if (!(columns & NEW_COLUMN(column))) {
            continue;
        }
        if (is_absent_in_all(column, next, ctx)) {
            param_no_array(params, types[column]);
            continue;
        }
        param_array(params, types[column], events);
        for (struct change *at = next(ctx, NULL); at; at = next(ctx, at)) {
            size_t count;
            const struct new_event *of = change_events(at, &count);
            for (size_t i = 0; i < count; i++) {
                put_element(params, &of[i], column);
            }
        }
    }
}

void event_columns_fill_one(struct params *params, unsigned columns, struct change *change)
{
    event_columns_fill(params, columns, change_walk_one, change);
}
