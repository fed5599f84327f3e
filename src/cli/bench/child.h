/*
 * child.h - the second process of `bench e2e --processes 2`.
 */
#ifndef HF_CLI_BENCH_CHILD_H
#define HF_CLI_BENCH_CHILD_H

#include "cli/bench/bench.h"

#include <stdio.h>
#include <sys/types.h>

#define BENCH_CHILD_READY "ready" /* the line it prints when it receives events */

struct bench_child {
    pid_t pid;
    FILE *out; /* its stdout */
};

/* Starts the consumer on the bench's database. 0, or the exit code after the complaint. */
int bench_child_start(struct bench_child *child, const struct bench *bench, double rate,
                      int64_t events);

/* Waits until it is ready. 0, or an exit code. */
int bench_child_ready(struct bench_child *child);

/* With code 0: passes its report on and waits for it; else ends it. The exit code of the whole. */
int bench_child_end(struct bench_child *child, int code);

#endif
