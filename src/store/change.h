/*
 * change.h - what all engines ask of a change, whatever its kind: the events that it carries.
 */
#ifndef HF_STORE_CHANGE_H
#define HF_STORE_CHANGE_H

#include "store/agenda.h"

/* The events that a change brings with it, and how many: of CHANGE_APPEND, CHANGE_FIRE and
 * CHANGE_DELAY. Any other has none (NULL); a firing that only leaves times out has none either. */
struct new_event *change_events(const struct change *change, size_t *ret_count);

/* What they weigh: their texts, and `fixed_bytes` for each. */
int64_t change_bytes(const struct change *change, int64_t fixed_bytes);

#endif
