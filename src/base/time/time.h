/*
 * time.h - instants and durations as text.
 *
 * An instant is microseconds since 1970-01-01T00:00:00Z in the proleptic Gregorian calendar,
 * without leap seconds, from year 0001 to 9999. All arithmetic is our own: no locale, no zone of
 * the host, no shared state.
 */
#ifndef HF_BASE_TIME_TIME_H
#define HF_BASE_TIME_TIME_H

#include "base/text/text.h"

#include <holdfast.h>
#include <stdint.h>

/* "2026-11-15T03:54:38.123456Z" and its NUL. */
#define TIME_TEXT_BYTES 28

#define TIME_US_MIN INT64_C(-62135596800000000) /* 0001-01-01T00:00:00.000000Z */
#define TIME_US_MAX INT64_C(253402300799999999) /* 9999-12-31T23:59:59.999999Z */

/* Always 27 characters. An instant outside the years 0001-9999 is written as the nearest one
 * inside. */
void time_format(int64_t us, char out[TIME_TEXT_BYTES]);

/*
 * RFC 3339: a date ("2026-11-15", midnight UTC), or date "T" time with seconds, an optional
 * fraction of 1 to 9 digits (cut to microseconds, towards the past), and "Z" or an offset
 * "+05:30". "t" and "z" are accepted; a space, a missing offset, second 60 and anything after the
 * end are not. HF_INVALID otherwise.
 */
hf_status time_parse(struct text text, int64_t *ret_us);

/*
 * Whole numbers with units, the larger ones first: "2w", "30d", "1h30m", "10s", "250ms". HF_INVALID
 * for a bare number (of what?), a sign, a fraction, an unknown unit, a unit that comes twice, or
 * what does not fit int64_t milliseconds.
 */
hf_status duration_parse(struct text text, int64_t *ret_ms);

/* "50/s", "100/m", "1000/h", or a bare number per second, above 0. HF_INVALID. */
hf_status rate_parse(const char *text, double *ret_per_second);

#endif
