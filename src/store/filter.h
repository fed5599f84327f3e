/*
 * filter.h - deciding whether an event is for a subscription.
 */
#ifndef HF_STORE_FILTER_H
#define HF_STORE_FILTER_H

#include "store/store.h"

/* Does any of the patterns match the type? */
bool filter_matches(const struct filter *filter, struct text type);
/* Is the event with this hash of one of the wanted partitions? */
bool filter_owns(const struct filter *filter, int64_t hash);

#endif
