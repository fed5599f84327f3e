/*
 * date.h - dates of the proleptic Gregorian calendar as counts of days.
 *
 * Day 0 is 1970-01-01. There is no zone here: a day is a square of the calendar on the wall, and
 * whose wall it is the caller knows.
 */
#ifndef HF_BASE_TIME_DATE_H
#define HF_BASE_TIME_DATE_H

#include <stdint.h>

#define DAY_SECONDS 86400

struct date {
    int32_t year;  /* any from -1000000 to 1000000; 0 is the year before 1 */
    int32_t month; /* 1 .. 12 */
    int32_t day;   /* 1 .. 31 */
};

int64_t date_to_days(struct date date);
struct date date_of_days(int64_t days);

/* 28 .. 31. */
int32_t date_days_in_month(int32_t year, int32_t month);

/* 0 is Sunday, 6 is Saturday. */
int32_t date_weekday(int64_t days);

/* The day that a count of seconds since day 0 falls on: rounded towards the past. */
int64_t date_day_of_second(int64_t second);

#endif
