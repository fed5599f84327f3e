/*
 * date.c - counting days in eras of 400 years, which all have 146097 days.
 *
 * Years are taken to begin in March, so that the leap day is a year's last day and the length of
 * the months before any month is one linear formula, (153 * month + 2) / 5.
 */
#include "base/time/date.h"

#include <stdbool.h>

#define ERA_DAYS 146097         /* days in 400 years */
#define EPOCH_FROM_MARCH 719468 /* days from 0000-03-01 to 1970-01-01 */

/* The quotient rounded down, also below zero; `by` is positive. */
static int64_t divide_down(int64_t number, int64_t by)
{
    return number / by - (number % by < 0);
}

int64_t date_to_days(struct date date)
{
    int64_t year = date.month <= 2 ? (int64_t)date.year - 1 : date.year;
    int64_t era = divide_down(year, 400);
    int64_t year_of_era = year - era * 400;
    int64_t month_from_march = (date.month + 9) % 12;
    int64_t day_of_year = (153 * month_from_march + 2) / 5 + date.day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;

    return era * ERA_DAYS + day_of_era - EPOCH_FROM_MARCH;
}

struct date date_of_days(int64_t days)
{
    int64_t from_march = days + EPOCH_FROM_MARCH;
    int64_t era = divide_down(from_march, ERA_DAYS);
    int64_t day_of_era = from_march - era * ERA_DAYS;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month_from_march = (5 * day_of_year + 2) / 153;
    int64_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;

    return (struct date){
        .year = (int32_t)(era * 400 + year_of_era + (month <= 2)),
        .month = (int32_t)month,
        .day = (int32_t)(day_of_year - (153 * month_from_march + 2) / 5 + 1),
    };
}

static bool is_leap(int32_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

int32_t date_days_in_month(int32_t year, int32_t month)
{
    static const int32_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && is_leap(year));
}

int32_t date_weekday(int64_t days)
{
    /* Day 0 was a Thursday. */
    int64_t from_sunday = days + 4;

    return (int32_t)(from_sunday - divide_down(from_sunday, 7) * 7);
}

int64_t date_day_of_second(int64_t second)
{
    return divide_down(second, DAY_SECONDS);
}
