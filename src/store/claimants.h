/*
 * claimants.h - which members of a subscription are assigned which partitions.
 *
 * A member whose partitions are fixed says so when it refreshes its membership, as a text
 * (ranges.h) that the engine keeps with its membership and does not read. The engine hands the
 * texts of all members to these functions, in the order of their joining: who was assigned a
 * partition first has it, the others stand by until that one is gone.
 */
#ifndef HF_STORE_CLAIMANTS_H
#define HF_STORE_CLAIMANTS_H

#include <holdfast.h>
#include <stdbool.h>

#include "base/text/text.h"

#define STORE_MEMBERS_MAX 1024

/* What members have said that they want. */
struct claimants {
    bool fixed[STORE_MEMBERS_MAX];    /* of each member: it takes only what it is assigned */
    int16_t first[HF_PARTITIONS_MAX]; /* of each partition: the member that was assigned it first;
                                         -1: none was, so it is shared out */
};

/* No member has named partitions yet. */
void claimants_init(struct claimants *claimants);
/* The member's number, from 0, and what it has said; absent: it takes whatever is its share. What
 * cannot be read, because a newer program wrote it, is nothing. */
void claimants_note(struct claimants *claimants, int32_t member, struct text assigned);

#endif
