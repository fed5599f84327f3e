/*
 * claimed.h - what this handle has claimed and not settled, so that it is known how long that took.
 *
 * Settling names a lease and at most positions; when its events entered the log, and when they were
 * claimed, no call says. So a claim notes it here. It is for metrics alone: what is not found, or
 * has been pushed out by newer claims, is settled all the same, and only not counted.
 */
#ifndef HF_BUS_API_CLAIMED_H
#define HF_BUS_API_CLAIMED_H

#include "bus/bus.h"
#include "store/common/batch.h"

#define CLAIMED_EVENTS_MAX 100000 /* noted; the oldest claims are forgotten first */

struct claimed;

hf_status claimed_new(struct claimed **ret_claimed);
/* NULL is allowed. */
void claimed_free(struct claimed *claimed);

/* A claim has handed out what is in the batch. */
void claimed_add(hf_bus *bus, const char *subscription, const uint8_t lease[STORE_TOKEN_BYTES],
                 const struct batch *batch);

/* What is settled: positions in ascending order, or (all) what is left of the lease. */
struct claimed_part {
    const uint8_t *lease; /* STORE_TOKEN_BYTES */
    const int64_t *positions;
    size_t count;
    bool all;
};

/* A call that settles has ended with this status. Counts what was acknowledged (OUTCOME_DONE), how
 * long the work took (not of OUTCOME_RELEASE), and leases that were lost. */
void claimed_settled(hf_bus *bus, const char *subscription, const struct claimed_part *part,
                     enum outcome_kind kind, hf_status status);

#endif
