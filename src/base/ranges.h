/*
 * ranges.h - a set of small numbers as people write it: "3,5-7".
 *
 * Numbers are from 0 to RANGES_MAX - 1. Between commas there is a number, or two with a dash, the
 * lower first; order and repetition do not matter. What is written by ranges_format is in order, as
 * short as can be, and the same for equal sets; the empty set is "".
 */
#ifndef HF_BASE_RANGES_H
#define HF_BASE_RANGES_H

#include <holdfast.h>
#include <stdbool.h>

#include "base/text/text.h"

#define RANGES_MAX HF_PARTITIONS_MAX
#define RANGES_WORDS (RANGES_MAX / 64)
#define RANGES_BYTES_MAX 2600 /* the longest text with its NUL: every other number */

struct ranges {
    uint64_t words[RANGES_WORDS];
};

/* `limit`: numbers are below it. HF_INVALID, and the message says what is wrong. */
hf_status ranges_parse(struct text text, int32_t limit, struct ranges *ret_ranges);
void ranges_format(const struct ranges *ranges, char ret_text[RANGES_BYTES_MAX]);

bool ranges_has(const struct ranges *ranges, int32_t number);
void ranges_put(struct ranges *ranges, int32_t number);
int32_t ranges_count(const struct ranges *ranges);

#endif
