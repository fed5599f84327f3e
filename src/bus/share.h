/*
 * share.h - how many partitions of a subscription a member should own.
 */
#ifndef HF_BUS_SHARE_H
#define HF_BUS_SHARE_H

#include <stdint.h>

/* How many partitions the member `self` should own. `owners` says of each partition whose it is, as
 * struct muster does (store.h). */
int32_t share_size(const int32_t *owners, int32_t partitions, int32_t members, int32_t self);

#endif
