/*
 * runner_life.c - the phases of a runner: starting, stopping, retiring. See runner.h, plan.h.
 *
 *     runner_start
 *          |        RESUME: it is to work again, and workers are left
 *          |   +---------------------+
 *          v   v                     |
 *     +-> WORK -------- END ------> DRAIN
 *     |                              | FINISH
 *     |                              v                 not yet
 *     +---- handlers again ------- RETIRE <-+--------------------> PAUSE
 *                                   |   |   +------ FINISH ----------+
 *                           halted  |   |
 *                      HALT <-------+   | gone
 *                       | LEAVE         v
 *                       +------------> OVER: it has no more turns
 *
 * DRAIN waits until no handler runs; the timekeeper gives up those that do at the deadline of a
 * stop. FINISH stores what is left to be stored and gives back what is ours. RETIRE asks what
 * becomes of the runner (subscription_retired): that is decided under the lock of the list.
 *
 * If something cannot be given back, a stop says so, and the next call that stops tries again. A
 * runner that retires tries again itself, with a growing pause, until it has given back everything,
 * or a stop takes over, or a handler is registered and it works again: what it still owes is then
 * given back as after hf_start.
 *
 * HALT waits until the timekeeper has rolled back the transactions of handlers that were given up:
 * one in the middle of a statement keeps the lock that all writers need until the statement ends.
 * What could not be given back because of that is then tried once more.
 */
#include "bus/deliver/runner.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"
#include "base/point.h"
#include "base/time/clock.h"
#include "bus/watch.h"

#define RETRY_MS_MIN 10 /* between two tries to give back */
#define LOOK_MS 50      /* between two looks whether the database can be reached */

/* Changes the phase; the only place that does. */
static void enter(struct runner *runner, enum phase phase)
{
    enum phase from = runner->phase;
    switch (phase) {
    case PHASE_WORK:
        assert(from == PHASE_DRAIN || from == PHASE_RETIRE || from == PHASE_OVER);
        break;
    case PHASE_DRAIN:
        assert(from == PHASE_WORK);
        break;
    case PHASE_RETIRE:
        assert(from == PHASE_DRAIN || from == PHASE_PAUSE);
        break;
    case PHASE_PAUSE:
    case PHASE_HALT:
        assert(from == PHASE_RETIRE);
        break;
    case PHASE_OVER:
        assert(from == PHASE_RETIRE || from == PHASE_HALT);
        break;
    }
    runner->phase = phase;
}

bool runner_is_finishing(const struct runner *runner)
{
    return runner->phase != PHASE_WORK && runner->phase != PHASE_DRAIN;
}

/* Is nothing running, and nothing to be stored of what ran? Then all that is left to do is giving
 * back, for which a moment must do: others see that the process is gone. */
bool runner_is_idle(struct runner *runner)
{
    const struct window *window = &runner->window;
    pthread_mutex_lock(&runner->mutex);
    bool unstored = runner->ordered && window->settled > 0; /* the checkpoint is behind */
    bool idle = window->busy == 0 && window->ended == 0 && !unstored;
    pthread_mutex_unlock(&runner->mutex);
    return idle;
}

/* By the dispatcher, or, if that could not give everything back, by the next call that stops. If
 * the bus is shut down and nothing is to be stored, it is no failure that something cannot be given
 * back: closing the store gives everything back, or others see that the process is gone. */
static void finish(struct runner *runner, struct deadline by)
{
    HF_POINT("finish");
    bool last = runner_is_idle(runner) && atomic_load(&runner->bus->end) != BUS_OPEN;
    runner->finish_deadline = by;
    if (last) {
        runner->finish_deadline = deadline_earlier(by, deadline_after_ms(STOP_IDLE_MS));
    }
    runner->finish_status = runner->mode->finish(runner, clock_wall_us());
    snprintf(runner->finish_message, sizeof runner->finish_message, "%s", err_message());
    if (last && runner->finish_status) {
        log_about(&runner->bus->log, HF_LOG_WARN, runner->name,
                  "what it has cannot be given back; others have it when this process is gone");
        runner->finish_status = HF_OK;
    }
}

/* The same in the time that there is for the course that the runner is on. */
static void finish_course(struct runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    runner->finish_course = runner->course;
    struct deadline deadline = runner->stop_deadline;
    pthread_mutex_unlock(&runner->mutex);
    bool halts = runner->finish_course == COURSE_HALT;
    finish(runner, halts ? stop_deadlines_until(deadline).store : bus_deadline(runner->bus));
}

static void finish_again(struct runner *runner)
{
    if (runner->finish_status) {
        finish_course(runner);
    }
}

/* As after a start: what the last finish found is over. */
static void begin(struct runner *runner)
{
    enter(runner, PHASE_WORK);
    runner->finish_status = HF_OK;
    runner->pause_ms = 0;
    runner->left = false;
    runner->retry_refresh_us = 0;
    runner->said[0] = '\0';
    runner_need(runner, NEED_DEFINITION);
    pthread_mutex_lock(&runner->mutex);
    runner_lower(runner, BAR_REMOVED);
    pthread_mutex_unlock(&runner->mutex);
}

/* Stores what is left and gives back what is ours; from PAUSE, if that failed before. */
static void end_drain(struct runner *runner)
{
    bool first = runner->phase == PHASE_DRAIN;
    if (first) {
        HF_POINT("before_finish");
    }
    enter(runner, PHASE_RETIRE);
    if (first) {
        finish_course(runner);
        watch_poke(runner->bus);
    } else {
        finish_again(runner);
    }
}

/* A stop waits for the runner. */
static void halt(struct runner *runner)
{
    enter(runner, PHASE_HALT);
    pthread_mutex_lock(&runner->mutex);
    if (runner->aborting) {
        runner->finish_course = COURSE_WORK; /* it is tried once more when nothing is in its way */
    }
    pthread_mutex_unlock(&runner->mutex);
}

/* Tries again later, and later and later. */
static void try_later(struct runner *runner)
{
    int64_t pause_ms = runner->pause_ms > 0 ? 2 * runner->pause_ms : RETRY_MS_MIN;
    runner->pause_ms = pause_ms < STORE_RETRY_MS_MAX ? pause_ms : STORE_RETRY_MS_MAX;
    runner->pause_us = clock_mono_us() + runner->pause_ms * 1000;
    enter(runner, PHASE_PAUSE);
}

/* Everything was given back, or could not be. */
static void retire(struct runner *runner)
{
    switch (subscription_retired(runner)) {
    case RETIRED_GONE:
        enter(runner, PHASE_OVER);
        break;
    case RETIRED_HALTED:
        halt(runner);
        break;
    case RETIRED_WANTED:
        begin(runner);
        break;
    case RETIRED_NOT_YET:
        try_later(runner);
        break;
    }
}

/* Nothing is in the way of a stop any more. A runner that retired had another time than a stop. */
static void leave(struct runner *runner)
{
    if (runner->finish_course != COURSE_HALT) {
        finish_again(runner);
    }
    timekeeper_remove(&runner->bus->timekeeper, runner);
    enter(runner, PHASE_OVER);
}

bool runner_end_phase(struct runner *runner, enum action action)
{
    switch (action) {
    case ACTION_END:
        enter(runner, PHASE_DRAIN);
        HF_POINT("before_drain");
        break;
    case ACTION_RESUME:
        enter(runner, PHASE_WORK);
        break;
    case ACTION_FINISH:
        end_drain(runner);
        break;
    case ACTION_RETIRE:
        retire(runner);
        break;
    case ACTION_LEAVE:
        leave(runner);
        break;
    default:
        break;
    }
    return runner->phase != PHASE_OVER;
}

void runner_left(struct seat *seat)
{
    struct runner *runner = (struct runner *)((char *)seat - offsetof(struct runner, seat));
    pthread_mutex_lock(&runner->mutex);
    runner->present = false;
    pthread_cond_broadcast(&runner->changed);
    pthread_mutex_unlock(&runner->mutex);
    runner_unreference(runner);
}

hf_status runner_start(struct runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    runner->course = runner->handlers->count > 0 ? COURSE_WORK : COURSE_RETIRE;
    runner->stop_deadline = DEADLINE_NEVER;
    runner->present = true;
    pthread_mutex_unlock(&runner->mutex);
    begin(runner);
    runner_reference(runner);
    timekeeper_add(&runner->bus->timekeeper, runner);
    hf_status status = dispatchers_add(&runner->bus->dispatchers, &runner->seat);
    if (status) {
        timekeeper_remove(&runner->bus->timekeeper, runner);
        runner->phase = PHASE_OVER; /* it has never begun */
        pthread_mutex_lock(&runner->mutex);
        runner->course = COURSE_HALT;
        runner->present = false;
        pthread_mutex_unlock(&runner->mutex);
        runner_unreference(runner);
    }
    return status;
}

void runner_stop_begin(struct runner *runner, struct deadline deadline)
{
    pthread_mutex_lock(&runner->mutex);
    if (runner->present) {
        runner->course = COURSE_HALT;
        runner->stop_deadline = deadline;
        for (struct worker *worker = runner->workers; worker; worker = worker->next) {
            atomic_store(&worker->cancelled, true);
        }
        dispatchers_expect(&runner->bus->dispatchers, deadline.mono_us);
        runner_course_changed(runner);
    }
    pthread_mutex_unlock(&runner->mutex);
}

bool runner_is_present(struct runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    bool present = runner->present;
    pthread_mutex_unlock(&runner->mutex);
    return present;
}

/* Waits for its last turn. */
static bool wait_left(struct runner *runner, struct deadline deadline)
{
    bool in_time = true;
    pthread_mutex_lock(&runner->mutex);
    while (runner->present && in_time) {
        in_time = cond_wait_until(&runner->changed, &runner->mutex, deadline);
    }
    bool left = !runner->present;
    pthread_mutex_unlock(&runner->mutex);
    return left;
}

hf_status runner_join(struct runner *runner, struct deadline deadline)
{
    return wait_left(runner, deadline)
               ? HF_OK
               : fail(HF_TIMEOUT,
                      "%s: it still waits for the database; what it has is given back "
                      "when that answers",
                      runner->name);
}

/* Waits for its last turn. A runner that has nothing to store is not waited for while the database
 * cannot be reached. */
static hf_status join(struct runner *runner, const struct stop_deadlines *stop_deadlines)
{
    struct deadline look = deadline_after_ms(LOOK_MS);
    subscriptions_leave(runner->bus, stop_deadlines);
    while (!wait_left(runner, deadline_earlier(look, stop_deadlines->threads)) &&
           !deadline_passed(stop_deadlines->threads)) {
        subscriptions_leave(runner->bus, stop_deadlines);
        if (!store_is_away(runner->bus->store)) {
            (void)departures_send(runner->bus, stop_deadlines->store); /* at last by the bus */
        }
        if (deadline_passed(stop_deadlines->idle) && runner_is_idle(runner) &&
            store_is_away(runner->bus->store)) {
            break;
        }
        look = deadline_after_ms(LOOK_MS);
    }
    return runner_join(runner, deadline_after_ms(0));
}

hf_status runner_stop_end(struct runner *runner, const struct stop_deadlines *stop_deadlines)
{
    bool again = !runner_is_present(runner) || runner->left; /* it tried in another stop's time */
    hf_status status = join(runner, stop_deadlines);
    runner->left = status != HF_OK;
    if (status) {
        return status;
    }
    if (again && runner->finish_status) {
        finish(runner, stop_deadlines->store);
    }
    pthread_mutex_lock(&runner->mutex);
    bool in_time = true;
    while (runner->stuck > 0 && in_time) {
        in_time = cond_wait_until(&runner->changed, &runner->mutex, stop_deadlines->handlers);
    }
    int32_t stuck = runner->stuck;
    pthread_mutex_unlock(&runner->mutex);
    if (stuck > 0) {
        return fail(HF_TIMEOUT, "%s: a handler had not returned by the deadline", runner->name);
    }
    return runner->finish_status ? err_set(runner->finish_status, runner->finish_message) : HF_OK;
}
