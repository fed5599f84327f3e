/*
 * limiter.h - how many may begin now, if at most so many may begin in a time: a bucket of tokens
 * that fills steadily. Pure functions.
 *
 * All that is to be remembered is one time: when the bucket was empty. It has as many tokens as
 * fit between that time and now, and at most those of LIMITER_BURST_US (but one, if that is less
 * than a token takes). Taking some moves the time towards now. So all that take from one bucket,
 * at whatever moments, take together no more in the long run than the rate, and in any time at most
 * a burst more; what is not taken is lost after LIMITER_BURST_US.
 */
#ifndef HF_BASE_LIMITER_H
#define HF_BASE_LIMITER_H

#include <stdint.h>

#define LIMITER_BURST_US 1000000
#define LIMITER_NEW INT64_MIN /* a bucket that was never used: it has one token */

/* So many in so long; both above 0. */
struct limiter {
    int64_t events;
    int64_t period_us;
};

struct limiter_answer {
    int64_t granted;
    int64_t empty_us; /* to be remembered */
    int64_t wait_us;  /* until there is another token; 0 if all that was wanted is granted */
};

/* Takes up to `want` tokens. A negative number gives so many back, which were not used. A time in
 * the future is one of a clock that was set back since: the bucket is empty. */
struct limiter_answer limiter_take(const struct limiter *limiter, int64_t empty_us, int64_t now_us,
                                   int64_t want);

#endif
