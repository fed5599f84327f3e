/*
 * row.h - an event's row as an entry of a batch.
 *
 * Every query that hands events up selects these columns first, in this order, from
 * holdfast_events (place), holdfast_copies or a join of both (position):
 *
 *     0 place or position   1 id    2 type       3 payload      4 key          5 tenant
 *     6 metadata   7 producer   8 schedule_id   9 key_version   10 hash   11 emitted_at
 *     12 entered_at
 */
#ifndef HF_STORE_SQLITE_ROW_H
#define HF_STORE_SQLITE_ROW_H

#include "store/sqlite/sqlite.h"
#include "store/store.h"

#define ROW_COLUMNS 13 /* the first column after the event's */

/* Appends the row that the statement stands on. The caller fills in attempts, story, waited and
 * unhandled. HF_NOMEM; HF_CORRUPT if the id is not 16 bytes. */
hf_status row_push(struct batch *batch, sqlite3_stmt *stmt, struct entry **ret_entry);

/* The type of the row, without copying: for filter_matches before row_push. */
static inline struct text row_type(sqlite3_stmt *stmt)
{
    return column_text(stmt, 2);
}

#endif
