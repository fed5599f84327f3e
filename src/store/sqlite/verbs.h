/*
 * verbs.h - what the SQLite engine can do: its changes and verbs.
 *
 * Contracts are those of store.h; this header only says how they are called. The lists are
 * changes.def and verbs.def; a function is in the file that is named after its noun.
 *
 * Changes run inside a write transaction on `conn`. The caller has opened a SAVEPOINT unless the
 * change is the only one of its transaction, and undoes it when the answer is not HF_OK. A change
 * that rings sets conn->ring; the bell is rung after the commit.
 *
 * Queries take a connection from the pool themselves and read one snapshot. The first parameter of
 * a verb is the head of the engine's own struct.
 */
#ifndef HF_STORE_SQLITE_VERBS_H
#define HF_STORE_SQLITE_VERBS_H

#include "store/engine.h"

struct sqlite_engine;
struct conn;

/* sqlite_append and so on */
#define CHANGE(KIND, name)                                                                         \
    hf_status sqlite_##name(struct sqlite_engine *engine, struct conn *conn, struct name *name);
#define ROLES(KIND, name)
#include "store/changes.def"

/* sqlite_subscription_get and so on */
#define VERB(result, name, params, args) result sqlite_##name params;
#include "store/verbs.def"

/* ---- What they share ------------------------------------------------------------------------- */

/* Finds a namespace within the present transaction, or makes it. HF_NOTFOUND; HF_BUSY: it is being
 * removed; HF_INVALID: there are too many. (namespace.c) */
hf_status sqlite_namespace_find(struct conn *conn, struct text name, bool create, int64_t now_us,
                                int64_t *ret_id, bool *ret_created, bool *ret_copying);
/* Takes out at most *left rows of all that a namespace has beside its events, and counts them off:
 * if some are left over nothing is in it any more. (namespace.c) */
hf_status sqlite_namespace_empty(struct conn *conn, int64_t id, int64_t *left);
/* The same as find, for a caller that wants to use it: HF_BUSY also if it is a copy that is not
 * complete. (namespace.c) */
hf_status sqlite_namespace_open(struct conn *conn, struct text name, bool create, int64_t now_us,
                                int64_t *ret_id, bool *ret_created);

/* The settling half of tx_enter: checks the hold (HF_STALE, HF_NOTFOUND), settles the position as
 * OUTCOME_DONE does, HF_CONFLICT if it is settled already. Ordered deliveries get their row in
 * `settled`. The caller has opened the SAVEPOINT. */
hf_status sqlite_enter(struct sqlite_engine *engine, struct conn *conn, const struct hold *hold,
                       const struct entry *entry, int64_t now_us, bool *ret_lane_busy);

/* Closing: gives back all partitions that this store's token still owns, and ends the leases bound
 * to it so that the next claim hands their events out at once. Sets conn->ring if there were
 * any. */
hf_status sqlite_give_back_all(struct sqlite_engine *engine, struct conn *conn, int64_t now_us);

/* Does the process of this token exist, frozen or not? */
bool sqlite_owner_is_alive(struct sqlite_engine *engine, const uint8_t owner[STORE_TOKEN_BYTES]);

#endif
