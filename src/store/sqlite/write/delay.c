/*
 * delay.c - events that enter the log when they are due. See store/timers.h for the contract.
 *
 * They wait in a table of their own, durable from the moment that they were published, and are
 * moved to the log by the process that finds first that they are due: the row goes and the event
 * comes in one transaction. Writers come one after the other, so events enter in the order of their
 * times whatever process moves them. An id that was published without a delay meanwhile is in the
 * log already; the row then just goes.
 */
#include "base/err.h"
#include "store/common/checksum.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/append.h"
#include "store/sqlite/write/unique.h"

/* Whether the id waits already, or its unique key is taken: then it is not kept. */
static hf_status check_unique(struct sqlite_engine *engine, struct conn *conn,
                              struct new_event *event, const struct delay *delay, bool *ret_free)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_DELAYED_EXISTS);
    bool found;
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_blob(stmt, 2, event->id, sizeof event->id);
    hf_status status = conn_row(conn, stmt, &found);
    if (status) {
        return status;
    }
    conn_done(stmt);
    event->duplicate = found;
    event->position = 0;
    *ret_free = !found;
    return found ? HF_OK
                 : unique_take(engine, conn, event, delay->replace, delay->change.now_us, ret_free);
}

static hf_status put(struct sqlite_engine *engine, struct conn *conn, struct new_event *event,
                     int64_t due_us)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_DELAYED_PUT);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_blob(stmt, 2, event->id, sizeof event->id);
    bind_int(stmt, 3, due_us);
    bind_text(stmt, 4, event->type);
    bind_text(stmt, 5, event->payload);
    bind_text(stmt, 6, event->key);
    bind_text(stmt, 7, event->tenant);
    bind_text(stmt, 8, event->metadata);
    bind_text(stmt, 9, event->producer);
    bind_int(stmt, 10, event->hash);
    bind_int(stmt, 11, event->emitted_at_us);
    event->key_version = -1;
    bind_int(stmt, 12, checksum_of_new(event, 0, 0));
    hf_status status = conn_run(conn, stmt);
    if (!status) {
        event->duplicate = conn_changes(conn) == 0;
        event->position = 0;
    }
    return status;
}

static hf_status keep(struct sqlite_engine *engine, struct conn *conn, struct new_event *event,
                      const struct delay *delay)
{
    bool has_unique = !text_is_absent(event->unique);
    bool found = false;
    bool is_free = true;
    event->is_second = false;
    event->replaced = false;
    hf_status status = append_find(engine, conn, event, &found);
    if (!status && !found && has_unique) {
        status = check_unique(engine, conn, event, delay, &is_free);
    }
    if (status || found || !is_free) {
        return status;
    }
    status = put(engine, conn, event, delay->due_us);
    if (!status && has_unique) {
        status = unique_keep(engine, conn, event, delay->change.now_us, delay->due_us);
    }
    return status;
}

hf_status sqlite_delay(struct sqlite_engine *engine, struct conn *conn, struct delay *delay)
{
    int64_t head;
    hf_status status = append_head(engine, conn, &head); /* or the namespace is gone */
    for (size_t i = 0; i < delay->count && !status; i++) {
        status = keep(engine, conn, &delay->events[i], delay);
    }
    conn->ring = RING_ALL;
    return status;
}

/* The event of a row of delayed_first; its texts are the row's. The content's hash is what the
 * stored checksum says, so one that was damaged while it waited is damaged in the log. */
static bool read_event(sqlite3_stmt *stmt, struct new_event *event)
{
    *event = (struct new_event){
        .type = column_text(stmt, 3),
        .payload = column_text(stmt, 4),
        .key = column_text(stmt, 5),
        .tenant = column_text(stmt, 6),
        .metadata = column_text(stmt, 7),
        .producer = column_text(stmt, 8),
        .hash = sqlite3_column_int64(stmt, 9),
        .emitted_at_us = sqlite3_column_int64(stmt, 10),
        .expected_version = -1,
        .key_version = -1,
    };
    event->content = sqlite3_column_int64(stmt, 11) ^ event->hash;
    return column_blob(stmt, 2, event->id, sizeof event->id);
}

/* Moves the event of the row that the statement stands at, and resets it. */
static hf_status move(struct sqlite_engine *engine, struct conn *conn, sqlite3_stmt *stmt,
                      int64_t now_us, int64_t *bytes)
{
    int64_t number = sqlite3_column_int64(stmt, 0);
    struct new_event event;
    struct append append = {
        .change = {.kind = CHANGE_APPEND, .now_us = now_us}, .events = &event, .count = 1};
    hf_status status = read_event(stmt, &event)
                           ? sqlite_append(engine, conn, &append)
                           : fail(HF_CORRUPT, "the id of a delayed event is damaged");
    *bytes += (int64_t)(event.payload.length + event.metadata.length);
    conn_done(stmt);
    return status ? status : STATEMENT_RUN(conn, SQLITE_QUERY_DELAYED_DELETE, number);
}

hf_status sqlite_release(struct sqlite_engine *engine, struct conn *conn, struct release *release)
{
    int64_t now_us = release->change.now_us;
    int64_t bytes = 0;
    int64_t count = 0;
    hf_status status = HF_OK;
    for (;;) {
        sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_DELAYED_FIRST);
        bool row = false;
        if (!stmt) {
            status = conn_error(conn);
            break;
        }
        bind_int(stmt, 1, engine->namespace_id);
        status = conn_row(conn, stmt, &row);
        if (status) {
            break;
        }
        int64_t due_us = row ? sqlite3_column_int64(stmt, 1) : STORE_NEVER;
        if (!row || due_us > now_us || count >= release->max || bytes >= STORE_BATCH_BYTES_MAX) {
            if (row) {
                conn_done(stmt);
            }
            release->ret_count = count;
            release->ret_next_us = due_us;
            return HF_OK;
        }
        status = move(engine, conn, stmt, now_us, &bytes);
        if (status) {
            break;
        }
        count++;
    }
    conn->head_known = false; /* the events are about to be undone */
    return status;
}
