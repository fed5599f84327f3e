/*
 * namespace.c - the namespaces of the file: making, changing, listing, removing them.
 *
 * Removing is a chain of small transactions, so that publishers of other namespaces do not wait
 * long:
 *
 *     mark -> events -> keys -> dead letters -> each subscription with what it has -> the row
 *
 * A step takes what comes first in this order, up to STORE_REMOVE_STEP_ROWS rows, and hands free
 * pages back to the disk where the file allows it. Nothing else is remembered: a process that dies
 * between two steps leaves a namespace that is marked and partly empty, and the next removal goes
 * on from there.
 *
 * The mark is set under the gate, as stores are opened, so no store opens one that is being
 * removed, and no store that has it open is overlooked. Those who were not asked (`force`) find no
 * head, and so can neither append nor subscribe; their subscriptions vanish as removed ones do. The
 * number is not given again, so they cannot get into a later namespace of the same name or another.
 */
#include "base/err.h"
#include "base/point.h"
#include "store/sqlite/file/lookup.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"

#define NAMES_BYTES_MAX 256 /* of those who have it open, told for people */

/* ---- Listing --------------------------------------------------------------------------------- */

static struct namespace_row read_row(sqlite3_stmt *stmt)
{
    return (struct namespace_row){
        .name = column_text(stmt, 0),
        .metadata_json = column_text(stmt, 1),
        .created_at_us = sqlite3_column_int64(stmt, 2),
        .removing_at_us = column_int(stmt, 3, -1),
        .gapless = true,
        .head = sqlite3_column_int64(stmt, 4),
        .subscriptions = sqlite3_column_int64(stmt, 5),
        .retention_ms = sqlite3_column_int64(stmt, 6),
        .retention_bytes = sqlite3_column_int64(stmt, 7),
        .drops_lagging = sqlite3_column_int(stmt, 8) != 0,
        .copying = sqlite3_column_int(stmt, 9) != 0,
        .type_index = (enum type_index)sqlite3_column_int(stmt, 10),
    };
}

hf_status sqlite_namespace_list(struct engine *engine, struct text name, namespace_row_fn found,
                                void *ctx)
{
    struct lookup lookup;
    if (lookup_begin(&lookup, engine, SQLITE_QUERY_NAMESPACE_LIST)) {
        bind_text(lookup.stmt, 1, name);
    }
    for (int enough = 0; !enough && lookup_next(&lookup);) {
        struct namespace_row row = read_row(lookup.stmt);
        enough = found(&row, ctx);
    }
    return lookup_end(&lookup);
}

/* ---- Making and changing --------------------------------------------------------------------- */

/* A namespace by its name. */
struct found_namespace {
    int64_t id; /* 0: there is none */
    bool removing;
    bool copying;
};

static hf_status find(struct conn *conn, struct text name, struct found_namespace *ret_found)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_NAMESPACE_FIND);
    bool row;
    if (!stmt) {
        return conn_error(conn);
    }
    bind_text(stmt, 1, name);
    hf_status status = conn_row(conn, stmt, &row);
    *ret_found = (struct found_namespace){0, false, false};
    if (!status && row) {
        ret_found->id = sqlite3_column_int64(stmt, 0);
        ret_found->removing = sqlite3_column_int(stmt, 1) != 0;
        ret_found->copying = sqlite3_column_int(stmt, 2) != 0;
        conn_done(stmt);
    }
    return status;
}

static hf_status fail_removing(struct text name)
{
    return fail(HF_BUSY, "namespace %" TEXT_PRI " is being removed", TEXT_ARG(name));
}

hf_status sqlite_namespace_find(struct conn *conn, struct text name, bool create, int64_t now_us,
                                int64_t *ret_id, bool *ret_created, bool *ret_copying)
{
    struct found_namespace found;
    hf_status status = find(conn, name, &found);
    *ret_created = status == HF_OK && found.id == 0 && create;
    if (*ret_created) {
        sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_NAMESPACE_CREATE);
        if (stmt) {
            bind_text(stmt, 1, name);
            bind_int(stmt, 2, now_us);
        }
        status = stmt ? conn_run(conn, stmt) : conn_error(conn);
        if (!status) {
            status = find(conn, name, &found);
        }
    }
    if (!status && found.id == 0) {
        return fail(HF_NOTFOUND, "there is no namespace %" TEXT_PRI, TEXT_ARG(name));
    }
    if (!status && found.removing) {
        return fail_removing(name);
    }
    if (!status && found.id > NAMESPACE_ID_MAX) {
        return fail(HF_INVALID, "there are too many namespaces: the limit is %lld",
                    (long long)NAMESPACE_ID_MAX);
    }
    *ret_id = found.id;
    *ret_copying = found.copying;
    return status;
}

hf_status sqlite_namespace_open(struct conn *conn, struct text name, bool create, int64_t now_us,
                                int64_t *ret_id, bool *ret_created)
{
    bool copying = false;
    hf_status status =
        sqlite_namespace_find(conn, name, create, now_us, ret_id, ret_created, &copying);
    return status || !copying
               ? status
               : fail(HF_BUSY,
                      "namespace %" TEXT_PRI " is a copy that is not complete: run the same "
                      "holdfast copy again, or remove it",
                      TEXT_ARG(name));
}

/* NULL: as it is. */
static void bind_given(sqlite3_stmt *stmt, int at, bool given, int64_t value)
{
    if (given) {
        bind_int(stmt, at, value);
    }
}

hf_status sqlite_namespace_put(struct sqlite_engine *engine, struct conn *conn,
                               struct namespace_put *put)
{
    (void)engine;
    int64_t id = 0;
    hf_status status = sqlite_namespace_open(conn, put->name, put->create, put->change.now_us, &id,
                                             &put->ret_created);
    if (status) {
        return status;
    }
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_NAMESPACE_CHANGE);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, id);
    bind_text(stmt, 2, put->metadata_json);
    bind_given(stmt, 3, put->retention_ms >= 0, put->retention_ms);
    bind_given(stmt, 4, put->retention_bytes >= 0, put->retention_bytes);
    bind_given(stmt, 5, put->lagging != HF_LAGGING_DEFAULT, put->lagging == HF_LAGGING_DROP);
    bind_given(stmt, 6, put->type_index != HF_TOGGLE_DEFAULT, put->type_index == HF_ON);
    return conn_run(conn, stmt);
}

/* ---- Removing -------------------------------------------------------------------------------- */

static hf_status mark(struct sqlite_engine *engine, struct conn *conn, int64_t id,
                      const struct namespace_remove *remove)
{
    char names[NAMES_BYTES_MAX];
    hf_status status = gate_lock_door(&engine->gate);
    if (status) {
        return status;
    }
    int32_t count = remove->force ? 0 : live_count(engine, id, names, sizeof names);
    HF_POINT("namespace_counted");
    if (count > 0) {
        return fail(HF_CONFLICT, "namespace %" TEXT_PRI " is open in %d process%s: %s",
                    TEXT_ARG(remove->name), (int)count, count == 1 ? "" : "es", names);
    }
    conn->ring = RING_ALL;
    return STATEMENT_RUN(conn, SQLITE_QUERY_NAMESPACE_MARK, id, remove->change.now_us);
}

/* Runs DELETE statements about `id` one after the other until `*left` rows are gone. */
static hf_status drop_rows(struct conn *conn, const enum sqlite_query *queries, size_t count,
                           int64_t id, int64_t *left)
{
    hf_status status = HF_OK;
    for (size_t i = 0; i < count && !status && *left > 0; i++) {
        status = STATEMENT_RUN(conn, queries[i], id, *left);
        *left -= status == HF_OK ? conn_changes(conn) : 0;
    }
    return status;
}

static hf_status drop_subscriptions(struct conn *conn, int64_t namespace_id, int64_t *left)
{
    static const enum sqlite_query contents[] = {
        SQLITE_QUERY_REMOVE_RETRIES, SQLITE_QUERY_REMOVE_COPIES,   SQLITE_QUERY_REMOVE_SETTLED,
        SQLITE_QUERY_REMOVE_LEASES,  SQLITE_QUERY_REMOVE_OUTCOMES, SQLITE_QUERY_REMOVE_PARTITIONS,
        SQLITE_QUERY_REMOVE_CANCELS};
    hf_status status = HF_OK;
    bool found = true;
    while (!status && *left > 0) {
        int64_t id = 0;
        status =
            STATEMENT_INT(conn, SQLITE_QUERY_REMOVE_NEXT_SUBSCRIPTION, &found, &id, namespace_id);
        if (status || !found) {
            return status;
        }
        status = drop_rows(conn, contents, sizeof contents / sizeof contents[0], id, left);
        if (!status && *left > 0) {
            status = STATEMENT_RUN(conn, SQLITE_QUERY_SUBSCRIPTION_DROP_MEMBERS, id);
        }
        if (!status && *left > 0) {
            status = STATEMENT_RUN(conn, SQLITE_QUERY_RATE_DELETE, id);
        }
        if (!status && *left > 0) {
            status = STATEMENT_RUN(conn, SQLITE_QUERY_SUBSCRIPTION_DELETE, id);
            *left -= 1;
        }
    }
    return status;
}

hf_status sqlite_namespace_empty(struct conn *conn, int64_t id, int64_t *left)
{
    static const enum sqlite_query contents[] = {
        SQLITE_QUERY_REMOVE_KEYS,       SQLITE_QUERY_REMOVE_DEAD_LETTERS,
        SQLITE_QUERY_REMOVE_DEAD_KINDS, SQLITE_QUERY_REMOVE_RUNS,
        SQLITE_QUERY_REMOVE_SCHEDULES,  SQLITE_QUERY_REMOVE_DELAYED,
        SQLITE_QUERY_REMOVE_UNIQUES};
    hf_status status = drop_rows(conn, contents, sizeof contents / sizeof contents[0], id, left);
    return status ? status : drop_subscriptions(conn, id, left);
}

hf_status sqlite_namespace_remove(struct sqlite_engine *engine, struct conn *conn,
                                  struct namespace_remove *remove)
{
    static const enum sqlite_query own[] = {SQLITE_QUERY_REMOVE_EVENTS,
                                            SQLITE_QUERY_REMOVE_PAST_NODES};
    struct found_namespace found;
    hf_status status = find(conn, remove->name, &found);
    remove->ret_more = true;
    if (status) {
        return status;
    }
    if (found.id == 0) {
        return fail(HF_NOTFOUND, "there is no namespace %" TEXT_PRI, TEXT_ARG(remove->name));
    }
    if (found.id == engine->namespace_id) {
        return fail(HF_MISUSE, "namespace %" TEXT_PRI " is open here", TEXT_ARG(remove->name));
    }
    if (!found.removing) {
        return mark(engine, conn, found.id, remove);
    }
    int64_t left = STORE_REMOVE_STEP_ROWS;
    status = drop_rows(conn, own, sizeof own / sizeof own[0], found.id, &left);
    if (!status) {
        status = sqlite_namespace_empty(conn, found.id, &left);
    }
    if (!status && left > 0) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_NAMESPACE_NUMBER_KEEP, found.id);
    }
    if (!status && left > 0) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_NAMESPACE_DELETE, found.id);
        remove->ret_more = false;
    }
    if (!status) {
        status = conn_exec(conn, SQLITE_QUERY_VACUUM_STEP);
    }
    return status;
}
