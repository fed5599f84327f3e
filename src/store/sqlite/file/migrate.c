/*
 * migrate.c - the schema and its steps, and the namespace. See migrate.h.
 *
 * sql/sqlite/tables/NNNN_name.sql are the steps; holdfast_meta says which was the last one that
 * this file went through. Each step and its number are one transaction, so a process that dies in
 * between leaves the file at the step before. Two processes at once are kept apart by the gate, and
 * by BEGIN IMMEDIATE from programs that do not know the gate; the second one looks again and finds
 * nothing to do. The last step is committed only if the schema is then the one that this program
 * makes. Each step stores beside its number from which program on the schema can be used
 * (store/schema/fit.h), and a file that is ahead of this program is used or refused by that; it is
 * never changed.
 *
 * A program that opens the file for work migrates it. One that opens it to look does not
 * (HF_OPEN_NOMIGRATE), and uses what is there.
 */
#include "store/sqlite/file/migrate.h"

#include <stdio.h>

#include "base/err.h"
#include "base/point.h"
#include "store/schema/migration_plan.h"
#include "store/sqlite/file/pool.h"
#include "store/sqlite/file/schema.h"
#include "store/sqlite/file/version.h"
#include "store/sqlite/verbs.h"

/* Whether the first row of a query without parameters is this word. */
static hf_status read_word(struct conn *conn, enum sqlite_query query, const char *word,
                           bool *ret_equal)
{
    sqlite3_stmt *stmt;
    hf_status status = conn_first(conn, query, &stmt);
    if (!status) {
        *ret_equal = stmt && text_equal(column_text(stmt, 0), text_of(word));
        conn_done(stmt);
    }
    return status;
}

static hf_status fail_bare(const struct sqlite_engine *engine)
{
    return fail(HF_NOTFOUND, "%s has no Holdfast tables; `holdfast migrate` makes them",
                engine->files.db);
}

/* HF_NOTFOUND if a file in which nothing may be made is empty or has no schema. */
static hf_status find_tables(struct sqlite_engine *engine, int64_t pages)
{
    int64_t exists = 0;
    if (pages == 0) {
        return fail(HF_NOTFOUND, "%s is empty; `holdfast migrate` makes its tables",
                    engine->files.db);
    }
    hf_status status = conn_number(&engine->writer, SQLITE_QUERY_SCHEMA_EXISTS, 0, &exists);
    return status || exists ? status : fail_bare(engine);
}

/* WAL mode, read back. A file without a page is ours from the start: it may shrink later. */
static hf_status migrate_journal(struct sqlite_engine *engine, hf_open_mode open_mode)
{
    struct conn *conn = &engine->writer;
    bool utf8 = false;
    bool wal = false;
    int64_t pages = 0;
    hf_status status = read_word(conn, SQLITE_QUERY_READ_ENCODING, "UTF-8", &utf8);
    if (!status && !utf8) {
        status = fail(HF_INVALID, "%s stores text as UTF-16; only UTF-8 databases can be used",
                      engine->files.db);
    }
    if (!status) {
        status = read_word(conn, SQLITE_QUERY_READ_JOURNAL_MODE, "wal", &wal);
    }
    if (status || wal) {
        return status;
    }
    status = conn_number(conn, SQLITE_QUERY_READ_PAGE_COUNT, 0, &pages);
    if (!status && !open_mode_creates(open_mode)) {
        status = find_tables(engine, pages); /* before an application's file is switched */
    }
    if (!status && pages == 0) {
        status = conn_exec(conn, SQLITE_QUERY_VACUUM_INCREMENTAL);
    }
    if (!status) {
        status = read_word(conn, SQLITE_QUERY_SET_WAL, "wal", &wal);
    }
    if (!status && !wal) {
        status = fail(HF_UNAVAILABLE, "%s cannot be switched to WAL mode", engine->files.db);
    }
    return status;
}

static hf_status check_schema(struct sqlite_engine *engine, hf_open_mode open_mode,
                              const struct fit_schema *schema)
{
    if (schema->number == 0 && !open_mode_creates(open_mode)) {
        return fail_bare(engine);
    }
    /* An older one is brought up to date, or only looked at. */
    return fit_check(&sqlite_program, schema, engine->files.db, true);
}

static bool is_to_change(hf_open_mode open_mode, const struct fit_schema *schema)
{
    return fit_is_older(&sqlite_program, schema) && open_mode != HF_OPEN_NOMIGRATE;
}

/* The oldest program that can work on what the first `steps` migrations make. */
static int64_t programs_from(int64_t steps)
{
    int64_t from = 1;
    for (int64_t i = 0; i < steps; i++) {
        from = sqlite_migrations[i].older_programs ? from : i + 1;
    }
    return from;
}

static hf_status put_number(struct conn *conn, const char *name, int64_t number)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)number);
    return schema_put(conn, name, text_of(digits));
}

/* What is stored beside the tables that a step has made. */
static hf_status record_step(struct conn *conn, const struct sqlite_migration *step)
{
    int64_t from = programs_from(step->version);
    hf_status status = put_number(conn, "schema_version", step->version);
    if (!status) {
        status = put_number(conn, "programs_from", from);
    }
    if (!status) {
        status = schema_put(conn, "schema_release", text_of(HF_VERSION));
    }
    return status ? status : schema_record(conn, step->version, from < step->version);
}

/* Runs the next step in its own transaction; ret_schema is where the file is afterwards. `own`: how
 * many steps this call has made, if they are all that ever was in the file; else -1. The last step
 * finds out whether the schema is what it should be, unless all are own. */
static hf_status migrate_step(struct sqlite_engine *engine, hf_open_mode open_mode,
                              struct deadline deadline, int64_t *own, struct fit_schema *ret_schema)
{
    struct conn *conn = &engine->writer;
    int64_t objects = 0;
    hf_status status = conn_begin_migration(conn, deadline);
    if (status) {
        return status;
    }
    status = version_read(conn, ret_schema);
    if (!status) {
        status = check_schema(engine, open_mode, ret_schema);
    }
    if (!status && ret_schema->number == 0) {
        status = conn_number(conn, SQLITE_QUERY_SCHEMA_COUNT, 0, &objects);
        *own = objects == 0 ? 0 : -1;
    }
    if (status || !is_to_change(open_mode, ret_schema)) {
        conn_rollback(conn);
        return status;
    }
    const struct sqlite_migration *step = &sqlite_migrations[ret_schema->number];
    if (sqlite3_exec(conn->db, step->sql, NULL, NULL, NULL) != SQLITE_OK) {
        status = conn_fail(conn, "migrate the schema");
        conn_rollback(conn);
        return fail(status, "step %d (%s) failed: %s", step->version, step->name, err_message());
    }
    HF_POINT("mid_migration");
    status = record_step(conn, step);
    *own = *own == step->version - 1 ? step->version : -1;
    if (!status && step->version == SQLITE_MIGRATION_COUNT && *own < 0) {
        status = schema_expect(conn, engine->files.db);
    }
    if (status) {
        conn_rollback(conn);
        return status;
    }
    status = conn_commit(conn);
    ret_schema->number = step->version;
    return status;
}

hf_status migrate_schema(struct sqlite_engine *engine, hf_open_mode open_mode,
                         struct deadline deadline)
{
    struct fit_schema schema = {0};
    engine->writer.deadline = deadline;
    hf_status status = migrate_journal(engine, open_mode);
    if (!status) {
        status = version_read(&engine->writer, &schema);
    }
    if (!status) {
        status = check_schema(engine, open_mode, &schema);
    }
    for (int64_t own = -1; !status && is_to_change(open_mode, &schema);) {
        status = migrate_step(engine, open_mode, deadline, &own, &schema);
    }
    return status;
}

hf_status migrate_namespace(struct sqlite_engine *engine, hf_open_mode open_mode, int64_t now_us,
                            struct deadline deadline)
{
    struct conn *conn = &engine->writer;
    bool created = false;
    if (!engine->namespace_name[0]) {
        return HF_OK; /* the database as a whole */
    }
    hf_status status = sqlite_namespace_open(conn, text_of(engine->namespace_name), false, now_us,
                                             &engine->namespace_id, &created);
    if (status != HF_NOTFOUND) {
        return status;
    }
    if (!open_mode_creates(open_mode)) {
        return fail(HF_NOTFOUND, "%s has no namespace %s", engine->files.db,
                    engine->namespace_name);
    }
    status = conn_begin(conn, deadline);
    if (status) {
        return status;
    }
    status = sqlite_namespace_open(conn, text_of(engine->namespace_name), true, now_us,
                                   &engine->namespace_id, &created);
    if (status) {
        conn_rollback(conn);
        return status;
    }
    return conn_commit(conn);
}

/* Reads the schema's number; one that is to be changed must be as it was made. */
static hf_status look_at(struct sqlite_engine *engine, struct fit_schema *ret_schema)
{
    struct conn *conn;
    hf_status status = pool_take(engine, &conn);
    if (status) {
        return status;
    }
    status = version_read(conn, ret_schema);
    if (!status && fit_is_older(&sqlite_program, ret_schema)) {
        status = schema_expect(conn, engine->files.db);
    }
    pool_give(engine, conn);
    return status;
}

hf_status migrate_plan(struct sqlite_engine *engine, hf_migration_fn found, void *ctx)
{
    struct migration_plan plan;
    struct fit_schema schema = {0};
    hf_status status = engine ? look_at(engine, &schema) : HF_OK;
    if (!status) {
        status =
            migration_plan_init(&plan, "sqlite", &sqlite_program, &schema, SQLITE_PROGRAMS_FROM);
    }
    if (status) {
        return status;
    }
    for (int i = 0; i < SQLITE_MIGRATION_COUNT; i++) {
        const struct sqlite_migration *step = &sqlite_migrations[i];
        migration_plan_step(&plan, step->version, step->name, step->older_programs != 0);
    }
    migration_plan_tell(&plan, found, ctx);
    return HF_OK;
}

bool migrate_is_done(struct sqlite_engine *engine, hf_open_mode open_mode, struct deadline deadline)
{
    struct conn *conn = &engine->writer;
    bool wal = false;
    struct fit_schema schema;
    conn->deadline = deadline;
    return read_word(conn, SQLITE_QUERY_READ_JOURNAL_MODE, "wal", &wal) == HF_OK && wal &&
           version_read(conn, &schema) == HF_OK && schema.number > 0 &&
           check_schema(engine, open_mode, &schema) == HF_OK && !is_to_change(open_mode, &schema) &&
           migrate_namespace(engine, HF_OPEN_EXISTING, 0, deadline) == HF_OK;
}
