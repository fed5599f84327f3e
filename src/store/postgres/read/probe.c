/*
 * probe.c - looking at the holders of the sequence's lock. See probe.h, base/gap.h and
 * docs/ordering.md.
 *
 * A look gets its number before its statement is sent, and is published when its answer is there;
 * that is all that the proof asks of it. Looks are made on whatever session is free. The memory of
 * who was first seen when (struct gap_watch) outlives them, and the era (era.h), too: an id that
 * means another process on another server, or after a restart, can only make a hole wait longer. A
 * reader believes only looks of its own era.
 *
 * When a look fails nothing is proven, and holes wait. A server that refuses to show its locks is
 * told to the readers as `blind`, and to the log once.
 */
#include "store/postgres/read/probe.h"

#include <inttypes.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/row.h"

#define RETRY_PERIOD_MS 500 /* after a look that failed */
#define NOW_PERIOD_MS 10    /* of postgres_now */

enum holder_column { HOLDER_START, HOLDER_BACKEND, HOLDER_TRANSACTION, HOLDER_PID };

struct prober {
    struct postgres_engine *engine;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    pthread_t thread;
    bool running; /* the thread exists */
    bool stop;
    bool looking; /* a thread looks: watch is its own until it is done */
    int64_t watchers;
    uint64_t begun;
    uint64_t asked; /* if `asking`: readers are called after the first look behind this one */
    bool asking;    /* readers wait for a look */
    struct proof proof;
    struct gap_watch watch;
};

/* ---- A look ---------------------------------------------------------------------------------- */

struct holders {
    struct gap_holder *list;
    size_t count;
    int64_t server_start_us;
    int64_t pid; /* of one of them; -1: it is prepared, or there is none */
};

/* The two halves of a virtual transaction's name. Prepared ones have -1, or the name that they had
 * before, whichever the server's version does. */
static uint64_t holder_id(const PGresult *result, int row)
{
    uint64_t backend = (uint64_t)result_int8(result, row, HOLDER_BACKEND, 0);
    uint64_t transaction = (uint64_t)result_int8(result, row, HOLDER_TRANSACTION, 0);
    return backend << 32 | (transaction & UINT32_MAX);
}

/* The caller frees the list. */
static hf_status read_holders(struct session *session, struct holders *ret_holders)
{
    PGresult *result;
    session_params(session);
    hf_status status = session_query(session, POSTGRES_QUERY_READ_HOLDERS, &result);
    if (status) {
        return status;
    }
    int rows = PQntuples(result);
    struct holders holders = {
        .list = mem_calloc((size_t)rows, sizeof *holders.list),
        .server_start_us = rows > 0 ? result_time(result, 0, HOLDER_START, 0) : 0,
        .pid = -1,
    };
    if (!holders.list) {
        PQclear(result);
        return fail(HF_NOMEM, "no memory for %d holders of a lock", rows);
    }
    for (int row = 0; row < rows; row++) {
        if (result_is_null(result, row, HOLDER_BACKEND)) {
            continue; /* the row that says that there is no holder */
        }
        bool prepared = result_is_null(result, row, HOLDER_PID);
        holders.pid = prepared ? holders.pid : result_int8(result, row, HOLDER_PID, -1);
        holders.list[holders.count++] = (struct gap_holder){holder_id(result, row), prepared};
    }
    PQclear(result);
    *ret_holders = holders;
    return HF_OK;
}

/* ---- The prober ------------------------------------------------------------------------------ */

static void log_blind(struct prober *prober, bool was_blind)
{
    if (!was_blind) {
        log_about(prober->engine->log, HF_LOG_WARN, NULL,
                  "cannot see who holds the lock of the log's sequence (%s): gaps that rolled-back "
                  "publishes leave stay open, unless gap_timeout is set",
                  err_message());
    }
}

/* One look on this session, without the mutex. */
static hf_status look(struct prober *prober, struct session *session, uint64_t number,
                      struct proof *ret_proof)
{
    struct holders holders = {0};
    session->deadline = deadline_after_ms(prober->engine->timeout_ms);
    hf_status status = read_holders(session, &holders);
    if (status) {
        return status;
    }
    status = gap_watch_look(&prober->watch, number, holders.list, holders.count);
    mem_free(holders.list);
    ret_proof->era = session->era;
    ret_proof->server_start_us = holders.server_start_us;
    return status;
}

/* Looks and publishes what was seen. The mutex is held, and let go meanwhile. ret_call: the readers
 * are to be called. */
static hf_status look_and_publish(struct prober *prober, struct session *session, bool *ret_call)
{
    uint64_t number = ++prober->begun;
    bool was_blind = prober->proof.blind;
    uint64_t was_oldest = prober->proof.look.oldest;
    prober->looking = true;
    pthread_mutex_unlock(&prober->mutex);
    struct proof proof = {.era = 0};
    hf_status status = look(prober, session, number, &proof);
    bool blind = status == HF_DENIED && session->sqlstate[0] != '\0';
    if (blind) {
        log_blind(prober, was_blind);
    }
    pthread_mutex_lock(&prober->mutex);
    prober->looking = false;
    pthread_cond_broadcast(&prober->changed);
    prober->proof.blind = blind;
    if (status) {
        *ret_call = blind; /* the timeout's time may have come */
        return status;
    }
    prober->proof.look = prober->watch.look;
    prober->proof.era = proof.era;
    prober->proof.server_start_us = proof.server_start_us;
    bool answered = prober->asking && number > prober->asked;
    prober->asking = prober->asking && !answered;
    *ret_call = answered || prober->proof.look.oldest != was_oldest;
    return HF_OK;
}

/* The thread's look. The mutex is held, and let go meanwhile. True if it worked. */
static bool look_by_thread(struct prober *prober)
{
    bool call = false;
    struct session *session = NULL;
    pthread_mutex_unlock(&prober->mutex);
    hf_status status = session_take(prober->engine, &session);
    pthread_mutex_lock(&prober->mutex);
    while (prober->looking && !prober->stop) {
        cond_wait_until(&prober->changed, &prober->mutex, DEADLINE_NEVER);
    }
    if (!status && !prober->stop) {
        status = look_and_publish(prober, session, &call);
    }
    call = call && prober->watchers > 0;
    pthread_mutex_unlock(&prober->mutex);
    if (status && session) {
        session_close(session);
    }
    session_give(prober->engine, session);
    if (call) {
        keeper_wake(prober->engine);
    }
    pthread_mutex_lock(&prober->mutex);
    return status == HF_OK;
}

static struct deadline later(struct deadline a, struct deadline b)
{
    return a.mono_us > b.mono_us ? a : b;
}

static void *prober_main(void *ctx)
{
    struct prober *prober = ctx;
    struct deadline wanted = {0}; /* a reader began to watch a moment before */
    struct deadline next = {0};   /* not before this, whichever reader watches */
    pthread_mutex_lock(&prober->mutex);
    while (!prober->stop) {
        struct deadline due = later(wanted, next);
        if (prober->watchers == 0) {
            cond_wait_until(&prober->changed, &prober->mutex, DEADLINE_NEVER);
            wanted = deadline_after_ms(PROBE_DELAY_MS);
        } else if (!deadline_passed(due)) {
            cond_wait_until(&prober->changed, &prober->mutex, due);
        } else {
            bool good = look_by_thread(prober);
            next = deadline_after_ms(good ? PROBE_PERIOD_MS : RETRY_PERIOD_MS);
        }
    }
    pthread_mutex_unlock(&prober->mutex);
    return NULL;
}

hf_status prober_new(struct postgres_engine *engine, struct prober **ret_prober)
{
    struct prober *prober = mem_calloc(1, sizeof *prober);
    if (!prober) {
        return fail(HF_NOMEM, "no memory for an engine");
    }
    prober->engine = engine;
    hf_status status = mutex_init(&prober->mutex);
    if (!status) {
        status = cond_init(&prober->changed);
        if (status) {
            pthread_mutex_destroy(&prober->mutex);
        }
    }
    if (status) {
        mem_free(prober);
        return status;
    }
    gap_watch_init(&prober->watch);
    prober->proof.look = prober->watch.look;
    *ret_prober = prober;
    return HF_OK;
}

void prober_free(struct prober *prober)
{
    if (!prober) {
        return;
    }
    pthread_mutex_lock(&prober->mutex);
    prober->stop = true;
    pthread_cond_broadcast(&prober->changed);
    bool running = prober->running;
    pthread_mutex_unlock(&prober->mutex);
    if (running) {
        pthread_join(prober->thread, NULL);
    }
    gap_watch_release(&prober->watch);
    pthread_cond_destroy(&prober->changed);
    pthread_mutex_destroy(&prober->mutex);
    mem_free(prober);
}

struct proof prober_proof(struct prober *prober)
{
    pthread_mutex_lock(&prober->mutex);
    struct proof proof = prober->proof;
    pthread_mutex_unlock(&prober->mutex);
    return proof;
}

uint64_t prober_begun(struct prober *prober)
{
    pthread_mutex_lock(&prober->mutex);
    uint64_t begun = prober->begun;
    pthread_mutex_unlock(&prober->mutex);
    return begun;
}

hf_status prober_look(struct prober *prober, struct session *session)
{
    bool call = false;
    pthread_mutex_lock(&prober->mutex);
    while (prober->looking) {
        cond_wait_until(&prober->changed, &prober->mutex, DEADLINE_NEVER);
    }
    hf_status status = look_and_publish(prober, session, &call);
    pthread_mutex_unlock(&prober->mutex);
    if (call) {
        keeper_wake(prober->engine);
    }
    return status;
}

hf_status prober_watch(struct prober *prober)
{
    hf_status status = HF_OK;
    pthread_mutex_lock(&prober->mutex);
    if (!prober->running) {
        status = thread_start(&prober->thread, "hf-prober", prober_main, prober);
        prober->running = status == HF_OK;
    }
    if (!status && prober->watchers++ == 0) {
        pthread_cond_broadcast(&prober->changed);
    }
    pthread_mutex_unlock(&prober->mutex);
    return status;
}

void prober_unwatch(struct prober *prober)
{
    pthread_mutex_lock(&prober->mutex);
    if (--prober->watchers == 0) {
        pthread_cond_broadcast(&prober->changed);
    }
    pthread_mutex_unlock(&prober->mutex);
}

void prober_ask(struct prober *prober)
{
    pthread_mutex_lock(&prober->mutex);
    prober->asked = prober->begun;
    prober->asking = true;
    pthread_mutex_unlock(&prober->mutex);
}

/* ---- Now ------------------------------------------------------------------------------------- */

/* What one look of postgres_now has shown. */
struct now_look {
    struct holders holders;
    int64_t head;
    uint64_t era;
};

static hf_status read_head(struct session *session, int64_t *ret_head)
{
    PGresult *result;
    session_params(session);
    hf_status status = session_query(session, POSTGRES_QUERY_READ_HEAD, &result);
    if (!status) {
        *ret_head = result_int8(result, 0, 0, 0);
        PQclear(result);
    }
    return status;
}

/* Reads who publishes, and before that, if it is the first look, the head; on a session that is
 * borrowed for it, because the one that waits may have to wait for long. The caller frees the
 * list. */
static hf_status look_now(struct postgres_engine *engine, bool first, struct now_look *look)
{
    struct session *session;
    hf_status status = session_take(engine, &session);
    if (status) {
        return status;
    }
    uint64_t era = first ? session->era : look->era;
    if (first) {
        status = read_head(session, &look->head);
    }
    if (!status) {
        status = read_holders(session, &look->holders);
    }
    if (!status && session->era != era) {
        mem_free(look->holders.list);
        status = fail(HF_UNAVAILABLE, "%s: the server was restarted", engine->place);
    }
    look->era = era;
    session_give(engine, session);
    return status;
}

static hf_status fail_held(const struct holders *holders)
{
    return holders->pid < 0
               ? fail(HF_TIMEOUT, "a prepared transaction has published and does not end")
               : fail(HF_TIMEOUT,
                      "a transaction of the server's process %" PRId64
                      " has published and does not end",
                      holders->pid);
}

/* Looks until no holder is left that the first look has seen. */
static hf_status await_holders(struct postgres_engine *engine, struct gap_watch *watch,
                               struct deadline deadline, int64_t *ret_head)
{
    struct now_look look = {.head = 0};
    for (uint64_t number = 1;; number++) {
        look.holders = (struct holders){0};
        hf_status status = look_now(engine, number == 1, &look);
        if (!status) {
            status = gap_watch_look(watch, number, look.holders.list, look.holders.count);
            mem_free(look.holders.list);
        }
        if (status) {
            return status;
        }
        if (watch->look.oldest > 1) {
            *ret_head = look.head;
            return HF_OK;
        }
        if (deadline_passed(deadline)) {
            return fail_held(&look.holders);
        }
        struct deadline next = deadline_earlier(deadline, deadline_after_ms(NOW_PERIOD_MS));
        int64_t left_us = next.mono_us - clock_mono_us();
        struct timespec nap = {.tv_nsec = left_us > 0 ? left_us * 1000 : 0};
        nanosleep(&nap, NULL);
    }
}

/*
 * The newest position that was ever drawn, when no transaction is left that may have drawn it or
 * one below and has not ended. So whatever is at or below it is decided, and a transaction that
 * begins to publish draws a higher one. Without the waiting a transaction that is open now would
 * commit below.
 */
hf_status postgres_now(struct engine *engine, struct deadline deadline, int64_t *ret_position)
{
    struct gap_watch watch;
    gap_watch_init(&watch);
    hf_status status = await_holders(postgres_of(engine), &watch, deadline, ret_position);
    gap_watch_release(&watch);
    return status;
}
