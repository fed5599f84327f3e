/*
 * tx.c - transactions for handlers.
 *
 * A handler gets a connection of its own, so that the writer's statements never mix with it.
 * Deliveries inside share one commit, a savepoint each:
 *
 *     BEGIN   mark   look, SAVEPOINT  handler  settle | ROLLBACK TO   ...   COMMIT
 *
 * Nothing of ours is locked or written while a handler runs: entering only looks whether the
 * delivery is ours and open, leaving settles it. So a process that is stopped in the middle of a
 * handler holds up nobody. Of two processes that both believe to have a delivery one settles it;
 * the other finds it settled, or its hold gone, and everything that its handler wrote is undone.
 *
 * The code that uses the connection is not ours, and nothing keeps it from ending the transaction.
 * It carries a mark, a setting that lives exactly as long as it does, and settling is a statement
 * that does nothing where the mark is missing: a delivery is never settled in another transaction
 * than the one that its handler's effects are in. A handler whose statement failed and who says
 * nevertheless that all is well is not believed: the server keeps nothing of it.
 *
 * tx_abort comes from another thread, while the owner may be inside of libpq, so it touches nothing
 * of libpq's: it shuts the socket down, and asks the server to stop what runs (PQcancel has a
 * connection of its own). The server rolls back when it notices. The owner closes the connection
 * when it ends the transaction. A commit that has begun is not aborted any more.
 */
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/uuid.h"
#include "store/postgres/row.h"
#include "store/postgres/verbs.h"

#define MARK_BYTES (2 * STORE_TOKEN_BYTES + 1)

struct postgres_tx {
    struct tx head; /* first: engine.h */
    struct session *session;
    char mark[MARK_BYTES];
    bool saved;  /* there is a savepoint: of the delivery inside, or of the last that was kept */
    bool inside; /* between enter and leave */
    bool ring;
    /* the delivery inside */
    bool ring_before;
    struct hold hold;
    int64_t position;
    uint64_t lane;
    bool waited;
    int64_t now_us;
    /* for tx_abort */
    pthread_mutex_t mutex; /* guards what follows */
    int socket;            /* -1: it is too late to abort */
    PGcancel *cancel;
    bool aborted;
};

/* The transaction that the thread is inside of. */
static _Thread_local const struct tx *tx_of_thread;

bool postgres_held_by_caller(struct engine *engine)
{
    return tx_of_thread && tx_of_thread->engine == engine;
}

/* ---- Between the handler and us -------------------------------------------------------------- */

static bool is_aborted(struct postgres_tx *tx)
{
    pthread_mutex_lock(&tx->mutex);
    bool aborted = tx->aborted;
    pthread_mutex_unlock(&tx->mutex);
    return aborted;
}

static hf_status fail_aborted(void)
{
    return fail(HF_TIMEOUT, "the transaction was aborted at its time limit");
}

/* What a failed statement of ours means: if it was aborted meanwhile, that. */
static hf_status tx_failed(struct postgres_tx *tx, hf_status status)
{
    if (is_aborted(tx)) {
        return fail_aborted();
    }
    const char *code = tx->session->sqlstate; /* no such savepoint, no transaction */
    if (strcmp(code, "3B001") == 0 || strcmp(code, "25P01") == 0) {
        return fail(HF_MISUSE, "the handler ended the transaction that it runs in");
    }
    return status;
}

/* The connection is ours again: is the transaction what it was? ret_broken: a statement failed, so
 * that only undoing is possible. */
static hf_status tx_resume(struct postgres_tx *tx, bool *ret_broken)
{
    struct session *session = tx->session;
    if (is_aborted(tx)) {
        return fail_aborted();
    }
    session->deadline = deadline_after_ms(session->engine->timeout_ms);
    if (PQpipelineStatus(session->pg) != PQ_PIPELINE_OFF) {
        return fail(HF_MISUSE, "the handler left the connection in pipeline mode");
    }
    const char *encoding = PQparameterStatus(session->pg, "client_encoding");
    if (encoding && strcmp(encoding, "UTF8") != 0) {
        return fail(HF_MISUSE, "the handler changed client_encoding to %s", encoding);
    }
    switch (PQtransactionStatus(session->pg)) {
    case PQTRANS_INTRANS:
        *ret_broken = false;
        break;
    case PQTRANS_INERROR:
        *ret_broken = true;
        break;
    case PQTRANS_IDLE:
        return fail(HF_MISUSE, "the handler ended the transaction that it runs in");
    case PQTRANS_ACTIVE:
        return fail(HF_MISUSE, "the handler left a statement running");
    default:
        return fail(HF_UNAVAILABLE, "%s: the connection was lost inside a transaction",
                    session->engine->place);
    }
    return PQsetnonblocking(session->pg, 1) == 0 ? HF_OK : fail(HF_NOMEM, "no memory to send");
}

/* Applications expect a connection that waits. */
static void tx_hand_over(struct postgres_tx *tx)
{
    if (tx->session->pg) {
        PQsetnonblocking(tx->session->pg, 0);
    }
}

static hf_status tx_script(struct postgres_tx *tx, enum postgres_query query)
{
    hf_status status = session_script(tx->session, postgres_queries[query].sql);
    return status == HF_OK ? HF_OK : tx_failed(tx, status);
}

/* Undoes the delivery. The thread's message stays as it is. */
static hf_status tx_undo(struct postgres_tx *tx, hf_status status)
{
    char message[STORE_MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s", err_message());
    tx->ring = tx->ring_before;
    tx->saved = false;
    hf_status undone = tx_script(tx, POSTGRES_QUERY_TX_UNDO);
    return undone == HF_OK && status != HF_OK ? err_set(status, message) : undone;
}

/* ---- Begin and end --------------------------------------------------------------------------- */

static hf_status tx_start(struct postgres_tx *tx)
{
    struct session *session = tx->session;
    hf_status status = session_begin(session);
    if (status != HF_OK) {
        return status;
    }
    uint8_t token[STORE_TOKEN_BYTES];
    random_bytes(token, sizeof token);
    for (size_t i = 0; i < sizeof token; i++) {
        snprintf(tx->mark + 2 * i, 3, "%02x", token[i]);
    }
    param_text(session_params(session), text_of(tx->mark));
    status = session_run(session, POSTGRES_QUERY_TX_MARK);
    tx->socket = PQsocket(session->pg);
    tx->cancel = PQgetCancel(session->pg);
    if (status == HF_OK && !tx->cancel) {
        status = fail(HF_NOMEM, "no memory for a transaction");
    }
    return status;
}

/* From now on tx_abort comes too late. */
static bool tx_close_door(struct postgres_tx *tx)
{
    pthread_mutex_lock(&tx->mutex);
    bool aborted = tx->aborted;
    tx->socket = -1;
    pthread_mutex_unlock(&tx->mutex);
    return !aborted;
}

static void tx_free(struct postgres_tx *tx)
{
    if (!tx_close_door(tx)) {
        session_close(tx->session); /* the server may still be cancelling something */
    }
    if (tx_of_thread == &tx->head) {
        tx_of_thread = NULL;
    }
    session_give(tx->session->engine, tx->session);
    PQfreeCancel(tx->cancel);
    pthread_mutex_destroy(&tx->mutex);
    mem_free(tx);
}

hf_status postgres_tx_begin(struct engine *base, struct deadline deadline, struct tx **ret_tx)
{
    struct postgres_engine *engine = postgres_of(base);
    if (postgres_held_by_caller(base)) {
        return fail(HF_MISUSE, "this thread is inside a transaction of this store already");
    }
    struct postgres_tx *tx = mem_calloc(1, sizeof *tx);
    if (!tx) {
        return fail(HF_NOMEM, "no memory for a transaction");
    }
    tx->head.engine = base;
    tx->socket = -1;
    hf_status status = session_take_handler(engine, deadline, &tx->session);
    if (status != HF_OK) {
        mem_free(tx);
        return status;
    }
    pthread_mutex_init(&tx->mutex, NULL);
    status = tx_start(tx);
    if (status != HF_OK) {
        tx_free(tx);
        return status;
    }
    tx_of_thread = &tx->head;
    *ret_tx = &tx->head;
    return HF_OK;
}

/* COMMIT. Whether it was aborted before is decided here. */
static hf_status tx_finish(struct postgres_tx *tx)
{
    bool broken;
    hf_status status = tx_resume(tx, &broken);
    if (status == HF_OK && (tx->inside || broken)) {
        status = fail(HF_MISUSE, "a delivery inside the transaction has not been ended");
    }
    HF_POINT("tx_before_commit");
    if (status == HF_OK && !tx_close_door(tx)) {
        status = fail_aborted();
    }
    return status == HF_OK ? session_commit(tx->session) : status;
}

hf_status postgres_tx_commit(struct tx *base)
{
    struct postgres_tx *tx = (struct postgres_tx *)base;
    struct postgres_engine *engine = postgres_of(base->engine);
    hf_status status = tx_finish(tx);
    if (status == HF_OK) {
        HF_POINT("tx_after_commit");
        atomic_fetch_add_explicit(&engine->commits, 1, memory_order_relaxed);
    }
    if (tx->ring && (status == HF_OK || status == HF_UNKNOWN)) {
        keeper_ring(engine);
    }
    tx_free(tx);
    return status;
}

void postgres_tx_rollback(struct tx *base)
{
    tx_free((struct postgres_tx *)base);
}

void postgres_tx_abort(struct tx *base)
{
    struct postgres_tx *tx = (struct postgres_tx *)base;
    pthread_mutex_lock(&tx->mutex);
    if (tx->socket >= 0 && !tx->aborted) {
        tx->aborted = true;
        shutdown(tx->socket, SHUT_RDWR);
        char why[256];
        PQcancel(tx->cancel, why, sizeof why);
    }
    pthread_mutex_unlock(&tx->mutex); /* from here on its owner may free it */
}

/* ---- Deliveries ------------------------------------------------------------------------------ */

/* The first eight parameters of both functions. */
static struct params *fill_hold(struct postgres_tx *tx)
{
    struct postgres_engine *engine = tx->session->engine;
    const struct hold *hold = &tx->hold;
    struct params *params = session_params(tx->session);
    param_int4(params, engine->namespace_id);
    param_int8(params, hold->subscription_id);
    param_bool(params, hold->leased);
    param_int4(params, hold->partition);
    param_uuid(params, engine->token);
    param_int8(params, hold->epoch);
    param_uuid(params, hold->leased ? hold->lease : NULL);
    param_int8(params, tx->position);
    return params;
}

/* Runs one of them. No row: the mark is missing. */
static hf_status tx_call(struct postgres_tx *tx, enum postgres_query query, bool *ret_lane_busy)
{
    PGresult *result;
    param_text(&tx->session->params, text_of(tx->mark));
    hf_status status = session_query(tx->session, query, &result);
    if (status != HF_OK) {
        return tx_failed(tx, status);
    }
    if (PQntuples(result) == 0) {
        status = fail(HF_MISUSE, "the handler ended the transaction that it runs in");
    } else {
        status = postgres_answer(result, 0, 0);
    }
    if (status == HF_OK && ret_lane_busy) {
        *ret_lane_busy = result_bool(result, 0, 2);
    }
    PQclear(result);
    return status;
}

hf_status postgres_tx_enter(struct tx *base, const struct hold *hold, const struct entry *entry,
                            int64_t now_us)
{
    struct postgres_tx *tx = (struct postgres_tx *)base;
    bool broken;
    hf_status status = tx_resume(tx, &broken);
    if (status == HF_OK && (tx->inside || broken)) {
        status = fail(HF_MISUSE, "the delivery before this one has not been ended");
    }
    if (status != HF_OK) {
        return status;
    }
    tx->hold = *hold;
    tx->position = entry->event.position;
    tx->lane = entry->lane;
    tx->waited = entry->waited;
    tx->now_us = now_us;
    tx->ring_before = tx->ring;
    fill_hold(tx);
    status = tx_call(tx, POSTGRES_QUERY_TX_ENTER, NULL);
    if (status != HF_OK) {
        return status;
    }
    status = tx_script(tx, tx->saved ? POSTGRES_QUERY_TX_SAVE_NEXT : POSTGRES_QUERY_TX_SAVE);
    if (status == HF_OK) {
        tx->saved = true;
        tx->inside = true;
        tx_hand_over(tx);
    }
    return status;
}

hf_status postgres_tx_leave(struct tx *base, bool keep, bool *ret_lane_busy)
{
    struct postgres_tx *tx = (struct postgres_tx *)base;
    bool broken;
    hf_status status = tx_resume(tx, &broken);
    if (status == HF_OK && !tx->inside) {
        status = fail(HF_MISUSE, "no delivery has been begun");
    }
    if (status != HF_OK) {
        return status;
    }
    tx->inside = false;
    bool busy = false;
    if (!keep) {
        status = tx_undo(tx, HF_OK);
    } else if (broken) {
        status = tx_undo(tx, fail(HF_MISUSE, "a statement of the handler failed, so nothing of it "
                                             "can be kept, but it answered that all is well"));
    } else {
        struct params *params = fill_hold(tx);
        param_int8(params, (int64_t)tx->lane);
        param_bool(params, tx->waited);
        param_time(params, tx->now_us);
        status = tx_call(tx, POSTGRES_QUERY_TX_LEAVE, &busy);
        if (status != HF_OK && PQtransactionStatus(tx->session->pg) == PQTRANS_INTRANS) {
            status = tx_undo(tx, status);
        }
    }
    if (status == HF_OK) {
        *ret_lane_busy = busy;
    }
    return status;
}

hf_status postgres_tx_append(struct tx *base, struct append *append)
{
    struct postgres_tx *tx = (struct postgres_tx *)base;
    append->failed_index = SIZE_MAX;
    bool broken;
    hf_status status = tx_resume(tx, &broken);
    if (status == HF_OK && broken) {
        status = fail(HF_MISUSE, "a statement in this transaction has failed: it takes no more");
    }
    if (status == HF_OK) {
        status = postgres_append_within(tx->session, append, &tx->ring);
        status = status == HF_OK ? HF_OK : is_aborted(tx) ? fail_aborted() : status;
        tx_hand_over(tx);
    }
    append->change.status = status;
    return status;
}

void *postgres_tx_connection(struct tx *base)
{
    return ((struct postgres_tx *)base)->session->pg;
}
