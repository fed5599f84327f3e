/*
 * filter.c - see filter.h. Patterns were checked when they were stored.
 */
#include "store/filter.h"

#include "base/hash.h"
#include "base/text/glob.h"

#define SPARSE_ONE_IN 50 /* reading an event by the index costs about as much as passing so many */

bool filter_matches(const struct filter *filter, struct text type)
{
    for (size_t i = 0; i < filter->count; i++) {
        if (glob_match(filter->patterns[i], type)) {
            return true;
        }
    }
    return false;
}

bool filter_owns(const struct filter *filter, int64_t hash)
{
    const struct partition_set *set = filter->owned;
    if (!set) {
        return true;
    }
    int32_t partition = hash_slice(hash, set->total);
    return (set->bits[partition / 64] >> (partition % 64) & 1) != 0;
}

/* How many partitions are wanted. */
static int64_t owned_count(const struct partition_set *set)
{
    int64_t count = 0;
    for (int32_t i = 0; i < set->total; i++) {
        count += (int64_t)(set->bits[i / 64] >> (i % 64) & 1);
    }
    return count;
}

bool filter_is_sparse(const struct filter *filter, int64_t rows, int64_t wanted)
{
    if (rows < FILTER_SPARSE_ROWS || filter->unhandled_too) {
        return false;
    }
    int64_t total = filter->owned ? filter->owned->total : 1;
    int64_t owned = filter->owned ? owned_count(filter->owned) : 1;
    return wanted * SPARSE_ONE_IN * total < rows * owned;
}
