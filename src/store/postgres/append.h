/*
 * append.h - the log's writing end: the two ways of appending.
 *
 *   plain   one INSERT for the events of many appends. Only for ids that the log's own index
 *           guards, and without versions; a repeated id makes the whole statement fail.
 *   exact   holdfast.append, event by event: every id, versions, repetitions. postgres_verb_append.
 */
#ifndef HF_STORE_POSTGRES_APPEND_H
#define HF_STORE_POSTGRES_APPEND_H

#include "store/postgres/event_columns.h"
#include "store/postgres/verbs.h"

/* Whether an append may go the plain way. The server looks at the ids' times again, by its own
 * clock: now_us only saves it a vain attempt. */
bool append_is_plain(const struct postgres_engine *engine, const struct append *append,
                     int64_t now_us);

/* The parameters of the plain INSERT. */
void append_fill_plain(struct params *params, change_walk_fn next, void *ctx);

/* Takes the positions from the rows of the plain INSERT, from row `*at` on, which moves.
 * HF_CORRUPT: there are too few. */
hf_status append_take_plain(struct append *append, const PGresult *result, int *at);

#endif
