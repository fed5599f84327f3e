/*
 * filter.h - deciding whether an event is for a subscription.
 */
#ifndef HF_STORE_COMMON_FILTER_H
#define HF_STORE_COMMON_FILTER_H

#include "store/store.h"

/* Does any of the patterns match the type? */
bool filter_matches(const struct filter *filter, struct text type);
/* Is the event with this hash of one of the wanted partitions? */
bool filter_owns(const struct filter *filter, int64_t hash);
/* Whether there is no partition that it does not want. */
bool filter_owns_all(const struct filter *filter);

/* Whether an index on types, if there is one, would find the next events sooner: after so many rows
 * at least, if the patterns match few of them. That some were left out because they are of other
 * partitions is taken into account. */
#define FILTER_SPARSE_ROWS 1000
bool filter_is_sparse(const struct filter *filter, int64_t rows, int64_t wanted);

/* A filter of one's own, to match events on behalf of a subscription whose definition may change
 * meanwhile; without a limit on positions. */
struct filter_copy {
    struct filter filter;
    struct text *patterns; /* with their bytes behind them; NULL: nothing was copied yet */
    struct partition_set owned;
    uint64_t bits[HF_PARTITIONS_MAX / 64];
};

/* Makes it a copy of the filter; all 0 is one of nothing. Patterns are copied if they are others.
 * False: there is no memory, and it is as before. */
bool filter_copy(struct filter_copy *copy, const struct filter *filter);
void filter_copy_release(struct filter_copy *copy);

#endif
