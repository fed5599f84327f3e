/*
 * harvest.c - one settle of a runner. See harvest.h.
 *
 * What an ended slot means is decided by runner_outcome.c; here it is only done for many.
 */
#include "bus/deliver/harvest.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/time/clock.h"
#include "bus/deliver/runner.h"
#include "store/story.h"

hf_status harvest_init(struct harvest *harvest, size_t max)
{
    *harvest = (struct harvest){
        .slots = mem_calloc(max, sizeof(struct slot *)),
        .outcomes = mem_calloc(max, sizeof *harvest->outcomes),
        .stories = mem_calloc(max, sizeof *harvest->stories),
    };
    if (!harvest->slots || !harvest->outcomes || !harvest->stories) {
        harvest_release(harvest);
        return fail(HF_NOMEM, "out of memory for a subscription");
    }
    harvest->max = max;
    for (size_t i = 0; i < max; i++) {
        buf_init(&harvest->stories[i], STORY_BYTES_MAX);
    }
    return HF_OK;
}

void harvest_release(struct harvest *harvest)
{
    for (size_t i = 0; i < harvest->max; i++) {
        buf_release(&harvest->stories[i]);
    }
    mem_free(harvest->slots);
    mem_free(harvest->outcomes);
    mem_free(harvest->stories);
    *harvest = (struct harvest){0};
}

void harvest_clear(struct harvest *harvest)
{
    harvest->count = 0;
    harvest->outcome_count = 0;
}

bool harvest_full(const struct harvest *harvest)
{
    return harvest->count == harvest->max;
}

void harvest_add(struct harvest *harvest, struct slot *slot)
{
    harvest->slots[harvest->count++] = slot;
}

hf_status harvest_judge(struct harvest *harvest, struct runner *runner, bool *relaxed)
{
    harvest->judged_us = clock_wall_us(); /* they may have ended long after the turn began */
    harvest->outcome_count = 0;
    for (size_t i = 0; i < harvest->count; i++) {
        if (slot_is(harvest->slots[i], TRAIT_IN_TX)) {
            continue;
        }
        struct outcome *outcome = &harvest->outcomes[harvest->outcome_count];
        struct buf *story = &harvest->stories[harvest->outcome_count];
        buf_clear(story);
        hf_status status =
            runner_outcome(runner, harvest->slots[i], harvest->judged_us, story, outcome);
        if (status) {
            return status;
        }
        *relaxed &= outcome->kind != OUTCOME_DEAD && outcome->kind != OUTCOME_BLOCK;
        harvest->outcome_count++;
    }
    return HF_OK;
}

void harvest_log(const struct harvest *harvest, const struct runner *runner)
{
    size_t at = 0;
    for (size_t i = 0; i < harvest->count; i++) {
        if (!slot_is(harvest->slots[i], TRAIT_IN_TX)) {
            runner_log_failure(runner, harvest->slots[i], &harvest->outcomes[at++],
                               harvest->judged_us);
        }
    }
}
