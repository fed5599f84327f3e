/*
 * share.c - sharing partitions out among the members of a subscription. See share.h.
 *
 * Nobody leads: every member looks at the same muster and works out the same shares. The partitions
 * are divided evenly; where that leaves a remainder, those who own the most already have one more,
 * so that nothing moves without need, and among equals those who joined first. A member gives back
 * what it owns beyond its share, and takes what is free up to it; two that reach for the same one
 * are told apart by the store. What a process that is no member keeps for itself is not shared out.
 */
#include "bus/share.h"

#include "store/store.h"

int32_t share_size(const int32_t *owners, int32_t partitions, int32_t members, int32_t self)
{
    int32_t shared = 0;
    int32_t owned[STORE_MEMBERS_MAX] = {0};
    for (int32_t i = 0; i < partitions; i++) {
        shared += owners[i] != MUSTER_OTHER ? 1 : 0;
        if (owners[i] >= 0) {
            owned[owners[i]]++;
        }
    }
    int32_t before = 0; /* members who are served first if there is a remainder */
    for (int32_t i = 0; i < members; i++) {
        before += owned[i] > owned[self] || (owned[i] == owned[self] && i < self) ? 1 : 0;
    }
    return shared / members + (before < shared % members ? 1 : 0);
}
