/*
 * firing.h - firings that share one statement: change_fire takes those of many schedules as arrays
 * and answers each of them. postgres_verb_fire is the same for one.
 */
#ifndef HF_STORE_POSTGRES_FIRING_H
#define HF_STORE_POSTGRES_FIRING_H

#include "store/postgres/event_columns.h"
#include "store/postgres/row.h"
#include "store/postgres/verbs.h"

/* Whether a firing may share a statement. One by hand does not: it waits for whoever is at its
 * schedule. */
bool firing_is_shared(const struct change *change);

/* The parameters. All firings are of one node, and happen now as the first one does. */
void firing_fill(struct postgres_engine *engine, struct params *params, change_walk_fn next,
                 void *ctx);

/* The answers: begin with the result, then take them in the order of the firings. */
struct firing_answers {
    struct result_array ours;
    struct result_array positions;
    struct result_array duplicates;
};
hf_status firing_begin(const PGresult *result, struct firing_answers *ret_answers);
hf_status firing_take(struct firing_answers *answers, struct change *change);

#endif
