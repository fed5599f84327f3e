/*
 * ahead.c - times that were stored while the clock was ahead. See ahead.h.
 *
 * How such rows are known:
 *
 *   retries, ordered   they are due later than the policy's longest delay from now on
 *   retries, shared    the same, and the failure was recorded later than now: hf_nack may ask for a
 *                      longer delay than the policy's, and that is kept
 *   leases             the cursor was last moved in a time that has not come yet, so all that was
 *                      claimed with it has times of that clock
 *
 * A subscription whose consumers have asked for many long delays has all of those at the end of the
 * index, so claims look there only once in a while.
 */
#include "store/sqlite/write/ahead.h"

#include "base/time/clock.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/write/partition.h"

#define LOOK_US 30000000           /* how often claims look at the retries of one subscription */
#define CLOCK_TOLERANCE_US 1000000 /* threads read the clock at slightly different times */

hf_status ahead_lower_partition(struct conn *conn, const struct acquire *acquire)
{
    return acquire->retry_max_ms < 0
               ? HF_OK
               : STATEMENT_RUN(conn, SQLITE_QUERY_RETRIES_AHEAD, acquire->subscription_id,
                               acquire->partition, acquire->change.now_us,
                               acquire->retry_max_ms * 1000 + CLOCK_TOLERANCE_US, INT64_MIN);
}

/* Is it time to look at the retries of the subscription? */
static bool is_time(struct ahead_memory *memory, int64_t subscription_id)
{
    struct ahead_place *place = &memory->places[subscription_id % AHEAD_PLACES];
    int64_t mono_us = clock_mono_us();
    if (place->subscription_id == subscription_id && mono_us - place->looked_us < LOOK_US) {
        return false;
    }
    *place = (struct ahead_place){subscription_id, mono_us};
    return true;
}

hf_status ahead_lower_shared(struct conn *conn, const struct claim *claim,
                             const struct partition *cursor, struct ahead_memory *memory,
                             bool *ret_cursor_ahead)
{
    int64_t now_us = claim->change.now_us;
    hf_status status = HF_OK;
    *ret_cursor_ahead = false;
    if (claim->retry_max_ms < 0) {
        return HF_OK;
    }
    *ret_cursor_ahead = cursor->span.number > span_number(now_us + CLOCK_TOLERANCE_US);
    if (*ret_cursor_ahead) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_LEASES_AHEAD, claim->subscription_id, now_us);
    }
    if (!status && (*ret_cursor_ahead || is_time(memory, claim->subscription_id))) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_RETRIES_AHEAD, claim->subscription_id, 0, now_us,
                               claim->retry_max_ms * 1000 + CLOCK_TOLERANCE_US,
                               now_us + CLOCK_TOLERANCE_US);
    }
    return status;
}
