/*
 * dead.c - dead letters: retrying, resolving, purging, listing.
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
 * Lists are read in the order of numbers from one of three indexes; a type's pattern and the
 * error's text are compared row by row, before the large columns are fetched. A listing reads one
 * snapshot; its callback may change what is listed.
 */
#include "base/err.h"
#include "base/hash.h"
#include "base/point.h"
#include "base/text/glob.h"
#include "store/sqlite/file/row.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/outcome.h"

/* Columns of dead_get after the event's. */
enum dead_column {
    DEAD_ID = ROW_COLUMNS,
    DEAD_SUBSCRIPTION,
    DEAD_REASON,
    DEAD_ERROR,
    DEAD_ATTEMPTS,
    DEAD_STORY,
    DEAD_FAILED_AT,
    DEAD_RESOLVED_AT,
    DEAD_RESOLVED_BY,
    DEAD_RESOLVED_NOTE,
    DEAD_CAUSE,
    DEAD_DELIVERIES
};

/* *ret_stmt stands on the dead letter's row, or is NULL if there is none. */
static hf_status dead_find(struct sqlite_engine *engine, struct conn *conn, int64_t dead_id,
                           sqlite3_stmt **ret_stmt)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_DEAD_GET);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_int(stmt, 2, dead_id);
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (!status) {
        *ret_stmt = row ? stmt : NULL;
    }
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
    hf_status status = dead_find(engine, conn, dead_id, &stmt);
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
    hf_status status = dead_find(engine, conn, dead_id, &stmt);
    if (!status && stmt) {
        status = row_checksum(stmt, payload, ret_checksum);
        conn_done(stmt);
    }
    return status;
}

/* The dead letter becomes a waiting retry with a copy of its event. What the lane knew of it, a
 * blocked row or a row in `settled`, is replaced: a transactional handler would take the latter for
 * proof that it ran. */
static hf_status revive(struct sqlite_engine *engine, struct conn *conn, const struct grave *grave,
                        struct text payload)
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
    return status ? status : STATEMENT_RUN(conn, SQLITE_QUERY_DEAD_REMOVE, grave->dead_id);
}

hf_status sqlite_dead_retry(struct sqlite_engine *engine, struct conn *conn,
                            struct dead_retry *retry)
{
    if (!text_is_absent(retry->payload) && retry->count != 1) {
        return fail(HF_MISUSE, "a payload can be replaced for one dead letter, not for %zu",
                    retry->count);
    }
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
            status = revive(engine, conn, &grave, retry->payload);
        }
        if (status) {
            return status;
        }
        count++;
    }
    retry->ret_count = count;
    retry->ret_resolved = resolved;
    conn->ring = RING_ALL;
    return HF_OK;
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
    status = conn_run(conn, stmt);
    conn->ring = RING_ALL;
    return status ? status : unblock(conn, &grave);
}

hf_status sqlite_dead_purge(struct sqlite_engine *engine, struct conn *conn,
                            struct dead_purge *purge)
{
    int64_t count = 0;
    for (size_t i = 0; i < purge->count; i++) {
        struct grave grave;
        hf_status status =
            grave_load(engine, conn, purge->dead_ids[i], purge->change.now_us, &grave);
        if (status == HF_NOTFOUND) {
            continue;
        }
        if (!status) {
            status = STATEMENT_RUN(conn, SQLITE_QUERY_DEAD_REMOVE, grave.dead_id);
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
    return HF_OK;
}

/* ---- Listing --------------------------------------------------------------------------------- */

static hf_status hand_up(sqlite3_stmt *stmt, hf_dead_letter_fn found, void *ctx, int *ret_answer)
{
    char id_text[HF_ID_BYTES];
    hf_dead_letter letter = {
        .dead_id = sqlite3_column_int64(stmt, DEAD_ID),
        .subscription = column_text(stmt, DEAD_SUBSCRIPTION).bytes,
        .reason = column_text(stmt, DEAD_REASON).bytes,
        .error = column_text(stmt, DEAD_ERROR).bytes,
        .attempts = sqlite3_column_int(stmt, DEAD_ATTEMPTS),
        .attempts_json = column_text(stmt, DEAD_STORY).bytes,
        .failed_at_us = sqlite3_column_int64(stmt, DEAD_FAILED_AT),
        .resolved_at_us = column_int(stmt, DEAD_RESOLVED_AT, -1),
        .resolved_by = column_text(stmt, DEAD_RESOLVED_BY).bytes,
        .resolved_note = column_text(stmt, DEAD_RESOLVED_NOTE).bytes,
        .cause = column_text(stmt, DEAD_CAUSE).bytes,
    };
    hf_status status = row_event(stmt, id_text, &letter.event);
    letter.event.deliveries = (int32_t)column_int(stmt, DEAD_DELIVERIES, -1);
    if (!status) {
        *ret_answer = found(&letter, ctx);
    }
    return status;
}

hf_status sqlite_dead_get(struct engine *engine, int64_t dead_id, hf_dead_letter_fn found,
                          void *ctx)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct conn *conn;
    hf_status status = pool_take(self, &conn);
    if (status) {
        return status;
    }
    sqlite3_stmt *stmt = NULL;
    status = dead_find(self, conn, dead_id, &stmt);
    if (!status && stmt) {
        int answer;
        status = hand_up(stmt, found, ctx, &answer);
        conn_done(stmt);
    } else if (!status) {
        status = fail(HF_NOTFOUND, "there is no dead letter %lld", (long long)dead_id);
    }
    pool_give(self, conn);
    return status;
}

/* The statement whose index serves the query best. */
static enum sqlite_query list_statement(const struct dead_query *query)
{
    if (query->resolved_too) {
        return query->oldest_first ? SQLITE_QUERY_DEAD_ALL_OLDEST : SQLITE_QUERY_DEAD_ALL_NEWEST;
    }
    if (text_is_absent(query->subscription)) {
        return query->oldest_first ? SQLITE_QUERY_DEAD_OPEN_OLDEST : SQLITE_QUERY_DEAD_OPEN_NEWEST;
    }
    return query->oldest_first ? SQLITE_QUERY_DEAD_OPEN_OF_OLDEST
                               : SQLITE_QUERY_DEAD_OPEN_OF_NEWEST;
}

/* Columns of the list statements: id, type, reason, error, failed_at. */
static bool matches(sqlite3_stmt *stmt, const struct dead_query *query)
{
    int64_t failed_at_us = sqlite3_column_int64(stmt, 4);
    if ((query->failed_before_us >= 0 && failed_at_us > query->failed_before_us) ||
        (query->failed_after_us >= 0 && failed_at_us < query->failed_after_us)) {
        return false;
    }
    if (!text_is_absent(query->reason) && !text_equal(query->reason, column_text(stmt, 2))) {
        return false;
    }
    if (!text_is_absent(query->type) && !glob_match(query->type, column_text(stmt, 1))) {
        return false;
    }
    if (text_is_absent(query->error)) {
        return true;
    }
    struct text error = column_text(stmt, 3);
    return error.bytes &&
           memmem(error.bytes, error.length, query->error.bytes, query->error.length);
}

/* The statement of the listing with its parameters; NULL: conn_error says why not. */
static sqlite3_stmt *begin_list(struct sqlite_engine *engine, struct conn *conn,
                                const struct dead_query *query)
{
    sqlite3_stmt *stmt = conn_statement(conn, list_statement(query));
    if (stmt) {
        bind_int(stmt, 1, engine->namespace_id);
        bind_int(stmt, 2, query->after_dead_id >= 0 ? query->after_dead_id : 0);
        bind_int(stmt, 3, query->before_dead_id >= 0 ? query->before_dead_id : INT64_MAX);
        if (sqlite3_bind_parameter_count(stmt) >= 4) {
            bind_text(stmt, 4, query->subscription);
        }
    }
    return stmt;
}

/* Hands up the letter that a row of the listing names, if it is still there. */
static hf_status hand_up_row(struct sqlite_engine *engine, struct conn *conn, sqlite3_stmt *stmt,
                             hf_dead_letter_fn found, void *ctx, int *answer)
{
    sqlite3_stmt *letter = NULL;
    hf_status status = dead_find(engine, conn, sqlite3_column_int64(stmt, 0), &letter);
    if (!status && letter) {
        status = hand_up(letter, found, ctx, answer);
        conn_done(letter);
    }
    return status;
}

/* Hands up what matches, or only counts it if `found` is NULL. */
static hf_status list(struct sqlite_engine *engine, struct conn *conn,
                      const struct dead_query *query, hf_dead_letter_fn found, void *ctx,
                      int64_t *ret_count)
{
    sqlite3_stmt *stmt = begin_list(engine, conn, query);
    if (!stmt) {
        return conn_error(conn);
    }
    int64_t skip = query->offset > 0 ? query->offset : 0;
    int64_t count = 0;
    int answer = 0;
    hf_status status = HF_OK;
    while (!status && answer == 0 && (query->limit < 0 || count < query->limit)) {
        bool row;
        status = conn_row(conn, stmt, &row);
        if (status || !row) {
            break;
        }
        if (!matches(stmt, query) || skip-- > 0) {
            continue;
        }
        count++;
        if (found) {
            status = hand_up_row(engine, conn, stmt, found, ctx, &answer);
        }
    }
    conn_done(stmt);
    *ret_count = count;
    return status;
}

hf_status sqlite_dead_list(struct engine *engine, const struct dead_query *query,
                           hf_dead_letter_fn found, void *ctx)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct conn *conn;
    hf_status status = pool_take_snapshot(self, &conn);
    if (status) {
        return status;
    }
    int64_t count;
    status = list(self, conn, query, found, ctx, &count);
    pool_give(self, conn);
    return status;
}

/* All open ones: the index alone counts them. */
static bool is_all_open(const struct dead_query *query)
{
    return text_is_absent(query->subscription) && text_is_absent(query->type) &&
           text_is_absent(query->error) && text_is_absent(query->reason) &&
           query->failed_before_us < 0 && query->failed_after_us < 0 && query->before_dead_id < 0 &&
           query->after_dead_id < 0 && !query->resolved_too && query->limit < 0 &&
           query->offset == 0;
}

hf_status sqlite_dead_count(struct engine *engine, const struct dead_query *query,
                            int64_t *ret_count)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct conn *conn;
    hf_status status = pool_take_snapshot(self, &conn);
    if (status) {
        return status;
    }
    int64_t count = 0;
    bool found;
    status = is_all_open(query) ? STATEMENT_INT(conn, SQLITE_QUERY_DEAD_COUNT_OPEN, &found, &count,
                                                self->namespace_id)
                                : list(self, conn, query, NULL, NULL, &count);
    pool_give(self, conn);
    if (!status) {
        *ret_count = count;
    }
    return status;
}
