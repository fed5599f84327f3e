/*
 * change.h - what all engines do with a change, whatever its kind: ask for the events that it
 * carries, and give it its answer.
 */
#ifndef HF_STORE_COMMON_CHANGE_H
#define HF_STORE_COMMON_CHANGE_H

#include "store/timers.h"

/* The events that a change brings with it, and how many: of CHANGE_APPEND, CHANGE_FIRE and
 * CHANGE_DELAY. Any other has none (NULL); a firing that only leaves times out has none either. */
struct new_event *change_events(const struct change *change, size_t *ret_count);

/* What they weigh: their texts, and `fixed_bytes` for each. */
int64_t change_bytes(const struct change *change, int64_t fixed_bytes);

/* The answer, with the thread's message unless it is HF_OK. */
void change_answer(struct change *change, hf_status status);
/* The same for an answer that only holds if the common commit succeeds: into `draft`. */
void change_draft(struct change *change, hf_status status);
/* It has not happened, whatever it has handed out already: a claim keeps no entries in its batch.
 * An answer other than HF_OK says so, too. */
void change_undone(struct change *change);

#endif
