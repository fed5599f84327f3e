/*
 * tail.h - the newest events of the log, read once for all subscriptions of a process.
 *
 * Subscriptions that have caught up all want the same few events, each of them a moment after the
 * others. The tail reads them once and keeps them for a while; a follower takes from there what its
 * filter lets through. A follower whose next events the tail does not have, because it is still far
 * behind or was slow, reads the log with a reader of its own until it is at the tail again.
 *
 * A shared subscription takes its events from the store, by claims. Its follower takes nothing and
 * only rests, so that the subscription need not claim when events come that are not for it.
 */
#ifndef HF_BUS_DELIVER_TAIL_TAIL_H
#define HF_BUS_DELIVER_TAIL_TAIL_H

#include <stdatomic.h>

#include "bus/deliver/turn/dispatchers.h"
#include "store/store.h"

#define TAIL_FOLLOWERS_MIN 4   /* fewer read alone: the store then sends only what they want */
#define TAIL_PASSED_US 2000000 /* when one that rests and that events have passed is called */
#define TAIL_CLAIM_US 10000000 /* the same for one that claims, which costs more ... */
#define TAIL_TURN_US 1000      /* between two of such calls */
#define TAIL_CLAIM_TURN_US 20000
#define TAIL_SWEEP_US 100000 /* so much of that time is made up for at once */

struct tail;

/* Those that rest are called among these. */
hf_status tail_new(struct store *store, struct dispatchers *dispatchers, struct tail **ret_tail);
/* Nothing follows any more. NULL is allowed. */
void tail_free(struct tail *tail);

/*
 * One place in the log that moves forward; used by one thread at a time. The contract is that of a
 * reader (store.h): every event after `after` comes once, in the order of positions as far as it
 * can be seen, and in strict order nothing comes before what is missing below it.
 */
struct follower;

/* gap_timeout_ms: see store_reader_gap_timeout. */
hf_status follower_open(struct tail *tail, int64_t after, bool strict, int64_t gap_timeout_ms,
                        struct follower **ret_follower);
/* As store_reader_next. */
hf_status follower_next(struct follower *follower, const struct filter *filter, int32_t max,
                        struct batch *batch, int64_t *ret_floor, bool *ret_more);
/* NULL is allowed. */
void follower_close(struct follower *follower);

/*
 * Resting: a follower that has taken everything, and has an owner, is not called for news of events
 * any more. The thread that reads the tail next matches what it brings with the patterns of those
 * that rest, and calls the owners of those that want some of it; the others are behind it without
 * having looked. Any call of follower_next ends the rest.
 */
struct follower_owner {
    struct seat *seat; /* gets a turn, which calls tail_serve first */
    /* There may be something to take, or its floor has moved. With the tail's mutex, before the
     * seat is called. */
    void (*look)(void *ctx);
    void *ctx;
    atomic_bool *rests; /* false: it is to be called for news as before */
    bool claims;        /* it takes its events by claims: follower_mark, follower_rest */
};
/* Before the first follower_next. The owner is there until the follower is closed. */
void follower_own(struct follower *follower, struct follower_owner owner);

/* For one that claims, instead of follower_next. Before a claim: its rest ends, and what the tail
 * brings from now on is compared when it rests again. */
void follower_mark(struct follower *follower);
/* After a claim that has left nothing: it rests, if nothing that the filter lets through has come
 * since the mark, and all that has come is known. */
void follower_rest(struct follower *follower, const struct filter *filter);

/* There is news: one of those that rest gets a turn, if any does, to read the tail for all. */
void tail_news(struct tail *tail);
/* How many rest. Costs one load. */
int32_t tail_resting(const struct tail *tail);
/* At the begin of a turn: reads the tail if that is wanted. Costs one load if not. */
void tail_serve(struct tail *tail);
/* Calls those that have rested for TAIL_PASSED_US or TAIL_CLAIM_US and that events have passed, so
 * that their checkpoints can move: not too many at once and not too often, for others wait behind
 * them. To be called every second or so; true: in TAIL_SWEEP_US, because some are left. Does not
 * wait for the store. */
bool tail_sweep(struct tail *tail);

/* Does it take its events from the tail at the moment? For tests. */
bool follower_is_at_tail(const struct follower *follower);

#endif
