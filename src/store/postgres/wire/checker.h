/*
 * checker.h - the one session of a store that asks about others (backend_check.c).
 */
#ifndef HF_STORE_POSTGRES_WIRE_CHECKER_H
#define HF_STORE_POSTGRES_WIRE_CHECKER_H

#include <holdfast.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct checker {
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t done;
    bool busy;           /* a thread is checking */
    uint64_t unanswered; /* checks so far that the server did not answer */
};

hf_status checker_init(struct checker *checker);
void checker_release(struct checker *checker);

#endif
