/*
 * filter.c - see filter.h. Patterns were checked when they were stored.
 */
#include "store/common/filter.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
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

bool filter_owns_all(const struct filter *filter)
{
    return !filter->owned || owned_count(filter->owned) == filter->owned->total;
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

/* ---- Copies ---------------------------------------------------------------------------------- */

static bool same_patterns(const struct filter *a, const struct filter *b)
{
    bool same = a->count == b->count && a->unhandled_too == b->unhandled_too;
    for (size_t i = 0; same && i < a->count; i++) {
        same = text_equal(a->patterns[i], b->patterns[i]);
    }
    return same;
}

void filter_copy_release(struct filter_copy *copy)
{
    mem_free(copy->patterns);
    *copy = (struct filter_copy){0};
}

/* False: there is no memory. */
static bool copy_patterns(struct filter_copy *copy, const struct filter *filter)
{
    size_t bytes = filter->count * sizeof *copy->patterns;
    for (size_t i = 0; i < filter->count; i++) {
        bytes += filter->patterns[i].length;
    }
    struct text *patterns = mem_calloc(1, bytes > 0 ? bytes : 1);
    if (!patterns) {
        return false;
    }
    char *at = (char *)(patterns + filter->count);
    for (size_t i = 0; i < filter->count; i++) {
        struct text pattern = filter->patterns[i];
        memcpy(at, pattern.bytes, pattern.length);
        patterns[i] = (struct text){.bytes = at, .length = pattern.length};
        at += pattern.length;
    }
    filter_copy_release(copy);
    copy->patterns = patterns;
    copy->filter = (struct filter){
        .patterns = patterns, .count = filter->count, .unhandled_too = filter->unhandled_too};
    return true;
}

bool filter_copy(struct filter_copy *copy, const struct filter *filter)
{
    if ((!copy->patterns || !same_patterns(&copy->filter, filter)) &&
        !copy_patterns(copy, filter)) {
        return false;
    }
    copy->filter.owned = NULL;
    if (filter->owned) {
        size_t words = ((size_t)filter->owned->total + 63) / 64;
        memcpy(copy->bits, filter->owned->bits, words * sizeof *copy->bits);
        copy->owned = (struct partition_set){.total = filter->owned->total, .bits = copy->bits};
        copy->filter.owned = &copy->owned;
    }
    return true;
}
