/*
 * conn.h - one SQLite connection: its statements, and SQLite's errors as ours.
 *
 * Statements are named by the enum that scripts/embed-sql makes of sql/sqlite/queries. Each is
 * prepared on first use and kept:
 *
 *     sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_HEAD);
 *     if (!stmt) {
 *         return conn_error(conn);
 *     }
 *     bind_int(stmt, 1, namespace_id);
 *     bool found;
 *     hf_status status = conn_row(conn, stmt, &found);
 *     if (status == HF_OK && found) {
 *         head = sqlite3_column_int64(stmt, 0);
 *         conn_done(stmt);
 *     }
 *
 * Between conn_statement and the end (DONE, an error, or conn_done) a statement is in use: do not
 * ask for the same query again meanwhile.
 *
 * A connection never waits longer than its deadline for another program's lock, and a raw "database
 * is locked" never leaves this file: it is HF_TIMEOUT.
 */
#ifndef HF_STORE_SQLITE_FILE_CONN_H
#define HF_STORE_SQLITE_FILE_CONN_H

#include <assert.h>
#include <holdfast.h>
#include <sqlite3.h>
#include <stdbool.h>

#include "base/text/text.h"
#include "base/time/deadline.h"
#include "sqlite_sql.h"
#include "store/sqlite/file/bell.h"

enum conn_kind {
    CONN_WRITER,  /* read-write, used by one thread at a time */
    CONN_READER,  /* read-only, used by one thread at a time */
    CONN_HANDLER, /* read-write with SQLite's own mutex: handlers and tx_abort share it */
    CONN_FOREIGN  /* the application's; only its statements are ours */
};

struct conn {
    sqlite3 *db; /* NULL: closed */
    enum conn_kind kind;
    struct deadline deadline; /* until when to wait for others' locks */
    struct deadline limit;    /* of readers: until when a call may run */
    int64_t step_ms;          /* of readers: for how long one step of a statement may run */
    int64_t step_begun_us;    /* when the present step was first asked; 0: not yet (monotonic) */
    sqlite3_stmt *cached[SQLITE_QUERY_COUNT];
    hf_status failed;      /* why conn_statement gave NULL */
    bool full_sync;        /* synchronous is FULL now, else NORMAL */
    enum ring ring;        /* what the present transaction makes known; set by changes, cleared by
                         conn_begin */
    int wal_pages;         /* of the WAL after our last commit */
    bool refused;          /* the last statement that failed does not fit the schema, or is wrong */
    bool checked;          /* the schema lets this program work */
    unsigned checked_data; /* the data version of the pager when that was seen (version.h) */

    /* The newest position, known from the first append of a write transaction on (append.h).
     * apply.c keeps it beyond the commit; it is forgotten when another connection has changed the
     * file (version.c). */
    int64_t head;
    bool head_known;
    bool typed; /* the namespace has an index on types, which is told of new events */
};

/* Opens the file. `create`: a missing file is made (writers only). */
hf_status conn_open(struct conn *conn, const char *path, enum conn_kind kind, bool create,
                    struct deadline deadline);
/* Wraps the application's own connection. */
void conn_wrap(struct conn *conn, sqlite3 *db, struct deadline deadline);
/* Makes the functions known that our statements call; conn_open has done so. */
hf_status conn_functions(struct conn *conn);
/* Finalises the statements and closes (does not close a foreign connection). NULL db is allowed. */
void conn_close(struct conn *conn);

/* The prepared statement, reset and with all parameters NULL. NULL: failed, see conn_error. */
sqlite3_stmt *conn_statement(struct conn *conn, enum sqlite_query query);
/* After conn_statement gave NULL: the status; the thread's message is set. */
hf_status conn_error(struct conn *conn);
/* Steps to the end and resets. Rows are ignored. */
hf_status conn_run(struct conn *conn, sqlite3_stmt *stmt);
/* One step. At the end and on failure ret_row is false and the statement is reset. */
hf_status conn_row(struct conn *conn, sqlite3_stmt *stmt, bool *ret_row);
/* Resets a statement before its end. NULL is allowed. */
void conn_done(sqlite3_stmt *stmt);
/* Runs a query without parameters and rows, unprepared (pragmas act while they are prepared). */
hf_status conn_exec(struct conn *conn, enum sqlite_query query);
/* Steps a query without parameters to its first row; NULL: it has none. The caller resets it. */
hf_status conn_first(struct conn *conn, enum sqlite_query query, sqlite3_stmt **ret_stmt);
/* The number in the first row of a query without parameters; `otherwise` if there is no row. */
hf_status conn_number(struct conn *conn, enum sqlite_query query, int64_t otherwise,
                      int64_t *ret_number);
/* How many rows the last finished statement changed. */
int64_t conn_changes(struct conn *conn);

/* SQLite's last error on this connection as a status with a sentence: "cannot <doing>: ...". */
hf_status conn_fail(struct conn *conn, const char *doing);
/* The same for a result code at hand; the last error of the connection gives the words. */
hf_status conn_fail_code(struct conn *conn, int code, const char *doing);

/* BEGIN IMMEDIATE; waits for foreign writers up to the deadline. HF_SCHEMA: this program may not
 * work on the schema that the file has now. */
hf_status conn_begin(struct conn *conn, struct deadline deadline);
/* The same whatever the schema is: to migrate it. */
hf_status conn_begin_migration(struct conn *conn, struct deadline deadline);
/* Anything but HF_OK: nothing was committed, except HF_UNKNOWN. The transaction is over. */
hf_status conn_commit(struct conn *conn);
void conn_rollback(struct conn *conn);
/* A savepoint around one change. Not nested. */
hf_status conn_save(struct conn *conn);
hf_status conn_release(struct conn *conn);
/* Undoes what happened since conn_save. HF_OK, or the transaction as a whole is gone. */
hf_status conn_undo(struct conn *conn);
/* FULL or NORMAL, outside a transaction; does nothing if it is so already. */
hf_status conn_set_sync(struct conn *conn, bool full);

/* Parameters count from 1, columns from 0. Bound memory must live until the statement is reset. */
static inline void bind_int(sqlite3_stmt *stmt, int at, int64_t value)
{
    int code = sqlite3_bind_int64(stmt, at, value);
    assert(code == SQLITE_OK);
    (void)code;
}

static inline void bind_null(sqlite3_stmt *stmt, int at)
{
    int code = sqlite3_bind_null(stmt, at);
    assert(code == SQLITE_OK);
    (void)code;
}

/* Absent is NULL. */
static inline void bind_text(sqlite3_stmt *stmt, int at, struct text text)
{
    int code = sqlite3_bind_text64(stmt, at, text.bytes, text.length, SQLITE_STATIC, SQLITE_UTF8);
    assert(code == SQLITE_OK);
    (void)code;
}

/* NULL bytes are NULL. */
static inline void bind_blob(sqlite3_stmt *stmt, int at, const void *bytes, size_t length)
{
    int code = sqlite3_bind_blob64(stmt, at, bytes, length, SQLITE_STATIC);
    assert(code == SQLITE_OK);
    (void)code;
}

static inline bool column_is_null(sqlite3_stmt *stmt, int at)
{
    return sqlite3_column_type(stmt, at) == SQLITE_NULL;
}

/* NUL-terminated; absent if NULL; valid until the next step or reset. Asking the value twice costs
 * less than asking the statement twice. */
static inline struct text column_text(sqlite3_stmt *stmt, int at)
{
    sqlite3_value *value = sqlite3_column_value(stmt, at);
    const char *bytes = (const char *)sqlite3_value_text(value);
    return bytes ? (struct text){bytes, (size_t)sqlite3_value_bytes(value)} : TEXT_ABSENT;
}

/* `otherwise` if NULL. */
static inline int64_t column_int(sqlite3_stmt *stmt, int at, int64_t otherwise)
{
    sqlite3_value *value = sqlite3_column_value(stmt, at);
    return sqlite3_value_type(value) == SQLITE_NULL ? otherwise : sqlite3_value_int64(value);
}

/* Copies a blob of exactly `length` bytes; false if it is NULL or of another length. */
bool column_blob(sqlite3_stmt *stmt, int at, void *out, size_t length);

#endif
