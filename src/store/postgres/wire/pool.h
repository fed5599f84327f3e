/*
 * pool.h - how many sessions a store has open, and who uses one at the moment.
 *
 * A store has at most holdfast_sessions (address.h) sessions with the server:
 *
 *     writer     1    apply's
 *     keeper     1    LISTEN, the process's lock, beats
 *     checker    1    open only while it asks about a session that has fallen silent
 *     the pool   the others: readers of the log, queries, the prober
 *
 * Sessions of the pool are borrowed for one look and given back. A thread that finds none waits for
 * one, and after a moment opens another, if there may be more; those that wait are served in the
 * order in which they came. So a thread that holds a session must not take a second one: a listing
 * gives its session back before it hands anything up. In a store that is brief the pool and the
 * writer share a connection (single.h).
 *
 * Sessions that are lent to transactional handlers come on top, one for each handler that runs:
 * a handler may run for long, and must not keep readers from reading.
 */
#ifndef HF_STORE_POSTGRES_WIRE_POOL_H
#define HF_STORE_POSTGRES_WIRE_POOL_H

#include <pthread.h>

#include "store/postgres/wire/session.h"

#define POOL_APART 3          /* writer, keeper, checker: they are not the pool's */
#define POOL_OPEN_AFTER_MS 50 /* a thread waits so long for a session before it opens another */
#define POOL_HANDLERS_KEPT 8  /* idle sessions of handlers; those beyond are closed at once */
#define POOL_IDLE_KEPT 2      /* idle sessions of each kind that stay open */
#define POOL_IDLE_MS 60000    /* idle sessions beyond these are closed after so long */

/* Sessions that wait to be taken again, the one that was used last at first. */
struct idle {
    struct session *first;
    int count;
};

struct waiter; /* a thread that waits for a session */

struct session_pool {
    pthread_mutex_t mutex; /* guards what follows */
    int limit;             /* sessions of readers, idle ones included */
    int taken;             /* those that threads have, or are about to open */
    int lent;              /* sessions that handlers have */
    struct idle readers;
    struct idle handlers;
    struct waiter *first; /* the next to be served */
    struct waiter *last;
};

hf_status session_pool_init(struct session_pool *pool);
/* All sessions have been given back. */
void session_pool_release(struct session_pool *pool);
/* Closes those that are not in use. */
void session_pool_close(struct postgres_engine *engine);
/* Closes those that have not been used for a while, but for a few. */
void session_pool_trim(struct postgres_engine *engine);

/* An idle session that reads, taken out of the pool; NULL: there is none. session_pool_drop frees
 * it. */
struct session *session_pool_take_idle(struct postgres_engine *engine);
void session_pool_drop(struct session *session);

/* What is open now: writer, keeper and those of the pool; and what handlers have, or had and may
 * have again. */
struct session_pool_counts {
    int open;
    int handlers;
};
struct session_pool_counts session_pool_count(struct postgres_engine *engine);

/* A session for the calling thread, connected, its deadline set by the store's timeout. If all are
 * in use it waits for one, up to that deadline: HF_TIMEOUT. HF_MISUSE in a forked child. */
hf_status session_take(struct postgres_engine *engine, struct session **ret_session);
/* The same for a handler's transaction, which is not begun yet. Waits for no other handler. */
hf_status session_take_handler(struct postgres_engine *engine, struct deadline deadline,
                               struct session **ret_session);
/* Ends what is open and keeps the session for the next; NULL is allowed. */
void session_give(struct postgres_engine *engine, struct session *session);

#endif
