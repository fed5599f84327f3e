/*
 * span.c - how fast a checkpoint moves. See span.h.
 */
#include "store/sqlite/write/span.h"

#define SPAN_US INT64_C(30000000)
#define YOUNG_US INT64_C(1000000) /* no rate is told of less */

int64_t span_number(int64_t at_us)
{
    return at_us / SPAN_US;
}

struct span span_move(struct span stored, int64_t checkpoint, int64_t now_us)
{
    int64_t number = span_number(now_us);
    int64_t ago = number - stored.number;
    if (ago < 0) { /* the clock was set back */
        return (struct span){.number = number, .from = -1, .before = -1};
    }
    return (struct span){
        .number = number,
        .from = ago == 0 ? stored.from : checkpoint,
        .before = ago == 0   ? stored.before
                  : ago == 1 ? stored.from
                             : checkpoint,
    };
}

int64_t span_passed(struct span stored, int64_t checkpoint, int64_t now_us)
{
    int64_t ago = span_number(now_us) - stored.number;
    if (ago > 1) {
        return 0; /* it has not moved since */
    }
    int64_t from = ago == 1 ? stored.from : ago == 0 ? stored.before : -1;
    return from < 0 ? -1 : checkpoint - from;
}

double span_seconds(int64_t now_us, int64_t created_at_us)
{
    int64_t begun_us = (span_number(now_us) - 1) * SPAN_US;
    int64_t us = now_us - (created_at_us > begun_us ? created_at_us : begun_us);
    return us > YOUNG_US ? (double)us / 1e6 : (double)YOUNG_US / 1e6;
}
