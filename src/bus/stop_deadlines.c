/*
 * stop_deadlines.c - see stop_deadlines.h.
 */
#include "bus/stop_deadlines.h"

#define FINISH_MS_MIN 1000 /* for storing progress and giving back, whatever the deadline */
#define LEAVE_MS 1000      /* a thread that is answered at the last moment ends in that time */

struct stop_deadlines stop_deadlines_until(struct deadline deadline)
{
    int64_t left_ms = deadline_left_ms(deadline);
    struct stop_deadlines stop_deadlines = {
        .handlers = deadline,
        .store = deadline,
        .threads = DEADLINE_NEVER,
        .idle = deadline_after_ms(STOP_IDLE_MS),
    };
    if (left_ms >= 0) {
        stop_deadlines.store = deadline_after_ms(left_ms > FINISH_MS_MIN ? left_ms : FINISH_MS_MIN);
        stop_deadlines.threads = deadline_after_ms(left_ms + FINISH_MS_MIN + LEAVE_MS);
    }
    stop_deadlines.idle = deadline_earlier(stop_deadlines.idle, stop_deadlines.threads);
    return stop_deadlines;
}
