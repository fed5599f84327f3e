/*
 * migrate.c - the schema and its steps. See sql/postgres.
 *
 * All steps that are missing, and the new version, are one transaction, under a lock that lets one
 * process at a time do this: the others wait, then find it done. PostgreSQL's DDL is
 * transactional, so a process that dies midway leaves what was there before, and the next one
 * begins again.
 *
 * How the database is set must not matter to what is made: the transaction has its own search_path
 * and its own way to read literals, and its functions name theirs.
 *
 * What is in a schema runs with the rights of the role that uses it. So the schema is made and
 * changed only by its owner, only if no other role may create anything in it and none has, and no
 * superuser uses one that belongs to a role that is none: schema_fault of
 * sql/postgres/queries_core.sql.
 *
 * What the steps have made is recorded, and a schema that is not what was recorded is not migrated:
 * the steps would build on something that is not there.
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
    if (status == HF_OK) {
        *ret_number = PQntuples(result) > 0 ? result_int8(result, 0, 0, 0) : 0;
        PQclear(result);
    }
    return status;
}

/* Whether what lies in the schema may be run by this role, and, if it is to be changed, whether
 * nobody else can have put anything in our way: schema_fault says when not. `exists`: our tables
 * are there. */
static hf_status check_owner(struct session *session, bool changes, bool exists)
{
    struct params *params = session_params(session);
    param_bool(params, changes);
    param_bool(params, !exists);
    PGresult *result;
    hf_status status = session_query(session, POSTGRES_QUERY_SCHEMA_FAULT, &result);
    if (status != HF_OK) {
        return status;
    }
    if (PQntuples(result) > 0) {
        struct text fault = result_text(result, 0, 0);
        status = fail(HF_DENIED, "%s: %" TEXT_PRI, session->engine->place, TEXT_ARG(fault));
    }
    PQclear(result);
    return status;
}

/* 0: there is no schema yet. Nothing of the schema is read, not even its version, before it is
 * known whose it is. */
static hf_status read_version(struct session *session, bool changes, int64_t *ret_version)
{
    int64_t exists = 0;
    hf_status status = read_number(session, POSTGRES_QUERY_SCHEMA_EXISTS, &exists);
    if (status == HF_OK) {
        status = check_owner(session, changes, exists != 0);
    }
    if (status != HF_OK || !exists) {
        *ret_version = 0;
        return status;
    }
    return read_number(session, POSTGRES_QUERY_SCHEMA_VERSION, ret_version);
}

static hf_status check_version(struct postgres_engine *engine, hf_open_mode open_mode,
                               int64_t version)
{
    if (version > POSTGRES_MIGRATION_COUNT) {
        return fail(HF_SCHEMA,
                    "%s has schema version %lld; this program knows version %d: use a "
                    "newer one",
                    engine->place, (long long)version, POSTGRES_MIGRATION_COUNT);
    }
    if (version == 0 && open_mode != HF_OPEN_CREATE) {
        return fail(HF_NOTFOUND, "%s has no schema holdfast", engine->place);
    }
    if (version < POSTGRES_MIGRATION_COUNT && open_mode == HF_OPEN_NOMIGRATE) {
        return fail(HF_SCHEMA,
                    "%s has schema version %lld and this program needs %d: migrate it "
                    "first",
                    engine->place, (long long)version, POSTGRES_MIGRATION_COUNT);
    }
    return HF_OK;
}

/* Locks may be waited for until the deadline; to the end of the transaction. */
static hf_status migrate_settings(struct session *session, struct deadline deadline)
{
    char wait[32];
    int64_t left_ms = deadline_left_ms(deadline);
    snprintf(wait, sizeof wait, "%lld", left_ms < 0 ? 0LL : (long long)(left_ms + 1));
    param_text(session_params(session), text_of(wait));
    return session_run(session, POSTGRES_QUERY_SCHEMA_SETTINGS);
}

/* The schema as it is: all objects with digests of their definitions, as one text. */
static hf_status read_objects(struct session *session, PGresult **ret_result)
{
    session_params(session);
    return session_query(session, POSTGRES_QUERY_SCHEMA_OBJECTS, ret_result);
}

/* Records what the steps have made, for `verify` and for the next migration. */
static hf_status record_objects(struct session *session)
{
    PGresult *result;
    hf_status status = read_objects(session, &result);
    if (status == HF_OK) {
        param_text(session_params(session), result_text(result, 0, 0));
        status = session_run(session, POSTGRES_QUERY_SCHEMA_OBJECTS_PUT);
        PQclear(result);
    }
    return status;
}

/* A schema that is not what was recorded is not changed further. */
static hf_status compare_objects(struct session *session)
{
    PGresult *objects;
    PGresult *result;
    hf_status status = read_objects(session, &objects);
    if (status != HF_OK) {
        return status;
    }
    struct params *params = session_params(session);
    param_int8(params, 1);
    param_text(params, result_text(objects, 0, 0));
    status = session_query(session, POSTGRES_QUERY_VERIFY_SCHEMA, &result);
    PQclear(objects);
    if (status != HF_OK) {
        return status;
    }
    if (PQntuples(result) > 0) {
        struct text fault = result_text(result, 0, 0);
        status = fail(HF_SCHEMA,
                      "%s: %" TEXT_PRI ". Make it as it is in a new database of the version that "
                      "made it, and remove what does not belong to Holdfast; `holdfast verify` of "
                      "that version lists all",
                      session->engine->place, TEXT_ARG(fault));
    }
    PQclear(result);
    return status;
}

/* Inside the transaction: the steps that are missing. */
static hf_status run_steps(struct postgres_engine *engine, hf_open_mode open_mode,
                           struct deadline deadline, int64_t *ret_version)
{
    struct session *session = &engine->writer;
    int64_t version = 0;
    hf_status status = migrate_settings(session, deadline);
    if (status == HF_OK) {
        session_params(session);
        status = session_run(session, POSTGRES_QUERY_SCHEMA_LOCK);
    }
    if (status == HF_OK) {
        status = read_version(session, true, &version);
    }
    if (status == HF_OK) {
        status = check_version(engine, open_mode, version);
    }
    int64_t before = version;
    if (status == HF_OK && before > 0 && before < POSTGRES_MIGRATION_COUNT) {
        status = compare_objects(session);
    }
    for (; status == HF_OK && version < POSTGRES_MIGRATION_COUNT; version++) {
        HF_POINT("mid_migration");
        status = session_script(session, postgres_migrations[version].sql);
        if (status != HF_OK) {
            return fail(status, "cannot migrate the schema to version %lld: %s",
                        (long long)version + 1, err_message());
        }
    }
    if (status == HF_OK && version > before) {
        param_int8(session_params(session), version);
        status = session_run(session, POSTGRES_QUERY_SCHEMA_VERSION_PUT);
        if (status == HF_OK) {
            status = record_objects(session);
        }
    }
    *ret_version = version;
    return status;
}

static hf_status migrate_once(struct postgres_engine *engine, hf_open_mode open_mode,
                              struct deadline deadline, int64_t *ret_version)
{
    struct session *session = &engine->writer;
    hf_status status = session_begin(session);
    if (status != HF_OK) {
        return status;
    }
    status = run_steps(engine, open_mode, deadline, ret_version);
    if (status == HF_OK) {
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

/* Whether somebody else has made the schema, or a part of it, while we did: look again. */
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
    int64_t version = 0;
    int rivals = 0;
    session->deadline = deadline;
    hf_status status = read_version(session, false, &version);
    if (status == HF_OK) {
        status = check_version(engine, open_mode, version);
    }
    while (status == HF_OK && version < POSTGRES_MIGRATION_COUNT) {
        session->sqlstate[0] = '\0';
        status = migrate_once(engine, open_mode, deadline, &version);
        bool again = postgres_is_passing(session->sqlstate) ||
                     (is_made_by_another(session->sqlstate) && ++rivals < RIVALS_MAX);
        if (status != HF_OK && again && !deadline_passed(deadline)) {
            nanosleep(&(struct timespec){.tv_nsec = PASSING_PAUSE_MS * 1000000L}, NULL);
            status = session_connect(session, deadline);
            version = 0; /* whatever was reached is rolled back: look again */
        }
    }
    return status;
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
    if (status != HF_OK) {
        return status;
    }
    status = (hf_status)result_int8(result, 0, 0, HF_CORRUPT);
    if (status != HF_OK) {
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
        if (status == HF_OK) {
            status = put_namespace(engine, open_mode);
        }
        if (status == HF_OK || !postgres_is_passing(session->sqlstate) ||
            deadline_passed(deadline)) {
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = PASSING_PAUSE_MS * 1000000L}, NULL);
    }
    return status == HF_OK ? make_texts(engine) : status;
}
