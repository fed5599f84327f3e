/*
 * zone_rule.h - the rule by which a zone goes on after the last change that its file lists.
 *
 * A file ends with a text in the form of the TZ variable of POSIX, with the extensions of RFC 9636:
 * "CET-1CEST,M3.5.0,M10.5.0/3". It names the standard time and, if there is any, the daylight
 * saving time and the two days of the year on which the clocks are changed.
 */
#ifndef HF_BASE_TIME_ZONE_RULE_H
#define HF_BASE_TIME_ZONE_RULE_H

#include "base/text/text.h"
#include "base/time/zone.h"

#define ZONE_ABBREVIATION_BYTES 16 /* with its NUL */

enum zone_day_kind {
    ZONE_DAY_JULIAN,  /* "J60": day 1 .. 365, 29 February is never counted */
    ZONE_DAY_OF_YEAR, /* "59": day 0 .. 365, 29 February is counted */
    ZONE_DAY_OF_WEEK  /* "M3.5.0": month, week 1 .. 5 (5: the last), weekday from Sunday 0 */
};

/* When the clocks are changed, each year. */
struct zone_turn {
    enum zone_day_kind kind;
    int32_t month;
    int32_t week;
    int32_t day;
    int32_t time_s; /* on the wall, before the change, after the day's midnight; may be negative */
};

struct zone_clock {
    int32_t offset_s;
    char abbreviation[ZONE_ABBREVIATION_BYTES];
};

struct zone_rule {
    struct zone_clock standard;
    bool has_dst;
    struct zone_clock dst;
    struct zone_turn dst_begin; /* these two only with has_dst */
    struct zone_turn dst_end;
};

/* False: it is no such text. */
bool zone_rule_parse(struct text text, struct zone_rule *ret_rule);

/* The span that an instant lies in. Neighbours may have the same offset. */
struct zone_span zone_rule_span(const struct zone_rule *rule, int64_t at_s);

#endif
