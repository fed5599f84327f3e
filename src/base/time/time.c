/*
 * time.c - RFC 3339 instants and durations with units.
 *
 * The parser reads fixed fields from left to right and says which one it did not like. Nothing is
 * guessed: a time without an offset is refused, because the reader's zone is not the writer's.
 */
#include "base/time/time.h"
#include "base/err.h"
#include "base/time/date.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_US INT64_C(1000000)
#define RATE_LIMIT 1e9 /* a second */
#define DAY_US (DAY_SECONDS * SECOND_US)

/* Writes value as exactly `count` digits and returns the place after them. */
static char *put_digits(char *out, int64_t value, int count)
{
    for (int i = count - 1; i >= 0; i--) {
        out[i] = (char)('0' + value % 10);
        value /= 10;
    }
    return out + count;
}

void time_format(int64_t us, char out[TIME_TEXT_BYTES])
{
    if (us < TIME_US_MIN) {
        us = TIME_US_MIN;
    }
    if (us > TIME_US_MAX) {
        us = TIME_US_MAX;
    }

    int64_t days = us / DAY_US - (us % DAY_US < 0);
    int64_t us_of_day = us - days * DAY_US;
    int64_t second = us_of_day / SECOND_US;
    struct date date = date_of_days(days);

    out = put_digits(out, date.year, 4);
    *out++ = '-';
    out = put_digits(out, date.month, 2);
    *out++ = '-';
    out = put_digits(out, date.day, 2);
    *out++ = 'T';
    out = put_digits(out, second / 3600, 2);
    *out++ = ':';
    out = put_digits(out, second / 60 % 60, 2);
    *out++ = ':';
    out = put_digits(out, second % 60, 2);
    *out++ = '.';
    out = put_digits(out, us_of_day % SECOND_US, 6);
    *out++ = 'Z';
    *out = '\0';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Takes exactly `count` digits whose value lies in [min, max]. */
static bool take_number(struct text *rest, int count, int32_t min, int32_t max, int32_t *ret_value)
{
    int32_t value = 0;

    if (rest->length < (size_t)count) {
        return false;
    }
    for (int i = 0; i < count; i++) {
        if (!is_digit(rest->bytes[i])) {
            return false;
        }
        value = value * 10 + (rest->bytes[i] - '0');
    }
    if (value < min || value > max) {
        return false;
    }
    *ret_value = value;
    rest->bytes += count;
    rest->length -= (size_t)count;
    return true;
}

/* Takes one character if it is one of those in `any`. */
static bool take_char(struct text *rest, const char *any)
{
    if (rest->length == 0 || rest->bytes[0] == '\0' || !strchr(any, rest->bytes[0])) {
        return false;
    }
    rest->bytes++;
    rest->length--;
    return true;
}

static hf_status not_a_time(const char *reason)
{
    return fail(HF_INVALID, "not a time such as 2026-11-15T03:54:38Z or 2026-11-15: %s", reason);
}

static hf_status take_date(struct text *rest, int64_t *ret_us)
{
    struct date date;

    if (!take_number(rest, 4, 1, 9999, &date.year)) {
        return not_a_time("the year is four digits, 0001 to 9999");
    }
    if (!take_char(rest, "-") || !take_number(rest, 2, 1, 12, &date.month)) {
        return not_a_time("after the year comes '-' and the month, 01 to 12");
    }
    if (!take_char(rest, "-") ||
        !take_number(rest, 2, 1, date_days_in_month(date.year, date.month), &date.day)) {
        return not_a_time("after the month comes '-' and a day which that month has");
    }
    *ret_us = date_to_days(date) * DAY_US;
    return HF_OK;
}

/* The part of RFC 3339 named partial-time. */
static hf_status take_time_of_day(struct text *rest, int64_t *ret_us)
{
    int32_t hour, minute, second;
    int64_t fraction_us = 0;

    if (!take_number(rest, 2, 0, 23, &hour)) {
        return not_a_time("the hour is two digits, 00 to 23");
    }
    if (!take_char(rest, ":") || !take_number(rest, 2, 0, 59, &minute)) {
        return not_a_time("after the hour comes ':' and the minute, 00 to 59");
    }
    if (!take_char(rest, ":") || !take_number(rest, 2, 0, 59, &second)) {
        return not_a_time("after the minute comes ':' and the second, 00 to 59");
    }
    if (take_char(rest, ".")) {
        int64_t unit_us = SECOND_US / 10;
        int digits = 0;

        for (int32_t digit; take_number(rest, 1, 0, 9, &digit); unit_us /= 10, digits++) {
            fraction_us += digit * unit_us;
        }
        if (digits < 1 || digits > 9) {
            return not_a_time("a fraction of a second has 1 to 9 digits");
        }
    }
    *ret_us = ((hour * 60 + minute) * 60 + second) * SECOND_US + fraction_us;
    return HF_OK;
}

static hf_status take_offset(struct text *rest, int64_t *ret_us)
{
    int32_t hour, minute;

    if (take_char(rest, "Zz")) {
        *ret_us = 0;
        return HF_OK;
    }

    int64_t sign = rest->length > 0 && rest->bytes[0] == '-' ? -1 : 1;

    if (!take_char(rest, "+-") || !take_number(rest, 2, 0, 23, &hour) || !take_char(rest, ":") ||
        !take_number(rest, 2, 0, 59, &minute)) {
        return not_a_time("at the end comes 'Z' or an offset such as +01:00");
    }
    *ret_us = sign * (hour * 60 + minute) * 60 * SECOND_US;
    return HF_OK;
}

hf_status time_parse(struct text text, int64_t *ret_us)
{
    int64_t date_us = 0, time_us = 0, offset_us = 0;
    hf_status status = take_date(&text, &date_us);

    if (!status && text.length > 0) {
        if (!take_char(&text, "Tt")) {
            return not_a_time("after the date comes nothing, or 'T' and the time");
        }
        status = take_time_of_day(&text, &time_us);
        if (!status) {
            status = take_offset(&text, &offset_us);
        }
    }
    if (status) {
        return status;
    }
    if (text.length > 0) {
        return not_a_time("something follows the offset");
    }

    int64_t us = date_us + time_us - offset_us;

    if (us < TIME_US_MIN || us > TIME_US_MAX) {
        return not_a_time("in UTC it is outside the years 0001 to 9999");
    }
    *ret_us = us;
    return HF_OK;
}

static hf_status not_a_duration(const char *reason)
{
    return fail(HF_INVALID, "not a duration such as 2w, 30d, 1h30m, 10s or 250ms: %s", reason);
}

/* The units, the largest first. */
static const struct {
    struct text name;
    int64_t ms;
} units[] = {
    {TEXT_LITERAL("w"), INT64_C(7) * 86400 * 1000},
    {TEXT_LITERAL("d"), 86400 * 1000},
    {TEXT_LITERAL("h"), 3600 * 1000},
    {TEXT_LITERAL("m"), 60 * 1000},
    {TEXT_LITERAL("s"), 1000},
    {TEXT_LITERAL("ms"), 1},
};

#define UNIT_COUNT (sizeof units / sizeof units[0])

/* Takes a number and its unit, which is one of those from *unit on, and adds it. */
static hf_status take_duration(struct text *rest, size_t *unit, int64_t *ms)
{
    int64_t number = 0;
    size_t digits = 0;
    size_t letters = 0;

    for (; digits < rest->length && is_digit(rest->bytes[digits]); digits++) {
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, rest->bytes[digits] - '0', &number)) {
            return not_a_duration("the number is too large");
        }
    }
    if (digits == 0) {
        return not_a_duration("a whole number comes before each unit");
    }
    while (digits + letters < rest->length && !is_digit(rest->bytes[digits + letters])) {
        letters++;
    }
    if (letters == 0) {
        return not_a_duration("the unit is missing");
    }

    struct text name = {rest->bytes + digits, letters};

    while (*unit < UNIT_COUNT && !text_equal(name, units[*unit].name)) {
        ++*unit;
    }
    if (*unit == UNIT_COUNT) {
        return not_a_duration("the units are w, d, h, m, s and ms, the larger ones first");
    }
    if (__builtin_mul_overflow(number, units[*unit].ms, &number) ||
        __builtin_add_overflow(*ms, number, ms)) {
        return not_a_duration("the number is too large");
    }
    ++*unit;
    rest->bytes += digits + letters;
    rest->length -= digits + letters;
    return HF_OK;
}

hf_status duration_parse(struct text text, int64_t *ret_ms)
{
    int64_t ms = 0;
    size_t unit = 0;
    hf_status status;

    do {
        status = take_duration(&text, &unit, &ms);
    } while (!status && text.length > 0);
    if (!status) {
        *ret_ms = ms;
    }
    return status;
}

/* ---- Rates ----------------------------------------------------------------------------------- */

hf_status rate_parse(const char *text, double *ret_per_second)
{
    char digits[32];
    size_t length = strspn(text, "0123456789.");
    const char *unit = text + length;
    double seconds = strcmp(unit, "/m") == 0 ? 60 : strcmp(unit, "/h") == 0 ? 3600 : 1;
    double count;
    char *end;

    if (length == 0 || length >= sizeof digits ||
        (seconds == 1 && unit[0] && strcmp(unit, "/s") != 0)) {
        return fail(HF_INVALID, "'%.32s' is no rate such as 50/s or 100/m", text);
    }
    memcpy(digits, text, length);
    digits[length] = '\0';
    count = strtod(digits, &end);
    if (*end || count <= 0 || count > RATE_LIMIT) {
        return fail(HF_INVALID, "'%.32s' is no rate from more than 0 to 1e9", text);
    }
    *ret_per_second = count / seconds;
    return HF_OK;
}
