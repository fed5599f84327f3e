/*
 * timekeeper.c - ends handlers whose time is up. See timekeeper.h.
 *
 * A worker begins handlers without a lock, thousands in a second, so it does not report each. It
 * reports the chunk that it has taken (dispatchers_expect): no handler of it is over its time
 * before now + limit. The supervisor sleeps until the earliest such time, its alarm, and then looks
 * at every runner (runner_keep_time). That ends what is over its time and answers when to look
 * again:
 *
 *     a handler runs                      when it began + limit
 *     a chunk is in hand, none runs yet   now + limit, because whatever begins, begins later
 *     nothing is in hand                  never: the next worker that takes a chunk reports it
 *
 * So the supervisor looks about once in the shortest limit of all runners that have work, and not
 * at all while nothing is in hand.
 *
 * No report is lost. A worker takes a chunk and compares its time with the alarm in one hold of its
 * runner's mutex, and the alarm is switched off before the supervisor looks. So a worker that has
 * found an earlier alarm, and therefore does nothing, is either seen by the look that this alarm is
 * for, or by the one that now begins; any other worker sets the alarm.
 *
 * A runner is in the list while it has a seat, and the supervisor is there while there is a seat.
 * So a runner that a stop has left behind, because the store does not answer it, keeps its time
 * limits.
 */
#include "bus/deliver/turn/timekeeper.h"

#include "base/time/clock.h"
#include "bus/deliver/runner.h"

hf_status timekeeper_init(struct timekeeper *timekeeper)
{
    return mutex_init(&timekeeper->mutex);
}

void timekeeper_release(struct timekeeper *timekeeper)
{
    pthread_mutex_destroy(&timekeeper->mutex);
}

void timekeeper_add(struct timekeeper *timekeeper, struct runner *runner)
{
    pthread_mutex_lock(&timekeeper->mutex);
    runner->timed_next = timekeeper->runners;
    runner->timed_at = &timekeeper->runners;
    if (timekeeper->runners) {
        timekeeper->runners->timed_at = &runner->timed_next;
    }
    timekeeper->runners = runner;
    pthread_mutex_unlock(&timekeeper->mutex);
}

void timekeeper_remove(struct timekeeper *timekeeper, struct runner *runner)
{
    pthread_mutex_lock(&timekeeper->mutex);
    *runner->timed_at = runner->timed_next;
    if (runner->timed_next) {
        runner->timed_next->timed_at = runner->timed_at;
    }
    pthread_mutex_unlock(&timekeeper->mutex);
}

int64_t timekeeper_look(struct timekeeper *timekeeper)
{
    int64_t next_us = INT64_MAX;
    pthread_mutex_lock(&timekeeper->mutex);
    for (struct runner *runner = timekeeper->runners; runner; runner = runner->timed_next) {
        pthread_mutex_lock(&runner->mutex);
        int64_t at_us = runner_keep_time(runner, clock_mono_us());
        pthread_mutex_unlock(&runner->mutex);
        next_us = at_us < next_us ? at_us : next_us;
    }
    pthread_mutex_unlock(&timekeeper->mutex);
    return next_us;
}
