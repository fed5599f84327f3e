/*
 * ordered.h - the ordered mode as its three files see it: ordered.c owns, ordered_settle.c settles,
 * ordered_fill.c fills the window. All of it runs on the dispatcher.
 */
#ifndef HF_BUS_ORDERED_H
#define HF_BUS_ORDERED_H

#include "bus/runner.h"

#define ORDERED_FLUSH_MAX 512 /* outcomes in one settle */
#define PARTITION 0           /* the only one so far */
#define STRICT_LANE 1         /* strict order makes all events one lane */

struct ordered {
    bool owned;
    int64_t epoch;
    int64_t seen_us;         /* the wall clock at the last step */
    bool strict;
    bool owned_before;     /* since the runner started: single mode takes over only once */
    int64_t generation;    /* of the definition that what is in hand was read by */
    int64_t acquire_at_us; /* not before, unless there is news; wall clock */
    int64_t acquired_us;   /* monotonic: when it was tried last */
    struct reader *reader;
    int64_t floor;        /* read up to here */
    bool more;            /* the last read stopped at a limit */
    int64_t checkpoint;   /* as stored */
    int64_t flushed_us;   /* when it was stored */
    int64_t unflushed_us; /* since when there is something to store; 0: nothing */
    struct set64 ahead;   /* positions above the checkpoint that have a row already */
    int64_t retry_at_us;  /* when the next retry is due; INT64_MAX: none known */
    int64_t careful;      /* events still to be run in careful mode */
    int64_t careful_end;  /* ... up to this position */

    /* one flush */
    struct slot *slots[ORDERED_FLUSH_MAX];
    struct outcome outcomes[ORDERED_FLUSH_MAX];
    struct buf stories[ORDERED_FLUSH_MAX];
    size_t count;
    int64_t settled_before; /* done and not stored when the flush began */
};

/* Stores what ended and, when it is time and if it may move, the checkpoint. False: it failed, or
 * the work is lost. */
bool ordered_flush(struct runner *runner, int64_t now_us, struct step *step, bool move);
/* Before what is in hand is dropped: what is done above the checkpoint is remembered, so that it is
 * not delivered again. Nothing runs any more. */
hf_status ordered_remember(struct runner *runner, int64_t now_us);
/* The definition has changed, but not the reading: is the partition still ours, or was it
 * sought? */
bool ordered_verify(struct runner *runner, int64_t now_us);
/* What a refused settle means: the work is lost, the definition is stale, or the store failed. */
void ordered_not_settled(struct runner *runner, hf_status status);

/* Get work into the window: retries that are due, and the log. */
void ordered_fill_from_retries(struct runner *runner, int64_t now_us, struct step *step);
void ordered_fill_from_log(struct runner *runner, int64_t now_us, struct step *step);

#endif
