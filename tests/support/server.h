/*
 * server.h - databases of a server that last as long as a test.
 *
 * In a URL {database} stands for a database that is made for the test and removed after it.
 */
#ifndef HF_TESTS_SUPPORT_SERVER_H
#define HF_TESTS_SUPPORT_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#define SERVER_NAME_BYTES 64

/* Whether the URL names a database of a server. */
bool server_is(const char *url);

/* If the pattern has {database}: makes one and writes its URL. Else copies the pattern. */
void server_make(const char *pattern, char *out, size_t out_bytes);
/* Removes the database of this URL, if server_make has made it. */
void server_remove(const char *url);

#endif
