/*
 * later.c - events that wait for their time: listing, showing, cancelling and moving them.
 *
 * They are no part of the log and have no position. What brings them there is in timers/; whether a
 * cancel or the process that brings one came first is decided by the store.
 */
#include "base/err.h"
#include "base/text/glob.h"
#include "base/time/clock.h"
#include "base/time/time.h"
#include "base/uuid.h"
#include "bus/bus.h"
#include "bus/intake.h"
#include "store/timers.h"

#define LIMIT_DEFAULT 100

/* ---- Looking --------------------------------------------------------------------------------- */

struct listing {
    const char *namespace_name;
    hf_later_fn found;
    void *ctx;
};

static int hand_up(const struct later_row *row, void *ctx)
{
    const struct listing *listing = ctx;
    char id[UUID_TEXT_BYTES];
    uuid_format(row->id, id);
    hf_later_info info = {
        .size = sizeof info,
        .event =
            {
                .id = id,
                .type = row->type.bytes,
                .payload = row->payload.bytes,
                .payload_bytes = (size_t)row->payload_bytes,
                .key = row->key.bytes,
                .tenant = row->tenant.bytes,
                .metadata = row->metadata.bytes,
                .producer = row->producer.bytes,
                .key_version = -1,
                .emitted_at_us = row->emitted_at_us,
                .entered_at_us = -1,
                .namespace_name = listing->namespace_name,
                .deliveries = -1,
            },
        .due_at_us = row->due_us,
        .number = row->number,
    };
    return listing->found(&info, listing->ctx);
}

static hf_status check_filter(const hf_later_filter *filter, struct later_query *ret_query)
{
    hf_status status = filter->type ? glob_check_pattern(text_of(filter->type)) : HF_OK;
    struct text key = TEXT_ABSENT;
    if (!status) {
        status = intake_text(filter->key, "key", HF_KEY_BYTES_MAX, &key);
    }
    if (!status && filter->limit != -1 && (filter->limit < 1 || filter->limit > HF_LATER_MAX)) {
        status =
            fail(HF_INVALID, "limit is %d; it takes 1 to %d", (int)filter->limit, HF_LATER_MAX);
    }
    if (!status && (filter->after_due_at_us == -1) != (filter->after_number == -1)) {
        status = fail(HF_INVALID, "after_due_at_us and after_number belong together");
    }
    if (!status) {
        *ret_query = (struct later_query){
            .type = text_of(filter->type),
            .key = key,
            .due_before_us = filter->due_before_us,
            .after_us = filter->after_due_at_us,
            .after_number = filter->after_number,
            .max = filter->limit == -1 ? LIMIT_DEFAULT : filter->limit,
        };
    }
    return status;
}

hf_status hf_later_list(hf_bus *bus, const hf_later_filter *filter, hf_later_fn found, void *ctx)
{
    struct listing listing = {bus ? bus->namespace_name : NULL, found, ctx};
    hf_later_filter own = HF_LATER_FILTER_INIT;
    struct later_query query;
    hf_status status = bus_check(bus);
    if (!status && !found) {
        status = fail(HF_INVALID, "found is NULL");
    }
    if (!status && filter) {
        status = bus_read_options(&own, sizeof own, sizeof own, filter, "hf_later_filter");
    }
    if (!status) {
        status = check_filter(&own, &query);
    }
    return status ? status : store_later_list(bus->store, &query, hand_up, &listing);
}

hf_status hf_later_get(hf_bus *bus, const char *id, hf_later_fn found, void *ctx)
{
    struct listing listing = {bus ? bus->namespace_name : NULL, found, ctx};
    uint8_t bytes[UUID_BYTES];
    hf_status status = bus_check(bus);
    if (!status && (!id || !found)) {
        status = fail(HF_INVALID, "%s is NULL", id ? "found" : "id");
    }
    if (!status) {
        status = uuid_parse(text_of(id), bytes);
    }
    if (!status) {
        status = store_later_get(bus->store, bytes, hand_up, &listing);
    }
    return status == HF_NOTFOUND ? fail(HF_NOTFOUND, "no event %s waits for its time", id) : status;
}

/* ---- Changing -------------------------------------------------------------------------------- */

static hf_status check_one(hf_bus *bus, const char *id, const int64_t *ret_position,
                           uint8_t bytes[UUID_BYTES])
{
    hf_status status = bus_check_open(bus);
    if (!status && (!id || !ret_position)) {
        status = fail(HF_INVALID, "%s is NULL", id ? "ret_position" : "id");
    }
    return status ? status : uuid_parse(text_of(id), bytes);
}

static hf_status answer(hf_status status, const char *id)
{
    return status == HF_NOTFOUND
               ? fail(HF_NOTFOUND, "no event %s waits for its time or is in the log", id)
               : status;
}

hf_status hf_later_cancel(hf_bus *bus, const char *id, int64_t *ret_position)
{
    struct later_cancel cancel = {
        .change = {.kind = CHANGE_LATER_CANCEL, .now_us = clock_wall_us()},
    };
    hf_status status = check_one(bus, id, ret_position, cancel.id);
    if (status) {
        return status;
    }
    status = bus_run(bus, &cancel.change);
    if (!status) {
        *ret_position = cancel.ret_position;
    }
    return answer(status, id);
}

hf_status hf_later_move(hf_bus *bus, const char *id, int64_t deliver_at_us, int64_t *ret_position)
{
    int64_t now_us = clock_wall_us();
    struct later_move move = {.change = {.kind = CHANGE_LATER_MOVE, .now_us = now_us}};
    hf_status status = check_one(bus, id, ret_position, move.id);
    if (!status && (deliver_at_us < TIME_US_MIN || deliver_at_us > TIME_US_MAX)) {
        status = fail(HF_INVALID,
                      "deliver_at_us is %" PRId64 ", which is outside the years 0001 to 9999",
                      deliver_at_us);
    }
    if (status) {
        return status;
    }
    move.due_us = store_time(bus->store, now_us) + (deliver_at_us - now_us);
    status = bus_run(bus, &move.change);
    if (!status) {
        *ret_position = move.ret_position;
    }
    return answer(status, id);
}
