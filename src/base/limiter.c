/*
 * limiter.c - a bucket of tokens. See limiter.h. holdfast_private.rate_take of
 * sql/postgres/functions/deliver/rates.sql is the same for the server's clock.
 */
#include "base/limiter.h"

struct limiter_answer limiter_take(const struct limiter *limiter, int64_t empty_us, int64_t now_us,
                                   int64_t want)
{
    int64_t token_ns = limiter->period_us * 1000 / limiter->events;
    int64_t token_us = (token_ns + 999) / 1000;
    int64_t full_us = now_us - (token_us > LIMITER_BURST_US ? token_us : LIMITER_BURST_US);
    struct limiter_answer answer = {.empty_us = empty_us};
    if (empty_us == LIMITER_NEW) {
        answer.empty_us = now_us - token_us;
    } else if (empty_us > now_us) {
        answer.empty_us = now_us;
    } else if (empty_us < full_us) {
        answer.empty_us = full_us;
    }
    int64_t tokens = (now_us - answer.empty_us) * 1000 / token_ns;
    answer.granted = want < tokens ? want : tokens;
    if (answer.granted < want) {
        answer.wait_us = answer.empty_us + (tokens + 1) * token_ns / 1000 + 1 - now_us;
    }
    answer.empty_us += answer.granted * token_ns / 1000;
    return answer;
}
