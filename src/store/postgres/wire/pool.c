/*
 * pool.c - sessions for queries, readers and handlers.
 *
 * A query takes a session, reads, and gives it back. Taking never waits for another thread: up to
 * POOL_IDLE_MAX sessions are kept, and when all are in use another one is opened for the occasion.
 * So a listing's callback may run other queries.
 *
 * Handlers have sessions of their own, and as many are kept: however many handlers rest, a query
 * finds the session of the query before. What an application does to a connection (settings,
 * temporary tables) must not meet a reader. One that is not idle when it comes back is closed.
 */
#include "base/err.h"
#include "base/mem.h"
#include "store/postgres/postgres.h"

static struct idle *idle_of(struct postgres_engine *engine, enum session_kind kind)
{
    return kind == SESSION_READER ? &engine->idle_readers : &engine->idle_handlers;
}

static struct session *take_idle(struct postgres_engine *engine, enum session_kind kind)
{
    bool alone = atomic_load(&engine->poisoned); /* and the mutex may be held for ever */
    if (!alone) {
        pthread_mutex_lock(&engine->pool_mutex);
    }
    struct idle *idle = idle_of(engine, kind);
    struct session *session = idle->first;
    if (session) {
        idle->first = session->next;
        idle->count--;
    }
    if (!alone) {
        pthread_mutex_unlock(&engine->pool_mutex);
    }
    return session;
}

static void drop(struct session *session)
{
    session_release(session);
    mem_free(session);
}

static hf_status take(struct postgres_engine *engine, enum session_kind kind,
                      struct deadline deadline, struct session **ret_session)
{
    if (atomic_load(&engine->poisoned)) {
        return fail(HF_MISUSE, "this handle belongs to the parent process");
    }
    struct session *session = take_idle(engine, kind);
    if (!session) {
        session = mem_alloc(sizeof *session);
        if (!session) {
            return fail(HF_NOMEM, "no memory for a connection");
        }
        session_init(session, engine, kind);
    }
    session->deadline = deadline;
    if (!session_is_up(session)) {
        session_close(session);
    }
    hf_status status = session_connect(session, deadline);
    if (status) {
        drop(session);
        return status;
    }
    *ret_session = session;
    return HF_OK;
}

hf_status session_take(struct postgres_engine *engine, struct session **ret_session)
{
    return take(engine, SESSION_READER, deadline_after_ms(engine->timeout_ms), ret_session);
}

hf_status session_take_snapshot(struct postgres_engine *engine, struct session **ret_session)
{
    struct session *session = NULL;
    hf_status status = session_take(engine, &session);
    if (status || !session) {
        return status;
    }
    status = session_script(session, postgres_queries[POSTGRES_QUERY_BEGIN_SNAPSHOT].sql);
    if (status) {
        session_give(engine, session);
        return status;
    }
    session->in_tx = true;
    *ret_session = session;
    return HF_OK;
}

hf_status session_take_handler(struct postgres_engine *engine, struct deadline deadline,
                               struct session **ret_session)
{
    return take(engine, SESSION_HANDLER, deadline, ret_session);
}

void session_give(struct postgres_engine *engine, struct session *session)
{
    if (!session) {
        return;
    }
    if (atomic_load(&engine->poisoned)) {
        drop(session);
        return;
    }
    if (session->in_tx) {
        session->deadline = deadline_after_ms(engine->timeout_ms);
        session_rollback(session);
    }
    bool keep = session->pg && PQstatus(session->pg) == CONNECTION_OK &&
                PQtransactionStatus(session->pg) == PQTRANS_IDLE &&
                PQpipelineStatus(session->pg) == PQ_PIPELINE_OFF;
    struct idle *idle = idle_of(engine, session->kind);
    pthread_mutex_lock(&engine->pool_mutex);
    keep = keep && idle->count < POOL_IDLE_MAX;
    if (keep) {
        session->next = idle->first;
        idle->first = session;
        idle->count++;
    }
    pthread_mutex_unlock(&engine->pool_mutex);
    if (!keep) {
        drop(session);
    }
}

void pool_close(struct postgres_engine *engine)
{
    struct session *session;
    while ((session = take_idle(engine, SESSION_READER))) {
        drop(session);
    }
    while ((session = take_idle(engine, SESSION_HANDLER))) {
        drop(session);
    }
}
