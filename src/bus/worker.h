/*
 * worker.h - a thread that runs handlers for one runner.
 *
 * A worker takes a short run of deliveries at a time (a chunk), handles them one after another
 * without a lock, and reports them together; if one of them lasts, others report what is done
 * before it. How far it is and how far it may go is one word, the turn: the worker moves it on
 * after each delivery; the runner takes it away when the time is up; a worker that has nothing to
 * do lowers its limit and takes over what has not begun. Whoever changes the word first decides, so
 * a late answer can never overwrite a timeout, and no delivery is run by two workers.
 *
 * A C thread cannot be killed: a worker whose turn was taken away is stuck. It belongs to nobody
 * any more, keeps alive what its handler may still look at, and ends when the handler returns.
 */
#ifndef HF_BUS_WORKER_H
#define HF_BUS_WORKER_H

#include "bus/attempt.h"
#include "bus/unit.h"

struct runner;

#define WORKER_CHUNK_MAX 64
#define WORKER_CHUNK_US 1000 /* a chunk ends when it has taken this long */
#define WORKER_STEAL_US 200  /* a delivery that takes longer gives up what waits behind it */

/* A turn: the low half is the index in the chunk of the delivery that runs, the high half how far
 * the worker may go. */
#define TURN_TAKEN UINT64_MAX /* the runner has taken it away: this worker is stuck */
#define TURN(index, limit) ((uint64_t)(limit) << 32 | (uint64_t)(index))
#define TURN_INDEX(turn) ((size_t)((turn)&UINT32_MAX))
#define TURN_LIMIT(turn) ((size_t)((turn) >> 32))

/* What became of one delivery of the chunk. */
struct worker_result {
    hf_verdict verdict;
    char *error;    /* mem_free; NULL if none */
    bool lane_busy; /* transactional: see tx_leave */
    bool before;    /* transactional: it was settled before, and has not run */
};

struct worker {
    struct runner *runner; /* counted */
    struct worker *next;   /* in the runner's list */
    int32_t note;          /* where it notes what it runs; -1: no free place */
    _Atomic uint64_t turn;
    _Atomic int64_t started_us; /* monotonic; when it began; 0: nothing runs */
    atomic_bool cancelled;
    struct slot *chunk[WORKER_CHUNK_MAX];
    struct worker_result results[WORKER_CHUNK_MAX];
    size_t reported;                     /* of the chunk, so many were reported ... */
    size_t count;                        /* ... and up to here it is its to report ... */
    int64_t taken_us;                    /* ... since then; guarded by the runner's mutex */
    bool unmatched;                      /* no handler matched the delivery at its turn */
    bool suspect;                        /* it runs alone in the bus, see solo.h */
    bool alone;                          /* its chunk is one delivery */
    uint32_t handlers_version;           /* of the list it runs */
    int64_t took_us;                     /* the whole chunk */
    struct handlers *handlers;           /* counted, while a chunk is in hand */
    struct hold holds[WORKER_CHUNK_MAX]; /* transactional: proof for each */
    bool transactional;
    struct tx *tx;
    char tx_message[128]; /* in words */
    hf_status tx_status;  /* why the chunk's transaction could not be kept; HF_OK */
    size_t tx_failed;     /* the delivery at which that showed; count: at the commit */
    bool undo;            /* a unit has failed: nothing of its transaction is kept
                             */
    bool unsettled;       /* the only delivery of the chunk is to be ended with the commit */
    bool batched;         /* its chunk is `unit`, which takes one turn */
    struct unit unit;
    struct shelf *shelf;  /* stuck: what its handler may still look at; counted */
    struct hf_delivery delivery;
};

/* Starts a worker for the runner, whose mutex is held. */
hf_status worker_start(struct runner *runner);

/* Takes back from all workers what they have not begun. The mutex is held. */
void worker_cut_all(struct runner *runner);

/* Reports what those have done whose present delivery lasts: its lane need not wait, and it can be
 * stored. The mutex is held. */
void worker_report_all(struct runner *runner, int64_t mono_us);

/* When the delivery that the worker runs began (monotonic), and its turn; INT64_MAX if none runs.
 * The turn had not passed on when the time was read, so the two belong together. */
int64_t worker_running_since(struct worker *worker, uint64_t *ret_turn);

/* The runner, whose mutex is held, gives up the delivery of this turn. True: the turn was taken;
 * *ret_slot is the delivery, which has not ended yet; everything else of its chunk has been
 * reported. False: it has just ended by itself. */
bool worker_give_up(struct worker *worker, uint64_t turn, struct slot **ret_slot);
/* What becomes of that delivery, or of all of its unit: it has failed, or has not happened. */
void worker_end(struct worker *worker, struct slot *slot, struct worker_result *result);
void worker_untake(struct worker *worker, struct slot *slot);

#endif
