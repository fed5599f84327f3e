/*
 * worker.c - threads that run handlers. See worker.h for the idea of chunk and turn.
 *
 * What happens to a delivery whose worker ...
 *   ... dies with the process before the handler returns: its note tells, and the next owner
 *       records one failed attempt (store.h, acquire).
 *   ... dies after the handler returned and before it is settled: it is delivered again; a
 *       transactional one was either committed with its settling or not at all.
 *   ... is taken its turn away: the runner has recorded the timeout; a transaction was rolled back.
 *
 * Transactional chunks share one commit. A delivery in it that fails is undone alone (tx_leave) and
 * ends the chunk. If the commit fails, all that had succeeded are simply run again: their effects
 * are gone, so they count as never run. A chunk of one delivery is ended and committed in one step
 * (tx_finish). The unit of a batch handler (unit.h) is a chunk of one turn; if it fails, all of its
 * transaction is undone.
 *
 * Whose fault is it that a transaction was not kept?
 *   the handler's (HF_MISUSE; HF_CONFLICT of a commit with nothing else in it)   a failed attempt
 *   nobody's (HF_BUSY: a deadlock, a lock ...; a connection that went away)      it does not count
 *   somebody else has the work now (HF_STALE)                                    dropped
 */
#include "bus/worker.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/thread.h"
#include "bus/careful.h"
#include "bus/runner.h"

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

/* What was recorded before it ran and has ended must be stored before the next such one runs: it
 * might kill the process. */
static bool must_come_later(const struct runner *runner, const struct slot *slot)
{
    return slot->careful && runner->window.ended_careful > 0;
}

static void take_probe(struct runner *runner, struct slot *slot)
{
    slot->probe = runner->probe_wanted;
    if (slot->probe) {
        runner->probe_wanted = false;
        runner->breaker_hold = true; /* nothing else until the probe has ended */
    }
}

/* Takes the next unit as a chunk of one. */
static void take_unit(struct worker *worker)
{
    struct runner *runner = worker->runner;
    if (!unit_take(runner, worker, &worker->unit)) {
        return;
    }
    struct slot *first = worker->unit.slots[0];
    if (must_come_later(runner, first)) {
        unit_untaken(runner, &worker->unit);
        return;
    }
    take_probe(runner, first);
    worker->holds[0] = worker->unit.members[0].hold;
    worker->chunk[0] = first;
    worker->count = 1;
}

/* Takes up to `most` deliveries. */
static void take_deliveries(struct worker *worker, size_t most)
{
    struct runner *runner = worker->runner;
    bool serial = runner->definition.options.concurrency == 1;
    while (worker->count < most) {
        struct slot *slot = window_take(&runner->window, serial ? worker : NULL);
        if (!slot) {
            break;
        }
        if ((slot->alone || slot->careful) && worker->count > 0) {
            runner_slot_untaken(runner, slot);
            break;
        }
        if (must_come_later(runner, slot)) {
            runner_slot_untaken(runner, slot);
            break;
        }
        take_probe(runner, slot);
        worker->holds[worker->count] = runner_hold(runner, slot);
        worker->chunk[worker->count++] = slot;
        if (slot->alone || slot->careful) {
            break;
        }
    }
}

/* Takes as much as the runner allows; the mutex is held. */
static size_t take_chunk(struct worker *worker)
{
    struct runner *runner = worker->runner;
    size_t most = runner_chunk_size(runner);
    worker->count = 0;
    worker->reported = 0;
    worker->batched = handlers_batched(runner->handlers);
    int64_t ended = runner->window.ended;
    if (worker->batched && most > 0) {
        take_unit(worker);
    } else {
        take_deliveries(worker, most);
    }
    if (runner->window.ended > ended && (runner_is_urgent(runner) || worker->count == 0)) {
        runner->nudged = true; /* some ended on the way, and nobody will report soon */
        pthread_cond_signal(&runner->wake);
    }
    worker->alone = worker->count == 1;
    runner->singly -= worker->count > 0 && runner->singly > 0 ? 1 : 0;
    if (worker->count > 0) {
        worker->handlers = handlers_reference(runner->handlers);
        worker->transactional = runner->definition.options.transactional == HF_ON;
        worker->delivery.attempts_max = runner->definition.options.attempts_max;
        worker->tx_status = HF_OK;
        worker->tx_failed = worker->count;
        worker->unsettled = false;
        worker->undo = false;
        worker->handlers_version = atomic_load(&runner->handlers_version);
        worker->taken_us = clock_mono_us();
        atomic_store(&worker->turn, TURN(0, worker->count));
    }
    return worker->count;
}

/* What the delivery of the chunk at `index` (beyond it: nobody knows which) belongs to is somebody
 * else's now. */
static void lose(struct worker *worker, size_t index)
{
    struct runner *runner = worker->runner;
    bool known = index < worker->count;
    if (!worker->chunk[0]->lease) {
        if (known) {
            crew_lose(runner, worker->chunk[index]->partition);
        } else {
            runner->lost = true;
        }
        return;
    }
    for (size_t i = 0; i < worker->count; i++) {
        if (!known || i == index) {
            lease_lose(runner, worker->chunk[i]->lease);
        }
    }
}

void worker_end(struct worker *worker, struct slot *slot, struct worker_result *result)
{
    bool in_tx = worker->transactional && result->verdict == HF_ACK;
    if (worker->batched) {
        unit_ended(worker->runner, &worker->unit, result, in_tx);
    } else {
        runner_slot_ended(worker->runner, slot, result, in_tx);
    }
}

void worker_untake(struct worker *worker, struct slot *slot)
{
    if (worker->batched) {
        unit_untaken(worker->runner, &worker->unit);
    } else {
        runner_slot_untaken(worker->runner, slot);
    }
}

/* Is what the worker has done known for good before its chunk is over? */
static bool is_piecemeal(const struct worker *worker)
{
    return !worker->transactional && !worker->batched;
}

/* Reports what the worker has done, if that can be told before its chunk is over; the mutex is
 * held. */
static void report_done(struct worker *worker, size_t done)
{
    for (; is_piecemeal(worker) && worker->reported < done; worker->reported++) {
        size_t i = worker->reported;
        worker_end(worker, worker->chunk[i], &worker->results[i]);
    }
}

/* Reports what was done and gives back what was not; the mutex is held. */
static void report_chunk(struct worker *worker, size_t done)
{
    struct runner *runner = worker->runner;
    bool undone = worker->transactional && worker->tx_status != HF_OK;
    for (size_t i = worker->reported; i < worker->count; i++) {
        struct worker_result *result = &worker->results[i];
        bool kept = !undone || (done == 1 && result->verdict != HF_ACK);
        if (i < done && kept) {
            worker_end(worker, worker->chunk[i], result);
        } else {
            /* Also one that failed: those before it, perhaps of its lane, come first again. */
            if (i < done) {
                mem_free(result->error);
            }
            worker_untake(worker, worker->chunk[i]);
        }
    }
    runner->hold_back |= worker->unmatched; /* until it is known who handles what */
    worker->unmatched = false;
    if (undone && !worker->batched && (done > 1 || worker->tx_status == HF_CONFLICT)) {
        runner->singly = WORKER_CHUNK_MAX; /* whose fault it was shows when each commits alone */
    }
    if (worker->tx_status == HF_STALE) {
        lose(worker, worker->tx_failed);
    } else if (worker->tx_status && worker->tx_status != HF_CONFLICT) {
        runner->rest_until_us = clock_mono_us() + 100000;
        runner->nudged = true; /* so that it wakes workers afterwards */
        snprintf(runner->trouble, sizeof runner->trouble,
                 "an attempt could not be %s (%s: %s); trying again",
                 worker->transactional && done > 0 ? "kept with its transaction" : "begun",
                 hf_status_name(worker->tx_status), worker->tx_message);
    }
    handlers_unreference(worker->handlers);
    worker->handlers = NULL;
    worker->count = 0;
    runner_chunk_reported(runner, done, worker->took_us);
}

/* Begins the delivery in the chunk's transaction. False: it must not run (already settled), or the
 * transaction is no good (tx_status). */
static bool enter(struct worker *worker, size_t i)
{
    hf_status status =
        worker->batched
            ? unit_enter(&worker->unit, worker->tx, clock_wall_us())
            : tx_enter(worker->tx, &worker->holds[i], worker->chunk[i]->entry, clock_wall_us());
    if (status && status != HF_CONFLICT) {
        worker->tx_status = status;
        worker->tx_failed = i;
    }
    return status == HF_OK;
}

/* Moves the turn on; the limit may be lowered at the same time. False: the turn was taken away. */
static bool next_turn(struct worker *worker)
{
    uint64_t turn = atomic_load(&worker->turn);
    while (turn != TURN_TAKEN) {
        uint64_t next = TURN(TURN_INDEX(turn) + 1, TURN_LIMIT(turn));
        if (atomic_compare_exchange_strong(&worker->turn, &turn, next)) {
            return true;
        }
    }
    return false;
}

/* What the handler did cannot be kept, and that is its fault: a failed attempt. */
static void blame(struct worker_result *result)
{
    result->verdict = HF_RETRY;
    result->error = mem_dup(err_message(), strlen(err_message()));
}

/* ... and that is nobody's fault: a failed attempt that does not count. */
static void excuse(struct worker_result *result)
{
    if (result->verdict != HF_ACK && result->verdict != HF_RETRY) {
        return; /* it would not have worked anyway */
    }
    result->verdict = HF_RETRY_UNCOUNTED;
    if (!result->error) {
        result->error = mem_dup(err_message(), strlen(err_message()));
    }
}

/* What it means for the delivery that the store answered this at its end. */
static void judge_end(struct worker *worker, size_t i, hf_status status)
{
    struct worker_result *result = &worker->results[i];
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

/* Ends the delivery in the chunk's transaction: keeps or undoes what its handler wrote. */
static void leave(struct worker *worker, size_t i, bool keep)
{
    worker->undo = worker->batched && !keep;
    if (keep && worker->alone) {
        worker->unsettled = true;
        return;
    }
    bool *lane_busy = &worker->results[i].lane_busy;
    judge_end(worker, i, tx_leave(worker->tx, keep, lane_busy));
}

/* Notes what is about to run: each event of a unit, as far as there is room for notes, because
 * nobody will know which of them it was. */
static void note_begin(struct worker *worker, size_t i)
{
    struct hf_delivery *delivery = &worker->delivery;
    struct store *store = delivery->bus->store;
    if (worker->note >= 0) {
        store_note(store, worker->note, worker->holds[i].subscription_id,
                   worker->chunk[i]->entry->event.position, delivery->attempt);
    }
    struct unit *unit = &worker->unit;
    for (size_t j = 1; worker->batched && j < unit->count && store_takes_notes(store); j++) {
        int32_t note = note_take(delivery->bus);
        if (note < 0) {
            return;
        }
        unit->notes[unit->note_count++] = note;
        store_note(store, note, unit->members[j].hold.subscription_id,
                   unit->slots[j]->entry->event.position, unit->slots[j]->entry->attempts + 1);
    }
}

/* ... and that it does not run any more. */
static void note_end(struct worker *worker)
{
    struct unit *unit = &worker->unit;
    if (worker->note >= 0) {
        store_note_clear(worker->delivery.bus->store, worker->note);
    }
    for (; unit->note_count > 0; unit->note_count--) {
        note_return(worker->delivery.bus, unit->notes[unit->note_count - 1]);
    }
}

/* Runs the handlers for the delivery, or for the unit. False: none matches. */
static bool run_handlers(struct worker *worker, const struct entry *entry,
                         hf_verdict *ret_verdict)
{
    struct unit *unit = &worker->unit;
    if (worker->batched) {
        return attempt_run_batch(&worker->delivery, worker->handlers, unit->events,
                                 unit->event_count, unit->picked, ret_verdict);
    }
    return attempt_run(&worker->delivery, worker->handlers, &entry->event, ret_verdict);
}

/* Runs one delivery, or a unit. False: the turn was taken away meanwhile. */
static bool run_one(struct worker *worker, size_t i)
{
    const struct entry *entry = worker->chunk[i]->entry;
    struct worker_result *result = &worker->results[i];
    struct hf_delivery *delivery = &worker->delivery;
    *result = (struct worker_result){.verdict = HF_ACK};
    if (worker->tx && !enter(worker, i)) {
        /* Settled before: done, and nothing to run. Or the transaction is no good. */
        result->before = true;
        return worker->tx_status || next_turn(worker);
    }
    delivery->attempt = entry->attempts + 1;
    delivery->tx = worker->tx;
    if (worker->batched) {
        delivery->attempt = unit_attempts(&worker->unit) + 1;
        if (!worker->tx) {
            unit_expose(&worker->unit);
        }
    }
    note_begin(worker, i);
    HF_POINT("before_handler");
    atomic_store(&worker->started_us, clock_mono_us());
    bool ran = run_handlers(worker, entry, &result->verdict);
    HF_POINT("after_handler_before_settle");
    if (result->verdict != HF_ACK && delivery->error[0]) {
        result->error = mem_dup(delivery->error, strlen(delivery->error));
    }
    if (worker->tx) {
        leave(worker, i, ran && result->verdict == HF_ACK);
    }
    atomic_store(&worker->started_us, 0);
    if (!ran) {
        /* The handlers have changed under it. It is not done: it is given back. */
        worker->unmatched = true;
        return atomic_load(&worker->turn) != TURN_TAKEN;
    }
    if (!next_turn(worker)) {
        mem_free(result->error);
        return false;
    }
    return true;
}

static void end_tx(struct worker *worker)
{
    struct worker_result *only = &worker->results[0];
    if (worker->tx_status != HF_OK || worker->undo) {
        tx_rollback(worker->tx);
        worker->tx = NULL;
        return;
    }
    HF_POINT("handler_tx_before_commit");
    bool again = false;
    if (worker->unsettled && worker->batched) {
        judge_end(worker, 0,
                  unit_finish(&worker->unit, worker->tx, clock_wall_us(), &again));
    } else if (worker->unsettled) {
        judge_end(worker, 0, tx_finish(worker->tx, &only->lane_busy));
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
    int64_t began_us = clock_mono_us();
    if (worker->transactional) {
        HF_POINT("before_tx");
        struct deadline deadline = bus_deadline(worker->delivery.bus);
        worker->tx_status = store_tx_begin(worker->delivery.bus->store, deadline, &worker->tx);
        if (worker->tx_status) {
            note_trouble(worker);
            return true;
        }
    }
    bool go_on = true;
    for (size_t i = 0; go_on && i < TURN_LIMIT(atomic_load(&worker->turn)); i++) {
        if (!run_one(worker, i)) {
            return false;
        }
        go_on = !worker->tx_status && !worker->unmatched && worker->results[i].verdict == HF_ACK &&
                clock_mono_us() - began_us <= WORKER_CHUNK_US && !atomic_load(&worker->cancelled) &&
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
static bool begin_carefully(struct worker *worker)
{
    if (worker->chunk[0]->careful) {
        worker->tx_status =
            careful_begin(worker->delivery.bus, &worker->holds[0], worker->chunk[0]->entry);
        note_trouble(worker);
    }
    return worker->tx_status == HF_OK;
}

/* Runs the chunk. False: the turn was taken away, and with it the place in bus->solo. */
static bool run_chunk(struct worker *worker)
{
    struct solo *solo = &worker->delivery.bus->solo;
    worker->suspect = worker->chunk[0]->alone;
    if (!solo_enter(solo, worker->suspect, &worker->cancelled)) {
        return true; /* nothing was run */
    }
    if (begin_carefully(worker) && !run_deliveries(worker)) {
        return false;
    }
    solo_leave(solo, worker->suspect);
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

static void worker_free(struct worker *worker)
{
    struct runner *runner = worker->runner;
    tx_rollback(worker->tx);
    handlers_unreference(worker->handlers);
    rack_return(NULL, worker->shelf);
    unit_release(&worker->unit);
    note_return(runner->bus, worker->note);
    mem_free(worker);
    runner_unreference(runner);
}

/* Takes back what the worker has not begun, and reports what it has done, if it is still at this
 * turn. The mutex is held. */
static bool cut(struct worker *worker, uint64_t turn)
{
    size_t index = TURN_INDEX(turn);
    size_t limit = TURN_LIMIT(turn);
    uint64_t lowered = TURN(index, limit > index + 1 ? index + 1 : limit); /* it may be through */
    if (!atomic_compare_exchange_strong(&worker->turn, &turn, lowered)) {
        return false;
    }
    for (size_t i = TURN_LIMIT(lowered); i < worker->count; i++) {
        runner_slot_untaken(worker->runner, worker->chunk[i]);
    }
    worker->count = TURN_LIMIT(lowered);
    report_done(worker, index);
    return true;
}

/* Has the worker done some of its chunk and not said so? The mutex is held. */
static bool has_done(const struct worker *worker, uint64_t turn)
{
    return is_piecemeal(worker) && TURN_INDEX(turn) > worker->reported;
}

/* Is there more to its chunk than the delivery at its turn? The mutex is held. */
static bool has_more(struct worker *worker, uint64_t *ret_turn)
{
    uint64_t turn = atomic_load(&worker->turn);
    *ret_turn = turn;
    return worker->count > 0 && turn != TURN_TAKEN &&
           (TURN_LIMIT(turn) > TURN_INDEX(turn) + 1 || has_done(worker, turn));
}

/* Since when is it at the delivery of its turn? (At most: before its handler begins, since it took
 * the chunk.) */
static int64_t at_turn_since(struct worker *worker)
{
    int64_t started_us = atomic_load(&worker->started_us);
    return started_us > 0 ? started_us : worker->taken_us;
}

void worker_cut_all(struct runner *runner)
{
    for (struct worker *worker = runner->workers; worker; worker = worker->next) {
        uint64_t turn;
        while (has_more(worker, &turn) && !cut(worker, turn)) {
            continue; /* it has just moved on */
        }
    }
}

void worker_report_all(struct runner *runner, int64_t mono_us)
{
    for (struct worker *worker = runner->workers; worker; worker = worker->next) {
        uint64_t turn;
        if (has_more(worker, &turn) && mono_us - at_turn_since(worker) >= WORKER_STEAL_US) {
            report_done(worker, TURN_INDEX(turn));
        }
    }
}

/* Takes over what has not begun behind a delivery that lasts, if only because its handler could not
 * begin, and what waits for those before it, which are done. True if there was something; *ret_soon
 * if there may be in a moment: nobody will tell. The mutex is held. */
static bool steal(struct runner *runner, bool *ret_soon)
{
    bool stolen = false;
    int64_t now_us = clock_mono_us();
    for (struct worker *other = runner->workers; other; other = other->next) {
        uint64_t turn;
        if (!has_more(other, &turn)) {
            continue;
        }
        if (now_us - at_turn_since(other) < WORKER_STEAL_US || !cut(other, turn)) {
            *ret_soon = true;
            continue;
        }
        stolen = true;
    }
    return stolen;
}

/* Nothing to take: steal, or wait. Where there is a bar, too: what is stolen is READY when it is
 * lifted, and workers are woken for that. The mutex is held. */
static void find_work(struct runner *runner)
{
    bool soon = false;
    if (runner->window.busy > 0 && steal(runner, &soon)) {
        runner_chunk_reported(runner, 0, 0);
        return;
    }
    runner->idle++;
    if (soon) {
        cond_wait_until(&runner->work, &runner->mutex, deadline_after_ms(1));
    } else {
        pthread_cond_wait(&runner->work, &runner->mutex);
    }
    runner->idle--;
}

static void *worker_main(void *ctx)
{
    struct worker *worker = ctx;
    struct runner *runner = worker->runner;
    pthread_mutex_lock(&runner->mutex);
    bool stuck = false;
    while (!stuck && !runner->stopping &&
           runner->worker_count <= runner->definition.options.concurrency) {
        if (take_chunk(worker) == 0) {
            find_work(runner);
            continue;
        }
        pthread_mutex_unlock(&runner->mutex);
        stuck = !run_chunk(worker);
        HF_POINT("before_report");
        pthread_mutex_lock(&runner->mutex);
        if (!stuck) {
            report_chunk(worker, TURN_INDEX(atomic_load(&worker->turn)));
        }
    }
    if (stuck) {
        runner->stuck--;
    } else {
        unlink_worker(worker);
        runner_signal_work(runner); /* what woke us up may have been meant for another */
    }
    pthread_cond_signal(&runner->wake);
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
    worker->note = note_take(runner->bus);
    worker->delivery.bus = runner->bus;
    worker->delivery.subscription = runner->name;
    worker->delivery.cancelled = &worker->cancelled;
    runner_reference(runner);
    worker->next = runner->workers;
    runner->workers = worker;
    runner->worker_count++;
    pthread_t thread;
    hf_status status = thread_start(&thread, "hf-worker", worker_main, worker);
    if (status) {
        unlink_worker(worker);
        worker_free(worker);
        return status;
    }
    pthread_detach(thread);
    return HF_OK;
}

int64_t worker_running_since(struct worker *worker, uint64_t *ret_turn)
{
    uint64_t turn = atomic_load(&worker->turn);
    int64_t started_us = atomic_load(&worker->started_us);
    if (worker->count == 0 || started_us == 0 || turn == TURN_TAKEN ||
        atomic_load(&worker->turn) != turn) {
        return INT64_MAX;
    }
    *ret_turn = turn;
    return started_us;
}

bool worker_give_up(struct worker *worker, uint64_t turn, struct slot **ret_slot)
{
    struct runner *runner = worker->runner;
    if (!atomic_compare_exchange_strong(&worker->turn, &turn, TURN_TAKEN)) {
        return false;
    }
    size_t index = TURN_INDEX(turn);
    atomic_store(&worker->cancelled, true);
    if (worker->tx) {
        tx_abort(worker->tx);
    }
    solo_leave(&runner->bus->solo, worker->suspect);
    struct slot *slot = worker->chunk[index];
    report_done(worker, index);
    for (size_t i = worker->reported; i < worker->count; i++) {
        if (i != index) {
            runner_slot_untaken(runner, worker->chunk[i]);
        }
    }
    worker->shelf = slot->shelf;
    atomic_fetch_add(&worker->shelf->references, 1);
    if (worker->batched) {
        unit_keep(&worker->unit);
    }
    note_end(worker);
    unlink_worker(worker);
    runner->stuck++;
    *ret_slot = slot;
    return true;
}
