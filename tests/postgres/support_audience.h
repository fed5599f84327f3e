/*
 * support_audience.h - readers that keep a record, and the sessions beside them.
 */
#ifndef HF_TESTS_POSTGRES_SUPPORT_AUDIENCE_H
#define HF_TESTS_POSTGRES_SUPPORT_AUDIENCE_H

#include "postgres/support_side.h"
#include "support/make.h"

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
/* Reads, and waits for news, until the floor is there; fails the test after DEADLINE_MS. Answers
 * the milliseconds that it took. */
int64_t audience_await(struct audience *audience, int64_t floor);
/* The positions that came, as text: "1 2 4". */
const char *audience_list(const struct audience *audience);

#endif
