/*
 * bundle.h - statements that carry many changes of one kind at once.
 *
 * A verb (verbs.h) is a change by itself. Where many of a kind come together, a statement for each
 * would cost more than all that they write, so a bundle takes their values as arrays and answers
 * each of them. It succeeds or fails as a whole. So only changes that wait for no other
 * transaction, and are hardly ever refused, may go into one; when a bundle fails, each of them is
 * tried again as a verb (round.c).
 */
#ifndef HF_STORE_POSTGRES_WIRE_BUNDLE_H
#define HF_STORE_POSTGRES_WIRE_BUNDLE_H

#include "store/postgres/verbs.h"
#include "store/postgres/wire/event_columns.h"

struct bundle {
    enum postgres_query query;
    /* Whether a change may go into it. now_us is our wall clock. */
    bool (*admits)(const struct postgres_engine *engine, const struct change *change,
                   int64_t now_us);
    /* The parameters for all changes of the walk, which are one at least. */
    void (*fill)(struct postgres_engine *engine, struct params *params, change_walk_fn next,
                 void *ctx);
    /* Drafts the answer of every change of the same walk (change_draft). */
    void (*take)(const PGresult *result, change_walk_fn next, void *ctx);
};

extern const struct bundle postgres_bundle_append;        /* append.c: the plain way of appending */
extern const struct bundle postgres_bundle_append_listed; /* append.c: the same, of more ids */
extern const struct bundle postgres_bundle_fire;          /* firing.c */

#endif
