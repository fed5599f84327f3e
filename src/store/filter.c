/*
 * filter.c - see filter.h. Patterns were checked when they were stored.
 */
#include "store/filter.h"

#include "base/hash.h"
#include "base/text/glob.h"

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
