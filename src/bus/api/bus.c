/*
 * bus.c - opening, starting, stopping and closing a bus.
 *
 * The handle is counted: the caller holds one reference, and every runner one. Usually the caller's
 * is the last, in hf_close. If a handler does not return by the deadline, its runner keeps the
 * handle (and the store) until it does; the leases have been given back by then, so its work goes
 * on elsewhere, and whatever it answers is refused.
 *
 * Stopping notifies all threads first and then waits, for the caller's time and a moment. A thread
 * that still waits for the store after that is not waited for. The next start or stop finds it;
 * after hf_close it keeps the handle until its call returns, as a handler does. Only asynchronous
 * publishes are always waited for: their callbacks must have run when the bus is shut down. They
 * are waited for last, because handlers may publish until they have ended (enum bus_end in bus.h).
 *
 * In a forked child nothing of the handle works (bus_check), and closing only frees memory: the
 * threads are the parent's, and so are the locks they may hold.
 */
#include "bus/bus.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/text/buf.h"
#include "base/text/glob.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "bus/api/async.h"
#include "bus/api/claimed.h"
#include "bus/api/definition_cache.h"
#include "bus/api/node.h"
#include "bus/deliver/runner.h"
#include "bus/deliver/tail/tail.h"
#include "bus/deliver/work/attempt.h"
#include "bus/subscription.h"
#include "bus/timers/retention.h"
#include "bus/timers/schedule.h"
#include "bus/watch.h"

#define PAYLOAD_BYTES_LIMIT (256LL << 20)
#define LET_GO_MS 1000 /* for threads that are about to end */
#define DAY_MS 86400000
#define QUEUE_EVENTS_DEFAULT 65536
#define QUEUE_BYTES_DEFAULT (64LL << 20)

const char *hf_status_name(hf_status status)
{
    return status_name(status);
}

const char *hf_status_text(hf_status status)
{
    return status_text(status);
}

int hf_status_retriable(hf_status status)
{
    return status_retriable(status) ? 1 : 0;
}

const char *hf_errmsg(void)
{
    return err_message();
}

const char *hf_version(void)
{
    return HF_VERSION;
}

/* ---- For all files of the bus ---------------------------------------------------------------- */

hf_status bus_check_handle(const hf_bus *bus)
{
    if (!bus) {
        return fail(HF_INVALID, "the bus is NULL");
    }
    if (store_poisoned(bus->store)) {
        return fail(HF_MISUSE, "this bus belongs to the parent process; open one after fork()");
    }
    return HF_OK;
}

hf_status bus_check(const hf_bus *bus)
{
    hf_status status = bus_check_handle(bus);
    if (!status && bus->no_namespace) {
        status = fail(HF_MISUSE, "this bus was opened without a namespace");
    }
    return status;
}

hf_status bus_check_open(const hf_bus *bus)
{
    hf_status status = bus_check(bus);
    return status || bus_admits(bus) ? status : bus_refuse(bus);
}

bool bus_admits(const hf_bus *bus)
{
    switch (atomic_load(&bus->end)) {
    case BUS_OPEN:
        return true;
    case BUS_DRAINING:
        return attempt_inside(bus);
    case BUS_CLOSED:
        break;
    }
    return false;
}

hf_status bus_refuse(const hf_bus *bus)
{
    attempt_excuse(bus);
    return fail(HF_CLOSED, "the bus is shut down");
}

/* Moves the bus on towards its end; it never comes back. The one place that changes bus->end. */
static void bus_end(hf_bus *bus, enum bus_end end)
{
    enum bus_end before = atomic_load(&bus->end);
    while (before < end && !atomic_compare_exchange_weak(&bus->end, &before, end)) {
    }
}

struct deadline bus_deadline(const hf_bus *bus)
{
    return deadline_after_ms(bus->timeout_ms);
}

hf_status bus_run(hf_bus *bus, struct change *change)
{
    return store_run(bus->store, change, bus_deadline(bus));
}

hf_status bus_check_size(size_t size, size_t own_bytes, size_t first_bytes, const char *what)
{
    bool possible = size >= first_bytes && size <= own_bytes && size % sizeof size == 0;
    return possible ? HF_OK
                    : fail(HF_INVALID,
                           "%s has size %zu, this library knows %zu: initialise it with its _INIT "
                           "macro",
                           what, size, own_bytes);
}

hf_status bus_read_options(void *own, size_t own_bytes, size_t first_bytes, const void *given,
                           const char *what)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    hf_status status = bus_check_size(size, own_bytes, first_bytes, what);
    if (status) {
        return status;
    }
    memcpy(own, given, size);
    memcpy(own, &own_bytes, sizeof own_bytes);
    return HF_OK;
}

void bus_reference(hf_bus *bus)
{
    atomic_fetch_add(&bus->references, 1);
}

void bus_unreference(hf_bus *bus)
{
    if (atomic_fetch_sub(&bus->references, 1) > 1) {
        return;
    }
    async_free(bus);
    watch_free(bus);
    scheduler_free(bus);
    retention_free(bus);
    definition_cache_free(bus->definition_cache);
    claimed_free(bus->claimed);
    meters_release(&bus->meters);
    set64_release(&bus->entries);
    tail_free(bus->tail);
    bool poisoned = store_poisoned(bus->store);
    store_close(bus->store);
    if (!poisoned) {
        pthread_cond_destroy(&bus->retired);
        pthread_mutex_destroy(&bus->mutex);
        pthread_mutex_destroy(&bus->making);
        pthread_mutex_destroy(&bus->life);
        exclusive_release(&bus->exclusive);
        timekeeper_release(&bus->timekeeper);
        dispatchers_release(&bus->dispatchers);
        departures_release(&bus->departures);
        assignments_release(&bus->assignments);
    }
    mem_free(bus->node_name);
    mem_free(bus->namespace_name);
    mem_free(bus);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static hf_status check_number(int64_t *value, int64_t fallback, int64_t min, int64_t max,
                              const char *name)
{
    if (*value == -1) {
        *value = fallback;
    }
    return *value >= min && *value <= max
               ? HF_OK
               : fail(HF_INVALID, "%s is %lld; it takes %lld to %lld", name, (long long)*value,
                      (long long)min, (long long)max);
}

static hf_status check_numbers(hf_options *options)
{
    const struct {
        int64_t *value;
        int64_t fallback;
        int64_t min;
        int64_t max;
        const char *name;
    } numbers[] = {
        {&options->timeout_ms, HF_TIMEOUT_DEFAULT_MS, 1, DAY_MS, "timeout_ms"},
        {&options->shutdown_ms, HF_SHUTDOWN_DEFAULT_MS, 0, DAY_MS, "shutdown_ms"},
        {&options->heartbeat_ms, HF_HEARTBEAT_DEFAULT_MS, 1000, DAY_MS, "heartbeat_ms"},
        {&options->payload_bytes_max, HF_PAYLOAD_BYTES_MAX_DEFAULT, 1, PAYLOAD_BYTES_LIMIT,
         "payload_bytes_max"},
        {&options->queue_events_max, QUEUE_EVENTS_DEFAULT, 1, 10000000, "queue_events_max"},
        {&options->queue_bytes_max, QUEUE_BYTES_DEFAULT, 1024, 1LL << 40, "queue_bytes_max"},
    };
    hf_status status = HF_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && !status; i++) {
        status = check_number(numbers[i].value, numbers[i].fallback, numbers[i].min, numbers[i].max,
                              numbers[i].name);
    }
    return status;
}

static hf_status check_options(hf_options *options)
{
    hf_status status = check_numbers(options);
    if (!status && (options->open_mode < HF_OPEN_DEFAULT || options->open_mode > HF_OPEN_MIGRATE)) {
        status = fail(HF_INVALID, "open_mode is %d, which is no hf_open_mode", options->open_mode);
    }
    if (!status && (options->durability < HF_DURABILITY_DEFAULT ||
                    options->durability > HF_DURABILITY_PROCESS)) {
        status =
            fail(HF_INVALID, "durability is %d, which is no hf_durability", options->durability);
    }
    if (!status && options->namespace_name) {
        status = glob_check_name(text_of(options->namespace_name), "namespace name",
                                 HF_NAMESPACE_BYTES_MAX);
    }
    if (!status && options->namespace_name && options->no_namespace) {
        status = fail(HF_INVALID, "a namespace_name is given together with no_namespace");
    }
    return status ? status : node_check(options);
}

hf_status bus_take_options(const hf_options *given, hf_options *own)
{
    *own = (hf_options)HF_OPTIONS_INIT;
    hf_status status = HF_OK;
    if (given) {
        status = bus_read_options(own, sizeof *own, sizeof *own, given, "hf_options");
    }
    return status ? status : check_options(own);
}

static hf_status make_names(hf_bus *bus, const hf_options *options)
{
    const char *name = options->namespace_name ? options->namespace_name : "default";
    bus->node_name = node_make_name(options->node_name);
    if (bus->node_name && !bus->no_namespace) {
        bus->namespace_name = mem_dup(name, strlen(name));
    }
    return bus->node_name && (bus->no_namespace || bus->namespace_name)
               ? HF_OK
               : fail(HF_NOMEM, "out of memory");
}

static hf_status open_store(hf_bus *bus, const char *url, const hf_options *options)
{
    struct node_self self;
    node_describe(options, &self);
    struct store_options store_options = {
        .namespace_name = text_of(bus->namespace_name),
        .node_name = text_of(bus->node_name),
        .node = self.facts,
        .open_mode = options->open_mode ? options->open_mode : HF_OPEN_CREATE,
        .durability = options->durability ? options->durability : HF_DURABILITY_POWER,
        .brief = options->brief && !self.facts.given,
        .timeout_ms = options->timeout_ms,
        .queue_events_max = options->queue_events_max,
        .queue_bytes_max = options->queue_bytes_max,
        .log = &bus->log,
    };
    return store_open(url, &store_options, &bus->store);
}

static void reference(void *ctx)
{
    bus_reference(ctx);
}

static void unreference(void *ctx)
{
    bus_unreference(ctx);
}

static int64_t keep_time(void *ctx)
{
    hf_bus *bus = ctx;
    return timekeeper_look(&bus->timekeeper);
}

static hf_status init_dispatchers(hf_bus *bus)
{
    struct dispatchers_owner owner = {
        .turn = runner_turn,
        .left = runner_left,
        .keep_time = keep_time,
        .reference = reference,
        .unreference = unreference,
        .ctx = bus,
    };
    hf_status status = dispatchers_init(&bus->dispatchers, owner);
    return status ? status : departures_init(&bus->departures);
}

/* What only a bus with a namespace has. If it fails the store is closed. */
static hf_status begin_namespace(hf_bus *bus)
{
    hf_status status = tail_new(bus->store, &bus->dispatchers, &bus->tail);
    if (!status) {
        status = watch_begin(bus);
    }
    if (status) {
        tail_free(bus->tail);
        store_close(bus->store);
    }
    return status;
}

static hf_status make_caches(hf_bus *bus)
{
    hf_status status = definition_cache_new(&bus->definition_cache);
    return status ? status : claimed_new(&bus->claimed);
}

static hf_status make(hf_bus *bus, const char *url, const hf_options *options)
{
    bus->log = (struct log){.write = options->log,
                            .ctx = options->log_ctx,
                            .level = options->log_level ? options->log_level : HF_LOG_INFO};
    bus->no_namespace = options->no_namespace != 0;
    bus->timeout_ms = options->timeout_ms;
    bus->shutdown_ms = options->shutdown_ms;
    bus->heartbeat_ms = options->heartbeat_ms;
    bus->payload_bytes_max = options->payload_bytes_max;
    bus->queue_events_max = options->queue_events_max;
    bus->queue_bytes_max = options->queue_bytes_max;
    set64_init(&bus->entries, INT32_MAX);
    hf_status status = make_names(bus, options);
    if (!status) {
        status = mutex_init(&bus->mutex);
    }
    if (!status) {
        status = mutex_init(&bus->making);
    }
    if (!status) {
        status = mutex_init(&bus->life);
    }
    if (!status) {
        status = cond_init(&bus->retired);
    }
    if (!status) {
        status = exclusive_init(&bus->exclusive);
    }
    if (!status) {
        status = timekeeper_init(&bus->timekeeper);
    }
    if (!status) {
        status = init_dispatchers(bus);
    }
    if (!status) {
        status = make_caches(bus);
    }
    if (!status) {
        status = assignments_init(&bus->assignments);
    }
    if (!status) {
        status = open_store(bus, url, options);
    }
    if (!status) {
        dispatchers_limit(&bus->dispatchers, store_calls_max(bus->store));
    }
    if (!status && !bus->no_namespace) {
        status = begin_namespace(bus);
    }
    return status;
}

hf_status hf_open(const char *url, const hf_options *options, hf_bus **ret_bus)
{
    hf_options own;
    hf_status status = ret_bus ? HF_OK : fail(HF_INVALID, "ret_bus is NULL");
    if (!status) {
        status = bus_take_options(options, &own);
    }
    if (status) {
        return status;
    }
    hf_bus *bus = mem_calloc(1, sizeof *bus);
    if (!bus) {
        return fail(HF_NOMEM, "out of memory");
    }
    atomic_store(&bus->references, 1);
    status = make(bus, url, &own);
    if (status) {
        definition_cache_free(bus->definition_cache);
        claimed_free(bus->claimed);
        mem_free(bus->node_name);
        mem_free(bus->namespace_name);
        mem_free(bus);
        return status;
    }
    *ret_bus = bus;
    return HF_OK;
}

/* ---- Starting and stopping ------------------------------------------------------------------- */

/* Waiting for handlers from inside one would never end. */
static hf_status check_outside(const hf_bus *bus, const char *call)
{
    if (attempt_inside(bus)) {
        return fail(HF_MISUSE, "%s was called from inside a handler", call);
    }
    if (async_inside_callback(bus)) {
        return fail(HF_MISUSE, "%s was called from inside a completion callback", call);
    }
    return HF_OK;
}

static hf_status fail_left(void)
{
    return fail(HF_TIMEOUT, "what fires schedules, or retention, still waits for the database");
}

/* Waits for those that the last stop did not wait for. bus->life is held. */
static hf_status join(hf_bus *bus, struct deadline deadline)
{
    if (!scheduler_stop_end(bus, deadline) || !retention_stop_end(bus, deadline)) {
        return fail_left();
    }
    return subscriptions_join(bus, deadline);
}

/* Inside a handler a start must not wait for a stop that waits for this handler. */
static hf_status start_inside(hf_bus *bus)
{
    pthread_mutex_lock(&bus->mutex);
    bool started = bus->started;
    pthread_mutex_unlock(&bus->mutex);
    return started ? HF_OK
                   : fail(HF_MISUSE, "hf_start was called from inside a handler of a bus that is "
                                     "being stopped");
}

hf_status hf_check(hf_bus *bus)
{
    hf_status status = bus_check_handle(bus);
    if (!status && store_is_replaced(bus->store)) {
        status = fail(HF_UNAVAILABLE, "the database was replaced or deleted while in use: close it "
                                      "and open it again");
    }
    return status;
}

hf_status hf_ping(hf_bus *bus, int64_t timeout_ms)
{
    hf_status status = bus_check_open(bus);
    if (!status && timeout_ms < -1) {
        status = fail(HF_INVALID, "timeout_ms is %" PRId64 "; it must be -1 or more", timeout_ms);
    }
    if (!status) {
        status = hf_check(bus);
    }
    if (status) {
        return status;
    }
    struct release nothing = {
        .change = {.kind = CHANGE_RELEASE, .relaxed = true, .now_us = clock_wall_us()},
    };
    struct deadline deadline = timeout_ms == -1 ? bus_deadline(bus) : deadline_after_ms(timeout_ms);
    status = store_run(bus->store, &nothing.change, deadline);
    if (status == HF_UNKNOWN) { /* there was nothing to be stored */
        status = fail(HF_UNAVAILABLE, "%s", err_message());
    }
    return status == HF_DENIED ? HF_OK : status; /* a role that may only consume was answered */
}

hf_status hf_start(hf_bus *bus)
{
    hf_status status = bus_check_open(bus);
    if (status) {
        return status;
    }
    if (attempt_inside(bus)) {
        return start_inside(bus);
    }
    watch_want(bus);
    pthread_mutex_lock(&bus->life);
    status = bus->started ? HF_OK : join(bus, bus_deadline(bus));
    if (!status) {
        pthread_mutex_lock(&bus->mutex);
        bus->started = true;
        pthread_mutex_unlock(&bus->mutex);
        status = retention_start(bus); /* before the scheduler, which looks after it */
    }
    if (!status) {
        status = scheduler_start(bus);
    }
    if (!status) {
        departures_forget(bus);
        status = subscriptions_start(bus);
    }
    pthread_mutex_unlock(&bus->life);
    subscriptions_reap_if_due(bus);
    return status;
}

static struct deadline stop_deadline(const hf_bus *bus, int64_t timeout_ms)
{
    return deadline_after_ms(timeout_ms < 0 ? bus->shutdown_ms : timeout_ms);
}

/* What is not given back when the bus is shut down goes with the store: that is no failure. */
static hf_status depart(hf_bus *bus, const struct stop_deadlines *stop_deadlines)
{
    bool away = store_is_away(bus->store);
    hf_status status = departures_end(bus, away ? stop_deadlines->idle : stop_deadlines->store);
    if (!status || atomic_load(&bus->end) != BUS_OPEN) {
        return HF_OK;
    }
    char message[HF_ERR_BYTES_MAX];
    snprintf(message, sizeof message, "%s", err_message());
    return fail(HF_TIMEOUT,
                "partitions could not be given back; until the bus is stopped again or closed no "
                "other process has them: %s",
                message);
}

/* All threads are notified before the first is waited for: handlers have all of the time that there
 * is, and nothing new begins meanwhile. */
static hf_status stop(hf_bus *bus, struct deadline deadline)
{
    pthread_mutex_lock(&bus->life);
    pthread_mutex_lock(&bus->mutex);
    bus->started = false;
    pthread_mutex_unlock(&bus->mutex);
    scheduler_stop_begin(bus);
    retention_stop_begin(bus);
    subscriptions_stop_begin(bus, deadline);
    struct stop_deadlines stop_deadlines = stop_deadlines_until(deadline);
    hf_status status = subscriptions_stop_end(bus, &stop_deadlines);
    hf_status departed = depart(bus, &stop_deadlines);
    status = status ? status : departed;
    if (atomic_load(&bus->end) != BUS_OPEN) {
        store_leave(bus->store); /* what could not be stored by now will not be */
    }
    struct deadline threads =
        store_is_away(bus->store) ? stop_deadlines.idle : stop_deadlines.threads;
    bool joined = scheduler_stop_end(bus, threads) && retention_stop_end(bus, threads);
    dispatchers_join(&bus->dispatchers);
    subscriptions_reap(bus);
    pthread_mutex_unlock(&bus->life);
    subscriptions_reap_if_due(bus);
    return status || joined ? status : fail_left();
}

hf_status hf_stop(hf_bus *bus, int64_t timeout_ms)
{
    hf_status status = bus_check_handle(bus);
    if (!status) {
        status = check_outside(bus, "hf_stop");
    }
    return status ? status : stop(bus, stop_deadline(bus, timeout_ms));
}

hf_status hf_shutdown(hf_bus *bus, int64_t timeout_ms)
{
    hf_status status = bus_check_handle(bus);
    if (!status) {
        status = check_outside(bus, "hf_shutdown");
    }
    if (status) {
        return status;
    }
    bus_end(bus, BUS_DRAINING);
    struct deadline deadline = stop_deadline(bus, timeout_ms);
    async_drain(bus, deadline);
    status = stop(bus, deadline);
    bus_end(bus, BUS_CLOSED);
    async_stop(bus, deadline);
    watch_stop(bus);
    return status;
}

/* Threads that have done their work let go of the handle a moment after that was waited for. */
static void wait_let_go(const hf_bus *bus)
{
    struct deadline deadline = deadline_after_ms(LET_GO_MS);
    while (atomic_load(&bus->references) > 1 && !deadline_passed(deadline)) {
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}

hf_status hf_close(hf_bus **bus)
{
    if (!bus || !*bus) {
        return HF_OK;
    }
    hf_status status = HF_OK;
    if (!store_poisoned((*bus)->store)) {
        status = check_outside(*bus, "hf_close");
        if (status) {
            return status;
        }
        status = hf_shutdown(*bus, -1);
        scheduler_leave(*bus);
        retention_leave(*bus);
        departures_forget(*bus);
        subscriptions_free(*bus);
        if (!status) {
            wait_let_go(*bus);
        }
    }
    bus_unreference(*bus);
    *bus = NULL;
    return status;
}

hf_status hf_fd(hf_bus *bus, int *ret_fd)
{
    hf_status status = bus_check_open(bus);
    if (!status && !ret_fd) {
        status = fail(HF_INVALID, "ret_fd is NULL");
    }
    return status ? status : watch_fd(bus, ret_fd);
}
