/*
 * cancel.c - settling a delivery as cancelled. See store/cancel.h.
 *
 * Writers of the file come one after another, so what is looked at here stays so until the commit:
 * a partition without a living owner gets none meanwhile, and an event that no lease has is not
 * claimed meanwhile. What another process may have in its memory is not known here: then a request
 * is stored, and that process decides.
 */
#include "store/cancel.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/point.h"
#include "store/sqlite/file/lookup.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/lease.h"
#include "store/sqlite/write/outcome.h"
#include "store/sqlite/write/partition.h"

/* One cancel on its way. */
struct work {
    struct sqlite_engine *engine;
    struct conn *conn;
    struct cancel *cancel;
    struct outcome_scope scope;
    struct partition partition;
    enum retry_kind kind; /* of its row in retries */
    bool requested;       /* there is a request */
    bool marked;          /* there is a mark */
};

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Is there a mark or a request, and a row in retries? */
static hf_status load_rows(struct work *work)
{
    const struct cancel *cancel = work->cancel;
    sqlite3_stmt *stmt = conn_statement(work->conn, SQLITE_QUERY_CANCEL_GET);
    if (!stmt) {
        return conn_error(work->conn);
    }
    bind_int(stmt, 1, cancel->subscription_id);
    bind_int(stmt, 2, cancel->position);
    bool row;
    hf_status status = conn_row(work->conn, stmt, &row);
    if (status) {
        return status;
    }
    work->marked = row && !column_is_null(stmt, 0);
    work->requested = row && !work->marked;
    conn_done(stmt);
    bool waits;
    int64_t kind = RETRY_NONE;
    status = STATEMENT_INT(work->conn, SQLITE_QUERY_RETRY_GET, &waits, &kind,
                           cancel->subscription_id, cancel->position);
    work->kind = (enum retry_kind)kind;
    return status;
}

static hf_status put_row(struct work *work, bool mark)
{
    const struct cancel *cancel = work->cancel;
    sqlite3_stmt *stmt = conn_statement(work->conn, SQLITE_QUERY_CANCEL_PUT);
    if (!stmt) {
        return conn_error(work->conn);
    }
    bind_int(stmt, 1, cancel->subscription_id);
    bind_int(stmt, 2, cancel->position);
    bind_int(stmt, 3, cancel->hash);
    bind_int(stmt, 4, cancel->change.now_us);
    if (mark) {
        bind_int(stmt, 5, cancel->change.now_us);
    }
    bind_text(stmt, 6, cancel->by);
    bind_text(stmt, 7, cancel->reason);
    return conn_run(work->conn, stmt);
}

/* The process that may have the event is asked; once more, if it was before: another one may have
 * taken its place. */
static hf_status ask(struct work *work)
{
    struct cancel *cancel = work->cancel;
    cancel->ret_state = CANCEL_ASKED;
    hf_status status = work->requested ? HF_OK : put_row(work, false);
    work->conn->ring = RING_ALL;
    return status ? status
                  : STATEMENT_RUN(work->conn, SQLITE_QUERY_CANCELS_TELL, cancel->subscription_id);
}

/* It cannot be cancelled any more. */
static hf_status refuse(struct work *work)
{
    work->cancel->ret_state = CANCEL_SETTLED;
    return work->requested ? STATEMENT_RUN(work->conn, SQLITE_QUERY_CANCEL_REMOVE,
                                           work->cancel->subscription_id, work->cancel->position)
                           : HF_OK;
}

/* Its row in retries goes, with its copy; its story is kept. */
static hf_status end_waiting(struct work *work)
{
    struct cancel *cancel = work->cancel;
    const struct outcome_scope *scope = &work->scope;
    cancel->ret_waited = work->kind != RETRY_NONE;
    if (!cancel->ret_waited) {
        return HF_OK;
    }
    hf_status status =
        STATEMENT_RUN(work->conn, SQLITE_QUERY_CANCEL_KEEP, scope->subscription_id,
                      cancel->position, scope->now_us, scope->ordered, scope->doubt_through);
    if (!status) {
        status = STATEMENT_RUN(work->conn, SQLITE_QUERY_OUTCOMES_TRIM, scope->subscription_id);
    }
    bool left = false;
    int64_t lane = 0;
    if (!status) {
        status = STATEMENT_INT(work->conn, SQLITE_QUERY_RETRY_REMOVE, &left, &lane,
                               scope->subscription_id, cancel->position);
    }
    if (!status) {
        status = STATEMENT_RUN(work->conn, SQLITE_QUERY_COPY_REMOVE, scope->subscription_id,
                               cancel->position);
    }
    return status || !scope->ordered
               ? status
               : outcome_promote(work->conn, scope, (uint64_t)lane, &cancel->ret_lane_busy);
}

/* No process has it: it is cancelled from now on. */
static hf_status mark(struct work *work)
{
    struct cancel *cancel = work->cancel;
    hf_status status = end_waiting(work);
    if (!status && cancel->position > work->partition.checkpoint) {
        status = STATEMENT_RUN(work->conn, SQLITE_QUERY_SETTLED_ADD, cancel->subscription_id,
                               work->scope.partition, cancel->position);
    }
    HF_POINT("mid_cancel");
    if (!status) {
        status = work->requested
                     ? STATEMENT_RUN(work->conn, SQLITE_QUERY_CANCEL_MARK, cancel->subscription_id,
                                     cancel->position, cancel->change.now_us)
                     : put_row(work, true);
    }
    work->conn->ring = RING_ALL;
    cancel->ret_state = CANCEL_MARKED;
    return status;
}

/* ---- Ordered --------------------------------------------------------------------------------- */

/* Has it neither a row nor its turn still to come? */
static hf_status is_settled(struct work *work, bool *ret_settled)
{
    const struct cancel *cancel = work->cancel;
    *ret_settled = work->kind == RETRY_BLOCKED ||
                   (work->kind == RETRY_NONE && cancel->position <= work->partition.checkpoint);
    if (*ret_settled || work->kind != RETRY_NONE) {
        return HF_OK;
    }
    int64_t one;
    return STATEMENT_INT(work->conn, SQLITE_QUERY_SETTLED_HAS, ret_settled, &one,
                         cancel->subscription_id, work->scope.partition, cancel->position);
}

static hf_status cancel_ordered(struct work *work)
{
    const struct cancel *cancel = work->cancel;
    const struct partition *partition = &work->partition;
    bool settled;
    hf_status status = is_settled(work, &settled);
    if (status || settled) {
        return status ? status : refuse(work);
    }
    if (cancel->part != CANCEL_REQUEST) {
        status =
            partition_check(work->engine, partition, cancel->hold.partition, cancel->hold.epoch);
        bool done = cancel->part == CANCEL_WAITING && work->kind == RETRY_NONE;
        return status ? status : done ? refuse(work) : mark(work);
    }
    if (partition->owned && sqlite_owner_is_alive(work->engine, partition->owner)) {
        return ask(work);
    }
    if (partition->owned) {
        status = STATEMENT_RUN(work->conn, SQLITE_QUERY_PARTITION_FENCE, cancel->subscription_id,
                               work->scope.partition);
    }
    return status ? status : mark(work);
}

/* ---- Shared ---------------------------------------------------------------------------------- */

/* The lease that has it, into one that was initialised; *ret_at is SIZE_MAX if none has. */
static hf_status find_lease(struct work *work, struct lease *lease, size_t *ret_at)
{
    sqlite3_stmt *stmt = conn_statement(work->conn, SQLITE_QUERY_LEASE_LIST);
    if (!stmt) {
        return conn_error(work->conn);
    }
    bind_int(stmt, 1, work->cancel->subscription_id);
    bind_int(stmt, 2, work->cancel->position);
    hf_status status = HF_OK;
    bool row = true;
    *ret_at = SIZE_MAX;
    while (!status && *ret_at == SIZE_MAX) {
        status = conn_row(work->conn, stmt, &row);
        if (status || !row) {
            return status;
        }
        uint8_t token[STORE_TOKEN_BYTES];
        if (column_blob(stmt, 0, token, sizeof token)) {
            status = lease_load(work->conn, token, lease);
        }
        if (!status) {
            *ret_at = lease_find(lease->positions, lease->count, work->cancel->position);
        }
    }
    conn_done(stmt);
    return status;
}

static bool is_of_hold(const struct cancel *cancel, const struct lease *lease)
{
    return cancel->hold.leased && lease->piece == LEASE_HELD &&
           memcmp(cancel->hold.lease, lease->token, sizeof lease->token) == 0;
}

static hf_status cancel_leased(struct work *work, struct lease *lease, size_t at)
{
    const struct cancel *cancel = work->cancel;
    if (cancel->part != CANCEL_REQUEST && !is_of_hold(cancel, lease)) {
        return fail(HF_STALE, "position %lld is not in the lease", (long long)cancel->position);
    }
    if (cancel->part == CANCEL_REQUEST && lease->kept && lease->piece == LEASE_HELD &&
        !lease_is_over(work->engine, lease, cancel->change.now_us)) {
        return ask(work);
    }
    lease_cut(lease, at);
    hf_status status = lease_update(work->conn, lease);
    return status ? status : mark(work);
}

static hf_status cancel_shared(struct work *work)
{
    const struct cancel *cancel = work->cancel;
    struct lease lease;
    size_t at = SIZE_MAX;
    lease_init(&lease);
    hf_status status = find_lease(work, &lease, &at);
    bool settled = false;
    if (!status && at == SIZE_MAX) {
        status = is_settled(work, &settled);
    }
    if (status) {
        lease_release(&lease);
        return status;
    }
    if (at != SIZE_MAX) {
        status = cancel_leased(work, &lease, at);
    } else if (settled) {
        status = refuse(work);
    } else if (cancel->part != CANCEL_REQUEST) {
        status = fail(HF_STALE, "position %lld is in no lease", (long long)cancel->position);
    } else {
        status = mark(work);
    }
    lease_release(&lease);
    return status;
}

/* ---- Both ------------------------------------------------------------------------------------ */

/* The partition of the event, which is 0 of a shared subscription. */
static hf_status load_partition(struct work *work)
{
    const struct cancel *cancel = work->cancel;
    struct partition *partition = &work->partition;
    hf_status status =
        partition_load(work->engine, work->conn, cancel->subscription_id, 0, partition);
    if (status || partition->mode != HF_MODE_ORDERED) {
        return status;
    }
    work->scope.ordered = true;
    work->scope.partition = hash_slice(cancel->hash, partition->partitions);
    return partition_load(work->engine, work->conn, cancel->subscription_id, work->scope.partition,
                          partition);
}

hf_status sqlite_cancel(struct sqlite_engine *engine, struct conn *conn, struct cancel *cancel)
{
    struct work work = {
        .engine = engine,
        .conn = conn,
        .cancel = cancel,
        .scope = {.subscription_id = cancel->subscription_id, .now_us = cancel->change.now_us},
    };
    cancel->ret_waited = false;
    cancel->ret_lane_busy = false;
    hf_status status = load_partition(&work);
    if (!status) {
        status = load_rows(&work);
    }
    if (status) {
        return status;
    }
    work.scope.checkpoint = work.partition.checkpoint;
    work.scope.doubt_through = work.partition.doubt_through;
    cancel->ret_state = work.marked ? CANCEL_BEFORE : CANCEL_NONE;
    if (cancel->part == CANCEL_WITHDRAW && work.requested) {
        return STATEMENT_RUN(conn, SQLITE_QUERY_CANCEL_REMOVE, cancel->subscription_id,
                             cancel->position);
    }
    if (work.marked || (cancel->part != CANCEL_REQUEST && !work.requested)) {
        return HF_OK;
    }
    return work.scope.ordered ? cancel_ordered(&work) : cancel_shared(&work);
}

hf_status sqlite_cancels(struct engine *engine, int64_t subscription_id, int32_t max,
                         cancel_fn found, void *ctx)
{
    struct lookup lookup;
    if (lookup_begin(&lookup, engine, SQLITE_QUERY_CANCELS_REQUESTED)) {
        bind_int(lookup.stmt, 1, subscription_id);
        bind_int(lookup.stmt, 2, max);
    }
    for (int enough = 0; !enough && lookup_next(&lookup);) {
        int64_t position = sqlite3_column_int64(lookup.stmt, 0);
        enough = found(position, sqlite3_column_int64(lookup.stmt, 1), ctx);
    }
    return lookup_end(&lookup);
}
