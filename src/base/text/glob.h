/*
 * glob.h - event types, the patterns that select them, and the names of things.
 *
 * A type is 1 to HF_TYPE_BYTES_MAX bytes of valid UTF-8: segments separated by '.', none of them
 * empty, without '*', white space or control characters. A pattern is the same, but
 *
 *     *     as a whole segment stands for any one segment          user.*     *.created
 *     **    as the last segment stands for one or more segments    user.**
 *     *     or ** alone stands for every type
 *
 * White space is what Unicode calls White_Space; control characters are U+0000-001F, U+007F-009F.
 */
#ifndef HF_BASE_TEXT_GLOB_H
#define HF_BASE_TEXT_GLOB_H

#include "base/text/text.h"

#include <holdfast.h>

/* HF_OK, or HF_INVALID with a sentence that says what is wrong and where. */
hf_status glob_check_type(struct text type);
hf_status glob_check_pattern(struct text pattern);

/*
 * For names of subscriptions, namespaces, nodes: 1 to bytes_max bytes of valid UTF-8 without
 * control characters and without white space at either end. `what` begins the sentence:
 * "subscription name is 300 bytes; the limit is 255".
 */
hf_status glob_check_name(struct text name, const char *what, size_t bytes_max);

/* Both must have passed their check. Linear in the length of the type; allocates nothing. */
bool glob_match(struct text pattern, struct text type);

/* Whether every type that stored_pattern matches is matched by handler_pattern too. The limit on a
 * type's length is not taken into account: a "no" may be wrong only for patterns so long that a
 * tail has no room. */
bool glob_covers(struct text handler_pattern, struct text stored_pattern);

#endif
