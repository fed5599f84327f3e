/*
 * retention.c - taking away what a namespace need not keep any more.
 *
 * A run asks the store for a plan, then lets it take a step, and another, until there is nothing
 * left to do. It keeps nothing in mind: a run that ends early, because the process dies or the
 * database is away, is continued by the next one, in whichever process.
 *
 * A started bus looks about hourly: the scheduler says when it is time, and starts a thread that
 * ends when it is done. Of many processes one has the turn: the store gives it to the first that
 * asks when no process had it for RETENTION_TURN_MS. None of them
 * leads, so none is missed when it dies; a turn that is lost with its process comes again within
 * the hour.
 *
 * A long transaction of another session may be in the way (PostgreSQL). The step is tried again
 * BUSY_TRIES times, and left to the next run.
 */
#include "bus/timers/retention.h"
#include "bus/timers/types.h"

#include <time.h>

#include "base/companion.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/text/glob.h"
#include "base/time/clock.h"
#include "store/retention.h"

#define BUSY_TRIES 5
#define BUSY_PAUSE_MS 200

struct retention {
    hf_bus *bus;
    struct companion companion;
    pthread_mutex_t mutex; /* guards what follows, and the companion until it is stopping */
    struct deadline due;   /* when the next thread is started */
    bool stopping;
};

/* ---- A run ----------------------------------------------------------------------------------- */

struct run {
    hf_bus *bus;
    struct text name; /* absent: the bus's own */
    struct retention_plan plan;
    int64_t every_ms; /* until it is known that it is our turn; then 0 */
    hf_retention_fn progress;
    void *ctx;
    hf_retention_info info;
    bool over; /* nothing left to do, or the caller has stopped it */
};

static bool tell(struct run *run)
{
    return run->progress && run->progress(&run->info, run->ctx) != 0;
}

/* A subscription has lost events: that must not go unnoticed. */
static void tell_dropped(struct run *run, const struct retain *step)
{
    run->info.dropped_name = step->ret_dropped_name[0] ? step->ret_dropped_name : NULL;
    run->info.dropped_from = step->ret_dropped_from;
    run->info.dropped_through = step->ret_dropped_through;
    if (run->info.dropped_name) {
        log_about(&run->bus->log, HF_LOG_WARN, step->ret_dropped_name,
                  "retention moved it from position %lld to %lld: what it had not finished there "
                  "is dropped (lagging=drop)",
                  (long long)step->ret_dropped_from, (long long)step->ret_dropped_through);
    }
}

static hf_status take_step(struct run *run, struct retain *step)
{
    hf_status status = HF_BUSY;
    int64_t begun_events = 0;
    int64_t begun_bytes = 0;
    for (int tries = 0; tries < BUSY_TRIES && status == HF_BUSY; tries++) {
        if (tries > 0) {
            nanosleep(&(struct timespec){.tv_nsec = BUSY_PAUSE_MS * 1000000}, NULL);
        }
        *step = (struct retain){
            .change = {.kind = CHANGE_RETAIN, .now_us = clock_wall_us()},
            .name = run->name,
            .through = run->plan.through,
            .every_ms = run->every_ms,
        };
        status = store_retain(run->bus->store, step, bus_deadline(run->bus));
        if (!step->change.status) {
            run->every_ms = 0; /* the turn is ours, also if what followed it failed */
            begun_events = step->ret_events > 0 ? step->ret_events : begun_events;
            begun_bytes = step->ret_bytes > 0 ? step->ret_bytes : begun_bytes;
        }
    }
    run->info.events += status ? 0 : begun_events;
    run->info.bytes += status ? 0 : begun_bytes;
    return status;
}

static hf_status run_steps(struct run *run)
{
    hf_status status = HF_OK;
    while (!status && !run->over) {
        struct retain step;
        status = take_step(run, &step);
        HF_POINT("mid_retention");
        if (!status) {
            tell_dropped(run, &step);
            bool enough = tell(run);
            run->over = enough || !step.ret_taken || !step.ret_more;
        }
    }
    return status;
}

static hf_status run_plan(struct run *run)
{
    struct retention_plan *plan = &run->plan;
    hf_status status = store_retention_plan(run->bus->store, run->name, clock_wall_us(), plan);
    if (!status) {
        run->info = (hf_retention_info){
            .planned_events = plan->events,
            .planned_bytes = plan->bytes,
            .through = plan->due ? plan->through : 0,
            .by_size = plan->by_size ? 1 : 0,
            .kept_by = plan->lagging[0] && !plan->drops ? plan->lagging : NULL,
        };
    }
    return status;
}

hf_status hf_retention_run(hf_bus *bus, const char *name, hf_toggle dry_run,
                           hf_retention_fn progress, void *ctx)
{
    hf_status status = name ? bus_check_handle(bus) : bus_check(bus);
    if (!status && name) {
        status = glob_check_name(text_of(name), "namespace name", HF_NAMESPACE_BYTES_MAX);
    }
    if (!status && (dry_run < HF_TOGGLE_DEFAULT || dry_run > HF_ON)) {
        status = fail(HF_INVALID, "dry_run is %d, which is no hf_toggle", (int)dry_run);
    }
    if (status) {
        return status;
    }
    struct run run = {
        .bus = bus,
        .name = name ? text_of(name) : TEXT_ABSENT,
        .progress = progress,
        .ctx = ctx,
    };
    status = run_plan(&run);
    if (status || dry_run == HF_ON) {
        if (!status) {
            tell(&run);
        }
        return status;
    }
    return run_steps(&run);
}

/* ---- Taking turns ---------------------------------------------------------------------------- */

static bool is_stopping(struct retention *retention)
{
    pthread_mutex_lock(&retention->mutex);
    bool stopping = retention->stopping;
    pthread_mutex_unlock(&retention->mutex);
    return stopping;
}

static bool stops(void *ctx)
{
    return is_stopping(ctx);
}

/* What a process that changed the index on types has left undone. */
static void tend_types(struct retention *retention)
{
    hf_bus *bus = retention->bus;
    hf_status status = types_run(bus, TEXT_ABSENT, stops, retention);
    if (status && status != HF_DENIED && status != HF_NOTFOUND) {
        log_about(&bus->log, HF_LOG_WARN, NULL, "the index on types: %s", err_message());
    }
}

static int stop_early(const hf_retention_info *info, void *ctx)
{
    (void)info;
    return is_stopping(ctx);
}

/* The first step asks for the turn and takes nothing: the plan, which may mean much reading, is
 * made only by the process that has it. */
static void take_turn(struct retention *retention)
{
    hf_bus *bus = retention->bus;
    struct run run = {
        .bus = bus,
        .name = TEXT_ABSENT,
        .every_ms = RETENTION_TURN_MS,
        .progress = stop_early,
        .ctx = retention,
    };
    struct retain step;
    hf_status status = take_step(&run, &step);
    if (!status && step.ret_taken) {
        tend_types(retention);
        status = run_plan(&run);
        if (!status) {
            status = run_steps(&run);
        }
    }
    if (status) {
        /* A role that may only publish leaves it to others. */
        log_about(&bus->log, status == HF_DENIED ? HF_LOG_DEBUG : HF_LOG_WARN, NULL,
                  "retention: %s", err_message());
    } else if (run.info.events > 0) {
        log_about(&bus->log, HF_LOG_INFO, NULL,
                  "retention took about %lld events, up to position %lld",
                  (long long)run.info.events, (long long)run.info.through);
    }
}

static void *retention_main(void *ctx)
{
    struct retention *retention = ctx;
    if (!is_stopping(retention)) {
        take_turn(retention);
    }
    if (companion_end(&retention->companion)) {
        bus_unreference(retention->bus);
    }
    return NULL;
}

static hf_status init(struct retention *retention)
{
    hf_status status = mutex_init(&retention->mutex);
    if (status) {
        return status;
    }
    status = companion_init(&retention->companion);
    if (status) {
        pthread_mutex_destroy(&retention->mutex);
    }
    return status;
}

static void release(struct retention *retention)
{
    companion_release(&retention->companion);
    pthread_mutex_destroy(&retention->mutex);
}

hf_status retention_start(hf_bus *bus)
{
    if (bus->retention) {
        return HF_OK;
    }
    struct retention *retention = mem_calloc(1, sizeof *retention);
    if (!retention) {
        return fail(HF_NOMEM, "out of memory");
    }
    retention->bus = bus;
    retention->due = deadline_after_ms(RETENTION_FIRST_MS);
    hf_status status = init(retention);
    if (status) {
        mem_free(retention);
        return status;
    }
    bus->retention = retention;
    return HF_OK;
}

struct deadline retention_look(hf_bus *bus)
{
    struct retention *retention = bus->retention;
    pthread_mutex_lock(&retention->mutex);
    if (deadline_passed(retention->due)) {
        bool ended =
            !retention->stopping && companion_join(&retention->companion, deadline_after_ms(0));
        bool started = ended && companion_start(&retention->companion, "hf-retention",
                                                retention_main, retention) == HF_OK;
        retention->due = deadline_after_ms(started ? RETENTION_PERIOD_MS : RETENTION_FIRST_MS);
    }
    struct deadline due = retention->due;
    pthread_mutex_unlock(&retention->mutex);
    return due;
}

void retention_stop_begin(hf_bus *bus)
{
    struct retention *retention = bus->retention;
    if (retention) {
        pthread_mutex_lock(&retention->mutex);
        retention->stopping = true;
        pthread_mutex_unlock(&retention->mutex);
    }
}

bool retention_stop_end(hf_bus *bus, struct deadline deadline)
{
    if (bus->retention && !companion_join(&bus->retention->companion, deadline)) {
        return false;
    }
    retention_free(bus);
    return true;
}

void retention_leave(hf_bus *bus)
{
    if (bus->retention) {
        bus_reference(bus); /* the thread's */
        if (!companion_leave(&bus->retention->companion)) {
            bus_unreference(bus);
        }
    }
}

void retention_free(hf_bus *bus)
{
    if (bus->retention && !store_poisoned(bus->store)) {
        release(bus->retention);
    }
    mem_free(bus->retention);
    bus->retention = NULL;
}
