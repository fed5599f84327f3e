/*
 * holdfast/postgres.h - publishing in the application's own PostgreSQL transaction.
 */
#ifndef HOLDFAST_POSTGRES_H
#define HOLDFAST_POSTGRES_H

#include <holdfast/bus.h>
#include <holdfast/event.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pg_conn; /* libpq's PGconn */

/*
 * Publishes in the transaction that `pg`, a connection of the application to the bus's database, is
 * in, however it was begun: the event exists if and only if that transaction commits. A failure
 * leaves the transaction as it was, so that it can go on, unless the connection is lost. A weaker
 * synchronous_commit is raised for this transaction. For two-phase commit say SET LOCAL
 * holdfast.notify = off before: PostgreSQL does not PREPARE what has notified.
 * HF_MISUSE: no transaction, one that has failed or is read-only, pipeline mode, a client_encoding
 * other than UTF8, another database, or the bus is not on PostgreSQL. HF_UNAVAILABLE: the
 * connection is lost. HF_INVALID, HF_CONFLICT, HF_BUSY, HF_TIMEOUT as hf_publish. On the connection
 * of a transactional handler it is hf_publish.
 */
HF_API hf_status hf_postgres_publish(hf_bus *bus, struct pg_conn *pg, const hf_new_event *event,
                                     hf_receipt *ret_receipt);
HF_API hf_status hf_postgres_publish_many(hf_bus *bus, struct pg_conn *pg,
                                          const hf_new_event *events, size_t count,
                                          hf_receipt *ret_receipts);

/* BEGIN, COMMIT and ROLLBACK, for convenience: hf_postgres_commit tells a commit that failed from
 * one whose result is not known (HF_UNKNOWN: the connection was lost, or silent for timeout_ms; end
 * it), and rings itself. It also commits what was begun otherwise. HF_MISUSE: the connection is, or
 * is not, in a transaction, or in one that has failed. Any other failure: nothing was committed. */
HF_API hf_status hf_postgres_begin(hf_bus *bus, struct pg_conn *pg);
HF_API hf_status hf_postgres_commit(hf_bus *bus, struct pg_conn *pg);
HF_API hf_status hf_postgres_rollback(hf_bus *bus, struct pg_conn *pg);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_POSTGRES_H */
