/*
 * bench.h - what the benchmarks share: where they run, what they report.
 */
#ifndef HF_CLI_BENCH_BENCH_H
#define HF_CLI_BENCH_BENCH_H

#include "cli/bench/histogram.h"
#include "cli/core/cli.h"
#include "cli/core/tempdir.h"

#include <stdbool.h>
#include <stdint.h>

#define BENCH_ROUNDS_MAX 99
#define BENCH_SIZE_MIN 64 /* bytes of a payload */
#define BENCH_SIZE_MAX 1048576

/* The place of a benchmark: a directory of its own, or the database given by --db. */
struct bench {
    struct cli *cli;
    struct tempdir dir;
    bool own;              /* a directory of its own */
    int64_t rounds_opened; /* databases made in it */
    char url[TEMPDIR_PATH_BYTES_MAX + 64];
    hf_durability durability;
};

/* What a benchmark found. Negative: not measured. */
struct bench_report {
    const char *name; /* "publish" */
    int64_t events;
    int64_t threads;
    int64_t batch;
    int64_t size;
    int64_t rounds;
    double rate;        /* events per second; the median of the rounds */
    double wanted_rate; /* e2e: the rate that was asked for */
    double raw_rate;    /* the bare engine */
    int64_t commits;
    const char *mode;       /* consume; else NULL */
    int64_t processes;      /* e2e */
    const char *latency_is; /* for humans: what the latencies are */
    const struct histogram *latency;
};

#define BENCH_REPORT_INIT                                                                          \
    {                                                                                              \
        .events = -1, .threads = -1, .batch = -1, .size = -1, .rounds = -1, .rate = -1,            \
        .wanted_rate = -1, .raw_rate = -1, .commits = -1, .processes = -1                          \
    }

/* Prepares. 0, or the exit code after the complaint. */
int bench_begin(struct bench *bench, struct cli *cli);

/* A new, empty database: a new file, or the one of --db, which must be empty and can be had once.
 * 0, or the exit code. */
int bench_open(struct bench *bench, hf_bus **ret_bus);

/* Closes the bus (may be NULL) and removes the file if it is ours. */
void bench_close(struct bench *bench, hf_bus **bus);

void bench_end(struct bench *bench);

/* Prints the report. */
void bench_print(const struct bench *bench, const struct bench_report *report);

/* A payload of `size` bytes with a number in it: {"t":123,"pad":"xxx"}. */
void bench_payload(char *ret_payload, size_t size, int64_t number);

/* The number in such a payload; -1 if there is none. */
int64_t bench_payload_number(const char *payload, size_t size);

/* Nanoseconds of CLOCK_MONOTONIC, the same clock in all processes of the machine. */
int64_t bench_now_ns(void);

double bench_median(double *values, size_t count); /* sorts them */

/* Rows that every benchmark has. */
#define BENCH_ROWS                                                                                 \
    {"durability",                                                                                 \
     0,                                                                                            \
     OPTION_CHOICE,                                                                                \
     "WHAT",                                                                                       \
     "power|process",                                                                              \
     0,                                                                                            \
     0,                                                                                            \
     "what a published event survives: power loss, or only a crash (power)"},                      \
    {                                                                                              \
        "dir", 0, OPTION_TEXT, "DIR", NULL, 0, 0,                                                  \
            "make the temporary directory there ($TMPDIR, else /var/tmp)"                          \
    }

#define BENCH_SIZE_ROW                                                                             \
    {                                                                                              \
        "size", 0, OPTION_SIZE, "BYTES", NULL, BENCH_SIZE_MIN, BENCH_SIZE_MAX,                     \
            "bytes of a payload (100)"                                                             \
    }

/* ---- raw.c ----------------------------------------------------------------------------------- */

struct bench_raw {
    const char *path; /* of a database that the bus has made */
    const char *namespace_name;
    int64_t events;
    int64_t batch; /* events per transaction */
    int64_t size;
    hf_durability durability;
};

/* INSERTs the events into the bus's own table by one connection of its own. Events per second; a
 * negative number after a complaint. */
double bench_raw_publish(const struct bench_raw *raw);

#endif
