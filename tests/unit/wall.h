/*
 * wall.h - what the C library says that clocks on the wall show: a second opinion for tests of
 * base/zone, base/cron and base/timetable.
 *
 * It uses TZ, which belongs to the whole process, so a test program that uses it has one thread.
 */
#ifndef HF_TESTS_WALL_H
#define HF_TESTS_WALL_H

#include <stdbool.h>
#include <stdint.h>

struct wall {
    int year;
    int month; /* 1 .. 12 */
    int day;   /* 1 .. 31 */
    int hour;
    int minute;
    int second;
    int weekday; /* Sunday is 0 */
    int64_t offset_s;
    int64_t wall_s;
    bool dst;
    char abbreviation[16];
};

/* The zone that wall_at speaks of from now on. */
void wall_set_zone(const char *name);

struct wall wall_at(int64_t at_s);

/* The parts of a wall time. */
struct wall wall_parts(int64_t wall_s);

#endif
