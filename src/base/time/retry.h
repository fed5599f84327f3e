/*
 * retry.h - how long a failed delivery waits before its next attempt.
 *
 * Pure arithmetic: the caller passes the random number. Attempts are counted from 1; attempt 1 runs
 * at once, attempt n >= 2 waits min(base * multiplier^(n-2), max), then a jitter of plus or minus
 * jitter_percent is applied and the result clamped to [0, max] again.
 */
#ifndef HF_BASE_TIME_RETRY_H
#define HF_BASE_TIME_RETRY_H

#include <holdfast.h>
#include <stdbool.h>
#include <stdint.h>

struct retry_policy {
    int32_t attempts_max;   /* 1 .. RETRY_ATTEMPTS_MAX; 1 means no retry */
    int64_t base_ms;        /* 0 .. RETRY_DELAY_MS_MAX: the wait before attempt 2 */
    double multiplier;      /* 1.0 .. RETRY_MULTIPLIER_MAX */
    int64_t max_ms;         /* base_ms .. RETRY_DELAY_MS_MAX: no wait is longer */
    int32_t jitter_percent; /* 0 .. 100 */
};

#define RETRY_ATTEMPTS_MAX 100
#define RETRY_DELAY_MS_MAX (INT64_C(366) * 24 * 3600 * 1000)
#define RETRY_MULTIPLIER_MAX 100.0

/* The wait before `attempt`, in [0, max_ms]; 0 for attempt 1. random is uniform over 64 bits. The
 * policy is within its limits; attempt may be any number from 1 on. */
int64_t retry_delay_ms(const struct retry_policy *policy, int32_t attempt, uint64_t random);

#endif
