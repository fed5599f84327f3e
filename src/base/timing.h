/*
 * timing.h - how long something took, counted by many threads without a lock.
 *
 * A duration is counted in one of TIMING_BUCKETS buckets, whose bounds never change: programs that
 * were compiled against an older header have an array of as many. Counting is two additions to
 * memory that all threads share. A reader may see a duration in its bucket and not yet in the sum,
 * or the other way round; the number of durations is the sum of the buckets, so that it always fits
 * to them.
 */
#ifndef HF_BASE_TIMING_H
#define HF_BASE_TIMING_H

#include <holdfast.h>
#include <stdatomic.h>
#include <stdint.h>

#define TIMING_BUCKETS HF_HISTOGRAM_BUCKETS

struct timing {
    _Atomic int64_t counts[TIMING_BUCKETS];
    _Atomic int64_t sum_us;
};

/* The largest duration of a bucket; INT64_MAX for the last. */
int64_t timing_bound_us(size_t bucket);

/* A negative duration, which a clock that was set back makes, counts as 0. */
void timing_add(struct timing *timing, int64_t us);

/* Adds what was counted so far to *total. */
void timing_read(const struct timing *timing, hf_histogram *total);

#endif
