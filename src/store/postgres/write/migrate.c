/*
 * migrate.c - the schema and its steps. See sql/postgres.
 *
 * A schema is tables and functions. Tables are made by numbered steps (sql/postgres/tables), each
 * of which runs once. Functions (sql/postgres/functions) are applied as a whole whenever their
 * digest differs from the one that is stored: a function is changed where it stands. All steps that
 * are missing, the functions, and what is recorded of them are one transaction (script.h), under a
 * lock that lets one process at a time do this: the others wait, then find it done. PostgreSQL's
 * DDL is transactional, so a process that dies midway leaves what was there before, and the next
 * one begins again.
 *
 * Which functions are the newer ones, if the tables are of the same version? Those of the newer
 * release. A program leaves functions of a newer release as they are and works with them, and
 * replaces those of an older one. If both are of the same release (two builds of a version that is
 * being worked on), the program that opens last and owns the schema applies its own.
 *
 * What is in a schema runs with the rights of the role that uses it. So the schema is made and
 * changed only by its owner, only if no other role may create anything in it and none has, and no
 * superuser uses one that belongs to a role that is none: schema_fault of
 * sql/postgres/queries/core.sql.
 *
 * What was made is recorded, and a schema that is not what was recorded is not changed further: the
 * steps would build on something that is not there.
 *
 * A schema that is newer than this program is left alone: it may have rules that this program would
 * break.
 */
#include "store/postgres/write/migrate.h"

#include <stdio.h>
#include <time.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/text/buf.h"
#include "store/postgres/wire/row.h"
#include "store/postgres/write/script.h"

#define SQL_BYTES_MAX 1048576
#define PASSING_PAUSE_MS 20
#define RIVALS_MAX 3 /* others who make the schema at the same time, one after the other */

/* The number in the only row. */
static hf_status read_number(struct session *session, enum postgres_query query,
                             int64_t *ret_number)
{
    PGresult *result;
    session_params(session);
    hf_status status = session_query(session, query, &result);
    if (!status) {
        *ret_number = PQntuples(result) > 0 ? result_int8(result, 0, 0, 0) : 0;
        PQclear(result);
    }
    return status;
}

/* Fails with the sentence that the statement answers, if it answers one. */
static hf_status check_fault(struct session *session, enum postgres_query query)
{
    PGresult *result;
    hf_status status = session_query(session, query, &result);
    if (status) {
        return status;
    }
    if (PQntuples(result) > 0) {
        struct text fault = result_text(result, 0, 0);
        status = fail(HF_DENIED, "%s: %" TEXT_PRI, session->engine->place, TEXT_ARG(fault));
    }
    PQclear(result);
    return status;
}

/* Whether what lies in the schema may be run by this role (schema_use), and, if it is to be
 * changed, whether no other role can have put anything in our way (schema_fault). `exists`: our
 * tables are there. */
static hf_status check_owner(struct session *session, bool changes, bool exists)
{
    session_params(session);
    hf_status status = check_fault(session, POSTGRES_QUERY_SCHEMA_USE);
    if (!status && changes) {
        param_bool(session_params(session), !exists);
        status = check_fault(session, POSTGRES_QUERY_SCHEMA_FAULT);
    }
    return status;
}

/* Whose functions the schema has; the values are those of schema_state. */
enum functions_age {
    FUNCTIONS_CURRENT = 0, /* this program's, or those of a newer release */
    FUNCTIONS_OTHER = 1,   /* others of the same release */
    FUNCTIONS_OLDER = 2,   /* those of an older release */
};

struct schema_state {
    int64_t version; /* 0: there is no schema yet */
    enum functions_age functions;
    bool owned; /* by this role */
    char release[32];
};

/* Nothing of the schema is read, not even its version, before it is known whose it is. */
static hf_status read_state(struct session *session, bool changes, struct schema_state *ret_state)
{
    int64_t exists = 0;
    *ret_state = (struct schema_state){.functions = FUNCTIONS_OLDER};
    hf_status status = read_number(session, POSTGRES_QUERY_SCHEMA_EXISTS, &exists);
    if (!status) {
        status = check_owner(session, changes, exists != 0);
    }
    if (status || !exists) {
        return status;
    }
    struct params *params = session_params(session);
    param_text(params, text_of(POSTGRES_FUNCTIONS_DIGEST));
    param_text(params, text_of(program_release));
    PGresult *result;
    status = session_query(session, POSTGRES_QUERY_SCHEMA_STATE, &result);
    if (!status) {
        struct text release = result_text(result, 0, 2);
        ret_state->version = result_int8(result, 0, 0, 0);
        ret_state->functions = (enum functions_age)result_int8(result, 0, 1, FUNCTIONS_OLDER);
        ret_state->owned = result_bool(result, 0, 3);
        snprintf(ret_state->release, sizeof ret_state->release, "%" TEXT_PRI, TEXT_ARG(release));
        PQclear(result);
    }
    return status;
}

static hf_status check_state(struct postgres_engine *engine, hf_open_mode open_mode,
                             const struct schema_state *state)
{
    if (state->version > POSTGRES_MIGRATION_COUNT) {
        return fail(HF_SCHEMA,
                    "%s has schema version %lld; this program knows version %d: use a "
                    "newer one",
                    engine->place, (long long)state->version, POSTGRES_MIGRATION_COUNT);
    }
    if (state->version == 0 && open_mode != HF_OPEN_CREATE) {
        return fail(HF_NOTFOUND, "%s has no schema holdfast", engine->place);
    }
    if (open_mode != HF_OPEN_NOMIGRATE) {
        return HF_OK;
    }
    if (state->version < POSTGRES_MIGRATION_COUNT) {
        return fail(HF_SCHEMA,
                    "%s has schema version %lld and this program needs %d: migrate it "
                    "first",
                    engine->place, (long long)state->version, POSTGRES_MIGRATION_COUNT);
    }
    if (state->functions == FUNCTIONS_OLDER) {
        return fail(HF_SCHEMA,
                    "%s has the functions of Holdfast %s and this program needs those of %s: "
                    "migrate it first",
                    engine->place, state->release[0] ? state->release : "before 0.1.0",
                    program_release);
    }
    return HF_OK;
}

/* Functions of the same release are good enough for a role that may not change them. */
static bool is_to_change(hf_open_mode open_mode, const struct schema_state *state)
{
    return state->version < POSTGRES_MIGRATION_COUNT || state->functions == FUNCTIONS_OLDER ||
           (state->functions == FUNCTIONS_OTHER && state->owned && open_mode != HF_OPEN_NOMIGRATE);
}

/* How the transaction reads and what it does not wait for longer than the deadline. */
static hf_status migrate_settings(struct session *session, struct deadline deadline)
{
    char wait[32];
    int64_t left_ms = deadline_left_ms(deadline);
    snprintf(wait, sizeof wait, "%lld", left_ms < 0 ? 0LL : (long long)(left_ms + 1));
    hf_status status =
        session_script(session, postgres_queries[POSTGRES_QUERY_INSTALL_SETTINGS].sql);
    if (!status) {
        param_text(session_params(session), text_of(wait));
        status = session_run(session, POSTGRES_QUERY_SCHEMA_PATIENCE);
    }
    return status;
}

static hf_status run_script(struct session *session, int64_t version)
{
    struct buf script;
    buf_init(&script, SCRIPT_BYTES_MAX);
    script_body(&script);
    const char *text = buf_terminate(&script);
    hf_status status = buf_status(&script);
    if (!status) {
        status = session_script(session, text);
        if (status) {
            status = fail(status, "cannot migrate the schema from version %lld to %d: %s",
                          (long long)version, POSTGRES_MIGRATION_COUNT, err_message());
        }
    }
    buf_release(&script);
    return status;
}

/* Inside the transaction: what is missing. Another process may have done it while we waited. */
static hf_status run_steps(struct postgres_engine *engine, hf_open_mode open_mode,
                           struct deadline deadline)
{
    struct session *session = &engine->writer;
    struct schema_state state;
    int64_t exists = 0;
    hf_status status = migrate_settings(session, deadline);
    if (!status) {
        status = read_number(session, POSTGRES_QUERY_SCHEMA_EXISTS, &exists);
    }
    if (!status) {
        status = check_owner(session, true, exists != 0); /* the lock needs a right */
    }
    if (!status) {
        session_params(session);
        status = session_run(session, POSTGRES_QUERY_SCHEMA_LOCK);
    }
    if (!status) {
        status = read_state(session, true, &state);
    }
    if (!status) {
        status = check_state(engine, open_mode, &state);
    }
    if (!status && is_to_change(open_mode, &state)) {
        status = run_script(session, state.version);
        HF_POINT("mid_migration");
    }
    return status;
}

static hf_status migrate_once(struct postgres_engine *engine, hf_open_mode open_mode,
                              struct deadline deadline)
{
    struct session *session = &engine->writer;
    hf_status status = session_begin(session);
    if (status) {
        return status;
    }
    status = run_steps(engine, open_mode, deadline);
    if (!status) {
        return session_commit(session);
    }
    char code[sizeof session->sqlstate];
    char message[HF_ERR_BYTES_MAX];
    memcpy(code, session->sqlstate, sizeof code);
    snprintf(message, sizeof message, "%s", err_message());
    session_rollback(session);
    memcpy(session->sqlstate, code, sizeof code);
    return err_set(status, message);
}

/* Whether another process has made the schema, or a part of it, while we did: look again. */
static bool is_made_by_another(const char *sqlstate)
{
    static const char *const codes[] = {"42P06", "42P07", "42710", "42723", "23505", "XX000"};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (strcmp(sqlstate, codes[i]) == 0) {
            return true;
        }
    }
    return false;
}

hf_status postgres_migrate(struct postgres_engine *engine, hf_open_mode open_mode,
                           struct deadline deadline)
{
    struct session *session = &engine->writer;
    struct schema_state state;
    int rivals = 0;
    session->deadline = deadline;
    hf_status status = read_state(session, false, &state);
    if (!status) {
        status = check_state(engine, open_mode, &state);
    }
    if (status || !is_to_change(open_mode, &state)) {
        return status;
    }
    for (;;) {
        session->sqlstate[0] = '\0';
        status = migrate_once(engine, open_mode, deadline);
        bool again = postgres_is_passing(session->sqlstate) ||
                     (is_made_by_another(session->sqlstate) && ++rivals < RIVALS_MAX);
        if (!status || !again || deadline_passed(deadline)) {
            return status;
        }
        nanosleep(&(struct timespec){.tv_nsec = PASSING_PAUSE_MS * 1000000L}, NULL);
        status = session_connect(session, deadline);
        if (status) {
            return status;
        }
    }
}

/* ---- The namespace --------------------------------------------------------------------------- */

/* Fills the namespace's number into the statements that ask for it. */
static hf_status make_texts(struct postgres_engine *engine)
{
    for (int i = 0; i < POSTGRES_QUERY_COUNT; i++) {
        static const char mark[] = "{namespace}";
        const char *from = postgres_queries[i].sql;
        const char *at = strstr(from, mark);
        if (!at) {
            continue;
        }
        struct buf text;
        buf_init(&text, SQL_BYTES_MAX);
        for (; at; at = strstr(from, mark)) {
            buf_append(&text, from, (size_t)(at - from));
            buf_printf(&text, "%d", (int)engine->namespace_id);
            from = at + sizeof mark - 1;
        }
        buf_append(&text, from, strlen(from));
        engine->sql[i] = buf_detach(&text, NULL);
        buf_release(&text);
        if (!engine->sql[i]) {
            return fail(HF_NOMEM, "no memory for statements");
        }
    }
    return HF_OK;
}

static hf_status put_namespace(struct postgres_engine *engine, hf_open_mode open_mode)
{
    struct session *session = &engine->writer;
    struct params *params = session_params(session);
    param_text(params, text_of(engine->namespace_name));
    param_bool(params, open_mode == HF_OPEN_CREATE);
    PGresult *result;
    hf_status status = session_query(session, POSTGRES_QUERY_NAMESPACE_PUT, &result);
    if (status) {
        return status;
    }
    status = (hf_status)result_int8(result, 0, 0, HF_CORRUPT);
    if (status) {
        struct text message = result_text(result, 0, 1);
        status = fail(status, "%s: %" TEXT_PRI, engine->place, TEXT_ARG(message));
    } else {
        engine->namespace_id = (int32_t)result_int8(result, 0, 2, 0);
        engine->gapless = result_bool(result, 0, 3);
    }
    PQclear(result);
    return status;
}

/* Making a namespace waits for others who do the same, longer than the writer waits for locks. */
hf_status postgres_namespace(struct postgres_engine *engine, hf_open_mode open_mode,
                             struct deadline deadline)
{
    struct session *session = &engine->writer;
    hf_status status;
    session->deadline = deadline;
    if (!engine->namespace_name[0]) {
        return make_texts(engine);
    }
    for (;;) {
        session->sqlstate[0] = '\0';
        status = session_connect(session, deadline);
        if (!status) {
            status = put_namespace(engine, open_mode);
        }
        if (!status || !postgres_is_passing(session->sqlstate) || deadline_passed(deadline)) {
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = PASSING_PAUSE_MS * 1000000L}, NULL);
    }
    return status ? status : make_texts(engine);
}
