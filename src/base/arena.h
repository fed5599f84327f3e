/*
 * arena.h - memory for one batch: allocated piece by piece, given back all at once.
 *
 * A batch of events is many small strings that live and die together. The arena hands them out by
 * moving an offset; arena_clear takes them all back and keeps the memory, so that a consumer in its
 * steady state allocates nothing. What it hands out between two clears never exceeds bytes_max.
 *
 * Failure is sticky, as in buf.h: build the whole batch, then ask arena_status once.
 */
#ifndef HF_BASE_ARENA_H
#define HF_BASE_ARENA_H

#include "base/text/text.h"

#include <holdfast.h>

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first; only the newest has room left */
    size_t bytes_max;           /* most that is handed out between two clears */
    size_t used_bytes;          /* handed out since the last clear, padding included */
    size_t peak_bytes;          /* largest used_bytes of any batch: the size of the next block */
    hf_status failed;           /* HF_OK, HF_NOMEM, or HF_INVALID: over the maximum */
};

/* Allocates nothing yet. */
void arena_init(struct arena *arena, size_t bytes_max);

/* Aligned for any type, not zeroed. NULL, and a sticky failure, when the maximum or the memory is
 * exhausted. */
void *arena_alloc(struct arena *arena, size_t bytes);

/* A copy with a final NUL after it. Absent stays absent; also absent on failure. */
struct text arena_text(struct arena *arena, struct text from);

/* How many bytes may still be handed out: ask before starting on an event of known size. */
size_t arena_left(const struct arena *arena);

/* HF_OK, or the first failure since the last clear, with its message. */
hf_status arena_status(const struct arena *arena);

/* Takes everything back, keeps the memory, forgets a failure. */
void arena_clear(struct arena *arena);

/* Gives the memory back; the arena may be used again. */
void arena_release(struct arena *arena);

#endif
