/*
 * join.c - publishing in the application's own transaction, on its own connection.
 *
 * Writers of this database do not wait for each other, so the application begins and ends its
 * transaction as it likes: join_append takes part in whatever transaction the connection is in. The
 * events exist if and only if it commits. join_begin and join_commit are there for those who want
 * the bus to do it; then the others are told at once. Otherwise the server tells them, when the
 * transaction commits, if somebody sleeps.
 *
 * The connection is not ours to configure. It must speak UTF-8, and be open on the database that
 * the store was opened on: there this very process is registered, and nowhere else. If it would
 * commit less durably than the store promises, this one transaction does not. Nothing else is left
 * behind in it: no prepared statement, no setting.
 *
 * A failed append is undone by a savepoint of its own, so the application can go on.
 */
#include <string.h>

#include "base/err.h"
#include "base/point.h"
#include "store/postgres/row.h"
#include "store/postgres/verbs.h"

hf_status postgres_append_within(struct session *session, struct append *append, bool *ret_ring)
{
    struct postgres_engine *engine = session->engine;
    hf_status status = session_save(session);
    if (status != HF_OK) {
        return status;
    }
    bool ring = false;
    status = postgres_change_run(engine, session, &append->change, &ring);
    if (status == HF_OK) {
        status = session_release_save(session);
        *ret_ring = *ret_ring || (status == HF_OK && ring);
        return status;
    }
    char message[STORE_MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s", err_message());
    if (PQtransactionStatus(session->pg) == PQTRANS_INTRANS ||
        PQtransactionStatus(session->pg) == PQTRANS_INERROR) {
        session_undo(session);
    }
    return err_set(status, message);
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

/* Whether its transaction may: the same database, which can be written to, durably. */
static hf_status check_transaction(struct session *session)
{
    struct postgres_engine *engine = session->engine;
    struct params *params = session_params(session);
    param_uuid(params, engine->token);
    PGresult *result;
    hf_status status = session_query(session, POSTGRES_QUERY_JOIN_CHECK, &result);
    if (status != HF_OK) {
        return status;
    }
    bool durable = result_bool(result, 0, 1);
    if (!result_bool(result, 0, 0)) {
        status = fail(HF_MISUSE, "the connection is open on another database; the store is %s",
                      engine->place);
    } else if (result_bool(result, 0, 2)) {
        status = fail(HF_MISUSE, "the transaction is read-only");
    }
    PQclear(result);
    if (status != HF_OK || durable || engine->durability == HF_DURABILITY_PROCESS) {
        return status;
    }
    params = session_params(session);
    param_text(params, text_of("on"));
    param_null(params, PARAM_TEXT);
    return session_run(session, POSTGRES_QUERY_TX_SETTINGS);
}

static hf_status append_checked(struct session *session, struct append *append)
{
    hf_status status = check_transaction(session);
    bool ring = false;
    if (status == HF_OK) {
        status = postgres_append_within(session, append, &ring);
    }
    if (status == HF_OK && ring) {
        session_params(session);
        status = session_run(session, POSTGRES_QUERY_KEEPER_RING);
    }
    return status;
}

hf_status postgres_join_append(struct engine *base, void *connection, struct append *append)
{
    struct postgres_engine *engine = postgres_of(base);
    PGconn *pg = connection;
    append->failed_index = SIZE_MAX;
    hf_status status = check_connection(pg);
    if (status == HF_OK && PQtransactionStatus(pg) != PQTRANS_INTRANS) {
        status = fail(HF_MISUSE, "the connection is not inside a transaction");
    }
    if (status == HF_OK) {
        struct session session;
        session_wrap(&session, engine, pg, deadline_after_ms(engine->timeout_ms));
        status = append_checked(&session, append);
        session_release(&session);
    }
    append->change.status = status;
    return status;
}

/* Runs BEGIN, COMMIT or ROLLBACK on the application's connection. */
static hf_status run(struct postgres_engine *engine, PGconn *pg, enum postgres_query query,
                     struct deadline deadline)
{
    struct session session;
    session_wrap(&session, engine, pg, deadline);
    hf_status status = session_script(&session, postgres_queries[query].sql);
    session_release(&session);
    return status;
}

hf_status postgres_join_begin(struct engine *base, void *connection, struct deadline deadline)
{
    hf_status status = check_connection(connection);
    if (status == HF_OK && PQtransactionStatus(connection) != PQTRANS_IDLE) {
        status = fail(HF_MISUSE, "the connection is inside a transaction");
    }
    return status == HF_OK ? run(postgres_of(base), connection, POSTGRES_QUERY_BEGIN, deadline)
                           : status;
}

hf_status postgres_join_commit(struct engine *base, void *connection)
{
    struct postgres_engine *engine = postgres_of(base);
    hf_status status = check_connection(connection);
    if (status == HF_OK && PQtransactionStatus(connection) != PQTRANS_INTRANS) {
        status = fail(HF_MISUSE, "the connection is not inside a transaction, or it has failed");
    }
    if (status != HF_OK) {
        return status;
    }
    struct session session;
    session_wrap(&session, engine, connection, deadline_after_ms(engine->timeout_ms));
    HF_POINT("join_before_commit");
    status = session_commit(&session);
    session_release(&session);
    if (status == HF_OK) {
        HF_POINT("join_after_commit");
        keeper_ring(engine);
    }
    return status;
}

hf_status postgres_join_rollback(struct engine *base, void *connection)
{
    hf_status status = check_connection(connection);
    if (status == HF_OK && PQtransactionStatus(connection) == PQTRANS_IDLE) {
        status = fail(HF_MISUSE, "the connection is not inside a transaction");
    }
    if (status != HF_OK) {
        return status;
    }
    struct postgres_engine *engine = postgres_of(base);
    return run(engine, connection, POSTGRES_QUERY_ROLLBACK, deadline_after_ms(engine->timeout_ms));
}
