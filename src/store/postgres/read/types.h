/*
 * types.h - positions of events by the index on types, for the reader of the log.
 */
#ifndef HF_STORE_POSTGRES_READ_TYPES_H
#define HF_STORE_POSTGRES_READ_TYPES_H

#include "base/gap.h"
#include "store/postgres/postgres.h"

struct typed {
    struct gap_hole *places; /* a range for each position, ascending; the caller frees them */
    size_t count;
    int64_t through; /* all that match up to there are among them, and no other will come there */
};

/* Finds up to `max` events after `after` that the patterns match. Publishers that are under way are
 * waited for that long. *ret_used is false, and ret_typed untouched, if the index on types does not
 * help: there is none, or it is not worth while, or publishers last longer. */
hf_status types_find(struct engine *engine, const struct filter *filter, int64_t after, int32_t max,
                     int64_t wait_ms, struct typed *ret_typed, bool *ret_used);

#endif
