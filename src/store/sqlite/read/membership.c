/*
 * membership.c - for people who look: whose each partition is, and which keys are blocked.
 *
 * Each answer is one snapshot; only whether a process is alive is looked at beside it. Nothing
 * here counts as a sign that a member is frozen, so one whose process exists is called alive,
 * frozen or not: taking its work away is the business of a refresh.
 */
#include "store/membership.h"
#include "base/err.h"
#include "base/mem.h"
#include "store/sqlite/file/row.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/outcome.h"
#include "store/sqlite/write/subscription.h"

bool sqlite_owner_is_alive(struct sqlite_engine *engine, const uint8_t owner[STORE_TOKEN_BYTES])
{
    enum live_state state = live_state(engine, owner, INT64_MAX);
    return state == LIVE_SELF || state == LIVE_ALIVE || state == LIVE_FROZEN;
}

/* ---- Partitions ------------------------------------------------------------------------------ */

/* The members that live. */
struct living {
    size_t count;
    uint8_t tokens[STORE_MEMBERS_MAX][STORE_TOKEN_BYTES];
};

static hf_status tell_members(struct sqlite_engine *engine, struct conn *conn, int64_t id,
                              struct living *living, member_row_fn member, void *ctx,
                              bool *ret_stop)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_MEMBER_LIST);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, id);
    *ret_stop = false;
    while (living->count < STORE_MEMBERS_MAX && !*ret_stop) {
        bool row;
        hf_status status = conn_row(conn, stmt, &row);
        if (status || !row) {
            return status;
        }
        uint8_t *token = living->tokens[living->count];
        if (column_blob(stmt, 0, token, STORE_TOKEN_BYTES) &&
            sqlite_owner_is_alive(engine, token)) {
            living->count++;
            *ret_stop = member(column_text(stmt, 1), ctx) != 0;
        }
    }
    conn_done(stmt);
    return HF_OK;
}

static hf_status count_waiting(struct conn *conn, int64_t id, struct partition_row *row)
{
    static const enum retry_kind kinds[] = {RETRY_WAITING, RETRY_HELD, RETRY_BLOCKED};
    int64_t *counts[] = {&row->retrying, &row->held, &row->blocked};
    hf_status status = HF_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && !status; i++) {
        bool found;
        status = STATEMENT_INT(conn, SQLITE_QUERY_RETRIES_COUNT, &found, counts[i], id,
                               row->partition, kinds[i]);
    }
    return status;
}

static void read_owner(struct sqlite_engine *engine, sqlite3_stmt *stmt,
                       const struct living *living, struct partition_row *row)
{
    uint8_t owner[STORE_TOKEN_BYTES];
    row->member = -1;
    row->owned = column_blob(stmt, 4, owner, sizeof owner);
    if (!row->owned) {
        return;
    }
    row->owner_alive = sqlite_owner_is_alive(engine, owner);
    row->owner_name = column_text(stmt, 5);
    for (size_t i = 0; i < living->count; i++) {
        if (memcmp(living->tokens[i], owner, sizeof owner) == 0) {
            row->member = (int32_t)i;
        }
    }
}

static hf_status tell_partitions(struct sqlite_engine *engine, struct conn *conn, int64_t id,
                                 const struct living *living, partition_row_fn partition, void *ctx)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_PARTITION_LIST);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, id);
    bool stop = false;
    hf_status status = HF_OK;
    while (!status && !stop) {
        bool found;
        status = conn_row(conn, stmt, &found);
        if (status || !found) {
            return status;
        }
        struct partition_row row = {
            .partition = sqlite3_column_int(stmt, 0),
            .checkpoint = sqlite3_column_int64(stmt, 1),
            .checkpoint_at_us = column_int(stmt, 2, -1),
            .epoch = sqlite3_column_int64(stmt, 6),
        };
        read_owner(engine, stmt, living, &row);
        status = count_waiting(conn, id, &row);
        stop = status == HF_OK && partition(&row, ctx) != 0;
    }
    conn_done(stmt);
    return status;
}

hf_status sqlite_partitions(struct engine *engine, int64_t subscription_id, member_row_fn member,
                            partition_row_fn partition, void *ctx)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct living *living = mem_calloc(1, sizeof *living);
    if (!living) {
        return fail(HF_NOMEM, "no memory for the members of a subscription");
    }
    struct conn *conn;
    hf_status status = pool_take_snapshot(self, &conn);
    if (!status) {
        struct about about;
        bool stop = false;
        status = subscription_about(self, conn, subscription_id, &about);
        if (!status) {
            status = tell_members(self, conn, subscription_id, living, member, ctx, &stop);
        }
        if (!status && !stop) {
            status = tell_partitions(self, conn, subscription_id, living, partition, ctx);
        }
        pool_give(self, conn);
    }
    mem_free(living);
    return status;
}

/* ---- Blocked keys ---------------------------------------------------------------------------- */

static hf_status find_letter(struct sqlite_engine *engine, struct conn *conn, const char *name,
                             struct blocked_row *row)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_DEAD_OF_EVENT);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_text(stmt, 2, text_of(name));
    bind_blob(stmt, 3, row->event_id, sizeof row->event_id);
    bool found;
    hf_status status = conn_row(conn, stmt, &found);
    if (!status && found) {
        row->dead_id = sqlite3_column_int64(stmt, 0);
        conn_done(stmt);
    }
    return status;
}

/* Fills in what the row of the retry does not say, and hands it up. */
static hf_status tell_blocked(struct sqlite_engine *engine, struct conn *conn, int64_t id,
                              const char *name, struct blocked_row *row, blocked_row_fn found,
                              void *ctx, bool *ret_stop)
{
    sqlite3_stmt *event;
    hf_status status = row_find(engine, conn, id, row->position, true, &event);
    if (status) {
        return status;
    }
    if (event) {
        row->has_event = column_blob(event, ROW_ID, row->event_id, sizeof row->event_id);
        row->type = row_type(event);
        row->key = column_text(event, ROW_KEY);
        row->tenant = column_text(event, ROW_TENANT);
        status = find_letter(engine, conn, name, row);
    }
    *ret_stop = status == HF_OK && found(row, ctx) != 0;
    if (event) {
        conn_done(event);
    }
    return status;
}

static hf_status read_blocked(struct sqlite_engine *engine, struct conn *conn, int64_t id,
                              int64_t after, int32_t max, blocked_row_fn found, void *ctx)
{
    struct about about;
    hf_status status = subscription_about(engine, conn, id, &about);
    if (status) {
        return status;
    }
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_BLOCKED_LIST);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, id);
    bind_int(stmt, 2, after);
    bind_int(stmt, 3, max);
    bool stop = false;
    while (!status && !stop) {
        bool more;
        bool counted;
        status = conn_row(conn, stmt, &more);
        if (status || !more) {
            return status;
        }
        struct blocked_row row = {
            .position = sqlite3_column_int64(stmt, 0),
            .partition = sqlite3_column_int(stmt, 1),
            .since_us = column_int(stmt, 3, -1),
            .dead_id = -1,
        };
        status = STATEMENT_INT(conn, SQLITE_QUERY_LANE_BEHIND, &counted, &row.held, id,
                               row.partition, sqlite3_column_int64(stmt, 2), row.position);
        if (!status) {
            status = tell_blocked(engine, conn, id, about.name, &row, found, ctx, &stop);
        }
    }
    conn_done(stmt);
    return status;
}

hf_status sqlite_blocked(struct engine *engine, int64_t subscription_id, int64_t after, int32_t max,
                         blocked_row_fn found, void *ctx)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct conn *conn;
    hf_status status = pool_take_snapshot(self, &conn);
    if (status) {
        return status;
    }
    status = read_blocked(self, conn, subscription_id, after, max, found, ctx);
    pool_give(self, conn);
    return status;
}
