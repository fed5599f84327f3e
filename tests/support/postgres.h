/*
 * postgres.h - what a test asks a PostgreSQL server directly.
 */
#ifndef HF_TESTS_SUPPORT_POSTGRES_H
#define HF_TESTS_SUPPORT_POSTGRES_H

#include <libpq-fe.h>
#include <stdbool.h>

/* Runs statements in a session that the next call may use again; the caller clears the result. The
 * statements leave nothing in the session (SET, BEGIN). */
PGresult *postgres_ask(const char *url, const char *sql);
/* Runs statements without a result; false if one failed. */
bool postgres_run(const char *url, const char *sql);
/* Calls for the first column of every row; false if the query failed. */
bool postgres_each(const char *url, const char *sql, void (*found)(const char *value, void *ctx),
                   void *ctx);
/* Locks tables against other sessions until PQfinish closes the connection. NULL: failed. */
PGconn *postgres_lock(const char *url, const char *tables);

/* A server notices the end of a process by its closed connections, a moment later than the parent
 * does, and when it has done what it had been told. Waits until it has ended all sessions of this
 * application: what they held is free, and nothing more comes of them. */
void postgres_await_end(const char *url, const char *application_name);

#endif
