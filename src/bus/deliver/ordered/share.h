/*
 * share.h - which partitions of a subscription a member should own.
 */
#ifndef HF_BUS_DELIVER_ORDERED_SHARE_H
#define HF_BUS_DELIVER_ORDERED_SHARE_H

#include "base/ranges.h"
#include "store/store.h"

/* What a member should own. */
struct share {
    int32_t size;      /* so many ... */
    struct ranges may; /* ... of these; others are to be given back */
};

/* The share of the member that the refresh calls `self`. */
struct share share_of(const struct members_refresh *refresh);

#endif
