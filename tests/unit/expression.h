/*
 * expression.h - random cron expressions whose meaning is known without parsing them.
 *
 * An expression is made together with the values that it means, one flag each, so that tests can
 * judge the parser and the search by the slowest and plainest means: looking at each value.
 */
#ifndef HF_TESTS_EXPRESSION_H
#define HF_TESTS_EXPRESSION_H

#include "wall.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum expression_field {
    EXPRESSION_SECONDS,
    EXPRESSION_MINUTE,
    EXPRESSION_HOUR,
    EXPRESSION_DAY,
    EXPRESSION_MONTH,
    EXPRESSION_WEEKDAY,
    EXPRESSION_FIELDS
};

struct expression {
    char text[256];
    bool values[EXPRESSION_FIELDS][64];
    bool day_star; /* the fields of days begin with * or ? */
    bool weekday_star;
    bool hours_run; /* the hour field has a * or a / */
};

/* `frequent`: the date fields restrict little, so that matches are near. */
struct expression expression_random(uint64_t *seed, bool with_seconds, bool frequent);

bool expression_matches_day(const struct expression *expression, const struct wall *wall);
bool expression_matches(const struct expression *expression, const struct wall *wall);

#endif
