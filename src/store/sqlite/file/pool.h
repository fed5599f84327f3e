/*
 * pool.h - read-only connections for queries and readers.
 *
 * A query takes a connection, reads, and gives it back. Taking never waits: up to POOL_IDLE_MAX
 * connections are kept, and when all are in use another one is opened for the occasion. So a
 * listing's callback may run other queries.
 */
#ifndef HF_STORE_SQLITE_FILE_POOL_H
#define HF_STORE_SQLITE_FILE_POOL_H

#include <pthread.h>

#include "store/sqlite/file/conn.h"

#define POOL_IDLE_MAX 8

struct sqlite_engine;

struct pool {
    pthread_mutex_t mutex;
    struct conn *idle[POOL_IDLE_MAX];
    int count;           /* of idle */
    uint64_t generation; /* connections of an older one are closed, not kept */
    struct conn *watch;  /* sees whether another connection wrote; NULL: not open */
    int64_t version;     /* that it saw last; 0: none */
};

hf_status pool_init(struct pool *pool);
void pool_release(struct pool *pool);

/* A connection for the calling thread. Each statement sees the newest commit. HF_UNAVAILABLE if the
 * file was replaced, HF_MISUSE in a forked child. */
hf_status pool_take(struct sqlite_engine *engine, struct conn **ret_conn);
/* The same, and all statements until pool_give see one snapshot. */
hf_status pool_take_snapshot(struct sqlite_engine *engine, struct conn **ret_conn);
/* All its statements must be at their end (or conn_done). NULL is allowed. */
void pool_give(struct sqlite_engine *engine, struct conn *conn);

/* Closes idle connections now, and those in use when they are given back. */
void pool_drain(struct pool *pool);

/* Whether another connection has written since the last call (the first call returns false). */
bool pool_changed(struct sqlite_engine *engine);

#endif
