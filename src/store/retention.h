/*
 * retention.h - the part of the store's contract (store.h) that is about events that may go.
 *
 * A namespace keeps its events for a time (retention_ms) and up to a size (retention_bytes). What
 * is older, or too much, goes, the oldest first and without leaving out a middle. But never past a
 * subscription: its floor is the position up to which it needs nothing any more, below every
 * checkpoint, waiting or held delivery without a copy, lease and gap. Unless the namespace says
 * that lagging ones are dropped: then they are moved past what goes, and that is written down.
 *
 * A plan says what would go; a change takes it, step by step. A plan may be old: every step looks
 * again at settings and floors.
 */
#ifndef HF_STORE_RETENTION_H
#define HF_STORE_RETENTION_H

#include "store/store.h"

#define STORE_RETAIN_STEP_ROWS 1000     /* events in one step */
#define STORE_RETAIN_STEP_BYTES 4194304 /* bytes in one step, where single events are removed */
#define STORE_RETAIN_IDS 5000           /* ids that are looked at in one step */
#define STORE_COMMAND_BYTES_MAX 256

struct retention_plan {
    bool due;        /* there are events that may go */
    int64_t through; /* events up to this position may go */
    int64_t events;  /* about so many */
    int64_t bytes;   /* about so large; -1: not known */
    bool by_size;    /* not only because of their age */
    bool drops;      /* lagging subscriptions are dropped */
    /* the subscription that keeps what else would go, or with `drops` one that loses some of it;
     * "": none */
    char lagging[HF_NAME_BYTES_MAX + 1];
};

/* What retention would take from a namespace (absent: the store's own) now. It reads as much of the
 * log as would go, where that cannot be known otherwise. HF_NOTFOUND. */
hf_status store_retention_plan(struct store *store, struct text name, int64_t now_us,
                               struct retention_plan *ret_plan);

/*
 * One step of retention: ends what an earlier one has begun and not ended, moves a subscription
 * that lags (if the namespace says so), or takes away some events up to `through`, one of these.
 * ret_more: call it again. ret_events and ret_bytes: what went with this step, about. A process
 * that dies between two steps leaves nothing that another one's step would not find. With every_ms
 * > 0 nothing happens, and ret_taken is false, unless no process has done that for so long: that
 * is how many processes take turns. A moved subscription rings. HF_NOTFOUND. To be handed to
 * store_retain, not to store_run.
 */
struct retain {
    struct change change;
    struct text name; /* absent: the store's own */
    int64_t through;
    int64_t every_ms; /* 0: it need not be our turn */
    bool ret_taken;
    bool ret_more;
    int64_t ret_events;
    int64_t ret_bytes;
    char ret_dropped_name[HF_NAME_BYTES_MAX + 1]; /* a subscription that was moved; "": none */
    int64_t ret_dropped_from;                     /* the position that it was moved from */
    int64_t ret_dropped_through;
    char ret_command[STORE_COMMAND_BYTES_MAX]; /* the engine's: what is left to do; "": nothing */
};

hf_status store_retain(struct store *store, struct retain *retain, struct deadline deadline);

#endif
