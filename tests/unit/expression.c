/* expression.c - makes random cron expressions, with the values that they mean. */
#include "expression.h"
#include "unit.h"

struct shape {
    int min;
    int max;
    const char *const *names; /* of the values from min on */
};

static const char *const months[] = {"jan", "FEB", "Mar", "APR", "may", "JUN",
                                     "JUL", "aug", "SEP", "OCT", "NOV", "DEC"};
static const char *const weekdays[] = {"SUN", "mon", "TUE", "WED", "thu", "FRI", "Sat"};

static const struct shape shapes[EXPRESSION_FIELDS] = {
    {0, 59, NULL}, {0, 59, NULL}, {0, 23, NULL}, {1, 31, NULL}, {1, 12, months}, {0, 6, weekdays},
};

static void append(struct expression *expression, const char *text)
{
    size_t length = strlen(expression->text);

    assert_true(length + strlen(text) < sizeof expression->text);
    memcpy(expression->text + length, text, strlen(text) + 1);
}

static void append_number(struct expression *expression, int digits_min, int number)
{
    char digits[16];

    snprintf(digits, sizeof digits, "%0*d", digits_min, number);
    append(expression, digits);
}

/* As a name or a number. */
static void append_value(struct expression *expression, uint64_t *seed, int field, int value)
{
    const struct shape *shape = &shapes[field];
    bool zero_padded = chance_below(seed, 4) == 0;

    if (shape->names && chance_below(seed, 3) == 0) {
        append(expression, shape->names[field == EXPRESSION_WEEKDAY ? value % 7 : value - 1]);
    } else {
        append_number(expression, zero_padded ? 2 : 1, value);
    }
}

enum form { FORM_STAR, FORM_ONE, FORM_RANGE, FORMS };

/* "*", "a" or "a-b", with or without a step. */
static void make_part(struct expression *expression, uint64_t *seed, int field, enum form form)
{
    const struct shape *shape = &shapes[field];
    /* A range may end with 7, the other Sunday. */
    int max = shape->max + (form == FORM_RANGE && field == EXPRESSION_WEEKDAY);
    int first = shape->min, last = max, step = 1;

    if (form == FORM_STAR) {
        append(expression, "*");
    } else {
        first += (int)chance_below(seed, (uint64_t)(shape->max - first + 1));
        last = first;
        append_value(expression, seed, field, first);
        if (form == FORM_RANGE) {
            last += (int)chance_below(seed, (uint64_t)(max - first + 1));
            /* "SUN" at a range's end is 7, never 0. */
            if (field == EXPRESSION_WEEKDAY && last == 0) {
                last = 1;
            }
            append(expression, "-");
            append_value(expression, seed, field, last);
        }
    }
    if (chance_below(seed, 3) == 0) {
        step = 1 + (int)chance_below(seed, (uint64_t)(shape->max - shape->min + 1));
        append(expression, "/");
        append_number(expression, 1, step);
        if (form == FORM_ONE) {
            last = max;
        }
        expression->hours_run |= field == EXPRESSION_HOUR;
    }
    expression->hours_run |= form == FORM_STAR && field == EXPRESSION_HOUR;
    for (int value = first; value <= last; value += step) {
        expression->values[field][field == EXPRESSION_WEEKDAY ? value % 7 : value] = true;
    }
}

static void make_field(struct expression *expression, uint64_t *seed, int field, bool frequent)
{
    bool date = field >= EXPRESSION_DAY;
    int parts = 1 + (chance_below(seed, 3) == 0) * (1 + (int)chance_below(seed, 3));

    for (int i = 0; i < parts; i++) {
        enum form form = (enum form)chance_below(seed, FORMS);

        if (date && frequent && chance_below(seed, 4) != 0) {
            form = FORM_STAR;
        }
        if (i > 0) {
            append(expression, ",");
        }
        if (i == 0 && field == EXPRESSION_DAY) {
            expression->day_star = form == FORM_STAR;
        }
        if (i == 0 && field == EXPRESSION_WEEKDAY) {
            expression->weekday_star = form == FORM_STAR;
        }
        make_part(expression, seed, field, form);
    }
}

struct expression expression_random(uint64_t *seed, bool with_seconds, bool frequent)
{
    struct expression expression = {.text = ""};

    if (!with_seconds) {
        expression.values[EXPRESSION_SECONDS][0] = true;
    }
    for (int field = with_seconds ? 0 : 1; field < EXPRESSION_FIELDS; field++) {
        if (expression.text[0]) {
            append(&expression, chance_below(seed, 5) == 0 ? "\t " : " ");
        }
        make_field(&expression, seed, field, frequent);
    }
    return expression;
}

bool expression_matches_day(const struct expression *expression, const struct wall *wall)
{
    bool day = expression->values[EXPRESSION_DAY][wall->day];
    bool weekday = expression->values[EXPRESSION_WEEKDAY][wall->weekday];
    bool either = !expression->day_star && !expression->weekday_star;

    return expression->values[EXPRESSION_MONTH][wall->month] &&
           (either ? day || weekday : day && weekday);
}

bool expression_matches(const struct expression *expression, const struct wall *wall)
{
    return expression->values[EXPRESSION_HOUR][wall->hour] &&
           expression->values[EXPRESSION_MINUTE][wall->minute] &&
           expression->values[EXPRESSION_SECONDS][wall->second] &&
           expression_matches_day(expression, wall);
}
