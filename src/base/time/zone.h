/*
 * zone.h - time zones of the system's tz database: what the clocks of a place show, and when.
 *
 * A zone is a sequence of spans without end; in each of them the clocks on the wall are ahead of
 * UTC by one offset. Where one span ends and the next begins the clocks jump: forward over wall
 * times that never come (a gap), or back over some that come twice (an overlap).
 *
 * A zone is read once and never changes, so any number of threads may ask it. Nothing here looks at
 * or changes TZ, the environment, or any other state of the process.
 *
 * Instants are seconds since 1970-01-01T00:00:00Z, wall times the same for the wall (cron.h);
 * both within the years -9999 to 19999 (asserted).
 */
#ifndef HF_BASE_TIME_ZONE_H
#define HF_BASE_TIME_ZONE_H

#include "base/text/text.h"

#include <holdfast.h>
#include <stdint.h>

#define ZONE_DIRECTORY "/usr/share/zoneinfo"
#define ZONE_NAME_BYTES_MAX 64
#define ZONE_FILE_BYTES_MAX 65536     /* the largest of 2025 has 4 KiB */
#define ZONE_OFFSET_S_MAX (26 * 3600) /* no clock is farther ahead of UTC, or behind */

struct zone;

/* A time during which the clocks are not changed. */
struct zone_span {
    int64_t begin_s;          /* INT64_MIN: since ever */
    int64_t end_s;            /* the first instant after it; INT64_MAX: for ever */
    int32_t offset_s;         /* wall time is UTC + this */
    bool dst;                 /* what the tz database calls daylight saving */
    const char *abbreviation; /* "CET"; the zone's memory */
};

/* How often a wall time comes. */
enum zone_fit {
    ZONE_NEVER, /* the clocks jump over it */
    ZONE_ONCE,
    ZONE_TWICE /* or more often */
};

/*
 * A name of the tz database: letters, digits, '_', '+' and '-', in parts separated by '/'. There is
 * no '.', so no name leads out of the directory. HF_INVALID otherwise.
 */
hf_status zone_check_name(struct text name);

/*
 * Reads a zone from its file in a directory (NULL: ZONE_DIRECTORY). "UTC" needs no file.
 *
 *     HF_INVALID      no such name is possible
 *     HF_NOTFOUND     there is no such file
 *     HF_CORRUPT      the file is no zone, or one with leap seconds, which we do not count
 *     HF_NOMEM, HF_DENIED, HF_IO
 */
hf_status zone_new(struct text name, const char *directory, struct zone **ret_zone);

/* The same from the bytes of a file (RFC 9636, versions 1 to 4). HF_CORRUPT, HF_NOMEM. */
hf_status zone_decode(struct text name, const void *bytes, size_t length, struct zone **ret_zone);

/* Accepts NULL. */
void zone_free(struct zone *zone);

const char *zone_name(const struct zone *zone);

/* The span that an instant lies in. */
struct zone_span zone_span(const struct zone *zone, int64_t at_s);

/* How often the wall time comes, and the instants when it first and last does. For ZONE_NEVER both
 * are the instant at which the clocks jump over it. */
enum zone_fit zone_locate(const struct zone *zone, int64_t wall_s, int64_t *ret_first_s,
                          int64_t *ret_last_s);

/* The first instant at which the clocks show this wall time or a later one. */
int64_t zone_reached(const struct zone *zone, int64_t wall_s);

/* The latest wall time that the clocks have shown up to an instant, itself included: the largest
 * wall_s with zone_reached(wall_s) <= at_s. It is not what they show while an overlap runs. */
int64_t zone_highest(const struct zone *zone, int64_t at_s);

#endif
