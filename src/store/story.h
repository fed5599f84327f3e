/*
 * story.h - the story of a delivery: its failed attempts as a JSON array.
 *
 *     [{"attempt":1,"at":"2026-11-15T03:54:38.123456Z","error":"...","node":"host:42"}, ...]
 *
 * Kept with a waiting retry and, in the end, with the dead letter. The bus and the engines both
 * add to it, so it is written in one place.
 */
#ifndef HF_STORE_STORY_H
#define HF_STORE_STORY_H

#include "base/text/buf.h"
#include "base/text/text.h"

#define STORY_BYTES_MAX 1048576

/* Writes into `out` the story `old` (absent: none) with one more attempt. The error is cut to
 * HF_ERROR_BYTES_MAX. An attempt that does not count carries "counted":false. */
hf_status story_add(struct buf *out, struct text old, int32_t attempt, int64_t at_us,
                    struct text error, struct text node, bool counted);

/* The events that failed together: the position of the first, and how many. events 0: it was not a
 * batch. Told in the story as "unit":{"first":17,"events":120}. */
struct story_unit {
    int64_t first;
    int32_t events;
};

/* The same of an attempt at a unit. */
hf_status story_add_unit(struct buf *out, struct text old, int32_t attempt, int64_t at_us,
                         struct text error, struct text node, bool counted, struct story_unit unit);
/* The unit of the last attempt; events 0: none. */
struct story_unit story_last_unit(struct text story);

/* Did the last attempt end with the death of its process? */
bool story_ends_in_death(struct text story);

#define STORY_ERROR_DIED "the process died during this attempt"
#define STORY_ERROR_EXPIRED "the lease expired without an answer"

#endif
