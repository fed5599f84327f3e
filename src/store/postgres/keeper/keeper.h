/*
 * keeper.h - the thread that listens, shows signs of life and keeps the house.
 *
 * It has a connection of its own, which holds the advisory lock that tells others that this process
 * lives: the lock goes with the connection, at once when the process dies.
 */
#ifndef HF_STORE_POSTGRES_KEEPER_KEEPER_H
#define HF_STORE_POSTGRES_KEEPER_KEEPER_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/postgres/keeper/publishers.h"
#include "store/postgres/keeper/running.h"
#include "store/postgres/wire/session.h"

#define KEEPER_LOOK_MS 10000   /* between two looks when nothing happens */
#define KEEPER_CONNECT_MS 2000 /* for a connection; doubled while that is not enough */

/* What other threads want of the keeper's thread. */
enum request {
    REQUEST_STOP = 1 << 0,
    REQUEST_RING = 1 << 1,         /* notify all other processes */
    REQUEST_RING_APPENDS = 1 << 2, /* notify those that sleep */
    REQUEST_EXPECT = 1 << 3,       /* see keeper_expect */
    REQUEST_WAITING = 1 << 4, /* a thread is in store_wait; never stored, follows from waiters */
};

enum keeper_life {
    KEEPER_NONE,   /* not even its locks are made */
    KEEPER_WANTED, /* the store is brief, and nothing has needed the keeper yet */
    KEEPER_BEGINS, /* a thread connects for it */
    KEEPER_RUNS
};

struct keeper {
    pthread_mutex_t mutex;          /* guards news, waiters, requests, life */
    pthread_cond_t cond;            /* news or life has changed */
    _Atomic uint64_t news;          /* store_news(); read without the mutex, too */
    _Atomic uint64_t timers_news;   /* store_timers_news() */
    _Atomic uint64_t other_news;    /* store_other_news() */
    _Atomic uint64_t connects;      /* how often the keeper's connection was made */
    _Atomic int64_t lease_ms;       /* the shortest that a thread asked for; INT64_MAX: none */
    _Atomic int64_t guard_until_us; /* monotonic: until then the end of others is looked for */
    pthread_t thread;
    int32_t waiters;               /* threads in store_wait */
    int wake_fd;                   /* eventfd: ends the keeper's poll; -1: none */
    unsigned requests;             /* enum request */
    _Atomic enum keeper_life life; /* read without the mutex, too */
    int64_t open_us;               /* real time of keeper_init */
    atomic_bool alive;             /* store_alive was called since the last beat */

    /* The keeper's thread's own. */
    bool locked; /* the advisory lock of this process is held */
    bool listening;
    bool blind;                /* the server hides its locks: publishers are not known */
    bool expecting;            /* when they are over, others are to be notified */
    int32_t notified;          /* notifications since notified_at_us */
    int64_t told;              /* the head when no publisher was under way: consumers were
                                  notified up to there; -1: not known */
    int64_t company;           /* a number that changes with definitions and other processes */
    int64_t next_due;          /* when the earliest thing that is kept for later is due */
    int64_t flag;              /* value of the flag that says that a process sleeps */
    int64_t declared_until_us; /* the flag is good until then; 0: none. Monotonic, as are: */
    int64_t beat_at_us;        /* the last sign of life */
    int64_t look_at_us;
    int64_t watch_at_us; /* when waiting for publishers began */
    int64_t rung_at_us;
    int64_t sleeper_at_us; /* when it was last seen that a consumer sleeps */
    int64_t notified_at_us;
    size_t under_way;         /* publishers at the last look */
    int64_t looked;           /* the newest position at the last look */
    int64_t seen;             /* the newest position at the last look or glance */
    int64_t seen_at_us;       /* when that look or glance was */
    int64_t crowded_until_us; /* they are so many that they should not notify */
    int64_t house_at_us;      /* months, sweeping */
    int64_t rotated_at_us;
    int64_t rotated_commits;      /* engine->commits then */
    struct publishers publishers; /* whose end is waited for */
    struct running running;       /* handlers, for others to see */
    struct session session;
};

/* Makes what other threads use of it. Until it runs the server knows nothing of this process. */
hf_status keeper_init(struct postgres_engine *engine);
/* Unless it runs: connects, takes the process's lock, registers, listens, and starts the thread.
 * Any thread may call it; a second one waits for the first. */
hf_status keeper_start(struct postgres_engine *engine, struct deadline deadline);
bool keeper_is_running(struct postgres_engine *engine);
/* If there is a keeper that does not run yet: notifies others of what was rung, on this session. */
void keeper_ring_instead(struct postgres_engine *engine, struct session *session);
/* NULL-safe in that a keeper that was never started may be stopped. */
void keeper_stop(struct postgres_engine *engine);
/* In a forked child: frees the memory and sends nothing to the server. */
void keeper_abandon(struct keeper *keeper);

/* Something was committed that others are to look at: wakes our own threads, and notifies all. */
void keeper_ring(struct postgres_engine *engine);
/* The same after nothing but events: notifies those who have declared that they sleep. The others
 * will see the log's head when they do. */
void keeper_ring_appends(struct postgres_engine *engine);
/* Events were written in a transaction of the application that does not notify, so that its end is
 * not announced: the keeper watches for it, and rings then. */
void keeper_expect(struct postgres_engine *engine);
/* A caller holds, or wants, a lease of this length: beats come three times as often. */
void keeper_lease(struct postgres_engine *engine, int64_t lease_ms);

/* A runner stands by for another process: for a while its death is looked for every GUARD_MS. */
void keeper_guard(struct postgres_engine *engine);

/* Ends the wait of the keeper's thread. */
void keeper_poke(struct keeper *keeper);

/* store_news, store_wait, store_wake, store_alive. */
uint64_t keeper_news(struct postgres_engine *engine);
uint64_t keeper_wait(struct postgres_engine *engine, uint64_t seen, int64_t timeout_ms);
void keeper_wake(struct postgres_engine *engine);
void keeper_alive(struct postgres_engine *engine);

#endif
