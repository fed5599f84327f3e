/*
 * prerecord.c - see prerecord.h.
 *
 * A record whose answer was lost may stand or not. The delivery is then not run, and the next try
 * writes the same record again: it carries the number of the attempt, not a step.
 */
#include "bus/deliver/work/prerecord.h"

#include "base/point.h"
#include "base/time/clock.h"
#include "store/common/story.h"

hf_status prerecord_begin(hf_bus *bus, const struct hold *hold, const struct entry *entry)
{
    int64_t now_us = clock_wall_us();
    struct buf story;
    buf_init(&story, STORY_BYTES_MAX);
    hf_status status = story_add(&story, entry->attempts_json, entry->attempts + 1, now_us,
                                 text_of(STORY_ERROR_DIED), text_of(bus->node_name), true);
    if (status) {
        buf_release(&story);
        return status;
    }
    struct outcome outcome = {
        .kind = hold->leased ? OUTCOME_BEGUN : OUTCOME_RETRY,
        .position = entry->event.position,
        .lane = entry->lane,
        .attempts = entry->attempts + 1,
        .uncounted = entry->uncounted,
        .attempts_json = buf_text(&story),
        .cause = CAUSE_DIED,
        .next_attempt_us = now_us,
        .waited = true,
    };
    if (hold->leased) {
        struct settle_lease settle = {
            .change = {.kind = CHANGE_SETTLE_LEASE, .relaxed = true, .now_us = now_us},
            .subscription_id = hold->subscription_id,
            .outcomes = &outcome,
            .count = 1,
        };
        memcpy(settle.lease, hold->lease, sizeof settle.lease);
        status = store_run(bus->store, &settle.change, bus_deadline(bus));
    } else {
        struct settle settle = {
            .change = {.kind = CHANGE_SETTLE, .relaxed = true, .now_us = now_us},
            .subscription_id = hold->subscription_id,
            .partition = hold->partition,
            .epoch = hold->epoch,
            .checkpoint = -1,
            .outcomes = &outcome,
            .count = 1,
        };
        status = store_run(bus->store, &settle.change, bus_deadline(bus));
    }
    HF_POINT("after_prerecord");
    buf_release(&story);
    return status;
}
