/*
 * ahead.h - times that were stored while the clock was ahead.
 *
 * A retry that is stored while the machine's clock is an hour ahead is due an hour late when the
 * clock is right again, and its key waits with it. As long as the process runs, apply.c notices
 * that the clock was set back; after a restart nothing is left of what the clock has shown but the
 * rows themselves. So an acquisition or a claim looks for rows that the present clock
 * could not have made, and lowers their times. What it looks for is at the end of an index: usually
 * nothing.
 */
#ifndef HF_STORE_SQLITE_WRITE_AHEAD_H
#define HF_STORE_SQLITE_WRITE_AHEAD_H

#include "store/store.h"

struct conn;
struct partition;

#define AHEAD_PLACES 16

/* When the retries of subscriptions were last looked at by claims: a place for each remainder. */
struct ahead_memory {
    struct ahead_place {
        int64_t subscription_id;
        int64_t looked_us; /* monotonic */
    } places[AHEAD_PLACES];
};

/* Ordered: no retry of the partition is due later than retry_max_ms from now on. */
hf_status ahead_lower_partition(struct conn *conn, const struct acquire *acquire);
/* Shared: a retry that was recorded in the future is due as long after now as it was to be after
 * its failure (a consumer may have asked for more than retry_max_ms), and leases end lease_ms from
 * now at the latest. `cursor` is the subscription's row; *ret_cursor_ahead: it is of the future,
 * too, and must be stored again. */
hf_status ahead_lower_shared(struct conn *conn, const struct claim *claim,
                             const struct partition *cursor, struct ahead_memory *memory,
                             bool *ret_cursor_ahead);

#endif
