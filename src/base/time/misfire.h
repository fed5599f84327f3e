/*
 * misfire.h - which planned times of a schedule fire now, when some of them are late.
 *
 * A schedule waits for one planned time. When a process looks, it and others after it may have
 * passed: by milliseconds, because a timer is never exact, or by days, because no process was
 * running or a clock was set. A planned time counts as on time, and fires, until its second is
 * over or `grace_us` have passed, whichever is later: no timer is exact to the microsecond, so with
 * a grace shorter than its second a planned time could never be met. What is older was missed, and
 * the policy decides:
 *
 *     skip    none of the missed ones fires
 *     once    the latest of them fires, for all of them
 *     all     the latest `cap` of them fire, in order
 */
#ifndef HF_BASE_TIME_MISFIRE_H
#define HF_BASE_TIME_MISFIRE_H

#include "base/time/timetable.h"

#define MISFIRE_CAP_MAX 1000
#define MISFIRE_TIMES_MAX 100

enum misfire_policy { MISFIRE_SKIP = 1, MISFIRE_ONCE, MISFIRE_ALL };

struct misfire {
    enum misfire_policy policy;
    int32_t cap;      /* of MISFIRE_ALL: 1 .. MISFIRE_CAP_MAX */
    int64_t grace_us; /* not negative; counts as at least the planned second */
    size_t times_max; /* in one firing: 1 .. MISFIRE_TIMES_MAX */
};

struct firing {
    int64_t times_us[MISFIRE_TIMES_MAX]; /* planned times that fire now, in order */
    size_t count;
    int64_t next_us; /* what the schedule waits for then; at or before now if not all had room,
                        which come with the next firing;
                        -1: it never fires again */
    int64_t skipped_first_us; /* planned times that are left out; -1: none */
    int64_t skipped_last_us;
};

/*
 * What happens at now_us to a schedule that waits for `next_us`, which counts as planned even if
 * the timetable has been changed since. The work is bounded by the cap and times_max, however long
 * ago next_us was.
 */
void misfire_plan(const struct cron *cron, const struct zone *zone, const struct misfire *misfire,
                  int64_t next_us, int64_t now_us, struct firing *ret_firing);

#endif
