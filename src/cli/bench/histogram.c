/*
 * histogram.c - values below 128 ns have a bucket each; above, every doubling has 128.
 */
#include "cli/bench/histogram.h"

#include "base/banned.h"

static uint32_t bucket_of(int64_t ns)
{
    uint64_t value = (uint64_t)ns;
    uint32_t shift;

    if (value < HISTOGRAM_STEPS) {
        return (uint32_t)value;
    }
    shift = 63 - (uint32_t)__builtin_clzll(value) - 7; /* value >> shift is in 128..255 */
    return (shift + 1) * HISTOGRAM_STEPS + (uint32_t)(value >> shift) - HISTOGRAM_STEPS;
}

/* The largest value of a bucket. */
static int64_t bucket_top(uint32_t bucket)
{
    uint32_t shift;

    if (bucket < HISTOGRAM_STEPS) {
        return bucket;
    }
    shift = bucket / HISTOGRAM_STEPS - 1;
    return (int64_t)((((uint64_t)bucket % HISTOGRAM_STEPS + HISTOGRAM_STEPS + 1) << shift) - 1);
}

void histogram_add(struct histogram *histogram, int64_t ns)
{
    if (ns < 0) {
        ns = 0;
    }
    histogram->buckets[bucket_of(ns)]++;
    histogram->count++;
    if (ns > histogram->max_ns) {
        histogram->max_ns = ns;
    }
}

void histogram_merge(struct histogram *histogram, const struct histogram *from)
{
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        histogram->buckets[i] += from->buckets[i];
    }
    histogram->count += from->count;
    if (from->max_ns > histogram->max_ns) {
        histogram->max_ns = from->max_ns;
    }
}

double histogram_ms(const struct histogram *histogram, double part)
{
    uint64_t wanted = (uint64_t)(part * (double)histogram->count + 0.5);
    uint64_t seen = 0;

    if (wanted == 0) {
        wanted = 1;
    }
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen >= wanted) {
            int64_t top = bucket_top(i);
            return (double)(top < histogram->max_ns ? top : histogram->max_ns) / 1e6;
        }
    }
    return 0;
}

double histogram_max_ms(const struct histogram *histogram)
{
    return (double)histogram->max_ns / 1e6;
}
