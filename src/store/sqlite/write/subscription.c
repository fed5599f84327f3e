/*
 * subscription.c - subscriptions: creating, changing, removing, pausing, and looking at them.
 *
 * A subscription is one row that people change and every worker reads, and a row per partition that
 * its workers write (a single one, the cursor's, if it is shared). `generation` rises with every
 * change of the first, and every settle answers it, so a busy owner learns of a change by the next
 * settle at the latest, and an idle one by the bell. A change that changes nothing (the same
 * patterns again, as every start of a program puts them) leaves the generation alone.
 *
 * Two processes that create the same subscription at the same moment come one after the other: the
 * second finds the first one's row and only compares. Removing frees the name at once; the id is
 * never used again, so a process that still works for the removed one finds nothing to settle.
 */
#include "store/sqlite/write/subscription.h"

#include <stdio.h>

#include "base/err.h"
#include "store/common/missing.h"
#include "store/sqlite/file/lookup.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/append.h"

/* ---- Reading --------------------------------------------------------------------------------- */

static void read_row(sqlite3_stmt *stmt, struct subscription_row *row)
{
    *row = (struct subscription_row){
        .id = sqlite3_column_int64(stmt, 0),
        .name = column_text(stmt, 1),
        .patterns_json = column_text(stmt, 2),
        .options_json = column_text(stmt, 3),
        .mode = (hf_mode)sqlite3_column_int(stmt, 4),
        .partitions = sqlite3_column_int(stmt, 5),
        .generation = sqlite3_column_int64(stmt, 6),
        .created_at_us = sqlite3_column_int64(stmt, 7),
        .start = sqlite3_column_int64(stmt, 8),
        .paused_at_us = column_int(stmt, 9, -1),
        .paused_by = column_text(stmt, 10),
        .paused_reason = column_text(stmt, 11),
        .breaker_json = column_text(stmt, 12),
        .wanted = sqlite3_column_int(stmt, 13),
        .dropped_through = column_int(stmt, 14, -1),
        .dropped = sqlite3_column_int64(stmt, 15),
    };
}

/* Hands each row to the callback until it has had enough. Whether there was none. */
static bool hand_up(struct lookup *lookup, subscription_row_fn found, void *ctx)
{
    for (int enough = 0; !enough && lookup_next(lookup);) {
        struct subscription_row subscription;
        read_row(lookup->stmt, &subscription);
        enough = found(&subscription, ctx);
    }
    return !lookup->status && !lookup->any;
}

hf_status subscription_about(struct sqlite_engine *engine, struct conn *conn, int64_t id,
                             struct about *ret_about)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_SUBSCRIPTION_BY_ID);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_int(stmt, 2, id);
    bool found;
    hf_status status = conn_row(conn, stmt, &found);
    if (status || !found) {
        return status ? status : missing_subscription(id);
    }
    struct subscription_row row;
    read_row(stmt, &row);
    *ret_about = (struct about){.id = id,
                                .mode = row.mode,
                                .partitions = row.partitions,
                                .start = row.start,
                                .created_at_us = row.created_at_us};
    snprintf(ret_about->name, sizeof ret_about->name, "%" TEXT_PRI, TEXT_ARG(row.name));
    conn_done(stmt);
    return HF_OK;
}

hf_status sqlite_subscription_get(struct engine *engine, struct text name,
                                  subscription_row_fn found, void *ctx)
{
    struct lookup lookup;
    if (lookup_begin(&lookup, engine, SQLITE_QUERY_SUBSCRIPTION_GET)) {
        bind_int(lookup.stmt, 1, lookup.engine->namespace_id);
        bind_text(lookup.stmt, 2, name);
    }
    if (hand_up(&lookup, found, ctx)) {
        lookup.status = fail(HF_NOTFOUND, "there is no subscription %" TEXT_PRI, TEXT_ARG(name));
    }
    return lookup_end(&lookup);
}

hf_status sqlite_subscription_by_id(struct engine *engine, int64_t id, subscription_row_fn found,
                                    void *ctx)
{
    struct lookup lookup;
    if (lookup_begin(&lookup, engine, SQLITE_QUERY_SUBSCRIPTION_BY_ID)) {
        bind_int(lookup.stmt, 1, lookup.engine->namespace_id);
        bind_int(lookup.stmt, 2, id);
    }
    if (hand_up(&lookup, found, ctx)) {
        lookup.status = missing_subscription(id);
    }
    return lookup_end(&lookup);
}

hf_status sqlite_subscription_list(struct engine *engine, subscription_row_fn found, void *ctx)
{
    struct lookup lookup;
    if (lookup_begin(&lookup, engine, SQLITE_QUERY_SUBSCRIPTION_LIST)) {
        bind_int(lookup.stmt, 1, lookup.engine->namespace_id);
    }
    hand_up(&lookup, found, ctx);
    return lookup_end(&lookup);
}

hf_status sqlite_standing(struct engine *engine, int64_t id, struct standing *ret_standing,
                          epoch_fn found, void *ctx)
{
    struct lookup lookup;
    if (lookup_begin(&lookup, engine, SQLITE_QUERY_SUBSCRIPTION_STANDING)) {
        bind_int(lookup.stmt, 1, lookup.engine->namespace_id);
        bind_int(lookup.stmt, 2, id);
        bind_blob(lookup.stmt, 3, lookup.engine->token, sizeof lookup.engine->token);
    }
    for (int enough = 0; !enough && lookup_next(&lookup);) {
        sqlite3_stmt *stmt = lookup.stmt;
        ret_standing->generation = sqlite3_column_int64(stmt, 0);
        ret_standing->members_version = sqlite3_column_int64(stmt, 1);
        enough = !column_is_null(stmt, 2) &&
                 found(sqlite3_column_int(stmt, 2), sqlite3_column_int64(stmt, 3), ctx);
    }
    if (!lookup.status && !lookup.any) {
        lookup.status = missing_subscription(id);
    }
    return lookup_end(&lookup);
}

/* ---- Creating and changing ------------------------------------------------------------------- */

static hf_status put_new(struct sqlite_engine *engine, struct conn *conn,
                         struct subscription_put *put)
{
    if (put->expect_generation > 0) {
        return fail(HF_CONFLICT, "subscription %" TEXT_PRI " does not exist any more",
                    TEXT_ARG(put->name));
    }
    int64_t head;
    hf_status status = append_head(engine, conn, &head); /* or the namespace is gone */
    if (status) {
        return status;
    }
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_SUBSCRIPTION_CREATE);
    if (!stmt) {
        return conn_error(conn);
    }
    static const struct text no_patterns = TEXT_LITERAL("[]");
    static const struct text no_options = TEXT_LITERAL("{}");
    bind_int(stmt, 1, engine->namespace_id);
    bind_text(stmt, 2, put->name);
    bind_text(stmt, 3, text_is_absent(put->patterns_json) ? no_patterns : put->patterns_json);
    bind_text(stmt, 4, text_is_absent(put->options_json) ? no_options : put->options_json);
    bind_int(stmt, 5, put->mode);
    bind_int(stmt, 6, put->partitions);
    bind_int(stmt, 7, put->start);
    bind_int(stmt, 8, put->change.now_us);
    status = conn_run(conn, stmt);
    int64_t id = sqlite3_last_insert_rowid(conn->db);
    int32_t rows = put->mode == HF_MODE_SHARED ? 1 : put->partitions;
    for (int32_t i = 0; !status && i < rows; i++) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_PARTITION_CREATE, id, i, put->start);
    }
    if (!status) {
        put->ret_id = id;
        put->ret_created = true;
    }
    return status;
}

/* What a stored subscription says against the change. */
static hf_status check_stored(const struct subscription_row *stored,
                              const struct subscription_put *put)
{
    if (stored->mode != put->mode) {
        return fail(HF_CONFLICT, "subscription %" TEXT_PRI " has mode %s, which cannot be changed",
                    TEXT_ARG(put->name), stored->mode == HF_MODE_SHARED ? "shared" : "ordered");
    }
    if (stored->mode == HF_MODE_SHARED && stored->partitions != put->partitions) {
        return fail(HF_CONFLICT,
                    "subscription %" TEXT_PRI " has partitions %d, which cannot be changed to %d",
                    TEXT_ARG(put->name), stored->partitions, put->partitions);
    }
    if (put->expect_generation >= 0 && stored->generation != put->expect_generation) {
        return fail(HF_CONFLICT,
                    "subscription %" TEXT_PRI " has been changed meanwhile: generation %lld, "
                    "expected %lld",
                    TEXT_ARG(put->name), (long long)stored->generation,
                    (long long)put->expect_generation);
    }
    return HF_OK;
}

static bool differs(struct text wanted, struct text stored)
{
    return !text_is_absent(wanted) && !text_equal(wanted, stored);
}

hf_status sqlite_subscription_put(struct sqlite_engine *engine, struct conn *conn,
                                  struct subscription_put *put)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_SUBSCRIPTION_GET);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_text(stmt, 2, put->name);
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (status) {
        return status;
    }
    conn->ring = RING_ALL;
    if (!row) {
        return put_new(engine, conn, put);
    }
    struct subscription_row stored;
    read_row(stmt, &stored);
    status = check_stored(&stored, put);
    bool change = differs(put->patterns_json, stored.patterns_json) ||
                  differs(put->options_json, stored.options_json);
    int64_t id = stored.id;
    int32_t wanted = put->partitions == stored.partitions ? 0 : put->partitions;
    bool request = wanted != stored.wanted;
    conn_done(stmt);
    if (!status && request) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_PARTITIONS_REQUEST_PUT, id, put->partitions);
    }
    if (!status && change) {
        stmt = conn_statement(conn, SQLITE_QUERY_SUBSCRIPTION_CHANGE);
        if (!stmt) {
            return conn_error(conn);
        }
        bind_int(stmt, 1, id);
        bind_text(stmt, 2, put->patterns_json);
        bind_text(stmt, 3, put->options_json);
        status = conn_run(conn, stmt);
    }
    if (!status) {
        put->ret_id = id;
        put->ret_created = false;
    }
    return status;
}

hf_status sqlite_subscription_remove(struct sqlite_engine *engine, struct conn *conn,
                                     struct subscription_remove *remove)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_SUBSCRIPTION_GET);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_text(stmt, 2, remove->name);
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (status) {
        return status;
    }
    if (!row) {
        return fail(HF_NOTFOUND, "there is no subscription %" TEXT_PRI, TEXT_ARG(remove->name));
    }
    int64_t id = sqlite3_column_int64(stmt, 0);
    conn_done(stmt);
    static const enum sqlite_query steps[] = {
        SQLITE_QUERY_SUBSCRIPTION_DROP_LEASES,
        SQLITE_QUERY_SUBSCRIPTION_DROP_RETRIES,
        SQLITE_QUERY_SUBSCRIPTION_DROP_COPIES,
        SQLITE_QUERY_SUBSCRIPTION_DROP_SETTLED,
        SQLITE_QUERY_SUBSCRIPTION_DROP_PARTITIONS,
        SQLITE_QUERY_SUBSCRIPTION_DROP_MEMBERS,
        SQLITE_QUERY_RATE_DELETE,
        SQLITE_QUERY_SUBSCRIPTION_DROP_CANCELS,
        SQLITE_QUERY_SUBSCRIPTION_DELETE,
    };
    status = STATEMENT_RUN(conn, SQLITE_QUERY_SUBSCRIPTION_DROP_OUTCOMES, id, 0);
    for (size_t i = 0; !status && i < sizeof steps / sizeof steps[0]; i++) {
        status = STATEMENT_RUN(conn, steps[i], id);
    }
    conn->ring = RING_ALL;
    return status;
}

/* ---- Pausing --------------------------------------------------------------------------------- */

/* After an UPDATE that also passes over a row with nothing to change: was it that? */
static hf_status changed_or_there(struct sqlite_engine *engine, struct conn *conn, int64_t id)
{
    if (conn_changes(conn) > 0) {
        return HF_OK;
    }
    bool found;
    int64_t same;
    hf_status status = STATEMENT_INT(conn, SQLITE_QUERY_SUBSCRIPTION_BY_ID, &found, &same,
                                     engine->namespace_id, id);
    if (!status && !found) {
        return missing_subscription(id);
    }
    return status;
}

hf_status sqlite_pause(struct sqlite_engine *engine, struct conn *conn, struct pause *pause)
{
    sqlite3_stmt *stmt = conn_statement(conn, pause->paused ? SQLITE_QUERY_SUBSCRIPTION_PAUSE
                                                            : SQLITE_QUERY_SUBSCRIPTION_RESUME);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_int(stmt, 2, pause->subscription_id);
    if (pause->paused) {
        bind_int(stmt, 3, pause->change.now_us);
        bind_text(stmt, 4, pause->by);
        bind_text(stmt, 5, pause->reason);
    }
    hf_status status = conn_run(conn, stmt);
    if (!status) {
        status = changed_or_there(engine, conn, pause->subscription_id);
    }
    conn->ring = RING_ALL;
    return status;
}

hf_status sqlite_breaker_put(struct sqlite_engine *engine, struct conn *conn,
                             struct breaker_put *put)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_SUBSCRIPTION_BREAKER);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_int(stmt, 2, put->subscription_id);
    bind_text(stmt, 3, put->state_json);
    hf_status status = conn_run(conn, stmt);
    return status ? status : changed_or_there(engine, conn, put->subscription_id);
}
