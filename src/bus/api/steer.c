/*
 * steer.c - moving a subscription, pausing and resuming it, and finding a place in the log.
 *
 * A place becomes the position after which reading begins: START is just before the oldest event
 * that the log still has, NOW is the head, TIME is the last position that entered before it. Seek
 * and its dry run resolve the place the same way, so the dry run's count is what will come, but for
 * what is published in between.
 */
#include "base/err.h"
#include "base/time/clock.h"
#include "base/time/time.h"
#include "bus/intake.h"
#include "bus/subscription.h"

static hf_status locate_position(int64_t position, int64_t head)
{
    if (position < 0) {
        return fail(HF_INVALID, "position is %" PRId64 "; it must be 0 or more", position);
    }
    if (position > head) {
        return fail(HF_INVALID,
                    "position %" PRId64 " is beyond the end of the log, which is %" PRId64,
                    position, head);
    }
    return HF_OK;
}

/* ret_left: how many positions come after it. */
static hf_status locate(hf_bus *bus, hf_place place, int64_t *ret_position, int64_t *ret_left)
{
    int64_t head;
    int64_t first;
    hf_status status = store_head(bus->store, &head, &first);
    if (status) {
        return status;
    }
    int64_t position = 0;
    switch (place.kind) {
    case HF_PLACE_NONE:
        return fail(HF_INVALID, "no place is given: say start, now, a position or a time");
    case HF_PLACE_START:
        position = first - 1;
        break;
    case HF_PLACE_NOW:
        status = store_now(bus->store, bus_deadline(bus), &position);
        break;
    case HF_PLACE_POSITION:
        position = place.value;
        status = locate_position(position, head);
        break;
    case HF_PLACE_TIME:
        status =
            place.value >= TIME_US_MIN && place.value <= TIME_US_MAX
                ? store_position_before(bus->store, place.value, STORE_DISORDER, &position)
                : fail(HF_INVALID, "time is %" PRId64 ", which is outside the years 0001 to 9999",
                       place.value);
        break;
    default:
        return fail(HF_INVALID, "place is of kind %d, which is no hf_place_kind", (int)place.kind);
    }
    if (status) {
        return status;
    }
    int64_t reached = position > first - 1 ? position : first - 1;
    *ret_position = position;
    *ret_left = head > reached ? head - reached : 0;
    return HF_OK;
}

hf_status hf_locate(hf_bus *bus, hf_place place, int64_t *ret_position)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    if (!ret_position) {
        return fail(HF_INVALID, "ret_position is NULL");
    }
    int64_t left;
    return locate(bus, place, ret_position, &left);
}

static hf_status seek_run(hf_bus *bus, const struct definition *definition, int64_t position)
{
    struct seek seek = {
        .change = {.kind = CHANGE_SEEK, .now_us = clock_wall_us()},
        .subscription_id = definition->id,
        .position = position,
    };
    return bus_run(bus, &seek.change);
}

/* What the steering calls have in common: a handle, a name, and the subscription it names. */
static hf_status steer_begin(hf_bus *bus, const char *subscription, struct definition *definition)
{
    definition_init(definition);
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    if (!subscription) {
        return fail(HF_INVALID, "subscription is NULL");
    }
    return definition_load(bus, subscription, definition);
}

hf_status hf_seek(hf_bus *bus, const char *subscription, hf_place to, hf_toggle dry_run,
                  int64_t *ret_count)
{
    struct definition definition;
    hf_status status = steer_begin(bus, subscription, &definition);
    if (!status && (dry_run < HF_TOGGLE_DEFAULT || dry_run > HF_ON)) {
        status = fail(HF_INVALID, "dry_run is %d, which is no hf_toggle", (int)dry_run);
    }
    int64_t position = -1;
    int64_t count = -1;
    if (!status) {
        status = locate(bus, to, &position, &count);
    }
    if (!status && dry_run != HF_ON) {
        status = seek_run(bus, &definition, position);
    }
    if (!status && ret_count) {
        *ret_count = count;
    }
    definition_release(&definition);
    return status;
}

static hf_status pause_run(hf_bus *bus, const char *subscription, bool paused, struct text reason)
{
    struct definition definition;
    hf_status status = steer_begin(bus, subscription, &definition);
    if (!status) {
        struct pause pause = {
            .change = {.kind = CHANGE_PAUSE, .now_us = clock_wall_us()},
            .subscription_id = definition.id,
            .paused = paused,
            .by = paused ? text_of(bus->node_name) : TEXT_ABSENT,
            .reason = reason,
        };
        status = bus_run(bus, &pause.change);
    }
    definition_release(&definition);
    return status;
}

hf_status hf_pause(hf_bus *bus, const char *subscription, const char *reason)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    struct text text = TEXT_ABSENT;
    status = intake_text(reason, "reason", HF_ERROR_BYTES_MAX, &text);
    return status ? status : pause_run(bus, subscription, true, text);
}

hf_status hf_resume(hf_bus *bus, const char *subscription)
{
    return pause_run(bus, subscription, false, TEXT_ABSENT);
}
