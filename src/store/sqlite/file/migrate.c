/*
 * migrate.c - the schema and its steps, and the namespace. See migrate.h.
 *
 * sql/sqlite/tables/NNNN_name.sql are the steps; holdfast_meta says which was the last one that
 * this file went through. Each step and its number are one transaction, so a process that dies in
 * between leaves the file at the step before. Two processes at once are kept apart by the gate, and
 * by BEGIN IMMEDIATE from programs that do not know the gate; the second one looks again and finds
 * nothing to do. The last step is committed only if the schema is then the one that this program
 * makes. A file that is ahead of this program is refused: it may mean something that we do not see.
 */
#include "store/sqlite/file/migrate.h"

#include <stdio.h>

#include "base/err.h"
#include "base/point.h"
#include "store/sqlite/file/schema.h"
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
    if (!status && pages == 0 && open_mode != HF_OPEN_CREATE) {
        return fail(HF_NOTFOUND, "%s is empty", engine->files.db);
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

/* 0: there is no schema yet. */
static hf_status read_version(struct conn *conn, int64_t *ret_version)
{
    int64_t exists = 0;
    hf_status status = conn_number(conn, SQLITE_QUERY_SCHEMA_EXISTS, 0, &exists);
    if (status || !exists) {
        *ret_version = 0;
        return status;
    }
    return conn_number(conn, SQLITE_QUERY_SCHEMA_VERSION, 0, ret_version);
}

static hf_status check_version(struct sqlite_engine *engine, hf_open_mode open_mode,
                               int64_t version)
{
    if (version > SQLITE_MIGRATION_COUNT) {
        return fail(HF_SCHEMA,
                    "%s has schema version %lld; this program knows version %d: use a "
                    "newer one",
                    engine->files.db, (long long)version, SQLITE_MIGRATION_COUNT);
    }
    if (version == 0 && open_mode != HF_OPEN_CREATE) {
        return fail(HF_NOTFOUND, "%s has no Holdfast tables", engine->files.db);
    }
    if (version < SQLITE_MIGRATION_COUNT && open_mode == HF_OPEN_NOMIGRATE) {
        return fail(HF_SCHEMA,
                    "%s has schema version %lld and this program needs %d: migrate it "
                    "first",
                    engine->files.db, (long long)version, SQLITE_MIGRATION_COUNT);
    }
    return HF_OK;
}

/* Runs the next step in its own transaction; ret_version is where the file is afterwards. */
static hf_status migrate_step(struct sqlite_engine *engine, hf_open_mode open_mode,
                              struct deadline deadline, int64_t *ret_version)
{
    struct conn *conn = &engine->writer;
    int64_t version = 0;
    hf_status status = conn_begin(conn, deadline);
    if (status) {
        return status;
    }
    status = read_version(conn, &version);
    if (!status) {
        status = check_version(engine, open_mode, version);
    }
    if (status || version == SQLITE_MIGRATION_COUNT) {
        conn_rollback(conn);
        *ret_version = version;
        return status;
    }
    const struct sqlite_migration *step = &sqlite_migrations[version];
    if (sqlite3_exec(conn->db, step->sql, NULL, NULL, NULL) != SQLITE_OK) {
        status = conn_fail(conn, "migrate the schema");
        conn_rollback(conn);
        return fail(status, "step %d (%s) failed: %s", step->version, step->name, err_message());
    }
    HF_POINT("mid_migration");
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_SCHEMA_VERSION_PUT);
    char number[16];
    snprintf(number, sizeof number, "%d", step->version);
    if (stmt) {
        bind_text(stmt, 1, text_of(number));
    }
    status = stmt ? conn_run(conn, stmt) : conn_error(conn);
    if (!status && step->version == SQLITE_MIGRATION_COUNT) {
        status = schema_expect(conn, engine->files.db);
    }
    if (status) {
        conn_rollback(conn);
        return status;
    }
    status = conn_commit(conn);
    *ret_version = step->version;
    return status;
}

hf_status migrate_schema(struct sqlite_engine *engine, hf_open_mode open_mode,
                         struct deadline deadline)
{
    int64_t version = 0;
    engine->writer.deadline = deadline;
    hf_status status = migrate_journal(engine, open_mode);
    if (!status) {
        status = read_version(&engine->writer, &version);
    }
    if (!status) {
        status = check_version(engine, open_mode, version);
    }
    while (!status && version < SQLITE_MIGRATION_COUNT) {
        status = migrate_step(engine, open_mode, deadline, &version);
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
    if (open_mode != HF_OPEN_CREATE) {
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

bool migrate_is_done(struct sqlite_engine *engine, struct deadline deadline)
{
    struct conn *conn = &engine->writer;
    bool wal = false;
    int64_t version = 0;
    conn->deadline = deadline;
    return read_word(conn, SQLITE_QUERY_READ_JOURNAL_MODE, "wal", &wal) == HF_OK && wal &&
           read_version(conn, &version) == HF_OK && version == SQLITE_MIGRATION_COUNT &&
           migrate_namespace(engine, HF_OPEN_EXISTING, 0, deadline) == HF_OK;
}
