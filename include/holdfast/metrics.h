/*
 * holdfast/metrics.h - what a bus has done since it was opened, for monitoring.
 *
 * hf_stats_get and hf_subscription_list say how things stand in the database, whichever process has
 * brought them there. What is here is about this handle alone: how often and how long. The numbers
 * begin with 0 when the bus is opened and never fall, so a monitoring system adds up what several
 * processes say. They are counted without a lock and cost nothing that shows in a benchmark.
 *
 * Durations are in histograms. With what `holdfast serve` shows at /metrics as an example,
 * docs/metrics.md explains what each number is good for.
 */
#ifndef HOLDFAST_METRICS_H
#define HOLDFAST_METRICS_H

#include <holdfast/bus.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_HISTOGRAM_BUCKETS 21 /* never another number: programs have arrays of it */

/* How long something took. Bucket i has the durations that are at most hf_histogram_bound_us(i) and
 * more than the bound of the bucket before; the last one has no upper bound. */
typedef struct hf_histogram {
    int64_t counts[HF_HISTOGRAM_BUCKETS];
    int64_t count;  /* of all buckets */
    int64_t sum_us; /* of all durations */
} hf_histogram;

/* The longest duration of a bucket, from 100 microseconds to six hours; INT64_MAX for the last
 * bucket, and beyond. */
HF_API int64_t hf_histogram_bound_us(size_t bucket);

/* What a handle has done. */
typedef struct hf_metrics {
    size_t size;              /* in: sizeof(hf_metrics) */
    int64_t published;        /* events that were stored */
    int64_t publish_failures; /* publishes that the database has refused or not answered; what was
                                 wrong with the event itself does not count, nor HF_CONFLICT */
    int64_t delivered;        /* deliveries that handlers acknowledged, or hf_ack */
    int64_t failed;           /* attempts that failed, to be followed by another */
    int64_t retries;          /* attempts that began and were not the first of their delivery */
    int64_t leases_lost;      /* leases and partitions that another process had taken before their
                                 events were settled: HF_STALE */
    /* Dead letters by their reason (hf_dead_letter). */
    int64_t dead_attempts;   /* reason "attempts" */
    int64_t dead_rejected;   /* reason "rejected" */
    int64_t dead_decode;     /* reason "decode" */
    int64_t dead_no_handler; /* reason "no_handler" */
    int64_t dead_corrupt;    /* reason "corrupt" */
    int64_t dead_lease;      /* reason "lease" */
    int64_t gap_timeouts;    /* missing positions that gap_timeout has given up */
    int64_t schedules_fired; /* events of schedules */
    hf_histogram publish;    /* one for each call of hf_publish, hf_publish_many and so on: until
                                 it is durable. Without those in a transaction of the application or
                                 of a handler */
    hf_histogram commit;     /* one for each commit: with all that waited for it at one time, until
                                 it is durable */
    hf_histogram handler;    /* one for each call of a handler. Of claimed events: from the claim
                                 to their settling, if this handle has done both */
    hf_histogram end_to_end; /* one for each delivered event: from when it entered the log until
                                 it was acknowledged. Of claimed events: as above */
    hf_histogram schedule_late; /* one for each event of a schedule: how long after its time */
} hf_metrics;

/* Asks no database, and works after hf_shutdown, too. */
HF_API hf_status hf_metrics_get(hf_bus *bus, hf_metrics *ret_metrics);

/* What a handle has done for one subscription. */
typedef struct hf_subscription_metrics {
    size_t size;
    const char *name;
    int64_t delivered; /* the fields are those of hf_metrics */
    int64_t failed;
    int64_t dead; /* for whatever reason */
    int64_t retries;
    int64_t leases_lost;
    hf_histogram handler;
    hf_histogram end_to_end;
} hf_subscription_metrics;

#define HF_METRICS_SUBSCRIPTIONS_MAX 10000

typedef int (*hf_subscription_metrics_fn)(const hf_subscription_metrics *metrics, void *ctx);

/* The subscriptions that this handle has worked for, in no order: those with handlers and those
 * that it has claimed from or settled events of, removed ones among them. Those beyond
 * HF_METRICS_SUBSCRIPTIONS_MAX are counted in hf_metrics alone. Asks no database. */
HF_API hf_status hf_subscription_metrics_list(hf_bus *bus, hf_subscription_metrics_fn found,
                                              void *ctx);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_METRICS_H */
