/*
 * facts.c - where one event is in some subscriptions: what the tables know of it, and whether its
 * handler runs.
 *
 * One snapshot answers for all subscriptions that are asked about, so that a thousand of them cost
 * one transaction. Whether an owner lives and what its handlers are at is looked at beside it, once
 * for each process and not for each of its subscriptions (struct owners).
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "store/sqlite/file/row.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/lease.h"
#include "store/sqlite/write/outcome.h"
#include "store/sqlite/write/partition.h"
#include "store/sqlite/write/subscription.h"

#define FACTS_BYTES_MAX ((size_t)4 << 20) /* texts about one delivery */

/* ---- Owners ---------------------------------------------------------------------------------- */

/* A process that owns a partition, or did. */
struct owner {
    uint8_t token[STORE_TOKEN_BYTES];
    bool alive;
};

/* A handler of one of them that runs for the event. */
struct run {
    size_t owner; /* its place among the owners */
    int64_t subscription_id;
    int64_t since_us; /* -1: not known */
};

/* All processes that came up so far, the last one first to be looked for, and what they are at with
 * the event at one position. */
struct owners {
    int64_t position;
    struct owner *owners;
    size_t count, capacity;
    struct run *runs;
    size_t run_count, run_capacity;
};

static void owners_release(struct owners *owners)
{
    mem_free(owners->owners);
    mem_free(owners->runs);
}

/* Room for one more of `count` items; HF_NOMEM. */
static hf_status grow(void **items, size_t bytes, size_t count, size_t *capacity)
{
    if (count < *capacity) {
        return HF_OK;
    }
    size_t wanted = *capacity ? 2 * *capacity : 16;
    void *grown = mem_realloc(*items, wanted * bytes);
    if (!grown) {
        return fail(HF_NOMEM, "no memory for the owners of subscriptions");
    }
    *items = grown;
    *capacity = wanted;
    return HF_OK;
}

/* Keeps the notes of the owner that was added last about the event. */
static hf_status keep_run(const struct handler_note *note, void *ctx)
{
    struct owners *owners = ctx;
    if (note->position != owners->position) {
        return HF_OK;
    }
    hf_status status = grow((void **)&owners->runs, sizeof *owners->runs, owners->run_count,
                            &owners->run_capacity);
    if (!status) {
        owners->runs[owners->run_count++] = (struct run){
            .owner = owners->count - 1,
            .subscription_id = note->subscription_id,
            .since_us = note->now_us > 0 ? note->now_us : -1,
        };
    }
    return status;
}

static hf_status owners_find(struct owners *owners, struct sqlite_engine *engine,
                             const uint8_t token[STORE_TOKEN_BYTES], struct owner **ret_owner)
{
    for (size_t i = owners->count; i > 0; i--) {
        if (memcmp(owners->owners[i - 1].token, token, STORE_TOKEN_BYTES) == 0) {
            *ret_owner = &owners->owners[i - 1];
            return HF_OK;
        }
    }
    hf_status status =
        grow((void **)&owners->owners, sizeof *owners->owners, owners->count, &owners->capacity);
    if (status) {
        return status;
    }
    struct owner *owner = &owners->owners[owners->count++];
    memcpy(owner->token, token, STORE_TOKEN_BYTES);
    owner->alive = sqlite_owner_is_alive(engine, token);
    *ret_owner = owner;
    bool exact;
    int32_t running;
    return owner->alive ? live_notes(engine, token, 0, keep_run, owners, &exact, &running) : HF_OK;
}

/* Its handler that runs for the event and the subscription; NULL: none does. */
static const struct run *owners_run(const struct owners *owners, const struct owner *owner,
                                    int64_t subscription_id)
{
    for (size_t i = 0; i < owners->run_count; i++) {
        const struct run *run = &owners->runs[i];
        if (run->subscription_id == subscription_id &&
            run->owner == (size_t)(owner - owners->owners)) {
            return run;
        }
    }
    return NULL;
}

/* ---- What the tables know -------------------------------------------------------------------- */

/* Which lease is it in, if it is in one, and how often was it handed out? */
static hf_status find_leased(struct sqlite_engine *engine, struct conn *conn, int64_t id,
                             const struct delivery_query *query, struct delivery_facts *facts)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_LEASE_LIST);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, id);
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

/* The partition of an ordered subscription: its checkpoint, and whether its owner is at it now. */
static hf_status find_partition(struct sqlite_engine *engine, struct conn *conn,
                                const struct about *about, struct owners *owners, int32_t number,
                                struct delivery_facts *facts, int64_t *ret_doubt_through)
{
    struct partition partition;
    hf_status status = partition_load(engine, conn, about->id, number, &partition);
    if (status) {
        return status;
    }
    facts->checkpoint = partition.checkpoint;
    *ret_doubt_through = partition.doubt_through;
    if (partition.owned) {
        struct owner *owner = NULL;
        status = owners_find(owners, engine, partition.owner, &owner);
        if (!status && owner->alive) {
            const struct run *run = owners_run(owners, owner, about->id);
            facts->leased = run != NULL;
            facts->holder.since_us = run ? run->since_us : -1;
            snprintf(facts->holder.node, sizeof facts->holder.node, "%s", partition.owner_name);
        }
    }
    if (facts->leased && owners->position > partition.doubt_through) {
        facts->deliveries = 1; /* unless it has a row */
    }
    int64_t one;
    if (!status) {
        status = STATEMENT_INT(conn, SQLITE_QUERY_SETTLED_HAS, &facts->settled, &one, about->id,
                               number, owners->position);
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

/* One look at some subscriptions. */
struct look {
    struct sqlite_engine *engine;
    struct conn *conn;
    const struct delivery_query *query;
    struct owners owners;
    struct arena arena; /* texts about the subscription that is looked at */
};

static hf_status read_facts(struct look *look, int64_t subscription_id,
                            struct delivery_facts *facts, struct text *story)
{
    struct sqlite_engine *engine = look->engine;
    struct conn *conn = look->conn;
    const struct delivery_query *query = look->query;
    struct about about;
    hf_status status = subscription_about(engine, conn, subscription_id, &about);
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
            status = find_leased(engine, conn, about.id, query, facts);
        }
    } else {
        status = find_partition(engine, conn, &about, &look->owners,
                                hash_slice(query->hash, about.partitions), facts, &doubt_through);
    }
    if (!status) {
        status =
            find_retry(conn, &about, query->position, doubt_through, &look->arena, facts, story);
    }
    if (!status) {
        status =
            find_dead(engine, conn, text_of(about.name), query->id, &look->arena, facts, story);
    }
    if (!status && !is_told(facts)) {
        bool pending = about.mode == HF_MODE_SHARED && query->position > facts->cursor;
        facts->deliveries = pending ? 0 : -1;
        status = find_outcome(conn, &about, query->position, &look->arena, facts, story);
    }
    return status ? status : find_cancel(conn, &about, query->position, &look->arena, facts);
}

static hf_status tell_facts(struct look *look, int64_t id, delivery_facts_fn found, void *ctx,
                            bool *ret_stop)
{
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
    arena_clear(&look->arena);
    hf_status status = read_facts(look, id, &facts, &story);
    if (!status) {
        *ret_stop = found(id, &facts, story, ctx) != 0;
    }
    return status == HF_NOTFOUND ? HF_OK : status;
}

hf_status sqlite_delivery_facts_each(struct engine *engine, const struct delivery_query *query,
                                     const int64_t *ids, size_t count, delivery_facts_fn found,
                                     void *ctx)
{
    struct look look = {
        .engine = sqlite_of(engine),
        .query = query,
        .owners = {.position = query->position},
    };
    hf_status status = pool_take_snapshot(look.engine, &look.conn);
    if (status) {
        return status;
    }
    arena_init(&look.arena, FACTS_BYTES_MAX);
    bool stop = false;
    for (size_t i = 0; i < count && !status && !stop; i++) {
        status = tell_facts(&look, ids[i], found, ctx, &stop);
    }
    pool_give(look.engine, look.conn);
    arena_release(&look.arena);
    owners_release(&look.owners);
    return status;
}
