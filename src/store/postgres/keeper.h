/*
 * keeper.h - the thread that listens, shows signs of life and keeps the house.
 */
#ifndef HF_STORE_POSTGRES_KEEPER_H
#define HF_STORE_POSTGRES_KEEPER_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/postgres/session.h"

struct keeper {
    pthread_mutex_t mutex; /* guards what follows but for the atomics */
    pthread_cond_t cond;   /* news, or somebody was woken */
    _Atomic uint64_t news; /* store_news() */
    uint64_t wakes;        /* store_wake() was called so often */
    int32_t waiters;       /* threads in store_wait */
    bool ring;             /* others are to be notified */
    bool stop;
    bool running;          /* the thread exists */
    pthread_t thread;
    int wake_fd;           /* eventfd: ends the keeper's poll */
    struct session session;
    atomic_bool listening; /* LISTEN is in force on the keeper's connection */
    atomic_bool locked;    /* the advisory lock of this process is held */
    atomic_bool alive_due; /* store_alive was called since the last renewal */
    int64_t sleep_flag;    /* of holdfast.sleep; 0: not declared */
};

/* Connects, takes the process's lock, listens, and starts the thread. */
hf_status keeper_start(struct postgres_engine *engine, struct deadline deadline);
void keeper_stop(struct postgres_engine *engine);
/* In a forked child: closes descriptors without a word to the server. */
void keeper_abandon(struct keeper *keeper);

/* Something was committed that others should hear of: wakes our own and notifies the others. */
void keeper_ring(struct postgres_engine *engine);
/* store_news, store_wait, store_wake, store_alive. */
uint64_t keeper_news(struct postgres_engine *engine);
uint64_t keeper_wait(struct postgres_engine *engine, uint64_t seen, int64_t timeout_ms);
void keeper_wake(struct postgres_engine *engine);
void keeper_alive(struct postgres_engine *engine);

#endif
