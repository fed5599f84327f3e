/*
 * timetable.c - cron expressions and zones together.
 *
 * Fixed hours. A wall time w means the instant at which the clocks first show w or a later time,
 * reached(w). That is the instant of the jump for a w that they jump over and the first of two for
 * one that comes twice, and it never falls as w rises. Let highest(t) be the latest wall time shown
 * up to t. Then reached(w) <= t exactly if w <= highest(t), and so
 *
 *     the next after t       is reached(the first match after highest(t))
 *     the last up to t       is reached(the last match up to highest(t))
 *
 * without looking at any instant between.
 *
 * Real hours. Within a span of one offset, wall time is only another name for the instant, so the
 * first match within the span is the answer, or there is none and the next span is asked. Matches
 * are far apart only if the dates are: the search skips the spans of up to 40 years, a few per
 * year, and asks the calendar again only where the clocks show something that the last answer did
 * not speak of.
 */
#include "base/time/timetable.h"
#include "base/time/time.h"

#define SECOND_US INT64_C(1000000)
#define YEAR_S INT64_C(31622400)
#define TIMETABLE_S_MIN (TIME_US_MIN / SECOND_US + YEAR_S)
#define TIMETABLE_S_MAX (TIME_US_MAX / SECOND_US - YEAR_S)

static bool next_real(const struct cron *cron, const struct zone *zone, int64_t from_s,
                      int64_t *ret_at_s)
{
    int64_t asked_s = 0, match_s = -1; /* wall times: there is no match from the first up to the
                                          second; in the beginning nothing has been asked */

    while (from_s <= TIMETABLE_S_MAX) {
        struct zone_span span = zone_span(zone, from_s);
        int64_t wall_s = from_s + span.offset_s;

        if (wall_s < asked_s || wall_s > match_s) {
            if (!cron_next(cron, wall_s, &match_s)) {
                return false;
            }
            asked_s = wall_s;
        }
        if (match_s - span.offset_s < span.end_s) {
            *ret_at_s = match_s - span.offset_s;
            return true;
        }
        from_s = span.end_s;
    }
    return false;
}

static bool previous_real(const struct cron *cron, const struct zone *zone, int64_t until_s,
                          int64_t *ret_at_s)
{
    int64_t asked_s = -1, match_s = 0; /* there is no match after the second up to the first */

    while (until_s >= TIMETABLE_S_MIN) {
        struct zone_span span = zone_span(zone, until_s);
        int64_t wall_s = until_s + span.offset_s;

        if (wall_s > asked_s || wall_s < match_s) {
            if (!cron_previous(cron, wall_s, &match_s)) {
                return false;
            }
            asked_s = wall_s;
        }
        if (match_s - span.offset_s >= span.begin_s) {
            *ret_at_s = match_s - span.offset_s;
            return true;
        }
        until_s = span.begin_s - 1;
    }
    return false;
}

static bool next_fixed(const struct cron *cron, const struct zone *zone, int64_t from_s,
                       int64_t *ret_at_s)
{
    int64_t match_s;

    if (!cron_next(cron, zone_highest(zone, from_s - 1) + 1, &match_s)) {
        return false;
    }
    *ret_at_s = zone_reached(zone, match_s);
    return true;
}

static bool previous_fixed(const struct cron *cron, const struct zone *zone, int64_t until_s,
                           int64_t *ret_at_s)
{
    int64_t match_s;

    if (!cron_previous(cron, zone_highest(zone, until_s), &match_s)) {
        return false;
    }
    *ret_at_s = zone_reached(zone, match_s);
    return true;
}

/* The multiple of a period is one in every zone. */
static bool next_any(const struct cron *cron, const struct zone *zone, int64_t from_s,
                     int64_t *ret_at_s)
{
    if (cron->every_s > 0) {
        return cron_next(cron, from_s, ret_at_s);
    }
    return (cron->hours_run ? next_real : next_fixed)(cron, zone, from_s, ret_at_s);
}

static bool previous_any(const struct cron *cron, const struct zone *zone, int64_t until_s,
                         int64_t *ret_at_s)
{
    if (cron->every_s > 0) {
        return cron_previous(cron, until_s, ret_at_s);
    }
    return (cron->hours_run ? previous_real : previous_fixed)(cron, zone, until_s, ret_at_s);
}

static bool answer(bool found, int64_t at_s, int64_t *ret_at_us)
{
    if (!found || at_s < TIMETABLE_S_MIN || at_s > TIMETABLE_S_MAX) {
        return false;
    }
    *ret_at_us = at_s * SECOND_US;
    return true;
}

bool timetable_next(const struct cron *cron, const struct zone *zone, int64_t after_us,
                    int64_t *ret_at_us)
{
    /* Rounded down: the first whole second after the instant. */
    int64_t from_s = after_us / SECOND_US - (after_us % SECOND_US < 0) + 1;
    int64_t at_s = 0;

    if (from_s > TIMETABLE_S_MAX) {
        return false;
    }
    if (from_s < TIMETABLE_S_MIN) {
        from_s = TIMETABLE_S_MIN;
    }

    bool found = next_any(cron, zone, from_s, &at_s);

    return answer(found, at_s, ret_at_us);
}

bool timetable_previous(const struct cron *cron, const struct zone *zone, int64_t before_us,
                        int64_t *ret_at_us)
{
    /* Rounded up: the last whole second before the instant. */
    int64_t until_s = before_us / SECOND_US + (before_us % SECOND_US > 0) - 1;
    int64_t at_s = 0;

    if (until_s < TIMETABLE_S_MIN) {
        return false;
    }
    if (until_s > TIMETABLE_S_MAX) {
        until_s = TIMETABLE_S_MAX;
    }

    bool found = previous_any(cron, zone, until_s, &at_s);

    return answer(found, at_s, ret_at_us);
}
