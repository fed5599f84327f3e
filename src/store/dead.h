/*
 * dead.h - the part of the store's contract (store.h) that looks at dead letters.
 *
 * Letters of one kind agree in subscription, type, reason and error (none counts as an empty one).
 * How many open letters there are of each kind is counted along: a change that adds, retries,
 * resolves or purges letters counts them in its own transaction, so that a snapshot never has
 * letters that are not counted, or the other way round. Removing a namespace and clearing what is
 * left of a copy need not keep the numbers meanwhile; a copy counts its letters before it ends.
 */
#ifndef HF_STORE_DEAD_H
#define HF_STORE_DEAD_H

#include <holdfast.h>
#include <stdbool.h>

#include "base/text/text.h"

struct store;

#define STORE_DEAD_KINDS_MAX 10000 /* that one question looks at: those with most letters */

/* Which dead letters; as hf_dead_filter, with every "not given" resolved. */
struct dead_query {
    struct text subscription; /* absent: any */
    struct text type;         /* pattern; absent: any */
    struct text error;        /* substring; absent: any */
    struct text reason;       /* absent: any */
    int64_t failed_before_us; /* -1: any */
    int64_t failed_after_us;  /* -1: any */
    int64_t before_dead_id;   /* -1: from the newest */
    int64_t after_dead_id;    /* oldest_first: from the one after this; -1 */
    bool resolved_too;
    bool oldest_first;
    int64_t limit; /* -1: none */
    int64_t offset;
};

/* Newest first, or oldest first, by dead_id. */
hf_status store_dead_list(struct store *store, const struct dead_query *query,
                          hf_dead_letter_fn found, void *ctx);
hf_status store_dead_get(struct store *store, int64_t dead_id, hf_dead_letter_fn found, void *ctx);
hf_status store_dead_count(struct store *store, const struct dead_query *query, int64_t *ret_count);

/*
 * Groups of the letters that match (without the query's limit and offset), which agree in what `by`
 * says, as of one moment: those with most letters first, of two that are equal the one with the
 * newer letter; `limit` of them (-1: all) after `offset`. The totals are of all groups.
 *
 * A query without times, numbers and resolved_too (dead_query_is_of_kinds) is answered from the
 * numbers of the kinds and costs what the kinds cost, however many letters there are: of more than
 * STORE_DEAD_KINDS_MAX kinds those with most letters are looked at, and totals->more says that
 * there are others. The letters that match any other query are read; then more than
 * STORE_DEAD_KINDS_MAX groups may be cut off with `more`, too.
 */
hf_status store_dead_groups(struct store *store, const struct dead_query *query, hf_dead_by by,
                            hf_dead_group_fn found, void *ctx, hf_dead_totals *ret_totals);

/* Whether it holds for all open letters of a kind, or for none. */
static inline bool dead_query_is_of_kinds(const struct dead_query *query)
{
    return query->failed_before_us < 0 && query->failed_after_us < 0 && query->before_dead_id < 0 &&
           query->after_dead_id < 0 && !query->resolved_too;
}

#endif
