/*
 * session.c - one connection to the server. See session.h.
 *
 * Everything goes through libpq's asynchronous calls and a poll() of our own, so that no deadline
 * is missed because a server or a network went silent. Only the look-up of a host's name is not
 * under our control.
 *
 * A session that begins says hello: it learns whether it speaks to a server of its own or through a
 * pooler, whether the server can be written to, and sets what must not depend on the settings of
 * the role or the database. Behind a pooler nothing is set, because it would stay there for others.
 */
#include "store/postgres/session.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "store/postgres/errors.h"
#include "store/postgres/postgres.h"
#include "store/postgres/row.h"

#define POLL_SLICE_MS 1000   /* a fake clock may have moved */
#define CANCEL_WAIT_MS 2000  /* for the answer to a cancelled statement */
#define RETRY_FIRST_MS 20    /* between attempts to connect, doubled ... */
#define RETRY_LAST_MS 1000   /* ... up to this */
#define LOCK_TIMEOUT "100ms" /* of the writer: apply.c tries again */
#define NAME_BYTES 80

/* For libpq, before the URL, which may say otherwise. */
#define KEEPALIVE_IDLE_S "30"
#define KEEPALIVE_INTERVAL_S "10"
#define KEEPALIVE_COUNT "3"
#define TCP_USER_TIMEOUT_MS "15000"

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Waits for the socket; false when the deadline has passed. Trouble counts as ready: libpq finds
 * out which. */
static bool wait_socket(PGconn *pg, short events, struct deadline deadline)
{
    for (;;) {
        int64_t left_ms = deadline_left_ms(deadline);
        int slice_ms = left_ms < 0 || left_ms > POLL_SLICE_MS ? POLL_SLICE_MS : (int)left_ms;
        struct pollfd fd = {.fd = PQsocket(pg), .events = events};
        int ready = poll(&fd, 1, slice_ms);
        if (ready > 0 || (ready < 0 && errno != EINTR)) {
            return true;
        }
        if (deadline_passed(deadline)) {
            return false;
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
        if (!wait_socket(session->pg, POLLIN | POLLOUT, session->deadline)) {
            return fail(HF_TIMEOUT, "%s did not take a statement in time", session->engine->place);
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
        if (!wait_socket(session->pg, POLLIN, session->deadline)) {
            return fail(HF_TIMEOUT, "%s did not answer in time", session->engine->place);
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
        if (status == HF_OK) {
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
    if (status != HF_OK) {
        PQclear(kept);
        return status;
    }
    *ret_result = kept;
    return HF_OK;
}

/* ---- Deadlines ------------------------------------------------------------------------------- */

/* Asks the server to stop the statement and takes its answer; closes the session if none comes. */
static void cancel(struct session *session)
{
    char why[256];
    PGcancel *cancel = PQgetCancel(session->pg);
    bool asked = cancel && PQcancel(cancel, why, sizeof why);
    PQfreeCancel(cancel);
    if (asked) {
        PGresult *result = NULL;
        struct deadline before = session->deadline;
        session->deadline = deadline_after_ms(CANCEL_WAIT_MS);
        asked = collect(session, &result) == HF_OK && PQstatus(session->pg) == CONNECTION_OK;
        session->deadline = before;
        PQclear(result);
    }
    if (!asked && session->kind != SESSION_FOREIGN) {
        session_close(session);
    }
}

/* ---- Connecting ------------------------------------------------------------------------------ */

/* libpq would print notices. One kind matters: the commit happened here, but nobody knows
 * whether on the standby, because somebody ended the wait for it. */
static void hear_notice(void *ctx, const PGresult *notice)
{
    struct session *session = ctx;
    const char *sqlstate = PQresultErrorField(notice, PG_DIAG_SQLSTATE);
    if (sqlstate && (strcmp(sqlstate, "57014") == 0 || strcmp(sqlstate, "57P01") == 0)) {
        session->unsure = true;
    }
}

static void session_reset(struct session *session)
{
    memset(session->prepared, 0, sizeof session->prepared);
    session->in_tx = false;
    session->unsure = false;
    session->pooled = false;
    session->weak_commit = false;
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
    session->pooled = true; /* leave nothing behind in it */
    session->in_tx = true;
    session->deadline = deadline;
}

void session_close(struct session *session)
{
    if (session->pg && session->kind != SESSION_FOREIGN) {
        engine_drop_session(session->engine, session);
        PQfinish(session->pg);
    }
    session->pg = NULL;
    session_reset(session);
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
    if (poll(&fd, 1, 0) > 0 && !PQconsumeInput(session->pg)) {
        return false;
    }
    return PQstatus(session->pg) == CONNECTION_OK;
}

static hf_status dial(struct session *session, struct deadline deadline)
{
    struct postgres_engine *engine = session->engine;
    const char *keywords[] = {"application_name", "keepalives_idle", "keepalives_interval",
                              "keepalives_count", "tcp_user_timeout", "target_session_attrs",
                              "dbname", "client_encoding", NULL};
    const char *values[] = {engine->node_name.bytes, KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S,
                            KEEPALIVE_COUNT, TCP_USER_TIMEOUT_MS, "read-write",
                            engine->url, "UTF8", NULL};
    session->pg = PQconnectStartParams(keywords, values, 1);
    if (!session->pg) {
        return fail(HF_NOMEM, "no memory for a connection");
    }
    PQsetErrorVerbosity(session->pg, PQERRORS_VERBOSE); /* errors_connect wants codes */
    PQsetNoticeReceiver(session->pg, hear_notice, session);
    PostgresPollingStatusType want = PGRES_POLLING_WRITING;
    while (PQstatus(session->pg) != CONNECTION_BAD) {
        short events = want == PGRES_POLLING_READING ? POLLIN : POLLOUT;
        if (!wait_socket(session->pg, events, deadline)) {
            return fail(HF_TIMEOUT, "cannot connect to %s: no answer in time", engine->place);
        }
        want = PQconnectPoll(session->pg);
        if (want == PGRES_POLLING_OK || want == PGRES_POLLING_FAILED) {
            break;
        }
    }
    if (PQstatus(session->pg) != CONNECTION_OK) {
        return errors_connect(session);
    }
    PQsetErrorVerbosity(session->pg, PQERRORS_DEFAULT);
    if (PQsetnonblocking(session->pg, 1) != 0) {
        return fail(HF_NOMEM, "no memory for a connection");
    }
    return HF_OK;
}

/* Parameters of the statement `hello`: the process that we believe to speak to, and settings. */
static void fill_hello(struct session *session)
{
    bool writes = session->kind == SESSION_WRITER || session->kind == SESSION_KEEPER;
    bool handler = session->kind == SESSION_HANDLER;
    bool relaxed = session->engine->durability == HF_DURABILITY_PROCESS;
    struct params *params = session_params(session);
    param_int4(params, PQbackendPID(session->pg));
    param_text(params, handler ? TEXT_ABSENT
                               : text_of(session->kind == SESSION_WRITER ? LOCK_TIMEOUT : "0"));
    param_text(params, handler || writes ? TEXT_ABSENT : text_of("force_custom_plan"));
    param_text(params, handler ? TEXT_ABSENT : text_of("0"));
    param_bool(params, relaxed && session->kind == SESSION_WRITER);
}

static hf_status execute(struct session *session, enum postgres_query query, bool once,
                         PGresult **ret_result);

static hf_status hello(struct session *session)
{
    const char *place = session->engine->place;
    int version = PQserverVersion(session->pg);
    if (version < POSTGRES_VERSION_MIN) {
        return fail(HF_UNAVAILABLE, "%s is PostgreSQL %d.%d; Holdfast needs %d or newer", place,
                    version / 10000, version % 10000, POSTGRES_VERSION_MIN / 10000);
    }
    /* The parameters in hand may be those of a statement that is to be run again. */
    struct params in_hand = session->params;
    PGresult *result;
    params_init(&session->params);
    fill_hello(session);
    hf_status status = execute(session, POSTGRES_QUERY_HELLO, true, &result);
    params_release(&session->params);
    session->params = in_hand;
    if (status != HF_OK) {
        return status;
    }
    session->pooled = result_bool(result, 0, 0);
    session->weak_commit = result_bool(result, 0, 2);
    if (result_bool(result, 0, 1)) {
        status = fail(HF_UNAVAILABLE, "%s is read-only (in recovery): connect to the primary",
                      place);
    }
    PQclear(result);
    return status;
}

static hf_status connect_once(struct session *session, struct deadline deadline)
{
    struct deadline before = session->deadline;
    session_close(session);
    session->deadline = deadline;
    hf_status status = dial(session, deadline);
    if (session->pg) {
        engine_add_session(session->engine, session);
    }
    if (status == HF_OK) {
        status = hello(session);
    }
    session->deadline = before;
    if (status != HF_OK) {
        char code[sizeof session->sqlstate];
        memcpy(code, session->sqlstate, sizeof code);
        session_close(session);
        memcpy(session->sqlstate, code, sizeof code);
        return status;
    }
    session->number = atomic_fetch_add(&session->engine->connections, 1) + 1;
    return HF_OK;
}

/* Whether it may help to wait: the server is starting, or, when it was there before, is away. */
static bool is_worth_waiting(const struct session *session, hf_status status)
{
    return strcmp(session->sqlstate, "57P03") == 0 ||
           (session->engine->opened && status == HF_UNAVAILABLE);
}

static void nap(int64_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

hf_status session_connect(struct session *session, struct deadline deadline)
{
    if (session->pg && PQstatus(session->pg) == CONNECTION_OK) {
        return HF_OK;
    }
    for (int64_t pause_ms = RETRY_FIRST_MS;; pause_ms *= 2) {
        session->sqlstate[0] = '\0';
        hf_status status = connect_once(session, deadline);
        if (status == HF_OK || !is_worth_waiting(session, status)) {
            return status;
        }
        int64_t left_ms = deadline_left_ms(deadline);
        pause_ms = pause_ms > RETRY_LAST_MS ? RETRY_LAST_MS : pause_ms;
        if (left_ms >= 0 && left_ms <= pause_ms) {
            return status;
        }
        nap(pause_ms);
    }
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
        cancel(session);
        return err_set(HF_TIMEOUT, message);
    }
    if (status != HF_OK) {
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
    if (session->pooled || session->prepared[query]) {
        return HF_OK;
    }
    char name[NAME_BYTES];
    name_of(query, name);
    PGresult *result;
    struct params *params = &session->params;
    int sent = PQsendPrepare(session->pg, name, sql_of(session, query), params->count,
                             params->types);
    hf_status status = finish(session, sent, query, &result);
    if (status == HF_OK) {
        PQclear(result);
        session->prepared[query] = true;
    }
    return status;
}

static int send(struct session *session, enum postgres_query query, bool once)
{
    struct params *params = &session->params;
    if (once || session->pooled) {
        return PQsendQueryParams(session->pg, sql_of(session, query), params->count,
                                 params->types, params->values, params->lengths, params->formats,
                                 1);
    }
    char name[NAME_BYTES];
    name_of(query, name);
    return PQsendQueryPrepared(session->pg, name, params->count, params->values, params->lengths,
                               params->formats, 1);
}

/* One statement on a session that has a connection. */
static hf_status execute(struct session *session, enum postgres_query query, bool once,
                         PGresult **ret_result)
{
    hf_status status = params_finish(&session->params);
    if (status == HF_OK && !once) {
        status = session_prepare(session, query);
    }
    if (status != HF_OK) {
        return status;
    }
    session->sqlstate[0] = '\0';
    status = finish(session, send(session, query, once), query, ret_result);
    if (status != HF_OK && strcmp(session->sqlstate, "26000") == 0) {
        memset(session->prepared, 0, sizeof session->prepared); /* somebody took them away */
    }
    return status;
}

static bool is_lost(const struct session *session)
{
    return !session->pg || PQstatus(session->pg) != CONNECTION_OK;
}

static hf_status query_once_or_again(struct session *session, enum postgres_query query, bool once,
                                     PGresult **ret_result)
{
    bool free = !session->in_tx && session->kind != SESSION_FOREIGN &&
                session->kind != SESSION_KEEPER; /* whose connection must be made by the keeper */
    if (is_lost(session)) {
        if (!free) {
            return fail(HF_UNAVAILABLE, "%s: the connection was lost", session->engine->place);
        }
        hf_status status = session_connect(session, session->deadline);
        if (status != HF_OK) {
            return status;
        }
    }
    hf_status status = execute(session, query, once, ret_result);
    bool again = status != HF_OK && status != HF_TIMEOUT && free &&
                 session->kind == SESSION_READER &&
                 (is_lost(session) || strcmp(session->sqlstate, "26000") == 0);
    if (!again) {
        return status;
    }
    status = session_connect(session, session->deadline);
    return status == HF_OK ? execute(session, query, once, ret_result) : status;
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
    if (status == HF_OK) {
        PQclear(result);
    }
    return status;
}

hf_status session_script(struct session *session, const char *sql)
{
    if (is_lost(session)) {
        return fail(HF_UNAVAILABLE, "%s: the connection was lost", session->engine->place);
    }
    PGresult *result = NULL;
    hf_status status =
        finish(session, PQsendQuery(session->pg, sql), POSTGRES_QUERY_COUNT, &result);
    if (status == HF_OK) {
        PQclear(result);
    }
    return status;
}

/* ---- Transactions ---------------------------------------------------------------------------- */

hf_status session_begin(struct session *session)
{
    assert(!session->in_tx);
    hf_status status = session_connect(session, session->deadline);
    if (status != HF_OK) {
        return status;
    }
    bool relaxed = session->engine->durability == HF_DURABILITY_PROCESS;
    enum postgres_query query = relaxed                ? POSTGRES_QUERY_BEGIN_RELAXED
                                : session->weak_commit ? POSTGRES_QUERY_BEGIN_STRONG
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
    if (is_lost(session)) {
        return fail(HF_UNAVAILABLE, "%s: the connection was lost before the commit",
                    session->engine->place);
    }
    PGresult *result = NULL;
    int sent = PQsendQuery(session->pg, postgres_queries[POSTGRES_QUERY_COMMIT].sql);
    hf_status status = sent ? collect(session, &result) : HF_UNAVAILABLE;
    bool coded = result && PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (status != HF_OK || is_lost(session) || (result && is_failure(result) && !coded)) {
        status = fail(HF_UNKNOWN, "%s: the connection was lost during a commit",
                      session->engine->place);
        session_close(session);
    } else if (!result || is_failure(result)) {
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
    if (is_lost(session) ||
        session_script(session, postgres_queries[POSTGRES_QUERY_ROLLBACK].sql) != HF_OK) {
        session_close(session);
    }
}

hf_status session_save(struct session *session)
{
    return session_script(session, postgres_queries[POSTGRES_QUERY_SAVE].sql);
}

hf_status session_release_save(struct session *session)
{
    return session_script(session, postgres_queries[POSTGRES_QUERY_RELEASE_SAVE].sql);
}

hf_status session_undo(struct session *session)
{
    return session_script(session, postgres_queries[POSTGRES_QUERY_UNDO].sql);
}

/* ---- Pipelines ------------------------------------------------------------------------------- */

hf_status session_pipe_enter(struct session *session)
{
    session->unsure = false;
    return PQenterPipelineMode(session->pg)
               ? HF_OK
               : session_fail(session, NULL, POSTGRES_QUERY_COUNT);
}

hf_status session_pipe_send(struct session *session, enum postgres_query query)
{
    hf_status status = params_finish(&session->params);
    if (status != HF_OK) {
        return status;
    }
    return send(session, query, false) ? HF_OK : session_fail(session, NULL, query);
}

hf_status session_pipe_sync(struct session *session)
{
    return PQpipelineSync(session->pg) ? HF_OK
                                       : session_fail(session, NULL, POSTGRES_QUERY_COUNT);
}

hf_status session_pipe_next(struct session *session, PGresult **ret_result)
{
    hf_status status = flush(session);
    while (status == HF_OK) {
        status = await_result(session);
        if (status != HF_OK) {
            break;
        }
        PGresult *result = PQgetResult(session->pg);
        bool lost = is_lost(session);
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
    if (!is_lost(session) && !PQexitPipelineMode(session->pg)) {
        session_close(session); /* something is unanswered */
    }
}
