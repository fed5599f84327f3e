/*
 * history.h - what the numbers of a namespace and of its subscriptions were, in bounded memory.
 *
 * A namespace has a point for each sample of up to an hour. A subscription has an hour's quarter in
 * HISTORY_BUCKETS buckets of a fixed length, because there may be ten thousand of them. A number
 * that is not known is NAN.
 */
#ifndef HF_SERVER_LIVE_HISTORY_H
#define HF_SERVER_LIVE_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#define HISTORY_POINTS 3600
#define HISTORY_MS INT64_C(3600000)
#define HISTORY_BUCKETS 60
#define HISTORY_BUCKET_MS 15000

/* A namespace at one time. */
struct point {
    int64_t at_ms;
    float published; /* events a second */
    float delivered;
    float oldest_s; /* how long the oldest event has waited */
    float dead;     /* open dead letters */
    float died;     /* dead letters a second */
};

struct points {
    struct point ring[HISTORY_POINTS];
    size_t count;
    size_t next; /* where the next one goes */
};

void points_add(struct points *points, struct point point);

/* Calls back for the mean of each of up to `count` equal parts of the time from from_ms to to_ms
 * that has points, in order. */
typedef void (*point_fn)(const struct point *point, void *ctx);
void points_read(const struct points *points, int64_t from_ms, int64_t to_ms, size_t count,
                 point_fn found, void *ctx);

/* A subscription in the time of one bucket. */
struct bucket {
    float rate;     /* the mean */
    float waiting;  /* the last */
    float oldest_s; /* the last */
};

struct buckets {
    int64_t newest;  /* the time of the newest one, in buckets since 1970; 0: there is none */
    int32_t samples; /* that the newest has */
    struct bucket ring[HISTORY_BUCKETS];
};

void buckets_add(struct buckets *buckets, int64_t at_ms, struct bucket sample);
/* The bucket so many before the newest. */
struct bucket buckets_get(const struct buckets *buckets, size_t before);

#endif
