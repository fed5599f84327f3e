/*
 * chunk.h - the short run of deliveries that a worker has taken, as units (unit.h). What this file
 * says of a delivery holds for a unit.
 *
 * A worker runs the deliveries of its chunk one after another without a lock, and reports them
 * together; if one of them lasts, others report what is done before it and take over what has not
 * begun behind it. How far the worker is and how far it may go is one word, the turn: the worker
 * moves it on after each delivery; the runner takes it away when the time is up; a worker that has
 * nothing to do lowers its limit. The thread that changes the word first decides: a late answer can
 * never overwrite a timeout, and no delivery is run by two workers: chunk.c tells why.
 */
#ifndef HF_BUS_DELIVER_WORK_CHUNK_H
#define HF_BUS_DELIVER_WORK_CHUNK_H

#include <stdatomic.h>

#include "bus/deliver/work/unit.h"

struct runner;

#define CHUNK_MAX 64
#define CHUNK_US 1000      /* a chunk ends when it has taken this long */
#define CHUNK_LASTS_US 200 /* a delivery that takes longer gives up what waits behind it */

/* What became of one delivery of the chunk. */
struct chunk_result {
    hf_verdict verdict;
    enum cause cause; /* of a failure that is not the handler's answer; else CAUSE_NONE */
    char *error;      /* mem_free; NULL if none */
    int64_t wait_ms;  /* the least wait before the next attempt (hf_delivery_retry_in) */
    bool lane_busy;   /* transactional: see tx_leave */
    bool before;      /* transactional: it was settled before, and has not run */
    int64_t at_us;    /* the store's clock; when it was reported */
};

struct chunk {
    struct runner *runner;      /* counted by the worker */
    _Atomic uint64_t turn;      /* see chunk.c */
    _Atomic int64_t started_us; /* monotonic; when the handler of the turn began; 0: none runs */
    size_t count;       /* units of its own; 0: nothing is in hand. Guarded by the runner's mutex */
    size_t reported;    /* units of these that were reported; guarded likewise */
    int64_t taken_us;   /* monotonic; when it was taken; guarded likewise */
    bool transactional; /* all of it shares one transaction */
    struct unit units[CHUNK_MAX];
    struct chunk_result results[CHUNK_MAX]; /* of each */
    struct cargo cargo;
};

/* Where a worker stands in its chunk. */
struct chunk_place {
    uint64_t turn;
    int64_t since_us; /* monotonic; it is at the delivery of this turn since then, or later */
    bool running;     /* the handler has begun at since_us */
};

/* For its worker; the mutex is held. */

/* Takes as much as the runner allows, and answers how much: the turn is at the first. */
size_t chunk_take(struct chunk *chunk);
/* Reports the first `done` of it and gives back the others. If what was done is undone, so are
 * they, except a single one that had failed anyway. */
void chunk_report(struct chunk *chunk, size_t done, bool undone);
/* Nothing is in hand any more. */
void chunk_clear(struct chunk *chunk);
void chunk_release(struct chunk *chunk);

/* For its worker, without the mutex. */

/* May it run the delivery at this index, which is that of the turn? */
bool chunk_may_run(const struct chunk *chunk, size_t index);
/* The handler of the turn begins. */
void chunk_begin(struct chunk *chunk, int64_t mono_us);
/* The delivery of the turn is over: the turn moves on. False: it was taken away. */
bool chunk_next(struct chunk *chunk);
/* The delivery of the turn was not run after all, and nothing behind it will be. False: the turn
 * was taken away. */
bool chunk_stop(struct chunk *chunk);
/* So many are over. */
size_t chunk_done(const struct chunk *chunk);

/* For every thread; the mutex is held. */

/* Where the worker stands. False: it has nothing in hand. */
bool chunk_look(const struct chunk *chunk, struct chunk_place *ret_place);
/* Takes back from all workers what they have not begun. */
void chunk_cut_all(struct runner *runner);
/* Reports what those have done whose present delivery lasts: its lane need not wait, and it can be
 * stored. */
void chunk_report_all(struct runner *runner, int64_t mono_us);
/* Takes over what has not begun behind a delivery that lasts, if only because its handler could not
 * begin, and what waits for those before it, which are done. True if there was something; *ret_soon
 * if there may be in a moment, without another call. */
bool chunk_take_over(struct runner *runner, bool *ret_soon);

/* The runner gives up the delivery of this turn. True: the turn was taken away; *ret_unit is the
 * delivery, which has not ended yet; everything else of the chunk has been reported. False: it has
 * just ended by itself. */
bool chunk_give_up(struct chunk *chunk, uint64_t turn, struct unit **ret_unit);
/* What becomes of that delivery: it has failed, or has not happened (unit_untaken). */
void chunk_end(struct chunk *chunk, struct unit *unit, struct chunk_result *result);

#endif
