/*
 * postgres.h - what a test asks a PostgreSQL server directly.
 */
#ifndef HF_TESTS_SUPPORT_POSTGRES_H
#define HF_TESTS_SUPPORT_POSTGRES_H

#include <libpq-fe.h>
#include <stdbool.h>

/* Runs statements without a result; false if one failed. */
bool postgres_run(const char *url, const char *sql);
/* Calls for the first column of every row; false if the query failed. */
bool postgres_each(const char *url, const char *sql, void (*found)(const char *value, void *ctx),
                   void *ctx);
/* Locks tables against everybody, until the connection is closed with PQfinish. NULL: failed. */
PGconn *postgres_lock(const char *url, const char *tables);

/* How many processes have the namespace open and are alive; -1 if the server cannot tell. */
int postgres_alive(const char *url, const char *namespace_name);

/* A server notices the end of a process by its closed connection, a moment later than the parent
 * does. Waits until fewer than `before` are alive. */
void postgres_await_death(const char *url, const char *namespace_name, int before);

#endif
