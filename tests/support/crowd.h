/*
 * crowd.h - many threads that do the same at the same moment.
 *
 * They meet at a barrier before the first of them runs. The assertions of check.h may be used
 * inside: a failed one ends its thread, and crowd_join then fails the test.
 */
#ifndef HF_TESTS_SUPPORT_CROWD_H
#define HF_TESTS_SUPPORT_CROWD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define CROWD_MAX 64

typedef void (*crowd_fn)(int index, void *ctx);

struct crowd {
    int count;
    pthread_barrier_t gate;
    struct crowd_member {
        struct crowd *crowd;
        pthread_t thread;
        int index;
        crowd_fn run;
        void *ctx;
        bool passed;    /* read after the join */
        atomic_int tid; /* 0 until it runs */
    } members[CROWD_MAX];
};

/* Starts count threads that run run(index, ctx). The crowd must stay where it is until joined. */
void crowd_start(struct crowd *crowd, int count, crowd_fn run, void *ctx);
/* Waits (bounded) until all of them sleep, as far as the kernel can tell: they have come to the
 * place where they wait for something. */
void crowd_settle(struct crowd *crowd);
/* Waits for all; fails the test if an assertion failed in any. */
void crowd_join(struct crowd *crowd);
/* Both. */
void crowd_run(int count, crowd_fn run, void *ctx);

#endif
