/*
 * chunk.c - the short run of deliveries that a worker has taken, and how others share in it.
 *
 * The turn is one word: the index of the delivery that the worker is at, and its limit, the first
 * one that it must not run.
 *
 *     units    0 . . . . index . . . . limit . . . . count as taken
 *              |  over   | the    behind | cut: given back, and
 *              |         | worker's      | READY for others
 *
 *   worker     chunk_take sets (0, count), under the mutex; chunk_next makes (i, l) into (i + 1, l)
 *              without it, and chunk_stop (i, l) into (i, i): the one at the index has not run
 *              after all
 *   others     cut makes (i, l) into (i, i + 1); under the mutex
 *   runner     chunk_give_up makes (i, l) into TAKEN; under the mutex. It is the last change: the
 *              worker is stuck, and when its handler returns it ends (worker.c)
 *
 * Each change is a compare and swap of the word that was looked at, so of two that meet one fails
 * and looks again. The index only rises and the limit only falls until the chunk is reported, and
 * a new one is taken under the mutex: no word comes twice while a thread that holds it looks.
 *
 * Who has a delivery?
 *   below the index     it is over. Its result was written before the turn moved on and does not
 *                       change any more. Where it counts at once (is_piecemeal) a holder of the
 *                       mutex may report it, each once (`reported`); else only its worker does, or
 *                       the runner gives it back when the transaction is aborted
 *   at the index        the worker, whether its handler has begun or not: no cut takes it away
 *   behind it           the worker, when it has moved the index there; until then a cut may come
 *   from the limit on   none: the cutter gives it back in the same hold of the mutex, and what a
 *                       worker stopped before is given back by its report, or by a cut before that
 *
 * So for any two who meet:
 *   the worker moves on, another cuts        worker first: the cut fails, and looks again or leaves
 *                                            it. Cut first: the worker's CAS fails, and its next
 *                                            one keeps the limit: it stops before what is gone
 *   the worker moves on or stops, the        worker first: it has ended in time, and give_up
 *   runner's time is up                      answers so. Runner first: the worker finds its turn
 *                                            gone; what the handler said is dropped
 *   another cuts, the runner's time is up    one after the other: both hold the mutex. What was cut
 *                                            is no longer in `count`, so it is not given back twice
 *   the worker stops in the middle (time,    what is between index and count is its own until it
 *   a failure, cancelled)                    reports, which gives that back. If another cuts
 *                                            before, the one at the index is left for the report
 *   a reporter and the worker's report       both hold the mutex; the second begins at `reported`
 *
 * No delivery is run by two workers: to run it one must have it in its chunk below the limit, and
 * what is given back was at or above it. None is left without one: whatever is in a chunk and is
 * not over is given back by the cut, the report, or the giving up; the one that is given up is
 * ended or given back by the runner.
 *
 * When the present handler began (started_us) is a word of its own. It is set and cleared within
 * one turn, so what is read between two equal looks at the turn belongs to it (chunk_look).
 */
#include "bus/deliver/work/chunk.h"

#include "base/mem.h"
#include "base/time/clock.h"
#include "bus/deliver/runner.h"
#include "store/timers.h"

#define TURN_TAKEN UINT64_MAX
#define TURN(index, limit) ((uint64_t)(limit) << 32 | (uint64_t)(index))
#define TURN_INDEX(turn) ((size_t)((turn)&UINT32_MAX))
#define TURN_LIMIT(turn) ((size_t)((turn) >> 32))

/* ---- Taking ---------------------------------------------------------------------------------- */

/* What was recorded before it ran and has ended must be stored before the next such one runs: it
 * might kill the process. */
static bool must_come_later(const struct runner *runner, const struct slot *slot)
{
    return slot_is(slot, TRAIT_PRERECORD) && runner->window.ended_prerecorded > 0;
}

static void take_probe(struct runner *runner, struct slot *slot)
{
    slot_set(slot, TRAIT_PROBE, runner->probe_wanted);
    if (slot_is(slot, TRAIT_PROBE)) {
        runner->probe_wanted = false;
        runner_raise(runner, BAR_BREAKER); /* nothing else until the probe has ended */
    }
}

/* Takes up to `most` units. */
static void take_units(struct chunk *chunk, size_t most)
{
    struct runner *runner = chunk->runner;
    bool serial = runner->definition.options.concurrency == 1 || most == 1;
    const void *owner = serial ? chunk : NULL; /* no other worker takes over from this chunk */
    while (chunk->count < most) {
        struct unit *unit = &chunk->units[chunk->count];
        if (!unit_take(runner, owner, &chunk->cargo, unit)) {
            break;
        }
        struct slot *first = unit->slots[0];
        bool apart = slot_is(first, TRAIT_ALONE) || slot_is(first, TRAIT_PRERECORD);
        if ((apart && chunk->count > 0) || must_come_later(runner, first)) {
            unit_untaken(runner, unit);
            break;
        }
        take_probe(runner, first);
        runner_rate_charge(runner, unit);
        chunk->count++;
        if (apart) {
            break;
        }
    }
}

size_t chunk_take(struct chunk *chunk)
{
    struct runner *runner = chunk->runner;
    size_t most = runner_chunk_size(runner);
    chunk->count = 0;
    chunk->reported = 0;
    chunk->cargo.used = 0;
    chunk->transactional = runner->definition.options.transactional == HF_ON;
    int64_t ended = runner->window.ended;
    take_units(chunk, most);
    if (runner->window.ended > ended && (runner_is_urgent(runner) || chunk->count == 0)) {
        runner_call(runner, 0); /* some ended on the way, and no worker will report soon */
    }
    if (chunk->count > 0) {
        runner->singly -= runner->singly > 0 ? 1 : 0;
        chunk->taken_us = clock_mono_us();
        atomic_store(&chunk->turn, TURN(0, chunk->count));
    }
    return chunk->count;
}

/* ---- The worker's turns ---------------------------------------------------------------------- */

bool chunk_may_run(const struct chunk *chunk, size_t index)
{
    return index < TURN_LIMIT(atomic_load(&chunk->turn));
}

void chunk_begin(struct chunk *chunk, int64_t mono_us)
{
    atomic_store(&chunk->started_us, mono_us);
}

bool chunk_next(struct chunk *chunk)
{
    atomic_store(&chunk->started_us, 0);
    uint64_t turn = atomic_load(&chunk->turn);
    while (turn != TURN_TAKEN) {
        uint64_t next = TURN(TURN_INDEX(turn) + 1, TURN_LIMIT(turn));
        if (atomic_compare_exchange_strong(&chunk->turn, &turn, next)) {
            return true;
        }
    }
    return false;
}

bool chunk_stop(struct chunk *chunk)
{
    atomic_store(&chunk->started_us, 0);
    uint64_t turn = atomic_load(&chunk->turn);
    while (turn != TURN_TAKEN) {
        uint64_t stopped = TURN(TURN_INDEX(turn), TURN_INDEX(turn));
        if (atomic_compare_exchange_strong(&chunk->turn, &turn, stopped)) {
            return true;
        }
    }
    return false;
}

size_t chunk_done(const struct chunk *chunk)
{
    return TURN_INDEX(atomic_load(&chunk->turn));
}

/* ---- Reporting ------------------------------------------------------------------------------- */

void chunk_end(struct chunk *chunk, struct unit *unit, struct chunk_result *result)
{
    bool in_tx = chunk->transactional && result->verdict == HF_ACK;
    unit_ended(chunk->runner, unit, result, in_tx);
}

/* Is what the worker has done known for good before its chunk is over? */
static bool is_piecemeal(const struct chunk *chunk)
{
    return !chunk->transactional;
}

static int64_t report_time(const struct chunk *chunk)
{
    return store_time(chunk->runner->bus->store, clock_wall_us());
}

/* Reports the first `done`, if that can be told before the chunk is over. */
static void report_done(struct chunk *chunk, size_t done)
{
    if (!is_piecemeal(chunk) || chunk->reported >= done) {
        return;
    }
    int64_t now_us = report_time(chunk);
    for (; chunk->reported < done; chunk->reported++) {
        size_t i = chunk->reported;
        chunk->results[i].at_us = now_us;
        chunk_end(chunk, &chunk->units[i], &chunk->results[i]);
    }
}

void chunk_report(struct chunk *chunk, size_t done, bool undone)
{
    int64_t now_us = report_time(chunk);
    for (size_t i = chunk->reported; i < chunk->count; i++) {
        struct chunk_result *result = &chunk->results[i];
        result->at_us = now_us;
        bool kept = !undone || (done == 1 && result->verdict != HF_ACK);
        if (i < done && kept) {
            chunk_end(chunk, &chunk->units[i], result);
        } else {
            /* Also one that failed: those before it, perhaps of its lane, come first again. */
            if (i < done) {
                mem_free(result->error);
            }
            unit_untaken(chunk->runner, &chunk->units[i]);
        }
    }
}

void chunk_clear(struct chunk *chunk)
{
    chunk->count = 0;
}

void chunk_release(struct chunk *chunk)
{
    cargo_release(&chunk->cargo);
}

/* ---- What others do to it -------------------------------------------------------------------- */

bool chunk_look(const struct chunk *chunk, struct chunk_place *ret_place)
{
    uint64_t turn = atomic_load(&chunk->turn);
    if (chunk->count == 0 || turn == TURN_TAKEN) {
        return false;
    }
    int64_t started_us = atomic_load(&chunk->started_us);
    uint64_t again;
    while ((again = atomic_load(&chunk->turn)) != turn) { /* at most once for each delivery */
        turn = again;
        started_us = atomic_load(&chunk->started_us);
    }
    ret_place->turn = turn;
    ret_place->running = started_us > 0;
    ret_place->since_us = started_us > 0 ? started_us : chunk->taken_us;
    return true;
}

/* Is there more to it than the delivery of the turn: some that wait behind it, or some that are
 * done and not reported? */
static bool has_more(const struct chunk *chunk, uint64_t turn)
{
    return TURN_LIMIT(turn) > TURN_INDEX(turn) + 1 ||
           (is_piecemeal(chunk) && TURN_INDEX(turn) > chunk->reported);
}

/* Takes back what the worker has not begun, and reports what it has done, if it is still at this
 * turn. */
static bool cut(struct chunk *chunk, uint64_t turn)
{
    size_t index = TURN_INDEX(turn);
    size_t limit = TURN_LIMIT(turn);
    uint64_t lowered = TURN(index, limit > index + 1 ? index + 1 : limit); /* it may be through */
    if (!atomic_compare_exchange_strong(&chunk->turn, &turn, lowered)) {
        return false;
    }
    for (size_t i = TURN_LIMIT(lowered); i < chunk->count; i++) {
        unit_untaken(chunk->runner, &chunk->units[i]);
    }
    chunk->count = TURN_LIMIT(lowered);
    report_done(chunk, index);
    return true;
}

void chunk_cut_all(struct runner *runner)
{
    for (struct worker *worker = runner->workers; worker; worker = worker->next) {
        struct chunk_place place;
        while (chunk_look(&worker->chunk, &place) && has_more(&worker->chunk, place.turn) &&
               !cut(&worker->chunk, place.turn)) {
            continue; /* it has just moved on */
        }
    }
}

void chunk_report_all(struct runner *runner, int64_t mono_us)
{
    for (struct worker *worker = runner->workers; worker; worker = worker->next) {
        struct chunk_place place;
        if (chunk_look(&worker->chunk, &place) && mono_us - place.since_us >= CHUNK_LASTS_US) {
            report_done(&worker->chunk, TURN_INDEX(place.turn));
        }
    }
}

bool chunk_take_over(struct runner *runner, bool *ret_soon)
{
    bool taken = false;
    int64_t now_us = clock_mono_us();
    for (struct worker *other = runner->workers; other; other = other->next) {
        struct chunk_place place;
        if (!chunk_look(&other->chunk, &place) || !has_more(&other->chunk, place.turn)) {
            continue;
        }
        if (now_us - place.since_us < CHUNK_LASTS_US || !cut(&other->chunk, place.turn)) {
            *ret_soon = true;
            continue;
        }
        taken = true;
    }
    return taken;
}

bool chunk_give_up(struct chunk *chunk, uint64_t turn, struct unit **ret_unit)
{
    if (!atomic_compare_exchange_strong(&chunk->turn, &turn, TURN_TAKEN)) {
        return false;
    }
    size_t index = TURN_INDEX(turn);
    report_done(chunk, index);
    for (size_t i = chunk->reported; i < chunk->count; i++) {
        if (i != index) {
            unit_untaken(chunk->runner, &chunk->units[i]);
        }
    }
    *ret_unit = &chunk->units[index];
    return true;
}
