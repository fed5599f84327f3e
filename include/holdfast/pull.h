/*
 * holdfast/pull.h - pulling: shared subscriptions without handlers.
 */
#ifndef HOLDFAST_PULL_H
#define HOLDFAST_PULL_H

#include <holdfast/event.h>
#include <holdfast/subscription.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hf_claim_options {
    size_t size;
    int32_t max;        /* 1..10 000; default: the subscription's batch */
    int64_t lease_ms;   /* default: the subscription's */
    int64_t wait_ms;    /* 0: how long to wait for an event if there is none */
    hf_toggle detached; /* off: the lease ends when this process dies; on: only by time */
} hf_claim_options;

#define HF_CLAIM_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(hf_claim_options), -1, -1, -1, HF_TOGGLE_DEFAULT                                    \
    }

/* Events claimed under one lease. */
typedef struct hf_batch hf_batch;

/*
 * Claims up to `max` events of a shared subscription: for lease_ms they are the caller's, and then,
 * unless settled, available to every claim. Retries that are due are taken first, the earliest due
 * before others; the batch is in the order of the log. HF_OK with an empty batch if there is
 * nothing within wait_ms. A paused subscription gives an empty batch. HF_NOTFOUND; HF_MISUSE for an
 * ordered subscription. What is due enters the log first (holdfast/later.h). End the batch with
 * hf_batch_free, which settles nothing.
 */
HF_API hf_status hf_claim(hf_bus *bus, const char *subscription, const hf_claim_options *options,
                          hf_batch **ret_batch);
HF_API size_t hf_batch_count(const hf_batch *batch);
HF_API const hf_event *hf_batch_event(const hf_batch *batch, size_t index);
/* The attempt that this delivery is, from 1. */
HF_API int32_t hf_batch_attempt(const hf_batch *batch, size_t index);
/* The lease's text: what ack and the others take, also in another process; "" if empty. */
HF_API const char *hf_batch_lease(const hf_batch *batch);
HF_API int64_t hf_batch_expires_at_us(const hf_batch *batch);
HF_API void hf_batch_free(hf_batch *batch);

/*
 * Settling. `positions` names events of the lease; NULL with count 0 means all that are left in it.
 * All of a call happens or nothing. HF_STALE: the lease has ended and its events were handed out
 * again, or a position is not in it (any more); nothing was changed. A lease that has expired is
 * still good until its events are handed out again.
 */
/* Done. */
HF_API hf_status hf_ack(hf_bus *bus, const char *subscription, const char *lease,
                        const int64_t *positions, size_t count);
/* Failed: again after delay_ms (-1: the retry policy), or dead if it was the last attempt. */
HF_API hf_status hf_nack(hf_bus *bus, const char *subscription, const char *lease,
                         const int64_t *positions, size_t count, int64_t delay_ms,
                         const char *error);
/* Given back; the attempt does not count. */
HF_API hf_status hf_release(hf_bus *bus, const char *subscription, const char *lease,
                            const int64_t *positions, size_t count);
/* Given back for later: the attempt does not count, and the events come again after delay_ms (0..
 * 31 622 400 000, which is 366 days), retrying until then. Unlike a release, this is durable. */
HF_API hf_status hf_release_after(hf_bus *bus, const char *subscription, const char *lease,
                                  const int64_t *positions, size_t count, int64_t delay_ms);
/* Dead letter now, reason "rejected". */
HF_API hf_status hf_bury(hf_bus *bus, const char *subscription, const char *lease,
                         const int64_t *positions, size_t count, const char *error);
/* The lease lasts lease_ms (-1: the subscription's) from now. */
HF_API hf_status hf_touch(hf_bus *bus, const char *subscription, const char *lease,
                          int64_t lease_ms);

/* A lease of a shared subscription: events that were claimed and are not settled. */
typedef struct hf_lease_info {
    size_t size;
    const char *subscription;
    const char *lease;     /* its text, as hf_batch_lease */
    const char *node;      /* who claimed it; NULL: not known */
    int64_t claimed_at_us; /* -1: not known */
    int64_t expires_at_us; /* when it ends; of one that is kept, from when on its node's signs of
                              life are looked at */
    int32_t kept;          /* 1: handlers of a started process: it lasts while that is alive */
    int32_t ended;         /* 1: its time is over, or its process is dead, and its events have not
                              been handed out again: they are not in flight */
    const int64_t *positions; /* of its events that are left, ascending */
    size_t count;
} hf_lease_info;

typedef int (*hf_lease_fn)(const hf_lease_info *info, void *ctx);

/* The leases of a shared subscription (NULL: of all of the namespace, by name), those that end
 * first first. HF_NOTFOUND; HF_MISUSE for an ordered subscription. */
HF_API hf_status hf_lease_list(hf_bus *bus, const char *subscription, hf_lease_fn found, void *ctx);
/* Takes a lease away from its holder, for a worker that hangs: its events are free for the next
 * claim at once, and the attempt does not count. What its holder settles afterwards answers
 * HF_STALE. ret_count (may be NULL): how many events it was. HF_NOTFOUND: there is no such lease
 * (any more). */
HF_API hf_status hf_lease_revoke(hf_bus *bus, const char *subscription, const char *lease,
                                 int64_t *ret_count);

/*
 * A descriptor that becomes readable when there may be something new, for programs with their own
 * event loop: read 8 bytes from it (eventfd), then claim or read until nothing is left. It does not
 * become readable when something that waited is due, unless a process brings it: hf_tick says when
 * that is. The bus owns it; it is closed by hf_close. Every call returns the same one.
 */
HF_API hf_status hf_fd(hf_bus *bus, int *ret_fd);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_PULL_H */
