/*
 * common.h - what every benchmark needs. The program defines BENCH, its name, before.
 */
#ifndef HF_BENCH_COMMON_H
#define HF_BENCH_COMMON_H

#include <holdfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Ends the program if a call has failed. */
static inline void check(hf_status status, const char *what)
{
    if (status != HF_OK) {
        fprintf(stderr, BENCH ": %s: %s: %s\n", what, hf_status_name(status), hf_errmsg());
        exit(1);
    }
}

/* Since some moment. */
static inline double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* For qsort of doubles. */
static inline int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

#endif
