/*
 * meters.c - see meters.h.
 *
 * A chain grows at its front, by the thread that puts its meter there first, and loses nothing
 * before the bus ends. So it can be walked without a lock: a thread sees the chain as it was when
 * it has read the front, and all that is behind it stays.
 */
#include "bus/meters.h"

#include "base/mem.h"
#include "base/text/text.h"
#include "bus/deliver/work/verdict.h"

#include <string.h>

#define METERS_MAX HF_METRICS_SUBSCRIPTIONS_MAX

static uint32_t chain_of(const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *name; name++) {
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    }
    return hash % METERS_CHAINS;
}

/* From `meter` up to, and without, `end`. */
static struct meter *find(struct meter *meter, const struct meter *end, const char *name)
{
    for (; meter != end; meter = meter->next) {
        if (strcmp(meter->name, name) == 0) {
            return meter;
        }
    }
    return NULL;
}

static struct meter *meter_new(struct meters *meters, const char *name)
{
    size_t bytes = strlen(name) + 1;
    if (atomic_fetch_add(&meters->count, 1) >= METERS_MAX) {
        atomic_fetch_sub(&meters->count, 1);
        return NULL;
    }
    struct meter *meter = mem_calloc(1, sizeof *meter + bytes);
    if (!meter) {
        atomic_fetch_sub(&meters->count, 1);
        return NULL;
    }
    char *copy = (char *)(meter + 1);
    memcpy(copy, name, bytes);
    meter->name = copy;
    return meter;
}

struct meter *meters_of(struct meters *meters, const char *subscription)
{
    _Atomic(struct meter *) *chain = &meters->chains[chain_of(subscription)];
    struct meter *first = atomic_load_explicit(chain, memory_order_acquire);
    struct meter *meter = find(first, NULL, subscription);
    if (meter) {
        return meter;
    }
    meter = meter_new(meters, subscription);
    if (!meter) {
        return &meters->rest;
    }
    for (;;) {
        struct meter *seen = first;
        meter->next = first;
        if (atomic_compare_exchange_strong_explicit(chain, &first, meter, memory_order_acq_rel,
                                                    memory_order_acquire)) {
            return meter;
        }
        struct meter *other = find(first, seen, subscription); /* put there meanwhile */
        if (other) {
            atomic_fetch_sub(&meters->count, 1);
            mem_free(meter);
            return other;
        }
    }
}

void meters_release(struct meters *meters)
{
    for (size_t i = 0; i < METERS_CHAINS; i++) {
        struct meter *meter = atomic_load(&meters->chains[i]);
        while (meter) {
            struct meter *next = meter->next;
            mem_free(meter);
            meter = next;
        }
        atomic_store(&meters->chains[i], NULL);
    }
}

/* Is the database at fault, or what is between it and us? */
static bool is_failure(hf_status status)
{
    switch (status) {
    case HF_OK:
    case HF_INVALID:
    case HF_MISUSE:
    case HF_NOTFOUND:
    case HF_CONFLICT:
    case HF_STALE:
    case HF_CLOSED:
        return false;
    case HF_TIMEOUT:
    case HF_UNKNOWN:
    case HF_NOSPACE:
    case HF_NOMEM:
    case HF_BUSY:
    case HF_UNAVAILABLE:
    case HF_DENIED:
    case HF_CORRUPT:
    case HF_SCHEMA:
    case HF_IO:
        break;
    }
    return true;
}

void meters_publish(struct meters *meters, hf_status status, int64_t took_us)
{
    if (!status) {
        timing_add(&meters->publish, took_us);
    } else if (is_failure(status)) {
        meter_count(&meters->publish_failures, 1);
    }
}

static enum dead_reason reason_of(struct text text)
{
    static const char *const reasons[DEAD_REASONS] = {
        [DEAD_ATTEMPTS] = REASON_ATTEMPTS, [DEAD_REJECTED] = REASON_REJECTED,
        [DEAD_DECODE] = REASON_DECODE,     [DEAD_NO_HANDLER] = REASON_NO_HANDLER,
        [DEAD_CORRUPT] = REASON_CORRUPT,   [DEAD_LEASE] = REASON_LEASE,
    };
    enum dead_reason reason = DEAD_ATTEMPTS;
    while (reason < DEAD_LEASE && !text_equal(text, text_of(reasons[reason]))) {
        reason++;
    }
    return reason;
}

void meter_outcome(struct meter *meter, const struct outcome *outcome)
{
    if (outcome->kind == OUTCOME_DEAD || outcome->kind == OUTCOME_BLOCK) {
        meter_count(&meter->dead[reason_of(outcome->reason)], 1);
    } else if (outcome->kind == OUTCOME_RETRY) {
        meter_count(&meter->failed, 1);
    }
}

void meters_each(const struct meters *meters, meter_fn found, void *ctx)
{
    for (size_t i = 0; i < METERS_CHAINS; i++) {
        const struct meter *meter = atomic_load_explicit(&meters->chains[i], memory_order_acquire);
        for (; meter; meter = meter->next) {
            if (found(meter, ctx)) {
                return;
            }
        }
    }
    (void)found(&meters->rest, ctx);
}
