/*
 * types.c - the index on types of a namespace: building it, and dropping it. typed.c reads by it.
 *
 * It is a table of (namespace, type, position), and has rows only of namespaces that ask for it. An
 * append writes its row with the event (append.c), the log's trigger deletes it with the event.
 * What was in the log before is added by steps, in the order of positions, each in a transaction of
 * its own; types_through says how far they have come, so that a process that dies between two of
 * them leaves nothing to be repaired. Appends write their rows from the first step on: whatever the
 * steps have not reached when they come to the end of the log is there already.
 */
#include "store/sqlite/write/types.h"
#include "base/err.h"
#include "base/point.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"

/* ---- Building and dropping ------------------------------------------------------------------- */

hf_status types_state(struct conn *conn, int64_t id, enum type_index *ret_state,
                      int64_t *ret_through)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_TYPES_STATE);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, id);
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    *ret_state = TYPE_INDEX_OFF;
    if (!status && row) {
        *ret_state = (enum type_index)sqlite3_column_int(stmt, 0);
        *ret_through = sqlite3_column_int64(stmt, 1);
        conn_done(stmt);
    }
    return status;
}

/* Up to where the next step gets, and how many events that are. */
static hf_status find_end(struct conn *conn, int64_t id, int64_t through, int64_t *ret_end,
                          int64_t *ret_rows)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_TYPES_BUILD_END);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, id);
    bind_int(stmt, 2, through);
    bind_int(stmt, 3, STORE_TYPES_STEP_ROWS);
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (!status && row) {
        *ret_end = column_int(stmt, 0, through);
        *ret_rows = sqlite3_column_int64(stmt, 1);
        conn_done(stmt);
    }
    return status;
}

static hf_status build(struct conn *conn, int64_t id, int64_t through, bool *ret_more)
{
    int64_t end = through;
    int64_t rows = 0;
    hf_status status = find_end(conn, id, through, &end, &rows);
    if (!status && rows > 0) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_TYPES_BUILD, id, through, STORE_TYPES_STEP_ROWS);
    }
    *ret_more = rows == STORE_TYPES_STEP_ROWS;
    HF_POINT("mid_type_steps");
    return status ? status
                  : STATEMENT_RUN(conn, SQLITE_QUERY_TYPES_NOTE, id,
                                  *ret_more ? TYPE_INDEX_BUILDING : TYPE_INDEX_ON, end);
}

static hf_status drop(struct conn *conn, int64_t id, bool *ret_more)
{
    hf_status status = STATEMENT_RUN(conn, SQLITE_QUERY_TYPES_REMOVE, id, STORE_TYPES_STEP_ROWS);
    *ret_more = !status && conn_changes(conn) == STORE_TYPES_STEP_ROWS;
    return status || *ret_more
               ? status
               : STATEMENT_RUN(conn, SQLITE_QUERY_TYPES_NOTE, id, TYPE_INDEX_OFF, 0);
}

hf_status sqlite_type_steps(struct sqlite_engine *engine, struct conn *conn,
                            struct type_steps *steps)
{
    int64_t id = engine->namespace_id;
    bool created;
    hf_status status = HF_OK;
    if (!text_is_absent(steps->name)) {
        status =
            sqlite_namespace_open(conn, steps->name, false, steps->change.now_us, &id, &created);
    }
    enum type_index state = TYPE_INDEX_OFF;
    int64_t through = 0;
    if (!status) {
        status = types_state(conn, id, &state, &through);
    }
    steps->ret_more = false;
    steps->ret_command[0] = '\0';
    if (!status && state == TYPE_INDEX_BUILDING) {
        status = build(conn, id, through, &steps->ret_more);
    } else if (!status && state == TYPE_INDEX_DROPPING) {
        status = drop(conn, id, &steps->ret_more);
    }
    return status;
}
