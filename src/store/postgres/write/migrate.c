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
 * Only who asks for it changes a schema that exists: HF_OPEN_MIGRATE, `holdfast migrate`, the
 * script. Every other program uses what it finds, tables and functions, or is refused by the rules
 * of store/schema/fit.h.
 *
 * Which functions are the newer ones, if the tables are of the same version? Those of the newer
 * release. Migrating leaves functions of a newer release as they are, and replaces those of an
 * older one. If both are of the same release (two builds of a version that is being worked on), who
 * migrates last has its own there.
 *
 * What is in a schema runs with the rights of the role that uses it. So the schema is made and
 * changed only by its owner, only if no other role may create anything in it and none has, and no
 * superuser uses one that belongs to a role that is none: schema_fault of
 * sql/postgres/queries/core.sql.
 *
 * What was made is recorded, and a schema that is not what was recorded is not changed further: the
 * steps would build on something that is not there.
 *
 * A schema that is newer than this program is never changed by it, functions included.
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
#include "store/schema/migration_plan.h"

#define SQL_BYTES_MAX 1048576
#define PASSING_PAUSE_MS 20
#define RIVALS_MAX 3 /* others who make the schema at the same time, one after the other */

enum look_column { LOOK_PRIVATE, LOOK_OURS, LOOK_META };

/* What a first look at the catalogue shows. */
struct first_look {
    bool exists; /* our tables are there */
    bool ours;   /* the schemas belong to this role, and no build before their time has made them:
                    then schema_use has nothing against them */
};

static hf_status look(struct session *session, struct first_look *ret_look)
{
    PGresult *result;
    session_params(session);
    hf_status status = session_query_once(session, POSTGRES_QUERY_SCHEMA_LOOK, &result);
    if (status) {
        return status;
    }
    *ret_look = (struct first_look){.ours = true};
    for (int row = 0; row < PQntuples(result); row++) {
        bool is_private = result_bool(result, row, LOOK_PRIVATE);
        bool has_meta = result_bool(result, row, LOOK_META);
        ret_look->exists = ret_look->exists || (is_private && has_meta);
        ret_look->ours =
            ret_look->ours && result_bool(result, row, LOOK_OURS) && (is_private || !has_meta);
    }
    PQclear(result);
    return HF_OK;
}

/* Fails with the sentence that the statement answers, if it answers one. */
static hf_status check_fault(struct session *session, enum postgres_query query)
{
    PGresult *result;
    hf_status status = session_query_once(session, query, &result);
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
 * changed, whether no other role can have put anything in our way (schema_fault). */
static hf_status check_owner(struct session *session, bool changes, const struct first_look *seen)
{
    hf_status status = HF_OK;
    if (!seen->ours) {
        session_params(session);
        status = check_fault(session, POSTGRES_QUERY_SCHEMA_USE);
    }
    if (!status && changes) {
        param_bool(session_params(session), !seen->exists);
        status = check_fault(session, POSTGRES_QUERY_SCHEMA_FAULT);
    }
    return status;
}

const struct fit_program postgres_program = {POSTGRES_MIGRATION_COUNT, POSTGRES_WORKS_FROM};

struct schema_state {
    struct fit_schema schema;
    hf_functions functions;
    char release[FIT_RELEASE_BYTES]; /* of the functions */
};

static void keep_text(char out[FIT_RELEASE_BYTES], struct text text)
{
    snprintf(out, FIT_RELEASE_BYTES, "%" TEXT_PRI, TEXT_ARG(text));
}

/* Nothing of the schema is read, not even its version, before it is known whose it is. */
static hf_status read_state(struct session *session, bool changes, struct schema_state *ret_state)
{
    struct first_look seen = {0};
    *ret_state = (struct schema_state){.functions = HF_FUNCTIONS_OLDER};
    hf_status status = look(session, &seen);
    if (!status) {
        status = check_owner(session, changes, &seen);
    }
    if (status || !seen.exists) {
        return status;
    }
    struct params *params = session_params(session);
    param_text(params, text_of(POSTGRES_FUNCTIONS_DIGEST));
    param_text(params, text_of(program_release));
    PGresult *result;
    status = session_query_once(session, POSTGRES_QUERY_SCHEMA_STATE, &result);
    if (!status) {
        ret_state->schema.number = result_int8(result, 0, 0, 0);
        ret_state->functions = (hf_functions)result_int8(result, 0, 1, HF_FUNCTIONS_OLDER);
        keep_text(ret_state->release, result_text(result, 0, 2));
        ret_state->schema.programs_from = result_int8(result, 0, 3, 0);
        keep_text(ret_state->schema.release, result_text(result, 0, 4));
        PQclear(result);
    }
    return status;
}

/* Whether this program's functions are to take the place of those that are there. */
static bool are_functions_to_change(const struct schema_state *state)
{
    return state->schema.number < POSTGRES_MIGRATION_COUNT ||
           (state->schema.number == POSTGRES_MIGRATION_COUNT &&
            (state->functions == HF_FUNCTIONS_OTHER || state->functions == HF_FUNCTIONS_OLDER));
}

static bool is_to_change(hf_open_mode open_mode, const struct schema_state *state)
{
    if (state->schema.number == 0) {
        return open_mode_creates(open_mode);
    }
    return open_mode == HF_OPEN_MIGRATE && are_functions_to_change(state);
}

/* A schema that will be migrated may be as old as it is. */
static hf_status check_state(struct postgres_engine *engine, hf_open_mode open_mode,
                             const struct schema_state *state)
{
    if (state->schema.number == 0) {
        return open_mode_creates(open_mode)
                   ? HF_OK
                   : fail(HF_NOTFOUND,
                          "%s has no tables of Holdfast; `holdfast migrate` makes them",
                          engine->place);
    }
    bool looks = open_mode == HF_OPEN_NOMIGRATE || open_mode == HF_OPEN_MIGRATE;
    return fit_check(&postgres_program, &state->schema, engine->place, looks);
}

static hf_functions functions_of(const struct schema_state *state)
{
    return state->schema.number == 0 ? HF_FUNCTIONS_NONE : state->functions;
}

/* What the engine remembers of the schema that it found or made. */
static void note_state(struct postgres_engine *engine, const struct schema_state *state,
                       bool changed)
{
    engine->schema = state->schema;
    engine->functions = functions_of(state);
    if (changed) {
        engine->schema = (struct fit_schema){POSTGRES_MIGRATION_COUNT, POSTGRES_PROGRAMS_FROM, ""};
        keep_text(engine->schema.release, text_of(program_release));
        engine->functions = HF_FUNCTIONS_SAME;
    }
    atomic_store(&engine->schema_number, engine->schema.number);
    atomic_store(&engine->programs_from, engine->schema.programs_from);
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
        status = session_run(session, POSTGRES_QUERY_SCHEMA_DEADLINE);
    }
    return status;
}

/* Runs what `make` has put together. */
static hf_status run_text(struct session *session, void (*make)(struct buf *out))
{
    struct buf script;
    buf_init(&script, SCRIPT_BYTES_MAX);
    make(&script);
    const char *text = buf_terminate(&script);
    hf_status status = buf_status(&script);
    if (!status) {
        status = session_script(session, text);
    }
    buf_release(&script);
    return status;
}

static hf_status run_script(struct session *session, int64_t version)
{
    hf_status status = run_text(session, script_body);
    return status ? fail(status, "cannot migrate the schema from version %lld to %d: %s",
                         (long long)version, POSTGRES_MIGRATION_COUNT, err_message())
                  : HF_OK;
}

/* Inside the transaction: what is missing. Another process may have done it while we waited. */
static hf_status run_steps(struct postgres_engine *engine, hf_open_mode open_mode,
                           struct deadline deadline)
{
    struct session *session = &engine->writer;
    struct schema_state state;
    struct first_look seen = {0};
    hf_status status = migrate_settings(session, deadline);
    if (!status) {
        status = look(session, &seen);
    }
    if (!status) {
        status = check_owner(session, true, &seen); /* the lock needs a right */
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
    bool changed = !status && is_to_change(open_mode, &state);
    if (changed) {
        status = run_script(session, state.schema.number);
        HF_POINT("mid_migration");
    }
    if (!status) {
        note_state(engine, &state, changed);
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
    if (status) {
        return status;
    }
    note_state(engine, &state, false);
    if (!is_to_change(open_mode, &state)) {
        return HF_OK;
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

/* ---- The plan -------------------------------------------------------------------------------- */

/* Whether a migration would be refused: its checks, in a transaction that is rolled back. */
static hf_status check_change(struct session *session)
{
    hf_status status = session_begin(session);
    if (status) {
        return status;
    }
    status = session_script(session, postgres_queries[POSTGRES_QUERY_INSTALL_SETTINGS].sql);
    if (!status) {
        status = run_text(session, script_checks);
    }
    char message[HF_ERR_BYTES_MAX];
    snprintf(message, sizeof message, "%s", err_message());
    session_rollback(session);
    return status ? fail(status, "%s: %.900s", session->engine->place, message) : HF_OK;
}

hf_status postgres_migrate_plan(struct postgres_engine *engine, struct deadline deadline,
                                hf_migration_fn found, void *ctx)
{
    struct session *session = &engine->writer;
    struct schema_state state;
    struct migration_plan plan;
    session->deadline = deadline;
    hf_status status = read_state(session, false, &state);
    if (!status) {
        status = check_state(engine, HF_OPEN_MIGRATE, &state);
    }
    if (!status && is_to_change(HF_OPEN_MIGRATE, &state)) {
        status = check_change(session);
    }
    if (!status) {
        status = migration_plan_init(&plan, "postgres", &postgres_program, &state.schema,
                                     POSTGRES_PROGRAMS_FROM);
    }
    if (status) {
        return status;
    }
    for (int i = 0; i < POSTGRES_MIGRATION_COUNT; i++) {
        const struct postgres_migration *step = &postgres_migrations[i];
        migration_plan_step(&plan, step->version, step->name, step->older_programs != 0);
    }
    plan.told.functions = functions_of(&state);
    plan.told.functions_applied = are_functions_to_change(&state);
    migration_plan_tell(&plan, found, ctx);
    return HF_OK;
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

/* Notes the namespace, if it can be used as it is. */
static hf_status find_namespace(struct session *session, bool *ret_found)
{
    struct postgres_engine *engine = session->engine;
    param_text(session_params(session), text_of(engine->namespace_name));
    PGresult *result;
    hf_status status = session_query_once(session, POSTGRES_QUERY_NAMESPACE_OPEN, &result);
    if (status) {
        return status;
    }
    *ret_found = PQntuples(result) > 0;
    if (*ret_found) {
        engine->namespace_id = (int32_t)result_int8(result, 0, 0, 0);
        engine->gapless = result_bool(result, 0, 1);
    }
    PQclear(result);
    return HF_OK;
}

static hf_status put_namespace(struct session *session, hf_open_mode open_mode)
{
    struct postgres_engine *engine = session->engine;
    struct params *params = session_params(session);
    param_text(params, text_of(engine->namespace_name));
    param_bool(params, open_mode_creates(open_mode));
    PGresult *result;
    hf_status status = session_query_once(session, POSTGRES_QUERY_NAMESPACE_PUT, &result);
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
        bool found = false;
        status = session_connect(session, deadline);
        if (!status) {
            status = find_namespace(session, &found);
        }
        if (!status && !found) {
            status = put_namespace(session, open_mode);
        }
        if (!status || !postgres_is_passing(session->sqlstate) || deadline_passed(deadline)) {
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = PASSING_PAUSE_MS * 1000000L}, NULL);
    }
    return status ? status : make_texts(engine);
}

struct fit_schema postgres_schema(const struct postgres_engine *engine)
{
    struct fit_schema schema = {
        .number = atomic_load(&engine->schema_number),
        .programs_from = atomic_load(&engine->programs_from),
    };
    if (schema.number == engine->schema.number) {
        memcpy(schema.release, engine->schema.release, sizeof schema.release);
    }
    return schema;
}

hf_status postgres_check_work(const struct postgres_engine *engine)
{
    struct fit_schema schema = postgres_schema(engine);
    return fit_check(&postgres_program, &schema, engine->place, false);
}
