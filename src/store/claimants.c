/*
 * claimants.c - which members are assigned which partitions. See claimants.h.
 */
#include "store/claimants.h"

#include <assert.h>

#include "base/ranges.h"

void claimants_init(struct claimants *claimants)
{
    for (int32_t i = 0; i < STORE_MEMBERS_MAX; i++) {
        claimants->fixed[i] = false;
    }
    for (int32_t i = 0; i < HF_PARTITIONS_MAX; i++) {
        claimants->first[i] = -1;
    }
}

void claimants_note(struct claimants *claimants, int32_t member, struct text assigned)
{
    assert(member >= 0 && member < STORE_MEMBERS_MAX);
    struct ranges ranges;
    claimants->fixed[member] = !text_is_absent(assigned);
    if (text_is_absent(assigned) || ranges_parse(assigned, HF_PARTITIONS_MAX, &ranges)) {
        return;
    }
    for (int32_t i = 0; i < HF_PARTITIONS_MAX; i++) {
        if (ranges_has(&ranges, i) && claimants->first[i] < 0) {
            claimants->first[i] = (int16_t)member;
        }
    }
}
