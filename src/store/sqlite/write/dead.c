/*
 * dead.c - dead letters: retrying, resolving, purging, and counting them along.
 *
 * A dead letter is a complete copy and refers to its subscription by name only. Retrying moves it
 * back: a row in retries and a copy of the event beside it, because the log may have forgotten the
 * event or the payload was edited. The dead letter goes in the same transaction, so the delivery is
 * in one place at any time.
 *
 * A blocked lane waits because of the row that OUTCOME_BLOCK left in retries at the dead letter's
 * position. Retrying turns that row into a waiting one; resolving and purging remove it, remember
 * the position as settled if it is above the checkpoint (nothing else keeps it from being read
 * again) and let the lane's next row go on.
 *
 * The letters of each kind are counted in the transaction that adds or takes them (outcome.h).
 */
#include "base/err.h"
#include "base/hash.h"
#include "base/point.h"
#include "store/sqlite/file/row.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/outcome.h"

/* ---- Kinds ----------------------------------------------------------------------------------- */

hf_status dead_kinds_note(struct sqlite_engine *engine, struct conn *conn, int64_t kind,
                          int64_t letters, struct dead_kinds *noted)
{
    int at = 0;
    while (at < noted->count && noted->kinds[at] != kind) {
        at++;
    }
    if (at == DEAD_KINDS_NOTED) {
        hf_status status = dead_kinds_store(engine, conn, noted);
        if (status) {
            return status;
        }
        at = 0;
    }
    if (at == noted->count) {
        noted->kinds[at] = kind;
        noted->letters[at] = 0;
        noted->count++;
    }
    noted->letters[at] += letters;
    return HF_OK;
}

hf_status dead_kinds_store(struct sqlite_engine *engine, struct conn *conn,
                           struct dead_kinds *noted)
{
    hf_status status = HF_OK;
    for (int i = 0; i < noted->count && !status; i++) {
        if (noted->letters[i] == 0) {
            continue;
        }
        status = STATEMENT_RUN(conn, SQLITE_QUERY_DEAD_KIND_CHANGE, engine->namespace_id,
                               noted->kinds[i], noted->letters[i]);
        if (!status && noted->letters[i] < 0) {
            status = STATEMENT_RUN(conn, SQLITE_QUERY_DEAD_KIND_FORGET, engine->namespace_id,
                                   noted->kinds[i]);
        }
    }
    noted->count = 0;
    return status;
}

/* ---- Where a dead letter belongs ------------------------------------------------------------- */

/* What the changes need to know of a dead letter and its subscription. */
struct grave {
    int64_t dead_id;
    int64_t position;
    uint64_t lane;
    bool resolved;
    bool subscribed; /* its subscription exists; else the scope says nothing */
    struct outcome_scope scope;
};

/* The scope of the subscription with this name. */
static hf_status find_scope(struct sqlite_engine *engine, struct conn *conn, struct text name,
                            int64_t hash, struct grave *grave)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_SUBSCRIPTION_GET);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_text(stmt, 2, name);
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (status || !row) {
        return status;
    }
    struct outcome_scope *scope = &grave->scope;
    scope->subscription_id = sqlite3_column_int64(stmt, 0);
    scope->ordered = sqlite3_column_int(stmt, 4) == HF_MODE_ORDERED;
    int64_t partitions = sqlite3_column_int64(stmt, 5);
    conn_done(stmt);
    scope->partition = scope->ordered && partitions > 1 ? hash_slice(hash, partitions) : 0;
    grave->subscribed = true;
    bool found;
    return STATEMENT_INT(conn, SQLITE_QUERY_PARTITION_CHECKPOINT_GET, &found, &scope->checkpoint,
                         scope->subscription_id, scope->partition);
}

/* The lane of the row that it left behind, if it blocks: in strict order that is not the
 * event's. */
static hf_status find_lane(struct conn *conn, struct grave *grave)
{
    bool found;
    int64_t lane;
    hf_status status = STATEMENT_INT(conn, SQLITE_QUERY_RETRY_LANE, &found, &lane,
                                     grave->scope.subscription_id, grave->position);
    if (!status && found) {
        grave->lane = (uint64_t)lane;
    }
    return status;
}

/* HF_NOTFOUND, without a message, if there is no such dead letter. */
static hf_status grave_load(struct sqlite_engine *engine, struct conn *conn, int64_t dead_id,
                            int64_t now_us, struct grave *ret_grave)
{
    sqlite3_stmt *stmt = NULL;
    hf_status status = row_dead(engine, conn, dead_id, &stmt);
    if (status || !stmt) {
        return status ? status : HF_NOTFOUND;
    }
    struct grave grave = {
        .dead_id = dead_id,
        .position = sqlite3_column_int64(stmt, ROW_POSITION),
        .resolved = !column_is_null(stmt, DEAD_RESOLVED_AT),
        .scope = {.now_us = now_us},
    };
    status = row_lane(stmt, &grave.lane);
    if (!status) {
        status = find_scope(engine, conn, column_text(stmt, DEAD_SUBSCRIPTION),
                            sqlite3_column_int64(stmt, ROW_HASH), &grave);
    }
    conn_done(stmt);
    if (!status && grave.subscribed) {
        status = find_lane(conn, &grave);
    }
    if (!status) {
        *ret_grave = grave;
    }
    return status;
}

/* Lets go of the lane that the dead letter blocked, if it did. */
static hf_status unblock(struct conn *conn, const struct grave *grave)
{
    const struct outcome_scope *scope = &grave->scope;
    if (!grave->subscribed) {
        return HF_OK;
    }
    hf_status status = STATEMENT_RUN(conn, SQLITE_QUERY_RETRY_REMOVE_BLOCKED,
                                     scope->subscription_id, grave->position);
    if (status || conn_changes(conn) == 0) {
        return status;
    }
    status = STATEMENT_RUN(conn, SQLITE_QUERY_COPY_REMOVE, scope->subscription_id, grave->position);
    if (!status && scope->ordered && grave->position > scope->checkpoint) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_SETTLED_ADD, scope->subscription_id,
                               scope->partition, grave->position);
    }
    bool busy;
    return status ? status : outcome_promote(conn, scope, grave->lane, &busy);
}

/* ---- Changes --------------------------------------------------------------------------------- */

/* The checksum of a dead letter's event with another payload. */
static hf_status edited_checksum(struct sqlite_engine *engine, struct conn *conn, int64_t dead_id,
                                 struct text payload, int64_t *ret_checksum)
{
    sqlite3_stmt *stmt = NULL;
    hf_status status = row_dead(engine, conn, dead_id, &stmt);
    if (!status && stmt) {
        status = row_checksum(stmt, payload, ret_checksum);
        conn_done(stmt);
    }
    return status;
}

static hf_status dead_remove(struct sqlite_engine *engine, struct conn *conn, int64_t dead_id,
                             struct dead_kinds *kinds)
{
    bool open;
    int64_t kind = 0;
    hf_status status = STATEMENT_INT(conn, SQLITE_QUERY_DEAD_REMOVE, &open, &kind, dead_id);
    return status || !open ? status : dead_kinds_note(engine, conn, kind, -1, kinds);
}

/* The dead letter becomes a waiting retry with a copy of its event. What the lane knew of it, a
 * blocked row or a row in `settled`, is replaced: a transactional handler would take the latter for
 * proof that it ran. */
static hf_status revive(struct sqlite_engine *engine, struct conn *conn, const struct grave *grave,
                        struct text payload, struct dead_kinds *kinds)
{
    const struct outcome_scope *scope = &grave->scope;
    int64_t checksum = 0;
    hf_status status = HF_OK;
    if (!text_is_absent(payload)) {
        status = edited_checksum(engine, conn, grave->dead_id, payload, &checksum);
    }
    if (status) {
        return status;
    }
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_DEAD_TO_COPY);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, grave->dead_id);
    bind_int(stmt, 2, scope->subscription_id);
    bind_text(stmt, 3, payload);
    if (!text_is_absent(payload)) {
        bind_int(stmt, 4, checksum);
    }
    status = conn_run(conn, stmt);
    if (!status) {
        status =
            STATEMENT_RUN(conn, SQLITE_QUERY_RETRY_REVIVE, scope->subscription_id, grave->position,
                          scope->partition, (int64_t)grave->lane, scope->now_us);
    }
    if (!status) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_SETTLED_REMOVE, scope->subscription_id,
                               scope->partition, grave->position);
    }
    if (!status) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_CANCEL_REMOVE, scope->subscription_id,
                               grave->position);
    }
    HF_POINT("mid_dead_retry");
    return status ? status : dead_remove(engine, conn, grave->dead_id, kinds);
}

hf_status sqlite_dead_retry(struct sqlite_engine *engine, struct conn *conn,
                            struct dead_retry *retry)
{
    if (!text_is_absent(retry->payload) && retry->count != 1) {
        return fail(HF_MISUSE, "a payload can be replaced for one dead letter, not for %zu",
                    retry->count);
    }
    struct dead_kinds kinds = {.count = 0};
    int64_t count = 0;
    int64_t resolved = 0;
    for (size_t i = 0; i < retry->count; i++) {
        struct grave grave;
        hf_status status =
            grave_load(engine, conn, retry->dead_ids[i], retry->change.now_us, &grave);
        if (!status && grave.resolved) {
            resolved++;
            continue;
        }
        if (status == HF_NOTFOUND || (!status && !grave.subscribed)) {
            continue;
        }
        if (!status) {
            status = revive(engine, conn, &grave, retry->payload, &kinds);
        }
        if (status) {
            return status;
        }
        count++;
    }
    retry->ret_count = count;
    retry->ret_resolved = resolved;
    conn->ring = RING_ALL;
    return dead_kinds_store(engine, conn, &kinds);
}

hf_status sqlite_dead_resolve(struct sqlite_engine *engine, struct conn *conn,
                              struct dead_resolve *resolve)
{
    struct grave grave;
    hf_status status = grave_load(engine, conn, resolve->dead_id, resolve->change.now_us, &grave);
    if (status == HF_NOTFOUND) {
        return fail(HF_NOTFOUND, "there is no dead letter %lld", (long long)resolve->dead_id);
    }
    if (status) {
        return status;
    }
    if (grave.resolved) {
        return fail(HF_CONFLICT, "dead letter %lld is resolved already",
                    (long long)resolve->dead_id);
    }
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_DEAD_RESOLVE);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, resolve->dead_id);
    bind_int(stmt, 2, resolve->change.now_us);
    bind_text(stmt, 3, resolve->by);
    bind_text(stmt, 4, resolve->note);
    bool row;
    status = conn_row(conn, stmt, &row);
    if (!status && row) {
        struct dead_kinds kinds = {.count = 0};
        int64_t kind = sqlite3_column_int64(stmt, 0);
        conn_done(stmt);
        status = dead_kinds_note(engine, conn, kind, -1, &kinds);
        status = status ? status : dead_kinds_store(engine, conn, &kinds);
    }
    conn->ring = RING_ALL;
    return status ? status : unblock(conn, &grave);
}

hf_status sqlite_dead_purge(struct sqlite_engine *engine, struct conn *conn,
                            struct dead_purge *purge)
{
    struct dead_kinds kinds = {.count = 0};
    int64_t count = 0;
    for (size_t i = 0; i < purge->count; i++) {
        struct grave grave;
        hf_status status =
            grave_load(engine, conn, purge->dead_ids[i], purge->change.now_us, &grave);
        if (status == HF_NOTFOUND) {
            continue;
        }
        if (!status) {
            status = dead_remove(engine, conn, grave.dead_id, &kinds);
        }
        if (!status) {
            status = unblock(conn, &grave);
        }
        if (status) {
            return status;
        }
        count++;
    }
    purge->ret_count = count;
    conn->ring = RING_ALL;
    return dead_kinds_store(engine, conn, &kinds);
}
