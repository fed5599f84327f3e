/*
 * statement.h - short forms for statements whose parameters are all numbers, in order from ?1.
 *
 *     STATEMENT_RUN(conn, SQLITE_QUERY_SETTLED_FOLD, subscription_id, partition, checkpoint)
 *     STATEMENT_INT(conn, SQLITE_QUERY_RETRIES_LOWEST, &found, &position, subscription_id)
 *
 * Both answer an hf_status and leave the statement reset.
 */
#ifndef HF_STORE_SQLITE_FILE_STATEMENT_H
#define HF_STORE_SQLITE_FILE_STATEMENT_H

#include "store/sqlite/file/conn.h"

static inline hf_status statement_run(struct conn *conn, enum sqlite_query query,
                                      const int64_t *values, int count)
{
    sqlite3_stmt *stmt = conn_statement(conn, query);
    if (!stmt) {
        return conn_error(conn);
    }
    for (int i = 0; i < count; i++) {
        bind_int(stmt, i + 1, values[i]);
    }
    return conn_run(conn, stmt);
}

/* The first column of the first row; *ret_value is untouched if there is no row or it is NULL. */
static inline hf_status statement_int(struct conn *conn, enum sqlite_query query, bool *ret_found,
                                      int64_t *ret_value, const int64_t *values, int count)
{
    *ret_found = false;
    sqlite3_stmt *stmt = conn_statement(conn, query);
    if (!stmt) {
        return conn_error(conn);
    }
    for (int i = 0; i < count; i++) {
        bind_int(stmt, i + 1, values[i]);
    }
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (status) {
        return status;
    }
    *ret_found = row && !column_is_null(stmt, 0);
    if (*ret_found) {
        *ret_value = sqlite3_column_int64(stmt, 0);
    }
    conn_done(stmt);
    return HF_OK;
}

#define STATEMENT_VALUES(...)                                                                      \
    (const int64_t[])                                                                              \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define STATEMENT_COUNT(...) (int)(sizeof(STATEMENT_VALUES(__VA_ARGS__)) / sizeof(int64_t))

#define STATEMENT_RUN(conn, query, ...)                                                            \
    statement_run(conn, query, STATEMENT_VALUES(__VA_ARGS__), STATEMENT_COUNT(__VA_ARGS__))

#define STATEMENT_INT(conn, query, ret_found, ret_value, ...)                                      \
    statement_int(conn, query, ret_found, ret_value, STATEMENT_VALUES(__VA_ARGS__),                \
                  STATEMENT_COUNT(__VA_ARGS__))

#endif
