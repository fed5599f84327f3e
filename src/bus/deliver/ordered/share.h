/*
 * share.h - which partitions of a subscription a member should own.
 */
#ifndef HF_BUS_DELIVER_ORDERED_SHARE_H
#define HF_BUS_DELIVER_ORDERED_SHARE_H

#include "base/ranges.h"
#include "store/store.h"

/* What a member should own. */
struct share {
    int32_t size;      /* how many of `may` it is */
    struct ranges may; /* partitions that may be in it; others are to be given back */
};

/* The share of the member that the refresh calls `self`. */
struct share share_of(const struct members_refresh *refresh);

#endif
