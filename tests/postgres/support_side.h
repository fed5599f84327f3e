/*
 * support_side.h - other sessions of the server: publishers, operators, holders of locks.
 */
#ifndef HF_TESTS_POSTGRES_SUPPORT_SIDE_H
#define HF_TESTS_POSTGRES_SUPPORT_SIDE_H

#include <libpq-fe.h>
#include <stdint.h>

struct fixture;

/* A connection to the test's database. */
PGconn *side_open(const struct fixture *fixture);
PGconn *side_open_url(const char *url);
/* Runs statements that must succeed. */
void side_must(PGconn *pg, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The first column of the first row. */
int64_t side_number(PGconn *pg, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Publishes within whatever transaction is open; the position. */
int64_t side_publish(PGconn *pg, const struct fixture *fixture, const char *type, const char *key);
int64_t side_publish_in(PGconn *pg, const char *namespace_name, const char *type, const char *key);
/* Waits until a store of this name, which has just begun to ask for its "now", has looked at who
 * holds the lock of the sequence, as far as the server shows it. */
void side_await_look(PGconn *pg, const char *node);
/* The number of the test's namespace. */
int64_t side_namespace(PGconn *pg, const struct fixture *fixture);

#endif
