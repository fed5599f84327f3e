/*
 * conn.c - one SQLite connection: its statements, and SQLite's errors as ours. See conn.h.
 *
 * Settings that every connection gets
 *   - No automatic checkpoints, also not when the last connection closes: SQLite before 3.51.3 can
 *     corrupt a WAL database when one connection checkpoints while another restarts the log. The
 *     applier checkpoints under the gate instead.
 *   - Defensive, no trusted schema: the file belongs to the application too, and whatever it put
 *     into its schema must not run with our rights.
 *   - A busy handler with a deadline instead of busy_timeout, because each call has its own.
 *   - Readers: a progress handler that ends statements at the limit that the call has set.
 *
 * What a failed COMMIT means
 *   SQLite writes the frames of a transaction, the commit frame last, then syncs, then publishes
 *   them in the shared index. If a write failed the commit frame cannot be whole, so nothing was
 *   committed. If the sync failed, or anything after it, the commit frame may reach the disk and
 *   the next recovery may find it: that is HF_UNKNOWN. The kernel reports a failed sync once and
 *   forgets, so a second sync proves nothing; a caller that gets HF_UNKNOWN closes the connection
 *   and recovers (apply.c).
 */
#include "store/sqlite/file/conn.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/point.h"
#include "base/time/clock.h"
#include "store/sqlite/file/files.h"
#include "store/sqlite/file/version.h"

#define LIMIT_STEPS 20000 /* of SQLite's machine, between two looks at the clock */
#define BUSY_SLEEP_MIN_US 100
#define BUSY_SLEEP_MAX_US 2000

/* ---- Errors ---------------------------------------------------------------------------------- */

static hf_status status_of_errno(int system_errno, hf_status otherwise)
{
    switch (system_errno) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return HF_NOSPACE;
    case EACCES:
    case EPERM:
    case EROFS:
        return HF_DENIED;
    case ENOMEM:
        return HF_NOMEM;
    default:
        return otherwise;
    }
}

/* What a result code means to us. system_errno: sqlite3_system_errno(), or 0. */
static hf_status status_of(int code, int system_errno)
{
    if (code == SQLITE_IOERR_NOMEM) {
        return HF_NOMEM;
    }
    switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return HF_OK;
    case SQLITE_FULL:
        return HF_NOSPACE;
    case SQLITE_IOERR:
        return status_of_errno(system_errno, HF_IO);
    case SQLITE_CANTOPEN:
        return status_of_errno(system_errno, system_errno == ENOENT ? HF_NOTFOUND : HF_UNAVAILABLE);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
    case SQLITE_INTERRUPT:
    case SQLITE_ABORT:
        return HF_TIMEOUT;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return HF_CORRUPT;
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return HF_DENIED;
    case SQLITE_NOMEM:
        return HF_NOMEM;
    case SQLITE_TOOBIG:
        return HF_INVALID;
    case SQLITE_AUTH:
    case SQLITE_MISUSE:
        return HF_MISUSE;
    case SQLITE_CONSTRAINT:
        return HF_CONFLICT;
    default:
        return HF_IO;
    }
}

hf_status conn_fail_code(struct conn *conn, int code, const char *doing)
{
    int system_errno = conn->db ? sqlite3_system_errno(conn->db) : 0;
    hf_status status = status_of(code, system_errno);
    const char *words = conn->db ? sqlite3_errmsg(conn->db) : sqlite3_errstr(code);
    if (!status) { /* an error that SQLite does not own up to */
        return fail(HF_IO, "cannot %s: SQLite answered %d", doing, code);
    }
    if ((code & 0xff) == SQLITE_BUSY || (code & 0xff) == SQLITE_LOCKED) {
        return fail(status,
                    "cannot %s: another program kept the database locked until the "
                    "deadline",
                    doing);
    }
    if ((code & 0xff) == SQLITE_INTERRUPT && conn->kind == CONN_READER) {
        return fail(status, "cannot %s: it took longer than the call may", doing);
    }
    if ((code & 0xff) == SQLITE_INTERRUPT || (code & 0xff) == SQLITE_ABORT) {
        return fail(status, "cannot %s: the transaction was aborted at its time limit", doing);
    }
    if (status == HF_NOSPACE) {
        return fail(status, "cannot %s: the disk is full", doing);
    }
    bool io = (code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN;
    if (io && system_errno) {
        char reason[128];
        return fail(status, "cannot %s: %s (%s, SQLite %d)", doing, words,
                    strerror_r(system_errno, reason, sizeof reason), code);
    }
    return fail(status, "cannot %s: %s (SQLite %d)", doing, words, code);
}

hf_status conn_fail(struct conn *conn, const char *doing)
{
    int code = conn->db ? sqlite3_extended_errcode(conn->db) : SQLITE_NOMEM;
    return conn_fail_code(conn, code, doing);
}

hf_status conn_error(struct conn *conn)
{
    assert(conn->failed);
    return conn->failed;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int conn_busy(void *ctx, int count)
{
    struct conn *conn = ctx;
    if (deadline_passed(conn->deadline)) {
        return 0;
    }
    int64_t us = BUSY_SLEEP_MIN_US + (int64_t)count * 50;
    if (us > BUSY_SLEEP_MAX_US) {
        us = BUSY_SLEEP_MAX_US;
    }
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
    return 1;
}

/* Non-zero interrupts the statement: a damaged file can make one that never ends. SQLite asks after
 * every LIMIT_STEPS instructions, so a row that is quickly found costs no look at the clock. */
static int conn_limit(void *ctx)
{
    struct conn *conn = ctx;
    int64_t now_us = clock_mono_us();
    if (conn->step_begun_us == 0) {
        conn->step_begun_us = now_us;
    }
    return deadline_passed(conn->limit) || (now_us - conn->step_begun_us) / 1000 >= conn->step_ms;
}

static int conn_wal_hook(void *ctx, sqlite3 *db, const char *name, int pages)
{
    (void)db;
    (void)name;
    struct conn *conn = ctx;
    conn->wal_pages = pages;
    return SQLITE_OK;
}

static struct text value_text(sqlite3_value *value)
{
    const char *bytes = (const char *)sqlite3_value_text(value);
    return bytes ? (struct text){bytes, (size_t)sqlite3_value_bytes(value)} : text_of("");
}

/* holdfast_kind(subscription, type, reason, error) */
static void conn_kind(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    sqlite3_result_int64(context, hash_kind(value_text(values[0]), value_text(values[1]),
                                            value_text(values[2]), value_text(values[3])));
}

hf_status conn_functions(struct conn *conn)
{
    int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY;
    return sqlite3_create_function_v2(conn->db, "holdfast_kind", 4, flags, NULL, conn_kind, NULL,
                                      NULL, NULL) == SQLITE_OK
               ? HF_OK
               : conn_fail(conn, "configure the connection");
}

static hf_status conn_settings(struct conn *conn)
{
    sqlite3 *db = conn->db;
    sqlite3_extended_result_codes(db, 1);
    sqlite3_busy_handler(db, conn_busy, conn);
    if (conn->kind == CONN_READER) {
        sqlite3_progress_handler(db, LIMIT_STEPS, conn_limit, conn);
    }
    sqlite3_wal_autocheckpoint(db, 0);
    sqlite3_wal_hook(db, conn_wal_hook, conn);
    if (sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL) != SQLITE_OK ||
        sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL) != SQLITE_OK ||
        sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL) != SQLITE_OK) {
        return conn_fail(conn, "configure the connection");
    }
    hf_status status = conn_functions(conn);
    if (!status) {
        status = conn_exec(conn, SQLITE_QUERY_SET_CONNECTION);
    }
    if (!status) {
        status = conn_exec(conn, conn->kind == CONN_READER ? SQLITE_QUERY_SET_READER
                                                           : SQLITE_QUERY_SET_WRITER);
    }
    return status;
}

/* Why SQLite could not open the file. */
static hf_status conn_not_opened(struct conn *conn, const char *path, bool create)
{
    hf_status status = conn_fail(conn, "open the database");
    if (status == HF_NOTFOUND && create) {
        return fail(HF_UNAVAILABLE, "cannot create %s: %s", path, files_unwritable(path));
    }
    return status == HF_NOTFOUND ? fail(HF_NOTFOUND, "there is no database %s", path)
                                 : fail(status, "%s: %s", path, err_message());
}

hf_status conn_open(struct conn *conn, const char *path, enum conn_kind kind, bool create,
                    struct deadline deadline)
{
    memset(conn, 0, sizeof *conn);
    conn->kind = kind;
    conn->deadline = deadline;
    conn->step_ms = INT64_MAX;
    conn->limit = DEADLINE_NEVER;
    hf_status status = files_check_beside(path);
    if (status) {
        return status;
    }
    int flags = kind == CONN_READER ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
    flags |= create ? SQLITE_OPEN_CREATE : 0;
    flags |= kind == CONN_HANDLER ? SQLITE_OPEN_FULLMUTEX : SQLITE_OPEN_NOMUTEX;
    int code = sqlite3_open_v2(path, &conn->db, flags, NULL);
    if (code != SQLITE_OK) {
        status = conn_not_opened(conn, path, create);
    } else if (kind != CONN_READER && sqlite3_db_readonly(conn->db, "main") == 1) {
        status = fail(HF_DENIED, "%s cannot be written: %s", path, files_unwritable(path));
    } else {
        status = conn_settings(conn);
        int cause = sqlite3_errcode(conn->db) & 0xff;
        if (status && cause == SQLITE_NOTADB) {
            status = fail(HF_CORRUPT, "%s is not a SQLite database", path);
        } else if (status && cause == SQLITE_CORRUPT) {
            status = fail(HF_CORRUPT, "%s is damaged and cannot be opened: restore a backup", path);
        }
    }
    if (status) {
        sqlite3_close(conn->db);
        conn->db = NULL;
    }
    return status;
}

void conn_wrap(struct conn *conn, sqlite3 *db, struct deadline deadline)
{
    memset(conn, 0, sizeof *conn);
    conn->kind = CONN_FOREIGN;
    conn->db = db;
    conn->deadline = deadline;
}

void conn_close(struct conn *conn)
{
    if (!conn->db) {
        return;
    }
    for (int i = 0; i < SQLITE_QUERY_COUNT; i++) {
        sqlite3_finalize(conn->cached[i]);
        conn->cached[i] = NULL;
    }
    if (conn->kind != CONN_FOREIGN) {
        /* _v2: a statement that a handler left behind must not keep the others from closing. */
        sqlite3_close_v2(conn->db);
    }
    conn->db = NULL;
}

/* ---- Statements ------------------------------------------------------------------------------ */

/* The failure of a statement: it may need what a schema of another version does not have. */
static hf_status conn_fail_statement(struct conn *conn, int code, const char *doing)
{
    char words[256];
    char message[HF_ERR_BYTES_MAX];
    snprintf(words, sizeof words, "%s", sqlite3_errmsg(conn->db));
    hf_status status = conn_fail_code(conn, code, doing);
    conn->refused = code == SQLITE_ERROR;
    if (!conn->refused) {
        return status;
    }
    snprintf(message, sizeof message, "%s", err_message());
    return version_explains(conn, words) ? HF_SCHEMA : err_set(status, message);
}

sqlite3_stmt *conn_statement(struct conn *conn, enum sqlite_query query)
{
    sqlite3_stmt *stmt = conn->cached[query];
    if (stmt) {
        assert(!sqlite3_stmt_busy(stmt));
        sqlite3_clear_bindings(stmt);
        return stmt;
    }
    int code = sqlite3_prepare_v3(conn->db, sqlite_queries[query].sql, -1,
                                  SQLITE_PREPARE_PERSISTENT, &stmt, NULL);
    if (code != SQLITE_OK) {
        char doing[96];
        snprintf(doing, sizeof doing, "prepare %s", sqlite_queries[query].name);
        conn->failed = conn_fail_statement(conn, code, doing);
        return NULL;
    }
    conn->cached[query] = stmt;
    return stmt;
}

/* The failure of a step, told with the query's name; resets the statement. The code is asked for
 * because the application's connections may not answer extended ones. */
static hf_status conn_step_failed(struct conn *conn, sqlite3_stmt *stmt)
{
    int code = sqlite3_extended_errcode(conn->db);
    const char *name = "a statement";
    for (int i = 0; i < SQLITE_QUERY_COUNT; i++) {
        if (conn->cached[i] == stmt) {
            name = sqlite_queries[i].name;
        }
    }
    char doing[96];
    snprintf(doing, sizeof doing, "run %s", name);
    hf_status status = conn_fail_statement(conn, code, doing);
    sqlite3_reset(stmt);
    return status;
}

hf_status conn_run(struct conn *conn, sqlite3_stmt *stmt)
{
    int code;
    conn->step_begun_us = 0;
    do {
        code = sqlite3_step(stmt);
    } while (code == SQLITE_ROW);
    if (code != SQLITE_DONE) {
        return conn_step_failed(conn, stmt);
    }
    sqlite3_reset(stmt);
    return HF_OK;
}

hf_status conn_row(struct conn *conn, sqlite3_stmt *stmt, bool *ret_row)
{
    conn->step_begun_us = 0;
    int code = sqlite3_step(stmt);
    *ret_row = code == SQLITE_ROW;
    if (code == SQLITE_ROW) {
        return HF_OK;
    }
    if (code != SQLITE_DONE) {
        return conn_step_failed(conn, stmt);
    }
    sqlite3_reset(stmt);
    return HF_OK;
}

void conn_done(sqlite3_stmt *stmt)
{
    sqlite3_reset(stmt);
}

hf_status conn_exec(struct conn *conn, enum sqlite_query query)
{
    int code = sqlite3_exec(conn->db, sqlite_queries[query].sql, NULL, NULL, NULL);
    if (code != SQLITE_OK) {
        char doing[96];
        snprintf(doing, sizeof doing, "run %s", sqlite_queries[query].name);
        return conn_fail_code(conn, code, doing);
    }
    return HF_OK;
}

hf_status conn_first(struct conn *conn, enum sqlite_query query, sqlite3_stmt **ret_stmt)
{
    sqlite3_stmt *stmt = conn_statement(conn, query);
    if (!stmt) {
        return conn_error(conn);
    }
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (!status) {
        *ret_stmt = row ? stmt : NULL;
    }
    return status;
}

hf_status conn_number(struct conn *conn, enum sqlite_query query, int64_t otherwise,
                      int64_t *ret_number)
{
    sqlite3_stmt *stmt;
    hf_status status = conn_first(conn, query, &stmt);
    if (!status) {
        *ret_number = stmt ? sqlite3_column_int64(stmt, 0) : otherwise;
        conn_done(stmt);
    }
    return status;
}

int64_t conn_changes(struct conn *conn)
{
    return sqlite3_changes64(conn->db);
}

bool column_blob(sqlite3_stmt *stmt, int at, void *out, size_t length)
{
    const void *bytes = sqlite3_column_blob(stmt, at);
    if (!bytes || (size_t)sqlite3_column_bytes(stmt, at) != length) {
        return false;
    }
    memcpy(out, bytes, length);
    return true;
}

/* ---- Transactions ---------------------------------------------------------------------------- */

static hf_status conn_run_query(struct conn *conn, enum sqlite_query query)
{
    sqlite3_stmt *stmt = conn_statement(conn, query);
    return stmt ? conn_run(conn, stmt) : conn_error(conn);
}

hf_status conn_begin_migration(struct conn *conn, struct deadline deadline)
{
    conn->deadline = deadline;
    conn->ring = RING_NONE;
    return conn_run_query(conn, SQLITE_QUERY_BEGIN);
}

hf_status conn_begin(struct conn *conn, struct deadline deadline)
{
    hf_status status = conn_begin_migration(conn, deadline);
    if (status) {
        return status;
    }
    status = version_check(conn);
    if (status) {
        char message[HF_ERR_BYTES_MAX];
        snprintf(message, sizeof message, "%s", err_message());
        conn_rollback(conn);
        err_set(status, message);
    }
    return status;
}

/* Whether a COMMIT that failed this way has certainly not happened. */
static bool commit_is_undone(int code)
{
    switch (code) {
    case SQLITE_IOERR_WRITE:
    case SQLITE_FULL:
        return true;
    default:
        return (code & 0xff) == SQLITE_CONSTRAINT || (code & 0xff) == SQLITE_BUSY ||
               (code & 0xff) == SQLITE_AUTH;
    }
}

hf_status conn_commit(struct conn *conn)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_COMMIT);
    if (!stmt) {
        conn_rollback(conn);
        return conn_error(conn);
    }
    bool checked = version_is_checked(conn);
    int code = sqlite3_step(stmt);
    if (code == SQLITE_DONE) {
        sqlite3_reset(stmt);
        if (checked) {
            version_keep_check(conn);
        }
        conn->head_known = false;
        return HF_OK;
    }
    code = sqlite3_extended_errcode(conn->db);
    hf_status status = conn_step_failed(conn, stmt);
    if (code == SQLITE_BUSY && !sqlite3_get_autocommit(conn->db)) {
        status = fail(HF_MISUSE, "statements that write are still running on the connection: it "
                                 "was rolled back; reset them before the commit");
    } else if (sqlite3_get_autocommit(conn->db) && !commit_is_undone(code)) {
        status =
            fail(HF_UNKNOWN, "the commit failed midway and may have happened: %s", err_message());
    }
    conn_rollback(conn);
    return status;
}

void conn_rollback(struct conn *conn)
{
    conn->head_known = false;
    conn->ring = RING_NONE;
    if (sqlite3_get_autocommit(conn->db)) {
        return;
    }
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_ROLLBACK);
    if (stmt) {
        sqlite3_step(stmt);
        sqlite3_reset(stmt);
    } else {
        sqlite3_exec(conn->db, sqlite_queries[SQLITE_QUERY_ROLLBACK].sql, NULL, NULL, NULL);
    }
}

hf_status conn_save(struct conn *conn)
{
    return conn_run_query(conn, SQLITE_QUERY_SAVE);
}

hf_status conn_release(struct conn *conn)
{
    return conn_run_query(conn, SQLITE_QUERY_RELEASE);
}

hf_status conn_undo(struct conn *conn)
{
    if (sqlite3_get_autocommit(conn->db)) {
        return fail(HF_IO, "SQLite rolled the whole transaction back");
    }
    hf_status status = conn_run_query(conn, SQLITE_QUERY_UNDO);
    return status ? status : conn_release(conn);
}

hf_status conn_set_sync(struct conn *conn, bool full)
{
    if (conn->full_sync == full) {
        return HF_OK;
    }
    hf_status status = conn_exec(conn, full ? SQLITE_QUERY_SYNC_FULL : SQLITE_QUERY_SYNC_NORMAL);
    if (!status) {
        conn->full_sync = full;
    }
    return status;
}
