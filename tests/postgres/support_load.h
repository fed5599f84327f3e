/*
 * support_load.h - threads that publish and handlers that receive, while something is being broken,
 * and the judgement afterwards.
 *
 * Each publisher knows the id of its event before it sends it. If the answer is HF_UNKNOWN it
 * publishes the same id again, as applications are told to. Judged are
 *
 *     lost       answered HF_OK, but not in the log, or not delivered to one of the subscriptions
 *     denied     answered with a failure, but in the log
 *     twice      an id that is in the log more than once
 *     invented   delivered, but never sent, or not in the log
 */
#ifndef HF_TESTS_POSTGRES_SUPPORT_LOAD_H
#define HF_TESTS_POSTGRES_SUPPORT_LOAD_H

#include <holdfast.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define LOAD_PUBLISHERS 4
#define LOAD_EVENTS_MAX 100000 /* of one publisher, and of deliveries to one subscription */

struct load_publisher {
    struct load *load;
    pthread_t thread;
    size_t count;
    struct load_sent {
        char id[HF_ID_BYTES];
        hf_status status;
    } * sent;
};

struct load_inbox {
    pthread_mutex_t mutex;
    size_t count;
    char (*ids)[HF_ID_BYTES];
};

struct load {
    hf_bus *bus;
    atomic_bool stop;
    atomic_bool full;
    atomic_int_least64_t acknowledged;
    atomic_int_least64_t full_disk; /* answered HF_NOSPACE */
    struct load_publisher publishers[LOAD_PUBLISHERS];
    struct load_inbox ordered;
    struct load_inbox shared;
    struct load_inbox transactional;
};

/* Opens a bus, subscribes "o" (ordered), "s" (shared) and "t" (ordered, each event in a transaction
 * of the server), starts everything. */
void load_start(struct load *load, const char *url);
/* Waits until so many more publishes have been acknowledged; the milliseconds that it took. */
int64_t load_await(struct load *load, int64_t more);
/* The same for publishes that met a full disk. */
int64_t load_await_full_disk(struct load *load, int64_t more);
/* Ends the publishers, waits until everything is delivered, and closes the bus. */
void load_finish(struct load *load);
/* Judges with what is in the log now, fails the test on any breach, and frees. */
void load_judge(struct load *load, PGconn *pg);

#endif
