/*
 * timekeeper.c - the thread that ends handlers whose time is up. See timekeeper.h.
 *
 * A worker begins handlers without a lock, thousands in a second, so it does not report each to the
 * timekeeper. It reports the chunk that it has taken: no handler of it is over its time before
 * now + limit. The thread sleeps until the earliest such time, its alarm, and then looks at every
 * runner (runner_keep_time). That ends what is over its time and answers when to look again:
 *
 *     a handler runs                      when it began + limit
 *     a chunk is in hand, none runs yet   now + limit, because whatever begins, begins later
 *     nothing is in hand                  never: the next worker that takes a chunk reports it
 *
 * So the thread looks about once in the shortest limit of all runners that have work, and not at
 * all while nothing is in hand.
 *
 * No report is lost. A worker takes a chunk and compares its time with the alarm in one hold of its
 * runner's mutex, and the alarm is switched off before the thread looks. So a worker that has found
 * an earlier alarm, and therefore does nothing, is either seen by the look that this alarm is for,
 * or by the one that now begins; any other worker sets the alarm.
 *
 * Failure: the thread allocates nothing. If it cannot be started, hf_start fails.
 */
#include "bus/deliver/timekeeper.h"

#include "base/point.h"
#include "base/time/clock.h"
#include "bus/deliver/runner.h"

hf_status timekeeper_init(struct timekeeper *timekeeper, hf_bus *bus)
{
    timekeeper->bus = bus;
    timekeeper->alarm_us = INT64_MAX;
    atomic_store(&timekeeper->next_look_us, INT64_MAX);
    hf_status status = mutex_init(&timekeeper->list);
    if (!status) {
        status = mutex_init(&timekeeper->mutex);
    }
    if (!status) {
        status = cond_init(&timekeeper->changed);
    }
    return status ? status : companion_init(&timekeeper->companion);
}

void timekeeper_release(struct timekeeper *timekeeper)
{
    companion_release(&timekeeper->companion);
    pthread_cond_destroy(&timekeeper->changed);
    pthread_mutex_destroy(&timekeeper->mutex);
    pthread_mutex_destroy(&timekeeper->list);
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* Ends what is over its time; answers when to look again. */
static int64_t look(struct timekeeper *timekeeper)
{
    int64_t next_us = INT64_MAX;
    pthread_mutex_lock(&timekeeper->list);
    for (struct runner *runner = timekeeper->runners; runner; runner = runner->timed_next) {
        pthread_mutex_lock(&runner->mutex);
        int64_t at_us = runner_keep_time(runner, clock_mono_us());
        pthread_mutex_unlock(&runner->mutex);
        next_us = at_us < next_us ? at_us : next_us;
    }
    pthread_mutex_unlock(&timekeeper->list);
    return next_us;
}

/* Sleeps until the alarm. False: the thread is to end. */
static bool sleep_until_alarm(struct timekeeper *timekeeper)
{
    pthread_mutex_lock(&timekeeper->mutex);
    bool ends = timekeeper->stopping && timekeeper->count == 0;
    while (!ends && clock_mono_us() < timekeeper->alarm_us) {
        cond_wait_until(&timekeeper->changed, &timekeeper->mutex,
                        (struct deadline){timekeeper->alarm_us});
        ends = timekeeper->stopping && timekeeper->count == 0;
    }
    timekeeper->alarm_us = INT64_MAX;
    atomic_store(&timekeeper->next_look_us, INT64_MAX);
    pthread_mutex_unlock(&timekeeper->mutex);
    return !ends;
}

static void *timekeeper_main(void *ctx)
{
    struct timekeeper *timekeeper = ctx;
    while (sleep_until_alarm(timekeeper)) {
        int64_t next_us = look(timekeeper);
        pthread_mutex_lock(&timekeeper->mutex);
        if (next_us < timekeeper->alarm_us) {
            timekeeper->alarm_us = next_us;
        }
        atomic_store(&timekeeper->next_look_us, timekeeper->alarm_us);
        pthread_mutex_unlock(&timekeeper->mutex);
    }
    if (companion_end(&timekeeper->companion)) {
        bus_unreference(timekeeper->bus);
    }
    return NULL;
}

/* ---- Its owner ------------------------------------------------------------------------------- */

hf_status timekeeper_start(struct timekeeper *timekeeper)
{
    return timekeeper->companion.present ? HF_OK
                                         : companion_start(&timekeeper->companion, "hf-timekeeper",
                                                           timekeeper_main, timekeeper);
}

/* Tells the thread whether to end with its last runner. The mutex is held. */
static void set_stopping(struct timekeeper *timekeeper, bool stopping)
{
    timekeeper->stopping = stopping;
    pthread_cond_signal(&timekeeper->changed);
}

/* A runner that ends after the look leaves a thread that goes on: it must not end without being
 * joined, or the next start takes it for one that runs. */
void timekeeper_stop(struct timekeeper *timekeeper)
{
    pthread_mutex_lock(&timekeeper->mutex);
    bool none = timekeeper->count == 0;
    set_stopping(timekeeper, none);
    pthread_mutex_unlock(&timekeeper->mutex);
    HF_POINT("timekeeper_stop");
    if (none) {
        companion_join(&timekeeper->companion, DEADLINE_NEVER);
        pthread_mutex_lock(&timekeeper->mutex);
        set_stopping(timekeeper, false);
        pthread_mutex_unlock(&timekeeper->mutex);
    }
}

void timekeeper_leave(struct timekeeper *timekeeper)
{
    pthread_mutex_lock(&timekeeper->mutex);
    set_stopping(timekeeper, true);
    pthread_mutex_unlock(&timekeeper->mutex);
    bus_reference(timekeeper->bus); /* the thread's */
    if (!companion_leave(&timekeeper->companion)) {
        bus_unreference(timekeeper->bus);
    }
}

/* ---- Runners --------------------------------------------------------------------------------- */

static void change_count(struct timekeeper *timekeeper, int32_t by)
{
    pthread_mutex_lock(&timekeeper->mutex);
    timekeeper->count += by;
    pthread_cond_signal(&timekeeper->changed);
    pthread_mutex_unlock(&timekeeper->mutex);
}

void timekeeper_add(struct timekeeper *timekeeper, struct runner *runner)
{
    pthread_mutex_lock(&timekeeper->list);
    runner->timed_next = timekeeper->runners;
    timekeeper->runners = runner;
    pthread_mutex_unlock(&timekeeper->list);
    change_count(timekeeper, 1);
}

void timekeeper_remove(struct timekeeper *timekeeper, struct runner *runner)
{
    pthread_mutex_lock(&timekeeper->list);
    struct runner **at = &timekeeper->runners;
    while (*at != runner) {
        at = &(*at)->timed_next;
    }
    *at = runner->timed_next;
    pthread_mutex_unlock(&timekeeper->list);
    change_count(timekeeper, -1);
    HF_POINT("timekeeper_removed");
}

void timekeeper_expect(struct timekeeper *timekeeper, int64_t due_us)
{
    if (due_us >= atomic_load(&timekeeper->next_look_us)) {
        return;
    }
    pthread_mutex_lock(&timekeeper->mutex);
    if (due_us < timekeeper->alarm_us) {
        timekeeper->alarm_us = due_us;
        atomic_store(&timekeeper->next_look_us, due_us);
        pthread_cond_signal(&timekeeper->changed);
    }
    pthread_mutex_unlock(&timekeeper->mutex);
}
