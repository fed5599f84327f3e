/*
 * worker.c - threads that run handlers: a chunk (chunk.h) at a time.
 *
 * What happens to a delivery
 *   when the process dies before the handler returns: the note of the delivery is left, and the
 *       next owner records one failed attempt (store.h, acquire).
 *   when the process dies after the handler returned and before the delivery is settled: it is
 *       delivered again; a transactional one was either committed with its settling or not at all.
 *   when its worker loses its turn: the runner has recorded the timeout; a transaction was rolled
 *       back.
 *
 * Transactional chunks share one commit. A delivery in it that fails is undone alone (tx_leave) and
 * ends the chunk. If the commit fails, all that had succeeded are simply run again: their effects
 * are gone, so they count as never run. A chunk of one delivery is ended and committed in one step
 * (unit_finish). If it has several events (unit.h) and fails, all of its transaction is undone.
 *
 * A worker is started when something may begin and no worker waits for it (runner_start_worker): by
 * the dispatcher that got deliveries, or by the worker that has taken the first of them. It ends
 * when it has had nothing to do for WORKER_IDLE_MS. So a subscription without work has no workers,
 * and one with work has as many as find something to do, and at most one more.
 *
 * Whose fault is it that a transaction was not kept?
 *   the handler's (HF_MISUSE; HF_CONFLICT of a commit with nothing else in it)   a failed attempt
 *   outside (HF_BUSY: a deadlock, a lock ...; a connection that went away)       it does not count
 *   another process has the work now (HF_STALE)                                  dropped
 */
#include "bus/deliver/work/worker.h"

#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "bus/deliver/runner.h"
#include "bus/deliver/work/prerecord.h"

#define WORKER_IDLE_MS 1000 /* without work: then the thread ends */
#define NOTES_SHOWN_MAX 100 /* events of a unit that are noted only to be shown */

static int32_t note_take(hf_bus *bus)
{
    for (int32_t i = 0; i < STORE_NOTES_MAX; i++) {
        bool expected = false;
        if (atomic_compare_exchange_strong(&bus->notes[i], &expected, true)) {
            return i;
        }
    }
    return -1;
}

static void note_return(hf_bus *bus, int32_t note)
{
    if (note >= 0) {
        store_note_clear(bus->store, note);
        atomic_store(&bus->notes[note], false);
    }
}

/* Takes a chunk, if there is something to run; the mutex is held. */
static bool take_chunk(struct worker *worker)
{
    struct runner *runner = worker->runner;
    size_t count = chunk_take(&worker->chunk);
    if (count == 0) {
        return false;
    }
    worker->alone = count == 1;
    worker->crash_suspect = slot_is(worker->chunk.units[0].slots[0], TRAIT_ALONE);
    worker->prerecord = slot_is(worker->chunk.units[0].slots[0], TRAIT_PRERECORD);
    worker->handlers = handlers_reference(runner->handlers);
    worker->handlers_version = atomic_load(&runner->handlers_version);
    worker->delivery.attempts_max = runner->definition.options.attempts_max;
    worker->tx_status = HF_OK;
    worker->tx_failed = count;
    worker->tx_end = TX_END_COMMIT;
    runner_expect_timeout(runner, worker->chunk.taken_us);
    return true;
}

/* Another process has what the delivery of the chunk at `index` (beyond it: any of them) belongs
 * to. */
static void lose(struct worker *worker, size_t index)
{
    struct chunk *chunk = &worker->chunk;
    bool known = index < chunk->count;
    if (!known && !chunk->units[0].slots[0]->lease) {
        runner_raise(worker->runner, BAR_LOST);
        return;
    }
    for (size_t i = 0; i < chunk->count; i++) {
        if (!known || i == index) {
            runner_lose(worker->runner, chunk->units[i].slots[0]);
        }
    }
}

/* Reports what was done and gives back what was not; the mutex is held. */
static void report_chunk(struct worker *worker)
{
    struct runner *runner = worker->runner;
    struct chunk *chunk = &worker->chunk;
    size_t done = chunk_done(chunk);
    bool undone = chunk->transactional && worker->tx_status;
    chunk_report(chunk, done, undone);
    if (worker->unmatched) {
        runner_raise(runner, BAR_HELD_BACK); /* until it is known who handles what */
        worker->unmatched = false;
    }
    if (undone && (done > 1 || worker->tx_status == HF_CONFLICT)) {
        runner->singly = CHUNK_MAX; /* whose fault it was shows when each commits alone */
    }
    if (worker->tx_status == HF_STALE) {
        lose(worker, worker->tx_failed);
    } else if (worker->tx_status && worker->tx_status != HF_CONFLICT) {
        runner->rest_until_us = clock_mono_us() + 100000;
        runner_need(runner, NEED_TURN); /* so that it wakes workers afterwards */
        snprintf(runner->trouble, sizeof runner->trouble,
                 "an attempt could not be %s (%s: %s); trying again",
                 chunk->transactional && done > 0 ? "kept with its transaction" : "begun",
                 hf_status_name(worker->tx_status), worker->tx_message);
    }
    handlers_unreference(worker->handlers);
    worker->handlers = NULL;
    chunk_clear(chunk);
    runner_chunk_reported(runner, done, worker->took_us);
}

/* Begins the delivery in the chunk's transaction. False: it must not run (already settled), or the
 * transaction is no good (tx_status). */
static bool enter(struct worker *worker, size_t i)
{
    struct chunk *chunk = &worker->chunk;
    hf_status status = unit_enter(&chunk->units[i], &chunk->cargo, worker->tx, clock_wall_us());
    if (status && status != HF_CONFLICT) {
        worker->tx_status = status;
        worker->tx_failed = i;
    }
    return status == HF_OK;
}

/* What the handler did cannot be kept, and that is its fault: a failed attempt. */
static void blame(struct chunk_result *result)
{
    result->verdict = HF_RETRY;
    result->cause = CAUSE_TRANSACTION;
    result->error = mem_dup(err_message(), strlen(err_message()));
}

/* The cause was outside of the handler: a failed attempt that does not count. */
static void excuse(struct chunk_result *result)
{
    if (result->verdict != HF_ACK && result->verdict != HF_RETRY) {
        return; /* it would not have worked anyway */
    }
    result->verdict = HF_RETRY_UNCOUNTED;
    result->cause = CAUSE_TRANSACTION;
    if (!result->error) {
        result->error = mem_dup(err_message(), strlen(err_message()));
    }
}

/* What it means for the delivery that the store answered this at its end. */
static void judge_end(struct worker *worker, size_t i, hf_status status)
{
    struct chunk_result *result = &worker->chunk.results[i];
    if (status == HF_MISUSE && result->verdict == HF_ACK) {
        blame(result);
    } else if (status == HF_BUSY) {
        excuse(result);
    } else if (status) {
        worker->tx_status = status;
        worker->tx_failed = i;
        if (status == HF_UNAVAILABLE && result->verdict == HF_RETRY) {
            excuse(result); /* no wonder that it failed */
        }
    }
}

/* Ends the delivery, of one event or several, in the chunk's transaction: keeps or undoes what its
 * handler wrote. */
static void leave(struct worker *worker, size_t i, bool several, bool keep)
{
    if (keep && worker->alone) {
        worker->tx_end = TX_END_FINISH;
        return;
    }
    if (!keep && several) {
        worker->tx_end = TX_END_UNDO;
    }
    bool *lane_busy = &worker->chunk.results[i].lane_busy;
    judge_end(worker, i, tx_leave(worker->tx, keep, lane_busy));
}

/* Notes what is about to run: each event of a unit, as far as there is room for notes, because
 * it will not be known which of them it was. */
static void note_begin(struct worker *worker, const struct unit *unit)
{
    struct store *store = worker->delivery.bus->store;
    struct cargo *cargo = &worker->chunk.cargo;
    struct handler_note begun = {
        .subscription_id = unit->members[0].hold.subscription_id,
        .position = unit->slots[0]->entry->event.position,
        .attempt = worker->delivery.attempt,
        .now_us = clock_wall_us(),
    };
    if (worker->note >= 0) {
        store_note(store, worker->note, &begun);
    }
    size_t noted = store_takes_notes(store) ? unit->count : NOTES_SHOWN_MAX;
    for (size_t j = 1; j < unit->count && j < noted; j++) {
        int32_t note = note_take(worker->delivery.bus);
        if (note < 0) {
            return;
        }
        cargo->notes[cargo->note_count++] = note;
        begun.position = unit->slots[j]->entry->event.position;
        begun.attempt = unit->slots[j]->entry->attempts + 1;
        store_note(store, note, &begun);
    }
}

/* Notes that the unit does not run any more. */
static void note_end(struct worker *worker)
{
    struct cargo *cargo = &worker->chunk.cargo;
    if (worker->note >= 0) {
        store_note_clear(worker->delivery.bus->store, worker->note);
    }
    for (; cargo->note_count > 0; cargo->note_count--) {
        note_return(worker->delivery.bus, cargo->notes[cargo->note_count - 1]);
    }
}

/* A handler has run for so long. Only what belongs to the worker is looked at: the turn may have
 * been taken away. */
static void count_attempt(struct worker *worker, int64_t took_us)
{
    struct meter *meter = worker->runner->meter;
    timing_add(&meter->handler, took_us);
    if (worker->delivery.attempt > 1) {
        meter_count(&meter->retries, 1);
    }
}

/* Runs one delivery. False: the turn was taken away meanwhile. */
static bool run_one(struct worker *worker, size_t i)
{
    struct chunk *chunk = &worker->chunk;
    struct unit *unit = &chunk->units[i];
    struct chunk_result *result = &chunk->results[i];
    struct hf_delivery *delivery = &worker->delivery;
    *result = (struct chunk_result){.verdict = HF_ACK};
    if (worker->tx && !enter(worker, i)) {
        /* Settled before: done, and nothing to run. Or the transaction is no good. */
        result->before = true;
        return worker->tx_status || chunk_next(chunk);
    }
    delivery->attempt = unit_attempts(unit) + 1;
    delivery->tx = worker->tx;
    if (!worker->tx) {
        unit_expose(unit, &chunk->cargo);
    }
    bool several = unit->count > 1; /* if the turn is taken away it is another's */
    note_begin(worker, unit);
    HF_POINT("before_handler");
    int64_t begun_us = clock_mono_us();
    chunk_begin(chunk, begun_us);
    bool ran = attempt_run(delivery, worker->handlers, chunk->cargo.events,
                           chunk->cargo.event_count, chunk->cargo.picked, &result->verdict);
    worker->ended_us = clock_mono_us();
    if (ran) {
        count_attempt(worker, worker->ended_us - begun_us);
    }
    HF_POINT("after_handler_before_settle");
    if (result->verdict != HF_ACK && delivery->error[0]) {
        result->error = mem_dup(delivery->error, strlen(delivery->error));
    }
    result->wait_ms = delivery->retry_in_ms;
    if (worker->tx) {
        leave(worker, i, several, ran && result->verdict == HF_ACK);
    }
    if (!ran) {
        /* The handlers have changed under it. It is not done: it is given back. */
        worker->unmatched = true;
        return chunk_stop(chunk);
    }
    if (!chunk_next(chunk)) {
        mem_free(result->error);
        return false;
    }
    return true;
}

static void end_tx(struct worker *worker)
{
    struct chunk_result *only = &worker->chunk.results[0];
    if (worker->tx_status || worker->tx_end == TX_END_UNDO) {
        tx_rollback(worker->tx);
        worker->tx = NULL;
        return;
    }
    HF_POINT("handler_tx_before_commit");
    bool again = false;
    if (worker->tx_end == TX_END_FINISH) {
        struct unit *unit = &worker->chunk.units[0];
        judge_end(worker, 0, unit_finish(unit, worker->tx, clock_wall_us(), &again));
    } else {
        worker->tx_status = tx_commit(worker->tx);
    }
    HF_POINT("handler_tx_after_commit");
    if (worker->tx_status == HF_CONFLICT && worker->alone && !again && only->verdict == HF_ACK) {
        blame(only);
    }
    worker->tx = NULL;
}

/* Keeps the words of a failed transaction for the report. */
static void note_trouble(struct worker *worker)
{
    if (worker->tx_status) {
        snprintf(worker->tx_message, sizeof worker->tx_message, "%s", err_message());
    }
}

/* Runs the deliveries of the chunk, one after another. False: the turn was taken away. */
static bool run_deliveries(struct worker *worker)
{
    struct chunk *chunk = &worker->chunk;
    int64_t began_us = clock_mono_us();
    if (chunk->transactional) {
        HF_POINT("before_tx");
        struct deadline deadline = bus_deadline(worker->delivery.bus);
        worker->tx_status = store_tx_begin(worker->delivery.bus->store, deadline, &worker->tx);
        if (worker->tx_status) {
            note_trouble(worker);
            return true;
        }
    }
    bool go_on = true;
    for (size_t i = 0; go_on && chunk_may_run(chunk, i); i++) {
        if (!run_one(worker, i)) {
            return false;
        }
        int64_t now_us = worker->tx ? clock_mono_us() : worker->ended_us;
        go_on = !worker->tx_status && !worker->unmatched && chunk->results[i].verdict == HF_ACK &&
                now_us - began_us <= CHUNK_US && !atomic_load(&worker->cancelled) &&
                atomic_load(&worker->runner->handlers_version) == worker->handlers_version;
    }
    note_end(worker);
    if (worker->tx) {
        end_tx(worker);
    }
    note_trouble(worker);
    worker->took_us = clock_mono_us() - began_us;
    return true;
}

/* Records the attempt if it has to be. False: that failed, and it must not run. */
static bool begin_prerecorded(struct worker *worker)
{
    const struct unit *unit = &worker->chunk.units[0];
    if (worker->prerecord) {
        worker->tx_status =
            prerecord_begin(worker->delivery.bus, &unit->members[0].hold, unit->members[0].entry);
        note_trouble(worker);
    }
    return worker->tx_status == HF_OK;
}

/* Runs the chunk. False: the turn was taken away, and with it the place in bus->exclusive. */
static bool run_chunk(struct worker *worker)
{
    struct exclusive *exclusive = &worker->delivery.bus->exclusive;
    if (!exclusive_enter(exclusive, worker->crash_suspect, &worker->cancelled)) {
        return true; /* nothing was run */
    }
    if (begin_prerecorded(worker) && !run_deliveries(worker)) {
        return false;
    }
    exclusive_leave(exclusive, worker->crash_suspect);
    return true;
}

static void unlink_worker(struct worker *worker)
{
    struct runner *runner = worker->runner;
    struct worker **at = &runner->workers;
    while (*at != worker) {
        at = &(*at)->next;
    }
    *at = worker->next;
    runner->worker_count--;
}

/* The handler of a stuck worker has returned: the worker rolls its transaction back by itself. The
 * mutex is held. */
static void forget_abort(struct worker *worker)
{
    struct worker **at = &worker->runner->aborting;
    while (*at && *at != worker) {
        at = &(*at)->next;
    }
    if (*at) {
        *at = worker->next;
    }
}

static void worker_free(struct worker *worker)
{
    struct runner *runner = worker->runner;
    tx_rollback(worker->tx);
    handlers_unreference(worker->handlers);
    chunk_release(&worker->chunk);
    note_return(runner->bus, worker->note);
    mem_free(worker);
    runner_unreference(runner);
}

/* Nothing to take: takes over, or waits. Where there is a bar, too: what is taken over is READY
 * when it is lifted, and workers are woken for that. False: the worker has been idle until `leave`.
 * The mutex is held. */
static bool find_work(struct runner *runner, struct deadline leave)
{
    bool soon = false;
    if (runner->window.busy > 0 && chunk_take_over(runner, &soon)) {
        runner_chunk_reported(runner, 0, 0);
        return true;
    }
    runner->idle++;
    struct deadline until = soon ? deadline_earlier(leave, deadline_after_ms(1)) : leave;
    cond_wait_until(&runner->work, &runner->mutex, until);
    runner->idle--;
    return !deadline_passed(leave);
}

/* Runs chunks until there is nothing to do for WORKER_IDLE_MS, or the runner wants fewer workers.
 * True: the turn was taken away, and the worker is stuck. The mutex is held. */
static bool work(struct worker *worker)
{
    struct runner *runner = worker->runner;
    struct deadline leave = deadline_after_ms(WORKER_IDLE_MS);
    bool stuck = false;
    bool leaves = false; /* unless there is something to take after all: a wake-up may be ours */
    while (!stuck && runner->course == COURSE_WORK &&
           runner->worker_count <= runner->definition.options.concurrency) {
        if (!take_chunk(worker)) {
            if (leaves) {
                break;
            }
            leaves = !find_work(runner, leave);
            continue;
        }
        runner_start_worker(runner); /* for what is left */
        pthread_mutex_unlock(&runner->mutex);
        stuck = !run_chunk(worker);
        HF_POINT("before_report");
        pthread_mutex_lock(&runner->mutex);
        if (!stuck) {
            report_chunk(worker);
            leave = deadline_after_ms(WORKER_IDLE_MS);
            leaves = false;
        }
    }
    return stuck;
}

static void *worker_main(void *ctx)
{
    struct worker *worker = ctx;
    struct runner *runner = worker->runner;
    HF_POINT("worker_begins");
    pthread_mutex_lock(&runner->mutex);
    runner->idle--;
    if (work(worker)) {
        forget_abort(worker);
        runner->stuck--;
    } else {
        unlink_worker(worker);
        runner_signal_work(runner); /* what woke us up may have been meant for another */
    }
    pthread_cond_broadcast(&runner->changed);
    if (runner->course != COURSE_WORK) {
        runner_call(runner, 0); /* it may wait for the last one */
    }
    pthread_mutex_unlock(&runner->mutex);
    worker_free(worker);
    return NULL;
}

hf_status worker_start(struct runner *runner)
{
    struct worker *worker = mem_calloc(1, sizeof *worker);
    if (!worker) {
        return fail(HF_NOMEM, "out of memory for a worker");
    }
    worker->runner = runner;
    worker->chunk.runner = runner;
    worker->chunk.cargo.namespace_name = runner->bus->namespace_name;
    worker->note = note_take(runner->bus);
    worker->delivery.bus = runner->bus;
    worker->delivery.subscription = runner->name;
    worker->delivery.cancelled = &worker->cancelled;
    runner_reference(runner);
    worker->next = runner->workers;
    runner->workers = worker;
    runner->worker_count++;
    runner->idle++; /* until it looks for work */
    pthread_t thread;
    hf_status status = thread_start(&thread, "hf-worker", worker_main, worker);
    if (status) {
        runner->idle--;
        unlink_worker(worker);
        worker_free(worker);
        return status;
    }
    pthread_detach(thread);
    return HF_OK;
}

bool worker_give_up(struct worker *worker, uint64_t turn, struct unit **ret_unit)
{
    struct runner *runner = worker->runner;
    struct unit *unit;
    if (!chunk_give_up(&worker->chunk, turn, &unit)) {
        return false;
    }
    atomic_store(&worker->cancelled, true);
    exclusive_leave(&runner->bus->exclusive, worker->crash_suspect);
    unit_keep(unit, &worker->chunk.cargo);
    note_end(worker);
    unlink_worker(worker);
    runner->stuck++;
    *ret_unit = unit;
    return true;
}
