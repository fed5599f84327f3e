/*
 * session.c - one connection to the server. See session.h.
 *
 * Everything goes through libpq's asynchronous calls and a poll() of our own, so that no deadline
 * is missed because a server or a network went silent. Only the look-up of a host's name is not
 * under our control.
 *
 * A statement that is not answered in time is asked to stop, and its connection is closed without
 * waiting for that: a caller's deadline is kept whatever the server does. The request to stop is a
 * connection of its own, made by libpq's blocking PQcancel, so a thread of its own makes it. When a
 * network swallows requests they are no help, and their threads pile up: only CANCELS_MAX are made
 * at a time. A server that was not asked stops when it notices that the connection is gone.
 */
#include "store/postgres/wire/session.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "store/postgres/postgres.h"

#define SILENCE_MS 4000       /* without a byte from the server: see backend_check.c */
#define POLL_SLICE_MS 100     /* a fake clock may have moved, or the store may be left */
#define LEAVE_SILENCE_MS 1000 /* the same when the store is left: see store_leave */
#define CANCEL_WAIT_MS 1000   /* for the answer to a cancelled statement of the application's */
#define CANCELS_MAX 8         /* requests to stop that are under way, of the whole process */
#define FAREWELLS_MAX 3       /* reads from an idle connection: why it ends, then its end */
#define NAME_BYTES 80
#define STREAM_LOOK_ROWS 256 /* after so many rows the clock is read again */

/* ---- Waiting --------------------------------------------------------------------------------- */

bool session_hurries(const struct session *session)
{
    bool own = session->kind != SESSION_HANDLER && session->kind != SESSION_FOREIGN;
    return own && !session->publishes && atomic_load(&session->engine->leaving_us) > 0;
}

/* The store is left, and the server is silent since `begun_us`. After one such silence no other
 * session waits either. */
static bool is_left(const struct session *session, int64_t begun_us)
{
    struct postgres_engine *engine = session->engine;
    if (!session_hurries(session)) {
        return false;
    }
    int64_t leaving_us = atomic_load(&engine->leaving_us);
    int64_t since_us = leaving_us > begun_us ? leaving_us : begun_us;
    if (clock_mono_us() - since_us >= LEAVE_SILENCE_MS * INT64_C(1000)) {
        atomic_store(&engine->mute, true);
    }
    return atomic_load(&engine->mute);
}

/* Trouble counts as ready: libpq finds out which. */
bool session_wait(struct session *session, short events, struct deadline deadline)
{
    int64_t begun_us = clock_mono_us();
    for (;;) {
        int64_t left_ms = deadline_left_ms(deadline);
        int slice_ms = left_ms < 0 || left_ms > POLL_SLICE_MS ? POLL_SLICE_MS : (int)left_ms;
        struct pollfd fd = {.fd = PQsocket(session->pg), .events = events};
        int ready = poll(&fd, 1, slice_ms);
        if (ready > 0 || (ready < 0 && errno != EINTR)) {
            return true;
        }
        if (deadline_passed(deadline) || is_left(session, begun_us)) {
            return false;
        }
    }
}

/* Waits for the server to do something. A silence that will not end is a lost connection. */
static hf_status await(struct session *session, short events)
{
    const char *place = session->engine->place;
    for (;;) {
        struct deadline silence = deadline_after_ms(SILENCE_MS);
        if (session_wait(session, events, deadline_earlier(session->deadline, silence))) {
            return HF_OK;
        }
        if (session_hurries(session) && atomic_load(&session->engine->mute)) {
            return fail(HF_TIMEOUT,
                        "%s was silent for a second, and this process waits no longer because it "
                        "closes the store",
                        place);
        }
        if (deadline_passed(session->deadline)) {
            return fail(HF_TIMEOUT, "%s did not %s in time", place,
                        events & POLLOUT ? "take a statement" : "answer");
        }
        if (session_has(session, SESSION_GREETED) && session_backend_is_lost(session)) {
            session_cut(session);
            return fail(HF_UNAVAILABLE, "%s has fallen silent: the connection is given up", place);
        }
    }
}

/* Sends what libpq holds back. */
static hf_status flush(struct session *session)
{
    for (;;) {
        int left = PQflush(session->pg);
        if (left == 0) {
            return HF_OK;
        }
        if (left < 0) {
            return session_fail(session, NULL, POSTGRES_QUERY_COUNT);
        }
        hf_status status = await(session, POLLIN | POLLOUT);
        if (status) {
            return status;
        }
        if (!PQconsumeInput(session->pg)) {
            return session_fail(session, NULL, POSTGRES_QUERY_COUNT);
        }
    }
}

/* Waits until PQgetResult would not. */
static hf_status await_result(struct session *session)
{
    while (PQisBusy(session->pg)) {
        hf_status status = await(session, POLLIN);
        if (status) {
            return status;
        }
        if (!PQconsumeInput(session->pg)) {
            break; /* PQgetResult says what it is */
        }
    }
    return HF_OK;
}

/* The last result of what was sent, or the first that is an error. */
static hf_status collect(struct session *session, PGresult **ret_result)
{
    PGresult *kept = NULL;
    hf_status status = flush(session);
    for (;;) {
        if (!status) {
            status = await_result(session);
        }
        PGresult *result = status == HF_OK ? PQgetResult(session->pg) : NULL;
        if (!result) {
            break;
        }
        if (kept && PQresultStatus(kept) == PGRES_FATAL_ERROR) {
            PQclear(result);
            continue;
        }
        PQclear(kept);
        kept = result;
    }
    if (status) {
        PQclear(kept);
        return status;
    }
    *ret_result = kept;
    return HF_OK;
}

/* ---- Deadlines ------------------------------------------------------------------------------- */

static atomic_int cancels; /* under way */

static void *cancel_main(void *ctx)
{
    char why[256];
    PQcancel(ctx, why, sizeof why);
    PQfreeCancel(ctx);
    atomic_fetch_sub(&cancels, 1);
    return NULL;
}

void session_cancel(PGcancel *cancel)
{
    pthread_t thread;
    if (!cancel) {
        return;
    }
    if (atomic_fetch_add(&cancels, 1) < CANCELS_MAX &&
        thread_start(&thread, "hf-cancel", cancel_main, cancel) == HF_OK) {
        pthread_detach(thread);
    } else {
        atomic_fetch_sub(&cancels, 1);
        PQfreeCancel(cancel);
    }
}

/* Asks the server to stop the statement. The application's connection is not ours to close: there
 * the answer is waited for, shortly. */
static void give_up(struct session *session)
{
    session_cancel(PQgetCancel(session->pg));
    if (session->kind == SESSION_FOREIGN) {
        PGresult *result = NULL;
        session->deadline = deadline_after_ms(CANCEL_WAIT_MS);
        if (collect(session, &result) == HF_OK) {
            PQclear(result);
        }
    } else {
        session_cut(session);
    }
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

static void session_reset(struct session *session)
{
    memset(session->prepared, 0, sizeof session->prepared);
    session->in_tx = false;
    session->unsure = false;
    session->facts = 0;
    session->era = 0;
    session->birth_us = 0;
}

void session_init(struct session *session, struct postgres_engine *engine, enum session_kind kind)
{
    *session = (struct session){.engine = engine, .kind = kind, .deadline = DEADLINE_NEVER};
    params_init(&session->params);
}

void session_wrap(struct session *session, struct postgres_engine *engine, PGconn *pg,
                  struct deadline deadline)
{
    session_init(session, engine, SESSION_FOREIGN);
    session->pg = pg;
    session->facts = SESSION_POOLED; /* leave nothing behind in it */
    session->in_tx = true;
    session->deadline = deadline;
}

void session_close(struct session *session)
{
    if (session->pg && session->kind != SESSION_FOREIGN) {
        engine_drop_session(session->engine, session);
        if (atomic_load(&session->engine->poisoned)) {
            engine_abandon(session->pg); /* libpq would say farewell in the parent's name */
        } else {
            PQfinish(session->pg);
        }
    }
    session->pg = NULL;
    session_reset(session);
}

void session_move(struct session *from, struct session *to)
{
    to->pg = from->pg;
    to->number = from->number;
    to->era = from->era;
    to->birth_us = from->birth_us;
    to->facts = from->facts;
    memcpy(to->prepared, from->prepared, sizeof to->prepared);
    from->pg = NULL;
    session_reset(from);
}

void session_cut(struct session *session)
{
    if (session->kind != SESSION_HANDLER) {
        session_close(session);
    } else if (session->pg) {
        shutdown(PQsocket(session->pg), SHUT_RDWR);
    }
}

void session_release(struct session *session)
{
    session_close(session);
    params_release(&session->params);
}

bool session_is_up(struct session *session)
{
    if (!session->pg || PQstatus(session->pg) != CONNECTION_OK) {
        return false;
    }
    struct pollfd fd = {.fd = PQsocket(session->pg), .events = POLLIN};
    for (int i = 0; i < FAREWELLS_MAX && poll(&fd, 1, 0) > 0; i++) {
        if (!PQconsumeInput(session->pg)) {
            return false;
        }
    }
    return PQstatus(session->pg) == CONNECTION_OK;
}

/* ---- Statements ------------------------------------------------------------------------------ */

struct params *session_params(struct session *session)
{
    params_clear(&session->params);
    return &session->params;
}

static const char *sql_of(const struct session *session, enum postgres_query query)
{
    const char *made = session->engine->sql[query];
    return made ? made : postgres_queries[query].sql;
}

static void name_of(enum postgres_query query, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "holdfast_%s", postgres_queries[query].name);
}

static bool is_failure(const PGresult *result)
{
    switch (PQresultStatus(result)) {
    case PGRES_TUPLES_OK:
    case PGRES_COMMAND_OK:
        return false;
    default:
        return true;
    }
}

/* Takes the answer to what was just sent. */
static hf_status finish(struct session *session, int sent, enum postgres_query query,
                        PGresult **ret_result)
{
    PGresult *result = NULL;
    if (!sent) {
        return session_fail(session, NULL, query);
    }
    hf_status status = collect(session, &result);
    if (status == HF_TIMEOUT) {
        char message[HF_ERR_BYTES_MAX];
        snprintf(message, sizeof message, "%s", err_message());
        give_up(session);
        return err_set(HF_TIMEOUT, message);
    }
    if (status) {
        return status;
    }
    if (!result || is_failure(result)) {
        status = session_fail(session, result, query);
        PQclear(result);
        return status;
    }
    *ret_result = result;
    return HF_OK;
}

hf_status session_prepare(struct session *session, enum postgres_query query)
{
    if (session_has(session, SESSION_POOLED) || session->prepared[query]) {
        return HF_OK;
    }
    char name[NAME_BYTES];
    name_of(query, name);
    PGresult *result;
    struct params *params = &session->params;
    int sent =
        PQsendPrepare(session->pg, name, sql_of(session, query), params->count, params->types);
    hf_status status = finish(session, sent, query, &result);
    if (!status) {
        PQclear(result);
        session->prepared[query] = true;
    }
    return status;
}

static int send_query(struct session *session, enum postgres_query query, bool once)
{
    struct params *params = &session->params;
    if (once || session_has(session, SESSION_POOLED)) {
        return PQsendQueryParams(session->pg, sql_of(session, query), params->count, params->types,
                                 params->values, params->lengths, params->formats, 1);
    }
    char name[NAME_BYTES];
    name_of(query, name);
    return PQsendQueryPrepared(session->pg, name, params->count, params->values, params->lengths,
                               params->formats, 1);
}

hf_status session_execute(struct session *session, enum postgres_query query, bool once,
                          PGresult **ret_result)
{
    hf_status status = params_finish(&session->params);
    if (!status && !once) {
        status = session_prepare(session, query);
    }
    if (status) {
        return status;
    }
    session->sqlstate[0] = '\0';
    status = finish(session, send_query(session, query, once), query, ret_result);
    if (status && strcmp(session->sqlstate, "26000") == 0) {
        memset(session->prepared, 0, sizeof session->prepared); /* they were deallocated */
    }
    return status;
}

bool session_is_lost(const struct session *session)
{
    return !session->pg || PQstatus(session->pg) != CONNECTION_OK ||
           atomic_load(&session->engine->poisoned);
}

static hf_status query_once_or_again(struct session *session, enum postgres_query query, bool once,
                                     PGresult **ret_result)
{
    bool free = !session->in_tx && session->kind != SESSION_FOREIGN &&
                session->kind != SESSION_KEEPER; /* whose connection must be made by the keeper */
    if (session_is_lost(session)) {
        if (!free) {
            return fail(HF_UNAVAILABLE, "%s: the connection was lost", session->engine->place);
        }
        hf_status status = session_connect(session, session->deadline);
        if (status) {
            return status;
        }
    }
    hf_status status = session_execute(session, query, once, ret_result);
    bool again = status != HF_OK && status != HF_TIMEOUT && free &&
                 session->kind == SESSION_READER &&
                 (session_is_lost(session) || strcmp(session->sqlstate, "26000") == 0);
    if (!again) {
        return status;
    }
    status = session_connect(session, session->deadline);
    return status ? status : session_execute(session, query, once, ret_result);
}

hf_status session_query(struct session *session, enum postgres_query query, PGresult **ret_result)
{
    return query_once_or_again(session, query, false, ret_result);
}

hf_status session_query_once(struct session *session, enum postgres_query query,
                             PGresult **ret_result)
{
    return query_once_or_again(session, query, true, ret_result);
}

hf_status session_run(struct session *session, enum postgres_query query)
{
    PGresult *result = NULL;
    hf_status status = session_query(session, query, &result);
    if (!status) {
        PQclear(result);
    }
    return status;
}

hf_status session_script(struct session *session, const char *sql)
{
    if (session_is_lost(session)) {
        return fail(HF_UNAVAILABLE, "%s: the connection was lost", session->engine->place);
    }
    PGresult *result = NULL;
    hf_status status =
        finish(session, PQsendQuery(session->pg, sql), POSTGRES_QUERY_COUNT, &result);
    if (!status) {
        PQclear(result);
    }
    return status;
}

/* The next row is one result; the last result has none, and says how it ended. */
static hf_status stream_rows(struct session *session, enum postgres_query query, int64_t silence_ms,
                             session_row_fn row, void *ctx)
{
    hf_status status = flush(session);
    for (int64_t count = 0; !status; count++) {
        if (count % STREAM_LOOK_ROWS == 0) {
            session->deadline = deadline_after_ms(silence_ms);
        }
        status = await_result(session);
        PGresult *result = status == HF_OK ? PQgetResult(session->pg) : NULL;
        if (!result) {
            break;
        }
        if (PQresultStatus(result) == PGRES_SINGLE_TUPLE) {
            status = row(result, ctx);
        } else if (is_failure(result)) {
            status = session_fail(session, result, query);
        }
        PQclear(result);
    }
    return status;
}

hf_status session_stream(struct session *session, enum postgres_query query, int64_t silence_ms,
                         session_row_fn row, void *ctx)
{
    hf_status status = params_finish(&session->params);
    if (!status && session_is_lost(session)) {
        status = fail(HF_UNAVAILABLE, "%s: the connection was lost", session->engine->place);
    }
    if (status) {
        return status;
    }
    session->deadline = deadline_after_ms(silence_ms);
    if (!send_query(session, query, true) || !PQsetSingleRowMode(session->pg)) {
        return session_fail(session, NULL, query);
    }
    status = stream_rows(session, query, silence_ms, row, ctx);
    if (status && session->pg && PQtransactionStatus(session->pg) == PQTRANS_ACTIVE) {
        session_cancel(PQgetCancel(session->pg));
        session_cut(session);
    }
    return status;
}

/* ---- Transactions ---------------------------------------------------------------------------- */

hf_status session_begin(struct session *session)
{
    assert(!session->in_tx);
    hf_status status = session_connect(session, session->deadline);
    if (status) {
        return status;
    }
    bool relaxed = session->engine->durability == HF_DURABILITY_PROCESS;
    enum postgres_query query = relaxed ? POSTGRES_QUERY_BEGIN_RELAXED
                                : session_has(session, SESSION_WEAK_COMMIT)
                                    ? POSTGRES_QUERY_BEGIN_STRONG
                                    : POSTGRES_QUERY_BEGIN;
    status = session_script(session, postgres_queries[query].sql);
    session->in_tx = status == HF_OK;
    return status;
}

/* At the deadline the connection is closed and not the commit cancelled: that would make visible
 * here what a standby may not have. */
hf_status session_commit(struct session *session)
{
    session->in_tx = false;
    session->unsure = false;
    if (session_is_lost(session)) {
        return fail(HF_UNAVAILABLE, "%s: the connection was lost before the commit",
                    session->engine->place);
    }
    PGresult *result = NULL;
    int sent = PQsendQuery(session->pg, postgres_queries[POSTGRES_QUERY_COMMIT].sql);
    hf_status status = sent ? collect(session, &result) : HF_UNAVAILABLE;
    const char *code = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    bool refused = code && !session_leaves_open(session, code);
    bool lost = session_is_lost(session);
    if (status || (!refused && (lost || !result || is_failure(result)))) {
        status =
            fail(HF_UNKNOWN, "%s: the connection was lost during a commit", session->engine->place);
        session_close(session);
    } else if (refused) {
        status = session_fail(session, result, POSTGRES_QUERY_COMMIT);
    } else if (PQcmdStatus(result)[0] == 'R') {
        /* ROLLBACK is the answer to a commit of what had failed. */
        status = fail(HF_IO, "%s: the transaction had failed and was rolled back",
                      session->engine->place);
    } else if (session->unsure) {
        status = fail(HF_UNKNOWN, "%s: committed, but perhaps not on the standby",
                      session->engine->place);
    }
    PQclear(result);
    return status;
}

void session_rollback(struct session *session)
{
    session->in_tx = false;
    if (session_is_lost(session) ||
        session_script(session, postgres_queries[POSTGRES_QUERY_ROLLBACK].sql) != HF_OK) {
        session_close(session);
    }
}

hf_status session_undo(struct session *session)
{
    return session_script(session, postgres_queries[POSTGRES_QUERY_UNDO].sql);
}

/* ---- Pipelines ------------------------------------------------------------------------------- */

hf_status session_pipe_enter(struct session *session)
{
    session->unsure = false;
    return PQenterPipelineMode(session->pg) ? HF_OK
                                            : session_fail(session, NULL, POSTGRES_QUERY_COUNT);
}

hf_status session_pipe_prepare(struct session *session, enum postgres_query query)
{
    hf_status status = params_finish(&session->params);
    if (status) {
        return status;
    }
    char name[NAME_BYTES];
    name_of(query, name);
    return PQsendPrepare(session->pg, name, sql_of(session, query), session->params.count,
                         session->params.types)
               ? HF_OK
               : session_fail(session, NULL, query);
}

hf_status session_pipe_send(struct session *session, enum postgres_query query)
{
    hf_status status = params_finish(&session->params);
    if (status) {
        return status;
    }
    return send_query(session, query, false) ? HF_OK : session_fail(session, NULL, query);
}

hf_status session_pipe_sync(struct session *session)
{
    return PQpipelineSync(session->pg) ? HF_OK : session_fail(session, NULL, POSTGRES_QUERY_COUNT);
}

hf_status session_pipe_next(struct session *session, PGresult **ret_result)
{
    hf_status status = flush(session);
    while (!status) {
        status = await_result(session);
        if (status) {
            break;
        }
        PGresult *result = PQgetResult(session->pg);
        bool lost = session_is_lost(session);
        if (result && !(lost && !PQresultErrorField(result, PG_DIAG_SQLSTATE))) {
            *ret_result = result;
            return HF_OK;
        }
        PQclear(result);
        if (lost) {
            return session_fail(session, NULL, POSTGRES_QUERY_COUNT);
        }
        /* NULL stands between the results of two statements. */
    }
    return status;
}

void session_pipe_leave(struct session *session)
{
    if (!session_is_lost(session) && !PQexitPipelineMode(session->pg)) {
        session_close(session); /* something is unanswered */
    }
}
