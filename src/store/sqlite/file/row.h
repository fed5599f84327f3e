/*
 * row.h - an event's columns as an entry of a batch.
 *
 * The log, the copies and the dead letters keep an event in the same columns, and every statement
 * that hands up events selects them in this order, so there is one place that decodes them:
 *
 *     position (or place)  id  type  payload  key  tenant  metadata  producer  schedule_id
 *     key_version  hash  emitted_at  entered_at  checksum
 */
#ifndef HF_STORE_SQLITE_FILE_ROW_H
#define HF_STORE_SQLITE_FILE_ROW_H

#include "store/sqlite/sqlite.h"
#include "store/store.h"

enum row_column {
    ROW_POSITION,
    ROW_ID,
    ROW_TYPE,
    ROW_PAYLOAD,
    ROW_KEY,
    ROW_TENANT,
    ROW_METADATA,
    ROW_PRODUCER,
    ROW_SCHEDULE_ID,
    ROW_KEY_VERSION,
    ROW_HASH,
    ROW_EMITTED_AT,
    ROW_ENTERED_AT,
    ROW_CHECKSUM,
    ROW_COLUMNS
};

/* Columns of a dead letter after the event's. */
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

/* Copies the present row, whose columns begin with the event's, into the batch. The caller fills in
 * attempts, story, waited and unhandled. An event whose checksum is another one is marked damaged.
 * HF_NOMEM; HF_CORRUPT if the id is not 16 bytes. On failure the batch has no new entry. */
hf_status row_push(struct batch *batch, sqlite3_stmt *stmt, struct entry **ret_entry);

/* The type of the row, without copying: for filter_matches before row_push. */
static inline struct text row_type(sqlite3_stmt *stmt)
{
    return column_text(stmt, ROW_TYPE);
}

/* Its hash, which decides the partition. */
static inline int64_t row_hash(sqlite3_stmt *stmt)
{
    return sqlite3_column_int64(stmt, ROW_HASH);
}

/* The event as the application sees it, its texts those of the present row; `id_text` gets the id
 * and must live as long. It may be damaged. */
hf_status row_event(sqlite3_stmt *stmt, char id_text[HF_ID_BYTES], hf_event *ret_event);

/* What the checksum of the event in the present row is with another payload. HF_CORRUPT. */
hf_status row_checksum(sqlite3_stmt *stmt, struct text payload, int64_t *ret_checksum);

/* The lane of the event in the present row. HF_CORRUPT. */
hf_status row_lane(sqlite3_stmt *stmt, uint64_t *ret_lane);

/* Finds the event that a delivery is about: the copy, if `copied` says that it may have one, else
 * the log's. *ret_stmt stands on its row (conn_done it), or is NULL if there is none. */
hf_status row_find(struct sqlite_engine *engine, struct conn *conn, int64_t subscription_id,
                   int64_t position, bool copied, sqlite3_stmt **ret_stmt);

/* *ret_stmt stands on the dead letter's row (conn_done it), or is NULL if there is none. */
hf_status row_dead(struct sqlite_engine *engine, struct conn *conn, int64_t dead_id,
                   sqlite3_stmt **ret_stmt);

/* Appends the event of a delivery with its story so far, which `stmt` gives: attempts, uncounted,
 * story, cause, unit_first, unit_events and deliveries in its columns from `column` on. *ret_entry
 * is NULL, and there is no failure, if the event is nowhere any more. */
hf_status row_push_waiting(struct sqlite_engine *engine, struct conn *conn, int64_t subscription_id,
                           int64_t position, sqlite3_stmt *stmt, int column, struct batch *batch,
                           struct entry **ret_entry);

/* Appends an event of a lease; has_retries: it may have a row in retries with its story. *ret_entry
 * as above; its `waited` tells whether it had. `handed` does not count that lease; of one without a
 * row it is 0, and the lease knows better (lease_times). */
hf_status row_push_leased(struct sqlite_engine *engine, struct conn *conn, int64_t subscription_id,
                          int64_t position, bool has_retries, struct batch *batch,
                          struct entry **ret_entry);

#endif
