/*
 * zone_rule.c - reading and applying the rule at the end of a zone's file.
 *
 * Applied, the rule gives one interval of daylight saving time per year, from the turn that begins
 * it to the next turn that ends it, which south of the equator is next year's. Five years around an
 * instant are looked at: turns lie within a week of the days they name, so an interval that touches
 * the instant begins in the year before at the earliest and ends in the year after at the latest.
 * What lies between two intervals is standard time. Where a rule makes intervals meet (daylight
 * saving time all year is written so) or overlap, the earlier one ends first.
 */
#include "base/time/zone_rule.h"
#include "base/time/date.h"

#define RULE_HOURS_MAX 167 /* of a turn's time, before or after midnight: a week less an hour */
#define RULE_OFFSET_HOURS_MAX 24
#define RULE_YEARS_AROUND 2

/* --- Reading --- */

/* One to three digits, from min to max. */
static bool take_number(struct text *rest, int32_t min, int32_t max, int32_t *ret_number)
{
    int32_t number = 0;
    size_t digits = 0;

    for (; digits < 3 && digits < rest->length; digits++) {
        if (rest->bytes[digits] < '0' || rest->bytes[digits] > '9') {
            break;
        }
        number = number * 10 + (rest->bytes[digits] - '0');
    }
    if (digits == 0 || number < min || number > max) {
        return false;
    }
    rest->bytes += digits;
    rest->length -= digits;
    *ret_number = number;
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Three letters or more, or in <> also digits and signs. */
static bool take_abbreviation(struct text *rest, char out[ZONE_ABBREVIATION_BYTES])
{
    bool quoted = text_take(rest, '<');
    size_t length = 0;

    for (; length < rest->length; length++) {
        char c = rest->bytes[length];

        if (!is_letter(c) && !(quoted && ((c >= '0' && c <= '9') || c == '+' || c == '-'))) {
            break;
        }
    }
    if (length < 3 || length >= ZONE_ABBREVIATION_BYTES) {
        return false;
    }
    memcpy(out, rest->bytes, length);
    out[length] = '\0';
    rest->bytes += length;
    rest->length -= length;
    return !quoted || text_take(rest, '>');
}

/* "[+-]h[:m[:s]]" in seconds. */
static bool take_time(struct text *rest, int32_t hours_max, int32_t *ret_time_s)
{
    bool negative = text_take(rest, '-');
    int32_t hours, minutes = 0, seconds = 0;

    if (!negative) {
        text_take(rest, '+');
    }
    if (!take_number(rest, 0, hours_max, &hours)) {
        return false;
    }
    if (text_take(rest, ':')) {
        if (!take_number(rest, 0, 59, &minutes)) {
            return false;
        }
        if (text_take(rest, ':') && !take_number(rest, 0, 59, &seconds)) {
            return false;
        }
    }

    int32_t time_s = (hours * 60 + minutes) * 60 + seconds;

    *ret_time_s = negative ? -time_s : time_s;
    return true;
}

static bool take_turn(struct text *rest, struct zone_turn *ret_turn)
{
    struct zone_turn turn = {.kind = ZONE_DAY_OF_YEAR, .time_s = 2 * 3600};
    bool good;

    if (!text_take(rest, ',')) {
        return false;
    }
    if (text_take(rest, 'J')) {
        turn.kind = ZONE_DAY_JULIAN;
        good = take_number(rest, 1, 365, &turn.day);
    } else if (text_take(rest, 'M')) {
        turn.kind = ZONE_DAY_OF_WEEK;
        good = take_number(rest, 1, 12, &turn.month) && text_take(rest, '.') &&
               take_number(rest, 1, 5, &turn.week) && text_take(rest, '.') &&
               take_number(rest, 0, 6, &turn.day);
    } else {
        good = take_number(rest, 0, 365, &turn.day);
    }
    if (good && text_take(rest, '/')) {
        good = take_time(rest, RULE_HOURS_MAX, &turn.time_s);
    }
    if (good) {
        *ret_turn = turn;
    }
    return good;
}

/* POSIX counts offsets to the west; we count them to the east. */
static bool take_offset(struct text *rest, int32_t *ret_offset_s)
{
    int32_t west_s;

    if (!take_time(rest, RULE_OFFSET_HOURS_MAX, &west_s)) {
        return false;
    }
    *ret_offset_s = -west_s;
    return true;
}

bool zone_rule_parse(struct text text, struct zone_rule *ret_rule)
{
    struct zone_rule rule = {.has_dst = false};

    if (!take_abbreviation(&text, rule.standard.abbreviation) ||
        !take_offset(&text, &rule.standard.offset_s)) {
        return false;
    }
    if (text.length > 0) {
        rule.has_dst = true;
        if (!take_abbreviation(&text, rule.dst.abbreviation)) {
            return false;
        }
        rule.dst.offset_s = rule.standard.offset_s + 3600;
        if (text.length > 0 && text.bytes[0] != ',' && !take_offset(&text, &rule.dst.offset_s)) {
            return false;
        }
        if (!take_turn(&text, &rule.dst_begin) || !take_turn(&text, &rule.dst_end) ||
            text.length > 0) {
            return false;
        }
    }
    *ret_rule = rule;
    return true;
}

/* --- Applying --- */

static int64_t turn_day(const struct zone_turn *turn, int32_t year)
{
    int64_t january = date_to_days((struct date){year, 1, 1});

    switch (turn->kind) {
    case ZONE_DAY_JULIAN: {
        bool after_leap_day = turn->day >= 60 && date_days_in_month(year, 2) == 29;

        return january + turn->day - 1 + after_leap_day;
    }
    case ZONE_DAY_OF_YEAR:
        return january + turn->day;
    case ZONE_DAY_OF_WEEK:
        break;
    }

    int64_t first = date_to_days((struct date){year, turn->month, 1});
    int32_t until_weekday = (turn->day - date_weekday(first) + 7) % 7;
    int32_t day = until_weekday + (turn->week - 1) * 7;

    if (day >= date_days_in_month(year, turn->month)) {
        day -= 7;
    }
    return first + day;
}

/* `offset_s` is the one before the change. */
static int64_t turn_instant(const struct zone_turn *turn, int32_t year, int32_t offset_s)
{
    return turn_day(turn, year) * DAY_SECONDS + turn->time_s - offset_s;
}

struct zone_span zone_rule_span(const struct zone_rule *rule, int64_t at_s)
{
    struct zone_span span = {
        INT64_MIN, INT64_MAX, rule->standard.offset_s, false, rule->standard.abbreviation,
    };

    if (!rule->has_dst) {
        return span;
    }

    int32_t year = date_of_days(date_day_of_second(at_s)).year;

    for (int32_t y = year - RULE_YEARS_AROUND; y <= year + RULE_YEARS_AROUND; y++) {
        int64_t begin_s = turn_instant(&rule->dst_begin, y, rule->standard.offset_s);
        int64_t end_s = turn_instant(&rule->dst_end, y, rule->dst.offset_s);

        if (end_s <= begin_s) {
            end_s = turn_instant(&rule->dst_end, y + 1, rule->dst.offset_s);
        }
        if (at_s < begin_s) {
            span.end_s = begin_s;
            return span;
        }
        if (at_s < end_s) {
            /* The interval before may have ended after this one began. */
            if (span.begin_s < begin_s) {
                span.begin_s = begin_s;
            }
            span.end_s = end_s;
            span.offset_s = rule->dst.offset_s;
            span.dst = true;
            span.abbreviation = rule->dst.abbreviation;
            return span;
        }
        span.begin_s = end_s;
    }
    return span;
}
