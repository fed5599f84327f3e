/*
 * instant.h - moments and time zones by the names that people give them.
 */
#ifndef HF_TESTS_INSTANT_H
#define HF_TESTS_INSTANT_H

#include "base/time/zone.h"

#include <stdint.h>

/* "2026-03-29T01:00:00Z". */
int64_t instant_us(const char *text);

/* To be freed with zone_free. */
struct zone *zone_of(const char *name);

#endif
