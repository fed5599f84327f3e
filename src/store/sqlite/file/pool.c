/*
 * pool.c - read-only connections for queries and readers. See pool.h.
 *
 * One more connection, the watch, never runs a query: it only asks SQLite's data_version, which
 * changes when any other connection has committed.
 */
#include "store/sqlite/file/pool.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/sqlite/sqlite.h"

/* What a struct conn * of the pool points into. */
struct pool_conn {
    struct conn conn;
    uint64_t generation;
};

hf_status pool_init(struct pool *pool)
{
    *pool = (struct pool){0};
    return mutex_init(&pool->mutex);
}

static void pool_free(struct conn *conn)
{
    conn_close(conn);
    mem_free(conn);
}

void pool_release(struct pool *pool)
{
    pool_drain(pool);
    pthread_mutex_destroy(&pool->mutex);
}

/* NULL: *status says why. */
static struct conn *pool_open(struct sqlite_engine *engine, struct deadline deadline,
                              hf_status *status)
{
    struct pool_conn *opened = mem_calloc(1, sizeof *opened);
    if (!opened) {
        *status = fail(HF_NOMEM, "no memory for a connection");
        return NULL;
    }
    *status = conn_open(&opened->conn, engine->files.db, CONN_READER, false, deadline);
    if (*status == HF_NOTFOUND) {
        *status = err_set(HF_UNAVAILABLE, err_message());
    }
    if (*status != HF_OK) {
        mem_free(opened);
        return NULL;
    }
    return &opened->conn;
}

/* The same, from those that are kept if there is one. */
static struct conn *pool_get(struct sqlite_engine *engine, hf_status *status)
{
    if (atomic_load(&engine->poisoned)) {
        *status = fail(HF_MISUSE, "this store belongs to the parent process");
        return NULL;
    }
    if (atomic_load(&engine->replaced)) {
        *status = fail(HF_UNAVAILABLE,
                       "%s, its -wal or -shm was replaced or deleted while in use: close "
                       "it and open it again",
                       engine->files.db);
        return NULL;
    }
    struct pool *pool = &engine->pool;
    struct deadline deadline = deadline_after_ms(engine->timeout_ms);
    pthread_mutex_lock(&pool->mutex);
    struct conn *conn = pool->count > 0 ? pool->idle[--pool->count] : NULL;
    uint64_t generation = pool->generation;
    pthread_mutex_unlock(&pool->mutex);
    if (!conn) {
        conn = pool_open(engine, deadline, status);
    }
    if (conn) {
        ((struct pool_conn *)conn)->generation = generation;
        conn->deadline = deadline;
        conn->limit = DEADLINE_NEVER;
        conn->step_ms = engine->timeout_ms;
        conn->step_begun_us = 0;
    }
    return conn;
}

hf_status pool_take(struct sqlite_engine *engine, struct conn **ret_conn)
{
    hf_status status = HF_OK;
    struct conn *conn = pool_get(engine, &status);
    if (!conn) {
        return status;
    }
    *ret_conn = conn;
    return HF_OK;
}

hf_status pool_take_snapshot(struct sqlite_engine *engine, struct conn **ret_conn)
{
    hf_status status = HF_OK;
    struct conn *conn = pool_get(engine, &status);
    if (!conn) {
        return status;
    }
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_BEGIN_READ);
    status = stmt ? conn_run(conn, stmt) : conn_error(conn);
    if (status) {
        pool_give(engine, conn);
        return status;
    }
    *ret_conn = conn;
    return HF_OK;
}

void pool_give(struct sqlite_engine *engine, struct conn *conn)
{
    if (!conn) {
        return;
    }
    conn->limit = DEADLINE_NEVER;
    conn_rollback(conn);
    struct pool *pool = &engine->pool;
    pthread_mutex_lock(&pool->mutex);
    bool keep =
        pool->count < POOL_IDLE_MAX && ((struct pool_conn *)conn)->generation == pool->generation;
    if (keep) {
        pool->idle[pool->count++] = conn;
    }
    pthread_mutex_unlock(&pool->mutex);
    if (!keep) {
        pool_free(conn);
    }
}

void pool_drain(struct pool *pool)
{
    struct conn *old[POOL_IDLE_MAX + 1];
    pthread_mutex_lock(&pool->mutex);
    int count = pool->count;
    for (int i = 0; i < count; i++) {
        old[i] = pool->idle[i];
    }
    if (pool->watch) {
        old[count++] = pool->watch;
        pool->watch = NULL;
    }
    pool->count = 0;
    pool->generation++;
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < count; i++) {
        pool_free(old[i]);
    }
}

bool pool_changed(struct sqlite_engine *engine)
{
    struct pool *pool = &engine->pool;
    bool changed = false;
    pthread_mutex_lock(&pool->mutex);
    hf_status status = HF_OK;
    if (!pool->watch) {
        pool->watch = pool_open(engine, deadline_after_ms(0), &status);
    }
    sqlite3_stmt *stmt =
        pool->watch ? conn_statement(pool->watch, SQLITE_QUERY_DATA_VERSION) : NULL;
    bool found = false;
    if (stmt && conn_row(pool->watch, stmt, &found) == HF_OK && found) {
        int64_t version = sqlite3_column_int64(stmt, 0);
        conn_done(stmt);
        changed = version != pool->version && pool->version != 0;
        pool->version = version;
    }
    pthread_mutex_unlock(&pool->mutex);
    return changed;
}
