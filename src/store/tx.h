/*
 * tx.h - the part of the store's contract (store.h) about transactions: those that handlers run in,
 * with their deliveries settled inside, and those of the application that a publish joins.
 */
#ifndef HF_STORE_TX_H
#define HF_STORE_TX_H

#include <holdfast.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time/deadline.h"
#include "store/event.h"

struct append;
struct store;

#define STORE_TOKEN_BYTES 16 /* identity of a lease, or of an opened store */

/* ---- Transactions for handlers --------------------------------------------------------------- */

/* Proof that a delivery is ours: partition and epoch (ordered), or a lease (shared). */
struct hold {
    int64_t subscription_id;
    int32_t partition;
    int64_t epoch;
    bool leased;
    uint8_t lease[STORE_TOKEN_BYTES];
};

/*
 * A transaction on the application's database that handlers run in. Between begin and commit other
 * writers of the database may have to wait (SQLite), so the bus keeps it short. Calls come from one
 * thread, except tx_abort.
 *
 *   begin -> (enter -> handler, append... -> leave)* -> commit    or, for the last one, finish
 */
struct tx;

hf_status store_tx_begin(struct store *store, struct deadline deadline, struct tx **ret_tx);

/* Begins one delivery inside: checks the hold (HF_STALE), settles the position (ordered: a row in
 * `settled`; leased: taken out of the lease; a retry row goes and its lane's next is promoted, as
 * OUTCOME_DONE does). HF_CONFLICT: it is settled already, so the handler must not run. */
hf_status tx_enter(struct tx *tx, const struct hold *hold, const struct entry *entry,
                   int64_t now_us);
/* Ends the delivery: keeps its writes, or undoes them and the settling. HF_TIMEOUT: the transaction
 * was aborted; nothing of it is kept. HF_MISUSE: the handler left the transaction in a state that
 * cannot be kept (a statement of it failed, or it ended the transaction itself); the delivery is
 * undone. HF_BUSY: it is undone, because of trouble that passes (a deadlock, a lock that could not
 * be had ...), which is not the event's fault. ret_lane_busy as in struct outcome. */
hf_status tx_leave(struct tx *tx, bool keep, bool *ret_lane_busy);
/* Ends the last delivery, keeping its writes, and commits: tx_leave and tx_commit in one, which may
 * save a round trip. Ends the tx in every case. Answers as those two, but that HF_CONFLICT comes
 * from the commit only (HF_STALE: another process has settled the delivery meanwhile). */
hf_status tx_finish(struct tx *tx, bool *ret_lane_busy);
/* One of those that a handler got together with the one that was entered. */
struct tx_member {
    struct hold hold;
    const struct entry *entry;
    bool ret_lane_busy;
};

/* The same for a unit: settles these with the delivery inside. *ret_settled is SIZE_MAX, or with a
 * failure the number of the one that is settled already: 0 is the delivery inside, 1 the first of
 * the others. They may be settled in one round trip if all have the hold of the one inside, `same`.
 */
hf_status tx_finish_unit(struct tx *tx, struct tx_member *others, size_t count, bool same,
                         int64_t now_us, bool *ret_lane_busy, size_t *ret_settled);
/* Appends within the transaction; contract of struct append but for durability. */
hf_status tx_append(struct tx *tx, struct append *append);
/* The connection for the handler: sqlite3 * or PGconn *. */
void *tx_connection(struct tx *tx);
/* From any thread, when the time is up, and never waits: nothing of the transaction will be kept,
 * and what the handler does on the connection fails. True: it is rolled back, or the server does
 * that, and other writers go on. False: a statement of the handler runs at this moment and cannot
 * be undone before it ends; it is told to end, and the caller tries again. The owner still ends
 * the tx. */
bool tx_abort(struct tx *tx);
/* Commits, durably as the store was opened; ends the tx in every case. HF_TIMEOUT: it was aborted.
 * HF_CONFLICT: what a handler wrote breaks a constraint that is checked at the end. HF_UNKNOWN.
 * Anything but HF_OK and HF_UNKNOWN: nothing is kept. */
hf_status tx_commit(struct tx *tx);
/* Undoes everything and ends the tx. NULL is allowed. */
void tx_rollback(struct tx *tx);

/* ---- Joining the application's own transaction ----------------------------------------------- */

/* `connection` is a sqlite3 * (PGconn *). HF_MISUSE: another file, not in WAL mode, inside a
 * transaction; join_append and the others: not begun by join_begin. */
hf_status store_join_begin(struct store *store, void *connection, struct deadline deadline);
hf_status store_join_append(struct store *store, void *connection, struct append *append);
hf_status store_join_commit(struct store *store, void *connection);
hf_status store_join_rollback(struct store *store, void *connection);

#endif
