/* wall.c - localtime_r and gmtime_r of the C library, which the library itself may not use. */
#include "wall.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void wall_set_zone(const char *name)
{
    char value[128];

    snprintf(value, sizeof value, ":%s", name);
    setenv("TZ", value, 1);
    tzset();
}

static struct wall of_tm(const struct tm *tm)
{
    struct wall wall = {
        .year = tm->tm_year + 1900,
        .month = tm->tm_mon + 1,
        .day = tm->tm_mday,
        .hour = tm->tm_hour,
        .minute = tm->tm_min,
        .second = tm->tm_sec,
        .weekday = tm->tm_wday,
        .offset_s = tm->tm_gmtoff,
        .dst = tm->tm_isdst > 0,
    };

    snprintf(wall.abbreviation, sizeof wall.abbreviation, "%s", tm->tm_zone);
    return wall;
}

struct wall wall_at(int64_t at_s)
{
    time_t time = at_s;
    struct tm tm;

    assert(localtime_r(&time, &tm));

    struct wall wall = of_tm(&tm);

    wall.wall_s = at_s + wall.offset_s;
    return wall;
}

struct wall wall_parts(int64_t wall_s)
{
    time_t time = wall_s;
    struct tm tm;

    assert(gmtime_r(&time, &tm));

    struct wall wall = of_tm(&tm);

    wall.wall_s = wall_s;
    return wall;
}
