/*
 * fuzz_time.c - any bytes as an instant and as a duration.
 *
 * Properties: an accepted instant lies in the years 0001 to 9999, its formatted form parses to the
 * same instant, and formatting is stable; an accepted duration is not negative and begins with a
 * digit. Any 8 bytes, taken as microseconds, format to 27 characters that parse.
 */
#include "base/err.h"
#include "base/time/time.h"
#include "fuzz.h"

static void check_instant(int64_t us)
{
    char text[TIME_TEXT_BYTES], again[TIME_TEXT_BYTES];
    int64_t back;

    time_format(us, text);
    HOLDS(strlen(text) == TIME_TEXT_BYTES - 1);
    HOLDS(time_parse(text_of(text), &back) == HF_OK);
    HOLDS(back == us || us < TIME_US_MIN || us > TIME_US_MAX);
    time_format(back, again);
    HOLDS(strcmp(text, again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct text text = {size ? (const char *)data : "", size};
    int64_t us = 0, ms = 0;

    if (time_parse(text, &us) == HF_OK) {
        HOLDS(us >= TIME_US_MIN && us <= TIME_US_MAX);
        check_instant(us);
    }
    if (duration_parse(text, &ms) == HF_OK) {
        HOLDS(ms >= 0);
        HOLDS(text.bytes[0] >= '0' && text.bytes[0] <= '9');
    }
    if (size == sizeof us) {
        memcpy(&us, data, sizeof us);
        check_instant(us);
    }
    return 0;
}
