/*
 * worker.h - a thread that runs handlers for one runner.
 *
 * A worker takes a chunk of deliveries at a time (chunk.h), runs it without a lock and reports it.
 *
 * A C thread cannot be killed: a worker whose turn was taken away is stuck. It belongs to no runner
 * any more, keeps alive what its handler may still look at, and ends when the handler returns.
 */
#ifndef HF_BUS_DELIVER_WORK_WORKER_H
#define HF_BUS_DELIVER_WORK_WORKER_H

#include "bus/deliver/work/attempt.h"
#include "bus/deliver/work/chunk.h"

struct runner;

enum tx_end {
    TX_END_COMMIT, /* what was left in it is kept */
    TX_END_FINISH, /* the only unit of the chunk is to be ended with the commit */
    TX_END_UNDO    /* a unit of several events has failed: nothing is kept */
};

struct worker {
    struct runner *runner; /* counted */
    struct worker *next;   /* in the runner's list */
    int32_t note;          /* where it notes what it runs; -1: no free place */
    atomic_bool cancelled;
    struct chunk chunk;
    bool unmatched;            /* no handler matched the delivery at its turn */
    bool crash_suspect;        /* it runs alone in the bus, see exclusive.h */
    bool alone;                /* its chunk is one unit */
    bool prerecord;            /* the attempt of that unit is recorded before it runs */
    uint32_t handlers_version; /* of the list it runs */
    int64_t took_us;           /* the whole chunk */
    int64_t ended_us;          /* monotonic; when the last handler has returned */
    struct handlers *handlers; /* counted, while a chunk is in hand */
    struct tx *tx;
    char tx_message[128]; /* in words */
    hf_status tx_status;  /* why the chunk's transaction could not be kept; HF_OK */
    size_t tx_failed;     /* the delivery at which that showed; count: at the commit */
    enum tx_end tx_end;   /* what becomes of the transaction if nothing is wrong with it */
    int64_t abort_at_us;  /* stuck: when its transaction is rolled back, if it is not (monotonic;
                             INT64_MAX: it is); the pause after that grows */
    int64_t abort_pause_us;
    struct hf_delivery delivery;
};

/* Starts a worker for the runner, whose mutex is held. */
hf_status worker_start(struct runner *runner);

/* The runner, whose mutex is held, gives up the delivery of this turn. True: the turn was taken;
 * *ret_unit is the delivery, which has not ended yet; everything else of its chunk has been
 * reported. False: it has just ended by itself. */
bool worker_give_up(struct worker *worker, uint64_t turn, struct unit **ret_unit);

#endif
