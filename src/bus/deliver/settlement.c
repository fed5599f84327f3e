/*
 * settlement.c - one settle of a runner. See settlement.h.
 *
 * What an ended slot means is decided by runner_outcome.c; here it is only done for many.
 */
#include "bus/deliver/settlement.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/time/clock.h"
#include "bus/deliver/runner.h"
#include "store/common/story.h"

void settlement_init(struct settlement *settlement, size_t max)
{
    *settlement = (struct settlement){.max = max};
}

void settlement_put_away(struct settlement *settlement)
{
    for (size_t i = 0; i < settlement->begun; i++) {
        buf_release(&settlement->stories[i]);
    }
    mem_free(settlement->slots);
    mem_free(settlement->outcomes);
    mem_free(settlement->stories);
    settlement_init(settlement, settlement->max);
}

/* None of the memory is touched here. */
hf_status settlement_prepare(struct settlement *settlement)
{
    size_t max = settlement->max;
    if (settlement->slots) {
        return HF_OK;
    }
    settlement->slots = mem_alloc(max * sizeof(struct slot *));
    settlement->outcomes = mem_alloc(max * sizeof *settlement->outcomes);
    settlement->stories = mem_alloc(max * sizeof *settlement->stories);
    if (!settlement->slots || !settlement->outcomes || !settlement->stories) {
        settlement_put_away(settlement);
        return fail(HF_NOMEM, "out of memory for what becomes of %zu deliveries", max);
    }
    return HF_OK;
}

void settlement_clear(struct settlement *settlement)
{
    settlement->count = 0;
    settlement->outcome_count = 0;
}

bool settlement_full(const struct settlement *settlement)
{
    return settlement->count == settlement->max;
}

void settlement_add(struct settlement *settlement, struct slot *slot)
{
    settlement->slots[settlement->count++] = slot;
}

/* Memory for the story of an outcome, empty. */
static struct buf *story_at(struct settlement *settlement, size_t at)
{
    struct buf *story = &settlement->stories[at];
    if (at == settlement->begun) {
        buf_init(story, STORY_BYTES_MAX);
        settlement->begun++;
    }
    buf_clear(story);
    return story;
}

hf_status settlement_judge(struct settlement *settlement, struct runner *runner, bool *relaxed)
{
    settlement->judged_us = clock_wall_us(); /* they may have ended long after the turn began */
    settlement->outcome_count = 0;
    for (size_t i = 0; i < settlement->count; i++) {
        if (slot_is(settlement->slots[i], TRAIT_IN_TX)) {
            continue;
        }
        struct outcome *outcome = &settlement->outcomes[settlement->outcome_count];
        struct buf *story = story_at(settlement, settlement->outcome_count);
        hf_status status =
            runner_outcome(runner, settlement->slots[i], settlement->judged_us, story, outcome);
        if (status) {
            return status;
        }
        *relaxed &= outcome->kind != OUTCOME_DEAD && outcome->kind != OUTCOME_BLOCK;
        settlement->outcome_count++;
    }
    return HF_OK;
}

void settlement_told(const struct settlement *settlement, const struct runner *runner)
{
    size_t at = 0;
    for (size_t i = 0; i < settlement->count; i++) {
        const struct slot *slot = settlement->slots[i];
        if (!slot_is(slot, TRAIT_IN_TX)) {
            const struct outcome *outcome = &settlement->outcomes[at++];
            runner_log_failure(runner, slot, outcome, settlement->judged_us);
            if (slot->ending != ENDED_HELD) { /* it has not run */
                meter_outcome(runner->meter, outcome);
            }
        }
    }
}
