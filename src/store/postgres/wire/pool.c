/*
 * pool.c - sessions for readers, queries and handlers. See pool.h.
 *
 * A place in the pool is a session that is idle, or the right to open one while fewer than `limit`
 * are open. The thread that gives a session back hands the place to the first that waits, so a
 * thread that comes later cannot overtake it.
 *
 * A new session costs the server more than most looks: a process, and every statement parsed and
 * planned anew. So a thread that finds all of them in use first waits for one for
 * POOL_OPEN_AFTER_MS, and opens another only then. Threads that begin to look at the same moment,
 * as those of a bus do that starts, share one session; looks that last get sessions of their own.
 *
 * A server may refuse to open another session because it has none left (dial.c makes the pause
 * then). As long as this process has sessions, a thread that was refused waits for one of those
 * instead, and the pool opens none until the pause is over.
 *
 * Handlers have sessions of their own: what an application does to a connection (settings,
 * temporary tables) must not meet a reader. One that is not idle when it comes back is closed.
 */
#include "store/postgres/wire/pool.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "store/postgres/postgres.h"
#include "store/postgres/wire/era.h"
#include "store/postgres/wire/single.h"

/* A thread that waits for a place; on its stack. */
struct waiter {
    struct waiter *next;
    pthread_cond_t served;
    int64_t open_at_us;      /* real time; it may open a session then although others are open */
    bool done;               /* it has a place, counted in pool->taken */
    struct session *session; /* the idle session that it gets; NULL: it opens one */
};

/* ---- Idle sessions --------------------------------------------------------------------------- */

static struct session *pop(struct idle *idle)
{
    struct session *session = idle->first;
    if (session) {
        idle->first = session->next;
        idle->count--;
    }
    return session;
}

static void push(struct idle *idle, struct session *session)
{
    session->idle_us = clock_mono_us();
    session->next = idle->first;
    idle->first = session;
    idle->count++;
}

void session_pool_drop(struct session *session)
{
    session_release(session);
    mem_free(session);
}

static void drop_all(struct session *list)
{
    while (list) {
        struct session *next = list->next;
        session_pool_drop(list);
        list = next;
    }
}

/* Takes those out that have been idle since `before_us`, but for the first few. Later in the list
 * is longer idle. */
static struct session *cut_old(struct idle *idle, int64_t before_us)
{
    struct session **at = &idle->first;
    int kept = 0;
    while (*at && (kept < POOL_IDLE_KEPT || (*at)->idle_us > before_us)) {
        at = &(*at)->next;
        kept++;
    }
    struct session *old = *at;
    *at = NULL;
    idle->count = kept;
    return old;
}

void session_pool_trim(struct postgres_engine *engine)
{
    struct session_pool *pool = &engine->pool;
    int64_t before_us = clock_mono_us() - POOL_IDLE_MS * INT64_C(1000);
    pthread_mutex_lock(&pool->mutex);
    struct session *readers = cut_old(&pool->readers, before_us);
    struct session *handlers = cut_old(&pool->handlers, before_us);
    pthread_mutex_unlock(&pool->mutex);
    drop_all(readers);
    drop_all(handlers);
}

struct session *session_pool_take_idle(struct postgres_engine *engine)
{
    struct session_pool *pool = &engine->pool;
    pthread_mutex_lock(&pool->mutex);
    struct session *session = pool->first ? NULL : pop(&pool->readers);
    pthread_mutex_unlock(&pool->mutex);
    return session;
}

/* ---- Places ---------------------------------------------------------------------------------- */

static int count_open(const struct session_pool *pool)
{
    return pool->taken + pool->readers.count;
}

/* Whether a thread need not wait for a place. */
static bool has_free_place(const struct session_pool *pool)
{
    return pool->readers.first || count_open(pool) == 0;
}

/* Whether one that waits may have a place now. A server that has just refused a session is not
 * asked again while there are others to wait for. */
static bool has_place(const struct postgres_engine *engine, const struct waiter *waiter)
{
    const struct session_pool *pool = &engine->pool;
    return has_free_place(pool) || (count_open(pool) < pool->limit && !session_is_refused(engine) &&
                                    clock_real_us() >= waiter->open_at_us);
}

/* Serves those that wait, in their order, as far as there are places. The mutex is held. */
static void serve(struct postgres_engine *engine)
{
    struct session_pool *pool = &engine->pool;
    while (pool->first && has_place(engine, pool->first)) {
        struct waiter *waiter = pool->first;
        pool->first = waiter->next;
        pool->last = pool->first ? pool->last : NULL;
        waiter->session = pop(&pool->readers);
        waiter->done = true;
        pool->taken++;
        pthread_cond_signal(&waiter->served);
    }
}

static void leave_queue(struct session_pool *pool, const struct waiter *waiter)
{
    struct waiter *before = NULL;
    struct waiter **at = &pool->first;
    while (*at && *at != waiter) {
        before = *at;
        at = &(*at)->next;
    }
    if (*at) {
        *at = waiter->next;
        pool->last = pool->last == waiter ? before : pool->last;
    }
}

static hf_status fail_full(const struct postgres_engine *engine)
{
    return fail(HF_TIMEOUT,
                "all %d sessions with %s that this process has for reading were in use until the "
                "time was over: holdfast_sessions in the URL (now %d) allows more",
                engine->pool.limit, engine->place, (int)engine->address.sessions_max);
}

/* A place that need not be waited for. */
static bool take_free_place(struct postgres_engine *engine, struct session **ret_session)
{
    struct session_pool *pool = &engine->pool;
    pthread_mutex_lock(&pool->mutex);
    bool is_free = !pool->first && has_free_place(pool);
    if (is_free) {
        *ret_session = pop(&pool->readers);
        pool->taken++;
    }
    pthread_mutex_unlock(&pool->mutex);
    return is_free;
}

/* When the waiter looks by itself: its deadline, or, if that is sooner, when it may open a session.
 * No thread wakes it for that, nor for the end of a refusal. The mutex is held. */
static struct deadline next_look(const struct postgres_engine *engine, const struct waiter *waiter,
                                 struct deadline deadline)
{
    int64_t left_us = waiter->open_at_us - clock_real_us();
    struct deadline look = {clock_mono_us() + left_us};
    if (session_is_refused(engine)) {
        look.mono_us = session_refused_until_us(engine);
    } else if (left_us <= 0 || count_open(&engine->pool) >= engine->pool.limit) {
        look = deadline;
    }
    return deadline_earlier(look, deadline);
}

/* Waits for a place. *ret_session is NULL if the caller is to open one. */
static hf_status take_place(struct postgres_engine *engine, struct deadline deadline,
                            struct session **ret_session)
{
    struct session_pool *pool = &engine->pool;
    struct waiter self = {.open_at_us = clock_real_us() + POOL_OPEN_AFTER_MS * 1000};
    if (take_free_place(engine, ret_session)) {
        return HF_OK;
    }
    hf_status status = cond_init(&self.served);
    if (status) {
        return status;
    }
    pthread_mutex_lock(&pool->mutex);
    *(pool->first ? &pool->last->next : &pool->first) = &self;
    pool->last = &self;
    serve(engine);
    while (!self.done && !deadline_passed(deadline)) {
        cond_wait_until(&self.served, &pool->mutex, next_look(engine, &self, deadline));
        serve(engine);
    }
    if (!self.done) {
        leave_queue(pool, &self);
    }
    pthread_mutex_unlock(&pool->mutex);
    pthread_cond_destroy(&self.served);
    if (!self.done) {
        return fail_full(engine);
    }
    *ret_session = self.session;
    return HF_OK;
}

/* Gives a place back, with a session that can be used again, or without one. */
static void give_place(struct postgres_engine *engine, struct session *session)
{
    struct session_pool *pool = &engine->pool;
    pthread_mutex_lock(&pool->mutex);
    pool->taken--;
    if (session) {
        push(&pool->readers, session);
    }
    serve(engine);
    pthread_mutex_unlock(&pool->mutex);
}

/* ---- Taking ---------------------------------------------------------------------------------- */

static hf_status session_new(struct postgres_engine *engine, enum session_kind kind,
                             struct session **ret_session)
{
    struct session *session = mem_alloc(sizeof *session);
    if (!session) {
        return fail(HF_NOMEM, "no memory for a connection");
    }
    session_init(session, engine, kind);
    *ret_session = session;
    return HF_OK;
}

/* Lets go of a connection that cannot be used: it was lost, or belongs to an era that is over. */
static void close_unusable(struct session *session)
{
    if (!session_is_up(session) || era_is_over(session)) {
        session_close(session);
    }
}

/* Whether this process has sessions of the pool that a thread could wait for, besides its own. */
static bool has_others(struct session_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    bool others = pool->taken > 1 || pool->readers.count > 0;
    pthread_mutex_unlock(&pool->mutex);
    return others;
}

/* Connects. *ret_wait: the server has no session left, and others of ours are to be waited for. */
static hf_status connect_place(struct session *session, struct deadline deadline, bool *ret_wait)
{
    single_take(session);
    if (session->pg) {
        return HF_OK;
    }
    hf_status status = session_connect_once(session, deadline);
    *ret_wait = status && strcmp(session->sqlstate, "53300") == 0 &&
                has_others(&session->engine->pool) && !deadline_passed(deadline);
    return status != HF_UNAVAILABLE || *ret_wait ? status : session_connect(session, deadline);
}

hf_status session_take(struct postgres_engine *engine, struct session **ret_session)
{
    struct deadline deadline = deadline_after_ms(engine->timeout_ms);
    if (atomic_load(&engine->poisoned)) {
        return fail(HF_MISUSE, "this handle belongs to the parent process");
    }
    for (;;) {
        struct session *session = NULL;
        hf_status status = take_place(engine, deadline, &session);
        if (status) {
            return status;
        }
        bool wait = false;
        status = session ? HF_OK : session_new(engine, SESSION_READER, &session);
        if (!status) {
            session->deadline = deadline;
            close_unusable(session);
            status = connect_place(session, deadline, &wait);
        }
        if (!status) {
            *ret_session = session;
            return HF_OK;
        }
        if (session) {
            session_pool_drop(session);
        }
        give_place(engine, NULL);
        if (!wait) {
            return status;
        }
    }
}

hf_status session_take_handler(struct postgres_engine *engine, struct deadline deadline,
                               struct session **ret_session)
{
    struct session_pool *pool = &engine->pool;
    if (atomic_load(&engine->poisoned)) {
        return fail(HF_MISUSE, "this handle belongs to the parent process");
    }
    pthread_mutex_lock(&pool->mutex);
    struct session *session = pop(&pool->handlers);
    pool->lent++;
    pthread_mutex_unlock(&pool->mutex);
    hf_status status = session ? HF_OK : session_new(engine, SESSION_HANDLER, &session);
    if (!status) {
        session->deadline = deadline;
        if (!session_is_up(session)) {
            session_close(session);
        }
        status = session_connect(session, deadline);
    }
    if (status) {
        pthread_mutex_lock(&pool->mutex);
        pool->lent--;
        pthread_mutex_unlock(&pool->mutex);
        if (session) {
            session_pool_drop(session);
        }
        return status;
    }
    *ret_session = session;
    return HF_OK;
}

/* ---- Giving back ----------------------------------------------------------------------------- */

static bool is_clean(const struct session *session)
{
    return session->pg && PQstatus(session->pg) == CONNECTION_OK &&
           PQtransactionStatus(session->pg) == PQTRANS_IDLE &&
           PQpipelineStatus(session->pg) == PQ_PIPELINE_OFF;
}

static void give_handler(struct session_pool *pool, struct session *session)
{
    pthread_mutex_lock(&pool->mutex);
    pool->lent--;
    bool keep = is_clean(session) && pool->handlers.count < POOL_HANDLERS_KEPT;
    if (keep) {
        push(&pool->handlers, session);
    }
    pthread_mutex_unlock(&pool->mutex);
    if (!keep) {
        session_pool_drop(session);
    }
}

void session_give(struct postgres_engine *engine, struct session *session)
{
    if (!session) {
        return;
    }
    if (atomic_load(&engine->poisoned)) {
        session_pool_drop(session);
        return;
    }
    if (session->in_tx) {
        session->deadline = deadline_after_ms(engine->timeout_ms);
        session_rollback(session);
    }
    if (session->kind == SESSION_HANDLER) {
        give_handler(&engine->pool, session);
        return;
    }
    bool keep = is_clean(session);
    if (!keep) {
        session_pool_drop(session); /* before its place is given to another */
    }
    give_place(engine, keep ? session : NULL);
}

/* ---- The whole ------------------------------------------------------------------------------- */

hf_status session_pool_init(struct session_pool *pool)
{
    *pool = (struct session_pool){.limit = 1};
    return mutex_init(&pool->mutex);
}

void session_pool_release(struct session_pool *pool)
{
    pthread_mutex_destroy(&pool->mutex);
}

/* In a forked child the mutex may be held for ever, and no other thread is there. */
void session_pool_close(struct postgres_engine *engine)
{
    struct session_pool *pool = &engine->pool;
    drop_all(pool->readers.first);
    drop_all(pool->handlers.first);
    pool->readers = (struct idle){0};
    pool->handlers = (struct idle){0};
}

struct session_pool_counts session_pool_count(struct postgres_engine *engine)
{
    struct session_pool *pool = &engine->pool;
    int apart = single_writer_is_connected(engine) + keeper_is_running(engine);
    pthread_mutex_lock(&pool->mutex);
    struct session_pool_counts counts = {
        .open = apart + pool->taken + pool->readers.count,
        .handlers = pool->lent + pool->handlers.count,
    };
    pthread_mutex_unlock(&pool->mutex);
    return counts;
}
