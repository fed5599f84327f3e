/*
 * join.c - publishing in the application's own transaction: hf_sqlite_... and hf_postgres_...
 *
 * The application brings its connection, and the store's engine does the work (store_join_...). The
 * two families of functions differ only in the type of the connection, so both come down to the
 * same four steps here. They must not be mixed up: a sqlite3 that is taken for a PGconn is a crash,
 * so the engine is compared by name before the pointer is looked at.
 *
 * Inside a transactional handler the connection that it was handed is in a transaction of ours, and
 * publishing on it is what hf_publish does there. It cannot be begun or ended by this way. Another
 * connection would, on SQLite, wait for the handler itself; the engine says so.
 *
 * What was begun can be ended after hf_shutdown; publishing and beginning are refused by then.
 */
#include <string.h>

#include "base/err.h"
#include "bus/api/publish.h"
#include "bus/deliver/work/attempt.h"

/* The engine's name in the store, what its connections are called, and where a handler finds its
 * own. */
struct family {
    const char *engine;
    const char *argument;
    const char *delivery;
};

static const struct family sqlite_family = {"sqlite", "db", "hf_delivery_sqlite"};
static const struct family postgres_family = {"postgres", "pg", "hf_delivery_postgres"};

static hf_status check(const hf_bus *bus, const struct family *family, const void *connection)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    if (!connection) {
        return fail(HF_INVALID, "%s is NULL", family->argument);
    }
    const char *engine = store_engine_name(bus->store);
    return strcmp(engine, family->engine) == 0
               ? HF_OK
               : fail(HF_MISUSE, "this bus is on %s: functions hf_%s_... are not for it", engine,
                      family->engine);
}

/* The transaction of the handler that runs on this thread, if the connection is its own. */
static struct tx *tx_of(const hf_bus *bus, const void *connection)
{
    struct tx *tx = attempt_tx(bus);
    return tx && tx_connection(tx) == connection ? tx : NULL;
}

/* Beginning and ending: not what belongs to a handler's transaction. */
static hf_status check_own(const hf_bus *bus, const struct family *family, const void *connection)
{
    hf_status status = check(bus, family, connection);
    if (!status && tx_of(bus, connection)) {
        status = fail(HF_MISUSE, "this is the connection of a transactional handler, whose "
                                 "transaction the bus begins and ends");
    }
    return status;
}

static hf_status join_begin(hf_bus *bus, const struct family *family, void *connection)
{
    hf_status status = check_own(bus, family, connection);
    if (!status) {
        status = bus_check_open(bus);
    }
    if (!status && attempt_tx(bus) && family == &sqlite_family) {
        status = fail(HF_MISUSE,
                      "this thread is inside a transactional handler, whose transaction "
                      "holds the database; use %s",
                      family->delivery);
    }
    return status ? status : store_join_begin(bus->store, connection, bus_deadline(bus));
}

/* carry_fn; ctx is the connection. */
static hf_status carry_joined(hf_bus *bus, void *connection, struct append *append)
{
    struct tx *tx = tx_of(bus, connection);
    return tx ? tx_append(tx, append) : store_join_append(bus->store, connection, append);
}

static hf_status join_publish(hf_bus *bus, const struct family *family, void *connection,
                              const hf_new_event *event, hf_receipt *ret_receipt)
{
    hf_status status = check(bus, family, connection);
    return status ? status : publish_one(bus, event, carry_joined, connection, ret_receipt);
}

static hf_status join_publish_many(hf_bus *bus, const struct family *family, void *connection,
                                   const hf_new_event *events, size_t count,
                                   hf_receipt *ret_receipts)
{
    hf_status status = check(bus, family, connection);
    return status ? status
                  : publish_many(bus, events, count, carry_joined, connection, ret_receipts);
}

static hf_status join_commit(hf_bus *bus, const struct family *family, void *connection)
{
    hf_status status = check_own(bus, family, connection);
    return status ? status : store_join_commit(bus->store, connection);
}

static hf_status join_rollback(hf_bus *bus, const struct family *family, void *connection)
{
    hf_status status = check_own(bus, family, connection);
    return status ? status : store_join_rollback(bus->store, connection);
}

/* ---- SQLite ---------------------------------------------------------------------------------- */

hf_status hf_sqlite_begin(hf_bus *bus, struct sqlite3 *db)
{
    return join_begin(bus, &sqlite_family, db);
}

hf_status hf_sqlite_publish(hf_bus *bus, struct sqlite3 *db, const hf_new_event *event,
                            hf_receipt *ret_receipt)
{
    return join_publish(bus, &sqlite_family, db, event, ret_receipt);
}

hf_status hf_sqlite_publish_many(hf_bus *bus, struct sqlite3 *db, const hf_new_event *events,
                                 size_t count, hf_receipt *ret_receipts)
{
    return join_publish_many(bus, &sqlite_family, db, events, count, ret_receipts);
}

hf_status hf_sqlite_commit(hf_bus *bus, struct sqlite3 *db)
{
    return join_commit(bus, &sqlite_family, db);
}

hf_status hf_sqlite_rollback(hf_bus *bus, struct sqlite3 *db)
{
    return join_rollback(bus, &sqlite_family, db);
}

/* ---- PostgreSQL ------------------------------------------------------------------------------ */

hf_status hf_postgres_begin(hf_bus *bus, struct pg_conn *pg)
{
    return join_begin(bus, &postgres_family, pg);
}

hf_status hf_postgres_publish(hf_bus *bus, struct pg_conn *pg, const hf_new_event *event,
                              hf_receipt *ret_receipt)
{
    return join_publish(bus, &postgres_family, pg, event, ret_receipt);
}

hf_status hf_postgres_publish_many(hf_bus *bus, struct pg_conn *pg, const hf_new_event *events,
                                   size_t count, hf_receipt *ret_receipts)
{
    return join_publish_many(bus, &postgres_family, pg, events, count, ret_receipts);
}

hf_status hf_postgres_commit(hf_bus *bus, struct pg_conn *pg)
{
    return join_commit(bus, &postgres_family, pg);
}

hf_status hf_postgres_rollback(hf_bus *bus, struct pg_conn *pg)
{
    return join_rollback(bus, &postgres_family, pg);
}
