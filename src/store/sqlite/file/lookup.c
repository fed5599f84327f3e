/*
 * lookup.c - a query of one statement: a read-only connection of the pool, its rows. See lookup.h.
 *
 * The statement is reset before the connection goes back, also when not all rows were read: an open
 * statement would keep its snapshot, and with it the WAL, alive.
 */
#include "store/sqlite/file/lookup.h"

bool lookup_begin(struct lookup *lookup, struct engine *engine, enum sqlite_query query)
{
    *lookup = (struct lookup){.engine = sqlite_of(engine)};
    lookup->status = pool_take(lookup->engine, &lookup->conn);
    if (lookup->status) {
        return false;
    }
    lookup->stmt = conn_statement(lookup->conn, query);
    if (!lookup->stmt) {
        lookup->status = conn_error(lookup->conn);
    }
    return lookup->stmt != NULL;
}

bool lookup_next(struct lookup *lookup)
{
    bool row = false;
    if (!lookup->status) {
        lookup->status = conn_row(lookup->conn, lookup->stmt, &row);
    }
    lookup->any |= row;
    return row;
}

hf_status lookup_end(struct lookup *lookup)
{
    conn_done(lookup->stmt);
    if (lookup->conn) {
        pool_give(lookup->engine, lookup->conn);
    }
    return lookup->status;
}
