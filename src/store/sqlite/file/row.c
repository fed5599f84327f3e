/*
 * row.c - decoding an event's columns. See row.h.
 *
 * What SQLite hands out lives until the next step, so a batch gets copies, all in its arena. Texts
 * are NUL-terminated twice over: SQLite's are, and arena_text adds one.
 */
#include "store/sqlite/file/row.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/uuid.h"
#include "store/common/batch.h"
#include "store/common/checksum.h"
#include "store/sqlite/sqlite.h"

static const char *copy_text(struct batch *batch, sqlite3_stmt *stmt, int column)
{
    return arena_text(&batch->arena, column_text(stmt, column)).bytes;
}

/* Of a place and of a position alike: a position is below 2^44. */
static int64_t row_position(sqlite3_stmt *stmt)
{
    return position_of(sqlite3_column_int64(stmt, ROW_POSITION));
}

static const uint8_t *row_id(sqlite3_stmt *stmt)
{
    sqlite3_value *value = sqlite3_column_value(stmt, ROW_ID);
    const uint8_t *id = sqlite3_value_blob(value);
    return id && sqlite3_value_bytes(value) == UUID_BYTES ? id : NULL;
}

static int64_t row_stored(sqlite3_stmt *stmt)
{
    return sqlite3_column_int64(stmt, ROW_CHECKSUM);
}

static hf_status bad_id(int64_t position)
{
    return fail(HF_CORRUPT, "the id of the event at position %lld is not 16 bytes",
                (long long)position);
}

hf_status row_push(struct batch *batch, sqlite3_stmt *stmt, struct entry **ret_entry)
{
    int64_t position = row_position(stmt);
    const uint8_t *id = row_id(stmt);
    if (!id) {
        return bad_id(position);
    }
    struct entry *entry = batch_push(batch);
    if (!entry) {
        return fail(HF_NOMEM, "no memory for a batch of %zu events", batch->count + 1);
    }
    hf_event *event = &entry->event;
    event->position = position;
    event->key = copy_text(batch, stmt, ROW_KEY);
    event->tenant = copy_text(batch, stmt, ROW_TENANT);
    hf_status status = batch_identify(batch, entry, id);
    if (!status) {
        event->type = copy_text(batch, stmt, ROW_TYPE);
        struct text payload = arena_text(&batch->arena, column_text(stmt, ROW_PAYLOAD));
        event->payload = payload.bytes;
        event->payload_bytes = payload.length;
        event->metadata = copy_text(batch, stmt, ROW_METADATA);
        event->producer = copy_text(batch, stmt, ROW_PRODUCER);
        event->schedule_id = copy_text(batch, stmt, ROW_SCHEDULE_ID);
        event->key_version = column_int(stmt, ROW_KEY_VERSION, -1);
        event->emitted_at_us = sqlite3_column_int64(stmt, ROW_EMITTED_AT);
        event->entered_at_us = sqlite3_column_int64(stmt, ROW_ENTERED_AT);
        entry->hash = sqlite3_column_int64(stmt, ROW_HASH);
        entry->checksum = row_stored(stmt);
        status = arena_status(&batch->arena);
    }
    if (!status && (!event->type || !event->payload)) {
        status =
            fail(HF_NOMEM, "no memory to read the event at position %lld", (long long)position);
    }
    if (status) {
        batch->count--;
        return status;
    }
    *ret_entry = entry;
    return HF_OK;
}

hf_status row_event(sqlite3_stmt *stmt, char id_text[HF_ID_BYTES], hf_event *ret_event)
{
    int64_t position = row_position(stmt);
    const uint8_t *id = row_id(stmt);
    if (!id) {
        return bad_id(position);
    }
    uuid_format(id, id_text);
    struct text payload = column_text(stmt, ROW_PAYLOAD);
    *ret_event = (hf_event){
        .id = id_text,
        .type = column_text(stmt, ROW_TYPE).bytes,
        .payload = payload.bytes,
        .payload_bytes = payload.length,
        .key = column_text(stmt, ROW_KEY).bytes,
        .tenant = column_text(stmt, ROW_TENANT).bytes,
        .metadata = column_text(stmt, ROW_METADATA).bytes,
        .producer = column_text(stmt, ROW_PRODUCER).bytes,
        .schedule_id = column_text(stmt, ROW_SCHEDULE_ID).bytes,
        .position = position,
        .key_version = column_int(stmt, ROW_KEY_VERSION, -1),
        .emitted_at_us = sqlite3_column_int64(stmt, ROW_EMITTED_AT),
        .entered_at_us = sqlite3_column_int64(stmt, ROW_ENTERED_AT),
    };
    if (!ret_event->type || !ret_event->payload) {
        return fail(HF_NOMEM, "no memory to read the event at position %lld", (long long)position);
    }
    return HF_OK;
}

hf_status row_checksum(sqlite3_stmt *stmt, struct text payload, int64_t *ret_checksum)
{
    char id_text[HF_ID_BYTES];
    hf_event event;
    hf_status status = row_event(stmt, id_text, &event);
    if (!status) {
        event.payload = payload.bytes;
        event.payload_bytes = payload.length;
        *ret_checksum = checksum_of_event(&event, row_id(stmt), row_hash(stmt));
    }
    return status;
}

hf_status row_lane(sqlite3_stmt *stmt, uint64_t *ret_lane)
{
    const uint8_t *id = row_id(stmt);
    if (!id) {
        return bad_id(row_position(stmt));
    }
    *ret_lane = hash_lane(column_text(stmt, ROW_TENANT), column_text(stmt, ROW_KEY), id);
    return HF_OK;
}

/* Steps to the first row; NULL if there is none. */
static hf_status find_in(struct conn *conn, sqlite3_stmt *stmt, sqlite3_stmt **ret_stmt)
{
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (!status) {
        *ret_stmt = row ? stmt : NULL;
    }
    return status;
}

hf_status row_find(struct sqlite_engine *engine, struct conn *conn, int64_t subscription_id,
                   int64_t position, bool copied, sqlite3_stmt **ret_stmt)
{
    if (copied) {
        sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_COPY_AT);
        if (!stmt) {
            return conn_error(conn);
        }
        bind_int(stmt, 1, subscription_id);
        bind_int(stmt, 2, position);
        hf_status status = find_in(conn, stmt, ret_stmt);
        if (status || *ret_stmt) {
            return status;
        }
    }
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_EVENT_AT);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, place_of(engine, position));
    return find_in(conn, stmt, ret_stmt);
}

hf_status row_dead(struct sqlite_engine *engine, struct conn *conn, int64_t dead_id,
                   sqlite3_stmt **ret_stmt)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_DEAD_GET);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_int(stmt, 2, dead_id);
    return find_in(conn, stmt, ret_stmt);
}

/* The event without a story. */
static hf_status push_found(struct sqlite_engine *engine, struct conn *conn,
                            int64_t subscription_id, int64_t position, bool copied,
                            struct batch *batch, struct entry **ret_entry)
{
    sqlite3_stmt *stmt = NULL;
    *ret_entry = NULL;
    hf_status status = row_find(engine, conn, subscription_id, position, copied, &stmt);
    if (!status && stmt) {
        status = row_push(batch, stmt, ret_entry);
        conn_done(stmt);
    }
    return status;
}

hf_status row_push_waiting(struct sqlite_engine *engine, struct conn *conn, int64_t subscription_id,
                           int64_t position, sqlite3_stmt *stmt, int column, struct batch *batch,
                           struct entry **ret_entry)
{
    hf_status status = push_found(engine, conn, subscription_id, position, true, batch, ret_entry);
    struct entry *entry = *ret_entry;
    if (!status && entry) {
        entry->attempts = sqlite3_column_int(stmt, column);
        entry->uncounted = sqlite3_column_int(stmt, column + 1);
        entry->attempts_json = arena_text(&batch->arena, column_text(stmt, column + 2));
        entry->cause = cause_of(column_text(stmt, column + 3));
        entry->unit.first = sqlite3_column_int64(stmt, column + 4);
        entry->unit.events = sqlite3_column_int(stmt, column + 5);
        entry->handed = (int32_t)column_int(stmt, column + 6, -1);
        entry->waited = true;
        status = arena_status(&batch->arena);
    }
    return status;
}

hf_status row_push_leased(struct sqlite_engine *engine, struct conn *conn, int64_t subscription_id,
                          int64_t position, bool has_retries, struct batch *batch,
                          struct entry **ret_entry)
{
    if (!has_retries) {
        return push_found(engine, conn, subscription_id, position, false, batch, ret_entry);
    }
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_RETRY_LEASED);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, subscription_id);
    bind_int(stmt, 2, position);
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (status) {
        return status;
    }
    if (!row) {
        return push_found(engine, conn, subscription_id, position, false, batch, ret_entry);
    }
    status = row_push_waiting(engine, conn, subscription_id, position, stmt, 0, batch, ret_entry);
    if (!status && *ret_entry && (*ret_entry)->handed > 0) {
        (*ret_entry)->handed--; /* the row counts this lease */
    }
    conn_done(stmt);
    return status;
}
