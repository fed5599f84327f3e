/*
 * histogram.h - latencies counted in buckets of equal relative width.
 *
 * Memory does not grow with the number of samples, merging is adding, and a percentile is at most
 * one bucket (under 1 %) too high.
 */
#ifndef HF_CLI_BENCH_HISTOGRAM_H
#define HF_CLI_BENCH_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_STEPS 128 /* buckets per doubling */
#define HISTOGRAM_BUCKETS (HISTOGRAM_STEPS * 58)

struct histogram {
    uint64_t count;
    int64_t max_ns;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *histogram, int64_t ns); /* negative counts as 0 */
void histogram_merge(struct histogram *histogram, const struct histogram *from);

/* The value that `part` (0.99) of the samples do not exceed, in milliseconds; 0 without samples. */
double histogram_ms(const struct histogram *histogram, double part);
double histogram_max_ms(const struct histogram *histogram);

#endif
