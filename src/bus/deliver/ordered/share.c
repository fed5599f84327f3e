/*
 * share.c - sharing partitions out among the members of a subscription. See share.h.
 *
 * There is no leader: every member looks at the same refresh and works out the same shares.
 *
 * A partition that members are assigned belongs to the one that was assigned it first, and to none
 * of the others. The rest is divided evenly among those who are assigned nothing in particular;
 * where that leaves a remainder, those who own the most already have one more, so that nothing
 * moves without need, and among equals those who joined first. A member gives back what it owns
 * beyond its share, and takes what is free up to it; two that reach for the same one are told apart
 * by the store. What a process that is no member keeps for itself is not shared out.
 */
#include "bus/deliver/ordered/share.h"

static struct share fixed_share(const struct members_refresh *refresh)
{
    struct share share = {0};
    for (int32_t i = 0; i < refresh->ret_partitions; i++) {
        if (refresh->ret_claimants.first[i] == refresh->ret_self) {
            ranges_put(&share.may, i);
            share.size++;
        }
    }
    return share;
}

struct share share_of(const struct members_refresh *refresh)
{
    const struct claimants *claimants = &refresh->ret_claimants;
    int32_t self = refresh->ret_self;
    if (claimants->fixed[self]) {
        return fixed_share(refresh);
    }
    struct share share = {0};
    int32_t shared = 0;
    int32_t owned[STORE_MEMBERS_MAX] = {0};
    for (int32_t i = 0; i < refresh->ret_partitions; i++) {
        int32_t owner = refresh->ret_owners[i];
        if (claimants->first[i] >= 0) {
            continue;
        }
        ranges_put(&share.may, i);
        shared += owner != MEMBERS_REFRESH_OTHER ? 1 : 0;
        if (owner >= 0) {
            owned[owner]++;
        }
    }
    int32_t sharers = 0;
    int32_t before = 0; /* of them, those who are served first if there is a remainder */
    for (int32_t i = 0; i < refresh->ret_members; i++) {
        if (!claimants->fixed[i]) {
            sharers++;
            before += owned[i] > owned[self] || (owned[i] == owned[self] && i < self) ? 1 : 0;
        }
    }
    share.size = shared / sharers + (before < shared % sharers ? 1 : 0);
    return share;
}
