/*
 * common.h - what every benchmark needs. The program defines BENCH, its name, before.
 */
#ifndef HF_BENCH_COMMON_H
#define HF_BENCH_COMMON_H

#include <holdfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Ends the program if a call has failed. */
static inline void check(hf_status status, const char *what)
{
    if (status) {
        fprintf(stderr, BENCH ": %s: %s: %s\n", what, hf_status_name(status), hf_errmsg());
        exit(1);
    }
}

/* A bus that calls its node by this name. */
static inline hf_bus *open_as(const char *url, const char *node)
{
    hf_bus *bus = NULL;
    hf_options options = HF_OPTIONS_INIT;
    options.node_name = node;
    check(hf_open(url, &options, &bus), "hf_open");
    return bus;
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

/* How much memory this process has. */
static inline double resident_mib(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*d %ld", &pages) != 1) {
        pages = -1;
    }
    if (file) {
        fclose(file);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576.0;
}

/* The argument at this place, if there is one, within 1 to `most`. */
static inline long long number(int argc, char **argv, int at, long long otherwise, long long most)
{
    long long value = argc > at ? strtoll(argv[at], NULL, 10) : otherwise;
    return value < 1 ? 1 : value > most ? most : value;
}

#endif
