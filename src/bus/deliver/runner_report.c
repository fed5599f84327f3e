/*
 * runner_report.c - what workers ask and report, and what happens when one does not.
 *
 * Everything here runs under the runner's mutex: workers come with a chunk that has ended, the
 * timekeeper looks for handlers whose time is up.
 */
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/time/clock.h"
#include "bus/deliver/runner.h"
#include "bus/options.h"

#define CHUNK_WANTED_US 200 /* several handlers at once: a chunk should take this long */
#define LOOK_AGAIN_US 20000 /* a handler that is over its time has not begun, or has just ended */
#define ABORT_PAUSE_US_MIN 1000  /* first pause between two tries to roll back a handler's work */
#define ABORT_PAUSE_US_MAX 64000 /* longest pause, for a statement that does not end */

bool runner_has_work(const struct runner *runner)
{
    return runner->window.ready > 0 || runner->window.busy > 0;
}

/* Has an answer of the store been waited for so long that what ends may not be stored? See
 * runner_away. */
static bool is_late(const struct runner *runner)
{
    return runner->asked_us > 0 && (store_is_away(runner->bus->store) ||
                                    clock_mono_us() - runner->asked_us >= RUNNER_LATE_US);
}

uint32_t runner_bars(const struct runner *runner)
{
    uint32_t bars = runner->bars & ~(uint32_t)BAR_AWAY;
    bool may_be_away = runner->ordered && runner->definition.options.transactional != HF_ON;
    if (may_be_away && ((runner->bars & BAR_AWAY) || is_late(runner))) {
        bars |= BAR_AWAY;
    }
    if (runner_needs(runner, NEED_RESET)) {
        bars |= BAR_RESET;
    }
    switch (runner->course) {
    case COURSE_HALT:
        return bars | BAR_STOPPING;
    case COURSE_RETIRE:
        return bars | BAR_RETIRING;
    case COURSE_WORK:
        break;
    }
    return bars;
}

/* What is only held may wait (settle.c), unless units would be torn apart. */
bool runner_is_urgent(const struct runner *runner)
{
    const struct window *window = &runner->window;
    return window->ended > (window->whole ? 0 : window->held);
}

int64_t runner_rate_left(const struct runner *runner)
{
    if (runner->definition.options.rate_events == 0) {
        return INT64_MAX;
    }
    bool over = runner->rate_left > 0 && clock_mono_us() >= runner->rate_until_us;
    return over ? 0 : runner->rate_left;
}

void runner_rate_charge(struct runner *runner, const struct unit *unit)
{
    if (runner->definition.options.rate_events == 0) {
        return;
    }
    for (size_t i = 0; i < unit->count; i++) {
        slot_set(unit->slots[i], TRAIT_RATED, true);
    }
    runner->rate_left -= (int64_t)unit->count;
    if (runner->rate_left <= 0) {
        runner_call(runner, NEED_TURN); /* for more */
    }
}

/* May a worker begin something? */
static bool may_begin(const struct runner *runner)
{
    const hf_subscription_options *options = &runner->definition.options;
    const struct window *window = &runner->window;
    if (window->ready == 0 || runner_bars(runner)) {
        return false;
    }
    if (options->checkpoint_events == 1 && options->concurrency == 1 &&
        window->settled + window->ended > 0) {
        return false; /* the checkpoint of the last one comes first */
    }
    return (runner->rest_until_us == 0 || clock_mono_us() >= runner->rest_until_us) &&
           runner_rate_left(runner) > 0;
}

void runner_start_worker(struct runner *runner)
{
    if (runner->idle > 0 || runner->course != COURSE_WORK ||
        runner->worker_count >= runner->definition.options.concurrency || !may_begin(runner)) {
        return;
    }
    if (worker_start(runner)) { /* the next turn tries again; while there is work one comes */
        snprintf(runner->trouble, sizeof runner->trouble, "cannot start a worker: %s",
                 err_message());
    }
}

void runner_signal_work(struct runner *runner)
{
    if (runner->window.ready == 0) {
        return;
    }
    if (runner->idle == 0) {
        runner_start_worker(runner);
    } else if (runner->idle == 1 || runner->window.ready == 1) {
        pthread_cond_signal(&runner->work);
    } else {
        pthread_cond_broadcast(&runner->work);
    }
}

/* How many units are a good chunk, if any number may begin. */
static size_t chunk_wanted(const struct runner *runner)
{
    const hf_subscription_options *options = &runner->definition.options;
    if (runner_breaks(runner) || runner->singly > 0 || options->checkpoint_events == 1) {
        return 1;
    }
    if (options->concurrency == 1) {
        return CHUNK_MAX;
    }
    int64_t share = runner->window.ready / options->concurrency;
    int64_t quick = CHUNK_WANTED_US / (runner->handler_us + 1);
    int64_t size = share < quick ? share : quick;
    return size < 1 ? 1 : size > CHUNK_MAX ? CHUNK_MAX : (size_t)size;
}

size_t runner_chunk_size(struct runner *runner)
{
    if (!may_begin(runner)) {
        return 0;
    }
    size_t wanted = chunk_wanted(runner);
    wanted = wanted < runner->limits.per_chunk ? wanted : runner->limits.per_chunk;
    int64_t left = runner_rate_left(runner);
    return left < (int64_t)wanted ? (size_t)left : wanted;
}

struct hold runner_hold(const struct runner *runner, const struct slot *slot)
{
    struct hold hold = {.leased = false};
    if (runner->ordered) {
        hold = ordered_hold(runner->ordered, slot->partition);
    }
    hold.subscription_id = runner->definition.id;
    if (slot->lease) {
        hold.leased = true;
        memcpy(hold.lease, lease_token(slot->lease), sizeof hold.lease);
    }
    return hold;
}

void runner_lose(struct runner *runner, const struct slot *slot)
{
    if (slot->lease) {
        lease_lose(runner, slot->lease);
    } else {
        membership_lose(runner, slot->partition);
    }
}

static void tell_breaker(struct runner *runner, struct slot *slot, bool ok)
{
    if (!runner_breaks(runner)) {
        return;
    }
    struct breaker_policy policy = options_breaker(&runner->definition.options);
    int64_t now_us = clock_wall_us();
    if (slot_is(slot, TRAIT_PROBE)) {
        breaker_report_probe(&runner->breaker, &policy, ok, now_us);
        runner_need(runner, NEED_BREAKER);
        slot_set(slot, TRAIT_PROBE, false);
    } else if (breaker_report(&runner->breaker, &policy, slot->entry->attempts + 1, ok, now_us)) {
        runner_need(runner, NEED_BREAKER);
        runner_raise(runner, BAR_BREAKER);
    }
}

/* The breaker learns how the attempt ended: a unit is one attempt to it. */
static void note_attempt(struct runner *runner, struct slot *slot, hf_verdict verdict)
{
    if (slot_is(slot, TRAIT_FOLLOWS)) {
        slot_set(slot, TRAIT_FOLLOWS, false);
    } else if (verdict != HF_RETRY_UNCOUNTED) {
        tell_breaker(runner, slot, verdict == HF_ACK);
    } else if (slot_is(slot, TRAIT_PROBE)) {
        breaker_abandon_probe(&runner->breaker, clock_wall_us());
        slot_set(slot, TRAIT_PROBE, false);
    }
}

/* Does the event die of this verdict? */
static bool is_last(const struct runner *runner, const struct slot *slot, hf_verdict verdict)
{
    bool spent = slot_is(slot, TRAIT_SPLITTING) ||
                 slot->entry->attempts + 1 >= runner->definition.options.attempts_max;
    return verdict == HF_DEAD || verdict == HF_UNDECODABLE || (verdict == HF_RETRY && spent);
}

/* It has failed: its lane waits behind it, unless it is `passed`. */
static void hold_lane(struct runner *runner, const struct slot *slot, bool passed)
{
    if (!passed && !window_fail_lane(&runner->window, slot->lane, slot->partition)) {
        runner_raise(runner, BAR_LOST); /* cannot hold it back: drop all, it will come again */
    }
}

/* It waited, and its transaction has settled it: the lane's next may be due. The dispatcher may
 * have stored events behind it since its transaction has looked. */
static void release_lane(struct runner *runner, const struct slot *slot,
                         const struct chunk_result *result)
{
    if (result->before) {
        runner_raise(runner, BAR_LOST); /* what waits behind it is not known: drop all */
    } else if (!result->lane_busy && !slot_is(slot, TRAIT_FOLLOWED)) {
        window_free_lane(&runner->window, slot->lane);
    }
    runner_call(runner, NEED_RETRIES);
}

static void count_ended(const struct runner *runner, const struct slot *slot,
                        const struct chunk_result *result)
{
    bool ok = result->verdict == HF_ACK;
    atomic_fetch_add(ok ? &runner->bus->delivered : &runner->bus->failed, 1);
    if (ok && !result->before) { /* else it was counted when it ran */
        meter_count(&runner->meter->delivered, 1);
        timing_add(&runner->meter->end_to_end, result->at_us - slot->entry->event.entered_at_us);
    }
}

void runner_slot_ended(struct runner *runner, struct slot *slot, struct chunk_result *result,
                       bool in_tx)
{
    struct window *window = &runner->window;
    bool ok = result->verdict == HF_ACK;
    bool dies = is_last(runner, slot, result->verdict);
    bool halts = dies && runner->definition.options.on_poison == HF_POISON_HALT;
    count_ended(runner, slot, result);
    note_attempt(runner, slot, result->verdict);
    slot->ending = ENDED_VERDICT;
    slot->verdict = result->verdict;
    slot->cause = result->cause;
    slot->error = result->error;
    slot->wait_ms = result->wait_ms;
    slot_set(slot, TRAIT_IN_TX, in_tx);
    if (halts) {
        runner_raise(runner, BAR_HALTING); /* the subscription pauses: nothing more begins */
    }
    if (window->lanes && !ok) {
        /* What is alone after its unit was split dies, and the rest of the unit follows at once. */
        hold_lane(runner, slot, slot_is(slot, TRAIT_SPLITTING) && dies && !halts);
    } else if (window->lanes && in_tx && slot_is(slot, TRAIT_WAITED)) {
        release_lane(runner, slot, result);
    }
    if (window->lanes && ok && (in_tx || !slot_is(slot, TRAIT_WAITED))) {
        window_settle(window, slot);
    } else {
        window_end(window, slot);
    }
}

void runner_slot_untaken(struct runner *runner, struct slot *slot)
{
    if (slot_is(slot, TRAIT_PROBE)) {
        breaker_abandon_probe(&runner->breaker, clock_wall_us());
        slot_set(slot, TRAIT_PROBE, false);
    }
    if (slot_is(slot, TRAIT_RATED)) {
        slot_set(slot, TRAIT_RATED, false);
        runner->rate_left++;
    }
    window_untake(&runner->window, slot);
}

void runner_chunk_reported(struct runner *runner, size_t done, int64_t took_us)
{
    if (done > 0) {
        runner->handler_us = (7 * runner->handler_us + took_us / (int64_t)done) / 8;
    }
    struct window *window = &runner->window;
    const hf_subscription_options *options = &runner->definition.options;
    bool low = window->ready <= options->inflight_max / 2;
    bool due = window->settled >= options->checkpoint_events ||
               (window->settled > 0 && options->checkpoint_ms < RUNNER_PROMPT_MS);
    if (low || due || runner_needs(runner, NEED_TURN) || window->closed > 0 ||
        runner_is_urgent(runner) || runner_bars(runner) || atomic_load(&runner->cancels.open) ||
        atomic_load(&runner->bus->waiters) > 0) {
        runner_call(runner, NEED_TURN); /* also in the middle of a step: it looks once more */
    }
    runner_signal_work(runner);
}

/* ---- Timeouts -------------------------------------------------------------------------------- */

static int64_t timeout_us(const struct runner *runner)
{
    const hf_subscription_options *options = &runner->definition.options;
    int64_t ms = options->handler_timeout_ms;
    if (options->transactional == HF_ON && options->tx_max_ms < ms) {
        ms = options->tx_max_ms;
    }
    return ms * 1000;
}

/* The turn was taken from the worker, which is stuck now. If its transaction could not be rolled
 * back at once that is tried again. */
static void gave_up(struct runner *runner, struct worker *worker)
{
    worker->abort_at_us = INT64_MAX;
    if (worker->tx && !tx_abort(worker->tx)) {
        worker->abort_pause_us = ABORT_PAUSE_US_MIN;
        worker->abort_at_us = clock_mono_us() + ABORT_PAUSE_US_MIN;
        worker->next = runner->aborting;
        runner->aborting = worker;
    }
    runner_call(runner, 0); /* another worker has to take its place */
}

static void end_by_timeout(struct runner *runner, struct worker *worker, struct unit *unit)
{
    char error[128];
    snprintf(error, sizeof error, "the handler did not return within %lld ms",
             (long long)(timeout_us(runner) / 1000));
    struct chunk_result result = {.verdict = HF_RETRY, .cause = CAUSE_TIMEOUT};
    result.error = mem_dup(error, strlen(error));
    chunk_end(&worker->chunk, unit, &result);
}

/* Takes the turn of the worker if its time is up; answers when to look at it again. */
static int64_t keep_time_of(struct runner *runner, struct worker *worker, int64_t mono_us)
{
    struct chunk_place place;
    struct unit *unit;
    if (!chunk_look(&worker->chunk, &place)) {
        return INT64_MAX;
    }
    int64_t limit_us = (place.running ? place.since_us : mono_us) + timeout_us(runner);
    int64_t stop_us = runner->course == COURSE_HALT ? runner->stop_deadline.mono_us : INT64_MAX;
    if (limit_us > mono_us && stop_us > mono_us) {
        return limit_us < stop_us ? limit_us : stop_us;
    }
    if (!place.running || !worker_give_up(worker, place.turn, &unit)) {
        return mono_us + LOOK_AGAIN_US;
    }
    if (limit_us <= mono_us) {
        end_by_timeout(runner, worker, unit);
    } else {
        unit_untaken(runner, unit); /* not settled: delivered again */
    }
    gave_up(runner, worker);
    return worker->abort_at_us;
}

/* Tries again to roll back the transactions of stuck workers; answers when to try once more. */
static int64_t abort_again(struct runner *runner, int64_t mono_us)
{
    int64_t next_us = INT64_MAX;
    struct worker **at = &runner->aborting;
    while (*at) {
        struct worker *worker = *at;
        if (worker->abort_at_us <= mono_us) {
            if (tx_abort(worker->tx)) {
                *at = worker->next;
                runner_call(runner, 0); /* a stop may wait for that */
                continue;
            }
            bool longest = worker->abort_pause_us >= ABORT_PAUSE_US_MAX;
            worker->abort_pause_us *= longest ? 1 : 2;
            worker->abort_at_us = mono_us + worker->abort_pause_us;
        }
        next_us = worker->abort_at_us < next_us ? worker->abort_at_us : next_us;
        at = &worker->next;
    }
    return next_us;
}

int64_t runner_keep_time(struct runner *runner, int64_t mono_us)
{
    int64_t next_us = abort_again(runner, mono_us);
    struct worker *next;
    for (struct worker *worker = runner->workers; worker; worker = next) {
        next = worker->next;
        int64_t at_us = keep_time_of(runner, worker, mono_us);
        next_us = at_us < next_us ? at_us : next_us;
    }
    return next_us;
}

void runner_expect_timeout(struct runner *runner, int64_t mono_us)
{
    dispatchers_expect(&runner->bus->dispatchers, mono_us + timeout_us(runner));
}
