/*
 * coming.h - a time at which a cron expression fires, as people read it: what the clocks of the
 * zone show then, and a note if that is not what the expression says at first sight, because the
 * clocks are changed.
 */
#ifndef HF_BASE_TIME_COMING_H
#define HF_BASE_TIME_COMING_H

#include "base/time/timetable.h"

#define COMING_LOCAL_BYTES 48 /* "2026-03-29T03:00:00+02:00" */
#define COMING_NOTE_BYTES 96

struct coming {
    int64_t at_us;
    char local[COMING_LOCAL_BYTES]; /* RFC 3339 with the zone's offset */
    const char *abbreviation;       /* "CEST"; the zone's memory */
    char note[COMING_NOTE_BYTES];   /* "": nothing special */
};

/* The first time after an instant. False: there is none (timetable_next). */
bool coming_next(const struct cron *cron, const struct zone *zone, int64_t after_us,
                 struct coming *ret_coming);

#endif
