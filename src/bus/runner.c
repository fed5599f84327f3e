/*
 * runner.c - the dispatcher's loop, and what both modes share. See runner.h.
 *
 * The dispatcher sleeps on one condition. It is woken by workers that report something to be
 * settled, by the watch when there is news in the store, by handlers being registered, and by its
 * own clock: the next retry, the next checkpoint, the next timeout, or the wait period as the
 * backstop for everything else. A wake-up that comes too often costs a look; one that is missed
 * costs at most the wait period, never an event, because every look asks the store.
 *
 * If the store fails (disk full, file locked for long), what is in hand stays in hand and the same
 * step is tried again later. If the ownership or a lease is lost, what is in hand is dropped as
 * soon as no handler runs on it: somebody else has it.
 */
#include "bus/runner.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/uuid.h"
#include "bus/options.h"
#include "bus/verdict.h"
#include "bus/watch.h"

#define REFRESH_US 50000             /* without news, look at the definition at most this often */
#define STORE_RETRY_MS_MAX 2000
#define PROBE_AGAIN_US 100000        /* nothing to probe with: look again */
#define CHUNK_WANTED_US 200          /* several handlers at once: a chunk should take this long */

hf_status runner_new(hf_bus *bus, const struct definition *definition, struct handlers *handlers,
                     struct runner **ret_runner)
{
    struct runner *runner = mem_calloc(1, sizeof *runner);
    if (!runner) {
        return fail(HF_NOMEM, "out of memory for a runner");
    }
    atomic_store(&runner->references, 1);
    bool ordered = definition->options.mode == HF_MODE_ORDERED;
    runner->mode = ordered ? &ordered_mode : &shared_mode;
    runner->definition.id = definition->id;
    runner->stale = true;
    breaker_init(&runner->breaker);
    definition_init(&runner->definition);
    runner->definition.id = definition->id;
    runner->definition.options = definition->options;
    runner->name = mem_dup(definition->name.bytes, definition->name.length);
    hf_status status = runner->name ? HF_OK : fail(HF_NOMEM, "out of memory for a runner");
    int32_t inflight = definition->options.inflight_max;
    int32_t retries = definition->options.batch;
    if (!status) {
        status = window_init(&runner->window, inflight > retries ? inflight : retries, retries,
                             ordered);
    }
    if (!status) {
        status = ordered ? ordered_new(&runner->ordered) : shared_new(&runner->shared);
    }
    if (!status) {
        status = mutex_init(&runner->mutex);
    }
    if (!status) {
        status = cond_init(&runner->wake);
    }
    if (!status) {
        status = cond_init(&runner->work);
    }
    if (status) {
        ordered_free(runner->ordered);
        shared_free(runner->shared);
        mem_free(runner->name);
        mem_free(runner);
        return status;
    }
    runner->bus = bus;
    bus_reference(bus);
    runner->handlers = handlers;
    *ret_runner = runner;
    return HF_OK;
}

void runner_reference(struct runner *runner)
{
    atomic_fetch_add(&runner->references, 1);
}

void runner_unreference(struct runner *runner)
{
    if (!runner || atomic_fetch_sub(&runner->references, 1) > 1) {
        return;
    }
    window_release(&runner->window, &runner->rack);
    rack_release(&runner->rack);
    ordered_free(runner->ordered);
    shared_free(runner->shared);
    handlers_unreference(runner->handlers);
    definition_release(&runner->definition);
    pthread_mutex_destroy(&runner->mutex);
    pthread_cond_destroy(&runner->wake);
    pthread_cond_destroy(&runner->work);
    hf_bus *bus = runner->bus;
    mem_free(runner->name);
    mem_free(runner);
    bus_unreference(bus);
}

void runner_say(struct runner *runner, hf_log_level level, const char *format, ...)
{
    char text[sizeof runner->said];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (strcmp(text, runner->said) == 0) {
        return;
    }
    memcpy(runner->said, text, sizeof text);
    if (text[0]) {
        log_about(&runner->bus->log, level, runner->name, "%s", text);
    }
}

void runner_nudge(struct runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    runner->nudged = true;
    runner->news = true;
    if (runner->waiting) {
        pthread_cond_signal(&runner->wake);
    }
    pthread_mutex_unlock(&runner->mutex);
}

void runner_set_handlers(struct runner *runner, struct handlers *handlers)
{
    pthread_mutex_lock(&runner->mutex);
    struct handlers *old = runner->handlers;
    runner->handlers = handlers;
    atomic_fetch_add(&runner->handlers_version, 1);
    runner->nudged = true;
    pthread_cond_signal(&runner->wake);
    pthread_mutex_unlock(&runner->mutex);
    handlers_unreference(old);
}

/* ---- Workers' questions and reports; the mutex is held ---------------------------------------- */

void runner_signal_work(struct runner *runner)
{
    if (runner->idle > 0 && runner->window.ready > 0) {
        if (runner->idle == 1 || runner->window.ready == 1) {
            pthread_cond_signal(&runner->work);
        } else {
            pthread_cond_broadcast(&runner->work);
        }
    }
}

size_t runner_chunk_size(struct runner *runner)
{
    const hf_subscription_options *options = &runner->definition.options;
    struct window *window = &runner->window;
    if (runner->stopping || runner->hold_back || runner->breaker_hold || runner->lost ||
        window->ready == 0) {
        return 0;
    }
    if (runner->rest_until_us > 0 && clock_mono_us() < runner->rest_until_us) {
        return 0;
    }
    if (options->checkpoint_events == 1 && window->settled + window->ended > 0) {
        return 0; /* the checkpoint of the last one comes first */
    }
    if (runner->breaker_on) {
        return 1;
    }
    if (options->checkpoint_events == 1) {
        return 1;
    }
    if (options->concurrency == 1) {
        return WORKER_CHUNK_MAX;
    }
    int64_t share = window->ready / options->concurrency;
    int64_t quick = CHUNK_WANTED_US / (runner->handler_us + 1);
    int64_t size = share < quick ? share : quick;
    return size < 1 ? 1 : size > WORKER_CHUNK_MAX ? WORKER_CHUNK_MAX : (size_t)size;
}

struct hold runner_hold(const struct runner *runner, const struct slot *slot)
{
    struct hold hold = runner->ownership;
    hold.subscription_id = runner->definition.id;
    if (slot->lease) {
        hold.leased = true;
        memcpy(hold.lease, lease_token(slot->lease), sizeof hold.lease);
    }
    return hold;
}

static void tell_breaker(struct runner *runner, struct slot *slot, bool ok)
{
    if (!runner->breaker_on) {
        return;
    }
    struct breaker_policy policy = options_breaker(&runner->definition.options);
    int64_t now_us = clock_wall_us();
    if (slot->probe) {
        breaker_report_probe(&runner->breaker, &policy, ok, now_us);
        runner->breaker_changed = true;
        slot->probe = false;
    } else if (breaker_report(&runner->breaker, &policy, slot->entry->attempts + 1, ok, now_us)) {
        runner->breaker_changed = true;
        runner->breaker_hold = true;
    }
}

void runner_slot_ended(struct runner *runner, struct slot *slot, struct worker_result *result,
                       bool in_tx)
{
    struct window *window = &runner->window;
    uint64_t lane = slot->lane;
    bool ok = result->verdict == HF_ACK;
    atomic_fetch_add(ok ? &runner->bus->delivered : &runner->bus->failed, 1);
    if (result->verdict != HF_RETRY_UNCOUNTED) {
        tell_breaker(runner, slot, ok);
    } else if (slot->probe) {
        breaker_abandon_probe(&runner->breaker, clock_wall_us());
        slot->probe = false;
    }
    slot->ending = ENDED_VERDICT;
    slot->verdict = result->verdict;
    slot->error = result->error;
    slot->in_tx = in_tx;
    if (!window->lanes) {
        window_end(window, slot);
        return;
    }
    if (!ok && set64_put(&window->failing, lane, 1)) {
        runner->lost = true; /* cannot hold its lane back: drop all, it will come again */
    }
    if (ok && in_tx && slot->waited) {
        if (!result->lane_busy) {
            set64_remove(&window->failing, lane);
        }
        runner->nudged = true; /* the lane's next may be due */
    }
    if (ok && (in_tx || !slot->waited)) {
        window_settle(window, slot);
    } else {
        window_end(window, slot);
    }
}

void runner_slot_untaken(struct runner *runner, struct slot *slot)
{
    if (slot->probe) {
        breaker_abandon_probe(&runner->breaker, clock_wall_us());
        slot->probe = false;
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
    bool low = window->ready <= options->inflight_max / 4;
    bool due = window->settled >= options->checkpoint_events;
    if (runner->waiting && (low || due || window->ended > 0 || runner->stopping || runner->lost || runner->hold_back || runner->breaker_hold ||
                            atomic_load(&runner->bus->waiters) > 0)) {
        runner->nudged = true;
        pthread_cond_signal(&runner->wake);
    }
    if (runner->idle > 0 && window->ready > 0) {
        runner_signal_work(runner);
    }
}

/* ---- Timeouts --------------------------------------------------------------------------------- */

static int64_t timeout_us(const struct runner *runner)
{
    const hf_subscription_options *options = &runner->definition.options;
    int64_t ms = options->handler_timeout_ms;
    if (options->transactional == HF_ON && options->tx_max_ms < ms) {
        ms = options->tx_max_ms;
    }
    return ms * 1000;
}

static void end_by_timeout(struct runner *runner, struct slot *slot)
{
    char error[128];
    snprintf(error, sizeof error, "the handler did not return within %lld ms",
             (long long)(timeout_us(runner) / 1000));
    struct worker_result result = {.verdict = HF_RETRY};
    result.error = mem_dup(error, strlen(error));
    runner_slot_ended(runner, slot, &result, false);
}

/* Takes the turn of every worker whose time is up, and replaces it. Answers the monotonic time of
 * the next possible timeout. The mutex is held. */
static int64_t check_timeouts(struct runner *runner, int64_t mono_us)
{
    int64_t next_us = INT64_MAX;
    struct worker *next;
    for (struct worker *worker = runner->workers; worker; worker = next) {
        next = worker->next;
        uint64_t turn;
        int64_t since_us = worker_running_since(worker, &turn);
        if (since_us == INT64_MAX) {
            continue;
        }
        int64_t until_us = since_us + timeout_us(runner);
        struct slot *slot;
        if (until_us > mono_us) {
            next_us = until_us < next_us ? until_us : next_us;
        } else if (worker_give_up(worker, turn, &slot)) {
            end_by_timeout(runner, slot);
        }
    }
    return next_us;
}

static void keep_workers(struct runner *runner)
{
    while (!runner->stopping && runner->worker_count < runner->definition.options.concurrency) {
        if (worker_start(runner)) {
            runner_say(runner, HF_LOG_ERROR, "cannot start a worker: %s", err_message());
            return;
        }
    }
}

/* ---- The definition --------------------------------------------------------------------------- */

/* Would the log be read differently by the new definition? */
static bool reads_differently(const struct definition *old, const struct definition *fresh)
{
    bool same = old->pattern_count == fresh->pattern_count &&
                old->options.order == fresh->options.order &&
                old->options.on_unhandled == fresh->options.on_unhandled;
    for (size_t i = 0; same && i < fresh->pattern_count; i++) {
        same = text_equal(old->patterns[i], fresh->patterns[i]);
    }
    return !same;
}

/* Reads the definition again if somebody may have changed it. */
static void refresh(struct runner *runner, int64_t mono_us)
{
    pthread_mutex_lock(&runner->mutex);
    bool news = runner->news;
    pthread_mutex_unlock(&runner->mutex);
    if (!runner->stale) {
        int64_t generation;
        int64_t epoch;
        if ((!news && mono_us - runner->refreshed_us < REFRESH_US) ||
            (!store_generation(runner->bus->store, runner->definition.id, 0, &generation, &epoch) &&
             generation == runner->definition.generation)) {
            return;
        }
    }
    struct definition fresh;
    definition_init(&fresh);
    hf_status status = definition_load_id(runner->bus, runner->definition.id, &fresh);
    if (status == HF_NOTFOUND) {
        runner->removed = true;
        pthread_mutex_lock(&runner->mutex);
        runner->hold_back = true;
        pthread_mutex_unlock(&runner->mutex);
        runner_say(runner, HF_LOG_WARN, "the subscription was removed");
    }
    if (status) {
        if (status != HF_NOTFOUND) {
            runner_store_failed(runner, status, "reading the subscription");
        }
        definition_release(&fresh);
        return;
    }
    runner->refreshed_us = mono_us;
    runner->stale = false;
    runner->reread |= reads_differently(&runner->definition, &fresh);
    pthread_mutex_lock(&runner->mutex);
    struct definition old = runner->definition;
    runner->definition = fresh;
    bool on = fresh.options.breaker == HF_ON;
    if (on && (!runner->breaker_on || text_is_absent(fresh.breaker_json))) {
        if (text_is_absent(fresh.breaker_json) && runner->breaker.state != BREAKER_CLOSED &&
            !runner->breaker_changed) {
            breaker_init(&runner->breaker); /* somebody resumed the subscription */
        } else if (!text_is_absent(fresh.breaker_json)) {
            breaker_read(fresh.breaker_json, &runner->breaker);
        }
    }
    runner->breaker_on = on;
    runner->breaker_hold &= on;
    pthread_mutex_unlock(&runner->mutex);
    definition_release(&old);
    watch_lease(runner->bus, runner->definition.options.lease_ms);
}

bool runner_may_work(struct runner *runner)
{
    const struct definition *definition = &runner->definition;
    bool may = false;
    struct text missing = TEXT_ABSENT;
    pthread_mutex_lock(&runner->mutex);
    struct handlers *handlers = handlers_reference(runner->handlers);
    pthread_mutex_unlock(&runner->mutex);
    if (runner->removed || runner->stale) {
        may = false;
    } else if (definition->paused_at_us >= 0) {
        runner_say(runner, HF_LOG_INFO, "paused by %" TEXT_PRI ": %" TEXT_PRI,
                   TEXT_ARG(definition->paused_by), TEXT_ARG(definition->paused_reason));
    } else if (!handlers_cover(handlers, definition->patterns, definition->pattern_count,
                               &missing)) {
        runner_say(runner, HF_LOG_WARN,
                   "stands by: no handler in this process covers the stored pattern %" TEXT_PRI,
                   TEXT_ARG(missing));
    } else {
        may = true;
    }
    handlers_unreference(handlers);
    pthread_mutex_lock(&runner->mutex);
    runner->hold_back = !may;
    pthread_mutex_unlock(&runner->mutex);
    return may;
}

/* ---- Outcomes --------------------------------------------------------------------------------- */

static void log_failure(const struct runner *runner, const struct slot *slot,
                        const struct outcome *outcome, int64_t now_us)
{
    bool retry = outcome->kind == OUTCOME_RETRY;
    hf_log_record record = log_blank(retry ? HF_LOG_WARN : HF_LOG_ERROR,
                                     retry ? "attempt failed" : "attempt failed: dead letter");
    record.subscription = runner->name;
    record.event_id = slot->entry->event.id;
    record.event_type = slot->entry->event.type;
    record.position = slot->entry->event.position;
    record.attempt = slot->entry->attempts + 1;
    record.attempts_max = runner->definition.options.attempts_max;
    record.delay_ms = retry ? (outcome->next_attempt_us - now_us) / 1000 : -1;
    record.error = slot->error ? slot->error : "";
    log_record(&runner->bus->log, &record);
}

hf_status runner_outcome(struct runner *runner, const struct slot *slot, int64_t now_us,
                         struct buf *story, struct outcome *ret_outcome)
{
    const hf_subscription_options *options = &runner->definition.options;
    struct text node = text_of(runner->bus->node_name);
    struct outcome outcome = {.position = slot->entry->event.position, .lane = slot->lane};
    hf_status status = HF_OK;
    struct ending ending = {.verdict = slot->verdict, .error = text_of(slot->error), .delay_ms = -1};
    switch (slot->ending) {
    case ENDED_HELD:
        outcome.kind = OUTCOME_HELD;
        outcome.attempts_json = slot->entry->attempts_json;
        break;
    case ENDED_SPENT:
        status = verdict_spent(options, slot->entry, story, &outcome);
        break;
    case ENDED_UNHANDLED:
        outcome.kind = OUTCOME_DEAD;
        outcome.reason = text_of(REASON_NO_HANDLER);
        outcome.attempts_json = text_of("[]");
        break;
    case ENDED_RELEASED:
        outcome.kind = OUTCOME_RELEASE;
        break;
    case ENDED_VERDICT:
        status = verdict_outcome(options, slot->entry, &ending, node, now_us, random_u64(), story,
                                 &outcome);
        if (!status && slot->verdict != HF_ACK) {
            log_failure(runner, slot, &outcome, now_us);
        }
        break;
    }
    if (status) {
        return status;
    }
    outcome.waited = slot->waited;
    outcome.lane = slot->lane;
    *ret_outcome = outcome;
    return HF_OK;
}

static void pause_for(struct runner *runner, const char *reason)
{
    struct pause pause = {
        .change = {.kind = CHANGE_PAUSE, .now_us = clock_wall_us()},
        .subscription_id = runner->definition.id,
        .paused = true,
        .by = text_of(runner->bus->node_name),
        .reason = text_of(reason),
    };
    if (bus_run(runner->bus, &pause.change)) {
        runner_say(runner, HF_LOG_ERROR, "cannot pause: %s", err_message());
    }
    runner->stale = true;
}

void runner_after_outcomes(struct runner *runner, const struct outcome *outcomes, size_t count)
{
    if (runner->definition.options.on_poison != HF_POISON_HALT) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (outcomes[i].kind == OUTCOME_DEAD) {
            char reason[128];
            snprintf(reason, sizeof reason, "the event at position %lld died (on_poison=halt)",
                     (long long)outcomes[i].position);
            pause_for(runner, reason);
            return;
        }
    }
}

/* ---- Failures of the store -------------------------------------------------------------------- */

void runner_store_failed(struct runner *runner, hf_status status, const char *doing)
{
    runner->store_failures++;
    int64_t ms = 10LL << (runner->store_failures < 8 ? runner->store_failures : 8);
    ms = ms > STORE_RETRY_MS_MAX ? STORE_RETRY_MS_MAX : ms;
    runner->retry_store_us = clock_mono_us() + ms * 1000;
    runner_say(runner, HF_LOG_ERROR, "%s failed (%s: %s); trying again", doing,
               hf_status_name(status), err_message());
}

void runner_store_worked(struct runner *runner)
{
    runner->store_failures = 0;
    runner->retry_store_us = 0;
}

/* ---- The loop --------------------------------------------------------------------------------- */

static void store_breaker(struct runner *runner, int64_t now_us)
{
    pthread_mutex_lock(&runner->mutex);
    bool changed = runner->breaker_changed;
    struct breaker breaker = runner->breaker;
    runner->breaker_changed = false;
    pthread_mutex_unlock(&runner->mutex);
    if (!changed) {
        return;
    }
    struct buf buf;
    buf_init(&buf, 4096);
    struct json_out out;
    json_out_init(&out, &buf);
    breaker_write(&breaker, &out);
    log_about(&runner->bus->log, HF_LOG_WARN, runner->name, "circuit breaker is %s",
              breaker_state_name(breaker.state));
    struct breaker_put put = {
        .change = {.kind = CHANGE_BREAKER, .now_us = now_us},
        .subscription_id = runner->definition.id,
        .state_json = breaker.state == BREAKER_CLOSED ? TEXT_ABSENT : buf_text(&buf),
    };
    hf_status status = buf_status(&buf);
    if (!status) {
        status = bus_run(runner->bus, &put.change);
    }
    if (status) {
        pthread_mutex_lock(&runner->mutex);
        runner->breaker_changed = true;
        pthread_mutex_unlock(&runner->mutex);
    }
    buf_release(&buf);
}

/* With the breaker open nothing runs; when its pause is over, exactly one delivery does. Answers
 * when to look again (wall clock). */
static int64_t ask_breaker(struct runner *runner, int64_t now_us)
{
    if (!runner->breaker_on) {
        return INT64_MAX;
    }
    int64_t again_us = INT64_MAX;
    pthread_mutex_lock(&runner->mutex);
    struct breaker_policy policy = options_breaker(&runner->definition.options);
    if (runner->breaker.state != BREAKER_CLOSED && runner->window.ready > 0 &&
        breaker_ask(&runner->breaker, &policy, now_us) == BREAKER_PROBE) {
        runner->probe_wanted = true;
    }
    if (runner->breaker.state != BREAKER_CLOSED) {
        int64_t ms = breaker_wait_ms(&runner->breaker, now_us);
        again_us = ms > 0 ? now_us + ms * 1000 : ms == 0 ? now_us + PROBE_AGAIN_US : INT64_MAX;
    }
    runner->breaker_hold = runner->breaker.state != BREAKER_CLOSED && !runner->probe_wanted;
    pthread_mutex_unlock(&runner->mutex);
    return again_us;
}

static void wait_for_something(struct runner *runner, struct step step, int64_t timeout_at_us)
{
    int64_t now_us = clock_wall_us();
    int64_t wait_ms = runner->definition.options.wait_period_ms;
    if (step.at_us < INT64_MAX) {
        int64_t ms = step.at_us <= now_us ? 0 : (step.at_us - now_us + 999) / 1000;
        wait_ms = ms < wait_ms ? ms : wait_ms;
    }
    struct deadline deadline = deadline_after_ms(wait_ms);
    if (timeout_at_us < deadline.mono_us) {
        deadline.mono_us = timeout_at_us;
    }
    pthread_mutex_lock(&runner->mutex);
    runner->waiting = true;
    bool in_time = true;
    while (!runner->nudged && !runner->stopping && in_time) {
        in_time = cond_wait_until(&runner->wake, &runner->mutex, deadline);
    }
    if (!in_time) {
        runner->stale = true;
        runner->news = true;
    }
    runner->waiting = false;
    pthread_mutex_unlock(&runner->mutex);
}

static bool too_many_stuck(struct runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    bool many = runner->stuck >= runner->definition.options.stuck_max;
    pthread_mutex_unlock(&runner->mutex);
    if (many && runner->definition.paused_at_us < 0 && !runner->stale) {
        char reason[128];
        snprintf(reason, sizeof reason, "%d handlers are past their timeout and have not returned",
                 runner->definition.options.stuck_max);
        pause_for(runner, reason);
    }
    return many;
}

/* One turn of the loop. */
static void turn(struct runner *runner)
{
    int64_t now_us = clock_wall_us();
    int64_t mono_us = clock_mono_us();
    pthread_mutex_lock(&runner->mutex);
    runner->nudged = false;
    int64_t timeout_at_us = check_timeouts(runner, mono_us);
    pthread_mutex_unlock(&runner->mutex);

    refresh(runner, mono_us);
    struct step step = {.at_us = INT64_MAX};
    if (mono_us < runner->retry_store_us) {
        step.at_us = now_us + (runner->retry_store_us - mono_us);
    } else if (!runner->removed) {
        too_many_stuck(runner);
        step = runner->mode->step(runner, now_us);
        store_breaker(runner, now_us);
        int64_t breaker_us = ask_breaker(runner, now_us);
        step.at_us = breaker_us < step.at_us ? breaker_us : step.at_us;
    }
    pthread_mutex_lock(&runner->mutex);
    keep_workers(runner);
    runner_signal_work(runner);
    if (runner->rest_until_us > 0) {
        int64_t rest_us = now_us + (runner->rest_until_us - mono_us);
        step.at_us = rest_us < step.at_us ? rest_us : step.at_us;
        if (runner->rest_until_us <= mono_us) {
            runner->rest_until_us = 0;
        }
    }
    pthread_mutex_unlock(&runner->mutex);
    if (!step.again) {
        wait_for_something(runner, step, timeout_at_us);
    }
}

/* After stop was asked for: until no handler runs, or nobody waits for them any more. */
static void drain(struct runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    pthread_cond_broadcast(&runner->work);
    while (runner->window.busy > 0 || runner->worker_count > 0) {
        if (runner->window.busy > 0 && deadline_passed(runner->stop_deadline)) {
            struct worker *next;
            for (struct worker *worker = runner->workers; worker; worker = next) {
                next = worker->next;
                uint64_t at;
                struct slot *slot;
                if (worker_running_since(worker, &at) < INT64_MAX &&
                    worker_give_up(worker, at, &slot)) {
                    runner_slot_untaken(runner, slot); /* not settled: delivered again */
                }
            }
        }
        struct deadline soon = deadline_after_ms(20);
        cond_wait_until(&runner->wake, &runner->mutex, soon);
        check_timeouts(runner, clock_mono_us());
    }
    pthread_mutex_unlock(&runner->mutex);
}

static void *runner_main(void *ctx)
{
    struct runner *runner = ctx;
    for (;;) {
        pthread_mutex_lock(&runner->mutex);
        bool stopping = runner->stopping;
        pthread_mutex_unlock(&runner->mutex);
        if (stopping) {
            break;
        }
        turn(runner);
    }
    drain(runner);
    runner->mode->finish(runner, clock_wall_us());
    watch_poke(runner->bus);
    runner_unreference(runner);
    return NULL;
}

hf_status runner_start(struct runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    runner->stopping = false;
    runner->stop_deadline = DEADLINE_NEVER;
    pthread_mutex_unlock(&runner->mutex);
    runner->stale = true;
    runner->said[0] = '\0';
    runner_reference(runner);
    hf_status status = thread_start(&runner->thread, "hf-dispatch", runner_main, runner);
    if (status) {
        runner_unreference(runner);
    } else {
        runner->running = true;
    }
    return status;
}

void runner_stop_begin(struct runner *runner, struct deadline deadline)
{
    pthread_mutex_lock(&runner->mutex);
    runner->stopping = true;
    runner->stop_deadline = deadline;
    for (struct worker *worker = runner->workers; worker; worker = worker->next) {
        atomic_store(&worker->cancelled, true);
    }
    pthread_cond_broadcast(&runner->work);
    pthread_cond_signal(&runner->wake);
    pthread_mutex_unlock(&runner->mutex);
}

hf_status runner_stop_end(struct runner *runner, struct deadline deadline)
{
    if (runner->running) {
        pthread_join(runner->thread, NULL);
        runner->running = false;
    }
    pthread_mutex_lock(&runner->mutex);
    bool in_time = true;
    while (runner->stuck > 0 && in_time) {
        in_time = cond_wait_until(&runner->wake, &runner->mutex, deadline);
    }
    int32_t stuck = runner->stuck;
    pthread_mutex_unlock(&runner->mutex);
    return stuck > 0 ? fail(HF_TIMEOUT, "%s: a handler had not returned by the deadline",
                            runner->name)
                     : HF_OK;
}
