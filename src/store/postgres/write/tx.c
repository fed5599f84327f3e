/*
 * tx.c - transactions for handlers.
 *
 * A handler gets a connection of its own, so that the writer's statements never mix with it.
 * Deliveries inside share one commit, a savepoint each, and every arrow is one round trip:
 *
 *     -> BEGIN, mark, SAVEPOINT, look   handler   -> settle | ROLLBACK TO
 *     -> RELEASE, SAVEPOINT, look       handler   -> settle | ROLLBACK TO
 *     ...
 *     -> check, COMMIT       (of the last, if that is known: -> settle, COMMIT)
 *
 * A unit is entered by its first delivery and settled as a whole, however many they are: one
 * statement, which goes with the COMMIT.
 *
 * Nothing of ours is locked or written while a handler runs: entering only looks whether the
 * delivery is ours and open, leaving settles it. So a process that is stopped in the middle of a
 * handler holds up no other. Of two processes that both believe to have a delivery one settles it;
 * the other finds it settled, or its hold gone, and everything that its handler wrote is undone.
 *
 * The code that uses the connection is not ours, and nothing keeps it from ending the transaction.
 * It carries a mark, a setting that lives exactly as long as it does. Settling is a statement that
 * fails where the mark is missing, and so does what goes before the COMMIT: a delivery is never
 * settled in another transaction than the one that its handler's effects are in, and what was kept
 * is never believed to be committed by the commit of another one. A handler whose statement failed
 * and who says nevertheless that all is well is not believed: the server keeps nothing of it.
 *
 * The server may have crashed since the events were read, have lost those that were not synced, and
 * give their positions again. Other settles are refused on a new connection (partition_epoch);
 * here connections come and go. So what is settled by its position must be in the log under its
 * id, or wait as a retry, which the log has outlived. If not, the partition counts as lost.
 *
 * Not every failure is the event's fault. libpq tells us of every result on the connection, so that
 * we know the code of the statement that the transaction failed with: if that is of the kind that
 * passes (a deadlock, a lock timeout ...) leaving answers HF_BUSY, and the attempt does not count.
 *
 * tx_abort comes from another thread, while the owner may be inside of libpq, so it touches nothing
 * of libpq's: it shuts the socket down, and asks the server to stop what runs (over a connection of
 * its own). The server rolls back when it notices. The owner closes the connection when it ends
 * the transaction. A commit that has begun is not aborted any more.
 */
#include <libpq-events.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/text/hex.h"
#include "base/uuid.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/pipeline.h"
#include "store/postgres/wire/row.h"
#include "store/postgres/write/migrate.h"

#define MARK_BYTES (2 * STORE_TOKEN_BYTES + 1)

/* How far the transaction is. */
enum stage {
    STAGE_NEW, /* BEGIN goes with the first statement */
    STAGE_BEGUN,
    STAGE_SAVED,  /* there is a savepoint: of the last delivery that was kept */
    STAGE_INSIDE, /* there is a savepoint, and the handler of a delivery runs: enter to leave */
};

struct postgres_tx {
    struct tx head; /* first: engine.h */
    struct session *session;
    char mark[MARK_BYTES];
    enum stage stage;
    bool ring;
    /* the delivery inside */
    bool ring_before;
    struct hold hold;
    int64_t position;
    uint8_t id[16];
    bool waited;
    int32_t attempts; /* that failed before */
    int64_t now_us;
    int64_t conflict; /* the position that the last HF004 was about; -1: none */
    bool passing;     /* something that was published inside met trouble that passes */
    char sqlstate[6]; /* of the last statement on the connection that failed; "": none */
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

/* PGEventProc: notes the code of every statement that fails, the handler's included, and which
 * delivery of a unit was settled already. */
static int hear_result(PGEventId id, void *info, void *pass_through)
{
    (void)pass_through;
    if (id == PGEVT_RESULTCREATE) {
        const PGEventResultCreate *created = info;
        struct postgres_tx *tx = PQinstanceData(created->conn, hear_result);
        const char *code = PQresultErrorField(created->result, PG_DIAG_SQLSTATE);
        const char *detail = PQresultErrorField(created->result, PG_DIAG_MESSAGE_DETAIL);
        if (tx && code) {
            snprintf(tx->sqlstate, sizeof tx->sqlstate, "%s", code);
            bool told = strcmp(code, "HF004") == 0 && detail && *detail;
            tx->conflict = told ? strtoll(detail, NULL, 10) : -1;
        }
    }
    return 1;
}

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
    if (session_is_lost(session)) {
        return fail(HF_UNAVAILABLE, "%s: the connection was lost inside a transaction",
                    session->engine->place);
    }
    session->deadline = deadline_after_ms(session->engine->timeout_ms);
    if (PQpipelineStatus(session->pg) != PQ_PIPELINE_OFF) {
        return fail(HF_MISUSE, "the handler left the connection in pipeline mode");
    }
    const char *encoding = PQparameterStatus(session->pg, "client_encoding");
    if (encoding && strcmp(encoding, "UTF8") != 0) {
        return fail(HF_MISUSE, "the handler changed client_encoding to %s", encoding);
    }
    PGTransactionStatusType state = PQtransactionStatus(session->pg);
    if (tx->stage >= STAGE_BEGUN && state == PQTRANS_IDLE) {
        return fail(HF_MISUSE, "the handler ended the transaction that it runs in");
    }
    if (state == PQTRANS_ACTIVE) {
        return fail(HF_MISUSE, "the handler left a statement running");
    }
    *ret_broken = state == PQTRANS_INERROR;
    return PQsetnonblocking(session->pg, 1) == 0 ? HF_OK : fail(HF_NOMEM, "no memory to send");
}

static hf_status fail_passing(const struct postgres_tx *tx)
{
    return fail(HF_BUSY, "the handler's transaction met trouble that passes (%s)", tx->sqlstate);
}

/* Undoes the delivery. The thread's message stays as it is. */
static hf_status tx_undo(struct postgres_tx *tx, hf_status status)
{
    char message[STORE_MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s", err_message());
    tx->ring = tx->ring_before;
    tx->stage = STAGE_BEGUN;
    hf_status undone = session_script(tx->session, postgres_queries[POSTGRES_QUERY_TX_UNDO].sql);
    if (undone) {
        return tx_failed(tx, undone);
    }
    return status != HF_OK ? err_set(status, message) : HF_OK;
}

/* ---- Begin and end --------------------------------------------------------------------------- */

/* A pipeline that begins the transaction if nothing has yet. */
static void tx_pipeline(struct postgres_tx *tx, struct pipeline *pipeline)
{
    struct session *session = tx->session;
    pipeline_begin(pipeline, session);
    if (tx->stage >= STAGE_BEGUN) {
        return;
    }
    bool relaxed = session->engine->durability == HF_DURABILITY_PROCESS;
    session->in_tx = true;
    session_params(session);
    pipeline_add(pipeline, POSTGRES_QUERY_BEGIN);
    struct params *params = session_params(session);
    param_text(params, text_of(tx->mark));
    param_text(params, relaxed                                     ? text_of("off")
                       : session_has(session, SESSION_WEAK_COMMIT) ? text_of("on")
                                                                   : TEXT_ABSENT);
    pipeline_add(pipeline, POSTGRES_QUERY_TX_MARK);
}

/* Sends the pipeline. */
static hf_status tx_pipeline_end(struct postgres_tx *tx, struct pipeline *pipeline)
{
    hf_status status = pipeline_end(pipeline);
    if (status) {
        return tx_failed(tx, status);
    }
    tx->stage = tx->stage == STAGE_NEW ? STAGE_BEGUN : tx->stage;
    return HF_OK;
}

static hf_status tx_prepare(struct postgres_tx *tx)
{
    PGconn *pg = tx->session->pg;
    uint8_t token[STORE_TOKEN_BYTES];
    random_bytes(token, sizeof token);
    *hex_write(tx->mark, token, sizeof token) = '\0';
    PQregisterEventProc(pg, hear_result, "holdfast", NULL); /* refused if it is already */
    tx->socket = PQsocket(pg);
    tx->cancel = PQgetCancel(pg);
    return tx->cancel && PQsetInstanceData(pg, hear_result, tx)
               ? HF_OK
               : fail(HF_NOMEM, "no memory for a transaction");
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
    if (tx->session->pg) {
        PQsetInstanceData(tx->session->pg, hear_result, NULL);
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
    hf_status status = postgres_check_work(engine);
    if (status) {
        return status;
    }
    struct postgres_tx *tx = mem_calloc(1, sizeof *tx);
    if (!tx) {
        return fail(HF_NOMEM, "no memory for a transaction");
    }
    tx->head.engine = base;
    tx->socket = -1;
    status = session_take_handler(engine, deadline, &tx->session);
    if (status) {
        mem_free(tx);
        return status;
    }
    pthread_mutex_init(&tx->mutex, NULL);
    status = tx_prepare(tx);
    if (status) {
        tx_free(tx);
        return status;
    }
    tx_of_thread = &tx->head;
    *ret_tx = &tx->head;
    return HF_OK;
}

/* Before the commit. Whether it was aborted is decided here. */
static hf_status tx_last_moment(struct postgres_tx *tx)
{
    HF_POINT("tx_before_commit");
    return tx_close_door(tx) ? HF_OK : fail_aborted();
}

/* Tells what was committed, and frees. */
static hf_status tx_ended(struct postgres_tx *tx, hf_status status)
{
    struct postgres_engine *engine = tx->session->engine;
    if (!status) {
        HF_POINT("tx_after_commit");
        atomic_fetch_add_explicit(&engine->commits, 1, memory_order_relaxed);
    }
    if (tx->ring && (!status || status == HF_UNKNOWN)) {
        keeper_ring_appends(engine);
    }
    char message[STORE_MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s", err_message());
    tx_free(tx);
    return status == HF_OK ? HF_OK : err_set(status, message);
}

/* What became of a pipeline that ends with COMMIT. */
static hf_status read_commit(struct postgres_tx *tx, const struct pipeline *pipeline,
                             hf_status status)
{
    struct session *session = tx->session;
    const char *place = session->engine->place;
    if (!status && PQcmdStatus(pipeline->items[1].result)[0] == 'R') {
        return fail(HF_IO, "%s: the transaction had failed and was rolled back", place);
    }
    if (!status) {
        return session->unsure
                   ? fail(HF_UNKNOWN, "%s: committed, but perhaps not on the standby", place)
                   : HF_OK;
    }
    if (pipeline->failed == pipeline->count || session_leaves_open(session, session->sqlstate)) {
        /* The server has not said that one of them failed. */
        return fail(HF_UNKNOWN, "%s: the connection was lost during a commit", place);
    }
    if (pipeline->failed == 0 && status == HF_CONFLICT) {
        return fail(HF_STALE, "another worker has settled the delivery meanwhile");
    }
    return status;
}

/* Runs a statement whose parameters have been filled in, and commits if it succeeds. */
static hf_status tx_commit_after(struct postgres_tx *tx, enum postgres_query query,
                                 struct pipeline *pipeline)
{
    pipeline_begin(pipeline, tx->session);
    pipeline_add(pipeline, query);
    session_params(tx->session);
    pipeline_add(pipeline, POSTGRES_QUERY_COMMIT);
    hf_status status = pipeline_end(pipeline);
    tx->session->in_tx = tx->session->in_tx && status;
    return read_commit(tx, pipeline, status);
}

hf_status postgres_tx_commit(struct tx *base)
{
    struct postgres_tx *tx = (struct postgres_tx *)base;
    bool broken;
    hf_status status = tx_resume(tx, &broken);
    if (!status && (tx->stage == STAGE_INSIDE || broken)) {
        status = fail(HF_MISUSE, "a delivery inside the transaction has not been ended");
    }
    if (!status) {
        status = tx_last_moment(tx);
    }
    if (!status && tx->stage >= STAGE_BEGUN) {
        struct pipeline pipeline;
        param_text(session_params(tx->session), text_of(tx->mark));
        status = tx_commit_after(tx, POSTGRES_QUERY_TX_CHECK, &pipeline);
        pipeline_release(&pipeline);
    }
    return tx_ended(tx, status);
}

void postgres_tx_rollback(struct tx *base)
{
    tx_free((struct postgres_tx *)base);
}

bool postgres_tx_abort(struct tx *base)
{
    struct postgres_tx *tx = (struct postgres_tx *)base;
    pthread_mutex_lock(&tx->mutex);
    if (tx->socket >= 0 && !tx->aborted) {
        tx->aborted = true;
        shutdown(tx->socket, SHUT_RDWR);
        session_cancel(tx->cancel);
        tx->cancel = NULL;
    }
    pthread_mutex_unlock(&tx->mutex); /* from here on its owner may free it */
    return true;
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
    param_text(params, text_of(tx->mark));
    return params;
}

/* The delivery inside, and those behind it in its unit. */
static void fill_settle(struct postgres_tx *tx, const struct tx_member *others, size_t count)
{
    struct params *params = fill_hold(tx);
    param_array(params, PARAM_INT8, count + 1);
    element_int8(params, tx->position);
    for (size_t i = 0; i < count; i++) {
        element_int8(params, others[i].entry->event.position);
    }
    param_array(params, PARAM_BOOL, count + 1);
    element_bool(params, tx->waited);
    for (size_t i = 0; i < count; i++) {
        element_bool(params, others[i].entry->waited);
    }
    params->shift_us = skew_shift(tx->session->engine, tx->now_us);
    param_local(params, tx->now_us);
    param_array(params, PARAM_UUID, count + 1);
    element_uuid(params, tx->id);
    for (size_t i = 0; i < count; i++) {
        element_uuid(params, others[i].entry->id);
    }
    param_array(params, PARAM_INT4, count + 1);
    element_int4(params, tx->attempts);
    for (size_t i = 0; i < count; i++) {
        element_int4(params, others[i].entry->attempts);
    }
}

/* What tx_settle answered, for as many. */
static void read_settle(const PGresult *result, bool *ret_lane_busy, struct tx_member *others,
                        size_t count)
{
    struct result_array busy = result_array(result, 0, 0);
    *ret_lane_busy = busy.count > 0 && array_int8(&busy, 0) != 0;
    for (size_t i = 0; i < count; i++) {
        others[i].ret_lane_busy = i + 1 < busy.count && array_int8(&busy, 0) != 0;
    }
}

/* What tx_enter answered. No row: the mark is missing. */
static hf_status read_enter(const PGresult *result)
{
    return PQntuples(result) == 0
               ? fail(HF_MISUSE, "the handler ended the transaction that it runs in")
               : postgres_answer(result, 0, 0);
}

hf_status postgres_tx_enter(struct tx *base, const struct hold *hold, const struct entry *entry,
                            int64_t now_us)
{
    struct postgres_tx *tx = (struct postgres_tx *)base;
    bool broken;
    hf_status status = tx_resume(tx, &broken);
    if (!status && (tx->stage == STAGE_INSIDE || broken)) {
        status = fail(HF_MISUSE, "the delivery before this one has not been ended");
    }
    if (status) {
        return status;
    }
    tx->hold = *hold;
    tx->position = entry->event.position;
    memcpy(tx->id, entry->id, sizeof tx->id);
    tx->waited = entry->waited;
    tx->attempts = entry->attempts;
    tx->now_us = now_us;
    tx->ring_before = tx->ring;
    struct pipeline pipeline;
    tx_pipeline(tx, &pipeline);
    session_params(tx->session);
    if (tx->stage >= STAGE_SAVED) {
        pipeline_add(&pipeline, POSTGRES_QUERY_TX_RELEASE);
    }
    pipeline_add(&pipeline, POSTGRES_QUERY_TX_SAVE);
    param_int8(fill_hold(tx), tx->position);
    pipeline_add(&pipeline, POSTGRES_QUERY_TX_ENTER);
    status = tx_pipeline_end(tx, &pipeline);
    if (!status) {
        tx->stage = STAGE_SAVED;
        status = read_enter(pipeline.items[pipeline.count - 1].result);
    }
    pipeline_release(&pipeline);
    if (!status) {
        tx->stage = STAGE_INSIDE;
        tx->passing = false;
        tx->sqlstate[0] = '\0';
        PQsetnonblocking(tx->session->pg, 0); /* applications expect a connection that waits */
    }
    return status;
}

/* Settles the delivery; it is undone if that cannot be. */
static hf_status tx_settle(struct postgres_tx *tx, bool *ret_lane_busy)
{
    PGresult *result;
    fill_settle(tx, NULL, 0);
    hf_status status = session_query(tx->session, POSTGRES_QUERY_TX_SETTLE, &result);
    if (!status) {
        read_settle(result, ret_lane_busy, NULL, 0);
        PQclear(result);
        HF_POINT("tx_after_settle");
        return HF_OK;
    }
    status = tx_failed(tx, status);
    return session_is_lost(tx->session) ? status : tx_undo(tx, status);
}

/* The handler has returned. */
static hf_status tx_return(struct postgres_tx *tx, bool *ret_broken)
{
    hf_status status = tx_resume(tx, ret_broken);
    if (!status && tx->stage != STAGE_INSIDE) {
        status = fail(HF_MISUSE, "no delivery has been begun");
    }
    if (!status) {
        tx->stage = STAGE_SAVED;
    }
    return status;
}

/* Why nothing of what the handler wrote can be kept, though it answered that all is well. */
static hf_status fail_broken(const struct postgres_tx *tx)
{
    return postgres_is_passing(tx->sqlstate)
               ? fail_passing(tx)
               : fail(HF_MISUSE,
                      "a statement of the handler failed (%s), so nothing of it can be "
                      "kept, but it answered that all is well",
                      tx->sqlstate);
}

hf_status postgres_tx_leave(struct tx *base, bool keep, bool *ret_lane_busy)
{
    struct postgres_tx *tx = (struct postgres_tx *)base;
    bool broken;
    hf_status status = tx_return(tx, &broken);
    if (status) {
        return status;
    }
    bool busy = false;
    if (keep && !broken) {
        status = tx_settle(tx, &busy);
    } else if (keep) {
        status = tx_undo(tx, fail_broken(tx));
    } else {
        bool passing = tx->passing || (broken && postgres_is_passing(tx->sqlstate));
        status = tx_undo(tx, passing ? fail_passing(tx) : HF_OK);
    }
    if (!status) {
        *ret_lane_busy = busy;
    }
    return status;
}

hf_status postgres_tx_finish(struct tx *base, bool *ret_lane_busy)
{
    size_t settled;
    return postgres_tx_finish_unit(base, NULL, 0, ret_lane_busy, &settled);
}

/* Which of them a conflict was about; count + 1 if that is not known. */
static size_t index_of_conflict(const struct postgres_tx *tx, const struct tx_member *others,
                                size_t count)
{
    size_t i = 0;
    while (i < count && others[i].entry->event.position != tx->conflict) {
        i++;
    }
    return tx->conflict == tx->position ? 0 : i + 1;
}

hf_status postgres_tx_finish_unit(struct tx *base, struct tx_member *others, size_t count,
                                  bool *ret_lane_busy, size_t *ret_settled)
{
    struct postgres_tx *tx = (struct postgres_tx *)base;
    *ret_settled = SIZE_MAX;
    bool broken;
    hf_status status = tx_return(tx, &broken);
    if (!status) {
        status = broken ? fail_broken(tx) : tx_last_moment(tx);
    }
    if (status) {
        return tx_ended(tx, status);
    }
    struct pipeline pipeline;
    tx->conflict = -1;
    fill_settle(tx, others, count);
    status = tx_commit_after(tx, POSTGRES_QUERY_TX_SETTLE, &pipeline);
    if (!status) {
        read_settle(pipeline.items[0].result, ret_lane_busy, others, count);
    } else if (pipeline.failed == 0 && tx->conflict >= 0) {
        size_t index = index_of_conflict(tx, others, count);
        *ret_settled = index <= count ? index : SIZE_MAX;
    }
    pipeline_release(&pipeline);
    return tx_ended(tx, status);
}

hf_status postgres_tx_append(struct tx *base, struct append *append)
{
    struct postgres_tx *tx = (struct postgres_tx *)base;
    append->failed_index = SIZE_MAX;
    bool broken;
    hf_status status = tx_resume(tx, &broken);
    if (!status && broken) {
        status = fail(HF_MISUSE, "a statement in this transaction has failed: it takes no more");
    }
    if (!status && tx->stage == STAGE_NEW) {
        struct pipeline pipeline;
        tx_pipeline(tx, &pipeline);
        status = tx_pipeline_end(tx, &pipeline);
        pipeline_release(&pipeline);
    }
    if (!status) {
        status = postgres_append_within(tx->session, append, &tx->ring);
        tx->passing = status != HF_OK && postgres_is_passing(tx->session->sqlstate);
        status = status == HF_OK ? HF_OK : is_aborted(tx) ? fail_aborted() : status;
        if (tx->session->pg) {
            PQsetnonblocking(tx->session->pg, 0);
        }
    }
    append->change.status = status;
    return status;
}

void *postgres_tx_connection(struct tx *base)
{
    return ((struct postgres_tx *)base)->session->pg;
}
