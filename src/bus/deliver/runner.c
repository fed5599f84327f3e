/*
 * runner.c - a runner's memory, its definition, and failures of the store. See runner.h.
 *
 * If the store fails (disk full, file locked for long), what is in hand stays in hand and the same
 * step is tried again later; meanwhile an ordered subscription begins nothing (runner_away). If the
 * ownership or a lease is lost, what is in hand is dropped as soon as no handler runs on it:
 * another process has it.
 */
#include "bus/deliver/runner.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "base/uuid.h"
#include "bus/deliver/work/verdict.h"
#include "bus/options.h"
#include "bus/watch.h"
#include "store/timers.h"

#define REFUSED_AT_ONCE 3 /* refused settles in a row that are tried again at once */

/* How much is in hand, and settled at once. */
struct sizes {
    int32_t log;
    int32_t retries;
    size_t flush;
};

/* Where units come again whole all that has ended is settled at once, so that none is torn apart,
 * and there is room for two units that come again. */
static struct sizes sizes_for(const hf_subscription_options *options,
                              const struct unit_limits *limits)
{
    struct sizes sizes = {options->inflight_max, options->batch, RUNNER_FLUSH_MAX};
    if (limits->whole) {
        int32_t unit = limits->events_max;
        sizes.log = sizes.log < unit + 1 ? unit + 1 : sizes.log; /* one more shows what is cut */
        sizes.log = sizes.log < 2 * UNIT_EVENTS_MAX ? sizes.log : 2 * UNIT_EVENTS_MAX;
        sizes.retries = 2 * unit;
        sizes.flush = (size_t)(sizes.log + sizes.retries);
    }
    return sizes;
}

hf_status runner_new(hf_bus *bus, const struct definition *definition, struct handlers *handlers,
                     struct runner **ret_runner)
{
    struct runner *runner = mem_calloc(1, sizeof *runner);
    if (!runner) {
        return fail(HF_NOMEM, "out of memory for a runner");
    }
    atomic_store(&runner->references, 1);
    bool ordered = definition->options.mode == HF_MODE_ORDERED;
    runner->mode = ordered ? &ordered_mode : &shared_mode;
    runner->definition.id = definition->id;
    runner->needs = NEED_DEFINITION;
    runner->cancels.unread = true;
    runner->phase = PHASE_OVER;
    runner->rate_wake_us = INT64_MAX;
    breaker_init(&runner->breaker);
    definition_init(&runner->definition);
    runner->definition.id = definition->id;
    runner->definition.options = definition->options;
    runner->name = mem_dup(definition->name.bytes, definition->name.length);
    hf_status status = runner->name ? HF_OK : fail(HF_NOMEM, "out of memory for a runner");
    runner->limits = unit_limits(&definition->options, handlers->kind);
    struct sizes sizes = sizes_for(&definition->options, &runner->limits);
    settlement_init(&runner->settlement, sizes.flush);
    if (!status) {
        status = window_init(&runner->window, sizes.log, sizes.retries, ordered,
                             definition->options.partitions);
    }
    if (!status) {
        status = ordered ? ordered_new(definition->options.partitions, &runner->ordered)
                         : shared_new(&runner->shared);
    }
    if (!status) {
        status = mutex_init(&runner->mutex);
    }
    if (!status) {
        status = cond_init(&runner->changed);
    }
    if (!status) {
        status = cond_init(&runner->work);
    }
    if (status) {
        ordered_free(runner->ordered);
        shared_free(runner->shared);
        window_release(&runner->window, NULL);
        mem_free(runner->name);
        mem_free(runner);
        return status;
    }
    runner->bus = bus;
    runner->meter = meters_of(&bus->meters, runner->name);
    bus_reference(bus);
    runner->handlers = handlers;
    runner->window.whole = runner->limits.whole;
    *ret_runner = runner;
    return HF_OK;
}

void runner_reference(struct runner *runner)
{
    atomic_fetch_add(&runner->references, 1);
}

/* A warning that waits until it can be logged without the mutex. */
struct notice {
    struct notice *next;
    char text[256];
};

void runner_unreference(struct runner *runner)
{
    if (!runner || atomic_fetch_sub(&runner->references, 1) > 1) {
        return;
    }
    window_release(&runner->window, &runner->batch_pool);
    batch_pool_release(&runner->batch_pool);
    settlement_put_away(&runner->settlement);
    ordered_free(runner->ordered);
    shared_free(runner->shared);
    mem_free(runner->cancels.requests);
    handlers_unreference(runner->handlers);
    definition_release(&runner->definition);
    while (runner->notices) {
        struct notice *notice = runner->notices;
        runner->notices = notice->next;
        mem_free(notice);
    }
    pthread_mutex_destroy(&runner->mutex);
    pthread_cond_destroy(&runner->changed);
    pthread_cond_destroy(&runner->work);
    hf_bus *bus = runner->bus;
    mem_free(runner->name);
    mem_free(runner);
    bus_unreference(bus);
}

/* ---- Memory for what is in hand -------------------------------------------------------------- */

hf_status runner_prepare(struct runner *runner)
{
    hf_status status = window_prepare(&runner->window);
    return status ? status : settlement_prepare(&runner->settlement);
}

/* Most of many subscriptions have nothing to do at any moment, and what each of them has by default
 * is 200 KB. What is done above the checkpoint may yet have to be stored. */
void runner_put_away(struct runner *runner)
{
    if (!runner->settlement.slots || dispatchers_seats(&runner->bus->dispatchers) < RUNNERS_MANY) {
        return;
    }
    pthread_mutex_lock(&runner->mutex);
    bool away = window_put_away(&runner->window, &runner->batch_pool);
    pthread_mutex_unlock(&runner->mutex);
    if (away) {
        settlement_put_away(&runner->settlement);
        batch_pool_release(&runner->batch_pool);
    }
}

/* ---- Needs and bars -------------------------------------------------------------------------- */

void runner_need(struct runner *runner, uint32_t needs)
{
    atomic_fetch_or(&runner->needs, needs);
}

void runner_call(struct runner *runner, uint32_t needs)
{
    runner_need(runner, needs | NEED_TURN);
    dispatchers_call(&runner->bus->dispatchers, &runner->seat);
}

uint32_t runner_take(struct runner *runner, uint32_t needs)
{
    return atomic_fetch_and(&runner->needs, ~needs) & needs;
}

bool runner_needs(const struct runner *runner, uint32_t needs)
{
    return (atomic_load(&runner->needs) & needs) != 0;
}

void runner_raise(struct runner *runner, uint32_t bars)
{
    runner->bars |= bars;
    runner_need(runner, bars & BAR_HELD_BACK ? NEED_ADMISSION : 0);
}

void runner_lower(struct runner *runner, uint32_t bars)
{
    runner->bars &= ~bars;
}

/* ---- Asking the store ------------------------------------------------------------------------ */

/* The dispatcher asks the store something without which nothing is stored. */
static void begin_asking(struct runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    runner->asked_us = clock_mono_us();
    pthread_mutex_unlock(&runner->mutex);
}

/* It has the answer. If that was late a connection may have been lost and made again meanwhile: is
 * what is in hand still ours? */
static void end_asking(struct runner *runner)
{
    dispatchers_moved(&runner->seat);
    pthread_mutex_lock(&runner->mutex);
    bool late = clock_mono_us() - runner->asked_us >= RUNNER_LATE_US;
    runner->asked_us = 0;
    if (late && runner->ordered && runner_has_work(runner)) {
        runner_need(runner, NEED_TURN);
    }
    pthread_mutex_unlock(&runner->mutex);
    if (late) {
        runner_away(runner);
    }
}

hf_status runner_run(struct runner *runner, struct change *change)
{
    struct deadline deadline = bus_deadline(runner->bus);
    if (runner_is_finishing(runner)) {
        deadline = deadline_earlier(deadline, runner->finish_deadline);
        if (deadline_passed(deadline)) { /* a store that hangs is not asked once more */
            return change->status = fail(HF_TIMEOUT, "the time to stop in is over");
        }
    }
    begin_asking(runner);
    hf_status status = store_run(runner->bus->store, change, deadline);
    end_asking(runner);
    return status;
}

void runner_run_both(struct runner *runner, struct change *first, struct change *second)
{
    struct change *changes[] = {first, second};
    assert(!runner_is_finishing(runner));
    begin_asking(runner);
    store_run_together(runner->bus->store, changes, 2, bus_deadline(runner->bus));
    end_asking(runner);
}

int64_t runner_apart_us(const struct runner *runner)
{
    int64_t runners = dispatchers_seats(&runner->bus->dispatchers);
    return runners >= RUNNERS_MANY ? runners * RUNNERS_APART_US : 0;
}

int64_t runner_checkpoint_us(const struct runner *runner)
{
    int64_t wait_us = runner->definition.options.checkpoint_ms * 1000;
    int64_t apart_us = runner_apart_us(runner);
    return wait_us > apart_us ? wait_us : apart_us;
}

void runner_say(struct runner *runner, hf_log_level level, const char *format, ...)
{
    char text[sizeof runner->said];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (strcmp(text, runner->said) == 0) {
        return;
    }
    memcpy(runner->said, text, sizeof text);
    if (text[0]) {
        log_about(&runner->bus->log, level, runner->name, "%s", text);
    }
}

void runner_note(struct runner *runner, const char *format, ...)
{
    struct notice *notice =
        runner->notice_count < RUNNER_NOTICES_MAX ? mem_calloc(1, sizeof *notice) : NULL;
    if (!notice) {
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(notice->text, sizeof notice->text, format, args);
    va_end(args);
    struct notice **at = &runner->notices;
    while (*at) {
        at = &(*at)->next;
    }
    *at = notice;
    runner->notice_count++;
    runner_call(runner, 0);
}

void runner_log_notices(struct runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    struct notice *first = runner->notices;
    runner->notices = NULL;
    runner->notice_count = 0;
    pthread_mutex_unlock(&runner->mutex);
    while (first) {
        struct notice *next = first->next;
        log_about(&runner->bus->log, HF_LOG_WARN, runner->name, "%s", first->text);
        mem_free(first);
        first = next;
    }
}

void runner_set_handlers(struct runner *runner, struct handlers *handlers)
{
    pthread_mutex_lock(&runner->mutex);
    struct handlers *old = runner->handlers;
    runner->handlers = handlers;
    atomic_fetch_add(&runner->handlers_version, 1);
    runner_raise(runner, BAR_HELD_BACK); /* until it is known whether these cover the patterns */
    if (runner->course != COURSE_HALT) {
        runner->course = handlers->count > 0 ? COURSE_WORK : COURSE_RETIRE;
    }
    runner_course_changed(runner);
    pthread_mutex_unlock(&runner->mutex);
    handlers_unreference(old);
}

void runner_course_changed(struct runner *runner)
{
    if (runner->course != COURSE_WORK) {
        pthread_cond_broadcast(&runner->work);
    }
    runner_call(runner, 0);
}

/* ---- The definition -------------------------------------------------------------------------- */

/* Would the log be read differently by the new definition? */
static bool reads_differently(const struct definition *old, const struct definition *fresh)
{
    bool same = old->pattern_count == fresh->pattern_count &&
                old->options.order == fresh->options.order &&
                old->options.partitions == fresh->options.partitions &&
                old->options.gap_timeout_ms == fresh->options.gap_timeout_ms &&
                old->options.on_unhandled == fresh->options.on_unhandled;
    for (size_t i = 0; same && i < fresh->pattern_count; i++) {
        same = text_equal(old->patterns[i], fresh->patterns[i]);
    }
    return !same;
}

static int ignore_epoch(int32_t partition, int64_t epoch, void *ctx)
{
    (void)partition;
    (void)epoch;
    (void)ctx;
    return 0;
}

/* Asks how the subscription stands, in numbers: is the definition that we have the one that is
 * stored? A subscription that has been removed has another one, too. */
static hf_status look_at_standing(struct runner *runner, bool *ret_same)
{
    struct standing standing;
    begin_asking(runner);
    hf_status status =
        store_standing(runner->bus->store, runner->definition.id, &standing, ignore_epoch, NULL);
    end_asking(runner);
    *ret_same = !status && standing.generation == runner->definition.generation;
    if (!status) {
        pthread_mutex_lock(&runner->mutex);
        runner->members_version = standing.members_version;
        pthread_mutex_unlock(&runner->mutex);
    }
    return status == HF_NOTFOUND ? HF_OK : status;
}

/* The definition could not be read: without it nothing is stored. */
static void not_refreshed(struct runner *runner, hf_status status)
{
    runner_away(runner);
    runner_store_failed(runner, status, "reading the subscription");
    runner->retry_refresh_us = runner->retry_store_us;
}

/* The subscription is gone: the runner retires. */
static void was_removed(struct runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    runner_raise(runner, BAR_REMOVED);
    if (runner->course == COURSE_WORK) {
        runner->course = COURSE_RETIRE;
        runner_course_changed(runner);
    }
    pthread_mutex_unlock(&runner->mutex);
    runner_say(runner, HF_LOG_WARN, "the subscription was removed");
}

bool runner_breaks(const struct runner *runner)
{
    return runner->definition.options.breaker == HF_ON;
}

/* What the fresh definition says of the breaker. The mutex is held. */
static void adopt_breaker(struct runner *runner, const struct definition *fresh)
{
    bool on = fresh->options.breaker == HF_ON;
    bool stored = !text_is_absent(fresh->breaker_json);
    if (on && !runner_needs(runner, NEED_BREAKER)) {
        if (stored && (!runner_breaks(runner) || runner->breaker.state == BREAKER_CLOSED)) {
            breaker_read(fresh->breaker_json, &runner->breaker); /* another process opened it */
        } else if (!stored && runner->breaker.state != BREAKER_CLOSED) {
            breaker_init(&runner->breaker); /* the subscription was resumed, or its probe ran */
        }
    }
    if (!on) {
        runner_lower(runner, BAR_BREAKER);
    } else if (runner->breaker.state != BREAKER_CLOSED && !runner->probe_wanted) {
        runner_raise(runner, BAR_BREAKER); /* before anything is read: ask_breaker may lower it */
    }
}

/* Goes by the fresh definition from now on; what it refers to is handed over. */
static void adopt(struct runner *runner, struct definition *fresh, int64_t mono_us)
{
    bool differs = reads_differently(&runner->definition, fresh);
    runner->cancels.unread |= runner->definition.generation != fresh->generation;
    pthread_mutex_lock(&runner->mutex);
    adopt_breaker(runner, fresh);
    struct definition old = runner->definition;
    runner->definition = *fresh;
    runner->limits = unit_limits(&fresh->options, runner->handlers->kind);
    /* In one go: a worker that comes for more between the two would find neither reason. */
    if (runner->definition.paused_at_us >= 0) {
        runner_raise(runner, BAR_HELD_BACK);
    }
    if (!runner_is_urgent(runner)) {
        runner_lower(runner, BAR_HALTING); /* stored: whether it is paused is known now */
    }
    dispatchers_expect(&runner->bus->dispatchers, mono_us); /* the limits may be others now */
    pthread_mutex_unlock(&runner->mutex);
    definition_release(&old);
    runner_need(runner, NEED_ADMISSION);
    runner->mode->adopt(runner, differs);
    watch_lease(runner->bus, runner->definition.options.lease_ms);
}

void runner_refresh(struct runner *runner, int64_t mono_us)
{
    bool same;
    uint32_t news = runner_take(runner, NEED_STANDING);
    hf_status status = look_at_standing(runner, &same);
    if (status) {
        runner_need(runner, news);
        not_refreshed(runner, status);
        return;
    }
    if (same && !runner_needs(runner, NEED_DEFINITION)) {
        runner->refreshed_us = mono_us;
        runner->retry_refresh_us = 0;
        return;
    }
    runner_need(runner, NEED_DEFINITION); /* until it could be read */
    struct definition fresh;
    definition_init(&fresh);
    status = definition_load_id(runner->bus, runner->definition.id, &fresh);
    if (status) {
        if (status == HF_NOTFOUND) {
            was_removed(runner);
        } else {
            not_refreshed(runner, status);
        }
        definition_release(&fresh);
        return;
    }
    runner->refreshed_us = mono_us;
    runner->retry_refresh_us = 0;
    runner_take(runner, NEED_DEFINITION);
    adopt(runner, &fresh, mono_us);
}

/* Does the definition allow work with these handlers? If not, the log says why. */
static bool admits(struct runner *runner, const struct handlers *handlers)
{
    const struct definition *definition = &runner->definition;
    struct text missing = TEXT_ABSENT;
    if (definition->paused_at_us >= 0) {
        runner_say(runner, HF_LOG_INFO, "paused by %" TEXT_PRI "%s%" TEXT_PRI,
                   TEXT_ARG(definition->paused_by), definition->paused_reason.length ? ": " : "",
                   TEXT_ARG(definition->paused_reason));
        return false;
    }
    if (!handlers_cover(handlers, definition->patterns, definition->pattern_count, &missing)) {
        runner_say(runner, HF_LOG_WARN,
                   "stands by: no handler in this process covers the stored pattern %" TEXT_PRI,
                   TEXT_ARG(missing));
        return false;
    }
    return true;
}

void runner_admit(struct runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    runner_take(runner, NEED_ADMISSION);
    struct handlers *handlers = handlers_reference(runner->handlers);
    pthread_mutex_unlock(&runner->mutex);
    bool may = admits(runner, handlers);
    pthread_mutex_lock(&runner->mutex);
    bool same = handlers == runner->handlers; /* else that is for the next time */
    if (may && same) {
        runner_lower(runner, BAR_HELD_BACK);
    } else if (!may) {
        runner_raise(runner, BAR_HELD_BACK);
        if (same) {
            runner_take(runner, NEED_ADMISSION);
        }
    }
    pthread_mutex_unlock(&runner->mutex);
    handlers_unreference(handlers);
}

bool runner_may_work(struct runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    bool may = plan_admits(atomic_load(&runner->needs), runner->bars);
    pthread_mutex_unlock(&runner->mutex);
    return may;
}

/* ---- Failures of the store ------------------------------------------------------------------- */

void runner_store_failed(struct runner *runner, hf_status status, const char *doing)
{
    runner->store_failures++;
    int64_t ms = 10LL << (runner->store_failures < 8 ? runner->store_failures : 8);
    ms = ms > STORE_RETRY_MS_MAX ? STORE_RETRY_MS_MAX : ms;
    runner->retry_store_us = clock_mono_us() + ms * 1000;
    runner_say(runner, HF_LOG_ERROR, "%s failed (%s: %s); trying again", doing,
               hf_status_name(status), err_message());
}

void runner_settle_refused(struct runner *runner, hf_status status)
{
    int64_t late = ++runner->refused_settles - REFUSED_AT_ONCE;
    if (late <= 0) {
        return;
    }
    if (late == 1) {
        log_about(&runner->bus->log, HF_LOG_ERROR, runner->name,
                  "what has ended was refused %d times in a row (%s: %s); trying again, less and "
                  "less often",
                  REFUSED_AT_ONCE + 1, hf_status_name(status), err_message());
    }
    int64_t ms = 10LL << (late < 8 ? late : 8);
    ms = ms > STORE_RETRY_MS_MAX ? STORE_RETRY_MS_MAX : ms;
    runner->retry_store_us = clock_mono_us() + ms * 1000;
}

void runner_settle_worked(struct runner *runner)
{
    if (runner->refused_settles > REFUSED_AT_ONCE) {
        log_about(&runner->bus->log, HF_LOG_INFO, runner->name, "what ends is stored again");
    }
    runner->refused_settles = 0;
    runner_store_worked(runner);
}

void runner_store_worked(struct runner *runner)
{
    runner->store_failures = 0;
    runner->retry_store_us = 0;
}

void runner_away(struct runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    bool first = runner->ordered && !(runner->bars & BAR_AWAY);
    if (first) {
        runner_raise(runner, BAR_AWAY);
    }
    if (first && runner_bars(runner) == BAR_AWAY) {
        chunk_cut_all(runner);
    }
    pthread_mutex_unlock(&runner->mutex);
}

void runner_back(struct runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    runner_lower(runner, BAR_AWAY);
    runner_signal_work(runner);
    pthread_mutex_unlock(&runner->mutex);
}
