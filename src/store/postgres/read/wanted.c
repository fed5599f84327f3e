/*
 * wanted.c - see wanted.h.
 */
#include "store/postgres/read/wanted.h"

#include <string.h>

#include "store/common/filter.h"

void wanted_init(struct wanted *wanted)
{
    *wanted = (struct wanted){.partitions = 0};
    buf_init(&wanted->patterns, REGEX_BUF_BYTES);
    buf_init(&wanted->regex, REGEX_BUF_BYTES);
}

void wanted_release(struct wanted *wanted)
{
    buf_release(&wanted->patterns);
    buf_release(&wanted->regex);
}

hf_status wanted_of(struct wanted *wanted, const struct filter *filter, bool plain)
{
    wanted_init(wanted);
    if (!filter_owns_all(filter)) {
        wanted->partitions = filter->owned->total;
        size_t words = ((size_t)wanted->partitions + 63) / 64;
        memcpy(wanted->owned, filter->owned->bits, words * sizeof wanted->owned[0]);
    }
    return plain ? HF_OK : regex_patterns(&wanted->patterns, filter);
}

bool wanted_equal(const struct wanted *a, const struct wanted *b)
{
    return a->partitions == b->partitions && memcmp(a->owned, b->owned, sizeof a->owned) == 0 &&
           text_equal(buf_text(&a->patterns), buf_text(&b->patterns));
}
