/*
 * claim.c - handing out events of a shared subscription under a lease.
 *
 * A claim takes, in this order, what waits and is due, what is left of ended leases, and then the
 * log after the cursor; one row per batch is written, the lease, and the cursor moves. Whatever is
 * handed out is in the lease before the transaction commits, so at every moment an event is
 * either above the cursor or in a lease:
 *
 *     log -- cursor --> lease -- settled --> done, retries, dead letter
 *                         |  ended without an answer (orphan.c)
 *                         v
 *                       lease of the next claim, or retries
 *
 * That order says which events a claim takes when there are more than it may take; of retries,
 * those that have been due for longest. In the batch all of them come in the order of the log, so
 * that events of one key that are retried together keep their order.
 *
 * A retry that is handed out keeps its row, marked as leased (kind 4), because its story is there.
 *
 * A piece of a suspect lease (orphan.c) makes up a batch of its own; a retry whose last attempt was
 * lost with its lease (kind 5) is handed out alone. Both may be what kills the worker that takes
 * it, so nothing else is in the same lease. When both a suspect and due retries wait, the one that
 * has waited longer goes first; retries of kind 5 take turns with everything else (`turn`, stored,
 * because the process that had the last one may be dead). So nothing starves, and a poison event
 * costs its neighbours little.
 *
 * Two processes that claim at the same moment come one after another and see each other's lease and
 * cursor. A claim whose commit fails has handed out nothing: its caller gets the failure and drops
 * the batch. A claim that is lost in a power failure (it is relaxed) takes its cursor with it, and
 * the events come again.
 *
 * The log is read up to STORE_CLAIM_ROWS_MAX rows per claim: a subscription that wants one type in
 * a million must not hold up the other writers while it looks for it. If the namespace has an index
 * on types, and few of the rows are wanted, the rest is found by that.
 */
#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/uuid.h"
#include "store/common/batch.h"
#include "store/common/checksum.h"
#include "store/common/filter.h"
#include "store/sqlite/file/row.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/append.h"
#include "store/sqlite/write/lease.h"
#include "store/sqlite/write/orphan.h"
#include "store/sqlite/write/outcome.h"
#include "store/sqlite/write/partition.h"
#include "store/sqlite/write/typed.h"

/* One claim on its way. */
struct work {
    struct sqlite_engine *engine;
    struct conn *conn;
    struct claim *claim;
    struct outcome_scope scope;
    size_t first; /* of our entries in the batch */
    int64_t cursor;
    bool turn;         /* a retry was handed out alone, so it is the others' turn */
    bool cursor_ahead; /* it was stored by a clock that was ahead */
    bool has_retries;  /* some of our entries have rows in retries */
    bool ahead;        /* of the log after the cursor not everything is to be read */
    bool more;
    struct orphans orphans;
};

/* How many events may still be added. */
static size_t room(const struct work *work)
{
    size_t taken = work->claim->batch->count - work->first;
    size_t max = (size_t)work->claim->max;
    return taken >= max || batch_full(work->claim->batch) ? 0 : max - taken;
}

/* ---- Retries --------------------------------------------------------------------------------- */

/* Those of this kind that are due, at most `max`. */
static hf_status take_retries(struct work *work, enum retry_kind kind, size_t max)
{
    sqlite3_stmt *stmt = conn_statement(work->conn, SQLITE_QUERY_RETRIES_DUE);
    if (!stmt) {
        return conn_error(work->conn);
    }
    struct batch *batch = work->claim->batch;
    size_t first = batch->count;
    bind_int(stmt, 1, work->scope.subscription_id);
    bind_int(stmt, 2, work->scope.partition);
    bind_int(stmt, 3, work->scope.now_us);
    bind_int(stmt, 4, (int64_t)max);
    bind_int(stmt, 5, kind);
    bool row = true;
    hf_status status = HF_OK;
    while (!status && room(work) > 0) {
        status = conn_row(work->conn, stmt, &row);
        if (status || !row) {
            break;
        }
        struct entry *entry;
        status = row_push_waiting(work->engine, work->conn, work->scope.subscription_id,
                                  sqlite3_column_int64(stmt, 0), stmt, 1, batch, &entry);
    }
    conn_done(stmt);
    work->has_retries = work->has_retries || batch->count > first;
    /* Only now: the statement walked along the kind. */
    for (size_t i = first; !status && i < batch->count; i++) {
        status = STATEMENT_RUN(work->conn, SQLITE_QUERY_RETRY_LEASE, work->scope.subscription_id,
                               batch->entries[i].event.position);
    }
    return status;
}

/* ---- What is left of ended leases ------------------------------------------------------------ */

/* Hands out once more what is at this place of an ended lease. */
static hf_status take_again(struct work *work, const struct lease *lease, size_t at)
{
    struct entry *entry;
    hf_status status =
        row_push_leased(work->engine, work->conn, lease->subscription_id, lease->positions[at],
                        lease->has_retries, work->claim->batch, &entry);
    if (status || !entry) {
        return status;
    }
    if (!entry->waited) {
        entry->handed = lease_times(lease, at);
        return HF_OK;
    }
    work->has_retries = true;
    entry->handed += entry->handed >= 0 ? 1 : 0; /* with the lease that has ended */
    return STATEMENT_RUN(work->conn, SQLITE_QUERY_RETRY_LEASE, lease->subscription_id,
                         lease->positions[at]);
}

/* Takes up to `max` events out of the list; the row is the caller's to update. */
static hf_status take_from(struct work *work, struct lease *lease, size_t max)
{
    size_t taken = 0;
    hf_status status = HF_OK;
    while (!status && taken < lease->count && taken < max && room(work) > 0) {
        status = take_again(work, lease, taken++);
    }
    lease->count -= taken;
    for (size_t i = 0; i < lease->count; i++) {
        lease_move(lease, i, i + taken);
    }
    return status;
}

static hf_status take_free(struct work *work)
{
    hf_status status = HF_OK;
    for (size_t i = 0; !status && i < work->orphans.free_count && room(work) > 0; i++) {
        struct lease lease;
        lease_init(&lease);
        status = lease_load(work->conn, work->orphans.free[i], &lease);
        if (!status) {
            status = take_from(work, &lease, SIZE_MAX);
        }
        if (!status) {
            status = lease_update(work->conn, &lease);
        }
        lease_release(&lease);
    }
    return status;
}

/* One piece of the suspect lease, alone. */
static hf_status take_suspect(struct work *work)
{
    struct lease lease;
    lease_init(&lease);
    hf_status status = lease_load(work->conn, work->orphans.suspect_token, &lease);
    if (!status) {
        bool held = lease.piece == LEASE_HELD;
        int32_t piece = held ? (int32_t)(lease.count + 1) / 2 : lease.piece;
        status = take_from(work, &lease, (size_t)piece);
        if (!status) {
            status = held ? lease_set_free(work->conn, &lease, piece, work->scope.now_us)
                          : lease_update(work->conn, &lease);
        }
    }
    work->more = true;
    lease_release(&lease);
    return status;
}

/* ---- The log --------------------------------------------------------------------------------- */

/* Whether there is something above the cursor that is not to be read from the log: a retry (a dead
 * letter was retried after a seek back), or what is cancelled. */
static hf_status look_ahead(struct work *work)
{
    bool found = false;
    int64_t highest = 0;
    hf_status status = STATEMENT_INT(work->conn, SQLITE_QUERY_CLAIM_AHEAD, &found, &highest,
                                     work->scope.subscription_id);
    work->ahead = found && highest > work->cursor;
    return status;
}

/* Whether this position is one of them. */
static hf_status is_ahead(struct work *work, int64_t position, bool *ret_ahead)
{
    int64_t found;
    hf_status status = STATEMENT_INT(work->conn, SQLITE_QUERY_RETRY_GET, ret_ahead, &found,
                                     work->scope.subscription_id, position);
    if (!status && !*ret_ahead) {
        status = STATEMENT_INT(work->conn, SQLITE_QUERY_SETTLED_HAS, ret_ahead, &found,
                               work->scope.subscription_id, 0, position);
    }
    return status;
}

/* One row of the log: in the batch, if it is wanted. */
static hf_status take_row(struct work *work, sqlite3_stmt *stmt)
{
    const struct filter *filter = &work->claim->filter;
    bool wanted = filter_matches(filter, row_type(stmt));
    if (!wanted && !filter->unhandled_too) {
        return HF_OK;
    }
    if (work->ahead) {
        bool passed = false;
        hf_status status =
            is_ahead(work, position_of(sqlite3_column_int64(stmt, ROW_POSITION)), &passed);
        if (status || passed) {
            return status;
        }
    }
    struct entry *entry;
    hf_status status = row_push(work->claim->batch, stmt, &entry);
    if (!status) {
        entry->unhandled = !wanted;
    }
    return status;
}

/* Takes events by the index on types, and moves the cursor over those that are not wanted.
 * `*ret_used`: whether there is such an index. `*ret_end`: there is nothing more in the log. */
static hf_status take_typed(struct work *work, bool *ret_used, bool *ret_end)
{
    struct typed typed = {0};
    hf_status status = typed_find(work->engine, work->conn, &work->claim->filter, work->cursor,
                                  (int32_t)room(work), &typed, ret_used);
    if (status || !*ret_used) {
        return status;
    }
    size_t taken = 0;
    while (!status && taken < typed.count && room(work) > 0) {
        sqlite3_stmt *stmt = NULL;
        status = row_find(work->engine, work->conn, 0, typed.positions[taken], false, &stmt);
        if (!status && stmt) {
            status = take_row(work, stmt);
            conn_done(stmt);
        }
        work->cursor = status ? work->cursor : typed.positions[taken++];
    }
    if (!status && taken == typed.count) {
        work->cursor = typed.through;
        *ret_end = !typed.cut;
    }
    typed_release(&typed);
    return status;
}

/* Takes up to `max` rows after the cursor. `*ret_end`: there are no more. */
static hf_status take_rows(struct work *work, int max, bool *ret_end)
{
    sqlite3_stmt *stmt = conn_statement(work->conn, SQLITE_QUERY_READ_LOG);
    if (!stmt) {
        return conn_error(work->conn);
    }
    bind_int(stmt, 1, place_of(work->engine, work->cursor));
    bind_int(stmt, 2, place_of(work->engine, PLACE_POSITION_MAX));
    bool row = true;
    hf_status status = HF_OK;
    for (int rows = 0; !status && rows < max && room(work) > 0; rows++) {
        status = conn_row(work->conn, stmt, &row);
        if (status || !row) {
            break;
        }
        int64_t position = position_of(sqlite3_column_int64(stmt, ROW_POSITION));
        status = take_row(work, stmt);
        work->cursor = status == HF_OK ? position : work->cursor;
    }
    conn_done(stmt);
    *ret_end = !row;
    return status;
}

static hf_status take_log(struct work *work)
{
    bool end = false;
    bool typed = false;
    size_t before = room(work);
    hf_status status = look_ahead(work);
    if (!status) {
        status = take_rows(work, FILTER_SPARSE_ROWS, &end);
    }
    int64_t found = (int64_t)(before - room(work));
    if (!status && !end && room(work) > 0 &&
        filter_is_sparse(&work->claim->filter, FILTER_SPARSE_ROWS, found)) {
        status = take_typed(work, &typed, &end);
    }
    if (!status && !end && !typed) {
        status = take_rows(work, STORE_CLAIM_ROWS_MAX - FILTER_SPARSE_ROWS, &end);
    }
    work->more = work->more || !end;
    if (!status && end) {
        /* Nothing is left, also where retention has taken the log's end away. */
        int64_t head;
        status = append_head(work->engine, work->conn, &head);
        if (!status && head > work->cursor) {
            work->cursor = head;
        }
    }
    return status;
}

/* ---- The claim ------------------------------------------------------------------------------- */

/* When the first retry of this kind is or was due; INT64_MAX if there is none. */
static hf_status first_due(struct work *work, enum retry_kind kind, int64_t after_us,
                           int64_t *ret_due_us)
{
    bool found;
    *ret_due_us = INT64_MAX;
    return STATEMENT_INT(work->conn, SQLITE_QUERY_RETRIES_NEXT, &found, ret_due_us,
                         work->scope.subscription_id, work->scope.partition, after_us, kind);
}

/* Everything but the retries that are handed out alone. */
static hf_status take_together(struct work *work)
{
    hf_status status = HF_OK;
    if (work->orphans.suspect) {
        int64_t due_us;
        status = first_due(work, RETRY_WAITING, INT64_MIN, &due_us);
        bool retries_first =
            due_us <= work->scope.now_us && due_us <= work->orphans.suspect_since_us;
        if (!status && !retries_first) {
            return take_suspect(work);
        }
        work->more = true;
    }
    if (!status) {
        status = take_retries(work, RETRY_WAITING, room(work));
    }
    if (!status) {
        status = take_free(work);
    }
    if (!status && room(work) > 0) {
        status = take_log(work);
    }
    return status;
}

static hf_status take(struct work *work)
{
    int64_t due_us;
    hf_status status = first_due(work, RETRY_ALONE, INT64_MIN, &due_us);
    bool alone = due_us <= work->scope.now_us;
    if (!status && !(alone && !work->turn)) {
        status = take_together(work);
        work->more = work->more || alone;
    }
    bool empty = work->claim->batch->count == work->first;
    if (!status && alone && empty) {
        status = take_retries(work, RETRY_ALONE, 1);
        work->turn = true;
        work->more = true;
    } else if (!empty) {
        work->turn = false;
    }
    return status;
}

static int compare_entries(const void *a, const void *b)
{
    int64_t left = ((const struct entry *)a)->event.position;
    int64_t right = ((const struct entry *)b)->event.position;
    return left < right ? -1 : left > right;
}

/* Puts our entries of the batch into the order of the log, in which they usually are. */
static void sort_entries(struct work *work)
{
    struct entry *entries = work->claim->batch->entries + work->first;
    size_t count = work->claim->batch->count - work->first;
    for (size_t i = 1; i < count; i++) {
        if (entries[i - 1].event.position > entries[i].event.position) {
            qsort(entries, count, sizeof *entries, compare_entries);
            return;
        }
    }
}

/* The new lease, with everything that is in the batch. */
static hf_status grant(struct work *work, struct lease *lease)
{
    struct claim *claim = work->claim;
    struct batch *batch = claim->batch;
    size_t count = batch->count - work->first;
    lease->positions = mem_alloc(count * sizeof *lease->positions);
    lease->times = mem_alloc(count * sizeof *lease->times);
    if (!lease->positions || !lease->times) {
        return fail(HF_NOMEM, "no memory for a lease of %zu events", count);
    }
    sort_entries(work);
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = &batch->entries[work->first + i];
        lease->positions[i] = entry->event.position;
        lease->times[i] = entry->waited ? 1 : entry->handed < 0 ? -1 : entry->handed + 1;
    }
    lease->count = count;
    lease->subscription_id = claim->subscription_id;
    lease->expires_at_us = claim->change.now_us + claim->lease_ms * 1000;
    lease->lease_ms = claim->lease_ms;
    lease->claimed_at_us = claim->change.now_us;
    lease->has_retries = work->has_retries;
    lease->owned = claim->bound || claim->kept;
    memcpy(lease->owner, work->engine->token, sizeof lease->owner);
    snprintf(lease->owner_name, sizeof lease->owner_name, "%" TEXT_PRI,
             TEXT_ARG(work->engine->node_name));
    lease->bound = claim->bound;
    lease->kept = claim->kept;
    static const uint8_t none[STORE_TOKEN_BYTES];
    if (memcmp(claim->lease, none, sizeof none) != 0) {
        memcpy(lease->token, claim->lease, sizeof lease->token);
    } else {
        random_bytes(lease->token, sizeof lease->token);
    }
    return lease_store(work->conn, lease);
}

/* When to look again. */
static hf_status next_wake(struct work *work, const struct lease *granted, int64_t *ret_wake_us)
{
    int64_t wake_us = work->orphans.wake_us;
    int64_t due_us;
    hf_status status = first_due(work, RETRY_WAITING, work->scope.now_us, &due_us);
    wake_us = due_us < wake_us ? due_us : wake_us;
    if (granted->count > 0 && !granted->kept && granted->expires_at_us < wake_us) {
        wake_us = granted->expires_at_us;
    }
    *ret_wake_us = wake_us == INT64_MAX ? -1 : wake_us;
    return status;
}

static hf_status finish(struct work *work, const struct partition *before)
{
    struct claim *claim = work->claim;
    struct lease lease;
    lease_init(&lease);
    hf_status status = HF_OK;
    int64_t wake_us = -1;
    if (claim->batch->count > work->first) {
        status = grant(work, &lease);
    }
    HF_POINT("mid_claim");
    bool claimed = claim->batch->count > work->first;
    if (!status && (claimed || work->cursor_ahead || work->cursor != before->checkpoint ||
                    work->turn != before->turn)) {
        status = partition_move_cursor(work->conn, claim->subscription_id, work->cursor, work->turn,
                                       claimed, before, claim->change.now_us);
    }
    if (!status && work->ahead) { /* what the cursor has passed */
        status = STATEMENT_RUN(work->conn, SQLITE_QUERY_SETTLED_FOLD, claim->subscription_id, 0,
                               work->cursor);
    }
    if (!status) {
        status = next_wake(work, &lease, &wake_us);
    }
    if (!status) {
        memcpy(claim->ret_lease, lease.token, sizeof claim->ret_lease);
        claim->ret_expires_at_us = lease.expires_at_us;
        claim->ret_wake_us = wake_us;
        claim->ret_paused = false;
        claim->ret_more = work->more || work->orphans.more || room(work) == 0;
    }
    lease_release(&lease);
    return status;
}

/* A paused subscription hands out nothing and looks at nothing. */
static void claim_paused(struct claim *claim)
{
    memset(claim->ret_lease, 0, sizeof claim->ret_lease);
    claim->ret_expires_at_us = 0;
    claim->ret_wake_us = -1;
    claim->ret_paused = true;
    claim->ret_more = false;
}

hf_status sqlite_claim(struct sqlite_engine *engine, struct conn *conn, struct claim *claim)
{
    struct partition cursor;
    hf_status status = partition_load(engine, conn, claim->subscription_id, 0, &cursor);
    if (status) {
        return status;
    }
    if (cursor.mode != HF_MODE_SHARED || !cursor.exists) {
        return fail(HF_MISUSE, "events of an ordered subscription cannot be claimed");
    }
    if (claim->max < 1 || claim->max > LEASE_POSITIONS_MAX) {
        return fail(HF_INVALID, "max is %d; the limits are 1 and %d", claim->max,
                    LEASE_POSITIONS_MAX);
    }
    status = partition_check_generation(&cursor, claim->generation);
    if (status) {
        return status;
    }
    if (cursor.paused) {
        claim_paused(claim);
        return HF_OK;
    }
    struct work work = {
        .engine = engine,
        .conn = conn,
        .claim = claim,
        .scope = {.subscription_id = claim->subscription_id,
                  .now_us = claim->change.now_us,
                  .attempts_max = claim->attempts_max},
        .first = claim->batch->count,
        .cursor = cursor.checkpoint,
        .turn = cursor.turn,
    };
    status = ahead_lower_shared(conn, claim, &cursor, &engine->ahead, &work.cursor_ahead);
    if (!status) {
        status = orphans_find(engine, conn, &work.scope, claim->lease_ms, &work.orphans);
    }
    if (!status) {
        status = take(&work);
    }
    if (!status) {
        status = finish(&work, &cursor);
    }
    if (status) {
        claim->batch->count = work.first;
    }
    checksum_check(claim->batch, work.first);
    return status;
}
