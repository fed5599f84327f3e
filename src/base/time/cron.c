/*
 * cron.c - parsing of cron expressions into sets of bits, and the search in them.
 *
 * Parsing. Fields are cut at white space, parts at commas, and each part sets bits. Nothing is
 * guessed: a range that runs backwards, a step longer than its field and letters that other crons
 * give a meaning are refused with the name of the field and the place in the expression.
 *
 * Can it come true? In an expression with either_day some day of every week does. Otherwise a day
 * must match both fields, and it is enough to see that one of the months has one of the days of
 * month, with 29 for February: the calendar repeats after 400 years, which are a whole number of
 * weeks, and in these each date, 29 February included, falls on every day of the week (29 February
 * 13 to 15 times on each). So no search is needed to refuse 30 February.
 *
 * Search. Time of day is three digits (hour, minute, second), each with the set of values it may
 * take; the next time is found as on an odometer, by raising the last digit that can be raised and
 * setting those behind it to their lowest. Days are found a month at a time: the days that match
 * are one set of bits made from the two fields and the weekday of the month's first day. The
 * longest wait is for 29 February on one day of the week, 40 years (28, and 12 more where a year
 * such as 2100 is not a leap year), so CRON_MONTHS_MAX months are enough. Looking back is the same
 * with lowest and highest exchanged.
 */
#include "base/time/cron.h"
#include "base/err.h"
#include "base/time/date.h"
#include "base/time/time.h"

#include <strings.h>

#define CRON_FIELDS 6             /* seconds .. day of week */
#define CRON_MONTHS_MAX (12 * 41) /* more than 40 years, the month begun included */

/* --- Parsing --- */

enum field_index { SECONDS, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK };

struct field {
    const char *name;
    int32_t min;
    int32_t max;       /* the largest value that may be written */
    int32_t last;      /* the last value of *: 7 is only another name of 0 */
    const char *names; /* of the values from min on, three letters each; NULL: none */
    const char *takes; /* for messages */
};

static const struct field fields[CRON_FIELDS] = {
    [SECONDS] = {"seconds", 0, 59, 59, NULL, "0 to 59"},
    [MINUTE] = {"minute", 0, 59, 59, NULL, "0 to 59"},
    [HOUR] = {"hour", 0, 23, 23, NULL, "0 to 23"},
    [DAY_OF_MONTH] = {"day of month", 1, 31, 31, NULL, "1 to 31"},
    [MONTH] = {"month", 1, 12, 12, "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC", "1 to 12, JAN to DEC"},
    [DAY_OF_WEEK] = {"day of week", 0, 7, 6, "SUNMONTUEWEDTHUFRISAT", "0 to 7, SUN to SAT"},
};

/* What a field says. */
struct field_set {
    uint64_t values;
    bool begins_with_star; /* or with ? */
    bool has_star_or_step; /* anywhere */
};

struct cron_parser {
    struct text whole;
    const struct field *field; /* being read */
};

static hf_status refuse(const struct cron_parser *parser, struct text part, const char *why)
{
    return fail(HF_INVALID,
                "cron expression: %s \"%" TEXT_PRI "\" at byte %zu %s; the field takes %s",
                parser->field->name, TEXT_ARG(part), (size_t)(part.bytes - parser->whole.bytes),
                why, parser->field->takes);
}

/* The bytes up to the first of `ends`, taken off rest. */
static struct text take_until(struct text *rest, const char *ends)
{
    size_t length = 0;

    while (length < rest->length && !strchr(ends, rest->bytes[length])) {
        length++;
    }

    struct text taken = {rest->bytes, length};

    rest->bytes += length;
    rest->length -= length;
    return taken;
}

/* Digits only; what is too long for any field is as good as the largest number. */
static bool read_digits(struct text text, int32_t *ret_number)
{
    int32_t number = 0;

    for (size_t i = 0; i < text.length; i++) {
        if (text.bytes[i] < '0' || text.bytes[i] > '9') {
            return false;
        }
        if (number < 1000000) {
            number = number * 10 + (text.bytes[i] - '0');
        }
    }
    *ret_number = number;
    return text.length > 0;
}

static bool read_name(const struct field *field, struct text text, int32_t *ret_value)
{
    if (!field->names || text.length != 3) {
        return false;
    }
    for (int32_t i = 0; field->names[i * 3]; i++) {
        if (strncasecmp(field->names + i * 3, text.bytes, 3) == 0) {
            *ret_value = field->min + i;
            return true;
        }
    }
    return false;
}

static hf_status read_value(const struct cron_parser *parser, struct text text, int32_t *ret_value)
{
    int32_t value;

    if (text.length == 0) {
        return refuse(parser, text, "is empty");
    }
    if (read_name(parser->field, text, ret_value)) {
        return HF_OK;
    }
    if (read_digits(text, &value)) {
        if (value < parser->field->min || value > parser->field->max) {
            return refuse(parser, text, "is out of range");
        }
        *ret_value = value;
        return HF_OK;
    }
    for (size_t i = 0; i < text.length; i++) {
        if (strchr("LlWw#", text.bytes[i])) {
            return refuse(parser, text, "is not supported: L, W and # have no meaning here");
        }
    }
    return refuse(parser, text,
                  parser->field->names ? "is neither a number nor a name" : "is not a number");
}

/* "*", "?", "a" or "a-b", as its first and last value. */
static hf_status read_range(const struct cron_parser *parser, struct text text, bool stepped,
                            int32_t *ret_first, int32_t *ret_last)
{
    const struct field *field = parser->field;
    bool day = field == &fields[DAY_OF_MONTH] || field == &fields[DAY_OF_WEEK];
    struct text rest = text;
    int32_t first, last;

    if (text_take(&rest, '*') || (day && text_take(&rest, '?'))) {
        *ret_first = field->min;
        *ret_last = field->last;
        return rest.length == 0 ? HF_OK : refuse(parser, text, "has something behind the star");
    }

    hf_status status = read_value(parser, take_until(&rest, "-"), &first);

    if (status) {
        return status;
    }
    if (text_take(&rest, '-')) {
        status = read_value(parser, rest, &last);
        if (status) {
            return status;
        }
        /* In SAT-SUN the week ends with Sunday; "6-0" is more likely a mistake. */
        if (field == &fields[DAY_OF_WEEK] && last == 0 && rest.length == 3) {
            last = 7;
        }
        if (last < first) {
            return refuse(parser, text, "runs backwards; write it as two ranges");
        }
    } else {
        last = !stepped ? first : first > field->last ? field->max : field->last;
    }
    *ret_first = first;
    *ret_last = last;
    return HF_OK;
}

static hf_status read_step(const struct cron_parser *parser, struct text text, int32_t *ret_step)
{
    int32_t size = parser->field->last - parser->field->min + 1;
    int32_t step;

    if (!read_digits(text, &step)) {
        return refuse(parser, text, "is no step: it is a whole number behind the /");
    }
    if (step < 1 || step > size) {
        char why[64];

        snprintf(why, sizeof why, "is no step: it is from 1 to %d", (int)size);
        return refuse(parser, text, why);
    }
    *ret_step = step;
    return HF_OK;
}

static hf_status read_part(const struct cron_parser *parser, struct text part,
                           struct field_set *set)
{
    struct text rest = part;
    struct text range = take_until(&rest, "/");
    bool stepped = text_take(&rest, '/');
    int32_t first = 0, last = 0, step = 1;
    hf_status status = read_range(parser, range, stepped, &first, &last);

    if (!status && stepped) {
        status = read_step(parser, rest, &step);
    }
    if (status) {
        return status;
    }
    for (int32_t value = first; value <= last; value += step) {
        set->values |= UINT64_C(1) << (parser->field == &fields[DAY_OF_WEEK] ? value % 7 : value);
    }
    if (stepped || range.bytes[0] == '*') {
        set->has_star_or_step = true;
    }
    return HF_OK;
}

static hf_status read_field(const struct cron_parser *parser, struct text text,
                            struct field_set *ret_set)
{
    struct field_set set = {.begins_with_star = strchr("*?", text.bytes[0]) != NULL};
    struct text rest = text;

    for (;;) {
        hf_status status = read_part(parser, take_until(&rest, ","), &set);

        if (status) {
            return status;
        }
        if (!text_take(&rest, ',')) {
            break;
        }
    }
    *ret_set = set;
    return HF_OK;
}

static hf_status check_bytes(struct text text)
{
    if (text.length > CRON_BYTES_MAX) {
        return fail(HF_INVALID, "cron expression is %zu bytes; the limit is %d", text.length,
                    CRON_BYTES_MAX);
    }
    for (size_t i = 0; i < text.length; i++) {
        unsigned char byte = (unsigned char)text.bytes[i];

        if (byte != '\t' && (byte < ' ' || byte > '~')) {
            return fail(HF_INVALID,
                        "cron expression has the byte 0x%02X at byte %zu; it is plain ASCII", byte,
                        i);
        }
    }
    return HF_OK;
}

/* Cuts the text at white space. Counts all the fields there are, and stores the first ones. */
static size_t cut_fields(struct text text, struct text ret_fields[CRON_FIELDS])
{
    size_t count = 0;

    for (;;) {
        while (text_take(&text, ' ') || text_take(&text, '\t')) {
            ;
        }
        if (text.length == 0) {
            return count;
        }

        struct text field = take_until(&text, " \t");

        if (count < CRON_FIELDS) {
            ret_fields[count] = field;
        }
        count++;
    }
}

static uint64_t bit(int32_t value)
{
    return UINT64_C(1) << value;
}

static hf_status check_possible(const struct cron *cron)
{
    if (cron->either_day) {
        return HF_OK;
    }
    for (int32_t month = 1; month <= 12; month++) {
        /* The year 2000 is a leap year. */
        uint64_t there = bit(date_days_in_month(2000, month) + 1) - 1;

        if ((cron->months & bit(month)) && (cron->days_of_month & there)) {
            return HF_OK;
        }
    }
    return fail(HF_INVALID,
                "cron expression never fires: none of its months has such a day of month");
}

static hf_status parse_fields(struct text text, struct cron *ret_cron)
{
    struct cron_parser parser = {.whole = text};
    struct text texts[CRON_FIELDS];
    struct field_set sets[CRON_FIELDS] = {[SECONDS] = {.values = 1}};
    size_t count = cut_fields(text, texts);

    if (count != CRON_FIELDS && count != CRON_FIELDS - 1) {
        return fail(HF_INVALID,
                    "cron expression has %zu fields; it takes 5 (minute, hour, day of month, "
                    "month, day of week), or 6 with the seconds first",
                    count);
    }
    for (size_t i = 0, first = CRON_FIELDS - count; i < count; i++) {
        parser.field = &fields[first + i];

        hf_status status = read_field(&parser, texts[i], &sets[first + i]);

        if (status) {
            return status;
        }
    }

    struct cron cron = {
        .seconds = sets[SECONDS].values,
        .minutes = sets[MINUTE].values,
        .hours = sets[HOUR].values,
        .days_of_month = sets[DAY_OF_MONTH].values,
        .months = sets[MONTH].values,
        .days_of_week = sets[DAY_OF_WEEK].values,
        .either_day = !sets[DAY_OF_MONTH].begins_with_star && !sets[DAY_OF_WEEK].begins_with_star,
        .hours_run = sets[HOUR].has_star_or_step,
    };
    hf_status status = check_possible(&cron);

    if (!status) {
        *ret_cron = cron;
    }
    return status;
}

/* "@every 5m". The sets stay empty. */
static hf_status parse_every(struct text period, struct cron *ret_cron)
{
    int64_t ms = 0;

    if (duration_parse(period, &ms) != HF_OK) {
        return fail(HF_INVALID,
                    "cron expression: \"%" TEXT_PRI "\" is no period; @every takes whole numbers "
                    "with units, the larger ones first: 30s, 5m, 1h30m, 7d",
                    TEXT_ARG(period));
    }
    if (ms < 1000 || ms % 1000 != 0 || ms / 1000 > CRON_EVERY_S_MAX) {
        return fail(HF_INVALID,
                    "cron expression: @every \"%" TEXT_PRI
                    "\" is out of range; it takes whole seconds, from 1s to 365d",
                    TEXT_ARG(period));
    }
    *ret_cron = (struct cron){.every_s = (int32_t)(ms / 1000), .hours_run = true};
    return HF_OK;
}

static bool is_word(struct text text, const char *word)
{
    return text.length == strlen(word) && strncasecmp(text.bytes, word, text.length) == 0;
}

hf_status cron_parse(struct text text, struct cron *ret_cron)
{
    static const struct {
        const char *name;
        struct text fields;
    } words[] = {
        {"@yearly", TEXT_LITERAL("0 0 1 1 *")},  {"@annually", TEXT_LITERAL("0 0 1 1 *")},
        {"@monthly", TEXT_LITERAL("0 0 1 * *")}, {"@weekly", TEXT_LITERAL("0 0 * * 0")},
        {"@daily", TEXT_LITERAL("0 0 * * *")},   {"@midnight", TEXT_LITERAL("0 0 * * *")},
        {"@hourly", TEXT_LITERAL("0 * * * *")},
    };
    struct text first[CRON_FIELDS];
    hf_status status = check_bytes(text);

    if (status) {
        return status;
    }
    size_t count = cut_fields(text, first);
    if (count == 2 && is_word(first[0], "@every")) {
        return parse_every(first[1], ret_cron);
    }
    if (count != 1 || first[0].bytes[0] != '@') {
        return parse_fields(text, ret_cron);
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (is_word(first[0], words[i].name)) {
            return parse_fields(words[i].fields, ret_cron);
        }
    }
    return fail(HF_INVALID,
                "cron expression: \"%" TEXT_PRI "\" is none of @yearly, @annually, @monthly, "
                "@weekly, @daily, @midnight, @hourly and @every 5m",
                TEXT_ARG(first[0]));
}

/* --- Search --- */

enum direction { FORWARD, BACKWARD };

#define NONE (-1)

/* The value of a set that is nearest to `from` in the direction, `from` included; or NONE. */
static int32_t nearest(uint64_t set, int32_t from, enum direction direction)
{
    if (from < 0 || from > 63) {
        return NONE;
    }
    set &= direction == FORWARD ? ~(bit(from) - 1) : bit(from) | (bit(from) - 1);
    if (!set) {
        return NONE;
    }
    return direction == FORWARD ? __builtin_ctzll(set) : 63 - __builtin_clzll(set);
}

/* Where the direction begins. The set is not empty. */
static int32_t outermost(uint64_t set, enum direction direction)
{
    return nearest(set, direction == FORWARD ? 0 : 63, direction);
}

#define DIGITS 3 /* hour, minute, second */

/* The time of day nearest to `second`, itself included; or NONE. */
static int32_t find_time(const struct cron *cron, int32_t second, enum direction direction)
{
    const uint64_t sets[DIGITS] = {cron->hours, cron->minutes, cron->seconds};
    int32_t digits[DIGITS] = {second / 3600, second / 60 % 60, second % 60};
    int32_t step = direction == FORWARD ? 1 : -1;
    int at = 0; /* the first digit that may not stay as it is */

    while (at < DIGITS && (sets[at] & bit(digits[at]))) {
        at++;
    }
    if (at < DIGITS) {
        int32_t digit = nearest(sets[at], digits[at], direction);

        while (digit == NONE) {
            if (at == 0) {
                return NONE;
            }
            at--;
            digit = nearest(sets[at], digits[at] + step, direction);
        }
        digits[at] = digit;
        for (at++; at < DIGITS; at++) {
            digits[at] = outermost(sets[at], direction);
        }
    }
    return (digits[0] * 60 + digits[1]) * 60 + digits[2];
}

/* The days of a month that match. */
static uint64_t matching_days(const struct cron *cron, int32_t year, int32_t month)
{
    if (!(cron->months & bit(month))) {
        return 0;
    }

    int32_t first = date_weekday(date_to_days((struct date){year, month, 1}));
    uint64_t there = (bit(date_days_in_month(year, month) + 1) - 1) & ~UINT64_C(1);
    uint64_t weeks = 0;

    /* The week turned to begin with the month's first day, once for each week of the month. */
    uint64_t week = (cron->days_of_week >> first | cron->days_of_week << (7 - first)) & 0x7f;

    for (int32_t day = 1; day <= 29; day += 7) {
        weeks |= week << day;
    }
    return there & (cron->either_day ? cron->days_of_month | weeks : cron->days_of_month & weeks);
}

/* The multiple of the period at or before, at or after. */
static int64_t multiple(int64_t period_s, int64_t wall_s, enum direction direction)
{
    int64_t rest_s = wall_s % period_s;

    rest_s += rest_s < 0 ? period_s : 0;
    if (rest_s == 0) {
        return wall_s;
    }
    return direction == FORWARD ? wall_s - rest_s + period_s : wall_s - rest_s;
}

bool cron_matches(const struct cron *cron, int64_t wall_s)
{
    if (cron->every_s > 0) {
        return multiple(cron->every_s, wall_s, BACKWARD) == wall_s;
    }

    int64_t days = date_day_of_second(wall_s);
    int32_t second = (int32_t)(wall_s - days * DAY_SECONDS);
    struct date date = date_of_days(days);

    return find_time(cron, second, FORWARD) == second &&
           (matching_days(cron, date.year, date.month) & bit(date.day));
}

static bool find_multiple(const struct cron *cron, int64_t wall_s, enum direction direction,
                          int64_t *ret_wall_s)
{
    int64_t at_s = multiple(cron->every_s, wall_s, direction);
    int32_t year = date_of_days(date_day_of_second(at_s)).year;

    if (year < CRON_YEAR_MIN || year > CRON_YEAR_MAX) {
        return false;
    }
    *ret_wall_s = at_s;
    return true;
}

static bool find(const struct cron *cron, int64_t wall_s, enum direction direction,
                 int64_t *ret_wall_s)
{
    int64_t days = date_day_of_second(wall_s);
    struct date date = date_of_days(days);
    int32_t second = NONE;
    int32_t step = direction == FORWARD ? 1 : -1;

    if (matching_days(cron, date.year, date.month) & bit(date.day)) {
        second = find_time(cron, (int32_t)(wall_s - days * DAY_SECONDS), direction);
    }
    if (second == NONE) {
        int32_t from = date.day + step;

        second = find_time(cron, direction == FORWARD ? 0 : DAY_SECONDS - 1, direction);
        for (int months = 0; months < CRON_MONTHS_MAX; months++) {
            date.day = nearest(matching_days(cron, date.year, date.month), from, direction);
            if (date.day != NONE) {
                break;
            }
            date.month += step;
            if (date.month < 1 || date.month > 12) {
                date.month -= 12 * step;
                date.year += step;
            }
            from = direction == FORWARD ? 1 : 31;
        }
    }
    if (date.day == NONE || date.year < CRON_YEAR_MIN || date.year > CRON_YEAR_MAX) {
        return false;
    }
    *ret_wall_s = date_to_days(date) * DAY_SECONDS + second;
    return true;
}

bool cron_next(const struct cron *cron, int64_t wall_s, int64_t *ret_wall_s)
{
    return (cron->every_s > 0 ? find_multiple : find)(cron, wall_s, FORWARD, ret_wall_s);
}

bool cron_previous(const struct cron *cron, int64_t wall_s, int64_t *ret_wall_s)
{
    return (cron->every_s > 0 ? find_multiple : find)(cron, wall_s, BACKWARD, ret_wall_s);
}
