/*
 * standing.c - what stands before a subscription: pending events, and who holds which lease.
 *
 * Pending events are counted by walking the log from the checkpoint (shared: the cursor) on, and
 * comparing types. The walk is bounded, because a subscription may want one type in a million and
 * be far behind: STORE_PENDING_ROWS_MIN rows in any case, then more of them as long as there is
 * time. What was counted when it stops is a lower limit, and says so. A brief look ends after
 * STORE_PENDING_BRIEF_ROWS. If few of the first rows
 * match and the namespace has an index on types, the rest is found by that, as long as there is
 * time.
 */
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/set64.h"
#include "base/time/deadline.h"
#include "store/common/filter.h"
#include "store/sqlite/file/row.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/lease.h"
#include "store/sqlite/write/subscription.h"
#include "store/sqlite/write/typed.h"

#define ROWS_PER_LOOK 512 /* at the clock */
#define TYPED_PORTION 256 /* positions that are got from the index on types at once */

/* ---- Pending events -------------------------------------------------------------------------- */

/* One walk. */
struct walk {
    struct sqlite_engine *engine;
    struct conn *conn;
    const struct pending_query *query;
    struct about about;
    int64_t *checkpoints; /* of each partition; owned */
    int64_t lowest;       /* of them */
    struct set64 ahead;   /* positions above a checkpoint that have been dealt with */
    bool all_known;       /* `ahead` has all of them */
    int64_t rows;         /* of the log that were looked at */
    struct pending pending;
};

static hf_status load_checkpoints(struct walk *walk)
{
    size_t count = (size_t)(walk->about.partitions > 0 ? walk->about.partitions : 1);
    walk->checkpoints = mem_calloc(count, sizeof *walk->checkpoints);
    sqlite3_stmt *stmt = conn_statement(walk->conn, SQLITE_QUERY_PARTITION_LIST);
    if (!walk->checkpoints || !stmt) {
        return walk->checkpoints ? conn_error(walk->conn)
                                 : fail(HF_NOMEM, "no memory for %zu checkpoints", count);
    }
    bind_int(stmt, 1, walk->about.id);
    walk->lowest = INT64_MAX;
    for (;;) {
        bool row;
        hf_status status = conn_row(walk->conn, stmt, &row);
        if (status || !row) {
            return status;
        }
        int64_t partition = sqlite3_column_int64(stmt, 0);
        int64_t checkpoint = sqlite3_column_int64(stmt, 1);
        if (partition >= 0 && (size_t)partition < count) {
            walk->checkpoints[partition] = checkpoint;
        }
        walk->lowest = checkpoint < walk->lowest ? checkpoint : walk->lowest;
    }
}

/* What is settled ahead, or has a row of its own. */
static hf_status load_ahead(struct walk *walk, int32_t partition)
{
    sqlite3_stmt *stmt = conn_statement(walk->conn, SQLITE_QUERY_AHEAD);
    if (!stmt) {
        return conn_error(walk->conn);
    }
    bind_int(stmt, 1, walk->about.id);
    bind_int(stmt, 2, partition);
    bind_int(stmt, 3, walk->checkpoints[partition]);
    for (;;) {
        bool row;
        hf_status status = conn_row(walk->conn, stmt, &row);
        if (status || !row) {
            return status;
        }
        status = set64_put(&walk->ahead, (uint64_t)sqlite3_column_int64(stmt, 0), 1);
        if (status) {
            conn_done(stmt);
            walk->all_known = status != HF_INVALID;
            return status == HF_INVALID ? HF_OK : status;
        }
    }
}

/* Whether the row is an event that waits for its turn. */
static bool is_pending(const struct walk *walk, sqlite3_stmt *stmt)
{
    const struct filter *filter = &walk->query->filter;
    int64_t position = position_of(sqlite3_column_int64(stmt, 0));
    if (walk->about.partitions > 1 &&
        position <=
            walk->checkpoints[hash_slice(sqlite3_column_int64(stmt, 2), walk->about.partitions)]) {
        return false;
    }
    if (!filter->unhandled_too && !filter_matches(filter, column_text(stmt, 1))) {
        return false;
    }
    return set64_count(&walk->ahead) == 0 || !set64_get(&walk->ahead, (uint64_t)position, NULL);
}

static void count_row(struct walk *walk, sqlite3_stmt *stmt)
{
    struct pending *pending = &walk->pending;
    int64_t at_us = sqlite3_column_int64(stmt, 3);
    if (pending->count == walk->query->max) {
        pending->more = true;
        return;
    }
    pending->count++;
    if (pending->first_at_us < 0 || at_us < pending->first_at_us) {
        pending->first_at_us = at_us;
    }
}

/* Counts up to `max` rows of the log behind `*after`, up to position `last`. */
static hf_status walk_rows(struct walk *walk, int64_t last, int64_t max, struct deadline deadline,
                           int64_t *after, bool *ret_end)
{
    sqlite3_stmt *stmt = conn_statement(walk->conn, SQLITE_QUERY_READ_TYPES);
    if (!stmt) {
        return conn_error(walk->conn);
    }
    bind_int(stmt, 1, place_of(walk->engine, *after));
    bind_int(stmt, 2, place_of(walk->engine, last));
    *ret_end = false;
    for (int64_t i = 0; i < max && !walk->pending.more; i++) {
        bool row;
        hf_status status = conn_row(walk->conn, stmt, &row);
        if (status || !row) {
            *ret_end = true;
            return status;
        }
        *after = position_of(sqlite3_column_int64(stmt, 0));
        walk->rows++;
        if (walk->rows > STORE_PENDING_ROWS_MIN && walk->rows % ROWS_PER_LOOK == 0 &&
            deadline_passed(deadline)) {
            walk->pending.more = true;
        } else if (is_pending(walk, stmt)) {
            count_row(walk, stmt);
        }
    }
    conn_done(stmt);
    return HF_OK;
}

/* Counts what the index on types has behind `after`. */
static hf_status walk_typed(struct walk *walk, int64_t after, struct deadline deadline,
                            bool *ret_used)
{
    hf_status status = HF_OK;
    bool more = true;
    while (!status && more && !walk->pending.more) {
        struct typed typed = {0};
        status = typed_find(walk->engine, walk->conn, &walk->query->filter, after, TYPED_PORTION,
                            &typed, ret_used);
        if (status || !*ret_used) {
            return status;
        }
        for (size_t i = 0; i < typed.count && !status && !walk->pending.more; i++) {
            int64_t before = typed.positions[i] - 1;
            bool end;
            status = walk_rows(walk, typed.positions[i], 1, deadline, &before, &end);
        }
        after = typed.through;
        more = typed.cut;
        walk->pending.more = walk->pending.more || (more && deadline_passed(deadline));
        typed_release(&typed);
    }
    return status;
}

static hf_status walk_log(struct walk *walk)
{
    struct deadline deadline = deadline_after_ms(STORE_PENDING_MS);
    int64_t after = walk->lowest;
    bool end = false;
    bool typed = false;
    bool brief = walk->query->brief;
    hf_status status =
        walk_rows(walk, PLACE_POSITION_MAX, brief ? STORE_PENDING_BRIEF_ROWS : FILTER_SPARSE_ROWS,
                  deadline, &after, &end);
    if (brief) {
        walk->pending.more = walk->pending.more || !end;
        return status;
    }
    if (!status && !end &&
        filter_is_sparse(&walk->query->filter, FILTER_SPARSE_ROWS, walk->pending.count)) {
        status = walk_typed(walk, after, deadline, &typed);
    }
    if (!status && !end && !typed && !walk->pending.more) {
        status = walk_rows(walk, PLACE_POSITION_MAX, STORE_PENDING_ROWS_MAX - FILTER_SPARSE_ROWS,
                           deadline, &after, &end);
        walk->pending.more = walk->pending.more || !end;
    }
    return status;
}

static hf_status count_pending(struct walk *walk)
{
    hf_status status =
        subscription_about(walk->engine, walk->conn, walk->query->subscription_id, &walk->about);
    if (!status) {
        status = load_checkpoints(walk);
    }
    int32_t partitions = walk->about.mode == HF_MODE_SHARED ? 1 : walk->about.partitions;
    for (int32_t i = 0; !status && i < partitions && walk->all_known; i++) {
        status = load_ahead(walk, i);
    }
    if (!status && walk->all_known) {
        status = walk_log(walk);
    } else if (!status) {
        walk->pending.more = true; /* too much runs ahead: nothing is known of the rest */
    }
    return status;
}

hf_status sqlite_pending(struct engine *engine, const struct pending_query *query,
                         struct pending *ret_pending)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct walk walk = {
        .engine = self,
        .query = query,
        .all_known = true,
        .pending = {.first_at_us = -1},
    };
    hf_status status = pool_take_snapshot(self, &walk.conn);
    if (status) {
        return status;
    }
    set64_init(&walk.ahead, STORE_PENDING_ROWS_MAX);
    status = count_pending(&walk);
    set64_release(&walk.ahead);
    mem_free(walk.checkpoints);
    pool_give(self, walk.conn);
    if (!status) {
        *ret_pending = walk.pending;
    }
    return status;
}

/* ---- Leases ---------------------------------------------------------------------------------- */

static hf_status tell_lease(struct sqlite_engine *engine, struct conn *conn,
                            const uint8_t token[STORE_TOKEN_BYTES], int64_t now_us,
                            lease_row_fn found, void *ctx, bool *ret_stop)
{
    struct lease lease;
    lease_init(&lease);
    hf_status status = lease_load(conn, token, &lease);
    if (!status) {
        struct lease_row row = {
            .token = lease.token,
            .node = lease.owner_name[0] ? text_of(lease.owner_name) : TEXT_ABSENT,
            .claimed_at_us = lease.claimed_at_us,
            .expires_at_us = lease.expires_at_us,
            .kept = lease.kept,
            .ended = lease_is_over(engine, &lease, now_us),
            .positions = lease.positions,
            .count = lease.count,
        };
        *ret_stop = found(&row, ctx) != 0;
    }
    lease_release(&lease);
    return status;
}

hf_status sqlite_lease_list(struct engine *engine, int64_t subscription_id, int64_t now_us,
                            lease_row_fn found, void *ctx)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct conn *conn;
    hf_status status = pool_take_snapshot(self, &conn);
    if (status) {
        return status;
    }
    struct about about;
    status = subscription_about(self, conn, subscription_id, &about);
    sqlite3_stmt *stmt = status ? NULL : conn_statement(conn, SQLITE_QUERY_LEASE_HELD);
    if (!status && !stmt) {
        status = conn_error(conn);
    }
    bool row = stmt != NULL;
    bool stop = false;
    if (stmt) {
        bind_int(stmt, 1, subscription_id);
    }
    while (!status && row && !stop) {
        uint8_t token[STORE_TOKEN_BYTES];
        status = conn_row(conn, stmt, &row);
        if (!status && row && column_blob(stmt, 0, token, sizeof token)) {
            status = tell_lease(self, conn, token, now_us, found, ctx, &stop);
        }
    }
    if (stmt) {
        conn_done(stmt);
    }
    pool_give(self, conn);
    return status;
}
