/*
 * later.c - looking at delayed events, cancelling and moving them. See store/timers.h for the
 * contract; delay.c keeps them and brings them into the log.
 *
 * Writers come one after the other, so a cancel finds the row, or the event that it has become.
 */
#include "base/err.h"
#include "base/text/glob.h"
#include "store/sqlite/file/lookup.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/append.h"

/* ---- Looking --------------------------------------------------------------------------------- */

static bool read_row(sqlite3_stmt *stmt, struct later_row *ret_row)
{
    *ret_row = (struct later_row){
        .due_us = sqlite3_column_int64(stmt, 1),
        .number = sqlite3_column_int64(stmt, 2),
        .emitted_at_us = sqlite3_column_int64(stmt, 3),
        .type = column_text(stmt, 4),
        .payload = column_text(stmt, 5),
        .payload_bytes = sqlite3_column_int64(stmt, 6),
        .key = column_text(stmt, 7),
        .tenant = column_text(stmt, 8),
        .metadata = column_text(stmt, 9),
        .producer = column_text(stmt, 10),
    };
    return column_blob(stmt, 0, ret_row->id, sizeof ret_row->id);
}

static hf_status damaged(void)
{
    return fail(HF_CORRUPT, "the id of a delayed event is damaged");
}

hf_status sqlite_later_list(struct engine *engine, const struct later_query *query,
                            later_row_fn found, void *ctx)
{
    struct lookup lookup;
    if (lookup_begin(&lookup, engine, SQLITE_QUERY_LATER_LIST)) {
        bool all = query->after_us == STORE_NEVER;
        bind_int(lookup.stmt, 1, lookup.engine->namespace_id);
        bind_int(lookup.stmt, 2, all ? INT64_MIN : query->after_us);
        bind_int(lookup.stmt, 3, all ? 0 : query->after_number);
        bind_int(lookup.stmt, 4,
                 query->due_before_us == STORE_NEVER ? INT64_MAX : query->due_before_us);
        bind_text(lookup.stmt, 5, query->key);
    }
    int32_t left = query->max;
    while (left > 0 && lookup_next(&lookup)) {
        struct later_row row;
        if (!read_row(lookup.stmt, &row)) {
            lookup.status = damaged();
        } else if (text_is_absent(query->type) || glob_match(query->type, row.type)) {
            left = found(&row, ctx) != 0 ? 0 : left - 1;
        }
    }
    return lookup_end(&lookup);
}

hf_status sqlite_later_get(struct engine *engine, const uint8_t id[16], later_row_fn found,
                           void *ctx)
{
    struct lookup lookup;
    if (lookup_begin(&lookup, engine, SQLITE_QUERY_LATER_GET)) {
        bind_int(lookup.stmt, 1, lookup.engine->namespace_id);
        bind_blob(lookup.stmt, 2, id, 16);
    }
    if (lookup_next(&lookup)) {
        struct later_row row;
        if (read_row(lookup.stmt, &row)) {
            found(&row, ctx);
        } else {
            lookup.status = damaged();
        }
    } else if (!lookup.status) {
        lookup.status = fail(HF_NOTFOUND, "no event with this id waits for its time");
    }
    return lookup_end(&lookup);
}

hf_status sqlite_timers_count(struct engine *engine, int64_t now_us, struct timers_count *ret_count)
{
    struct lookup lookup;
    if (lookup_begin(&lookup, engine, SQLITE_QUERY_TIMERS_COUNT)) {
        bind_int(lookup.stmt, 1, lookup.engine->namespace_id);
        bind_int(lookup.stmt, 2, now_us);
    }
    if (lookup_next(&lookup)) {
        *ret_count = (struct timers_count){
            .later = sqlite3_column_int64(lookup.stmt, 0),
            .later_due = sqlite3_column_int64(lookup.stmt, 1),
            .later_next_us = column_int(lookup.stmt, 2, STORE_NEVER),
            .schedules_due = sqlite3_column_int64(lookup.stmt, 3),
            .schedules_next_us = column_int(lookup.stmt, 4, STORE_NEVER),
        };
    }
    return lookup_end(&lookup);
}

/* ---- Changing -------------------------------------------------------------------------------- */

/* After a statement that was to change the row: 0 if it did, or where the event is in the log. */
static hf_status find_position(struct sqlite_engine *engine, struct conn *conn,
                               const uint8_t id[16], int64_t *ret_position)
{
    struct new_event event = {.position = 0};
    bool found = conn_changes(conn) > 0;
    hf_status status = HF_OK;
    memcpy(event.id, id, sizeof event.id);
    if (!found) {
        status = append_find(engine, conn, &event, &found);
    }
    if (!status && !found) {
        status = fail(HF_NOTFOUND, "no event with this id waits for its time or is in the log");
    }
    if (!status) {
        *ret_position = event.position;
    }
    return status;
}

hf_status sqlite_later_cancel(struct sqlite_engine *engine, struct conn *conn,
                              struct later_cancel *cancel)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_LATER_CANCEL);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_blob(stmt, 2, cancel->id, sizeof cancel->id);
    hf_status status = conn_run(conn, stmt);
    return status ? status : find_position(engine, conn, cancel->id, &cancel->ret_position);
}

hf_status sqlite_later_move(struct sqlite_engine *engine, struct conn *conn,
                            struct later_move *move)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_LATER_MOVE);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_blob(stmt, 2, move->id, sizeof move->id);
    bind_int(stmt, 3, move->due_us);
    hf_status status = conn_run(conn, stmt);
    if (!status) {
        status = find_position(engine, conn, move->id, &move->ret_position);
    }
    conn->ring = RING_ALL;
    return status;
}
