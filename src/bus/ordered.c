/*
 * ordered.c - the ordered mode: own a partition, read the log, move the checkpoint.
 *
 * The checkpoint says: everything up to here is settled. It moves over events that are done, over
 * events that do not match, and over those that have a row in the store (waiting, held, dead).
 * Reading is ahead of it by what is in the window.
 *
 *          settled            in the window              not read yet
 *     ---------------|------------------------------|-------------------->  positions
 *                checkpoint                       floor                  head
 *
 * This file owns and gives back; ordered_settle.c stores what became of deliveries and moves the
 * checkpoint; ordered_fill.c gets new ones into the window.
 *
 * Owning: exactly one process owns the partition; every settle carries the epoch of the ownership
 * and is refused when somebody else has taken over. Then what is in hand is dropped once no handler
 * runs on it, and the runner stands by, trying to become the owner again. The same happens, with
 * what is done remembered first, when the patterns have changed: nothing that was read by the old
 * ones may move the checkpoint.
 *
 * After a crash: positions above the checkpoint that already have a row (`ahead`) are skipped when
 * the log is read again.
 */
#include "bus/ordered.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "store/story.h"

#define ACQUIRE_AGAIN_US 200000 /* standing by: try to become the owner at most this often ... */
#define ACQUIRES_PER_LEASE 4    /* ... and at least this often */
#define CLOCK_TOLERANCE_US 1000000
#define FINISH_TRIES 3 /* against others who change the subscription meanwhile */

hf_status ordered_new(struct ordered **ret_ordered)
{
    struct ordered *ordered = mem_calloc(1, sizeof *ordered);
    if (!ordered) {
        return fail(HF_NOMEM, "out of memory for a subscription");
    }
    set64_init(&ordered->ahead, WINDOW_LANES_MAX);
    for (size_t i = 0; i < ORDERED_FLUSH_MAX; i++) {
        buf_init(&ordered->stories[i], STORY_BYTES_MAX);
    }
    *ret_ordered = ordered;
    return HF_OK;
}

void ordered_free(struct ordered *ordered)
{
    if (!ordered) {
        return;
    }
    store_reader_close(ordered->reader);
    set64_release(&ordered->ahead);
    for (size_t i = 0; i < ORDERED_FLUSH_MAX; i++) {
        buf_release(&ordered->stories[i]);
    }
    mem_free(ordered);
}

/* ---- Owning ---------------------------------------------------------------------------------- */

struct lane_loading {
    struct window *window;
    bool strict;
    hf_status status;
};

static int load_lane(uint64_t lane, int64_t rows, void *ctx)
{
    struct lane_loading *loading = ctx;
    uint64_t known = loading->strict ? STRICT_LANE : lane;
    (void)rows;
    if (!window_fail_lane(loading->window, known)) {
        loading->status = fail(HF_NOMEM, "out of memory for failing keys");
    }
    return loading->status != HF_OK || loading->window->lanes_full;
}

struct ahead_loading {
    struct set64 *ahead;
    hf_status status;
};

static int load_ahead(int64_t position, void *ctx)
{
    struct ahead_loading *loading = ctx;
    loading->status = set64_put(loading->ahead, (uint64_t)position, 1);
    return loading->status != HF_OK;
}

/* Drops what is in hand; no handler may be running. */
static void drop(struct runner *runner)
{
    struct ordered *ordered = runner->ordered;
    pthread_mutex_lock(&runner->mutex);
    window_clear(&runner->window, &runner->rack);
    runner->lost = false;
    pthread_mutex_unlock(&runner->mutex);
    store_reader_close(ordered->reader);
    ordered->reader = NULL;
    set64_clear(&ordered->ahead);
    ordered->owned = false;
    ordered->more = false;
    ordered->unflushed_us = 0;
    ordered->count = 0;
}

/* Loads what the store knows beyond the checkpoint. */
static hf_status load(struct runner *runner)
{
    struct ordered *ordered = runner->ordered;
    struct store *store = runner->bus->store;
    int64_t id = runner->definition.id;
    struct lane_loading lanes = {.window = &runner->window, .strict = ordered->strict};
    pthread_mutex_lock(&runner->mutex);
    hf_status status = store_lanes(store, id, PARTITION, load_lane, &lanes);
    pthread_mutex_unlock(&runner->mutex);
    status = status ? status : lanes.status;
    if (!status) {
        struct ahead_loading ahead = {.ahead = &ordered->ahead};
        status = store_ahead(store, id, PARTITION, ordered->checkpoint, load_ahead, &ahead);
        status = status ? status : ahead.status;
    }
    if (!status) {
        status = store_reader_open(store, ordered->checkpoint, ordered->strict, &ordered->reader);
    }
    if (!status) {
        store_reader_gap_timeout(ordered->reader, runner->definition.options.gap_timeout_ms);
    }
    if (!status && ordered->careful > 0) {
        int64_t first;
        status = store_head(store, &ordered->careful_end, &first);
    }
    return status;
}

static void acquired(struct runner *runner, const struct acquire *acquire, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    ordered->epoch = acquire->ret_epoch;
    ordered->checkpoint = acquire->ret_checkpoint;
    ordered->floor = acquire->ret_checkpoint;
    ordered->flushed_us = now_us;
    ordered->retry_at_us = now_us;
    ordered->careful = acquire->ret_unclean ? runner->definition.options.inflight_max : 0;
    ordered->strict = runner->definition.options.order == HF_ORDER_STRICT;
    hf_status status = load(runner);
    if (status) {
        runner_store_failed(runner, status, "loading the subscription's state");
        drop(runner);
        return;
    }
    runner_store_worked(runner);
    pthread_mutex_lock(&runner->mutex);
    runner->ownership = (struct hold){.partition = PARTITION, .epoch = ordered->epoch};
    window_floor(&runner->window, ordered->floor);
    pthread_mutex_unlock(&runner->mutex);
    ordered->owned = true;
    ordered->owned_before = true;
    ordered->more = true;
    ordered->generation = runner->definition.generation;
    runner->reread = false;
    runner->stale |= acquire->ret_generation != runner->definition.generation;
    runner_say(runner, HF_LOG_INFO, "processing from position %lld (epoch %lld)",
               (long long)ordered->checkpoint, (long long)ordered->epoch);
    if (acquire->ret_crashed > 0 || acquire->ret_unclean) {
        log_about(&runner->bus->log, HF_LOG_WARN, runner->name,
                  "the last owner died: %d attempts recorded%s", acquire->ret_crashed,
                  acquire->ret_unclean ? "; going on carefully, one event at a time" : "");
    }
}

/* Standing by, how long until the next try without news. Where the store does not look for the
 * owner's end by itself, that is for us to do; else the tries only watch for an owner that stands
 * still, for which a few per lease are enough. */
static int64_t acquire_again_us(const struct runner *runner)
{
    int64_t look_us = store_look_ms(runner->bus->store) * 1000;
    int64_t again_us = runner->definition.options.lease_ms * 1000 / ACQUIRES_PER_LEASE;
    again_us = again_us < look_us ? again_us : look_us;
    return again_us > ACQUIRE_AGAIN_US ? again_us : ACQUIRE_AGAIN_US;
}

static void try_acquire(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    const hf_subscription_options *options = &runner->definition.options;
    int64_t again_us = acquire_again_us(runner);
    /* A clock that was set back must not keep us waiting. */
    if (now_us < ordered->acquire_at_us && ordered->acquire_at_us - now_us <= again_us) {
        pthread_mutex_lock(&runner->mutex);
        bool news = runner->news;
        pthread_mutex_unlock(&runner->mutex);
        int64_t soon_us = ordered->acquired_us + ACQUIRE_AGAIN_US - clock_mono_us();
        if (news && now_us + soon_us < ordered->acquire_at_us) {
            ordered->acquire_at_us = now_us + (soon_us > 0 ? soon_us : 0);
        }
        if (now_us < ordered->acquire_at_us) {
            return;
        }
    }
    ordered->acquire_at_us = now_us + again_us;
    ordered->acquired_us = clock_mono_us();
    pthread_mutex_lock(&runner->mutex);
    runner->news = false;
    pthread_mutex_unlock(&runner->mutex);
    struct acquire acquire = {
        .change = {.kind = CHANGE_ACQUIRE, .now_us = now_us},
        .subscription_id = runner->definition.id,
        .partition = PARTITION,
        .lease_ms = options->lease_ms,
        .attempts_max = options->attempts_max,
        .lane = options->order == HF_ORDER_STRICT ? STRICT_LANE : 0,
        .force = options->instance_mode == HF_INSTANCE_SINGLE && !ordered->owned_before,
    };
    hf_status status = runner_run(runner, &acquire.change);
    if (status == HF_OK) {
        acquired(runner, &acquire, now_us);
    } else if (status == HF_BUSY) {
        runner_say(runner, HF_LOG_INFO, "stands by: %s", err_message());
    } else if (status == HF_NOTFOUND) {
        runner->stale = true;
    } else {
        runner_store_failed(runner, status, "taking over the subscription");
    }
}

static void give_back(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    if (ordered->owned) {
        struct give_back give_back = {
            .change = {.kind = CHANGE_GIVE_BACK, .now_us = now_us},
            .subscription_id = runner->definition.id,
            .partition = PARTITION,
            .epoch = ordered->epoch,
        };
        hf_status status = runner_run(runner, &give_back.change);
        if (status && status != HF_STALE && status != HF_NOTFOUND) {
            log_about(&runner->bus->log, HF_LOG_WARN, runner->name,
                      "cannot give the subscription back: %s", err_message());
        }
    }
    drop(runner);
}

/* ---- The mode -------------------------------------------------------------------------------- */

/* The log would be read differently now: nothing that was read by the old patterns may move the
 * checkpoint. When no handler runs any more, what is done is remembered, the rest is dropped, and
 * reading begins again at the checkpoint. */
static struct step reread(struct runner *runner, int64_t now_us)
{
    struct step step = {.at_us = INT64_MAX};
    pthread_mutex_lock(&runner->mutex);
    runner->hold_back = true;
    bool busy = runner->window.busy > 0;
    pthread_mutex_unlock(&runner->mutex);
    if (busy) {
        return step; /* the worker's report comes */
    }
    do {
        step.again = false;
        if (!ordered_flush(runner, now_us, &step, false)) {
            return step;
        }
    } while (step.again);
    hf_status status = ordered_remember(runner, now_us);
    if (status) {
        ordered_not_settled(runner, status);
        return step;
    }
    give_back(runner, now_us); /* so that somebody whose handlers cover may have it */
    runner->ordered->acquire_at_us = 0;
    step.again = true;
    return step;
}

static struct step ordered_step(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    struct step step = {.at_us = INT64_MAX};
    pthread_mutex_lock(&runner->mutex);
    bool lost = runner->lost;
    bool busy = runner->window.busy > 0;
    pthread_mutex_unlock(&runner->mutex);
    if (lost) {
        if (busy) {
            return step; /* the worker's report comes */
        }
        drop(runner);
    }
    bool may = runner_may_work(runner);
    if (!ordered->owned) {
        if (may) {
            try_acquire(runner, now_us);
        }
        if (!ordered->owned) {
            step.at_us = may ? ordered->acquire_at_us : INT64_MAX;
            return step;
        }
    }
    if (now_us < ordered->seen_us - CLOCK_TOLERANCE_US) {
        ordered_verify(runner, now_us); /* a write, on which the store minds the clock */
        ordered->retry_at_us = now_us;
    }
    ordered->seen_us = now_us;
    if (ordered->generation != runner->definition.generation && !runner->stale) {
        if (runner->reread) {
            return reread(runner, now_us);
        }
        if (!ordered_verify(runner, now_us)) {
            step.again = true;
            return step;
        }
    }
    if (!ordered_flush(runner, now_us, &step, true)) {
        return step;
    }
    if (may) {
        ordered_fill_from_retries(runner, now_us, &step);
        ordered_fill_from_log(runner, now_us, &step);
    } else if (runner->definition.paused_at_us < 0 && !runner->stale && !busy) {
        give_back(runner, now_us); /* handlers that do not cover: somebody else may */
    }
    return step;
}

/* Stores what is left to be stored. False: it could not be. */
static bool store_the_rest(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    for (int tries = 0; tries < FINISH_TRIES; tries++) {
        runner_refresh(runner, clock_mono_us());
        bool changed = ordered->generation != runner->definition.generation;
        if (changed && !runner->reread && !ordered_verify(runner, now_us)) {
            continue;
        }
        /* What was read by older patterns must not move the checkpoint. */
        bool move = !runner->reread;
        struct step step = {.again = true};
        bool ok = true;
        while (ok && step.again) {
            step.again = false;
            ok = ordered_flush(runner, now_us, &step, move);
        }
        if (ok) {
            return ordered_remember(runner, now_us) == HF_OK;
        }
    }
    return false;
}

static hf_status ordered_finish(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    bool ours = ordered->owned && !runner->lost && !runner->removed;
    bool stored = !ours || store_the_rest(runner, now_us) || runner->lost || runner->removed;
    int64_t checkpoint = ordered->checkpoint;
    give_back(runner, now_us);
    ordered->owned_before = false;
    return stored ? HF_OK
                  : fail(HF_TIMEOUT,
                         "%s: progress could not be stored; events after position %lld come again",
                         runner->name, (long long)checkpoint);
}

const struct runner_mode ordered_mode = {.step = ordered_step, .finish = ordered_finish};
