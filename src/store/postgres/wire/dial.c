/*
 * dial.c - making a connection: finding the server, greeting it, and trying again.
 *
 * With several hosts every attempt begins with the one that was right the last time, so that after
 * a failover no session waits for the old primary again. A host that does not answer has its
 * connect timeout; one that is read-only, starting, or away is passed by; what would be the same
 * everywhere (a wrong password, no such database) ends the walk.
 *
 * A session that begins says hello: it learns whether it speaks to a server of its own or through a
 * pooler, whether the server can be written to, and sets what must not depend on the settings of
 * the role or the database. Behind a pooler nothing is set, because it would stay there for others;
 * if the search_path that the role has there leads to functions of others the session is refused.
 *
 * Between two attempts there is a pause that grows, and no two processes pause alike: a server that
 * comes back is not met by all of them at the same moment.
 *
 * A server that has no session left (53300) is not asked again for some seconds, by no thread of
 * this store: whatever becomes free meanwhile is left to others, among them the administrator who
 * wants to find out what is going on.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "base/uuid.h"
#include "store/postgres/postgres.h"
#include "store/postgres/wire/address.h"
#include "store/postgres/wire/commit_mode.h"
#include "store/postgres/wire/era.h"
#include "store/postgres/wire/errors.h"
#include "store/postgres/wire/row.h"

#define RETRY_FIRST_MS 20  /* the first pause between attempts to connect; each is twice the last */
#define RETRY_LAST_MS 1000 /* the longest such pause; the real one is between half of it and all */

#define NAP_US 50000 /* one piece of a pause */

#define REFUSED_MS 5000      /* the pause after 53300; the real one is between half of it and all */
#define REFUSED_LOG_MS 60000 /* between two messages about that */

/* ---- One host -------------------------------------------------------------------------------- */

/* libpq would print notices. One kind matters: the commit happened here, but it is not known
 * whether on the standby, because the wait for it was cancelled. It has no code of its own, and a
 * text in the server's language; but the server says which function speaks. */
static void hear_notice(void *ctx, const PGresult *notice)
{
    struct session *session = ctx;
    const char *function = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);
    if (function && strcmp(function, "SyncRepWaitForLSN") == 0) {
        session->unsure = true;
    }
}

static hf_status fail_silent(struct session *session)
{
    const struct postgres_engine *engine = session->engine;
    session->unanswered = true;
    return fail(HF_UNAVAILABLE, "cannot connect to %s: no answer in time", engine->place);
}

static hf_status dial(struct session *session, size_t host, struct deadline deadline)
{
    struct postgres_engine *engine = session->engine;
    struct address_settings settings;
    address_settings(&engine->address, host, engine->node_name.bytes, &settings);
    deadline = deadline_earlier(deadline, deadline_after_ms(engine->address.connect_ms));
    session->pg = PQconnectStartParams(settings.keywords, settings.values, 1);
    if (!session->pg) {
        return fail(HF_NOMEM, "no memory for a connection");
    }
    engine_add_session(engine, session); /* a child that is forked meanwhile has its socket, too */
    PQsetErrorVerbosity(session->pg, PQERRORS_VERBOSE); /* errors_connect wants codes */
    PQsetNoticeReceiver(session->pg, hear_notice, session);
    PostgresPollingStatusType want = PGRES_POLLING_WRITING;
    while (PQstatus(session->pg) != CONNECTION_BAD) {
        short events = want == PGRES_POLLING_READING ? POLLIN : POLLOUT;
        if (!session_wait(session, events, deadline)) {
            return fail_silent(session);
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
    session->deadline = deadline; /* of hello */
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
    const char *lock_timeout = session->kind == SESSION_WRITER ? WRITER_LOCK_TIMEOUT : "0";
    param_text(params, handler ? TEXT_ABSENT : text_of(lock_timeout));
    param_bool(params, !handler && !writes);
    param_text(params, handler ? TEXT_ABSENT : text_of("0"));
    param_bool(params, relaxed && session->kind == SESSION_WRITER);
    param_bool(params, !handler);
}

/* A server that does not answer in time is one that does not answer. */
static hf_status ask_hello(struct session *session, PGresult **ret_result)
{
    fill_hello(session);
    hf_status status = session_execute(session, POSTGRES_QUERY_HELLO, true, ret_result);
    return status == HF_TIMEOUT ? fail_silent(session) : status;
}

/* Functions and operators that others put into this schema could be called by our statements. */
static hf_status fail_path(const struct session *session, struct text schema)
{
    return fail(
        HF_DENIED,
        "%s is a transaction pooler, where search_path cannot be set for a session, and the "
        "one of role %s has schema %" TEXT_PRI ", in which other roles may create "
        "functions: ALTER ROLE %s SET search_path = pg_catalog, or connect to the server "
        "itself",
        session->engine->place, PQuser(session->pg), TEXT_ARG(schema), PQuser(session->pg));
}

/* Behind a pooler: the session is refused if its search_path leads to functions of others. */
static hf_status check_path(struct session *session)
{
    PGresult *result;
    session_params(session);
    hf_status status = session_execute(session, POSTGRES_QUERY_HELLO_PATH, true, &result);
    if (status) {
        return status == HF_TIMEOUT ? fail_silent(session) : status;
    }
    if (PQntuples(result) > 0) {
        status = fail_path(session, result_text(result, 0, 0));
    }
    PQclear(result);
    return status;
}

/* Greets the server with the parameters in hand. */
static hf_status greet(struct session *session)
{
    PGresult *result;
    hf_status status = ask_hello(session, &result);
    if (status) {
        return status;
    }
    session->facts = (result_bool(result, 0, 0) ? SESSION_POOLED : 0) |
                     (result_bool(result, 0, 2) ? SESSION_WEAK_COMMIT : 0);
    bool read_only = result_bool(result, 0, 1);
    PQclear(result);
    if (read_only) {
        return fail(HF_UNAVAILABLE, "%s is read-only (in recovery): connect to the primary",
                    session->engine->place);
    }
    bool checked = session_has(session, SESSION_POOLED) && session->kind != SESSION_HANDLER;
    return checked ? check_path(session) : HF_OK;
}

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
    params_init(&session->params);
    hf_status status = greet(session);
    params_release(&session->params);
    session->params = in_hand;
    return status;
}

static hf_status connect_host(struct session *session, size_t host, struct deadline deadline)
{
    struct deadline before = session->deadline;
    session_close(session);
    session->sqlstate[0] = '\0';
    session->unanswered = false;
    hf_status status = dial(session, host, deadline);
    if (!status) {
        status = hello(session);
    }
    if (!status && session->kind != SESSION_HANDLER && session->kind != SESSION_CHECKER) {
        status = era_join(session);
    }
    session->deadline = before;
    if (status) {
        session_close(session);
        return status;
    }
    session->facts |= SESSION_GREETED;
    session->number = atomic_fetch_add(&session->engine->connections, 1) + 1;
    return HF_OK;
}

/* ---- No session left ------------------------------------------------------------------------- */

int64_t session_refused_until_us(const struct postgres_engine *engine)
{
    return atomic_load(&engine->refused_until_us);
}

bool session_is_refused(const struct postgres_engine *engine)
{
    int64_t until_us = session_refused_until_us(engine);
    return until_us > 0 && clock_mono_us() < until_us;
}

static bool has_no_session(const struct session *session)
{
    return strcmp(session->sqlstate, "53300") == 0;
}

/* Begins the pause. The thread's message says what the server said. */
static void note_refusal(struct postgres_engine *engine)
{
    int64_t now_us = clock_mono_us();
    int64_t half_us = REFUSED_MS * INT64_C(500);
    int64_t until_us = now_us + half_us + (int64_t)(random_u64() % (uint64_t)half_us);
    int64_t before_us = atomic_exchange(&engine->refused_until_us, until_us);
    if (before_us == 0 || now_us - before_us > REFUSED_LOG_MS * INT64_C(1000)) {
        log_about(engine->log, HF_LOG_WARN, NULL, "%s; this process asks again every few seconds",
                  err_message());
    }
}

/* The pause lasts: the server is not asked. */
static hf_status fail_refused(struct session *session)
{
    snprintf(session->sqlstate, sizeof session->sqlstate, "53300");
    return fail(HF_UNAVAILABLE,
                "cannot connect to %s: a moment ago the server had no connection left (53300); "
                "this process asks again every few seconds: raise max_connections, or use fewer "
                "processes",
                session->engine->place);
}

/* ---- All hosts ------------------------------------------------------------------------------- */

/* Whether it may help to wait: the server is starting, or has no connection left, or, when it was
 * there before, is away. A store that is left waits for no server. */
static bool is_worth_waiting(const struct session *session, hf_status status)
{
    if (session_hurries(session)) {
        return false;
    }
    return strcmp(session->sqlstate, "57P03") == 0 || has_no_session(session) ||
           (atomic_load(&session->engine->opened) && status == HF_UNAVAILABLE);
}

static hf_status connect_any(struct session *session, struct deadline deadline, bool *ret_wait)
{
    struct postgres_engine *engine = session->engine;
    size_t count = engine->address.host_count;
    size_t first = atomic_load(&engine->host);
    hf_status status = HF_OK;
    bool full = false;
    if (session_is_refused(engine)) {
        status = fail_refused(session);
        *ret_wait = is_worth_waiting(session, status);
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        size_t host = (first + i) % count;
        status = connect_host(session, host, deadline);
        if (!status) {
            atomic_store(&engine->host, host);
            return HF_OK;
        }
        *ret_wait = *ret_wait || is_worth_waiting(session, status);
        full = full || has_no_session(session);
        if (status != HF_UNAVAILABLE || deadline_passed(deadline)) {
            break;
        }
    }
    if (full) {
        note_refusal(engine);
    }
    return status;
}

/* Between half and all of it, but not less than a refusal lasts, in short pieces: when the store is
 * left the pause ends. */
static void nap(const struct session *session, int64_t ms)
{
    int64_t us = ms * 500 + (int64_t)(random_u64() % (uint64_t)(ms * 500));
    int64_t refused_us = session_refused_until_us(session->engine) - clock_mono_us();
    us = refused_us > us ? refused_us : us;
    for (; us > 0 && !session_hurries(session); us -= NAP_US) {
        struct timespec time = {.tv_nsec = (us < NAP_US ? us : NAP_US) * 1000};
        nanosleep(&time, NULL);
    }
}

/* The server is away: tries until it is there, or the time is over. */
static hf_status connect_patiently(struct session *session, struct deadline deadline,
                                   hf_status status)
{
    bool wait = true;
    for (int64_t pause_ms = RETRY_FIRST_MS; status && wait; pause_ms *= 2) {
        int64_t left_ms = deadline_left_ms(deadline);
        pause_ms = pause_ms > RETRY_LAST_MS ? RETRY_LAST_MS : pause_ms;
        int64_t refused_us = session_refused_until_us(session->engine) - clock_mono_us();
        int64_t least_ms = refused_us > pause_ms * 1000 ? refused_us / 1000 : pause_ms;
        if (left_ms >= 0 && left_ms <= least_ms) {
            break;
        }
        nap(session, pause_ms);
        wait = false;
        status = connect_any(session, deadline, &wait);
    }
    return status;
}

hf_status session_connect(struct session *session, struct deadline deadline)
{
    if (session->pg && PQstatus(session->pg) == CONNECTION_OK) {
        return HF_OK;
    }
    bool wait = false;
    hf_status status = connect_any(session, deadline, &wait);
    if (!status || !wait) {
        return status;
    }
    atomic_fetch_add(&session->engine->dialing, 1);
    status = connect_patiently(session, deadline, status);
    atomic_fetch_sub(&session->engine->dialing, 1);
    return status;
}

hf_status session_connect_once(struct session *session, struct deadline deadline)
{
    bool wait = false;
    return connect_any(session, deadline, &wait);
}
