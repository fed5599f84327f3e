/*
 * retry.c - exponential backoff with jitter.
 *
 * The power is computed in double: it may become infinite, never undefined, and is compared with
 * max_ms before it is converted to an integer. Jitter scales by a factor drawn uniformly from
 * [1 - j, 1 + j]; the clamp comes after it, so that max_ms is a promise.
 */
#include "base/time/retry.h"

#include <assert.h>
#include <math.h>

/* Uniform over [-1, 1): 53 bits are what a double holds. */
static double signed_unit(uint64_t random)
{
    return (double)(random >> 11) * 0x1p-52 - 1.0;
}

int64_t retry_delay_ms(const struct retry_policy *policy, int32_t attempt, uint64_t random)
{
    assert(attempt >= 1);
    if (attempt == 1 || policy->base_ms == 0) {
        return 0;
    }

    double max_ms = (double)policy->max_ms;
    double delay_ms = (double)policy->base_ms * pow(policy->multiplier, (double)attempt - 2.0);

    delay_ms = fmin(delay_ms, max_ms);
    delay_ms *= 1.0 + signed_unit(random) * policy->jitter_percent / 100.0;
    delay_ms = fmax(0.0, fmin(delay_ms, max_ms));
    return llround(delay_ms); /* max_ms is whole, so rounding stays within it */
}
