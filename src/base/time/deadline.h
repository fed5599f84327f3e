/*
 * deadline.h - until when to wait: an instant of the monotonic clock.
 *
 * A time limit becomes a deadline once, at the entry of the library, and is passed down, so that
 * waiting in three places does not take three times as long.
 */
#ifndef HF_BASE_TIME_DEADLINE_H
#define HF_BASE_TIME_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct deadline {
    int64_t mono_us; /* INT64_MAX: never */
};

#define DEADLINE_NEVER ((struct deadline){INT64_MAX})

/* ms from now; never if ms is negative. */
struct deadline deadline_after_ms(int64_t ms);

bool deadline_is_never(struct deadline deadline);
bool deadline_passed(struct deadline deadline);

/* 0 if passed, -1 if never. Rounded up, so that poll() does not spin through the last one. */
int64_t deadline_left_ms(struct deadline deadline);

struct deadline deadline_earlier(struct deadline a, struct deadline b);

/* For pthread_cond_timedwait on a condition made by cond_init (CLOCK_MONOTONIC). Never is a time
 * some decades ahead. While the clock is fake it is a millisecond ahead, so that a waiting thread
 * looks at the fake clock again. */
struct timespec deadline_timespec(struct deadline deadline);

#endif
