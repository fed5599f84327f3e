/*
 * lookup.h - a query of one statement: a read-only connection of the pool, its rows.
 *
 *     struct lookup lookup;
 *     if (lookup_begin(&lookup, engine, SQLITE_QUERY_AHEAD)) {
 *         bind_int(lookup.stmt, 1, subscription_id);
 *     }
 *     while (lookup_next(&lookup)) {
 *         int64_t position = sqlite3_column_int64(lookup.stmt, 0);
 *         ...
 *     }
 *     return lookup_end(&lookup);
 *
 * `status` keeps the first failure, the steps after it do nothing, and lookup_end returns it. A
 * caller that cannot use the answer sets `status` itself. Queries of several statements take their
 * connection themselves, with a snapshot (pool.h).
 */
#ifndef HF_STORE_SQLITE_FILE_LOOKUP_H
#define HF_STORE_SQLITE_FILE_LOOKUP_H

#include "store/sqlite/sqlite.h"

struct lookup {
    struct sqlite_engine *engine;
    struct conn *conn;  /* NULL: none could be had */
    sqlite3_stmt *stmt; /* NULL: could not be prepared */
    bool any;           /* there was a row */
    hf_status status;
};

/* Whether there is a statement, whose parameters are NULL. */
bool lookup_begin(struct lookup *lookup, struct engine *engine, enum sqlite_query query);
/* The next row, if there is one. */
bool lookup_next(struct lookup *lookup);
/* Gives the connection back. HF_OK, or the first failure; its message is the thread's. */
hf_status lookup_end(struct lookup *lookup);

#endif
