/*
 * progress.c - how far a subscription is.
 *
 * Nothing here scans the log. How much is left is the difference of two positions; how much waits
 * is counted in an index; what is in flight is summed over the leases, of which there is one per
 * batch. All of an answer comes from one snapshot, so its numbers belong together; only whether the
 * owner is alive is looked at beside it.
 */
#include "base/err.h"
#include "base/hash.h"
#include "store/sqlite/file/row.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/lease.h"
#include "store/sqlite/write/outcome.h"
#include "store/sqlite/write/partition.h"
#include "store/sqlite/write/subscription.h"

/* ---- What runs ------------------------------------------------------------------------------- */

static hf_status count_note(const struct handler_note *note, void *ctx)
{
    (void)note;
    int64_t *count = ctx;
    *count += 1;
    return HF_OK;
}

/* Adds the handlers of an owner that run for the subscription. Partitions of one owner mostly stand
 * together; an owner that comes up again is found in `seen`. */
struct running {
    uint8_t seen[STORE_MEMBERS_MAX][STORE_TOKEN_BYTES];
    size_t count;
};

static hf_status add_running(struct sqlite_engine *engine, int64_t subscription_id,
                             const uint8_t owner[STORE_TOKEN_BYTES], struct running *running,
                             struct progress *progress)
{
    for (size_t i = running->count; i > 0; i--) {
        if (memcmp(running->seen[i - 1], owner, STORE_TOKEN_BYTES) == 0) {
            return HF_OK;
        }
    }
    if (running->count < STORE_MEMBERS_MAX) {
        memcpy(running->seen[running->count++], owner, STORE_TOKEN_BYTES);
    }
    bool exact;
    int32_t all;
    return live_notes(engine, owner, subscription_id, count_note, &progress->in_flight, &exact,
                      &all);
}

/* ---- Progress -------------------------------------------------------------------------------- */

/* The mean of the rates of all partitions. */
struct rate {
    int64_t now_us;
    int64_t created_at_us;
    int64_t passed; /* by all of them; -1: not known */
    int64_t count;  /* partitions */
};

static void rate_add(struct rate *rate, struct span span, int64_t checkpoint)
{
    int64_t passed = span_passed(span, checkpoint, rate->now_us);
    rate->count++;
    rate->passed = passed < 0 || rate->passed < 0 ? -1 : rate->passed + passed;
}

static double rate_mean(const struct rate *rate)
{
    return rate->passed < 0 || rate->count == 0
               ? -1
               : (double)rate->passed / (double)rate->count /
                     span_seconds(rate->now_us, rate->created_at_us);
}

/* The lowest checkpoint with what belongs to it; who owns the first that is owned. */
static hf_status read_partitions(struct sqlite_engine *engine, struct conn *conn,
                                 const struct about *about, int64_t now_us,
                                 struct progress *progress)
{
    struct rate rate = {.now_us = now_us, .created_at_us = about->created_at_us};
    struct running running;
    running.count = 0; /* its array is large: it is not cleared */
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_PARTITION_LIST);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, about->id);
    progress->checkpoint = INT64_MAX;
    for (;;) {
        bool row;
        hf_status status = conn_row(conn, stmt, &row);
        if (status || !row) {
            progress->rate = rate_mean(&rate);
            progress->has_event_id = progress->has_event_id && rate.count == 1;
            return status;
        }
        int64_t checkpoint = sqlite3_column_int64(stmt, 1);
        struct span span = {.number = sqlite3_column_int64(stmt, 7),
                            .from = column_int(stmt, 8, -1),
                            .before = column_int(stmt, 9, -1)};
        rate_add(&rate, span, checkpoint);
        if (checkpoint < progress->checkpoint) {
            progress->checkpoint = checkpoint;
            progress->checkpoint_at_us = column_int(stmt, 2, -1);
            progress->has_event_id = column_blob(stmt, 3, progress->checkpoint_event_id,
                                                 sizeof progress->checkpoint_event_id);
        }
        uint8_t owner[STORE_TOKEN_BYTES];
        bool owned = column_blob(stmt, 4, owner, sizeof owner);
        bool alive = owned && sqlite_owner_is_alive(engine, owner);
        progress->unowned += alive ? 0 : 1;
        progress->claimed_at_us = column_int(stmt, 10, -1);
        status = alive ? add_running(engine, about->id, owner, &running, progress) : HF_OK;
        if (status) {
            conn_done(stmt);
            return status;
        }
        if (owned && !progress->owned) {
            progress->owned = true;
            progress->owner_alive = alive;
            snprintf(progress->owner_name, sizeof progress->owner_name, "%" TEXT_PRI,
                     TEXT_ARG(column_text(stmt, 5)));
        }
    }
}

/* Lowers next_attempt_us to when the first retry of this kind is due. */
static hf_status read_next_attempt(struct conn *conn, int64_t subscription_id, int32_t partition,
                                   enum retry_kind kind, struct progress *progress)
{
    bool found;
    int64_t at_us = -1;
    hf_status status = STATEMENT_INT(conn, SQLITE_QUERY_RETRIES_NEXT, &found, &at_us,
                                     subscription_id, partition, INT64_MIN, kind);
    bool first = progress->next_attempt_us < 0 || at_us < progress->next_attempt_us;
    progress->next_attempt_us = found && first ? at_us : progress->next_attempt_us;
    return status;
}

static hf_status read_counts(struct sqlite_engine *engine, struct conn *conn,
                             const struct about *about, struct text name, struct progress *progress)
{
    bool found;
    int32_t partitions = about->mode == HF_MODE_SHARED ? 1 : about->partitions;
    for (int32_t partition = 0; partition < partitions; partition++) {
        static const enum retry_kind kinds[] = {RETRY_WAITING, RETRY_ALONE, RETRY_HELD,
                                                RETRY_BLOCKED};
        int64_t *counts[] = {&progress->retrying, &progress->retrying, &progress->held,
                             &progress->blocked};
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            int64_t count = 0;
            hf_status status = STATEMENT_INT(conn, SQLITE_QUERY_RETRIES_COUNT, &found, &count,
                                             about->id, partition, kinds[i]);
            if (status) {
                return status;
            }
            *counts[i] += count;
            if (count > 0 && counts[i] == &progress->retrying) {
                status = read_next_attempt(conn, about->id, partition, kinds[i], progress);
            }
            if (status) {
                return status;
            }
        }
    }
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_DEAD_COUNT_OPEN_OF);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_text(stmt, 2, name);
    hf_status status = conn_row(conn, stmt, &found);
    if (!status && found) {
        progress->dead = sqlite3_column_int64(stmt, 0);
        conn_done(stmt);
    }
    return status;
}

/* The owner of the row before. */
struct lease_owner {
    uint8_t token[STORE_TOKEN_BYTES];
    bool dead;
};

/* Whether the lease of this row has ended; as lease_is_over, with each owner looked at once. */
static bool row_is_over(struct sqlite_engine *engine, sqlite3_stmt *stmt, int64_t now_us,
                        struct lease_owner *owner)
{
    struct lease lease;
    lease_init(&lease);
    bool owned = column_blob(stmt, 0, lease.owner, sizeof lease.owner);
    if (owned && memcmp(owner->token, lease.owner, sizeof owner->token) != 0) {
        memcpy(owner->token, lease.owner, sizeof owner->token);
        owner->dead = !sqlite_owner_is_alive(engine, owner->token);
    }
    lease.kept = sqlite3_column_int(stmt, 1) != 0;
    lease.expires_at_us = sqlite3_column_int64(stmt, 2);
    lease.piece = (int32_t)column_int(stmt, 4, LEASE_HELD);
    bool tied = lease.kept || sqlite3_column_int(stmt, 3) != 0;
    return (owned && owner->dead && tied) || lease_is_over(engine, &lease, now_us);
}

/* Counts what is in leases, and what is in those that have ended. ret_lowest: the lowest position
 * in a lease, INT64_MAX if there is none. */
static hf_status count_leases(struct sqlite_engine *engine, struct conn *conn, int64_t id,
                              int64_t now_us, struct progress *progress, int64_t *ret_lowest)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_LEASE_EACH);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, id);
    struct lease_owner owner = {.dead = false};
    for (;;) {
        bool row;
        hf_status status = conn_row(conn, stmt, &row);
        if (status || !row) {
            return status;
        }
        int64_t count = sqlite3_column_int64(stmt, 5);
        int64_t first = sqlite3_column_int64(stmt, 6);
        int64_t expires_at_us = sqlite3_column_int64(stmt, 2);
        if (row_is_over(engine, stmt, now_us, &owner)) {
            int64_t since_us = expires_at_us < now_us ? expires_at_us : now_us;
            bool earlier = progress->lease_ended == 0 || since_us < progress->lease_ended_us;
            progress->lease_ended_us = earlier ? since_us : progress->lease_ended_us;
            progress->lease_ended += count;
        } else {
            progress->in_flight += count;
        }
        *ret_lowest = first < *ret_lowest ? first : *ret_lowest;
    }
}

/* A shared subscription is settled below its cursor, every lease and every retry. ret_lowest: as
 * above. */
static hf_status read_leases(struct sqlite_engine *engine, struct conn *conn,
                             const struct about *about, int64_t now_us, struct progress *progress,
                             int64_t *ret_lowest)
{
    *ret_lowest = INT64_MAX;
    if (about->mode != HF_MODE_SHARED) {
        return HF_OK;
    }
    progress->cursor = progress->checkpoint;
    hf_status status = count_leases(engine, conn, about->id, now_us, progress, ret_lowest);
    if (status) {
        return status;
    }
    bool found;
    int64_t lowest = *ret_lowest;
    int64_t retry = INT64_MAX;
    status = STATEMENT_INT(conn, SQLITE_QUERY_RETRIES_LOWEST, &found, &retry, about->id);
    lowest = retry < lowest ? retry : lowest;
    if (lowest <= progress->checkpoint) {
        progress->checkpoint = lowest - 1;
    }
    return status;
}

/* When the first event that waits or is leased entered the log. */
static hf_status read_oldest(struct sqlite_engine *engine, struct conn *conn,
                             const struct about *about, int64_t leased, struct progress *progress)
{
    int64_t waiting = INT64_MAX;
    bool found;
    hf_status status =
        STATEMENT_INT(conn, SQLITE_QUERY_RETRIES_LOWEST_OPEN, &found, &waiting, about->id);
    if (status) {
        return status;
    }
    int64_t lowest = waiting < leased ? waiting : leased;
    sqlite3_stmt *stmt = NULL;
    if (lowest != INT64_MAX) {
        status = row_find(engine, conn, about->id, lowest, true, &stmt);
    }
    if (!status && stmt) {
        progress->oldest_open_us = sqlite3_column_int64(stmt, ROW_ENTERED_AT);
        conn_done(stmt);
    }
    return status;
}

static hf_status read_progress(struct sqlite_engine *engine, struct conn *conn,
                               int64_t subscription_id, int64_t now_us, struct progress *progress)
{
    struct about about;
    hf_status status = subscription_about(engine, conn, subscription_id, &about);
    if (status) {
        return status;
    }
    status = read_partitions(engine, conn, &about, now_us, progress);
    if (!status) {
        status = read_counts(engine, conn, &about, text_of(about.name), progress);
    }
    bool found;
    if (!status) {
        status =
            STATEMENT_INT(conn, SQLITE_QUERY_HEAD, &found, &progress->head, engine->namespace_id);
    }
    int64_t leased = INT64_MAX;
    if (!status) {
        status = read_leases(engine, conn, &about, now_us, progress, &leased);
    }
    return status ? status : read_oldest(engine, conn, &about, leased, progress);
}

static hf_status progress_of(struct sqlite_engine *self, int64_t subscription_id, int64_t now_us,
                             struct progress *ret_progress)
{
    struct conn *conn;
    hf_status status = pool_take_snapshot(self, &conn);
    if (status) {
        return status;
    }
    struct progress progress = {
        .checkpoint_at_us = -1,
        .cursor = -1,
        .lease_ended_us = -1,
        .claimed_at_us = -1,
        .next_attempt_us = -1,
        .oldest_open_us = -1,
    };
    status = read_progress(self, conn, subscription_id, now_us, &progress);
    pool_give(self, conn);
    if (!status) {
        *ret_progress = progress;
    }
    return status;
}

hf_status sqlite_progress_each(struct engine *engine, const int64_t *ids, size_t count,
                               int64_t now_us, progress_fn found, void *ctx)
{
    bool stop = false;
    for (size_t i = 0; i < count && !stop; i++) {
        struct progress progress;
        hf_status status = progress_of(sqlite_of(engine), ids[i], now_us, &progress);
        if (!status) {
            stop = found(ids[i], &progress, ctx) != 0;
        } else if (status != HF_NOTFOUND) {
            return status;
        }
    }
    return HF_OK;
}
