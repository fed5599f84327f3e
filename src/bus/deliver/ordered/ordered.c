/*
 * ordered.c - the ordered mode: own partitions, read the log, move their checkpoints.
 *
 * The checkpoint says: everything up to here is settled. It moves over events that are done, over
 * events that do not match, and over those that have a row in the store (waiting, held, dead).
 * Reading is ahead of it by what is in the window.
 *
 *          settled            in the window              not read yet
 *     ---------------|------------------------------|-------------------->  positions
 *                checkpoint                       floor                  head
 *
 * membership.c shares the partitions out and owns ours; settle.c stores what became of deliveries
 * and moves the checkpoints; fill.c gets new ones into the window. This file puts them
 * together.
 *
 * Exactly one process owns a partition; every settle carries the epoch of the ownership and is
 * refused when another process has taken over. When the patterns have changed all is given back and
 * taken again, with what is done remembered first: nothing that was read by the old ones may move a
 * checkpoint.
 */
#include "bus/deliver/ordered/ordered.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/time/clock.h"
#include "bus/deliver/departures.h"
#include "store/cancel.h"

#define CLOCK_TOLERANCE_US 1000000
#define PASSED_MAX 65536 /* retries that are passed over for the sake of a unit */
#define FINISH_TRIES 3   /* against others who change the subscription meanwhile */

static void free_room(struct ordered *ordered)
{
    mem_free(ordered->parts);
    mem_free(ordered->marks);
    mem_free(ordered->places);
    mem_free(ordered->owing);
}

hf_status ordered_make_room(struct ordered *ordered, int32_t partitions)
{
    size_t room = (size_t)partitions;
    struct part *parts = mem_calloc(room, sizeof *parts);
    struct mark *marks = mem_calloc(room, sizeof *marks);
    int16_t *places = mem_alloc(room * sizeof *places);
    int64_t *owing = mem_calloc(room, sizeof *owing);
    if (!parts || !marks || !places || !owing) {
        mem_free(parts);
        mem_free(marks);
        mem_free(places);
        mem_free(owing);
        return fail(HF_NOMEM, "out of memory for %d partitions", partitions);
    }
    for (int32_t i = 0; i < partitions; i++) {
        places[i] = -1;
        owing[i] = i < ordered->room ? ordered->owing[i] : 0;
    }
    free_room(ordered);
    ordered->parts = parts;
    ordered->marks = marks;
    ordered->places = places;
    ordered->owing = owing;
    ordered->room = partitions;
    return HF_OK;
}

hf_status ordered_new(int32_t partitions, struct ordered **ret_ordered)
{
    struct ordered *ordered = mem_calloc(1, sizeof *ordered);
    hf_status status = ordered ? ordered_make_room(ordered, partitions)
                               : fail(HF_NOMEM, "out of memory for a subscription");
    if (status) {
        mem_free(ordered);
        return status;
    }
    ordered->ahead_end = INT64_MAX;
    set64_init(&ordered->ahead, WINDOW_LANES_MAX);
    set64_init(&ordered->handed, WINDOW_LANES_MAX);
    set64_init(&ordered->passed, PASSED_MAX);
    set64_init(&ordered->passed_lanes, PASSED_MAX);
    *ret_ordered = ordered;
    return HF_OK;
}

void ordered_free(struct ordered *ordered)
{
    if (!ordered) {
        return;
    }
    follower_close(ordered->follower);
    set64_release(&ordered->ahead);
    set64_release(&ordered->handed);
    set64_release(&ordered->passed);
    set64_release(&ordered->passed_lanes);
    free_room(ordered);
    mem_free(ordered);
}

struct hold ordered_hold(struct ordered *ordered, int32_t partition)
{
    const struct part *part = ordered_part(ordered, partition);
    return (struct hold){.partition = partition, .epoch = part ? part->epoch : 0};
}

bool ordered_is_strict(const struct runner *runner)
{
    return runner->definition.options.order == HF_ORDER_STRICT;
}

/* ---- Requests to cancel ---------------------------------------------------------------------- */

bool ordered_seek_out(struct runner *runner, struct cancel *cancel)
{
    struct ordered *ordered = runner->ordered;
    int32_t number = hash_slice(cancel->hash, runner->window.partitions);
    const struct part *part = ordered_part(ordered, number);
    if (!part || part->state != PART_OURS) {
        return false;
    }
    bool handed = set64_get(&ordered->handed, (uint64_t)cancel->position, NULL);
    bool unread = cancel->position > part->floor && !handed;
    cancel->part = !unread                 ? CANCEL_WAITING
                   : ordered->handed_short ? CANCEL_REQUEST
                                           : CANCEL_UNREAD;
    cancel->hold = ordered_hold(ordered, number);
    cancel->hold.subscription_id = cancel->subscription_id;
    return true;
}

void ordered_pass_over(struct runner *runner, const struct cancel *cancel)
{
    int32_t number = hash_slice(cancel->hash, runner->window.partitions);
    if (set64_put(&runner->ordered->ahead, (uint64_t)cancel->position, number)) {
        runner_raise(runner, BAR_LOST); /* it cannot be remembered: all is loaded again */
    }
}

/* ---- The mode -------------------------------------------------------------------------------- */

/* Remembers what is done of every partition. False: it could not be stored. */
static bool remember_all(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    for (int32_t i = 0; i < ordered->part_count; i++) {
        struct part *part = &ordered->parts[i];
        hf_status status =
            part->state == PART_LOST ? HF_OK : ordered_remember(runner, part, now_us);
        if (status) {
            ordered_not_settled(runner, part, status);
            return false;
        }
    }
    return true;
}

/* The definition has changed, but not the reading: what is in hand may be settled by it, if it is
 * still ours. */
static bool verify(struct runner *runner)
{
    int64_t generation = runner->definition.generation;
    if (!membership_check(runner, generation)) {
        return false;
    }
    runner->ordered->generation = generation;
    runner_take(runner, NEED_OWNERSHIP);
    return true;
}

/* The log would be read differently now: nothing that was read by the old patterns may move the
 * checkpoint; or what the store knows is to be loaded again. No handler runs any more: what is done
 * is remembered, the rest is dropped, and reading begins again at the checkpoint. */
static void reset(struct runner *runner, struct turn *turn)
{
    bool again;
    do {
        again = false;
        if (!ordered_flush(runner, turn, false, &again)) {
            return;
        }
    } while (again);
    if (remember_all(runner, turn->now_us)) {
        membership_give_back(runner,
                             turn->now_us); /* a process whose handlers cover them may have it */
        runner_need(runner, NEED_TURN);
    }
}

/* Is all done up to where it is known what was done ahead? */
static bool is_at_end(const struct runner *runner)
{
    const struct ordered *ordered = runner->ordered;
    const struct window *window = &runner->window;
    bool empty = window->ready == 0 && window->busy == 0 && window->ended == 0;
    bool at_end = empty && ordered->floor >= ordered->ahead_end;
    for (int32_t i = 0; i < ordered->part_count && at_end; i++) {
        at_end = ordered->parts[i].checkpoint >= ordered->parts[i].floor;
    }
    return at_end;
}

/* Can more be known of the store than could be when it was loaded? */
static bool knows_too_little(struct runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    bool little = window_knows_lanes(&runner->window) || is_at_end(runner);
    pthread_mutex_unlock(&runner->mutex);
    return little;
}

/* Gets deliveries. The first ones after a while may come in a time in which it is not known whether
 * what ends is taken (runner_away): the next turn finds that out. */
static void fill(struct runner *runner, enum action action, struct turn *turn)
{
    pthread_mutex_lock(&runner->mutex);
    bool had_work = runner_has_work(runner);
    pthread_mutex_unlock(&runner->mutex);
    if (action == ACTION_RETRIES) {
        ordered_fill_from_retries(runner, turn);
    } else {
        ordered_fill_from_log(runner, turn);
    }
    pthread_mutex_lock(&runner->mutex);
    if ((runner->bars & BAR_AWAY) && !had_work && runner_has_work(runner)) {
        runner_need(runner, NEED_TURN);
    }
    pthread_mutex_unlock(&runner->mutex);
}

static void settle(struct runner *runner, struct turn *turn)
{
    bool again = false;
    bool settled =
        cancels_answer(runner, turn->now_us) && ordered_flush(runner, turn, true, &again);
    runner_need(runner, again ? NEED_TURN : 0);
    if (!settled) {
        turn->steps &= ~(STEP(ACTION_RETRIES) | STEP(ACTION_LOG));
    } else if (knows_too_little(runner)) {
        runner_need(runner, NEED_RESET);
    }
}

static void tend(struct runner *runner, struct turn *turn)
{
    struct ordered *ordered = runner->ordered;
    if (turn->now_us < ordered->seen_us - CLOCK_TOLERANCE_US) {
        /* The clock was set back. Refreshing the members is a write, on which the store minds
         * the clock. */
        runner_need(runner, NEED_MEMBERS | NEED_RETRIES);
    }
    ordered->seen_us = turn->now_us;
    if (membership_make_room(runner)) {
        membership_tend(runner, turn);
    }
}

static void ordered_perform(struct runner *runner, enum action action, struct turn *turn)
{
    switch (action) {
    case ACTION_DROP:
        membership_drop(runner);
        runner_need(runner, NEED_MEMBERS | NEED_TURN);
        break;
    case ACTION_CHECK:
        verify(runner);
        break;
    case ACTION_ADMIT:
        runner_admit(runner);
        break;
    case ACTION_TEND:
        tend(runner, turn);
        break;
    case ACTION_RESET:
        reset(runner, turn);
        break;
    case ACTION_SETTLE:
        settle(runner, turn);
        break;
    case ACTION_RETRIES:
    case ACTION_LOG:
        fill(runner, action, turn);
        break;
    default:
        break;
    }
}

static void ordered_survey(struct runner *runner, struct situation *situation)
{
    situation->hand |= runner->ordered->part_count > 0 ? HAND_OWNED : 0;
    situation->retry_us = runner->ordered->retry_at_us;
}

static void ordered_adopt(struct runner *runner, bool differs)
{
    struct ordered *ordered = runner->ordered;
    bool owns = ordered->part_count > 0;
    runner_need(runner, differs ? NEED_RESET : 0);
    if (owns && ordered->generation != runner->definition.generation) {
        runner_need(runner, NEED_OWNERSHIP);
    }
    if (owns && runner->definition.options.partitions != runner->window.partitions) {
        /* Others have changed the number of partitions, which they can only if they took us for
         * dead: the numbers in hand mean other keys now, and none of them is ours. */
        pthread_mutex_lock(&runner->mutex);
        runner_raise(runner, BAR_LOST);
        pthread_mutex_unlock(&runner->mutex);
    }
}

/* ---- The end --------------------------------------------------------------------------------- */

static bool is_barred(struct runner *runner, uint32_t bars)
{
    pthread_mutex_lock(&runner->mutex);
    bool barred = runner->bars & bars;
    pthread_mutex_unlock(&runner->mutex);
    return barred;
}

/* Stores what is left to be stored. False: it could not be. */
static bool store_the_rest(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    for (int tries = 0; tries < FINISH_TRIES; tries++) {
        if (tries > 0 && deadline_passed(runner->finish_deadline)) {
            return false;
        }
        if (tries > 0 ||
            runner_needs(runner,
                         NEED_DEFINITION)) { /* else a settle by older patterns would be refused */
            runner_refresh(runner, clock_mono_us());
        }
        bool changed = ordered->generation != runner->definition.generation;
        if (changed && !runner_needs(runner, NEED_RESET) && !verify(runner)) {
            continue;
        }
        /* What was read by older patterns must not move the checkpoint. */
        bool move = !runner_needs(runner, NEED_RESET);
        struct turn turn = {.now_us = now_us, .wake_us = INT64_MAX};
        bool again = true;
        bool ok = true;
        while (ok && again) {
            again = false;
            ok = ordered_flush(runner, &turn, move, &again);
        }
        /* Where it is not known what was stored nothing is stored twice: what is edited in a dead
         * letter goes with its first death. That something is done may be said twice. */
        if (ok || is_barred(runner, BAR_LOST)) {
            return remember_all(runner, now_us);
        }
    }
    return false;
}

/* The lowest checkpoint that is stored. */
static int64_t lowest_checkpoint(const struct ordered *ordered)
{
    int64_t lowest = INT64_MAX;
    for (int32_t i = 0; i < ordered->part_count; i++) {
        int64_t checkpoint = ordered->parts[i].checkpoint;
        lowest = checkpoint < lowest ? checkpoint : lowest;
    }
    return lowest;
}

/* Another thread gives back all that is ours, and leaves the members (departures.h). */
static void forget_ours(struct runner *runner)
{
    membership_drop(runner);
    runner_need(runner, NEED_MEMBERS);
    runner->ordered->membership = MEMBERSHIP_NONE;
}

static hf_status ordered_finish(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    bool ours = ordered->part_count > 0 && !is_barred(runner, BAR_LOST | BAR_REMOVED);
    bool stored =
        !ours || store_the_rest(runner, now_us) || is_barred(runner, BAR_LOST | BAR_REMOVED);
    int64_t checkpoint = lowest_checkpoint(ordered);
    bool left = membership_give_back_pending(runner, now_us);
    bool together = left && !is_barred(runner, BAR_REMOVED) &&
                    runner->finish_course == COURSE_HALT && departures_add(runner);
    if (together) {
        forget_ours(runner);
    } else {
        left = membership_give_back(runner, now_us) && left;
    }
    if (!together && !is_barred(runner, BAR_REMOVED)) {
        left = membership_leave(runner, now_us) == HF_OK && left;
    }
    ordered->owned_before = false;
    if (!stored) {
        return fail(HF_TIMEOUT,
                    "%s: progress could not be stored; events after position %lld come again",
                    runner->name, (long long)checkpoint);
    }
    return left ? HF_OK
                : fail(HF_TIMEOUT,
                       "%s: partitions could not be given back; until the bus is stopped again or "
                       "closed no other process has them",
                       runner->name);
}

const struct runner_mode ordered_mode = {
    .steps = STEP(ACTION_TEND) | STEP(ACTION_SETTLE) | STEP(ACTION_RETRIES) | STEP(ACTION_LOG),
    .survey = ordered_survey,
    .perform = ordered_perform,
    .adopt = ordered_adopt,
    .finish = ordered_finish,
};
