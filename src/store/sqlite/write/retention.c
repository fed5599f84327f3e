/*
 * retention.c - the events that may go: planning, and taking them away in small steps.
 *
 * The plan walks through the log from its oldest event to the first that is young enough, needed,
 * or no longer too much. It reads on a connection of its own, WALK_ROWS at a time, so it delays no
 * other work, however much there is.
 *
 * A step is a change like any other and shares its commit with whatever is published at that
 * moment, so it is small: STORE_RETAIN_STEP_ROWS events, or STORE_RETAIN_STEP_BYTES. It does the
 * first of these that is left to do:
 *
 *     sweep unique keys -> measure what has come -> move one that lags -> delete the oldest
 *     -> give pages back
 *
 * The size of the file does not tell how large a namespace's log is: the file has other namespaces
 * and the application's tables, too. Where a limit is set the bytes of all events are added up,
 * each once (log_bytes_through says how far), and taken off when they go.
 *
 * Nothing is remembered between steps but that, in the namespace's row, in the transaction that it
 * is true of. Positions do not begin again when the log is empty: a trigger keeps the head.
 */
#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "store/sqlite/file/lookup.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/lease.h"
#include "store/sqlite/write/span.h"
#include "store/sqlite/write/unique.h"

#define WALK_ROWS 10000
#define NO_LIMIT INT64_MAX

/* What the namespace's row says. */
struct settings {
    int64_t namespace_id;
    int64_t keep_ms;   /* 0: for ever */
    int64_t bytes_max; /* 0: no limit */
    bool drops;
    int64_t log_bytes; /* of the events up to ... */
    int64_t log_bytes_through;
};

/* One that needs something. */
struct lagging {
    int64_t id; /* 0: none does */
    int64_t floor;
    char name[HF_NAME_BYTES_MAX + 1];
};

static hf_status fail_gone(struct text name)
{
    return text_is_absent(name)
               ? fail(HF_NOTFOUND, "the namespace is gone, or is being removed")
               : fail(HF_NOTFOUND, "there is no namespace %" TEXT_PRI, TEXT_ARG(name));
}

/* ---- Reading, on any connection -------------------------------------------------------------- */

static hf_status find_id(struct sqlite_engine *engine, struct conn *conn, struct text name,
                         int64_t *ret_id)
{
    *ret_id = engine->namespace_id;
    if (text_is_absent(name)) {
        return HF_OK;
    }
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_NAMESPACE_FIND);
    bool row;
    if (!stmt) {
        return conn_error(conn);
    }
    bind_text(stmt, 1, name);
    hf_status status = conn_row(conn, stmt, &row);
    if (!status && row) {
        *ret_id = sqlite3_column_int64(stmt, 0);
        conn_done(stmt);
    }
    return status || row ? status : fail_gone(name);
}

static hf_status read_settings(struct sqlite_engine *engine, struct conn *conn, struct text name,
                               struct settings *ret_settings)
{
    int64_t id;
    hf_status status = find_id(engine, conn, name, &id);
    if (status) {
        return status;
    }
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_RETENTION_SETTINGS);
    bool row;
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, id);
    status = conn_row(conn, stmt, &row);
    if (status || !row) {
        return status ? status : fail_gone(name);
    }
    *ret_settings = (struct settings){
        .namespace_id = id,
        .keep_ms = sqlite3_column_int64(stmt, 0),
        .bytes_max = sqlite3_column_int64(stmt, 1),
        .drops = sqlite3_column_int(stmt, 2) != 0,
        .log_bytes = sqlite3_column_int64(stmt, 3),
        .log_bytes_through = sqlite3_column_int64(stmt, 4),
    };
    conn_done(stmt);
    return HF_OK;
}

/* Who needs most of what is at or below the position. */
static hf_status find_lagging(struct conn *conn, const struct settings *settings, int64_t position,
                              struct lagging *ret_lagging)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_RETENTION_LAGGING);
    bool row;
    *ret_lagging = (struct lagging){.id = 0, .floor = NO_LIMIT};
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, settings->namespace_id);
    bind_int(stmt, 2, position);
    bind_int(stmt, 3, settings->drops);
    hf_status status = conn_row(conn, stmt, &row);
    if (!status && row) {
        ret_lagging->id = sqlite3_column_int64(stmt, 0);
        snprintf(ret_lagging->name, sizeof ret_lagging->name, "%" TEXT_PRI,
                 TEXT_ARG(column_text(stmt, 1)));
        ret_lagging->floor = sqlite3_column_int64(stmt, 2);
        conn_done(stmt);
    }
    return status;
}

/* An event as retention sees it. */
struct passed {
    int64_t position;
    int64_t entered_at_us;
    int64_t bytes;
};

/* Walks through the log after a position, at most `max` events, until `visit` says that it is
 * enough. *ret_rows: how many were visited and not refused. */
typedef bool (*passed_fn)(const struct passed *event, void *ctx);

static hf_status walk(struct conn *conn, int64_t namespace_id, int64_t after, int64_t max,
                      bool sized, passed_fn visit, void *ctx, int64_t *ret_rows)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_RETENTION_WALK);
    hf_status status = HF_OK;
    bool row = true;
    *ret_rows = 0;
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, namespace_id);
    bind_int(stmt, 2, after);
    bind_int(stmt, 3, max);
    bind_int(stmt, 4, sized);
    while (!status && row) {
        status = conn_row(conn, stmt, &row);
        if (status || !row) {
            break;
        }
        struct passed event = {sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
                               sqlite3_column_int64(stmt, 2)};
        if (!visit(&event, ctx)) {
            conn_done(stmt);
            break;
        }
        *ret_rows += 1;
    }
    return status;
}

/* ---- The plan -------------------------------------------------------------------------------- */

struct planning {
    struct retention_plan *plan;
    struct settings settings;
    struct lagging lagging;
    int64_t old_us;    /* what entered before is old */
    int64_t log_bytes; /* what is left of the log */
    int64_t at;        /* the walk has got here */
};

static bool add_up(const struct passed *event, void *ctx)
{
    struct planning *planning = ctx;
    planning->at = event->position;
    planning->log_bytes += event->bytes;
    return true;
}

static bool is_old(const struct settings *settings, int64_t old_us, int64_t entered_at_us)
{
    return settings->keep_ms > 0 && entered_at_us < old_us;
}

static bool is_large(const struct settings *settings, int64_t log_bytes)
{
    return settings->bytes_max > 0 && log_bytes > settings->bytes_max;
}

static bool plan_one(const struct passed *event, void *ctx)
{
    struct planning *planning = ctx;
    struct retention_plan *plan = planning->plan;
    const struct settings *settings = &planning->settings;
    bool old = is_old(settings, planning->old_us, event->entered_at_us);
    if (!old && !is_large(settings, planning->log_bytes)) {
        return false;
    }
    if (event->position > planning->lagging.floor) {
        snprintf(plan->lagging, sizeof plan->lagging, "%s", planning->lagging.name);
        if (!settings->drops) {
            return false;
        }
    }
    planning->at = event->position;
    planning->log_bytes -= event->bytes;
    plan->due = true;
    plan->by_size = plan->by_size || !old;
    plan->through = event->position;
    plan->events++;
    plan->bytes += event->bytes;
    return true;
}

static hf_status walk_all(struct planning *planning, struct conn *conn, int64_t after,
                          passed_fn visit)
{
    hf_status status = HF_OK;
    int64_t rows = WALK_ROWS;
    planning->at = after;
    while (!status && rows == WALK_ROWS) {
        status = walk(conn, planning->settings.namespace_id, planning->at, WALK_ROWS,
                      planning->settings.bytes_max > 0, visit, planning, &rows);
    }
    return status;
}

static int64_t old_before(const struct settings *settings, int64_t now_us)
{
    return settings->keep_ms > now_us / 1000 ? 0 : now_us - settings->keep_ms * 1000;
}

static hf_status make_plan(struct planning *planning, struct sqlite_engine *engine,
                           struct conn *conn, struct text name, int64_t now_us)
{
    struct settings *settings = &planning->settings;
    hf_status status = read_settings(engine, conn, name, settings);
    if (status) {
        return status;
    }
    planning->old_us = old_before(settings, now_us);
    planning->plan->drops = settings->drops;
    status = find_lagging(conn, settings, NO_LIMIT, &planning->lagging);
    if (!status && settings->bytes_max > 0) {
        planning->log_bytes = settings->log_bytes;
        status = walk_all(planning, conn, settings->log_bytes_through, add_up);
    }
    return status ? status : walk_all(planning, conn, 0, plan_one);
}

hf_status sqlite_retention_plan(struct engine *base, struct text name, int64_t now_us,
                                struct retention_plan *ret_plan)
{
    struct sqlite_engine *engine = sqlite_of(base);
    struct conn *conn;
    struct planning planning = {.plan = ret_plan};
    *ret_plan = (struct retention_plan){.due = false};
    hf_status status = pool_take(engine, &conn);
    if (status) {
        return status;
    }
    status = make_plan(&planning, engine, conn, name, now_us);
    pool_give(engine, conn);
    if (!status && ret_plan->due && planning.settings.bytes_max == 0) {
        ret_plan->bytes = -1; /* without a limit the walk does not read sizes */
    }
    return status;
}

/* ---- One that lags --------------------------------------------------------------------------- */

/* Takes out of a lease what goes, but for deliveries that have a copy of their event. */
static hf_status trim_lease(struct conn *conn, const uint8_t token[STORE_TOKEN_BYTES],
                            int64_t through)
{
    struct lease lease;
    lease_init(&lease);
    hf_status status = lease_load(conn, token, &lease);
    size_t kept = 0;
    for (size_t i = 0; !status && i < lease.count; i++) {
        bool copied = true;
        int64_t one;
        if (lease.positions[i] <= through) {
            status = STATEMENT_INT(conn, SQLITE_QUERY_COPY_EXISTS, &copied, &one,
                                   lease.subscription_id, lease.positions[i]);
        }
        if (copied) {
            lease_move(&lease, kept++, i);
        }
    }
    if (!status && kept < lease.count) {
        lease.count = kept;
        status = lease_update(conn, &lease);
    }
    lease_release(&lease);
    return status;
}

static hf_status trim_leases(struct conn *conn, int64_t subscription_id, int64_t through)
{
    uint8_t token[STORE_TOKEN_BYTES] = {0};
    for (;;) {
        sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_DROP_NEXT_LEASE);
        bool row;
        if (!stmt) {
            return conn_error(conn);
        }
        bind_int(stmt, 1, subscription_id);
        bind_int(stmt, 2, through);
        bind_blob(stmt, 3, token, sizeof token);
        hf_status status = conn_row(conn, stmt, &row);
        if (status || !row) {
            return status;
        }
        bool whole = column_blob(stmt, 0, token, sizeof token);
        conn_done(stmt);
        status = whole
                     ? trim_lease(conn, token, through)
                     : fail(HF_CORRUPT, "the token of a lease is not %d bytes", STORE_TOKEN_BYTES);
        if (status) {
            return status;
        }
    }
}

/* Moves a subscription past what goes. The epochs rise: a process that is at work there is
 * refused, and begins again at what is stored. */
static hf_status drop_lagging(struct conn *conn, const struct lagging *lagging,
                              struct retain *retain)
{
    int64_t id = lagging->id;
    int64_t through = retain->through;
    int64_t now_us = retain->change.now_us;
    hf_status status =
        STATEMENT_RUN(conn, SQLITE_QUERY_DROP_PARTITIONS, id, through, now_us, span_number(now_us));
    if (!status) {
        status = trim_leases(conn, id, through);
    }
    if (!status) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_DROP_RETRIES, id, through);
    }
    if (!status) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_DROP_PROMOTE, id, now_us);
    }
    if (!status) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_DROP_SETTLED, id, through);
    }
    if (!status) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_DROP_NOTE, id, through, lagging->floor);
    }
    memcpy(retain->ret_dropped_name, lagging->name, sizeof lagging->name);
    retain->ret_dropped_from = lagging->floor;
    retain->ret_dropped_through = through;
    conn->ring = RING_ALL;
    return status;
}

/* ---- The step -------------------------------------------------------------------------------- */

/* The oldest events, as many as one step may take. */
struct portion {
    int64_t limit; /* not beyond this position */
    int64_t through;
    int64_t bytes;
    int64_t measured; /* bytes of those that have been added up */
    int64_t log_bytes_through;
    int64_t newest_us; /* when the newest of them entered */
};

static bool take_one(const struct passed *event, void *ctx)
{
    struct portion *portion = ctx;
    if (event->position > portion->limit || portion->bytes > STORE_RETAIN_STEP_BYTES) {
        return false;
    }
    portion->through = event->position;
    portion->bytes += event->bytes;
    portion->measured += event->position <= portion->log_bytes_through ? event->bytes : 0;
    if (event->entered_at_us > portion->newest_us) {
        portion->newest_us = event->entered_at_us;
    }
    return true;
}

/* Adds up what has come since the last time. *ret_all: there is nothing left to add. */
static hf_status measure(struct conn *conn, struct settings *settings, bool *ret_all)
{
    struct planning added = {.at = settings->log_bytes_through};
    int64_t rows;
    hf_status status = walk(conn, settings->namespace_id, settings->log_bytes_through,
                            STORE_RETAIN_STEP_ROWS, true, add_up, &added, &rows);
    *ret_all = rows < STORE_RETAIN_STEP_ROWS;
    if (!status && rows > 0) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_RETENTION_MEASURED, settings->namespace_id,
                               added.log_bytes, added.at);
        settings->log_bytes += added.log_bytes;
        settings->log_bytes_through = added.at;
    }
    return status;
}

/* Free pages go back to the disk where the file was made for that. */
static hf_status give_pages_back(struct conn *conn, struct retain *retain)
{
    int64_t free_pages = 0;
    int64_t mode = 0;
    hf_status status = conn_number(conn, SQLITE_QUERY_READ_AUTO_VACUUM, 0, &mode);
    if (!status) {
        status = conn_number(conn, SQLITE_QUERY_READ_FREELIST_COUNT, 0, &free_pages);
    }
    if (status || mode != 2 || free_pages == 0) {
        return status;
    }
    retain->ret_more = true;
    return conn_exec(conn, SQLITE_QUERY_VACUUM_SOME);
}

static hf_status take_portion(struct conn *conn, const struct settings *settings,
                              struct retain *retain, int64_t limit)
{
    struct portion portion = {.limit = limit, .log_bytes_through = settings->log_bytes_through};
    int64_t rows;
    hf_status status = walk(conn, settings->namespace_id, 0, STORE_RETAIN_STEP_ROWS, true, take_one,
                            &portion, &rows);
    /* The plan may be older than the settings. */
    bool goes = is_old(settings, old_before(settings, retain->change.now_us), portion.newest_us) ||
                is_large(settings, settings->log_bytes);
    if (status || rows == 0 || !goes) {
        return status ? status : give_pages_back(conn, retain);
    }
    status =
        STATEMENT_RUN(conn, SQLITE_QUERY_RETENTION_DELETE, settings->namespace_id, portion.through);
    HF_POINT("mid_retain");
    if (!status) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_RETENTION_FORGET, settings->namespace_id,
                               portion.through, portion.measured);
    }
    if (!status) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_OUTCOMES_FORGET, settings->namespace_id,
                               portion.through);
    }
    if (!status) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_CANCELS_FORGET, settings->namespace_id,
                               portion.through);
    }
    retain->ret_events = rows;
    retain->ret_bytes = portion.bytes;
    retain->ret_more = true;
    return status;
}

static hf_status take_turn(struct conn *conn, const struct settings *settings,
                           struct retain *retain)
{
    int64_t now_us = retain->change.now_us;
    hf_status status = STATEMENT_RUN(conn, SQLITE_QUERY_RETENTION_TAKE, settings->namespace_id,
                                     now_us, now_us - retain->every_ms * 1000);
    retain->ret_taken = status == HF_OK && conn_changes(conn) > 0;
    return status;
}

/* Everything is measured: moves one that lags, or takes the oldest. */
static hf_status take_some(struct conn *conn, const struct settings *settings,
                           struct retain *retain)
{
    struct lagging lagging;
    if (retain->through <= 0) {
        /* A caller that only asks for the turn has no plan yet. With one, a process that freed
         * pages may have died before they went back. */
        return retain->every_ms > 0 ? HF_OK : give_pages_back(conn, retain);
    }
    hf_status status = find_lagging(conn, settings, retain->through, &lagging);
    if (!status && lagging.id != 0 && settings->drops) {
        retain->ret_more = true;
        return drop_lagging(conn, &lagging, retain);
    }
    int64_t limit = lagging.floor < retain->through ? lagging.floor : retain->through;
    return status ? status : take_portion(conn, settings, retain, limit);
}

hf_status sqlite_retain(struct sqlite_engine *engine, struct conn *conn, struct retain *retain)
{
    struct settings settings;
    bool all = true;
    retain->ret_taken = true;
    retain->ret_more = false;
    retain->ret_events = 0;
    retain->ret_bytes = 0;
    retain->ret_dropped_name[0] = '\0';
    retain->ret_command[0] = '\0';
    hf_status status = read_settings(engine, conn, retain->name, &settings);
    if (!status && retain->every_ms > 0) {
        status = take_turn(conn, &settings, retain);
    }
    if (status || !retain->ret_taken) {
        return status;
    }
    status = unique_sweep(conn, settings.namespace_id, retain->change.now_us,
                          STORE_RETAIN_STEP_ROWS, &retain->ret_more);
    if (status || retain->ret_more) {
        return status;
    }
    if (settings.bytes_max > 0) {
        status = measure(conn, &settings, &all);
    }
    retain->ret_more = !all;
    if (status || !all) {
        return status;
    }
    return take_some(conn, &settings, retain);
}
