/*
 * join.c - publishing in the application's own transaction, on its own connection.
 *
 * The application's connection is not ours to configure, but four things must hold while it writes:
 * it is the same file, in WAL mode; it does not checkpoint by itself; it syncs as the store was
 * opened for; and it writes under the gate. So a transaction that publishes begins and ends here.
 *
 * Lock order is the reason for that: a connection that had begun by itself would hold SQLite's lock
 * and wait for the gate, while a writer of ours holds the gate and waits for SQLite's lock.
 *
 * Statements live as long as the transaction, so that the application can close its connection
 * afterwards. If the application ends the transaction itself, the events are stored or gone with
 * it; we notice at the next call, give the gate and say so.
 */
#include <time.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "store/sqlite/core.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/write/append.h"

#define JOIN_BUSY_SLEEP_US 500
#define JOIN_CHECKPOINT_COMMITS 100 /* our own connection sees nothing of the WAL's growth */
#define SYNC_FULL 2
#define SYNC_NORMAL 1

struct join {
    struct conn conn;
};

/* Whether the connection may take part at all. */
static hf_status join_check(struct sqlite_engine *engine, sqlite3 *db)
{
    if (!db) {
        return fail(HF_INVALID, "the connection is NULL");
    }
    if (gate_held_by_caller(&engine->gate)) {
        return fail(HF_MISUSE, "this thread is inside a transaction of this store already");
    }
    if (!sqlite3_get_autocommit(db)) {
        return fail(HF_MISUSE, "the connection is inside a transaction: begin it with "
                               "hf_sqlite_begin");
    }
    if (sqlite3_txn_state(db, "main") != SQLITE_TXN_NONE) {
        return fail(HF_MISUSE, "a statement is still running on the connection: reset it first");
    }
    const char *path = sqlite3_db_filename(db, "main");
    struct file_identity found;
    if (!path || !path[0] || !file_identify(path, &found) ||
        found.inode != engine->files.db_identity.inode ||
        found.device != engine->files.db_identity.device) {
        return fail(HF_MISUSE, "the connection is open on %s; the store is %s",
                    path && path[0] ? path : "no file", engine->files.db);
    }
    if (sqlite3_db_readonly(db, "main") != 0) {
        return fail(HF_MISUSE, "the connection is read-only");
    }
    return HF_OK;
}

/* The first column of the first row, as a number (0 for text that is none). */
static hf_status join_ask(struct conn *conn, enum sqlite_query query, struct text word,
                          int64_t *ret_number, bool *ret_equal)
{
    sqlite3_stmt *stmt = conn_statement(conn, query);
    bool found;
    if (!stmt) {
        return conn_error(conn);
    }
    hf_status status = conn_row(conn, stmt, &found);
    if (!status && found) {
        *ret_number = sqlite3_column_int64(stmt, 0);
        *ret_equal = text_equal(column_text(stmt, 0), word);
        conn_done(stmt);
    }
    return status;
}

/* Settings of the application's connection, read first: what is strict enough already stays. */
static hf_status join_configure(struct sqlite_engine *engine, struct conn *conn)
{
    int64_t number = 0;
    bool wal = false;
    hf_status status = join_ask(conn, SQLITE_QUERY_READ_JOURNAL_MODE,
                                (struct text)TEXT_LITERAL("wal"), &number, &wal);
    if (!status && !wal) {
        status = fail(HF_MISUSE, "the connection is not in WAL mode");
    }
    bool unused = false;
    if (!status) {
        status = join_ask(conn, SQLITE_QUERY_READ_SYNC, TEXT_ABSENT, &number, &unused);
    }
    bool power = engine->durability == HF_DURABILITY_POWER;
    if (!status && number < (power ? SYNC_FULL : SYNC_NORMAL)) {
        status = conn_exec(conn, power ? SQLITE_QUERY_SYNC_FULL : SQLITE_QUERY_SYNC_NORMAL);
    }
    sqlite3_wal_autocheckpoint(conn->db, 0);
    sqlite3_db_config(conn->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    return status;
}

/* BEGIN IMMEDIATE. The connection has its own idea of how long to wait; the deadline is ours. */
static hf_status join_start(struct conn *conn, struct deadline deadline)
{
    for (;;) {
        hf_status status = conn_begin(conn, deadline);
        if (status != HF_TIMEOUT || deadline_passed(deadline)) {
            return status;
        }
        nanosleep(&(struct timespec){.tv_nsec = JOIN_BUSY_SLEEP_US * 1000L}, NULL);
    }
}

/* Ends the hold on the database. */
static void join_end(struct sqlite_engine *engine)
{
    struct join *join = engine->join;
    engine->join = NULL;
    conn_close(&join->conn);
    mem_free(join);
    gate_give(&engine->gate);
}

hf_status sqlite_join_begin(struct engine *base, void *connection, struct deadline deadline)
{
    struct sqlite_engine *engine = sqlite_of(base);
    hf_status status = join_check(engine, connection);
    if (status) {
        return status;
    }
    struct join *join = mem_calloc(1, sizeof *join);
    if (!join) {
        return fail(HF_NOMEM, "no memory for a transaction");
    }
    conn_wrap(&join->conn, connection, deadline);
    status = gate_take(&engine->gate, deadline);
    if (status) {
        mem_free(join);
        return status;
    }
    engine->join = join;
    status = apply_ready(engine, deadline);
    if (!status) {
        status = join_configure(engine, &join->conn);
    }
    if (!status) {
        status = join_start(&join->conn, deadline);
    }
    if (status) {
        join_end(engine);
    }
    return status;
}

/* The transaction that this thread began on this connection; NULL: *status says why. */
static struct join *join_find(struct sqlite_engine *engine, sqlite3 *db, hf_status *status)
{
    if (!db || !gate_held_by_caller(&engine->gate) || !engine->join ||
        engine->join->conn.db != db) {
        *status = fail(HF_MISUSE, "hf_sqlite_begin has not begun a transaction on this connection "
                                  "in this thread");
        return NULL;
    }
    if (sqlite3_get_autocommit(db)) {
        join_end(engine);
        *status = fail(HF_MISUSE, "the transaction was ended by other means than hf_sqlite_commit "
                                  "or hf_sqlite_rollback");
        return NULL;
    }
    return engine->join;
}

hf_status sqlite_join_append(struct engine *base, void *connection, struct append *append)
{
    struct sqlite_engine *engine = sqlite_of(base);
    append->failed_index = SIZE_MAX;
    hf_status status = HF_OK;
    struct join *join = join_find(engine, connection, &status);
    if (join) {
        status = append_now(engine, &join->conn, append);
    }
    append->change.status = status;
    return status;
}

hf_status sqlite_join_commit(struct engine *base, void *connection)
{
    struct sqlite_engine *engine = sqlite_of(base);
    hf_status status = HF_OK;
    struct join *join = join_find(engine, connection, &status);
    if (!join) {
        return status;
    }
    HF_POINT("join_before_commit");
    enum ring ring = join->conn.ring;
    status = conn_commit(&join->conn);
    if (!status) {
        HF_POINT("join_after_commit");
        status = apply_committed(engine, &join->conn, ring);
    } else if (status == HF_UNKNOWN) {
        engine->writer_lost = true;
    }
    if (!status && ++engine->join_commits >= JOIN_CHECKPOINT_COMMITS) {
        engine->join_commits = 0;
        apply_checkpoint(engine);
    }
    join_end(engine);
    return status;
}

hf_status sqlite_join_rollback(struct engine *base, void *connection)
{
    struct sqlite_engine *engine = sqlite_of(base);
    hf_status status = HF_OK;
    struct join *join = join_find(engine, connection, &status);
    if (join) {
        conn_rollback(&join->conn);
        join_end(engine);
    }
    return status;
}
