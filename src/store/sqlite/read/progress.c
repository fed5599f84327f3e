/*
 * progress.c - how far a subscription is, and where one event is in it.
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

/* ---- One delivery ---------------------------------------------------------------------------- */

/* Which lease is it in, if it is in one, and how often was it handed out? */
static hf_status find_leased(struct sqlite_engine *engine, struct conn *conn,
                             const struct delivery_query *query, struct delivery_facts *facts)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_LEASE_LIST);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, query->subscription_id);
    bind_int(stmt, 2, query->position);
    hf_status status = HF_OK;
    bool row = true;
    while (!status && !facts->leased && !facts->holder.ended) {
        status = conn_row(conn, stmt, &row);
        if (status || !row) {
            return status;
        }
        struct lease lease;
        lease_init(&lease);
        uint8_t token[STORE_TOKEN_BYTES];
        if (column_blob(stmt, 0, token, sizeof token)) {
            status = lease_load(conn, token, &lease);
        }
        size_t at = lease_find(lease.positions, lease.count, query->position);
        if (at != SIZE_MAX) {
            facts->holder.ended = lease_is_over(engine, &lease, query->now_us);
            facts->leased = !facts->holder.ended;
            facts->holder.since_us = lease.claimed_at_us;
            facts->deliveries = lease_times(&lease, at);
            snprintf(facts->holder.node, sizeof facts->holder.node, "%s", lease.owner_name);
        }
        lease_release(&lease);
    }
    conn_done(stmt);
    return status;
}

/* Looks for one position among an owner's notes. */
struct noted {
    int64_t position;
    bool found;
    int64_t since_us;
};

static hf_status see_note(const struct handler_note *note, void *ctx)
{
    struct noted *noted = ctx;
    if (note->position == noted->position) {
        noted->found = true;
        noted->since_us = note->now_us > 0 ? note->now_us : -1;
    }
    return HF_OK;
}

/* The partition of an ordered subscription: its checkpoint, and whether its owner is at it now. */
static hf_status find_partition(struct sqlite_engine *engine, struct conn *conn,
                                const struct about *about, int64_t position, int32_t number,
                                struct delivery_facts *facts, int64_t *ret_doubt_through)
{
    struct partition partition;
    hf_status status = partition_load(engine, conn, about->id, number, &partition);
    if (status) {
        return status;
    }
    facts->checkpoint = partition.checkpoint;
    *ret_doubt_through = partition.doubt_through;
    if (partition.owned && sqlite_owner_is_alive(engine, partition.owner)) {
        struct noted noted = {.position = position, .since_us = -1};
        bool exact;
        int32_t running;
        status = live_notes(engine, partition.owner, about->id, see_note, &noted, &exact, &running);
        facts->leased = noted.found;
        facts->holder.since_us = noted.since_us;
        snprintf(facts->holder.node, sizeof facts->holder.node, "%s", partition.owner_name);
    }
    if (facts->leased && position > partition.doubt_through) {
        facts->deliveries = 1; /* unless it has a row */
    }
    int64_t one;
    if (!status) {
        status = STATEMENT_INT(conn, SQLITE_QUERY_SETTLED_HAS, &facts->settled, &one, about->id,
                               number, position);
    }
    return status;
}

/* How often the event of the present row of retries was handed out; `running`: it runs now, as its
 * owner's notes say. */
static int32_t count_deliveries(const struct about *about, sqlite3_stmt *stmt, bool doubt,
                                bool running)
{
    int32_t stored = (int32_t)column_int(stmt, 8, -1);
    if (about->mode == HF_MODE_SHARED) {
        return stored;
    }
    int32_t counted = sqlite3_column_int(stmt, 3) + sqlite3_column_int(stmt, 4);
    bool known = stored >= 0 || !doubt;
    return known ? counted + (running ? 1 : 0) : -1;
}

static hf_status find_retry(struct conn *conn, const struct about *about, int64_t position,
                            int64_t doubt_through, struct arena *arena,
                            struct delivery_facts *facts, struct text *story)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_RETRY_GET);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, about->id);
    bind_int(stmt, 2, position);
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (status || !row) {
        return status;
    }
    switch ((enum retry_kind)sqlite3_column_int(stmt, 0)) {
    case RETRY_WAITING:
    case RETRY_ALONE:
        facts->held = sqlite3_column_int64(stmt, 5) == 0;
        facts->waiting = !facts->held;
        facts->next_attempt_us = facts->held ? -1 : sqlite3_column_int64(stmt, 5);
        break;
    case RETRY_HELD:
        facts->held = true;
        break;
    case RETRY_BLOCKED:
        facts->blocked = true;
        break;
    case RETRY_LEASED:
        facts->leased = !facts->holder.ended;
        break;
    case RETRY_NONE:
        break;
    }
    facts->deliveries = count_deliveries(about, stmt, position <= doubt_through, facts->leased);
    facts->attempts = sqlite3_column_int(stmt, 3);
    facts->cause = cause_of(column_text(stmt, 7));
    *story = arena_text(arena, column_text(stmt, 6));
    conn_done(stmt);
    return arena_status(arena);
}

static hf_status find_dead(struct sqlite_engine *engine, struct conn *conn, struct text name,
                           const uint8_t id[16], struct arena *arena, struct delivery_facts *facts,
                           struct text *story)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_DEAD_OF_EVENT);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_text(stmt, 2, name);
    bind_blob(stmt, 3, id, 16);
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (status || !row) {
        return status;
    }
    facts->dead_id = sqlite3_column_int64(stmt, 0);
    if (!facts->waiting && !facts->held && !facts->blocked && !facts->leased) {
        facts->attempts = sqlite3_column_int(stmt, 1);
        facts->cause = cause_of(column_text(stmt, 3));
        facts->deliveries = (int32_t)column_int(stmt, 4, -1);
        *story = arena_text(arena, column_text(stmt, 2));
    }
    conn_done(stmt);
    return arena_status(arena);
}

/* What is kept of a delivery that failed first and is done. */
static hf_status find_outcome(struct conn *conn, const struct about *about, int64_t position,
                              struct arena *arena, struct delivery_facts *facts, struct text *story)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_OUTCOME_GET);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, about->id);
    bind_int(stmt, 2, position);
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (status || !row) {
        return status;
    }
    facts->attempts = sqlite3_column_int(stmt, 0);
    *story = arena_text(arena, column_text(stmt, 1));
    facts->cause = cause_of(column_text(stmt, 2));
    facts->deliveries = (int32_t)column_int(stmt, 3, -1);
    conn_done(stmt);
    return arena_status(arena);
}

/* Is it cancelled, or to be? */
static hf_status find_cancel(struct conn *conn, const struct about *about, int64_t position,
                             struct arena *arena, struct delivery_facts *facts)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_CANCEL_GET);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, about->id);
    bind_int(stmt, 2, position);
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (status || !row) {
        return status;
    }
    facts->cancelled_at_us = column_int(stmt, 0, -1);
    facts->cancel_asked_us = facts->cancelled_at_us < 0 ? sqlite3_column_int64(stmt, 3) : -1;
    facts->cancelled_by = arena_text(arena, column_text(stmt, 1));
    facts->cancel_reason = arena_text(arena, column_text(stmt, 2));
    conn_done(stmt);
    return arena_status(arena);
}

/* Is there something that says what has become of it, other than checkpoint and cursor? */
static bool is_told(const struct delivery_facts *facts)
{
    return facts->waiting || facts->held || facts->blocked || facts->leased ||
           facts->holder.ended || facts->dead_id >= 0;
}

static hf_status read_facts(struct sqlite_engine *engine, struct conn *conn,
                            const struct delivery_query *query, struct arena *arena,
                            struct delivery_facts *facts, struct text *story)
{
    struct about about;
    hf_status status = subscription_about(engine, conn, query->subscription_id, &about);
    if (status) {
        return status;
    }
    facts->start = about.start;
    int64_t doubt_through = 0;
    if (about.mode == HF_MODE_SHARED) {
        bool found;
        status = STATEMENT_INT(conn, SQLITE_QUERY_PARTITION_CHECKPOINT_GET, &found, &facts->cursor,
                               about.id, 0);
        if (!status) {
            status = find_leased(engine, conn, query, facts);
        }
    } else {
        status = find_partition(engine, conn, &about, query->position,
                                hash_slice(query->hash, about.partitions), facts, &doubt_through);
    }
    if (!status) {
        status = find_retry(conn, &about, query->position, doubt_through, arena, facts, story);
    }
    if (!status) {
        status = find_dead(engine, conn, text_of(about.name), query->id, arena, facts, story);
    }
    if (!status && !is_told(facts)) {
        bool pending = about.mode == HF_MODE_SHARED && query->position > facts->cursor;
        facts->deliveries = pending ? 0 : -1;
        status = find_outcome(conn, &about, query->position, arena, facts, story);
    }
    return status ? status : find_cancel(conn, &about, query->position, arena, facts);
}

hf_status sqlite_delivery_facts(struct engine *engine, const struct delivery_query *query,
                                struct arena *arena, struct delivery_facts *ret_facts,
                                struct text *ret_attempts_json)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct conn *conn;
    hf_status status = pool_take_snapshot(self, &conn);
    if (status) {
        return status;
    }
    struct delivery_facts facts = {
        .checkpoint = -1,
        .cursor = -1,
        .holder = {.since_us = -1},
        .next_attempt_us = -1,
        .dead_id = -1,
        .deliveries = -1,
        .cancel_asked_us = -1,
        .cancelled_at_us = -1,
        .cancelled_by = TEXT_ABSENT,
        .cancel_reason = TEXT_ABSENT,
    };
    struct text story = TEXT_ABSENT;
    status = read_facts(self, conn, query, arena, &facts, &story);
    pool_give(self, conn);
    if (!status) {
        *ret_facts = facts;
        *ret_attempts_json = story;
    }
    return status;
}
