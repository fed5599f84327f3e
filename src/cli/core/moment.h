/*
 * moment.h - times as people write them: "18:00", "2026-11-20 18:00", "2026-11-20", by the clocks
 * of this place.
 */
#ifndef HF_CLI_CORE_MOMENT_H
#define HF_CLI_CORE_MOMENT_H

#include <stdbool.h>
#include <stdint.h>

#define MOMENT_BYTES 96 /* "2026-11-20 18:00:00 CET" with its NUL */

/* Which day a time without a date means. */
enum moment_day { MOMENT_NEXT, MOMENT_LAST };

/* "HH:MM" or "YYYY-MM-DD HH:MM", both also with seconds, or "YYYY-MM-DD", the midnight that begins
 * this day, in the zone of $TZ or of the system. A wall time that comes twice is the first of the
 * two; one that the clocks jump over is the instant of the jump. False: it is no such text, or the
 * zone cannot be read. */
bool moment_parse(const char *text, int64_t now_us, enum moment_day day, int64_t *ret_us);

/* Whether times without a zone can be read here: the zone of this place is known. */
bool moment_has_zone(void);

/* Whether the text has the form of a date without a time of the day. */
bool moment_is_date(const char *text);

/* The instant as the clocks of this place show it, with the name of the zone. Answers ret_text. */
const char *moment_format(int64_t us, char ret_text[MOMENT_BYTES]);

#endif
