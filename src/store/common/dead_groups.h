/*
 * dead_groups.h - dead letters put into groups by a text, in memory.
 *
 * At most STORE_DEAD_KINDS_MAX texts are kept apart, of DEAD_GROUPS_BYTES_MAX in all; letters with
 * others are counted in the totals alone, which then say that there are more. So memory stays
 * bounded whatever the texts are.
 */
#ifndef HF_STORE_COMMON_DEAD_GROUPS_H
#define HF_STORE_COMMON_DEAD_GROUPS_H

#include "base/arena.h"
#include "store/dead.h"

#define DEAD_GROUPS_BYTES_MAX ((size_t)64 << 20)

/* Letters with the same text: one of them, or all of a kind. */
struct dead_part {
    struct text text; /* absent: "" */
    int64_t letters;
    int64_t newest_id;
    int64_t newest_us;
    int64_t oldest_id;
    int64_t oldest_us;
};

struct dead_groups {
    struct arena texts;
    struct dead_part *groups;
    size_t count;
    size_t room;
    uint32_t *slots; /* by hash: number of the group + 1; 0: free */
    int64_t letters; /* of all parts */
    bool more;       /* there are others that were not added, or are in no group */
};

/* HF_NOMEM. To be released in any case. */
hf_status dead_groups_init(struct dead_groups *groups);
hf_status dead_groups_add(struct dead_groups *groups, const struct dead_part *part);
/* Hands up `limit` groups (-1: all) after `offset`, those with most letters first. Afterwards
 * nothing can be added. */
void dead_groups_show(struct dead_groups *groups, int64_t limit, int64_t offset,
                      hf_dead_group_fn found, void *ctx, hf_dead_totals *ret_totals);
void dead_groups_release(struct dead_groups *groups);

#endif
