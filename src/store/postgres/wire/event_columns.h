/*
 * event_columns.h - new events as parameters: every column of theirs is an array.
 *
 * A caller that brings events (appends, firings, delays) says which columns its statement takes
 * and in which changes the events are; the arrays follow in the order of enum new_column. A column
 * that may be absent, and is so in all of them, does not travel: its array is NULL, which a
 * function of the schema reads as NULL for each.
 */
#ifndef HF_STORE_POSTGRES_WIRE_EVENT_COLUMNS_H
#define HF_STORE_POSTGRES_WIRE_EVENT_COLUMNS_H

#include "store/postgres/wire/param.h"
#include "store/store.h"

enum new_column {
    NEW_ID,
    NEW_TYPE,
    NEW_PAYLOAD,
    NEW_KEY,
    NEW_TENANT,
    NEW_METADATA,
    NEW_PRODUCER,
    NEW_SCHEDULE_ID, /* of a firing */
    NEW_EMITTED_AT,
    NEW_GUARD_AT,         /* of the plain ways: the time inside the id; NULL: there is none */
    NEW_EXPECTED_VERSION, /* of the exact way; -1: none */
    NEW_HASH,
    NEW_CONTENT,   /* of the plain ways: hash_content() */
    NEW_UNIQUE,    /* not of the plain ways, like the next one */
    NEW_UNIQUE_US, /* 0: as long as it waits */
    NEW_COLUMNS
};

/* Sets of them. */
#define NEW_COLUMN(column) (1U << (column))
#define NEW_COLUMNS_ALWAYS                                                                         \
    (NEW_COLUMN(NEW_ID) | NEW_COLUMN(NEW_TYPE) | NEW_COLUMN(NEW_PAYLOAD) | NEW_COLUMN(NEW_KEY) |   \
     NEW_COLUMN(NEW_TENANT) | NEW_COLUMN(NEW_METADATA) | NEW_COLUMN(NEW_PRODUCER) |                \
     NEW_COLUMN(NEW_EMITTED_AT) | NEW_COLUMN(NEW_HASH))
#define NEW_COLUMNS_DELAY (NEW_COLUMNS_ALWAYS | NEW_COLUMN(NEW_UNIQUE) | NEW_COLUMN(NEW_UNIQUE_US))
#define NEW_COLUMNS_FIRE (NEW_COLUMNS_ALWAYS | NEW_COLUMN(NEW_SCHEDULE_ID))
#define NEW_COLUMNS_PLAIN (NEW_COLUMNS_ALWAYS | NEW_COLUMN(NEW_GUARD_AT) | NEW_COLUMN(NEW_CONTENT))
#define NEW_COLUMNS_EXACT (NEW_COLUMNS_DELAY | NEW_COLUMN(NEW_EXPECTED_VERSION))

/* A walk through changes that bring events: next(ctx, NULL) is the first, NULL the end. */
typedef struct change *(*change_walk_fn)(void *ctx, struct change *after);
/* The one through a single change, which is ctx. */
struct change *change_walk_one(void *ctx, struct change *after);

/* How many events there are in all of them. */
size_t events_count(change_walk_fn next, void *ctx);

/* Adds the columns of the set, as arrays over the events of all of them. */
void event_columns_fill(struct params *params, unsigned columns, change_walk_fn next, void *ctx);
/* The same for one change. */
void event_columns_fill_one(struct params *params, unsigned columns, struct change *change);

#endif
