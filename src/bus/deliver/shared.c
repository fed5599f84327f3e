/*
 * shared.c - the shared mode: claim leases, run what they hold, acknowledge them.
 *
 * Any number of processes do this at the same time; the store hands every event to one of them. A
 * lease covers one claim. Its deliveries run in any order on the runner's workers; when all have
 * ended, or some failed, or enough time has passed, what has ended is settled in one change. If all
 * of it is done, one commit carries the settle and the next claim. So the database is written once
 * or twice per batch, not per event.
 *
 * The leases are `kept`: they last as long as this process shows signs of life, so a slow handler
 * loses nothing (handler_timeout_ms is what ends it). If the process dies they are free at once.
 * The store records an attempt for what was running; if it does not know what that was, the process
 * that claims them next runs them carefully (prerecord.h).
 *
 * What is claimed and not yet running is given back when the subscription is paused, when the
 * runner stops, and when all workers have been busy with one handler each for a second: another
 * process may be free. If a settle is refused, the lease was lost: what is in hand of it is
 * dropped.
 *
 * A settle of a kept lease waits for the disk. But a handler's transaction need not
 * (durability=process), and a standby that takes the server's place may lack both: then the lease
 * is there again, kept by a process that lives and has forgotten it. So the last leases are
 * remembered, and all are renounced when the store says that it may have lost something
 * (store_losses): what comes of that is that their events are delivered again.
 */
#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/time/clock.h"
#include "base/uuid.h"
#include "bus/deliver/runner.h"
#include "bus/deliver/settlement.h"
#include "bus/deliver/tail/tail.h"
#include "bus/deliver/work/verdict.h"
#include "bus/options.h"
#include "bus/watch.h"

#define CLOCK_TOLERANCE_US 1000000 /* as the store has it */
#define PARTED_MAX 1024            /* leases that are over, remembered */
#define STALL_US 1000000           /* a handler that takes longer keeps nothing waiting behind it */

/* One claim in hand. */
struct lease {
    uint8_t token[STORE_TOKEN_BYTES];
    struct lease *next;
    bool doubtful;        /* it is not known whether it is ours: to be renounced in the end */
    int32_t total;        /* deliveries claimed */
    int32_t open;         /* of those, not settled yet */
    bool lost;            /* another process has it; guarded by the runner's mutex */
    int64_t unflushed_us; /* since when something of it has ended; 0: nothing */
};

struct shared {
    struct lease *leases;
    int64_t claim_at_us; /* when something will be due; INT64_MAX: when there is news */
    int64_t seen_us;     /* the wall clock at the last step, to notice that it was set back */
    uint64_t losses;     /* store_losses, when it was last asked */
    uint8_t parted[PARTED_MAX][STORE_TOKEN_BYTES]; /* leases that are over, the last ones */
    size_t parted_count;       /* ever; the place of the next is modulo PARTED_MAX */
    struct follower *follower; /* see rest; NULL: it has not claimed yet */
};

const uint8_t *lease_token(const struct lease *lease)
{
    return lease->token;
}

void lease_cancelled(struct lease *lease)
{
    lease->open--;
}

hf_status shared_new(struct shared **ret_shared)
{
    struct shared *shared = mem_calloc(1, sizeof *shared);
    if (!shared) {
        return fail(HF_NOMEM, "out of memory for a subscription");
    }
    *ret_shared = shared;
    return HF_OK;
}

static void lease_free(struct shared *shared, struct lease *lease)
{
    struct lease **at = &shared->leases;
    while (*at != lease) {
        at = &(*at)->next;
    }
    *at = lease->next;
    mem_free(lease);
}

void shared_free(struct shared *shared)
{
    if (!shared) {
        return;
    }
    while (shared->leases) {
        lease_free(shared, shared->leases);
    }
    follower_close(shared->follower);
    mem_free(shared);
}

/* A claim under way. */
struct claiming {
    struct claim change;
    struct lease *lease;
    struct event_batch *event_batch;
};

static bool claim_begin(struct runner *runner, struct turn *turn, struct claiming *ret_claiming);
static void claim_end(struct runner *runner, struct turn *turn, struct claiming *claiming);
static bool wants_more(struct runner *runner);

/* ---- Settling -------------------------------------------------------------------------------- */

/* What of a lease has ended. */
struct tally {
    int32_t ended; /* deliveries that need a write */
    int32_t in_tx; /* deliveries that were settled by their handlers' transactions */
    bool urgent;   /* something failed, died, is given back, or is recorded as a failure */
    bool plain;    /* all that ended is done */
    bool lost;     /* the lease is */
};

/* Collects what has ended of a lease. The mutex is held. */
static struct tally collect(struct runner *runner, struct lease *lease)
{
    struct settlement *settlement = &runner->settlement;
    struct tally tally = {.plain = true, .lost = lease->lost};
    settlement_clear(settlement);
    struct slot *slot = runner->window.log.used.first;
    for (; slot && !settlement_full(settlement); slot = slot->next) {
        if (slot->lease != lease || slot->state != SLOT_ENDED) {
            continue;
        }
        settlement_add(settlement, slot);
        if (slot_is(slot, TRAIT_IN_TX)) {
            tally.in_tx++;
            tally.plain = false;
            continue;
        }
        tally.ended++;
        bool done = slot->ending == ENDED_VERDICT && slot->verdict == HF_ACK;
        tally.urgent |= !done || slot_is(slot, TRAIT_PRERECORD);
        /* With `all` the store would take the recorded attempt for one that failed. */
        tally.plain &= done && !slot_is(slot, TRAIT_PRERECORD);
    }
    return tally;
}

static bool flush_due(const struct runner *runner, struct lease *lease, struct tally tally,
                      int64_t now_us, int64_t *ret_at_us)
{
    const hf_subscription_options *options = &runner->definition.options;
    if (lease->unflushed_us == 0) {
        lease->unflushed_us = now_us;
    }
    *ret_at_us = lease->unflushed_us + runner_checkpoint_us(runner);
    return tally.urgent || tally.lost || tally.ended + tally.in_tx == lease->open ||
           tally.ended >= options->checkpoint_events || now_us >= *ret_at_us ||
           now_us < lease->unflushed_us;
}

/* The collected slots need nothing more. */
static void close_slots(struct runner *runner, struct lease *lease)
{
    struct settlement *settlement = &runner->settlement;
    pthread_mutex_lock(&runner->mutex);
    for (size_t i = 0; i < settlement->count; i++) {
        window_settle(&runner->window, settlement->slots[i]);
    }
    lease->open -= (int32_t)settlement->count;
    lease->unflushed_us = 0;
    runner->window.settled = 0; /* counts for checkpoints, which this mode has none of */
    window_reap(&runner->window, &runner->batch_pool);
    if (runner->bars & BAR_HALTING) {
        runner_need(runner, NEED_DEFINITION); /* is it paused now? */
    }
    pthread_mutex_unlock(&runner->mutex);
    if (atomic_load(&runner->bus->waiters) > 0) {
        watch_poke(runner->bus);
    }
}

static hf_status make_outcomes(struct runner *runner, struct settle_lease *settle)
{
    struct shared *shared = runner->shared;
    struct settlement *settlement = &runner->settlement;
    hf_status status = settlement_judge(settlement, runner, &settle->change.relaxed);
    for (size_t i = 0; i < settlement->outcome_count; i++) {
        const struct outcome *outcome = &settlement->outcomes[i];
        if (outcome->kind == OUTCOME_RETRY && outcome->next_attempt_us < shared->claim_at_us) {
            shared->claim_at_us = outcome->next_attempt_us;
        }
    }
    settle->outcomes = settlement->outcomes;
    settle->count = settlement->outcome_count;
    return status;
}

/* The status of a change; the message of a failure becomes the thread's. */
static hf_status answer_of(const struct change *change)
{
    return change->status ? err_set(change->status, change->message) : HF_OK;
}

/* Hands a settle over. If all of the lease is done, and a claim would follow in this turn, one
 * commit carries both. The message of a failure is the thread's. */
static hf_status run_settle(struct runner *runner, struct turn *turn, struct settle_lease *settle)
{
    struct claiming claiming;
    HF_POINT("before_settle_lease");
    if (!settle->all || turn_next(runner, turn) != ACTION_LOG ||
        !claim_begin(runner, turn, &claiming)) {
        hf_status status = runner_run(runner, &settle->change);
        HF_POINT("after_settle_lease");
        return status;
    }
    struct change *claim = &claiming.change.change;
    runner_run_both(runner, &settle->change, claim);
    HF_POINT("after_settle_lease");
    (void)answer_of(claim); /* for claim_end, which tells why */
    claim_end(runner, turn, &claiming);
    return answer_of(&settle->change);
}

/* Stores what was collected of a lease. False: the store failed. */
static bool settle_collected(struct runner *runner, struct turn *turn, struct lease *lease,
                             struct tally tally)
{
    if (tally.ended == 0 || tally.lost) {
        close_slots(runner, lease);
        return true;
    }
    struct settle_lease settle = {
        .change = {.kind = CHANGE_SETTLE_LEASE, .relaxed = true, .now_us = turn->now_us},
        .subscription_id = runner->definition.id,
        .kept = true,
        .all = tally.plain && tally.ended == lease->total,
    };
    memcpy(settle.lease, lease->token, sizeof settle.lease);
    hf_status status = settle.all ? HF_OK : make_outcomes(runner, &settle);
    struct halt halt;
    settle.pause = verdict_halt(&runner->definition.options, settle.outcomes, settle.count,
                                runner->bus->node_name, &halt);
    status = status ? status : run_settle(runner, turn, &settle);
    if (status == HF_STALE || status == HF_NOTFOUND || status == HF_UNKNOWN) {
        pthread_mutex_lock(&runner->mutex);
        lease_lose(runner, lease);
        pthread_mutex_unlock(&runner->mutex);
        runner_need(runner, status == HF_NOTFOUND ? NEED_DEFINITION : 0);
        runner_settle_refused(runner, status);
        runner_say(runner, HF_LOG_WARN, "lost a lease: %s", err_message());
    } else if (status) {
        runner_store_failed(runner, status, "settling a lease");
        return false;
    } else {
        runner_settle_worked(runner);
        runner_need(runner, text_is_absent(settle.pause.reason) ? 0 : NEED_DEFINITION);
        if (!settle.all) { /* all are done */
            settlement_told(&runner->settlement, runner);
        }
    }
    close_slots(runner, lease);
    return true;
}

/* READY slots of a lease (NULL: of all) are given back. The mutex is held. */
static void release_ready(struct runner *runner, const struct lease *lease)
{
    for (struct slot *slot = runner->window.log.used.first; slot; slot = slot->next) {
        if (slot->state == SLOT_READY && (!lease || slot->lease == lease)) {
            slot->ending = ENDED_RELEASED;
            window_end(&runner->window, slot);
        }
    }
}

/* Deliveries that have not begun go at once: the worker that gives them back would take them again
 * before another worker looks. */
void lease_lose(struct runner *runner, struct lease *lease)
{
    meter_count(&runner->meter->leases_lost, !lease->lost);
    lease->lost = true;
    lease->doubtful = true; /* perhaps only an answer was lost, and the lease is still ours */
    release_ready(runner, lease);
}

/* A lease that may still be ours in the store (the answer of its claim or of a settle was lost)
 * would last as long as this process: what it holds is given back. False: the store failed. */
static bool renounce(struct runner *runner, const uint8_t token[STORE_TOKEN_BYTES], int64_t now_us)
{
    struct settle_lease settle = {
        .change = {.kind = CHANGE_SETTLE_LEASE, .relaxed = true, .now_us = now_us},
        .subscription_id = runner->definition.id,
        .kept = true,
        .release_all = true,
    };
    memcpy(settle.lease, token, sizeof settle.lease);
    hf_status status = runner_run(runner, &settle.change);
    if (status && status != HF_STALE && status != HF_NOTFOUND) {
        runner_store_failed(runner, status, "renouncing a lease");
        return false;
    }
    return true;
}

/* A lease is over. */
static void part(struct shared *shared, struct lease *lease)
{
    size_t place = shared->parted_count++ % PARTED_MAX;
    memcpy(shared->parted[place], lease->token, STORE_TOKEN_BYTES);
    lease_free(shared, lease);
}

/* If the store may have lost what we were told it had, leases that are over may not be. False: the
 * store failed. */
static bool check_losses(struct runner *runner, int64_t now_us)
{
    struct shared *shared = runner->shared;
    uint64_t losses = store_losses(runner->bus->store);
    if (losses == shared->losses) {
        return true;
    }
    for (struct lease *lease = shared->leases; lease; lease = lease->next) {
        lease->doubtful = true; /* some of it may come back */
    }
    size_t known = shared->parted_count < PARTED_MAX ? shared->parted_count : PARTED_MAX;
    for (; known > 0; known--, shared->parted_count--) {
        if (!renounce(runner, shared->parted[(shared->parted_count - 1) % PARTED_MAX], now_us)) {
            return false;
        }
    }
    shared->parted_count = 0;
    shared->losses = losses;
    return true;
}

/* Settles what has ended of all leases, if it is time, or `now`. False: the store failed.
 * *ret_again: there is more. */
static bool flush(struct runner *runner, struct turn *turn, bool now, bool *ret_again)
{
    int64_t now_us = turn->now_us;
    struct lease *next;
    for (struct lease *lease = runner->shared->leases; lease; lease = next) {
        next = lease->next;
        pthread_mutex_lock(&runner->mutex);
        if (lease->lost) {
            release_ready(runner, lease);
        }
        struct tally tally = collect(runner, lease);
        pthread_mutex_unlock(&runner->mutex);
        int64_t at_us = INT64_MAX;
        if (runner->settlement.count > 0) {
            if (now || flush_due(runner, lease, tally, now_us, &at_us)) {
                if (!settle_collected(runner, turn, lease, tally)) {
                    return false;
                }
                *ret_again |= lease->open > 0 && settlement_full(&runner->settlement);
            } else {
                turn_wake(turn, at_us);
            }
        }
        if (lease->open == 0) {
            if (lease->doubtful && !renounce(runner, lease->token, now_us)) {
                return false;
            }
            part(runner->shared, lease);
        }
    }
    return true;
}

/* ---- Claiming -------------------------------------------------------------------------------- */

static void put_all(struct runner *runner, struct event_batch *event_batch, struct lease *lease,
                    bool prerecord)
{
    struct window *window = &runner->window;
    pthread_mutex_lock(&runner->mutex);
    for (size_t i = 0; i < event_batch->batch.count; i++) {
        struct slot *slot =
            window_put(window, &window->log, event_batch, &event_batch->batch.entries[i]);
        slot->lease = lease;
        runner_mark_prerecord(runner, slot, prerecord);
        runner_sort_out(runner, slot);
    }
    runner_signal_work(runner);
    pthread_mutex_unlock(&runner->mutex);
}

/* All workers have been busy with one handler each for long: what waits behind them had better go
 * to another process. Answers when that will be so (monotonic); INT64_MAX if a worker is free or
 * may be started. The mutex is held. */
static int64_t stalls_at(struct runner *runner)
{
    bool all = runner->worker_count >= runner->definition.options.concurrency;
    int64_t newest_us = all ? 0 : INT64_MAX;
    for (struct worker *worker = runner->workers; worker; worker = worker->next) {
        struct chunk_place place;
        bool busy = chunk_look(&worker->chunk, &place) && place.running;
        int64_t since_us = busy ? place.since_us : INT64_MAX;
        newest_us = since_us > newest_us ? since_us : newest_us;
    }
    return newest_us == INT64_MAX ? INT64_MAX : newest_us + STALL_US;
}

/* Gives back deliveries that wait behind slow handlers: all workers are busy then, so nothing is
 * claimed. */
static void check_stall(struct runner *runner, struct turn *turn)
{
    int64_t mono_us = clock_mono_us();
    pthread_mutex_lock(&runner->mutex);
    int64_t at_us = stalls_at(runner);
    bool stalled = at_us <= mono_us;
    if (stalled) {
        chunk_cut_all(runner);
        release_ready(runner, NULL);
        turn->steps &= ~STEP(ACTION_LOG);
    } else if (at_us < INT64_MAX) {
        turn_wake(turn, turn->now_us + (at_us - mono_us));
    }
    pthread_mutex_unlock(&runner->mutex);
}

/* How much is claimed at once: a batch, but never more than may be in hand, nor than may begin in a
 * second by the rate: others have workers, too. */
static int32_t claim_size(const struct runner *runner)
{
    const hf_subscription_options *options = &runner->definition.options;
    int32_t most = (int32_t)runner->window.log.capacity;
    if (options->rate_events > 0) {
        int64_t second = options->rate_events * INT64_C(1000) / options->rate_ms;
        most = second < 1 ? 1 : second < most ? (int32_t)second : most;
    }
    return options->batch < most ? options->batch : most;
}

/* Is so little in hand that more is claimed? */
static bool wants_more(struct runner *runner)
{
    int32_t batch = claim_size(runner);
    pthread_mutex_lock(&runner->mutex);
    bool room = queue_room(&runner->window.log) >= (size_t)batch && !window_heavy(&runner->window);
    bool low = runner->window.ready <= batch / 2;
    pthread_mutex_unlock(&runner->mutex);
    return room && low;
}

/* The follower rested, and an event has come that the subscription is for; or some have passed that
 * it is not for, and the cursor is to move over them. */
static void look_at_log(void *ctx)
{
    struct runner *runner = ctx;
    pthread_mutex_lock(&runner->mutex);
    runner_need(runner, NEED_LOG | NEED_TURN);
    pthread_mutex_unlock(&runner->mutex);
}

/* Before a claim. Without a follower the subscription claims whenever there is news. */
static void mark(struct runner *runner)
{
    struct shared *shared = runner->shared;
    if (!shared->follower &&
        follower_open(runner->bus->tail, 0, false, 0, &shared->follower) == HF_OK) {
        follower_own(shared->follower, (struct follower_owner){&runner->seat, look_at_log, runner,
                                                               &runner->rests, true});
    }
    if (shared->follower) {
        follower_mark(shared->follower);
    }
}

/* A claim has left nothing that could be claimed now: what comes later is new events, of which the
 * tail calls for those that match; times, which the claim has named; and what other processes do,
 * which is other news. */
static void rest(struct runner *runner, const struct claim *claim)
{
    if (runner->shared->follower && !claim->ret_more && !claim->ret_paused) {
        follower_rest(runner->shared->follower, &claim->filter);
    }
}

/* What the store says of a claim that it has taken. */
static void note_claimed(struct runner *runner, const struct claim *claim, struct turn *turn)
{
    struct shared *shared = runner->shared;
    runner_store_worked(runner);
    shared->claim_at_us = claim->ret_wake_us < 0 ? INT64_MAX : claim->ret_wake_us;
    runner_need(runner, claim->ret_paused ? NEED_DEFINITION : 0);
    if (claim->ret_more) {
        runner_need(runner, NEED_LOG | NEED_TURN);
    } else {
        turn_wake(turn, shared->claim_at_us);
    }
}

/* Memory for what was claimed. False: there is none; the lease is renounced, as one that may be
 * ours, and its events are claimed again. */
static bool prepare(struct runner *runner)
{
    hf_status status = runner_prepare(runner);
    if (status) {
        runner_need(runner, NEED_LOG);
        runner_store_failed(runner, status, "claiming");
    }
    return !status;
}

/* The claim failed. */
static void not_claimed(struct runner *runner, hf_status status)
{
    runner_need(runner, NEED_LOG);
    if (status == HF_NOTFOUND || status == HF_CONFLICT) {
        runner_need(runner, NEED_DEFINITION | NEED_TURN); /* removed, or changed */
    } else {
        runner_store_failed(runner, status, "claiming");
    }
}

/* Prepares a claim, if so little is in hand that more is wanted. False: there is none. */
static bool claim_begin(struct runner *runner, struct turn *turn, struct claiming *ret_claiming)
{
    if (!wants_more(runner)) {
        return false;
    }
    struct lease *lease = mem_calloc(1, sizeof *lease);
    struct event_batch *event_batch = batch_pool_take(&runner->batch_pool);
    if (!lease || !event_batch) {
        mem_free(lease);
        batch_pool_return(&runner->batch_pool, event_batch);
        runner_store_failed(runner, fail(HF_NOMEM, "out of memory for events"), "claiming");
        return false;
    }
    *ret_claiming = (struct claiming){
        .change =
            {
                .change = {.kind = CHANGE_CLAIM, .relaxed = true, .now_us = turn->now_us},
                .subscription_id = runner->definition.id,
                .generation = runner->definition.generation,
                .filter = definition_filter(&runner->definition),
                .max = claim_size(runner),
                .lease_ms = runner->definition.options.lease_ms,
                .attempts_max = runner->definition.options.attempts_max,
                .retry_max_ms = runner->definition.options.retry_max_ms,
                .bound = true,
                .kept = true,
                .batch = &event_batch->batch,
            },
        .lease = lease,
        .event_batch = event_batch,
    };
    random_bytes(ret_claiming->change.lease, sizeof ret_claiming->change.lease);
    memcpy(lease->token, ret_claiming->change.lease, sizeof lease->token);
    runner_take(runner, NEED_LOG); /* what comes from now on is for the next claim */
    mark(runner);
    return true;
}

/* The claim has its answer; the message of a failure is the thread's. */
static void claim_end(struct runner *runner, struct turn *turn, struct claiming *claiming)
{
    struct shared *shared = runner->shared;
    struct claim *change = &claiming->change;
    struct lease *lease = claiming->lease;
    hf_status status = change->change.status;
    bool any = !status && claiming->event_batch->batch.count > 0;
    HF_POINT("after_claim");
    if (status) {
        not_claimed(runner, status);
    } else {
        note_claimed(runner, change, turn);
        rest(runner, change);
    }
    bool ready = any && prepare(runner);
    lease->doubtful = status == HF_UNKNOWN || status == HF_IO || (any && !ready);
    if (lease->doubtful || any) {
        lease->next = shared->leases;
        shared->leases = lease;
    } else {
        mem_free(lease);
    }
    if (ready) {
        lease->total = (int32_t)claiming->event_batch->batch.count;
        lease->open = lease->total;
        put_all(runner, claiming->event_batch, lease, change->ret_prerecord);
    }
    batch_pool_return(&runner->batch_pool, claiming->event_batch);
}

static void claim(struct runner *runner, struct turn *turn)
{
    struct claiming claiming;
    if (turn->now_us >= runner->shared->claim_at_us) {
        runner_need(runner, NEED_LOG);
    }
    if (claim_begin(runner, turn, &claiming)) {
        runner_run(runner, &claiming.change.change);
        claim_end(runner, turn, &claiming);
    }
}

/* ---- The mode -------------------------------------------------------------------------------- */

/* No handler was found for something in hand, or they have changed. What is outside the patterns,
 * which may have changed, too, is of those that no handler is for: it would be taken again and
 * again. Before workers go on. */
static void sort_out_ready(struct runner *runner)
{
    struct slot *slot = runner->window.log.used.first;
    for (; slot; slot = slot->next) {
        if (slot->state == SLOT_READY) {
            runner_sort_out(runner, slot);
        }
    }
}

static void admit(struct runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    if (runner->bars & BAR_HELD_BACK) {
        sort_out_ready(runner);
    }
    pthread_mutex_unlock(&runner->mutex);
    runner_admit(runner);
}

static void tend(struct runner *runner, struct turn *turn)
{
    struct shared *shared = runner->shared;
    if (turn->now_us < shared->seen_us - CLOCK_TOLERANCE_US) {
        runner_need(runner, NEED_LOG); /* claim_at_us is a time of the old clock */
    }
    shared->seen_us = turn->now_us;
    check_stall(runner, turn);
    check_losses(runner, turn->now_us);
}

/* While no work is allowed what has not begun is given back. */
static void settle(struct runner *runner, struct turn *turn)
{
    bool again = false;
    pthread_mutex_lock(&runner->mutex);
    if (!plan_admits(atomic_load(&runner->needs), runner->bars)) {
        release_ready(runner, NULL);
    }
    pthread_mutex_unlock(&runner->mutex);
    if (cancels_answer(runner, turn->now_us)) {
        flush(runner, turn, false, &again);
    }
    runner_need(runner, again ? NEED_TURN : 0);
}

static void shared_perform(struct runner *runner, enum action action, struct turn *turn)
{
    switch (action) {
    case ACTION_ADMIT:
        admit(runner);
        break;
    case ACTION_TEND:
        tend(runner, turn);
        break;
    case ACTION_SETTLE:
        settle(runner, turn);
        break;
    case ACTION_LOG:
        claim(runner, turn);
        break;
    default:
        break;
    }
}

static void shared_survey(struct runner *runner, struct situation *situation)
{
    situation->hand |= HAND_OWNED;
    situation->claim_us = runner->shared->claim_at_us;
}

static void shared_adopt(struct runner *runner, bool differs)
{
    (void)runner;
    (void)differs;
}

static hf_status shared_finish(struct runner *runner, int64_t now_us)
{
    struct turn turn = {.now_us = now_us, .wake_us = INT64_MAX};
    bool again = true;
    pthread_mutex_lock(&runner->mutex);
    release_ready(runner, NULL);
    pthread_mutex_unlock(&runner->mutex);
    bool ok = true;
    while (ok && again) {
        again = false;
        ok = flush(runner, &turn, true, &again);
    }
    pthread_mutex_lock(&runner->mutex);
    window_clear(&runner->window, &runner->batch_pool);
    pthread_mutex_unlock(&runner->mutex);
    /* What could not be given back is renounced when the runner starts again. */
    for (struct lease *lease = runner->shared->leases; lease; lease = lease->next) {
        lease->open = 0;
        lease->doubtful = true;
    }
    runner->shared->claim_at_us = 0;
    follower_close(runner->shared->follower);
    runner->shared->follower = NULL;
    return runner->shared->leases
               ? fail(HF_TIMEOUT, "%s: what was claimed could not be given back", runner->name)
               : HF_OK;
}

const struct runner_mode shared_mode = {
    .steps = STEP(ACTION_TEND) | STEP(ACTION_SETTLE) | STEP(ACTION_LOG),
    .survey = shared_survey,
    .perform = shared_perform,
    .adopt = shared_adopt,
    .finish = shared_finish,
};
