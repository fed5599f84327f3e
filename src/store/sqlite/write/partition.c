/*
 * partition.c - who works for an ordered subscription, and from where: acquire, give back, seek.
 *
 * The row of the partition decides. Its epoch rises with every acquisition and every seek, and each
 * settle compares owner and epoch within its own transaction; writers of the file come one after
 * another, so a former owner that wakes up finds either its own epoch, and then no other process
 * has worked, or another one, and then it is refused. What it did meanwhile outside the database
 * cannot be taken back; transactional handlers are refused the same way (sqlite_enter).
 *
 * Who may take a partition
 *   it has no owner      any process
 *   we have it           we, with a new epoch: whatever ran under the old one is refused
 *   the owner is dead    any process; what it was doing is recorded as failed attempts
 *   it is frozen         any process; its process still exists, so nothing is known to have failed
 *   it is alive          only a process that forces it
 *
 * Recording crashes exactly once. The notes of the dead process name (position, attempt). They are
 * turned into rows in the transaction that takes the partition away from the dead token, so if we
 * die before its commit nothing has happened, and after it the partition names us and the notes are
 * not looked at again for it, even while the file stays for the sake of other partitions. A note
 * may be older than the store: it is written before the handler runs and cleared after the settle,
 * so the delivery may have been settled. Then it is below the checkpoint without a row, or in
 * `settled`, or its row has as many attempts already.
 *
 * Notes are per subscription, the dead process may have owned several partitions of it, and each is
 * recovered by its own acquire: so a note counts only where its event belongs.
 */
#include "store/sqlite/write/partition.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/point.h"
#include "store/common/missing.h"
#include "store/sqlite/file/row.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/append.h"
#include "store/sqlite/write/lease.h"
#include "store/sqlite/write/outcome.h"

#define GIVE_BACK_STEP 64 /* leases looked for at once */

hf_status partition_load(struct sqlite_engine *engine, struct conn *conn, int64_t subscription_id,
                         int32_t partition, struct partition *ret_partition)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_PARTITION_GET);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_int(stmt, 2, subscription_id);
    bind_int(stmt, 3, partition);
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (status) {
        return status;
    }
    if (!row) {
        return missing_subscription(subscription_id);
    }
    struct partition found = {
        .mode = (hf_mode)sqlite3_column_int(stmt, 0),
        .generation = sqlite3_column_int64(stmt, 1),
        .paused = !column_is_null(stmt, 2),
        .partitions = sqlite3_column_int(stmt, 3),
        .exists = !column_is_null(stmt, 4),
        .epoch = sqlite3_column_int64(stmt, 4),
        .checkpoint = sqlite3_column_int64(stmt, 5),
        .turn = sqlite3_column_int(stmt, 6) != 0,
    };
    found.span = (struct span){.number = sqlite3_column_int64(stmt, 9),
                               .from = column_int(stmt, 10, -1),
                               .before = column_int(stmt, 11, -1)};
    found.doubt_through = sqlite3_column_int64(stmt, 12);
    found.owned = column_blob(stmt, 7, found.owner, sizeof found.owner);
    snprintf(found.owner_name, sizeof found.owner_name, "%" TEXT_PRI,
             TEXT_ARG(column_text(stmt, 8)));
    conn_done(stmt);
    *ret_partition = found;
    return HF_OK;
}

hf_status partition_check(struct sqlite_engine *engine, const struct partition *partition,
                          int32_t number, int64_t epoch)
{
    if (!partition->exists || partition->mode != HF_MODE_ORDERED) {
        return fail(HF_STALE, "there is no partition %d to be the owner of", number);
    }
    if (!partition->owned || memcmp(partition->owner, engine->token, sizeof engine->token) != 0) {
        return fail(HF_STALE, "partition %d now belongs to %s", number,
                    partition->owned ? partition->owner_name : "no process");
    }
    if (partition->epoch != epoch) {
        return fail(HF_STALE,
                    "partition %d was acquired again or sought: its epoch is %lld, not %lld",
                    number, (long long)partition->epoch, (long long)epoch);
    }
    return HF_OK;
}

hf_status partition_check_generation(const struct partition *partition, int64_t generation)
{
    if (generation != 0 && generation != partition->generation) {
        return fail(HF_CONFLICT,
                    "the subscription has been changed: its generation is %lld, not %lld",
                    (long long)partition->generation, (long long)generation);
    }
    return HF_OK;
}

/* ---- Moving on ------------------------------------------------------------------------------- */

static void bind_known(sqlite3_stmt *stmt, int at, int64_t value)
{
    if (value < 0) {
        bind_null(stmt, at);
    } else {
        bind_int(stmt, at, value);
    }
}

/* Three parameters, from `first` on. */
static void bind_span(sqlite3_stmt *stmt, int first, struct span span)
{
    bind_int(stmt, first, span.number);
    bind_known(stmt, first + 1, span.from);
    bind_known(stmt, first + 2, span.before);
}

hf_status partition_move(struct conn *conn, int64_t subscription_id, const struct mark *mark,
                         const struct partition *stored, int64_t now_us)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_PARTITION_MOVE);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, subscription_id);
    bind_int(stmt, 2, mark->partition);
    bind_int(stmt, 3, mark->checkpoint);
    bind_int(stmt, 4, now_us);
    bind_blob(stmt, 5, mark->last_event_id, 16);
    bind_span(stmt, 6, span_move(stored->span, stored->checkpoint, now_us));
    return conn_run(conn, stmt);
}

hf_status partition_move_cursor(struct conn *conn, int64_t subscription_id, int64_t cursor,
                                bool turn, bool claimed, const struct partition *stored,
                                int64_t now_us)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_PARTITION_MOVE_CURSOR);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, subscription_id);
    bind_int(stmt, 2, cursor);
    bind_int(stmt, 3, turn ? 1 : 0);
    bind_span(stmt, 4, span_move(stored->span, stored->checkpoint, now_us));
    if (claimed) {
        bind_int(stmt, 7, now_us);
    }
    return conn_run(conn, stmt);
}

/* ---- Acquiring ------------------------------------------------------------------------------- */

/* Turning the notes of a dead owner into failed attempts. */
struct recovery {
    struct sqlite_engine *engine;
    struct conn *conn;
    const struct partition *partition;
    struct outcome_scope scope;
    int32_t crashed;
    int32_t running; /* handlers of all subscriptions that ran in the dead process */
};

/* Whether a delivery without a row in retries may have been running: it is of this partition, above
 * the checkpoint and not settled. */
static hf_status is_open(struct recovery *recovery, int64_t position, bool *ret_open)
{
    const struct outcome_scope *scope = &recovery->scope;
    *ret_open = false;
    if (position <= scope->checkpoint) {
        return HF_OK;
    }
    bool settled = false;
    int64_t one;
    hf_status status = STATEMENT_INT(recovery->conn, SQLITE_QUERY_SETTLED_HAS, &settled, &one,
                                     scope->subscription_id, scope->partition, position);
    if (status || settled) {
        return status;
    }
    sqlite3_stmt *stmt = NULL;
    status =
        row_find(recovery->engine, recovery->conn, scope->subscription_id, position, false, &stmt);
    if (!status && stmt) {
        int64_t hash = sqlite3_column_int64(stmt, ROW_HASH);
        conn_done(stmt);
        *ret_open = hash_slice(hash, recovery->partition->partitions) == scope->partition;
    }
    return status;
}

static hf_status record_note(const struct handler_note *note, void *ctx)
{
    int64_t position = note->position;
    int32_t attempt = note->attempt;
    struct recovery *recovery = ctx;
    const struct outcome_scope *scope = &recovery->scope;
    sqlite3_stmt *stmt = conn_statement(recovery->conn, SQLITE_QUERY_RETRY_GET);
    if (!stmt) {
        return conn_error(recovery->conn);
    }
    bind_int(stmt, 1, scope->subscription_id);
    bind_int(stmt, 2, position);
    bool row;
    hf_status status = conn_row(recovery->conn, stmt, &row);
    if (status) {
        return status;
    }
    bool ours = row && sqlite3_column_int(stmt, 1) == scope->partition;
    conn_done(stmt);
    if (!row) {
        status = is_open(recovery, position, &ours);
    }
    if (status || !ours) {
        return status;
    }
    struct lost_attempt lost = {
        .position = position,
        .attempt = attempt,
        .cause = CAUSE_DIED,
        .node = text_of(recovery->partition->owner_name),
        .doubtful = recovery->running > 1,
    };
    bool recorded = false;
    status = outcome_record(recovery->engine, recovery->conn, scope, &lost, &recorded);
    recovery->crashed += recorded ? 1 : 0;
    return status;
}

/* The owner's state allows us to take over, or HF_BUSY. */
static hf_status may_take(const struct partition *partition, enum live_state state,
                          const struct acquire *acquire)
{
    if (state != LIVE_ALIVE || acquire->force) {
        return HF_OK;
    }
    return fail(HF_BUSY, "partition %d is owned by %s, which is alive", acquire->partition,
                partition->owner_name);
}

static hf_status take(struct sqlite_engine *engine, struct conn *conn, struct acquire *acquire,
                      int64_t epoch)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_PARTITION_TAKE);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, acquire->subscription_id);
    bind_int(stmt, 2, acquire->partition);
    bind_int(stmt, 3, epoch);
    bind_blob(stmt, 4, engine->token, sizeof engine->token);
    bind_text(stmt, 5, engine->node_name);
    bind_int(stmt, 6, acquire->ret_doubt_through);
    hf_status status = conn_run(conn, stmt);
    HF_POINT("after_acquire_before_commit");
    return status;
}

/* A process had the partition and has not given it back: of what is in the log by now, and of
 * retries that are due, it is not known whether they were handed out. */
static hf_status doubt(struct sqlite_engine *engine, struct conn *conn, struct acquire *acquire)
{
    hf_status status = append_head(engine, conn, &acquire->ret_doubt_through);
    return status ? status
                  : STATEMENT_RUN(conn, SQLITE_QUERY_RETRIES_DOUBT, acquire->subscription_id,
                                  acquire->partition, acquire->change.now_us);
}

hf_status sqlite_acquire(struct sqlite_engine *engine, struct conn *conn, struct acquire *acquire)
{
    struct partition partition;
    hf_status status =
        partition_load(engine, conn, acquire->subscription_id, acquire->partition, &partition);
    if (status) {
        return status;
    }
    if (partition.mode != HF_MODE_ORDERED) {
        return fail(HF_MISUSE, "partitions of a shared subscription cannot be owned");
    }
    if (!partition.exists) {
        return fail(HF_INVALID, "partition is %d; the subscription has %d", acquire->partition,
                    partition.partitions);
    }
    struct recovery recovery = {
        .engine = engine,
        .conn = conn,
        .partition = &partition,
        .scope = {.subscription_id = acquire->subscription_id,
                  .partition = acquire->partition,
                  .ordered = true,
                  .checkpoint = partition.checkpoint,
                  .now_us = acquire->change.now_us,
                  .lane = acquire->lane,
                  .attempts_max = acquire->attempts_max,
                  .doubt_through = partition.doubt_through},
    };
    bool unclean = false;
    acquire->ret_doubt_through = partition.doubt_through;
    if (partition.owned) {
        enum live_state state = live_state(engine, partition.owner, acquire->lease_ms);
        status = may_take(&partition, state, acquire);
        if (!status && (state == LIVE_DEAD || state == LIVE_GONE)) {
            bool exact = false;
            status = live_notes(engine, partition.owner, acquire->subscription_id, record_note,
                                &recovery, &exact, &recovery.running);
            unclean = !exact;
            engine->live.sweep_due = true;
        }
        if (!status) {
            status = doubt(engine, conn, acquire);
        }
    }
    if (!status) {
        status = ahead_lower_partition(conn, acquire);
    }
    if (!status) {
        status = take(engine, conn, acquire, partition.epoch + 1);
    }
    if (status) {
        return status;
    }
    acquire->ret_epoch = partition.epoch + 1;
    acquire->ret_checkpoint = partition.checkpoint;
    acquire->ret_generation = partition.generation;
    acquire->ret_crashed = recovery.crashed;
    acquire->ret_unclean = unclean;
    return HF_OK;
}

/* ---- Giving back ----------------------------------------------------------------------------- */

hf_status sqlite_give_back(struct sqlite_engine *engine, struct conn *conn,
                           struct give_back *give_back)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_PARTITION_GIVE_BACK);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, give_back->subscription_id);
    bind_int(stmt, 2, give_back->partition);
    bind_int(stmt, 3, give_back->epoch);
    bind_blob(stmt, 4, engine->token, sizeof engine->token);
    hf_status status = conn_run(conn, stmt);
    if (!status && conn_changes(conn) == 0) {
        return fail(HF_STALE, "partition %d is not ours any more", give_back->partition);
    }
    conn->ring = RING_ALL;
    return status ? status
                  : STATEMENT_RUN(conn, SQLITE_QUERY_MEMBERS_CHANGED, give_back->subscription_id);
}

/* Runs a statement about what is ours of a subscription. */
static hf_status leave_one(struct sqlite_engine *engine, struct conn *conn, enum sqlite_query query,
                           int64_t subscription_id, bool *any)
{
    sqlite3_stmt *stmt = conn_statement(conn, query);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, subscription_id);
    bind_blob(stmt, 2, engine->token, sizeof engine->token);
    hf_status status = conn_run(conn, stmt);
    *any = *any || (!status && conn_changes(conn) > 0);
    return status;
}

hf_status sqlite_depart(struct sqlite_engine *engine, struct conn *conn, struct depart *depart)
{
    hf_status status = HF_OK;
    for (size_t i = 0; i < depart->count && !status; i++) {
        int64_t id = depart->subscription_ids[i];
        bool any = false;
        status = leave_one(engine, conn, SQLITE_QUERY_PARTITION_DEPART, id, &any);
        if (!status) {
            status = leave_one(engine, conn, SQLITE_QUERY_MEMBER_REMOVE, id, &any);
        }
        if (!status && any) {
            conn->ring = RING_ALL;
            status = STATEMENT_RUN(conn, SQLITE_QUERY_MEMBERS_CHANGED, id);
        }
    }
    depart->ret_left = 0;
    return status;
}

/* Sets up to GIVE_BACK_STEP leases free that name us. ret_count: how many were found. */
static hf_status free_leases(struct sqlite_engine *engine, struct conn *conn, int64_t now_us,
                             size_t *ret_count)
{
    uint8_t tokens[GIVE_BACK_STEP][STORE_TOKEN_BYTES];
    size_t count = 0;
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_LEASE_OWNED);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_blob(stmt, 1, engine->token, sizeof engine->token);
    bool row = true;
    hf_status status = HF_OK;
    while (count < GIVE_BACK_STEP) {
        status = conn_row(conn, stmt, &row);
        if (status || !row) {
            break;
        }
        count += column_blob(stmt, 0, tokens[count], STORE_TOKEN_BYTES) ? 1 : 0;
    }
    if (row) {
        conn_done(stmt);
    }
    for (size_t i = 0; !status && i < count; i++) {
        struct lease lease;
        lease_init(&lease);
        status = lease_load(conn, tokens[i], &lease);
        if (!status) {
            status = lease_set_free(conn, &lease, LEASE_FREE, now_us);
        }
        lease_release(&lease);
    }
    *ret_count = count;
    return status;
}

/* Runs a statement about whatever names us. */
static hf_status forget_us(struct sqlite_engine *engine, struct conn *conn, enum sqlite_query query,
                           bool *any)
{
    sqlite3_stmt *stmt = conn_statement(conn, query);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_blob(stmt, 1, engine->token, sizeof engine->token);
    hf_status status = conn_run(conn, stmt);
    *any = *any || (!status && conn_changes(conn) > 0);
    return status;
}

/* Their runners have not given them back, so what was handed out of them is not known. */
static hf_status give_back_partitions(struct sqlite_engine *engine, struct conn *conn, bool *any)
{
    int64_t head;
    hf_status status = append_head(engine, conn, &head);
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_PARTITION_GIVE_BACK_ALL);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_blob(stmt, 1, engine->token, sizeof engine->token);
    bind_int(stmt, 2,
             status ? 0 : head); /* the namespace may be gone, and the partitions with it */
    status = conn_run(conn, stmt);
    *any = *any || (!status && conn_changes(conn) > 0);
    return status;
}

hf_status sqlite_give_back_all(struct sqlite_engine *engine, struct conn *conn, int64_t now_us)
{
    bool any = false;
    hf_status status = forget_us(engine, conn, SQLITE_QUERY_MEMBERS_CHANGED_BY, &any);
    if (!status) {
        status = forget_us(engine, conn, SQLITE_QUERY_MEMBER_REMOVE_ALL, &any);
    }
    if (!status) {
        status = give_back_partitions(engine, conn, &any);
    }
    size_t count = GIVE_BACK_STEP;
    while (!status && count == GIVE_BACK_STEP) {
        status = free_leases(engine, conn, now_us, &count);
        any = any || count > 0;
    }
    conn->ring = any ? RING_ALL : conn->ring;
    return status;
}

/* ---- Seeking --------------------------------------------------------------------------------- */

hf_status sqlite_seek(struct sqlite_engine *engine, struct conn *conn, struct seek *seek)
{
    int64_t head;
    hf_status status = append_head(engine, conn, &head);
    if (status) {
        return status;
    }
    if (seek->position < 0 || seek->position > head) {
        return fail(HF_INVALID, "position %lld is outside the log, which ends at %lld",
                    (long long)seek->position, (long long)head);
    }
    status = STATEMENT_RUN(conn, SQLITE_QUERY_SUBSCRIPTION_SEEK, engine->namespace_id,
                           seek->subscription_id, seek->position);
    if (status) {
        return status;
    }
    if (conn_changes(conn) == 0) {
        return missing_subscription(seek->subscription_id);
    }
    status = STATEMENT_RUN(conn, SQLITE_QUERY_PARTITION_SEEK, seek->subscription_id, seek->position,
                           seek->change.now_us, span_number(seek->change.now_us));
    HF_POINT("mid_seek");
    static const enum sqlite_query steps[] = {
        SQLITE_QUERY_SUBSCRIPTION_DROP_LEASES,
        SQLITE_QUERY_SUBSCRIPTION_DROP_RETRIES,
        SQLITE_QUERY_SUBSCRIPTION_DROP_COPIES,
    };
    static const enum sqlite_query passed[] = {
        SQLITE_QUERY_CANCELS_SEEK,
        SQLITE_QUERY_SETTLED_SEEK,
        SQLITE_QUERY_SUBSCRIPTION_DROP_OUTCOMES,
    };
    for (size_t i = 0; !status && i < sizeof steps / sizeof steps[0]; i++) {
        status = STATEMENT_RUN(conn, steps[i], seek->subscription_id);
    }
    for (size_t i = 0; !status && i < sizeof passed / sizeof passed[0]; i++) {
        status = STATEMENT_RUN(conn, passed[i], seek->subscription_id, seek->position);
    }
    conn->ring = RING_ALL;
    return status;
}
