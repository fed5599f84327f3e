/*
 * timing.c - see timing.h.
 */
#include "base/timing.h"

#include "base/banned.h"

#define LAST (TIMING_BUCKETS - 1)

/* From what a commit in memory takes to what a person would call for ever; about two and a half
 * times as long from one to the next. */
static const int64_t bounds_us[LAST] = {
    100,     250,      500,      1000,      2500,       5000,        10000,
    25000,   50000,    100000,   250000,    500000,     1000000,     2500000,
    5000000, 10000000, 30000000, 120000000, 1800000000, 21600000000,
};

int64_t timing_bound_us(size_t bucket)
{
    return bucket < LAST ? bounds_us[bucket] : INT64_MAX;
}

/* The first bucket whose bound is not below. */
static size_t bucket_of(int64_t us)
{
    size_t low = 0;
    size_t high = LAST;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (us <= bounds_us[middle]) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

void timing_add(struct timing *timing, int64_t us)
{
    us = us < 0 ? 0 : us;
    atomic_fetch_add_explicit(&timing->counts[bucket_of(us)], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&timing->sum_us, us, memory_order_relaxed);
}

void timing_read(const struct timing *timing, hf_histogram *total)
{
    for (size_t i = 0; i < TIMING_BUCKETS; i++) {
        int64_t count = atomic_load_explicit(&timing->counts[i], memory_order_relaxed);
        total->counts[i] += count;
        total->count += count;
    }
    total->sum_us += atomic_load_explicit(&timing->sum_us, memory_order_relaxed);
}
