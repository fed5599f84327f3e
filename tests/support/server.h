/*
 * server.h - databases of a server that last as long as a test.
 *
 * In a URL {database} stands for a database that is made for the test and removed after it. Making
 * the schema takes longer than most tests do: if the server has the databases SERVER_READY and
 * SERVER_DEFAULT, which scripts/run-tests makes, those that do not care how the schema came about
 * take a copy of one of them.
 */
#ifndef HF_TESTS_SUPPORT_SERVER_H
#define HF_TESTS_SUPPORT_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#define SERVER_NAME_BYTES 64
#define SERVER_READY "holdfast_ready"
#define SERVER_DEFAULT "holdfast_default"

/* Whether the URL names a database of a server. */
bool server_is(const char *url);

/* If the pattern has {database}: makes an empty one and writes its URL. Else copies the pattern. */
void server_make(const char *pattern, char *out, size_t out_bytes);
/*
 * The same, but the database may have the schema already, without a namespace. All of these have
 * one identity, so none can be copied into another.
 */
void server_make_ready(const char *pattern, char *out, size_t out_bytes);
/* The same, but the database may have the namespace `default`, too. */
void server_make_default(const char *pattern, char *out, size_t out_bytes);
/* Removes the database of this URL, if one of the above has made it. */
void server_remove(const char *url);

#endif
