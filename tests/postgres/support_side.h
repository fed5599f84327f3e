/*
 * support_side.h - other sessions of the server, and readers that keep a record.
 */
#ifndef HF_TESTS_POSTGRES_SUPPORT_SIDE_H
#define HF_TESTS_POSTGRES_SUPPORT_SIDE_H

#include "support/make.h"

#include <libpq-fe.h>

/* ---- Sessions -------------------------------------------------------------------------------- */

/* A connection to the test's database. */
PGconn *side_open(const struct fixture *fixture);
PGconn *side_open_url(const char *url);
/* Runs statements that must succeed. */
void side_must(PGconn *pg, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The first column of the first row. */
int64_t side_number(PGconn *pg, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Publishes within whatever transaction is open; the position. */
int64_t side_publish(PGconn *pg, const struct fixture *fixture, const char *type, const char *key);
/* The number of the test's namespace. */
int64_t side_namespace(PGconn *pg, const struct fixture *fixture);

/* ---- Readers --------------------------------------------------------------------------------- */

#define AUDIENCE_MAX 400000

/* What a reader has handed up, with the promises that hold at every step: the floor does not sink,
 * nothing comes twice, nothing comes at or below the floor, and in strict order nothing comes after
 * a higher position. */
struct audience {
    struct store *store;
    struct reader *reader;
    struct filter filter;
    struct text pattern;
    bool strict;
    int32_t max;
    int64_t floor;
    size_t count;
    int64_t highest;
    int64_t *positions; /* in the order in which they came */
    bool *seen;         /* by position */
    struct batch batch;
    /* called for every entry, if not NULL */
    void (*found)(const struct entry *entry, void *ctx);
    void *ctx;
};

void audience_open(struct audience *audience, struct store *store, int64_t after, bool strict,
                   const char *pattern);
void audience_close(struct audience *audience);
/* Reads until there is nothing more right now. */
void audience_read(struct audience *audience);
/* Reads, and waits for news, until the floor is there; fails the test after PATIENCE_MS. Answers
 * the milliseconds that it took. */
int64_t audience_await(struct audience *audience, int64_t floor);
/* The positions that came, as text: "1 2 4". */
const char *audience_list(const struct audience *audience);

#endif
