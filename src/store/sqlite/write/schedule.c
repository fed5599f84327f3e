/*
 * schedule.c - schedules and the ledger of their firings. See store/timers.h for the contract.
 *
 * A firing is one change: it moves next_at on, if that is still what the caller has read, and only
 * then appends the events and writes the ledger. Writers come one after the other, so of several
 * processes that fire the same planned time the first one moves next_at and all others find it
 * moved. A process that dies before the commit has done nothing. One that dies after it and before
 * it had the answer has fired; no process repeats it, because next_at has moved.
 */
#include "store/sqlite/verbs.h"

#include "base/err.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/write/append.h"

#define ROW_BYTES 1024 /* of a schedule besides what may be long */

/* ---- Reading --------------------------------------------------------------------------------- */

static bool read_row(sqlite3_stmt *stmt, struct schedule_row *row)
{
    *row = (struct schedule_row){
        .name = column_text(stmt, 1),
        .generation = sqlite3_column_int64(stmt, 2),
        .next_us = column_int(stmt, 3, STORE_NEVER),
        .created_at_us = sqlite3_column_int64(stmt, 4),
        .definition =
            {
                .policy = sqlite3_column_int(stmt, 5),
                .cap = sqlite3_column_int(stmt, 6),
                .grace_us = sqlite3_column_int64(stmt, 7),
                .expression = column_text(stmt, 8),
                .zone = column_text(stmt, 9),
                .type = column_text(stmt, 10),
                .payload = column_text(stmt, 11),
                .key = column_text(stmt, 12),
                .tenant = column_text(stmt, 13),
                .metadata = column_text(stmt, 14),
                .driver = DRIVER_OWN,
            },
        .paused_at_us = column_int(stmt, 15, -1),
        .paused_by = column_text(stmt, 16),
        .paused_reason = column_text(stmt, 17),
    };
    return column_blob(stmt, 0, row->id, sizeof row->id);
}

/* What a row adds to a page. */
static int64_t bytes_of(const struct schedule_row *row)
{
    return (int64_t)(ROW_BYTES + row->definition.payload.length + row->definition.metadata.length +
                     row->paused_reason.length);
}

/* How many rows were handed up, and what they hold. */
struct handed {
    int32_t rows;
    int64_t bytes;
};

/* Hands each row to the callback until it has had enough or the page is full, then resets the
 * statement. */
static hf_status hand_up(struct conn *conn, sqlite3_stmt *stmt, schedule_row_fn found, void *ctx,
                         struct handed *handed)
{
    for (;;) {
        bool row;
        hf_status status = conn_row(conn, stmt, &row);
        if (status || !row) {
            return status;
        }
        struct schedule_row schedule;
        if (!read_row(stmt, &schedule)) {
            conn_done(stmt);
            return fail(HF_CORRUPT, "a schedule's id is damaged");
        }
        handed->rows++;
        handed->bytes += bytes_of(&schedule);
        if (found(&schedule, ctx) != 0 || handed->bytes >= STORE_BATCH_BYTES_MAX) {
            conn_done(stmt);
            return HF_OK;
        }
    }
}

/* A query whose first parameter is the namespace and whose rows are schedules. */
struct schedule_query {
    enum sqlite_query query;
    struct text name;           /* this schedule, or those behind it if `due` is NULL */
    const struct due_page *due; /* NULL: the page goes by name */
    int32_t max;                /* of a page */
};

static void bind_query(sqlite3_stmt *stmt, const struct schedule_query *query)
{
    if (query->due) {
        bind_int(stmt, 2, query->due->now_us);
        bind_int(stmt, 4, query->due->after_us);
        bind_blob(stmt, 5, query->due->after_id, sizeof query->due->after_id);
    } else {
        bind_text(stmt, 2, query->name);
    }
    if (query->max > 0) {
        bind_int(stmt, 3, query->max);
    }
}

static hf_status read_schedules(struct engine *engine, const struct schedule_query *query,
                                schedule_row_fn found, void *ctx, struct handed *handed)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct conn *conn;
    hf_status status = pool_take(self, &conn);
    if (status) {
        return status;
    }
    sqlite3_stmt *stmt = conn_statement(conn, query->query);
    if (stmt) {
        bind_int(stmt, 1, self->namespace_id);
        bind_query(stmt, query);
        status = hand_up(conn, stmt, found, ctx, handed);
    } else {
        status = conn_error(conn);
    }
    pool_give(self, conn);
    return status;
}

static hf_status not_found(struct text name)
{
    return fail(HF_NOTFOUND, "there is no schedule %" TEXT_PRI, TEXT_ARG(name));
}

hf_status sqlite_schedule_get(struct engine *engine, struct text name, schedule_row_fn found,
                              void *ctx)
{
    struct schedule_query query = {.query = SQLITE_QUERY_SCHEDULE_GET, .name = name};
    struct handed handed = {0};
    hf_status status = read_schedules(engine, &query, found, ctx, &handed);
    return !status && handed.rows == 0 ? not_found(name) : status;
}

static hf_status read_page(struct engine *engine, const struct schedule_query *query,
                           bool *ret_more, schedule_row_fn found, void *ctx)
{
    struct handed handed = {0};
    hf_status status = read_schedules(engine, query, found, ctx, &handed);
    *ret_more = handed.rows >= query->max || handed.bytes >= STORE_BATCH_BYTES_MAX;
    return status;
}

hf_status sqlite_schedule_list(struct engine *engine, struct text after, int32_t max,
                               bool *ret_more, schedule_row_fn found, void *ctx)
{
    struct schedule_query query = {.query = SQLITE_QUERY_SCHEDULE_LIST, .name = after, .max = max};
    return read_page(engine, &query, ret_more, found, ctx);
}

hf_status sqlite_schedules_due(struct engine *engine, const struct due_page *page, bool *ret_more,
                               schedule_row_fn found, void *ctx)
{
    struct schedule_query query = {
        .query = SQLITE_QUERY_SCHEDULES_DUE, .due = page, .max = page->max};
    return read_page(engine, &query, ret_more, found, ctx);
}

hf_status sqlite_schedule_runs(struct engine *engine, const uint8_t schedule_id[16],
                               int64_t before_us, int32_t max, schedule_run_fn found, void *ctx)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct conn *conn;
    hf_status status = pool_take(self, &conn);
    if (status) {
        return status;
    }
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_RUNS_LIST);
    status = stmt ? HF_OK : conn_error(conn);
    if (stmt) {
        bind_blob(stmt, 1, schedule_id, 16);
        bind_int(stmt, 2, before_us == STORE_NEVER ? INT64_MAX : before_us);
        bind_int(stmt, 3, max);
    }
    bool row = stmt != NULL;
    while (!status && row) {
        status = conn_row(conn, stmt, &row);
        if (!status && row) {
            struct schedule_run run = {
                .kind = (enum run_kind)sqlite3_column_int(stmt, 0),
                .planned_us = sqlite3_column_int64(stmt, 1),
                .until_us = column_int(stmt, 2, -1),
                .fired_us = sqlite3_column_int64(stmt, 3),
                .position = column_int(stmt, 4, -1),
                .node = column_text(stmt, 5),
            };
            if (found(&run, ctx) != 0) {
                conn_done(stmt);
                row = false;
            }
        }
    }
    pool_give(self, conn);
    return status;
}

hf_status sqlite_timers_due(struct engine *engine, int64_t *ret_due_us)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct conn *conn;
    hf_status status = pool_take(self, &conn);
    if (status) {
        return status;
    }
    bool found;
    int64_t due_us = INT64_MAX;
    status = STATEMENT_INT(conn, SQLITE_QUERY_TIMERS_NEXT, &found, &due_us, self->namespace_id);
    pool_give(self, conn);
    if (!status) {
        *ret_due_us = due_us == INT64_MAX ? STORE_NEVER : due_us;
    }
    return status;
}

/* ---- Changing -------------------------------------------------------------------------------- */

static void bind_time(sqlite3_stmt *stmt, int at, int64_t us)
{
    if (us == STORE_NEVER) {
        bind_null(stmt, at);
    } else {
        bind_int(stmt, at, us);
    }
}

/* The parameters that creating and changing have in common. */
static void bind_definition(sqlite3_stmt *stmt, const struct schedule_put *put)
{
    const struct schedule_definition *definition = &put->definition;
    bind_text(stmt, 2, put->name);
    bind_text(stmt, 3, definition->expression);
    bind_text(stmt, 4, definition->zone);
    bind_text(stmt, 5, definition->type);
    bind_text(stmt, 6, definition->payload);
    bind_text(stmt, 7, definition->key);
    bind_text(stmt, 8, definition->tenant);
    bind_text(stmt, 9, definition->metadata);
    bind_int(stmt, 10, definition->policy);
    bind_int(stmt, 11, definition->cap);
    bind_int(stmt, 12, definition->grace_us);
    bind_time(stmt, 13, put->next_us);
}

hf_status sqlite_schedule_put(struct sqlite_engine *engine, struct conn *conn,
                              struct schedule_put *put)
{
    if (put->definition.driver == DRIVER_PG_CRON) {
        return fail(HF_MISUSE, "driver is pg_cron, which only PostgreSQL has; leave it out");
    }
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_SCHEDULE_CHANGE);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_definition(stmt, put);
    hf_status status = conn_run(conn, stmt);
    bool created = status == HF_OK && conn_changes(conn) == 0;
    if (created) {
        int64_t head;
        status = append_head(engine, conn, &head); /* or the namespace is gone */
        if (status) {
            return status;
        }
        stmt = conn_statement(conn, SQLITE_QUERY_SCHEDULE_CREATE);
        if (!stmt) {
            return conn_error(conn);
        }
        bind_int(stmt, 1, engine->namespace_id);
        bind_definition(stmt, put);
        bind_blob(stmt, 14, put->id, sizeof put->id);
        bind_int(stmt, 15, put->change.now_us);
        bind_time(stmt, 16, put->paused ? put->change.now_us : STORE_NEVER);
        bind_text(stmt, 17, put->paused_by);
        bind_text(stmt, 18, put->paused_reason);
        status = conn_run(conn, stmt);
    }
    conn->ring = RING_ALL;
    if (!status) {
        put->ret_created = created;
    }
    return status;
}

hf_status sqlite_schedule_remove(struct sqlite_engine *engine, struct conn *conn,
                                 struct schedule_remove *remove)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_SCHEDULE_DELETE);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_text(stmt, 2, remove->name);
    bool row;
    uint8_t id[16];
    hf_status status = conn_row(conn, stmt, &row);
    if (status) {
        return status;
    }
    if (!row) {
        return not_found(remove->name);
    }
    bool known = column_blob(stmt, 0, id, sizeof id);
    conn_done(stmt);
    stmt = conn_statement(conn, SQLITE_QUERY_RUNS_DROP);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_blob(stmt, 1, known ? id : NULL, sizeof id);
    conn->ring = RING_ALL;
    return conn_run(conn, stmt);
}

/* After an UPDATE that also passes over a row with nothing to change: was it that? */
static hf_status changed_or_there(struct sqlite_engine *engine, struct conn *conn, struct text name)
{
    if (conn_changes(conn) > 0) {
        return HF_OK;
    }
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_SCHEDULE_GET);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_text(stmt, 2, name);
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (!status && !row) {
        return not_found(name);
    }
    if (!status) {
        conn_done(stmt);
    }
    return status;
}

hf_status sqlite_schedule_pause(struct sqlite_engine *engine, struct conn *conn,
                                struct schedule_pause *pause)
{
    sqlite3_stmt *stmt = conn_statement(conn, pause->paused ? SQLITE_QUERY_SCHEDULE_PAUSE
                                                            : SQLITE_QUERY_SCHEDULE_RESUME);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_text(stmt, 2, pause->name);
    if (pause->paused) {
        bind_int(stmt, 3, pause->change.now_us);
        bind_text(stmt, 4, pause->by);
        bind_text(stmt, 5, pause->reason);
    } else {
        bind_time(stmt, 3, pause->next_us);
    }
    hf_status status = conn_run(conn, stmt);
    if (!status) {
        status = changed_or_there(engine, conn, pause->name);
    }
    conn->ring = RING_ALL;
    return status;
}

/* ---- Firing ---------------------------------------------------------------------------------- */

/* Moves next_at on, if no other process has. */
static hf_status advance(struct sqlite_engine *engine, struct conn *conn, const struct fire *fire)
{
    sqlite3_stmt *stmt = conn_statement(conn, fire->by_hand ? SQLITE_QUERY_SCHEDULE_EXISTS
                                                            : SQLITE_QUERY_SCHEDULE_ADVANCE);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_blob(stmt, 1, fire->schedule_id, sizeof fire->schedule_id);
    bind_int(stmt, 2, engine->namespace_id);
    if (fire->by_hand) {
        bool row;
        hf_status status = conn_row(conn, stmt, &row);
        if (!status && row) {
            conn_done(stmt);
        }
        return status || row ? status : fail(HF_STALE, "the schedule was removed");
    }
    bind_int(stmt, 3, fire->generation);
    bind_int(stmt, 4, fire->waited_us);
    bind_time(stmt, 5, fire->next_us);
    hf_status status = conn_run(conn, stmt);
    if (!status && conn_changes(conn) == 0) {
        return fail(HF_STALE, "another process has fired the schedule, or it was changed");
    }
    return status;
}

static hf_status put_run(struct conn *conn, const struct fire *fire, enum run_kind kind,
                         int64_t planned_us, int64_t until_us, int64_t position)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_RUN_PUT);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_blob(stmt, 1, fire->schedule_id, sizeof fire->schedule_id);
    bind_int(stmt, 2, planned_us);
    bind_int(stmt, 3, kind);
    bind_time(stmt, 4, until_us);
    bind_int(stmt, 5, fire->change.now_us);
    bind_time(stmt, 6, position);
    bind_text(stmt, 7, fire->node);
    return conn_run(conn, stmt);
}

static hf_status write_ledger(struct conn *conn, const struct fire *fire)
{
    enum run_kind kind = fire->by_hand ? RUN_BY_HAND : RUN_FIRED;
    hf_status status = HF_OK;
    if (fire->skipped_first_us != STORE_NEVER) {
        status = put_run(conn, fire, RUN_SKIPPED, fire->skipped_first_us, fire->skipped_last_us,
                         STORE_NEVER);
    }
    for (size_t i = 0; i < fire->count && !status; i++) {
        status =
            put_run(conn, fire, kind, fire->planned_us[i], STORE_NEVER, fire->events[i].position);
    }
    if (status) {
        return status;
    }
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_RUNS_PRUNE);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_blob(stmt, 1, fire->schedule_id, sizeof fire->schedule_id);
    bind_int(stmt, 2, STORE_RUNS_KEPT);
    return conn_run(conn, stmt);
}

hf_status sqlite_fire(struct sqlite_engine *engine, struct conn *conn, struct fire *fire)
{
    struct append append = {
        .change = {.kind = CHANGE_APPEND, .now_us = fire->change.now_us},
        .events = fire->events,
        .count = fire->count,
    };
    hf_status status = advance(engine, conn, fire);
    if (!status) {
        status = sqlite_append(engine, conn, &append);
    }
    if (status) {
        return status;
    }
    status = write_ledger(conn, fire);
    conn->ring = RING_ALL;
    if (status) {
        conn->head_known = false; /* the events are about to be undone */
    }
    return status;
}
