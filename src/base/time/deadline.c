/*
 * deadline.c - arithmetic on instants of the monotonic clock, with saturation.
 *
 * A wait that would end after the last representable microsecond never ends. The kernel refuses no
 * far timespec, but older ones multiplied it to nanoseconds; FAR_SECONDS stays clear of that.
 */
#include "base/time/deadline.h"
#include "base/banned.h"
#include "base/time/clock.h"

#define FAR_SECONDS (INT64_C(1) << 30) /* 34 years after boot */

struct deadline deadline_after_ms(int64_t ms)
{
    int64_t now_us = clock_mono_us();

    if (ms < 0 || ms > (INT64_MAX - now_us) / 1000) {
        return DEADLINE_NEVER;
    }
    return (struct deadline){now_us + ms * 1000};
}

bool deadline_is_never(struct deadline deadline)
{
    return deadline.mono_us == INT64_MAX;
}

bool deadline_passed(struct deadline deadline)
{
    return !deadline_is_never(deadline) && clock_mono_us() >= deadline.mono_us;
}

int64_t deadline_left_ms(struct deadline deadline)
{
    if (deadline_is_never(deadline)) {
        return -1;
    }

    int64_t left_us = deadline.mono_us - clock_mono_us();

    return left_us <= 0 ? 0 : left_us / 1000 + (left_us % 1000 > 0);
}

struct deadline deadline_earlier(struct deadline a, struct deadline b)
{
    return a.mono_us < b.mono_us ? a : b;
}

static struct timespec millisecond_from_now(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_nsec -= 1000000000;
        at.tv_sec++;
    }
    return at;
}

struct timespec deadline_timespec(struct deadline deadline)
{
    if (clock_is_fake()) {
        return millisecond_from_now();
    }
    if (deadline.mono_us / 1000000 >= FAR_SECONDS) {
        return (struct timespec){.tv_sec = FAR_SECONDS};
    }
    return (struct timespec){.tv_sec = deadline.mono_us / 1000000,
                             .tv_nsec = deadline.mono_us % 1000000 * 1000};
}
