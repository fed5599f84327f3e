/*
 * holdfast/sqlite.h - publishing in the application's own SQLite transaction.
 */
#ifndef HOLDFAST_SQLITE_H
#define HOLDFAST_SQLITE_H

#include <holdfast/bus.h>
#include <holdfast/event.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sqlite3;

/* Begins a transaction on the application's own connection to the same file, in which
 * hf_sqlite_publish may be called: the events exist if and only if hf_sqlite_commit succeeds.
 * The connection must be open on the very file of the bus, in WAL mode, outside a transaction
 * (HF_MISUSE otherwise); its automatic checkpoints are switched off. All other writers of the file
 * wait until commit or rollback, so keep it short. One thread does all of begin, publish and
 * commit; it must not call other writing functions of the bus in between (HF_MISUSE). */
HF_API hf_status hf_sqlite_begin(hf_bus *bus, struct sqlite3 *db);
/* HF_MISUSE if `db` was not begun with hf_sqlite_begin (the connection of a transactional handler
 * needs no beginning: there it is hf_publish), or the bus is not on SQLite. */
HF_API hf_status hf_sqlite_publish(hf_bus *bus, struct sqlite3 *db, const hf_new_event *event,
                                   hf_receipt *ret_receipt);
HF_API hf_status hf_sqlite_publish_many(hf_bus *bus, struct sqlite3 *db, const hf_new_event *events,
                                        size_t count, hf_receipt *ret_receipts);
/* On failure the transaction is rolled back, except HF_UNKNOWN: it may have been committed. */
HF_API hf_status hf_sqlite_commit(hf_bus *bus, struct sqlite3 *db);
HF_API hf_status hf_sqlite_rollback(hf_bus *bus, struct sqlite3 *db);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_SQLITE_H */
