/*
 * runner_outcome.c - from how a slot ended to what is stored about it, and what is told of it.
 */
#include <stdio.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/time/clock.h"
#include "base/uuid.h"
#include "bus/deliver/runner.h"
#include "bus/deliver/work/verdict.h"
#include "store/common/filter.h"

#define UNIT_SPREAD_US 1000

void runner_log_failure(const struct runner *runner, const struct slot *slot,
                        const struct outcome *outcome, int64_t now_us)
{
    bool failed = slot->ending == ENDED_VERDICT && slot->verdict != HF_ACK;
    if (failed || slot->ending == ENDED_DAMAGED) {
        verdict_log(&runner->bus->log, runner->name, &runner->definition.options, slot->entry,
                    outcome, failed ? slot->error : ERROR_CORRUPT, now_us);
    }
}

hf_status runner_outcome(struct runner *runner, const struct slot *slot, int64_t now_us,
                         struct buf *story, struct outcome *ret_outcome)
{
    const hf_subscription_options *options = &runner->definition.options;
    struct text node = text_of(runner->bus->node_name);
    struct outcome outcome = {.position = slot->entry->event.position, .lane = slot->lane};
    hf_status status = HF_OK;
    struct ending ending = {
        .verdict = slot->verdict,
        .cause = slot->cause,
        .error = text_of(slot->error),
        .delay_ms = -1,
        .wait_ms = slot->wait_ms,
        .last = slot_is(slot, TRAIT_SPLITTING),
        .unit = slot->mark,
    };
    /* The events of a unit wait as long as each other, and another unit a little less or more, so
     * that they are due, and found, together. */
    bool batch = slot->mark.events > 1;
    uint64_t random = batch ? hash_mix((uint64_t)slot->mark.first) : random_u64();
    switch (slot->ending) {
    case ENDED_HELD:
        outcome.kind = runner->limits.whole ? OUTCOME_RETRY : OUTCOME_HELD;
        outcome.attempts = slot->entry->attempts;
        outcome.uncounted = slot->entry->uncounted;
        outcome.attempts_json = slot->entry->attempts_json;
        outcome.cause = slot->entry->cause;
        outcome.unit = slot->entry->unit;
        outcome.next_attempt_us = 0; /* however late it is stored: in the order of the lane */
        break;
    case ENDED_SPENT:
        status = verdict_spent(options, slot->entry, story, &outcome);
        break;
    case ENDED_DAMAGED:
        outcome = verdict_damaged(options, slot->entry);
        break;
    case ENDED_UNHANDLED:
        outcome = verdict_unhandled(slot->entry);
        break;
    case ENDED_SKIPPED:
        outcome.kind = OUTCOME_DONE;
        break;
    case ENDED_RELEASED:
        outcome.kind = OUTCOME_RELEASE;
        break;
    case ENDED_CANCELLED: /* it is settled, or READY again, before anything is collected */
        return fail(HF_MISUSE, "a cancelled event was collected");
    case ENDED_VERDICT:
        status =
            verdict_outcome(options, slot->entry, &ending, node, now_us, random, story, &outcome);
        outcome.next_attempt_us += batch ? (int64_t)(random % UNIT_SPREAD_US) : 0;
        break;
    }
    if (status) {
        return status;
    }
    outcome.waited = slot_is(slot, TRAIT_WAITED);
    outcome.lane = slot->lane;
    *ret_outcome = outcome;
    return HF_OK;
}

void runner_pause(struct runner *runner, const char *reason)
{
    struct pause pause = {
        .change = {.kind = CHANGE_PAUSE, .now_us = clock_wall_us()},
        .subscription_id = runner->definition.id,
        .paused = true,
        .by = text_of(runner->bus->node_name),
        .reason = text_of(reason),
    };
    if (runner_run(runner, &pause.change)) {
        runner_say(runner, HF_LOG_ERROR, "cannot pause: %s", err_message());
    }
    runner_need(runner, NEED_DEFINITION);
}

void runner_mark_prerecord(const struct runner *runner, struct slot *slot, bool doubtful)
{
    slot_set(slot, TRAIT_PRERECORD,
             doubtful || (slot_is(slot, TRAIT_ALONE) && !store_takes_notes(runner->bus->store)));
    if (slot_is(slot, TRAIT_PRERECORD) &&
        slot->entry->attempts + 1 >= runner->definition.options.attempts_max) {
        slot_set(slot, TRAIT_ALONE, true);
    }
}

/* Is the entry outside the patterns? What is read from the log was compared with them; what waited
 * or was claimed before may be of one that was removed meanwhile. Then the former becomes a dead
 * letter again, because what has a record must not disappear. */
static bool is_outside(const struct runner *runner, const struct entry *entry,
                       enum slot_ending *ret_ending)
{
    struct filter filter = definition_filter(&runner->definition);
    bool compare = entry->waited || runner->shared;
    bool dies = entry->unhandled || entry->waited || filter.unhandled_too;
    *ret_ending = dies ? ENDED_UNHANDLED : ENDED_SKIPPED;
    return entry->unhandled || (compare && !filter_matches(&filter, text_of(entry->event.type)));
}

void runner_sort_out(struct runner *runner, struct slot *slot)
{
    enum slot_ending ending;
    bool halts = runner->definition.options.on_poison == HF_POISON_HALT;
    bool blocks = runner->ordered && !slot_is(slot, TRAIT_WAITED) &&
                  runner->definition.options.on_poison == HF_POISON_BLOCK_KEY;
    if (slot->entry->damaged && blocks) {
        return; /* its key is told when those before it are done: window.c, may_run */
    }
    if (slot->entry->damaged) {
        slot->ending = ENDED_DAMAGED;
        runner_raise(runner, halts ? BAR_HALTING : 0);
        window_end(&runner->window, slot);
    } else if (is_outside(runner, slot->entry, &ending)) {
        slot->ending = ending;
        window_end(&runner->window, slot);
    } else if (verdict_is_spent(&runner->definition.options, slot->entry)) {
        slot->ending = ENDED_SPENT;
        runner_raise(runner, halts ? BAR_HALTING : 0);
        window_end(&runner->window, slot);
    }
    /* No worker will report it. */
    runner_need(runner, slot->state == SLOT_ENDED ? NEED_TURN : 0);
}
