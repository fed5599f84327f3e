/*
 * cron.h - cron expressions: which moments of a clock on the wall they mean.
 *
 * An expression is five fields separated by spaces or tabs, or six with the seconds first:
 *
 *     seconds   0-59                       day of month   1-31
 *     minute    0-59                       month          1-12 or JAN-DEC
 *     hour      0-23                       day of week    0-7 or SUN-SAT; 0 and 7 are Sunday
 *
 * A field is a list of parts separated by commas:
 *
 *     *      every value                   a      one value
 *     ?      the same, for days only       a-b    from a to b; FRI-SUN is 5-7
 *     /n     behind one of these: every nth of its values; a/n goes from a to the field's end
 *
 * Names are three letters in any case. If both fields of days restrict (neither begins with * or ?)
 * a day needs to match only one of them, as it has always been with cron; else it matches both.
 * @yearly and @annually, @monthly, @weekly, @daily and @midnight, @hourly stand for what they say.
 * L, W and # are refused, and so is an expression that can never come true (30 February).
 *
 * "@every 5m" is a period, as duration_parse reads it (base/time/time.h): whole seconds, up to
 * CRON_EVERY_S_MAX. It means the multiples of the period since 1970-01-01T00:00:00Z, whatever the
 * clocks show, so it does not depend on when a schedule was made or fired last.
 *
 * Wall time is what a clock on the wall shows, as seconds since that wall's 1970-01-01 00:00:00.
 * When that is depends on the wall's zone: base/time/timetable.h brings the two together.
 */
#ifndef HF_BASE_TIME_CRON_H
#define HF_BASE_TIME_CRON_H

#include "base/text/text.h"

#include <holdfast.h>
#include <stdint.h>

#define CRON_BYTES_MAX 255        /* of an expression */
#define CRON_EVERY_S_MAX 31536000 /* 365 days */
#define CRON_YEAR_MIN 1           /* nothing is found outside of these years */
#define CRON_YEAR_MAX 9999

/* Bit n of a set is the value n. No set is empty, and there is a date that matches; but with
 * every_s there are no sets. */
struct cron {
    int32_t every_s; /* the period of @every; 0: none */
    uint64_t seconds;
    uint64_t minutes;
    uint64_t hours;
    uint64_t days_of_month;
    uint64_t months;
    uint64_t days_of_week; /* Sunday is bit 0 */
    bool either_day;       /* a day that matches one of the two fields is enough */
    bool hours_run;        /* the hour field has a * or a step: it means real hours, each of them,
                              and not hours of the clock's face (base/time/timetable.h) */
};

/* HF_INVALID with a sentence that names the field, the part, its place and what is permitted. */
hf_status cron_parse(struct text text, struct cron *ret_cron);

bool cron_matches(const struct cron *cron, int64_t wall_s);

/*
 * Of a period these speak of a wall that shows UTC.
 * The first match at or after wall_s, the last match at or before it. False: there is none in the
 * years above. Both look at no more than CRON_MONTHS_MAX months (cron.c), whatever the expression.
 */
bool cron_next(const struct cron *cron, int64_t wall_s, int64_t *ret_wall_s);
bool cron_previous(const struct cron *cron, int64_t wall_s, int64_t *ret_wall_s);

#endif
