/*
 * timetable.h - the instants that a cron expression means in a time zone.
 *
 * Clocks are changed, so an hour of the wall may be missing or come twice. What an expression means
 * then depends on its hour field:
 *
 *     fixed hours, "30 2 * * *"        a time of day, and every day has it once. Where the clocks
 *                                      jump over it, it is the instant of the jump; where it comes
 *                                      twice, the first one.
 *     * or a step, "15 * * * *"        every real hour: wherever the clocks match, twice if they
 *                                      match twice, and never if they jump over it.
 *
 * Several fixed times in one gap become one instant, the jump. A period (@every) means its
 * multiples since 1970-01-01T00:00:00Z in every zone.
 *
 * Instants are microseconds since 1970-01-01T00:00:00Z (base/time/time.h).
 */
#ifndef HF_BASE_TIME_TIMETABLE_H
#define HF_BASE_TIME_TIMETABLE_H

#include "base/time/cron.h"
#include "base/time/zone.h"

/* The first instant strictly after, the last one strictly before. False: there is none in the years
 * 2 to 9998. The work is bounded by the spans and months of about 40 years (timetable.c), and for
 * most expressions it is a few steps. */
bool timetable_next(const struct cron *cron, const struct zone *zone, int64_t after_us,
                    int64_t *ret_at_us);
bool timetable_previous(const struct cron *cron, const struct zone *zone, int64_t before_us,
                        int64_t *ret_at_us);

#endif
