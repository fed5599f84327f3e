/*
 * holdfast/subscription.h - durable subscriptions: what is stored with one, and how it is made.
 */
#ifndef HOLDFAST_SUBSCRIPTION_H
#define HOLDFAST_SUBSCRIPTION_H

#include <holdfast/bus.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hf_mode {
    HF_MODE_DEFAULT = 0, /* HF_MODE_ORDERED */
    HF_MODE_ORDERED = 1, /* one owner at a time; order per (tenant, key) */
    HF_MODE_SHARED = 2   /* any number of workers claim batches; no order */
} hf_mode;

typedef enum hf_order {
    HF_ORDER_DEFAULT = 0, /* HF_ORDER_RELAXED */
    HF_ORDER_RELAXED = 1, /* order per (tenant, key) */
    HF_ORDER_STRICT = 2   /* the order of positions */
} hf_order;

typedef enum hf_instance_mode {
    HF_INSTANCE_DEFAULT = 0,     /* HF_INSTANCE_COORDINATED */
    HF_INSTANCE_COORDINATED = 1, /* one active process, the others stand by */
    HF_INSTANCE_SINGLE = 2       /* the newest process takes over without asking */
} hf_instance_mode;

typedef enum hf_on_unhandled {
    HF_UNHANDLED_DEFAULT = 0,    /* HF_UNHANDLED_SKIP */
    HF_UNHANDLED_SKIP = 1,       /* types outside the patterns are not for this subscription */
    HF_UNHANDLED_DEAD_LETTER = 2 /* such types become dead letters, reason "no_handler" */
} hf_on_unhandled;

typedef enum hf_on_poison {
    HF_POISON_DEFAULT = 0,   /* HF_POISON_SKIP */
    HF_POISON_SKIP = 1,      /* the event dies, the next of its key goes on */
    HF_POISON_BLOCK_KEY = 2, /* its key waits until the dead letter is retried or resolved; for
                                ordered subscriptions */
    HF_POISON_HALT = 3       /* the subscription pauses, with a reason */
} hf_on_poison;

typedef enum hf_toggle { HF_TOGGLE_DEFAULT = 0, HF_OFF = 1, HF_ON = 2 } hf_toggle;

/* What a batch handler gets in one call: the next events, or those of one (tenant, key). */
typedef enum hf_batch_by { HF_BATCH_DEFAULT = 0, HF_BATCH_NONE = 1, HF_BATCH_KEY = 2 } hf_batch_by;

typedef enum hf_on_batch_failure {
    HF_BATCH_FAILURE_DEFAULT = 0,  /* HF_BATCH_DEAD_LETTER_UNIT */
    HF_BATCH_DEAD_LETTER_UNIT = 1, /* after the last attempt all its events die */
    HF_BATCH_SPLIT = 2 /* it is halved until what fails is alone and dies; not with block_key */
} hf_on_batch_failure;

typedef enum hf_place_kind {
    HF_PLACE_NONE = 0,
    HF_PLACE_START = 1,    /* the first event that the log still has */
    HF_PLACE_NOW = 2,      /* only what is published from now on */
    HF_PLACE_POSITION = 3, /* the first event after position `value` */
    HF_PLACE_TIME = 4      /* the first event that entered the log at `value` (us) or later; of a
                              time to come: what is published from now on */
} hf_place_kind;

/* A place in the log. */
typedef struct hf_place {
    hf_place_kind kind;
    int64_t value;
} hf_place;

/* What is stored with a subscription. The defaults are those of a new one. */
typedef struct hf_subscription_options {
    size_t size;
    hf_place from;                  /* where a new subscription starts; required for a new one */
    hf_mode mode;                   /* ordered; cannot be changed later */
    hf_order order;                 /* relaxed; cannot be changed later */
    hf_instance_mode instance_mode; /* coordinated */
    hf_on_unhandled on_unhandled;   /* skip */
    hf_on_poison on_poison;         /* skip */
    hf_toggle transactional;        /* off: handlers run in a transaction of the database */
    hf_toggle breaker;              /* off: circuit breaker */
    int32_t partitions;             /* 1: for processes to share; 1 if shared or strict; 1..1024 */
    int32_t batch;                  /* 100: events read or claimed at once; 1..10 000 */
    int32_t concurrency;            /* 1: handlers at once in one process; 1..256 */
    int32_t inflight_max;         /* 1000: events in hand, read ahead of the checkpoint, which come
                                     again after a kill; behind a key that fails up to twice as
                                     many of a partition; 1..100 000 */
    int32_t attempts_max;         /* 4: one try and three retries; 1..100 */
    int32_t retry_jitter_percent; /* 10; 0..100 */
    int64_t retry_base_ms;        /* 1000; 0..31 622 400 000, which is 366 days */
    int64_t retry_max_ms;         /* 30 000; 0..31 622 400 000 */
    double retry_multiplier;      /* 2.0; 1..100. -1: not given */
    int64_t handler_timeout_ms;   /* 30 000; 1..31 622 400 000 */
    int64_t lease_ms;             /* 30 000: after it, the work of a frozen process is taken over;
                                     10..604 800 000 */
    int32_t checkpoint_events;    /* 100: store the checkpoint after so many; 1 is after each;
                                     1..100 000 */
    int64_t checkpoint_ms;        /* 100: store the checkpoint after this time, too, or before, when
                                     nothing is left to be done; 0..3 600 000 */
    int64_t wait_period_ms;       /* 1000, on PostgreSQL 10 000: look for work at least this often
                                     without a wake-up; 1..3 600 000 */
    int64_t tx_max_ms;            /* 1000: the longest that a transactional handler may run, and
                                     others wait for its transaction; 1..60 000 */
    int64_t gap_timeout_ms;       /* 0, off; only where a server hides its locks; 0..86 400 000 */
    int32_t stuck_max;            /* 16: handlers past their timeout before a pause; 1..256 */
    int32_t breaker_events;       /* 20: first attempts in the window before it may open;
                                     1..100 000 */
    int32_t breaker_percent;      /* 50: opens when more than this failed; 0..99 */
    int64_t breaker_window_ms;    /* 60 000; 10..86 400 000 */
    int64_t breaker_pause_ms;     /* 30 000: then one probe; 1..86 400 000 */
    int32_t rate_events;          /* 0, any number: deliveries that begin in rate_ms at most, in all
                                     processes together, retries among them; 0..1 000 000 */
    int64_t rate_ms;              /* 1000; 1..86 400 000 */
    hf_batch_by batch_by;         /* none; this and what follows: for batch handlers */
    hf_on_batch_failure on_batch_failure; /* dead_letter_unit */
    int32_t batch_extend_max; /* 1000: with batch_by key, by how many more than `batch` events a
                                     run of one key is not cut; 0..10 000 */
} hf_subscription_options;

#define HF_SUBSCRIPTION_OPTIONS_INIT                                                               \
    {                                                                                              \
        sizeof(hf_subscription_options), {HF_PLACE_NONE, -1}, HF_MODE_DEFAULT, HF_ORDER_DEFAULT,   \
            HF_INSTANCE_DEFAULT, HF_UNHANDLED_DEFAULT, HF_POISON_DEFAULT, HF_TOGGLE_DEFAULT,       \
            HF_TOGGLE_DEFAULT, -1, -1, -1, -1, -1, -1, -1, -1, -1.0, -1, -1, -1, -1, -1, -1, -1,   \
            -1, -1, -1, -1, -1, -1, -1, HF_BATCH_DEFAULT, HF_BATCH_FAILURE_DEFAULT, -1             \
    }

/* Creates a durable subscription, or changes the stored one: its patterns become these, and the
 * options that are given replace the stored ones. `from` counts for a new one only. HF_CONFLICT: it
 * exists with another mode or order. HF_INVALID: no `from` for a new one, a bad name, pattern or
 * option. Other partitions wait until all are equally far. ret_created: 1 if it is new, else 0. */
HF_API hf_status hf_subscription_create(hf_bus *bus, const char *name, const char *const *patterns,
                                        size_t pattern_count,
                                        const hf_subscription_options *options,
                                        int32_t *ret_created);

/* Removes a subscription with its progress, retries and leases. Its dead letters stay. A process
 * that is working for it stops within its next settle, and frees what it had for it; handlers that
 * are registered for it stay so until hf_unsubscribe, and are not those of a subscription that is
 * created again with this name. HF_NOTFOUND. */
HF_API hf_status hf_subscription_remove(hf_bus *bus, const char *name);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_SUBSCRIPTION_H */
