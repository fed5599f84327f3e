/*
 * ordered_settle.c - storing what became of deliveries, and moving the checkpoint.
 *
 * A failing event does not stop the others: its failure is stored as a retry, and later events of
 * its lane are stored as held. Both are rows, so the checkpoint passes them. When the retry has
 * succeeded or died the store makes the lane's next held event due.
 *
 * Outcomes are stored at once, together with the checkpoint they allow; a checkpoint on its own
 * waits for checkpoint_events or checkpoint_ms, because losing it only means delivering again. What
 * fails to be stored stays in hand and is tried again.
 */
#include "bus/ordered.h"

#include "base/err.h"
#include "base/point.h"
#include "bus/verdict.h"
#include "bus/watch.h"

#define IDLE_CHECKPOINT_US 5000000 /* over events that do not match: at most this often */

static void collect_ring(struct ordered *ordered, struct ring *ring)
{
    for (uint64_t i = ring->front; i < ring->back && ordered->count < ORDERED_FLUSH_MAX; i++) {
        struct slot *slot = ring_at(ring, i);
        if (slot->state == SLOT_ENDED) {
            slot->settling = true;
            ordered->slots[ordered->count++] = slot;
        }
    }
}

/* Up to where everything is settled if what was collected is; the id of the last event there. */
static int64_t next_checkpoint(struct runner *runner, const uint8_t **ret_last_id)
{
    struct ordered *ordered = runner->ordered;
    struct ring *ring = &runner->window.log;
    int64_t lowest = window_lowest(&runner->window);
    int64_t checkpoint = lowest == INT64_MAX ? ordered->floor : lowest - 1;
    checkpoint = checkpoint < ordered->floor ? checkpoint : ordered->floor;
    int64_t last = runner->window.reaped;
    *ret_last_id =
        last > ordered->checkpoint && last <= checkpoint ? runner->window.reaped_id : NULL;
    for (uint64_t i = ring->front; i < ring->back; i++) {
        const struct entry *entry = ring_at(ring, i)->entry;
        if (entry->event.position <= checkpoint && entry->event.position > last) {
            last = entry->event.position;
            *ret_last_id = entry->id;
        }
    }
    return checkpoint > ordered->checkpoint ? checkpoint : -1;
}

/* Is it time to store a checkpoint on its own? */
static bool checkpoint_due(struct runner *runner, int64_t checkpoint, int64_t now_us,
                           int64_t *ret_at_us)
{
    struct ordered *ordered = runner->ordered;
    const hf_subscription_options *options = &runner->definition.options;
    struct window *window = &runner->window;
    if (checkpoint < 0) {
        return false;
    }
    if (window->settled == 0) {
        /* Only events that do not match: no hurry. */
        *ret_at_us = ordered->flushed_us + IDLE_CHECKPOINT_US;
        return now_us >= *ret_at_us || now_us < ordered->flushed_us ||
               atomic_load(&runner->bus->waiters) > 0 || runner->stopping;
    }
    if (ordered->unflushed_us == 0) {
        ordered->unflushed_us = now_us;
    }
    *ret_at_us = ordered->unflushed_us + options->checkpoint_ms * 1000;
    bool idle = window->ready == 0 && window->busy == 0;
    return window->settled >= options->checkpoint_events || now_us >= *ret_at_us ||
           now_us < ordered->unflushed_us || runner->stopping ||
           (idle && atomic_load(&runner->bus->waiters) > 0);
}

/* What the stored outcomes mean for lanes and retries. The mutex is held. */
static void note_outcome(struct runner *runner, const struct slot *slot,
                         const struct outcome *outcome, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    struct window *window = &runner->window;
    switch (outcome->kind) {
    case OUTCOME_RETRY:
        if (outcome->next_attempt_us < ordered->retry_at_us) {
            ordered->retry_at_us = outcome->next_attempt_us;
        }
        break;
    case OUTCOME_DONE:
    case OUTCOME_DEAD:
        if (outcome->ret_lane_busy) {
            ordered->retry_at_us = now_us;
        } else if (outcome->waited || slot->ending == ENDED_VERDICT) {
            /* One that never ran (no handler) says nothing about its lane. */
            window_free_lane(window, outcome->lane);
        }
        break;
    case OUTCOME_HELD:
        /* Usually somebody is before it; if that one has just died or been freed, it is due now. */
        runner->lost |= !window_fail_lane(window, outcome->lane);
        ordered->retry_at_us = now_us;
        break;
    case OUTCOME_BLOCK:
    case OUTCOME_RELEASE:
    case OUTCOME_BEGUN:
        break;
    }
}

static void settled(struct runner *runner, const struct settle *settle, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    for (size_t i = 0; i < ordered->count; i++) {
        runner_log_failure(runner, ordered->slots[i], &ordered->outcomes[i], now_us);
    }
    pthread_mutex_lock(&runner->mutex);
    for (size_t i = 0; i < ordered->count; i++) {
        note_outcome(runner, ordered->slots[i], &ordered->outcomes[i], now_us);
        window_settle(&runner->window, ordered->slots[i]);
    }
    /* What ended while the store was busy is for the next flush. */
    runner->window.settled -= ordered->settled_before + (int64_t)ordered->count;
    window_reap(&runner->window, &runner->rack);
    runner->stale |= runner->halting; /* is it paused now? */
    /* Enough failing lanes have been freed to know them all again. */
    runner->lost |=
        runner->window.lanes_full && set64_count(&runner->window.failing) < WINDOW_LANES_MAX / 2;
    pthread_mutex_unlock(&runner->mutex);
    if (settle->checkpoint >= 0) {
        ordered->checkpoint = settle->checkpoint;
        ordered->flushed_us = now_us;
        ordered->unflushed_us = 0;
    }
    runner->stale |= settle->ret_generation != runner->definition.generation;
    runner_store_worked(runner);
    runner->stale |= !text_is_absent(settle->pause.reason);
    if (atomic_load(&runner->bus->waiters) > 0) {
        watch_poke(runner->bus);
    }
}

void ordered_not_settled(struct runner *runner, hf_status status)
{
    struct ordered *ordered = runner->ordered;
    pthread_mutex_lock(&runner->mutex);
    for (size_t i = 0; i < ordered->count; i++) {
        ordered->slots[i]->settling = false;
    }
    /* After HF_UNKNOWN nobody knows what is stored: drop all, and load it again. */
    runner->lost |= status == HF_STALE || status == HF_NOTFOUND || status == HF_UNKNOWN;
    pthread_mutex_unlock(&runner->mutex);
    if (status == HF_STALE) {
        runner_say(runner, HF_LOG_WARN, "lost the subscription: %s", err_message());
    } else if (status == HF_NOTFOUND || status == HF_CONFLICT) {
        runner->stale = true; /* removed, or changed: read the definition again */
    } else {
        runner_store_failed(runner, status, "storing progress");
    }
}

/* The outcomes of what was collected. */
static hf_status make_outcomes(struct runner *runner, int64_t now_us, bool *ret_relaxed)
{
    struct ordered *ordered = runner->ordered;
    for (size_t i = 0; i < ordered->count; i++) {
        buf_clear(&ordered->stories[i]);
        hf_status status = runner_outcome(runner, ordered->slots[i], now_us, &ordered->stories[i],
                                          &ordered->outcomes[i]);
        if (status) {
            return status;
        }
        if (ordered->outcomes[i].kind == OUTCOME_DEAD ||
            ordered->outcomes[i].kind == OUTCOME_BLOCK) {
            *ret_relaxed = false;
        }
    }
    return HF_OK;
}

bool ordered_flush(struct runner *runner, int64_t now_us, struct step *step, bool move)
{
    struct ordered *ordered = runner->ordered;
    int64_t checkpoint_at_us = INT64_MAX;
    const uint8_t *last_id = NULL;
    pthread_mutex_lock(&runner->mutex);
    window_reap(&runner->window, &runner->rack);
    ordered->count = 0;
    if (runner->window.ended > 0) {
        collect_ring(ordered, &runner->window.retries);
        collect_ring(ordered, &runner->window.log);
    }
    bool everything = (int64_t)ordered->count == runner->window.ended;
    ordered->settled_before = runner->window.settled;
    int64_t checkpoint = move ? next_checkpoint(runner, &last_id) : -1;
    bool due = checkpoint_due(runner, checkpoint, now_us, &checkpoint_at_us);
    if (move && checkpoint < 0 && ordered->count == 0 && runner->window.settled > 0) {
        /* What is done has been stored (a retry, by its transaction), or lies above a gap: whoever
         * waits for the checkpoint waits in vain. */
        runner->window.settled = 0;
        runner_signal_work(runner);
    }
    pthread_mutex_unlock(&runner->mutex);
    if (checkpoint >= 0 && !due && checkpoint_at_us < step->at_us) {
        step->at_us = checkpoint_at_us;
    }
    if (ordered->count == 0 && !due) {
        return true;
    }
    struct settle settle = {
        .change = {.kind = CHANGE_SETTLE, .relaxed = true, .now_us = now_us},
        .subscription_id = runner->definition.id,
        .partition = PARTITION,
        .epoch = ordered->epoch,
        .generation = move ? ordered->generation : 0,
        .checkpoint = checkpoint,
        .last_event_id = last_id,
        .outcomes = ordered->outcomes,
        .count = ordered->count,
    };
    hf_status status = make_outcomes(runner, now_us, &settle.change.relaxed);
    struct halt halt;
    settle.pause = verdict_halt(&runner->definition.options, ordered->outcomes, ordered->count,
                                runner->bus->node_name, &halt);
    if (!status) {
        HF_POINT("before_settle");
        status = runner_run(runner, &settle.change);
        HF_POINT("after_settle");
    }
    if (status) {
        ordered_not_settled(runner, status);
        step->again |= status == HF_CONFLICT;
        return false;
    }
    settled(runner, &settle, now_us);
    step->again |= !everything;
    return true;
}

/* Stores the outcomes that were collected, and collects from the beginning. */
static hf_status store_done(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    struct settle settle = {
        .change = {.kind = CHANGE_SETTLE, .relaxed = true, .now_us = now_us},
        .subscription_id = runner->definition.id,
        .partition = PARTITION,
        .epoch = ordered->epoch,
        .checkpoint = -1,
        .outcomes = ordered->outcomes,
        .count = ordered->count,
    };
    hf_status status = ordered->count > 0 ? runner_run(runner, &settle.change) : HF_OK;
    ordered->count = 0;
    return status;
}

/* Collects one that is done, and stores them when there are enough. */
static hf_status remember_one(struct runner *runner, int64_t position, uint64_t lane,
                              int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    if (position <= ordered->checkpoint) {
        return HF_OK;
    }
    ordered->outcomes[ordered->count++] =
        (struct outcome){.kind = OUTCOME_DONE, .position = position, .lane = lane};
    return ordered->count == ORDERED_FLUSH_MAX ? store_done(runner, now_us) : HF_OK;
}

hf_status ordered_remember(struct runner *runner, int64_t now_us)
{
    struct ring *ring = &runner->window.log;
    uint64_t position;
    int64_t lane;
    size_t cursor = 0;
    hf_status status = HF_OK;
    runner->ordered->count = 0;
    while (!status && set64_next(&runner->window.early, &cursor, &position, &lane)) {
        status = remember_one(runner, (int64_t)position, (uint64_t)lane, now_us);
    }
    for (uint64_t i = ring->front; i < ring->back && !status; i++) {
        const struct slot *slot = ring_at(ring, i);
        if (slot_is_done(slot)) {
            status = remember_one(runner, slot->entry->event.position, slot->lane, now_us);
        }
    }
    return status ? status : store_done(runner, now_us);
}

bool ordered_verify(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    struct settle settle = {
        .change = {.kind = CHANGE_SETTLE, .relaxed = true, .now_us = now_us},
        .subscription_id = runner->definition.id,
        .partition = PARTITION,
        .epoch = ordered->epoch,
        .generation = runner->definition.generation,
        .checkpoint = -1,
    };
    hf_status status = runner_run(runner, &settle.change);
    ordered->count = 0;
    if (status) {
        ordered_not_settled(runner, status);
        return false;
    }
    ordered->generation = runner->definition.generation;
    return true;
}
