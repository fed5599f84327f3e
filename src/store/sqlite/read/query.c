/*
 * query.c - reads of the log and of partitions' retries.
 *
 * Each takes a read-only connection from the pool, so queries never wait for writers, and gives it
 * back before it returns. Those that read more than once read one snapshot. What goes into a batch
 * is copied; if a query fails midway its batch is as it was, but for the arena's memory.
 */
#include <stdlib.h>

#include "base/err.h"
#include "store/common/batch.h"
#include "store/common/checksum.h"
#include "store/sqlite/file/lookup.h"
#include "store/sqlite/file/row.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/lease.h"
#include "store/sqlite/write/outcome.h"

/* ---- The log --------------------------------------------------------------------------------- */

hf_status sqlite_event_find(struct engine *engine, const uint8_t id[16], struct batch *batch)
{
    struct lookup lookup;
    size_t first = batch->count;
    if (lookup_begin(&lookup, engine, SQLITE_QUERY_EVENT_FIND)) {
        bind_blob(lookup.stmt, 1, id, 16);
        bind_int(lookup.stmt, 2, lookup.engine->namespace_id);
    }
    if (lookup_next(&lookup)) {
        struct entry *entry;
        lookup.status = row_push(batch, lookup.stmt, &entry);
        checksum_check(batch, first);
    } else if (!lookup.status) {
        lookup.status = fail(HF_NOTFOUND, "no event with this id is in the log");
    }
    return lookup_end(&lookup);
}

/* The first event with low < position <= high. */
static hf_status first_in(struct sqlite_engine *engine, struct conn *conn, int64_t low,
                          int64_t high, bool *ret_found, int64_t *ret_position,
                          int64_t *ret_entered_at_us)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_EVENT_FIRST);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, place_of(engine, low));
    bind_int(stmt, 2, place_of(engine, high));
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (status) {
        return status;
    }
    *ret_found = row;
    if (row) {
        *ret_position = position_of(sqlite3_column_int64(stmt, 0));
        *ret_entered_at_us = sqlite3_column_int64(stmt, 1);
        conn_done(stmt);
    }
    return HF_OK;
}

static hf_status read_head(struct sqlite_engine *engine, struct conn *conn, int64_t *ret_head)
{
    bool found = false;
    hf_status status =
        STATEMENT_INT(conn, SQLITE_QUERY_HEAD, &found, ret_head, engine->namespace_id);
    if (!status && !found) {
        return fail(HF_NOTFOUND,
                    "namespace %s is gone: it was removed while this process had it open",
                    engine->namespace_name);
    }
    return status;
}

hf_status sqlite_head(struct engine *engine, int64_t *ret_head, int64_t *ret_first)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct conn *conn;
    hf_status status = pool_take_snapshot(self, &conn);
    if (status) {
        return status;
    }
    int64_t head = 0;
    int64_t first = 0;
    int64_t entered_at_us;
    bool found = false;
    status = read_head(self, conn, &head);
    if (!status) {
        status = first_in(self, conn, 0, PLACE_POSITION_MAX, &found, &first, &entered_at_us);
    }
    pool_give(self, conn);
    if (!status) {
        *ret_head = head;
        *ret_first = found ? first : head + 1;
    }
    return status;
}

/* Positions become visible in their order here, so the last one is the head. */
hf_status sqlite_last(struct engine *engine, int64_t *ret_position)
{
    int64_t first;
    return sqlite_head(engine, ret_position, &first);
}

/* No position is ever missing below the head. */
hf_status sqlite_gaps(struct engine *engine, int64_t subscription_id, struct gap_facts *ret_facts)
{
    (void)engine;
    (void)subscription_id;
    *ret_facts = (struct gap_facts){0};
    return HF_OK;
}

/* "From now on" begins at the head. */
hf_status sqlite_now(struct engine *engine, struct deadline deadline, int64_t *ret_position)
{
    (void)deadline;
    return sqlite_last(engine, ret_position);
}

/*
 * Times in the log rise with the positions, as far as the clocks of the publishers agree, so a
 * binary search finds the place in some forty steps without an index on the time.
 *
 * Invariant: low is 0 or an event that entered before at_us; the event at `high` (or the first
 * above it) is the end of the log or entered at at_us or later. Positions may be missing where
 * retention has been, so each step looks at the first event of the upper half.
 */
static hf_status search_time(struct sqlite_engine *engine, struct conn *conn, int64_t at_us,
                             int64_t head, int64_t *ret_position)
{
    int64_t low = 0;
    int64_t high = head + 1;
    while (low + 1 < high) {
        int64_t middle = low + (high - low) / 2;
        bool found = false;
        int64_t position = 0;
        int64_t entered_at_us = 0;
        hf_status status =
            first_in(engine, conn, middle - 1, high - 1, &found, &position, &entered_at_us);
        if (status) {
            return status;
        }
        if (found && entered_at_us < at_us) {
            low = position;
        } else {
            high = middle;
        }
    }
    *ret_position = low;
    return HF_OK;
}

/* A publish that waited brings the time at which it began, and so do those of a log that was copied
 * from a server: the search may have met one and gone up, past later times. */
static hf_status look_back(struct sqlite_engine *engine, struct conn *conn, int64_t at_us,
                           int64_t disorder, int64_t *position)
{
    int64_t from = *position > disorder ? *position - disorder : 0;
    bool found = false;
    int64_t place = 0;
    hf_status status = STATEMENT_INT(conn, SQLITE_QUERY_EVENT_LATE, &found, &place,
                                     place_of(engine, from), place_of(engine, *position), at_us);
    if (!status && found) {
        *position = position_of(place) - 1;
    }
    return status;
}

hf_status sqlite_position_before(struct engine *engine, int64_t at_us, int64_t disorder,
                                 int64_t *ret_position)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct conn *conn;
    hf_status status = pool_take_snapshot(self, &conn);
    if (status) {
        return status;
    }
    int64_t head = 0;
    int64_t position = 0;
    status = read_head(self, conn, &head);
    if (!status) {
        status = search_time(self, conn, at_us, head, &position);
    }
    if (!status && disorder > 0) {
        status = look_back(self, conn, at_us, disorder, &position);
    }
    pool_give(self, conn);
    if (!status) {
        *ret_position = position;
    }
    return status;
}

/* ---- Retries --------------------------------------------------------------------------------- */

static int compare_positions(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool is_in_hand(const struct due_query *query, int64_t position)
{
    return query->in_hand_count > 0 && bsearch(&position, query->in_hand, query->in_hand_count,
                                               sizeof position, compare_positions);
}

/* Rows of retries that are due: those not in hand, with their events. */
static hf_status read_due(struct sqlite_engine *engine, struct conn *conn, sqlite3_stmt *stmt,
                          const struct due_query *query, int32_t max, struct batch *batch)
{
    for (int32_t left = max; left > 0 && !batch_full(batch);) {
        bool row;
        hf_status status = conn_row(conn, stmt, &row);
        if (status || !row) {
            return status;
        }
        int64_t position = sqlite3_column_int64(stmt, 0);
        if (is_in_hand(query, position)) {
            continue;
        }
        struct entry *entry;
        status = row_push_waiting(engine, conn, query->subscription_id, position, stmt, 1, batch,
                                  &entry);
        if (status) {
            conn_done(stmt);
            return status;
        }
        if (entry) {
            entry->certain = entry->handed >= 0;
            entry->handed = entry->attempts + entry->uncounted;
        }
        left--;
    }
    conn_done(stmt);
    return HF_OK;
}

/* Those of one partition that are due, at most `max`. *next_us: lowered to when the next one is. */
static hf_status partition_due(struct sqlite_engine *engine, struct conn *conn,
                               const struct due_query *query, int32_t partition, int32_t max,
                               struct batch *batch, int64_t *next_us)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_RETRIES_DUE_BY_LANE);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, query->subscription_id);
    bind_int(stmt, 2, partition);
    bind_int(stmt, 3, query->now_us);
    bind_int(stmt, 4, max + (int64_t)query->in_hand_count);
    bind_int(stmt, 5, RETRY_WAITING);
    bind_int(stmt, 6, RETRY_BLOCKED);
    hf_status status = read_due(engine, conn, stmt, query, max, batch);
    bool found = false;
    int64_t at_us = 0;
    if (!status) {
        status = STATEMENT_INT(conn, SQLITE_QUERY_RETRIES_NEXT, &found, &at_us,
                               query->subscription_id, partition, query->now_us, RETRY_WAITING);
    }
    *next_us = found && (*next_us < 0 || at_us < *next_us) ? at_us : *next_us;
    return status;
}

hf_status sqlite_retries_due(struct engine *engine, const struct due_query *query,
                             struct batch *batch, int64_t *ret_next_us)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct conn *conn;
    hf_status status = pool_take_snapshot(self, &conn);
    if (status) {
        return status;
    }
    size_t first = batch->count;
    int64_t next_us = -1;
    size_t count = query->partition_count;
    size_t start = count > 0 ? (size_t)query->now_us % count : 0; /* another one each time */
    for (size_t i = 0; !status && i < count && !batch_full(batch); i++) {
        int32_t left = query->max - (int32_t)(batch->count - first);
        status = partition_due(self, conn, query, query->partitions[(start + i) % count],
                               left > 0 ? left : 0, batch, &next_us);
    }
    pool_give(self, conn);
    if (status) {
        batch->count = first;
        return status;
    }
    checksum_check(batch, first);
    *ret_next_us = next_us;
    return HF_OK;
}

hf_status sqlite_lanes(struct engine *engine, int64_t subscription_id, int32_t partition,
                       lane_fn found, void *ctx)
{
    struct lookup lookup;
    if (lookup_begin(&lookup, engine, SQLITE_QUERY_LANE_LIST)) {
        bind_int(lookup.stmt, 1, subscription_id);
        bind_int(lookup.stmt, 2, partition);
    }
    for (int enough = 0; !enough && lookup_next(&lookup);) {
        uint64_t lane = (uint64_t)sqlite3_column_int64(lookup.stmt, 0);
        enough = found(lane, sqlite3_column_int64(lookup.stmt, 1), ctx);
    }
    return lookup_end(&lookup);
}

hf_status sqlite_ahead(struct engine *engine, int64_t subscription_id, int32_t partition,
                       int64_t checkpoint, position_fn found, void *ctx)
{
    struct lookup lookup;
    if (lookup_begin(&lookup, engine, SQLITE_QUERY_AHEAD)) {
        bind_int(lookup.stmt, 1, subscription_id);
        bind_int(lookup.stmt, 2, partition);
        bind_int(lookup.stmt, 3, checkpoint);
    }
    for (int enough = 0; !enough && lookup_next(&lookup);) {
        enough = found(sqlite3_column_int64(lookup.stmt, 0), ctx);
    }
    return lookup_end(&lookup);
}

/* ---- Leases ---------------------------------------------------------------------------------- */

hf_status sqlite_lease_read(struct engine *engine, int64_t subscription_id,
                            const uint8_t token[STORE_TOKEN_BYTES], struct batch *batch)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct conn *conn;
    hf_status status = pool_take_snapshot(self, &conn);
    if (status) {
        return status;
    }
    size_t first = batch->count;
    struct lease lease;
    lease_init(&lease);
    status = lease_load(conn, token, &lease);
    if (status == HF_NOTFOUND ||
        (!status && (lease.subscription_id != subscription_id || lease.piece != LEASE_HELD))) {
        status = fail(HF_STALE, "there is no such lease (any more)");
    }
    for (size_t i = 0; !status && i < lease.count; i++) {
        struct entry *entry;
        status = row_push_leased(self, conn, subscription_id, lease.positions[i], lease.has_retries,
                                 batch, &entry);
        if (!status && entry && !entry->waited) {
            int32_t times = lease_times(&lease, i);
            entry->handed = times < 0 ? -1 : times - 1;
        }
    }
    lease_release(&lease);
    pool_give(self, conn);
    if (status) {
        batch->count = first;
    }
    checksum_check(batch, first);
    return status;
}
