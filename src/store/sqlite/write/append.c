/*
 * append.c - the log's writing end. See append.h.
 *
 * One INSERT per event, or for APPEND_ROWS of them, nothing else: the unique index on the id tells
 * a repeat. Only when it refuses is the first event looked up. So an ordinary publish pays nothing
 * for being idempotent, and the rule "the id is looked at before the version and the unique key"
 * costs a lookup only where there is one of them.
 *
 * The head is not stored, it is where the log ends (but for what retention took, see the schema).
 * It is read once, counted in memory, and read anew when another connection may have changed it
 * (conn.h). If an append fails, its caller undoes the rows and the head in memory is put back here.
 * In a transaction that the application's code shares (tx.c, join.c) append_now reads it anew each
 * time, because the application may have rolled back to a savepoint of its own.
 */
#include "store/sqlite/write/append.h"

#include "base/err.h"
#include "base/point.h"
#include "base/uuid.h"
#include "store/common/checksum.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/write/unique.h"

#define APPEND_COLUMNS 14 /* of a row of append_event and append_events */
#define APPEND_ROWS 16    /* of append_events */

hf_status head_read(struct sqlite_engine *engine, struct conn *conn, int64_t *ret_head)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_HEAD);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bool found = false;
    hf_status status = conn_row(conn, stmt, &found);
    if (!status && !found) {
        return fail(HF_NOTFOUND,
                    "namespace %s is gone: it was removed while this process had it open",
                    engine->namespace_name);
    }
    if (!status) {
        *ret_head = sqlite3_column_int64(stmt, 0);
        int type_index = sqlite3_column_int(stmt, 1);
        conn->typed = type_index == TYPE_INDEX_BUILDING || type_index == TYPE_INDEX_ON;
        conn_done(stmt);
    }
    return status;
}

/* Tells the index on types of the event that was just inserted. */
static hf_status append_type(struct sqlite_engine *engine, struct conn *conn,
                             const struct new_event *event)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_TYPES_ADD);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_text(stmt, 2, event->type);
    bind_int(stmt, 3, event->position);
    return conn_run(conn, stmt);
}

hf_status append_head(struct sqlite_engine *engine, struct conn *conn, int64_t *ret_head)
{
    if (!conn->head_known) {
        hf_status status = head_read(engine, conn, &conn->head);
        if (status) {
            return status;
        }
        conn->head_known = true;
    }
    *ret_head = conn->head;
    return HF_OK;
}

hf_status append_find(struct sqlite_engine *engine, struct conn *conn, struct new_event *event,
                      bool *ret_found)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_EVENT_BY_ID);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_blob(stmt, 1, event->id, sizeof event->id);
    bind_int(stmt, 2, engine->namespace_id);
    hf_status status = conn_row(conn, stmt, ret_found);
    if (!status && *ret_found) {
        event->position = position_of(sqlite3_column_int64(stmt, 0));
        event->key_version = column_int(stmt, 1, -1);
        event->duplicate = true;
        conn_done(stmt);
    }
    return status;
}

/* Checks the expected version and raises it. */
static hf_status append_version(struct sqlite_engine *engine, struct conn *conn,
                                struct new_event *event)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_KEY_VERSION);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_text(stmt, 2, event->key);
    bool found;
    hf_status status = conn_row(conn, stmt, &found);
    if (status) {
        return status;
    }
    int64_t version = 0;
    if (found) {
        version = sqlite3_column_int64(stmt, 0);
        conn_done(stmt);
    }
    if (version != event->expected_version) {
        return fail(HF_CONFLICT, "expected version %lld of key %.*s, which has version %lld",
                    (long long)event->expected_version,
                    (int)(event->key.length > 128 ? 128 : event->key.length), event->key.bytes,
                    (long long)version);
    }
    stmt = conn_statement(conn, SQLITE_QUERY_KEY_VERSION_PUT);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_text(stmt, 2, event->key);
    bind_int(stmt, 3, version + 1);
    status = conn_run(conn, stmt);
    if (!status) {
        event->key_version = version + 1;
    }
    return status;
}

/* Binds the event, which is to have this position, as one row of the statement. */
static void append_bind(struct sqlite_engine *engine, sqlite3_stmt *stmt, int row,
                        const struct new_event *event, int64_t position, int64_t now_us)
{
    int before = row * APPEND_COLUMNS;
    bind_int(stmt, before + 1, place_of(engine, position));
    bind_blob(stmt, before + 2, event->id, sizeof event->id);
    bind_text(stmt, before + 3, event->type);
    bind_text(stmt, before + 4, event->payload);
    bind_text(stmt, before + 5, event->key);
    bind_text(stmt, before + 6, event->tenant);
    bind_text(stmt, before + 7, event->metadata);
    bind_text(stmt, before + 8, event->producer);
    if (event->key_version >= 0) {
        bind_int(stmt, before + 9, event->key_version);
    }
    bind_int(stmt, before + 10, event->hash);
    bind_int(stmt, before + 11, event->emitted_at_us);
    bind_int(stmt, before + 12, now_us);
    bind_text(stmt, before + 13, event->schedule_id);
    bind_int(stmt, before + 14, checksum_of_new(event, position, now_us));
}

/* Runs the statement. *ret_refused: one of its rows was not stored, because its id is in the log
 * already. */
static hf_status append_step(struct conn *conn, sqlite3_stmt *stmt, bool *ret_refused)
{
    int code = sqlite3_step(stmt);
    hf_status status = HF_OK;
    if (code != SQLITE_DONE) {
        code = sqlite3_extended_errcode(conn->db);
        *ret_refused = code == SQLITE_CONSTRAINT_UNIQUE;
        status = *ret_refused ? HF_OK : conn_fail_code(conn, code, "append an event");
    }
    sqlite3_reset(stmt);
    return status;
}

/* The event is in the log, behind all others. */
static hf_status append_stored(struct sqlite_engine *engine, struct conn *conn,
                               struct new_event *event)
{
    event->position = ++conn->head;
    return conn->typed ? append_type(engine, conn, event) : HF_OK;
}

/* The event was refused: its id is in the log. */
static hf_status append_repeat(struct sqlite_engine *engine, struct conn *conn,
                               struct new_event *event)
{
    bool found = false;
    hf_status status = append_find(engine, conn, event, &found);
    if (!status && !found) {
        status = fail(HF_CORRUPT, "the index of event ids names an event that is not in the log");
    }
    return status;
}

static hf_status append_insert(struct sqlite_engine *engine, struct conn *conn,
                               struct new_event *event, int64_t now_us)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_APPEND_EVENT);
    if (!stmt) {
        return conn_error(conn);
    }
    if (conn->head >= PLACE_POSITION_MAX) {
        return fail(HF_NOSPACE, "namespace %s has used all its positions", engine->namespace_name);
    }
    append_bind(engine, stmt, 0, event, conn->head + 1, now_us);
    bool refused = false;
    hf_status status = append_step(conn, stmt, &refused);
    if (status) {
        return status;
    }
    return refused ? append_repeat(engine, conn, event) : append_stored(engine, conn, event);
}

/* Appends the next APPEND_ROWS events, which are plain, or of them those up to the first whose id
 * is in the log already, with that one. */
static hf_status append_rows(struct sqlite_engine *engine, struct conn *conn,
                             struct new_event *events, int64_t now_us, size_t *ret_done)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_APPEND_EVENTS);
    if (!stmt) {
        return conn_error(conn);
    }
    for (int i = 0; i < APPEND_ROWS; i++) {
        append_bind(engine, stmt, i, &events[i], conn->head + 1 + i, now_us);
    }
    bool refused = false;
    hf_status status = append_step(conn, stmt, &refused);
    size_t stored = refused ? (size_t)conn_changes(conn) : APPEND_ROWS;
    for (size_t i = 0; !status && i < stored; i++) {
        status = append_stored(engine, conn, &events[i]);
    }
    if (!status && refused) {
        status = append_repeat(engine, conn, &events[stored]);
    }
    *ret_done = stored + (refused ? 1 : 0);
    return status;
}

/* The event is not there yet, and its unique key is free. */
static hf_status append_new(struct sqlite_engine *engine, struct conn *conn,
                            struct new_event *event, int64_t now_us)
{
    hf_status status = event->expected_version >= 0 ? append_version(engine, conn, event) : HF_OK;
    if (!status) {
        status = append_insert(engine, conn, event, now_us);
    }
    if (!status && !text_is_absent(event->unique)) {
        status = unique_keep(engine, conn, event, now_us, now_us);
    }
    return status;
}

/* Whether nothing but its id decides about the event. */
static bool is_plain(const struct new_event *event)
{
    return event->expected_version < 0 && text_is_absent(event->unique);
}

static void clear_answer(struct new_event *event)
{
    event->duplicate = false;
    event->is_second = false;
    event->key_version = -1;
}

static hf_status append_one(struct sqlite_engine *engine, struct conn *conn,
                            struct new_event *event, int64_t now_us)
{
    bool has_unique = !text_is_absent(event->unique);
    clear_answer(event);
    if (is_plain(event)) {
        return append_insert(engine, conn, event, now_us);
    }
    bool found = false;
    bool is_free = true;
    hf_status status = append_find(engine, conn, event, &found);
    if (!status && !found && has_unique) {
        status = unique_take(engine, conn, event, false, now_us, &is_free);
    }
    return status || found || !is_free ? status : append_new(engine, conn, event, now_us);
}

/* Appends one event of the list, or as many as one statement takes. */
static hf_status append_some(struct sqlite_engine *engine, struct conn *conn,
                             struct new_event *events, size_t count, int64_t now_us,
                             size_t *ret_done)
{
    size_t plain = 0;
    while (plain < count && plain < APPEND_ROWS && is_plain(&events[plain])) {
        clear_answer(&events[plain++]);
    }
    if (plain == APPEND_ROWS && conn->head <= PLACE_POSITION_MAX - APPEND_ROWS) {
        return append_rows(engine, conn, events, now_us, ret_done);
    }
    *ret_done = 1;
    return append_one(engine, conn, events, now_us);
}

hf_status append_now(struct sqlite_engine *engine, struct conn *conn, struct append *append)
{
    conn->head_known = false;
    if (!spare_restore(&engine->spare, false)) {
        return spare_refuse(&engine->spare);
    }
    hf_status status = conn_save(conn);
    if (status) {
        return status;
    }
    status = sqlite_append(engine, conn, append);
    conn->head_known = false;
    if (!status) {
        return conn_release(conn);
    }
    char message[STORE_MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s", err_message());
    conn_undo(conn);
    return err_set(status, message);
}

hf_status sqlite_append(struct sqlite_engine *engine, struct conn *conn, struct append *append)
{
    int64_t head = 0;
    append->failed_index = SIZE_MAX;
    hf_status status = append_head(engine, conn, &head);
    size_t done = 0;
    for (size_t i = 0; i < append->count && !status; i += done) {
        status = append_some(engine, conn, &append->events[i], append->count - i,
                             append->change.now_us, &done);
        if (status) {
            append->failed_index = status == HF_CONFLICT ? i : SIZE_MAX;
        }
    }
    HF_POINT("after_append_before_commit");
    if (status) {
        conn->head = head;
        return status;
    }
    conn->ring = conn->ring == RING_ALL ? RING_ALL : RING_EVENTS;
    return HF_OK;
}
