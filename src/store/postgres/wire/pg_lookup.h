/*
 * pg_lookup.h - one query that only reads: a session of the pool, one statement, its answer.
 *
 *     struct pg_lookup lookup;
 *     struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_LANES);
 *     param_int8(params, subscription_id);
 *     pg_lookup_run(&lookup);
 *     for (int row = 0; row < lookup.rows; row++) {
 *         uint64_t lane = (uint64_t)result_int8(lookup.result, row, 0, 0);      (row.h)
 *         ...
 *     }
 *     return pg_lookup_end(&lookup);
 *
 * The caller need not check the steps: `status` keeps the first failure, the steps after it do
 * nothing, and pg_lookup_end returns it. A caller that cannot use the answer sets `status` itself.
 *
 * pg_lookup_run gives the session back, so a callback that is handed the answer may look up more
 * without a second session. The answer, and every text in it, lives until pg_lookup_end.
 *
 * Changes are not run here, but on the writer's session (apply.c).
 */
#ifndef HF_STORE_POSTGRES_WIRE_PG_LOOKUP_H
#define HF_STORE_POSTGRES_WIRE_PG_LOOKUP_H

#include "store/postgres/postgres.h"

struct pg_lookup {
    struct postgres_engine *engine;
    enum postgres_query query;
    bool plan_anew;          /* false: the statement is prepared; see session_query_once */
    struct session *session; /* NULL: none could be had, or it has been given back */
    struct params nowhere;   /* what would be the parameters, if there is no session */
    PGresult *result;        /* NULL: not answered */
    int rows;                /* 0 without an answer */
    hf_status status;
};

/* Takes a session, whose deadline begins now. Returns where the parameters go, never NULL. */
struct params *pg_lookup_begin(struct pg_lookup *lookup, struct engine *engine,
                               enum postgres_query query);
/* Runs the statement and gives the session back. Whether there is an answer. */
bool pg_lookup_run(struct pg_lookup *lookup);
/* The two steps of pg_lookup_run, for a caller that runs the statement again if it cannot use the
 * answer. */
bool pg_lookup_execute(struct pg_lookup *lookup);
void pg_lookup_return_session(struct pg_lookup *lookup);
/* Frees everything. HF_OK, or the first failure; its message is the thread's. */
hf_status pg_lookup_end(struct pg_lookup *lookup);

#endif
