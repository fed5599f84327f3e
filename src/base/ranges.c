/*
 * ranges.c - a set of small numbers as people write it. See ranges.h.
 */
#include "base/ranges.h"

#include <assert.h>
#include <stdio.h>

#include "base/err.h"

bool ranges_has(const struct ranges *ranges, int32_t number)
{
    return number >= 0 && number < RANGES_MAX &&
           (ranges->words[number / 64] >> (number % 64) & 1) != 0;
}

void ranges_put(struct ranges *ranges, int32_t number)
{
    assert(number >= 0 && number < RANGES_MAX);
    ranges->words[number / 64] |= UINT64_C(1) << (number % 64);
}

int32_t ranges_count(const struct ranges *ranges)
{
    int32_t count = 0;
    for (size_t i = 0; i < RANGES_WORDS; i++) {
        count += __builtin_popcountll(ranges->words[i]);
    }
    return count;
}

/* Takes digits from the front. False: there is none. What is too large stays too large. */
static bool take_number(struct text *text, int32_t *ret_number)
{
    int32_t number = 0;
    size_t digits = 0;
    while (digits < text->length && text->bytes[digits] >= '0' && text->bytes[digits] <= '9') {
        number = number * 10 + (text->bytes[digits++] - '0');
        number = number < RANGES_MAX ? number : RANGES_MAX;
    }
    text->bytes += digits;
    text->length -= digits;
    *ret_number = number;
    return digits > 0;
}

static bool take_byte(struct text *text, char byte)
{
    if (text->length == 0 || text->bytes[0] != byte) {
        return false;
    }
    text->bytes++;
    text->length--;
    return true;
}

hf_status ranges_parse(struct text text, int32_t limit, struct ranges *ret_ranges)
{
    struct ranges ranges = {{0}};
    struct text rest = text;
    while (rest.length > 0) {
        int32_t first = 0;
        bool good = take_number(&rest, &first);
        int32_t last = first;
        if (good && take_byte(&rest, '-')) {
            good = take_number(&rest, &last) && last >= first;
        }
        bool more = take_byte(&rest, ',');
        if (!good || (rest.length > 0) != more) {
            return fail(HF_INVALID,
                        "'%" TEXT_PRI "' is not a list of numbers and ranges like 3,5-7",
                        TEXT_ARG(text));
        }
        if (last >= limit) {
            return fail(HF_INVALID, "'%" TEXT_PRI "' has a number above %d, the highest",
                        TEXT_ARG(text), limit - 1);
        }
        for (int32_t number = first; number <= last; number++) {
            ranges_put(&ranges, number);
        }
    }
    *ret_ranges = ranges;
    return HF_OK;
}

void ranges_format(const struct ranges *ranges, char ret_text[RANGES_BYTES_MAX])
{
    size_t length = 0;
    ret_text[0] = '\0';
    for (int32_t first = 0; first < RANGES_MAX; first++) {
        if (!ranges_has(ranges, first)) {
            continue;
        }
        int32_t last = first;
        while (ranges_has(ranges, last + 1)) {
            last++;
        }
        const char *comma = length > 0 ? "," : "";
        length += (size_t)(last > first ? snprintf(ret_text + length, RANGES_BYTES_MAX - length,
                                                   "%s%d-%d", comma, first, last)
                                        : snprintf(ret_text + length, RANGES_BYTES_MAX - length,
                                                   "%s%d", comma, first));
        assert(length < RANGES_BYTES_MAX);
        first = last;
    }
}
