/*
 * settle.c - storing what became of deliveries, and moving the checkpoint.
 *
 * A failing event does not stop the others: its failure is stored as a retry, and later events of
 * its lane are stored as held. Both are rows, so the checkpoint passes them. When the retry has
 * succeeded or died the store makes the lane's next held event due.
 *
 * Outcomes are stored at once, together with the checkpoint they allow; a checkpoint on its own
 * waits for checkpoint_events or checkpoint_ms, because losing it only means delivering again. A
 * runner that has nothing else to do stores it as soon as the last one is spacing_us ago: what is
 * idle has nothing that would come again after a kill, and what gets an event now and then hardly
 * anything. What fails to be stored stays in hand and is tried again.
 *
 * Held ones
 *   A key that always fails would cost a settle for each of its events. What is only held waits for
 *   others of its kind instead, and they are stored by one statement with the checkpoints; not for
 *   long, and not if nothing else is to be done, much has passed them, or another outcome of their
 *   partition goes. Until then it is open as if it had not been run: its partition's checkpoint
 *   stays below it. What is done behind it leaves the window all the same and is remembered
 *   (window.h, `done_ahead`). What can happen meanwhile (e fails, f is a later event of its lane,
 *   held and not stored):
 *
 *   the process dies             f is above the checkpoint and is read again. The lane fails by e's
 *                                row; or e has none yet, then e is above the checkpoint, too, and
 *                                comes before f.
 *   e failed, and is not stored  f must not be stored before e: in a lane without rows it would be
 *                                due at once. So nothing held goes with the checkpoint of a
 *                                partition in which something else has ended.
 *   e's retry is done, stored    f goes with it (ordered_flush_part) and is due, behind whatever
 *   by the dispatcher            waits in the lane.
 *   e's transaction has settled  Nothing waits in the store: f is READY again (window_free_lane).
 *   it and seen none behind      If f is being stored at that moment, or was while e ran, the lane
 *                                goes on failing: the store finds f alone in it, or e's
 *                                transaction has found f, and f is due.
 *   the partition is given back  All that has ended is stored first (ordered_flush_part).
 *   the partition is lost, or    f is dropped and read again above the stored checkpoint, which has
 *   an answer of the store is    passed it only if its row was stored, too.
 */
#include "bus/deliver/ordered/ordered.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/point.h"
#include "base/time/clock.h"
#include "bus/deliver/work/verdict.h"
#include "bus/watch.h"

#define IDLE_CHECKPOINT_US 5000000 /* over events that do not match: after so long */
#define IDLE_APART_US 5000         /* see idle_checkpoint_us */
#define SPACING_US 20000           /* between two checkpoints of a runner that is idle, at least */
#define SPACING_PARTS 10           /* see spacing_us */
#define SPREAD_US 250000           /* see done_checkpoint_us */
#define HELD_WAIT_US 100000        /* the longest that held ones wait to be stored */

/* ---- What ended ------------------------------------------------------------------------------ */

static void collect_queue(struct settlement *settlement, struct queue *queue, int32_t partition)
{
    struct slot *slot = queue->used.first;
    for (; slot && !settlement_full(settlement); slot = slot->next) {
        if (slot->state == SLOT_ENDED && slot->partition == partition) {
            slot_set(slot, TRAIT_SETTLING, true);
            settlement_add(settlement, slot);
        }
    }
}

/* Up to where everything of a partition is settled, if what is being settled is; -1: its checkpoint
 * does not move. After window_survey. */
static int64_t next_checkpoint(const struct runner *runner, const struct part *part,
                               const uint8_t **ret_last_id)
{
    const struct window_share *share = &runner->window.shares[part->number];
    int64_t checkpoint = share->lowest == INT64_MAX ? part->floor : share->lowest - 1;
    checkpoint = checkpoint < part->floor ? checkpoint : part->floor;
    bool known = share->last > part->checkpoint && share->last <= checkpoint;
    *ret_last_id = known ? share->last_id : NULL;
    return checkpoint > part->checkpoint ? checkpoint : -1;
}

/* Deliveries of the slot's lane wait in the store. Without memory to keep its later events back all
 * is dropped, and read anew. The mutex is held. */
static void fail_lane(struct runner *runner, const struct slot *slot)
{
    if (!window_fail_lane(&runner->window, slot->lane, slot->partition)) {
        runner_raise(runner, BAR_LOST);
    }
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
        if (slot->ending == ENDED_HELD) {
            fail_lane(runner, slot);
        } else {
            window_drop_behind(window, outcome->lane, outcome->position);
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
        /* Usually another is before it; if that one has just died or been freed, it is due now. */
        fail_lane(runner, slot);
        if (outcome->ret_due) {
            ordered->retry_at_us = now_us;
        }
        break;
    case OUTCOME_BLOCK:
        window_drop_behind(window, outcome->lane, outcome->position);
        break;
    case OUTCOME_RELEASE:
    case OUTCOME_BEGUN:
        break;
    }
}

/* The outcomes of one partition are stored. */
static void settled(struct runner *runner, struct part *part, const struct settle *settle,
                    int64_t now_us)
{
    struct settlement *settlement = &runner->settlement;
    settlement_told(settlement, runner);
    pthread_mutex_lock(&runner->mutex);
    for (size_t i = 0; i < settlement->count; i++) {
        note_outcome(runner, settlement->slots[i], &settlement->outcomes[i], now_us);
        window_settle(&runner->window, settlement->slots[i]);
    }
    runner->window.settled -= (int64_t)settlement->count; /* they are stored already */
    if (settle->checkpoint >= 0) {
        part->checkpoint = settle->checkpoint;
        window_checkpoint(&runner->window, part->number, part->checkpoint);
    }
    window_reap(&runner->window, &runner->batch_pool);
    bool halting = runner->bars & BAR_HALTING; /* is it paused now? */
    pthread_mutex_unlock(&runner->mutex);
    if (halting || settle->ret_generation != runner->definition.generation ||
        !text_is_absent(settle->pause.reason)) {
        runner_need(runner, NEED_DEFINITION);
    }
    runner_settle_worked(runner);
    if (atomic_load(&runner->bus->waiters) > 0) {
        watch_poke(runner->bus);
    }
}

/* What was collected is for the next time. The mutex is held. */
static void leave(struct settlement *settlement)
{
    for (size_t i = 0; i < settlement->count; i++) {
        slot_set(settlement->slots[i], TRAIT_SETTLING, false);
    }
    settlement_clear(settlement);
}

void ordered_not_settled(struct runner *runner, struct part *part, hf_status status)
{
    pthread_mutex_lock(&runner->mutex);
    leave(&runner->settlement);
    if (status == HF_STALE && part) {
        membership_lose(runner, part->number);
    }
    meter_count(&runner->meter->leases_lost, status == HF_STALE && !part);
    /* After HF_UNKNOWN it is not known what is stored: drop all, and load it again. */
    if (status == HF_NOTFOUND || status == HF_UNKNOWN || (status == HF_STALE && !part)) {
        runner_raise(runner, BAR_LOST);
    }
    pthread_mutex_unlock(&runner->mutex);
    if (ordered_is_answered(status)) {
        runner_settle_refused(runner, status);
    }
    if (status == HF_STALE) {
        runner_say(runner, HF_LOG_WARN, "lost the subscription: %s", err_message());
    } else if (status == HF_NOTFOUND || status == HF_CONFLICT) {
        runner_need(runner, NEED_DEFINITION); /* removed, or changed */
    } else {
        runner_away(runner);
        runner_store_failed(runner, status, "storing progress");
    }
}

hf_status ordered_flush_part(struct runner *runner, struct part *part, int64_t now_us, bool move,
                             bool *ret_all)
{
    struct settlement *settlement = &runner->settlement;
    const uint8_t *last_id = NULL;
    pthread_mutex_lock(&runner->mutex);
    window_reap(&runner->window, &runner->batch_pool);
    settlement_clear(settlement);
    collect_queue(settlement, &runner->window.retries, part->number);
    collect_queue(settlement, &runner->window.log, part->number);
    *ret_all = (int32_t)settlement->count == runner->window.shares[part->number].ended;
    window_survey(&runner->window);
    int64_t checkpoint = move ? next_checkpoint(runner, part, &last_id) : -1;
    pthread_mutex_unlock(&runner->mutex);
    if (settlement->count == 0 && checkpoint < 0) {
        return HF_OK;
    }
    struct settle settle = {
        .change = {.kind = CHANGE_SETTLE, .relaxed = true, .now_us = now_us},
        .subscription_id = runner->definition.id,
        .partition = part->number,
        .epoch = part->epoch,
        .generation = move ? runner->ordered->generation : 0,
        .checkpoint = checkpoint,
        .last_event_id = last_id,
        .outcomes = settlement->outcomes,
    };
    hf_status status = settlement_judge(settlement, runner, &settle.change.relaxed);
    settle.count = settlement->outcome_count;
    struct halt halt;
    settle.pause = verdict_halt(&runner->definition.options, settle.outcomes, settle.count,
                                runner->bus->node_name, &halt);
    if (!status) {
        HF_POINT("before_settle");
        status = runner_run(runner, &settle.change);
        HF_POINT("after_settle");
    }
    if (!status) {
        settled(runner, part, &settle, now_us);
    }
    return status;
}

bool ordered_is_answered(hf_status status)
{
    return status == HF_CONFLICT || status == HF_STALE || status == HF_NOTFOUND;
}

/* Must what ended of the partition be stored now? What is only held may wait for the checkpoints,
 * if those may move. The mutex is held. */
static bool is_pressing(const struct runner *runner, const struct part *part, bool move)
{
    const struct window_share *share = &runner->window.shares[part->number];
    int32_t lingering = move && !runner->window.whole ? share->held : 0;
    return share->ended > lingering && part->state != PART_LOST;
}

/* Stores what ended of every partition. */
static bool flush_ended(struct runner *runner, int64_t now_us, bool move, bool *ret_again)
{
    struct ordered *ordered = runner->ordered;
    for (int32_t i = 0; i < ordered->part_count; i++) {
        struct part *part = &ordered->parts[i];
        pthread_mutex_lock(&runner->mutex);
        bool any = is_pressing(runner, part, move);
        pthread_mutex_unlock(&runner->mutex);
        if (!any) {
            continue;
        }
        bool all;
        hf_status status = ordered_flush_part(runner, part, now_us, move, &all);
        if (status) {
            ordered_not_settled(runner, part, status);
            *ret_again |= ordered_is_answered(status);
            return false;
        }
        *ret_again |= !all;
    }
    return true;
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

/* Is it to be found out whether checkpoints are taken, moved or not (runner_away)? With nothing in
 * hand there is no need to: what is written is news for all, and would make them ask a store that
 * is slow again and again. The mutex is held. */
static bool asks_if_taken(const struct runner *runner)
{
    return (runner->bars & BAR_AWAY) && !runner_is_finishing(runner) && runner_has_work(runner);
}

static int64_t earlier(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

static int64_t later(int64_t a_us, int64_t b_us)
{
    return a_us > b_us ? a_us : b_us;
}

/* How long a checkpoint waits that only events have moved which do not match. An event is that to
 * all subscriptions but a few: those of many runners wait for times of their own, so that they do
 * not store all at once, when a publisher would wait behind them. */
static int64_t idle_checkpoint_us(const struct runner *runner)
{
    int64_t runners = dispatchers_seats(&runner->bus->dispatchers);
    if (runners < RUNNERS_MANY) {
        return IDLE_CHECKPOINT_US;
    }
    uint64_t chance = hash_mix((uint64_t)runner->definition.id);
    return IDLE_CHECKPOINT_US + (int64_t)(chance % (uint64_t)(runners * IDLE_APART_US));
}

/* How long after its last checkpoint an idle runner stores another one. Storing takes a tenth of
 * its time at most, and of many runners none stores more often than if they did so in turns. */
static int64_t spacing_us(const struct runner *runner)
{
    int64_t apart_us = later(SPACING_US, SPACING_PARTS * runner->ordered->storing_us);
    return later(apart_us, runner_apart_us(runner));
}

/* When a checkpoint is stored that done events have moved: checkpoint_ms after the first of them,
 * or before, if nothing else is to be done. Runners that are done with the same event store at the
 * same moment and share commits. When they are so many that a publisher would wait long behind
 * them, each has a time of its own. */
static int64_t done_checkpoint_us(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    if (ordered->unflushed_us == 0 || now_us < ordered->unflushed_us) {
        ordered->unflushed_us = now_us;
    }
    ordered->stored_us = earlier(ordered->stored_us, now_us);
    int64_t at_us = ordered->unflushed_us + runner_checkpoint_us(runner);
    if (runner_has_work(runner) || runner_needs(runner, NEED_LOG_REST)) {
        return at_us;
    }
    int64_t spacing = spacing_us(runner);
    int64_t idle_us = ordered->stored_us + spacing;
    if (spacing >= SPREAD_US) {
        uint64_t chance = hash_mix((uint64_t)runner->definition.id);
        idle_us = later(idle_us, ordered->unflushed_us + (int64_t)(chance % (uint64_t)spacing));
    }
    return earlier(at_us, idle_us);
}

/* Is it time to store checkpoints on their own? If not, *ret_at_us is not later than when it will
 * be. The mutex is held. */
static bool checkpoints_due(struct runner *runner, int64_t now_us, int64_t *ret_at_us)
{
    struct ordered *ordered = runner->ordered;
    const hf_subscription_options *options = &runner->definition.options;
    struct window *window = &runner->window;
    bool at_end = ordered->floor >= ordered->ahead_end;
    if (runner->definition.wanted > 0 || at_end || asks_if_taken(runner)) {
        return true; /* the others wait for it, the reading, or our workers */
    }
    bool pressed = runner->course != COURSE_WORK;
    bool waited_for = atomic_load(&runner->bus->waiters) > 0;
    if (window->settled <= 0 && !runner_needs(runner, NEED_CHECKPOINT)) {
        /* Only events that do not match: no hurry. */
        if (ordered->passed_us == 0 || now_us < ordered->passed_us) {
            ordered->passed_us = now_us;
        }
        int64_t at_us = ordered->passed_us + idle_checkpoint_us(runner);
        *ret_at_us = earlier(*ret_at_us, at_us);
        return pressed || waited_for || now_us >= at_us;
    }
    int64_t at_us = done_checkpoint_us(runner, now_us);
    *ret_at_us = earlier(*ret_at_us, at_us);
    pressed |= waited_for && !runner_has_work(runner);
    return pressed || window->settled >= options->checkpoint_events || now_us >= at_us;
}

void ordered_floor_moved(struct runner *runner, struct turn *turn)
{
    int64_t at_us = INT64_MAX;
    pthread_mutex_lock(&runner->mutex);
    bool due = checkpoints_due(runner, turn->now_us, &at_us);
    pthread_mutex_unlock(&runner->mutex);
    if (due) {
        runner_need(runner, NEED_TURN);
    } else {
        turn_store(turn, at_us);
    }
}

/* Is it time to store the held ones: have they waited long or let much pass, is there nothing else
 * to do? The mutex is held. */
static bool held_due(struct runner *runner, int64_t now_us, int64_t *ret_at_us)
{
    struct ordered *ordered = runner->ordered;
    const struct window *window = &runner->window;
    if (window->held == 0 || window->whole) {
        ordered->held_us = 0;
        return false;
    }
    if (ordered->held_us == 0 || now_us < ordered->held_us) {
        ordered->held_us = now_us;
    }
    int64_t at_us = ordered->held_us + HELD_WAIT_US;
    if (now_us < at_us) { /* afterwards only what is in their way counts, and that will be told */
        *ret_at_us = earlier(*ret_at_us, at_us);
    }
    bool idle = window->ready == 0 && window->busy == 0 &&
                (!runner_needs(runner, NEED_LOG_REST) || atomic_load(&runner->bus->waiters) > 0);
    return now_us >= at_us || idle || window_crowded(window) || runner->course != COURSE_WORK ||
           runner->definition.options.checkpoint_events == 1;
}

/* Collects those that are held, partition by partition, of partitions of which nothing else has to
 * be stored first. The mutex is held. */
static void collect_held(struct runner *runner)
{
    struct ordered *ordered = runner->ordered;
    struct settlement *settlement = &runner->settlement;
    for (int32_t i = 0; i < ordered->part_count; i++) {
        const struct part *part = &ordered->parts[i];
        if (runner->window.shares[part->number].held > 0 && part->state != PART_LOST &&
            !is_pressing(runner, part, true)) {
            collect_queue(settlement, &runner->window.log, part->number);
        }
    }
    for (; settlement->outcome_count < settlement->count; settlement->outcome_count++) {
        const struct slot *slot = settlement->slots[settlement->outcome_count];
        settlement->outcomes[settlement->outcome_count] = (struct outcome){
            .kind = OUTCOME_HELD,
            .position = slot->entry->event.position,
            .lane = slot->lane,
        };
    }
}

/* The checkpoints that have moved; with `held`, those of partitions with held ones, too; all, if it
 * is to be found out whether they are taken. The mutex is held; marks point into the window's
 * shares, which only the dispatcher surveys. */
static size_t collect_marks(struct runner *runner, bool held)
{
    struct ordered *ordered = runner->ordered;
    struct settlement *settlement = &runner->settlement;
    size_t count = 0;
    size_t at = 0;
    bool asks = asks_if_taken(runner);
    settlement_clear(settlement);
    if (held) {
        collect_held(runner);
    }
    window_survey(&runner->window);
    for (int32_t i = 0; i < ordered->part_count; i++) {
        const struct part *part = &ordered->parts[i];
        struct mark mark = {.partition = part->number, .epoch = part->epoch};
        mark.checkpoint = next_checkpoint(runner, part, &mark.last_event_id);
        mark.held = &settlement->outcomes[at];
        for (; at < settlement->count && settlement->slots[at]->partition == part->number; at++) {
            mark.held_count++;
        }
        if (mark.checkpoint < 0 && (mark.held_count > 0 || asks)) {
            mark.checkpoint = part->checkpoint;
            mark.last_event_id = NULL;
        }
        if (mark.checkpoint >= 0 && part->state != PART_LOST) {
            ordered->marks[count++] = mark;
        }
    }
    return count;
}

/* The held ones of a mark are stored, or not if it is stale. Answers how many. The mutex is
 * held. */
static size_t note_held(struct runner *runner, const struct mark *mark, int64_t now_us)
{
    struct settlement *settlement = &runner->settlement;
    struct slot **slots = settlement->slots + (mark->held - settlement->outcomes);
    for (size_t i = 0; i < mark->held_count; i++) {
        slot_set(slots[i], TRAIT_SETTLING, false);
        if (!mark->ret_stale) {
            note_outcome(runner, slots[i], &mark->held[i], now_us);
            window_settle(&runner->window, slots[i]);
        }
    }
    return mark->ret_stale ? 0 : mark->held_count;
}

/* The marks are stored. */
static void marked(struct runner *runner, const struct checkpoints *checkpoints,
                   int64_t settled_before, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    bool lost = false;
    size_t held = 0;
    bool moved = false;
    pthread_mutex_lock(&runner->mutex);
    for (size_t i = 0; i < checkpoints->count; i++) {
        const struct mark *mark = &checkpoints->marks[i];
        held += note_held(runner, mark, now_us);
        if (mark->ret_stale) {
            membership_lose(runner, mark->partition);
            lost = true;
        } else {
            struct part *part = ordered_part(ordered, mark->partition);
            moved |= part->checkpoint < mark->checkpoint;
            part->checkpoint = mark->checkpoint;
            window_checkpoint(&runner->window, part->number, part->checkpoint);
        }
    }
    /* What ended while the store was busy is for the next time. */
    runner->window.settled -= (int64_t)held + settled_before;
    window_reap(&runner->window, &runner->batch_pool);
    pthread_mutex_unlock(&runner->mutex);
    if (lost) {
        membership_say_lost(runner, checkpoints->ret_generation);
    } else if (checkpoints->ret_generation != runner->definition.generation) {
        runner_need(runner, NEED_DEFINITION);
    }
    ordered->passed_us = 0;
    ordered->unflushed_us = 0;
    ordered->held_us = held > 0 ? 0 : ordered->held_us; /* others may be held by now */
    if (moved) {
        runner_take(runner, NEED_CHECKPOINT);
    } else if (settled_before > 0) {
        runner_need(runner, NEED_CHECKPOINT);
    }
    runner_settle_worked(runner);
    if (atomic_load(&runner->bus->waiters) > 0) {
        watch_poke(runner->bus);
    }
}

/* Stores the checkpoints that have moved, and what is held, when it is time. */
static bool flush_checkpoints(struct runner *runner, struct turn *turn, bool *ret_again)
{
    struct ordered *ordered = runner->ordered;
    int64_t now_us = turn->now_us;
    int64_t at_us = INT64_MAX;
    pthread_mutex_lock(&runner->mutex);
    window_reap(&runner->window, &runner->batch_pool);
    bool held = held_due(runner, now_us, &at_us);
    int64_t settled_before = runner->window.settled;
    bool asks = asks_if_taken(runner);
    struct checkpoints checkpoints = {
        .change = {.kind = CHANGE_CHECKPOINTS, .relaxed = true, .now_us = now_us},
        .subscription_id = runner->definition.id,
        .generation = ordered->generation,
        .marks = ordered->marks,
        .count = collect_marks(runner, held),
    };
    bool due = checkpoints.count > 0 && (checkpoints_due(runner, now_us, &at_us) || held);
    if (checkpoints.count == 0 && settled_before > 0) {
        /* What is done has been stored (a retry, by its transaction), or lies above a gap: a worker
         * that waits for the checkpoint waits in vain. */
        runner->window.settled = 0;
        ordered->unflushed_us = 0;
        runner_need(runner, NEED_CHECKPOINT);
        runner_signal_work(runner);
    }
    pthread_mutex_unlock(&runner->mutex);
    if (!due) {
        turn_store(turn, at_us);
        return true;
    }
    *ret_again |= settlement_full(&runner->settlement);
    int64_t begun_us = clock_mono_us();
    HF_POINT("before_settle");
    hf_status status = runner_run(runner, &checkpoints.change);
    HF_POINT("after_settle");
    if (status) {
        ordered_not_settled(runner, NULL, status);
        *ret_again |= ordered_is_answered(status);
        return false;
    }
    marked(runner, &checkpoints, settled_before, now_us);
    ordered->stored_us = clock_wall_us();
    ordered->storing_us = clock_mono_us() - begun_us;
    if (asks) {
        runner_back(runner);
    }
    return true;
}

bool ordered_flush(struct runner *runner, struct turn *turn, bool move, bool *ret_again)
{
    if (!flush_ended(runner, turn->now_us, move, ret_again)) {
        return false;
    }
    HF_POINT("before_marks");
    return !move || flush_checkpoints(runner, turn, ret_again);
}

/* ---- What is done, but not up to a checkpoint ------------------------------------------------ */

/* Stores the outcomes that were collected, and collects from the beginning. */
static hf_status store_done(struct runner *runner, const struct part *part, int64_t now_us)
{
    struct settlement *settlement = &runner->settlement;
    struct settle settle = {
        .change = {.kind = CHANGE_SETTLE, .relaxed = true, .now_us = now_us},
        .subscription_id = runner->definition.id,
        .partition = part->number,
        .epoch = part->epoch,
        .checkpoint = -1,
        .outcomes = settlement->outcomes,
        .count = settlement->outcome_count,
    };
    hf_status status = settle.count > 0 ? runner_run(runner, &settle.change) : HF_OK;
    settlement_clear(settlement);
    return status;
}

/* Collects one that is done. True: that was as much as can be stored at once. */
static bool collect_done(struct runner *runner, const struct part *part, int64_t position)
{
    struct settlement *settlement = &runner->settlement;
    if (position > part->checkpoint) {
        settlement->outcomes[settlement->outcome_count++] =
            (struct outcome){.kind = OUTCOME_DONE, .position = position};
    }
    return settlement->outcome_count == settlement->max;
}

/* Collects what is still in the window, from `*at` on. True: there may be more. The mutex is
 * held. */
static bool collect_log_done(struct runner *runner, const struct part *part, const struct slot **at)
{
    bool full = false;
    for (; *at && !full; *at = (*at)->next) {
        const struct slot *slot = *at;
        if (slot->partition == part->number && slot_is_done(slot)) {
            full = collect_done(runner, part, slot->entry->event.position);
        }
    }
    return full;
}

/* Collects what has left it, from `*at` on. True: there may be more. */
static bool collect_done_ahead(struct runner *runner, const struct part *part, size_t *at)
{
    const struct done_ahead *done_ahead = &runner->window.done_ahead;
    bool full = false;
    for (; *at < done_ahead->count && !full; (*at)++) {
        if (done_ahead->events[*at].partition == part->number) {
            full = collect_done(runner, part, done_ahead->events[*at].position);
        }
    }
    return full;
}

hf_status ordered_remember(struct runner *runner, const struct part *part, int64_t now_us)
{
    hf_status status = HF_OK;
    size_t done_ahead = 0;
    const struct slot *at = runner->window.log.used.first;
    settlement_clear(&runner->settlement);
    for (bool more = true; more && !status;) {
        pthread_mutex_lock(&runner->mutex);
        more = collect_done_ahead(runner, part, &done_ahead) || collect_log_done(runner, part, &at);
        pthread_mutex_unlock(&runner->mutex);
        status = store_done(runner, part, now_us);
    }
    return status;
}
