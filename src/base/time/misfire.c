/*
 * misfire.c - from the planned time that a schedule waits for to what fires now.
 *
 * The planned times are next_us and whatever the timetable has after it. Those before `late_us`
 * were missed. The first one that fires is found by looking back from there, at most `cap` steps,
 * never by counting what was missed: a schedule of every second that no process served for a year
 * is decided as fast as one that is a second late. From the first one on all fire, up to now.
 */
#include "base/time/misfire.h"

#include <assert.h>

#define NEVER (-1)
#define SECOND_US INT64_C(1000000) /* planned times are whole seconds */

/* A schedule's timetable from the time that it waits for. */
struct plan {
    const struct cron *cron;
    const struct zone *zone;
    int64_t first_us;
};

/* The last planned time before an instant, which lies after the first one. */
static int64_t planned_before(const struct plan *plan, int64_t before_us)
{
    int64_t at_us;

    assert(before_us > plan->first_us);
    if (!timetable_previous(plan->cron, plan->zone, before_us, &at_us) || at_us < plan->first_us) {
        return plan->first_us;
    }
    return at_us;
}

static int64_t planned_after(const struct plan *plan, int64_t after_us)
{
    int64_t at_us;

    return timetable_next(plan->cron, plan->zone, after_us, &at_us) ? at_us : NEVER;
}

/* The first planned time that fires, or will; NEVER: none. The first one of all was missed. */
static int64_t choose_first(const struct plan *plan, const struct misfire *misfire, int64_t late_us)
{
    int64_t first_us = planned_before(plan, late_us);

    switch (misfire->policy) {
    case MISFIRE_SKIP:
        return planned_after(plan, first_us);
    case MISFIRE_ONCE:
        break;
    case MISFIRE_ALL:
        assert(misfire->cap >= 1 && misfire->cap <= MISFIRE_CAP_MAX);
        for (int32_t i = 1; i < misfire->cap && first_us > plan->first_us; i++) {
            first_us = planned_before(plan, first_us);
        }
        break;
    }
    return first_us;
}

/* Planned times before the result were missed at now_us. */
static int64_t late_before(const struct misfire *misfire, int64_t now_us)
{
    int64_t on_time_us = misfire->grace_us;

    assert(misfire->grace_us >= 0);
    if (on_time_us < SECOND_US - 1) {
        on_time_us = SECOND_US - 1;
    }
    return now_us - on_time_us;
}

void misfire_plan(const struct cron *cron, const struct zone *zone, const struct misfire *misfire,
                  int64_t next_us, int64_t now_us, struct firing *ret_firing)
{
    struct plan plan = {cron, zone, next_us};
    struct firing *firing = ret_firing;
    int64_t late_us = late_before(misfire, now_us);
    int64_t at_us = next_us;

    assert(misfire->times_max >= 1 && misfire->times_max <= MISFIRE_TIMES_MAX);
    firing->count = 0;
    firing->skipped_first_us = firing->skipped_last_us = NEVER;
    if (next_us < late_us) {
        at_us = choose_first(&plan, misfire, late_us);
    }
    if (at_us != next_us) {
        firing->skipped_first_us = next_us;
        firing->skipped_last_us = planned_before(&plan, at_us == NEVER ? late_us : at_us);
    }
    while (at_us != NEVER && at_us <= now_us && firing->count < misfire->times_max) {
        firing->times_us[firing->count++] = at_us;
        at_us = planned_after(&plan, at_us);
    }
    firing->next_us = at_us;
}
