/*
 * pg_lookup.c - one query that only reads. See pg_lookup.h.
 *
 * The session is taken before the parameters are written, because they are written into its
 * memory, which is reused from query to query. If there is none they are written nowhere: a verb
 * then need not look whether it has a session, only whether it has an answer.
 *
 * A query only reads. So session_query runs it again if its connection is lost, and if it
 * fails nothing has happened.
 */
#include "store/postgres/wire/pg_lookup.h"

struct params *pg_lookup_begin(struct pg_lookup *lookup, struct engine *engine,
                               enum postgres_query query)
{
    *lookup = (struct pg_lookup){.engine = postgres_of(engine), .query = query};
    lookup->status = session_take(lookup->engine, &lookup->session);
    if (lookup->status) {
        params_init(&lookup->nowhere);
        return &lookup->nowhere;
    }
    return session_params(lookup->session);
}

bool pg_lookup_execute(struct pg_lookup *lookup)
{
    if (lookup->status) {
        return false;
    }
    PQclear(lookup->result);
    lookup->result = NULL;
    lookup->status = (lookup->plan_anew ? session_query_once : session_query)(
        lookup->session, lookup->query, &lookup->result);
    lookup->rows = PQntuples(lookup->result);
    return lookup->status == HF_OK;
}

void pg_lookup_return_session(struct pg_lookup *lookup)
{
    session_give(lookup->engine, lookup->session);
    lookup->session = NULL;
}

bool pg_lookup_run(struct pg_lookup *lookup)
{
    bool answered = pg_lookup_execute(lookup);
    pg_lookup_return_session(lookup);
    return answered;
}

hf_status pg_lookup_end(struct pg_lookup *lookup)
{
    pg_lookup_return_session(lookup);
    params_release(&lookup->nowhere);
    PQclear(lookup->result);
    lookup->result = NULL;
    return lookup->status;
}
