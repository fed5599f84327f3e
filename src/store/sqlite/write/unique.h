/*
 * unique.h - unique keys of events, inside a write transaction that the caller began. See struct
 * append in store.h for the contract.
 */
#ifndef HF_STORE_SQLITE_WRITE_UNIQUE_H
#define HF_STORE_SQLITE_WRITE_UNIQUE_H

#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"

/* Whether the event may be stored: its key is free. If not, fills in the answer: a duplicate of the
 * one that has the key. `replace`: one that waits for its time goes, and says so in `replaced`. */
hf_status unique_take(struct sqlite_engine *engine, struct conn *conn, struct new_event *event,
                      bool replace, int64_t now_us, bool *ret_free);

/* The event was stored, in the log or (position 0) until due_us: it has the key now. */
hf_status unique_keep(struct sqlite_engine *engine, struct conn *conn,
                      const struct new_event *event, int64_t now_us, int64_t due_us);

/* Deletes keys whose time is over: looks at `max` rows. *ret_more: there may be more. */
hf_status unique_sweep(struct conn *conn, int64_t namespace_id, int64_t now_us, int64_t max,
                       bool *ret_more);

#endif
