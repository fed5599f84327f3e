/*
 * join.c - publishing in the application's own transaction, on its own connection.
 *
 * Writers of this database do not wait for each other, so the application begins and ends its
 * transaction as it likes: join_append takes part in whatever transaction the connection is in. The
 * events exist if and only if it commits. One round trip:
 *
 *     -> SAVEPOINT, check, append, ring, RELEASE
 *
 * A failed append is undone by that savepoint, so the application can go on.
 *
 * The connection is not ours to configure. It must speak UTF-8, and be open on the database that
 * the store was opened on: there this very process is registered, and nowhere else. If it would
 * commit less durably than the store promises, this one transaction does not. Nothing else is left
 * behind in it: no prepared statement, no setting.
 *
 * Telling the consumers
 *   `ring` notifies them, with the commit, if a consumer sleeps. A transaction that has notified
 *   cannot be prepared for a two-phase commit, so it can say that it wants none (holdfast.notify =
 *   off). join_begin says so too, because join_commit rings afterwards. The end of a quiet
 *   transaction is not notified, if it is not by join_commit: the keeper watches for it. A
 *   notification that never comes costs time and no event.
 */
#include <string.h>

#include "base/err.h"
#include "base/point.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/pipeline.h"
#include "store/postgres/wire/row.h"
#include "store/postgres/write/migrate.h"

/* Takes the savepoint back. The thread's message stays as it is. */
static hf_status undo(struct session *session, hf_status status)
{
    char message[STORE_MESSAGE_BYTES];
    char sqlstate[sizeof session->sqlstate];
    snprintf(message, sizeof message, "%s", err_message());
    memcpy(sqlstate, session->sqlstate, sizeof sqlstate);
    PGTransactionStatusType state = PQtransactionStatus(session->pg);
    if (state == PQTRANS_INTRANS || state == PQTRANS_INERROR) {
        session_undo(session);
    }
    memcpy(session->sqlstate, sqlstate, sizeof sqlstate);
    return err_set(status, message);
}

hf_status postgres_append_within(struct session *session, struct append *append, bool *ret_ring)
{
    struct postgres_engine *engine = session->engine;
    bool foreign = session->kind == SESSION_FOREIGN;
    struct pipeline pipeline;
    pipeline_begin(&pipeline, session);
    session_params(session);
    pipeline_add(&pipeline, POSTGRES_QUERY_SAVE);
    if (foreign) {
        struct params *params = session_params(session);
        param_uuid(params, engine->token);
        param_bool(params, engine->durability == HF_DURABILITY_POWER);
        pipeline_add(&pipeline, POSTGRES_QUERY_JOIN_CHECK);
    }
    (void)postgres_verb_append.fill(engine, session_params(session), &append->change);
    int appended = pipeline.count;
    pipeline_add(&pipeline, postgres_verb_append.query);
    session_params(session);
    int rung = pipeline.count;
    if (foreign) {
        pipeline_add(&pipeline, POSTGRES_QUERY_JOIN_RING);
    }
    pipeline_add(&pipeline, POSTGRES_QUERY_RELEASE_SAVE);
    hf_status status = pipeline_end(&pipeline);
    if (status) {
        status = undo(session, status);
    } else {
        bool stored = false;
        status = postgres_verb_append.read(engine, &append->change, pipeline.items[appended].result,
                                           &stored);
        *ret_ring = *ret_ring || stored;
        if (foreign && stored && result_bool(pipeline.items[rung].result, 0, 0)) {
            keeper_expect(engine);
        }
    }
    pipeline_release(&pipeline);
    return status;
}

/* Whether the connection may take part at all. */
static hf_status check_connection(PGconn *pg)
{
    if (!pg) {
        return fail(HF_INVALID, "the connection is NULL");
    }
    if (PQstatus(pg) != CONNECTION_OK) {
        return fail(HF_UNAVAILABLE, "the connection is lost");
    }
    if (PQpipelineStatus(pg) != PQ_PIPELINE_OFF) {
        return fail(HF_MISUSE, "the connection is in pipeline mode");
    }
    const char *encoding = PQparameterStatus(pg, "client_encoding");
    if (encoding && strcmp(encoding, "UTF8") != 0) {
        return fail(HF_MISUSE, "the connection's client_encoding is %s; it must be UTF8", encoding);
    }
    return HF_OK;
}

/* In a transaction to which something can be added. */
static hf_status check_inside(PGconn *pg)
{
    hf_status status = check_connection(pg);
    if (status) {
        return status;
    }
    switch (PQtransactionStatus(pg)) {
    case PQTRANS_INTRANS:
        return HF_OK;
    case PQTRANS_INERROR:
        return fail(HF_MISUSE, "a statement of the connection's transaction has failed: it can "
                               "only be rolled back");
    case PQTRANS_ACTIVE:
        return fail(HF_MISUSE, "a statement is running on the connection");
    default:
        return fail(HF_MISUSE, "the connection is not inside a transaction");
    }
}

/* The connection while we use it: it does not wait by itself, as its owner may want it to. */
struct loan {
    struct session session;
    PGconn *pg;
    int nonblocking;
};

static void borrow(struct loan *loan, struct postgres_engine *engine, PGconn *pg,
                   struct deadline deadline)
{
    loan->pg = pg;
    loan->nonblocking = PQisnonblocking(pg);
    session_wrap(&loan->session, engine, pg, deadline);
    PQsetnonblocking(pg, 1);
}

static void give_back(struct loan *loan)
{
    PQsetnonblocking(loan->pg, loan->nonblocking);
    session_release(&loan->session);
}

static struct deadline own_deadline(const struct postgres_engine *engine)
{
    return deadline_after_ms(engine->timeout_ms);
}

hf_status postgres_join_append(struct engine *base, void *connection, struct append *append)
{
    struct postgres_engine *engine = postgres_of(base);
    append->failed_index = SIZE_MAX;
    hf_status status = postgres_check_work(engine);
    if (!status) {
        status = check_inside(connection);
    }
    if (!status) {
        status = keeper_start(engine, own_deadline(engine)); /* it watches for the commit */
    }
    if (!status) {
        struct loan loan;
        bool ring = false; /* the server tells the others, or the keeper */
        borrow(&loan, engine, connection, own_deadline(engine));
        status = postgres_append_within(&loan.session, append, &ring);
        give_back(&loan);
    }
    append->change.status = status;
    return status;
}

/* Runs BEGIN or ROLLBACK on the application's connection. */
static hf_status run(struct postgres_engine *engine, PGconn *pg, enum postgres_query query,
                     struct deadline deadline)
{
    struct loan loan;
    borrow(&loan, engine, pg, deadline);
    hf_status status = session_script(&loan.session, postgres_queries[query].sql);
    give_back(&loan);
    return status;
}

hf_status postgres_join_begin(struct engine *base, void *connection, struct deadline deadline)
{
    hf_status status = check_connection(connection);
    if (!status && PQtransactionStatus(connection) != PQTRANS_IDLE) {
        status = fail(HF_MISUSE, "the connection is inside a transaction");
    }
    return status ? status
                  : run(postgres_of(base), connection, POSTGRES_QUERY_JOIN_BEGIN, deadline);
}

hf_status postgres_join_commit(struct engine *base, void *connection)
{
    struct postgres_engine *engine = postgres_of(base);
    hf_status status = check_inside(connection);
    if (status) {
        return status;
    }
    struct loan loan;
    borrow(&loan, engine, connection, own_deadline(engine));
    HF_POINT("join_before_commit");
    status = session_commit(&loan.session);
    give_back(&loan);
    if (!status || status == HF_UNKNOWN) {
        HF_POINT("join_after_commit");
        keeper_ring_appends(engine);
    }
    return status;
}

hf_status postgres_join_rollback(struct engine *base, void *connection)
{
    hf_status status = check_connection(connection);
    if (!status && PQtransactionStatus(connection) == PQTRANS_IDLE) {
        status = fail(HF_MISUSE, "the connection is not inside a transaction");
    }
    if (status) {
        return status;
    }
    struct postgres_engine *engine = postgres_of(base);
    return run(engine, connection, POSTGRES_QUERY_ROLLBACK, own_deadline(engine));
}
