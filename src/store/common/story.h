/*
 * story.h - the story of a delivery: its failed attempts as a JSON array.
 *
 *     [{"attempt":1,"at":"2026-11-15T03:54:38.123456Z","error":"...","node":"host:42"}, ...]
 *
 * Kept with a waiting retry and, in the end, with the dead letter. The bus and the engines both
 * add to it, so it is written in one place. It is for people: nothing is decided by what it says.
 * What the bus has to know of the last attempt is stored beside it (cause.h).
 */
#ifndef HF_STORE_COMMON_STORY_H
#define HF_STORE_COMMON_STORY_H

#include "base/text/buf.h"
#include "base/text/text.h"
#include "store/cause.h"

#define STORY_BYTES_MAX 1048576

/* Writes into `out` the story `old` (absent: none) with one more attempt. The error is cut to
 * HF_ERROR_BYTES_MAX. An attempt that does not count carries "counted":false. */
hf_status story_add(struct buf *out, struct text old, int32_t attempt, int64_t at_us,
                    struct text error, struct text node, bool counted);

/* The same of an attempt at a unit, which carries "unit":{"first":17,"events":120}. */
hf_status story_add_unit(struct buf *out, struct text old, int32_t attempt, int64_t at_us,
                         struct text error, struct text node, bool counted, struct unit_mark unit);

/* The stored story of a delivery that may have none: then an empty array. */
struct text story_whole(struct text stored);

/* The errors of attempts that ended without a result. */
#define STORY_ERROR_DIED "the process died during this attempt"
#define STORY_ERROR_EXPIRED "the lease expired without an answer"

#endif
