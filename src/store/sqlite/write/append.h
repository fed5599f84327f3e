/*
 * append.h - the log's writing end, inside a write transaction that the caller began.
 *
 * The head, the newest position, is read once per transaction and counted in memory.
 */
#ifndef HF_STORE_SQLITE_WRITE_APPEND_H
#define HF_STORE_SQLITE_WRITE_APPEND_H

#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"

/* The newest position that is stored. */
hf_status head_read(struct sqlite_engine *engine, struct conn *conn, int64_t *ret_head);

/* The newest position as of this moment of the transaction. */
hf_status append_head(struct sqlite_engine *engine, struct conn *conn, int64_t *ret_head);

/* Fills in the answer of an event whose id is in the log already. */
hf_status append_find(struct sqlite_engine *engine, struct conn *conn, struct new_event *event,
                      bool *ret_found);

/* sqlite_append (verbs.h) in a transaction that the application's code shares: undoes itself when
 * it fails. */
hf_status append_now(struct sqlite_engine *engine, struct conn *conn, struct append *append);

#endif
