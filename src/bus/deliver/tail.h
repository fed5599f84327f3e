/*
 * tail.h - the newest events of the log, read once for all subscriptions of a process.
 *
 * Subscriptions that have caught up all want the same few events, each of them a moment after the
 * others. The tail reads them once and keeps them for a while; a follower takes from there what its
 * filter lets through. A follower whose next events the tail does not have, because it is still far
 * behind or was slow, reads the log with a reader of its own until it is at the tail again.
 */
#ifndef HF_BUS_DELIVER_TAIL_H
#define HF_BUS_DELIVER_TAIL_H

#include "store/store.h"

#define TAIL_FOLLOWERS_MIN 4 /* fewer read alone: the store then sends only what they want */

struct tail;

hf_status tail_new(struct store *store, struct tail **ret_tail);
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
/* Does it take its events from the tail at the moment? For tests. */
bool follower_is_at_tail(const struct follower *follower);

#endif
