/*
 * patience.c - see patience.h.
 */
#include "bus/deliver/patience.h"

#define FINISH_MS_MIN 1000 /* for storing progress and giving back, whatever the deadline */
#define LEAVE_MS 1000      /* a thread that is answered at the last moment ends in that time */

struct patience patience_until(struct deadline deadline)
{
    int64_t left_ms = deadline_left_ms(deadline);
    struct patience patience = {
        .handlers = deadline,
        .store = deadline,
        .threads = DEADLINE_NEVER,
        .idle = deadline_after_ms(PATIENCE_IDLE_MS),
    };
    if (left_ms >= 0) {
        patience.store = deadline_after_ms(left_ms > FINISH_MS_MIN ? left_ms : FINISH_MS_MIN);
        patience.threads = deadline_after_ms(left_ms + FINISH_MS_MIN + LEAVE_MS);
    }
    patience.idle = deadline_earlier(patience.idle, patience.threads);
    return patience;
}
