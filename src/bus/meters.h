/*
 * meters.h - what this handle has done, in numbers: for the bus, and for each subscription that it
 * works for.
 *
 * Every number only rises, and is counted with one addition to shared memory: no lock, no clock
 * that was not read anyway, no memory after the first event of a subscription. The meter of a
 * subscription is made when it is first asked for and lasts as long as the bus, so a pointer to it
 * may be kept. If there is no memory for it, or there are too many, all further ones share
 * meters->rest, which has no name.
 */
#ifndef HF_BUS_METERS_H
#define HF_BUS_METERS_H

#include <holdfast.h>
#include <stdatomic.h>

#include "base/timing.h"

struct outcome;

/* Why deliveries died: the words of verdict.h. */
enum dead_reason {
    DEAD_ATTEMPTS,
    DEAD_REJECTED,
    DEAD_DECODE,
    DEAD_NO_HANDLER,
    DEAD_CORRUPT,
    DEAD_LEASE,
    DEAD_REASONS
};

/* Of one subscription. */
struct meter {
    struct meter *next; /* in its chain */
    const char *name;   /* NULL: the rest */
    _Atomic int64_t delivered;
    _Atomic int64_t failed;
    _Atomic int64_t retries;
    _Atomic int64_t leases_lost;
    _Atomic int64_t dead[DEAD_REASONS];
    struct timing handler;
    struct timing end_to_end;
};

#define METERS_CHAINS 256

struct meters {
    struct timing publish;
    struct timing schedule_late;
    _Atomic int64_t publish_failures;
    _Atomic int64_t schedules_fired;
    _Atomic int32_t count;                         /* meters in the chains */
    _Atomic(struct meter *) chains[METERS_CHAINS]; /* by a hash of the name */
    struct meter rest;
};

/* Zeroed memory is ready to use. No thread uses them any more. */
void meters_release(struct meters *meters);

/* The meter of a subscription, made if there is none. Never NULL. */
struct meter *meters_of(struct meters *meters, const char *subscription);

/* One more, or several. */
static inline void meter_count(_Atomic int64_t *number, int64_t more)
{
    atomic_fetch_add_explicit(number, more, memory_order_relaxed);
}

/* A publish took so long, and ended so. */
void meters_publish(struct meters *meters, hf_status status, int64_t took_us);

/* An outcome of an attempt, or of what never ran, is stored. */
void meter_outcome(struct meter *meter, const struct outcome *outcome);

/* All meters, one after another, those of the rest last. */
typedef int (*meter_fn)(const struct meter *meter, void *ctx);
void meters_each(const struct meters *meters, meter_fn found, void *ctx);

#endif
