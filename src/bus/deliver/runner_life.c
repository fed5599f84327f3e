/*
 * runner_life.c - the dispatcher's thread: starting, stopping, retiring. See runner.h.
 *
 *     runner_start -> turns -> drain -> finish -> the thread ends
 *                       ^                  |
 *                       +---- goes_on -----+  a runner that retires, and has handlers again
 *
 * Draining waits until no handler runs; the timekeeper gives up those that do at the deadline of a
 * stop.
 * Finishing stores what is left to be stored and gives back what is ours.
 *
 * If something cannot be given back, a stop says so, and the next call that stops tries again. A
 * runner that retires tries again itself, with a growing pause, until it has given back everything,
 * or a stop takes over, or a handler is registered and it works again: what it still owes is then
 * given back as after hf_start.
 */
#include "bus/deliver/runner.h"

#include <stdio.h>

#include "base/err.h"
#include "base/point.h"
#include "base/time/clock.h"
#include "bus/watch.h"

#define RETRY_MS_MIN 10 /* between two tries to give back */
#define LOOK_MS 50      /* between two looks whether the database can be reached */

static bool works(struct runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    bool over = runner_is_over(runner);
    pthread_mutex_unlock(&runner->mutex);
    return !over;
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

/* By the thread, or, if that could not give everything back, by the next call that stops. If the
 * bus is shut down and nothing is to be stored, it is no failure that something cannot be given
 * back: closing the store gives everything back, or others see that the process is gone. */
static void finish(struct runner *runner, struct deadline by)
{
    HF_POINT("finish");
    bool last = runner_is_idle(runner) && atomic_load(&runner->bus->end) != BUS_OPEN;
    runner->finish_deadline = by;
    if (last) {
        runner->finish_deadline = deadline_earlier(by, deadline_after_ms(STOP_IDLE_MS));
    }
    runner->finishing = true;
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
    runner->finish_status = HF_OK;
    runner->finishing = false;
    runner->left = false;
    runner->retry_refresh_us = 0;
    runner->said[0] = '\0';
    runner_need(runner, NEED_DEFINITION);
    pthread_mutex_lock(&runner->mutex);
    runner_lower(runner, BAR_REMOVED);
    pthread_mutex_unlock(&runner->mutex);
}

/* Waits until the timekeeper has rolled back the transactions of handlers that were given up: one
 * in the middle of a statement keeps the lock that all writers need until the statement ends. True:
 * there was such a one. */
static bool wait_aborted(struct runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    bool any = runner->aborting;
    while (runner->aborting) {
        pthread_cond_wait(&runner->wake, &runner->mutex);
    }
    pthread_mutex_unlock(&runner->mutex);
    return any;
}

/* Everything was given back, or could not be. True: the dispatcher works again. */
static bool goes_on(struct runner *runner)
{
    for (int64_t pause_ms = RETRY_MS_MIN;;
         pause_ms = 2 * pause_ms < STORE_RETRY_MS_MAX ? 2 * pause_ms : STORE_RETRY_MS_MAX) {
        switch (subscription_retired(runner)) {
        case RETIRED_GONE:
            return false;
        case RETIRED_HALTED:
            if (wait_aborted(runner) || runner->finish_course != COURSE_HALT) {
                finish_again(runner); /* nothing is in its way now; a stop has its own time */
            }
            timekeeper_remove(&runner->bus->timekeeper, runner);
            return false;
        case RETIRED_WANTED:
            begin(runner);
            return true;
        case RETIRED_NOT_YET:
            break;
        }
        pthread_mutex_lock(&runner->mutex);
        if (runner->course == COURSE_RETIRE) {
            cond_wait_until(&runner->wake, &runner->mutex, deadline_after_ms(pause_ms));
        }
        pthread_mutex_unlock(&runner->mutex);
        finish_again(runner);
    }
}

static void *runner_main(void *ctx)
{
    struct runner *runner = ctx;
    bool more = true;
    while (more) {
        while (works(runner)) {
            runner_turn(runner);
        }
        if (runner_drain(runner)) {
            HF_POINT("before_finish");
            finish_course(runner);
            watch_poke(runner->bus);
            more = goes_on(runner);
        }
    }
    companion_end(&runner->companion);
    runner_unreference(runner);
    return NULL;
}

hf_status runner_start(struct runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    runner->course = runner->handlers->count > 0 ? COURSE_WORK : COURSE_RETIRE;
    runner->stop_deadline = DEADLINE_NEVER;
    pthread_mutex_unlock(&runner->mutex);
    begin(runner);
    runner_reference(runner);
    timekeeper_add(&runner->bus->timekeeper, runner);
    hf_status status = companion_start(&runner->companion, "hf-dispatch", runner_main, runner);
    if (status) {
        timekeeper_remove(&runner->bus->timekeeper, runner);
        pthread_mutex_lock(&runner->mutex);
        runner->course = COURSE_HALT;
        pthread_mutex_unlock(&runner->mutex);
        runner_unreference(runner);
    }
    return status;
}

void runner_stop_begin(struct runner *runner, struct deadline deadline)
{
    if (!runner->companion.present) {
        return;
    }
    pthread_mutex_lock(&runner->mutex);
    runner->course = COURSE_HALT;
    runner->stop_deadline = deadline;
    for (struct worker *worker = runner->workers; worker; worker = worker->next) {
        atomic_store(&worker->cancelled, true);
    }
    timekeeper_expect(&runner->bus->timekeeper, deadline.mono_us);
    runner_course_changed(runner);
    pthread_mutex_unlock(&runner->mutex);
}

hf_status runner_join(struct runner *runner, struct deadline deadline)
{
    return companion_join(&runner->companion, deadline)
               ? HF_OK
               : fail(HF_TIMEOUT,
                      "%s: it still waits for the database; what it has is given back "
                      "when that answers",
                      runner->name);
}

/* Waits for the dispatcher. One that has nothing to store is not waited for while the database
 * cannot be reached. */
static hf_status join(struct runner *runner, const struct stop_deadlines *stop_deadlines)
{
    struct deadline look = deadline_after_ms(LOOK_MS);
    subscriptions_leave(runner->bus, stop_deadlines);
    while (!companion_join(&runner->companion, deadline_earlier(look, stop_deadlines->threads)) &&
           !deadline_passed(stop_deadlines->threads)) {
        subscriptions_leave(runner->bus, stop_deadlines);
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
    bool again = !runner->companion.present || runner->left; /* it tried in another stop's time */
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
        in_time = cond_wait_until(&runner->wake, &runner->mutex, stop_deadlines->handlers);
    }
    int32_t stuck = runner->stuck;
    pthread_mutex_unlock(&runner->mutex);
    if (stuck > 0) {
        return fail(HF_TIMEOUT, "%s: a handler had not returned by the deadline", runner->name);
    }
    return runner->finish_status ? err_set(runner->finish_status, runner->finish_message) : HF_OK;
}
