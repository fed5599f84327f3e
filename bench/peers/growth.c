/*
 * growth.c - makes databases large in one respect, and measures what an event costs then.
 *
 * Each of these leaves the namespace `default` and its subscription `bench` as others are measured,
 * with something beside them that should not matter: events before the end of the log, other
 * namespaces, dead letters, retries that are not due.
 */
#include "library.h"

#define DAY_MS 86400000
#define RETRY_MS 200 /* after the first attempt of a steady stream's events that fail */
#define RETRY_EVERY 100

void grow_events(const struct task *task)
{
    hf_bus *bus = open_as(task->address, "bench");
    struct sheaf sheaf;
    sheaf_make(&sheaf, BATCH_MAX, task->ids);
    for (long long done = 0; done < task->events; done += BATCH_MAX) {
        sheaf_publish(&sheaf, bus, done, 1000);
    }
    sheaf_free(&sheaf);
    check(hf_close(&bus), "hf_close");
}

/* Each has a few events and a subscription. */
void grow_namespaces(const struct task *task)
{
    static const char *const pattern = "*";
    hf_subscription_options subscription = HF_SUBSCRIPTION_OPTIONS_INIT;
    struct sheaf sheaf;
    sheaf_make(&sheaf, 10, 0);
    subscription.from.kind = HF_PLACE_START;
    for (long long i = 0; i < task->events; i++) {
        hf_options options = HF_OPTIONS_INIT;
        hf_bus *bus = NULL;
        char name[32];
        snprintf(name, sizeof name, "namespace-%lld", i);
        options.namespace_name = name;
        check(hf_open(task->address, &options, &bus), "hf_open");
        check(hf_subscription_create(bus, SUBSCRIPTION, &pattern, 1, &subscription, NULL),
              "create");
        sheaf_publish(&sheaf, bus, 0, 1);
        check(hf_close(&bus), "hf_close");
    }
    sheaf_free(&sheaf);
}

static hf_verdict bury_event(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    count_event(event, delivery, ctx);
    return HF_DEAD;
}

static hf_verdict retry_event(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    count_event(event, delivery, ctx);
    return HF_RETRY;
}

/* All of a backlog is handed to this handler once. */
static void hand_over(const struct task *task, hf_handler_fn handler)
{
    atomic_llong handled = 0;
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    library_fill(task->address, task->events, task->events);
    hf_bus *bus = open_as(task->address, "bench");
    options.from.kind = HF_PLACE_START;
    options.mode = HF_MODE_SHARED;
    options.batch = FILL_BATCH;
    options.retry_base_ms = DAY_MS;
    options.retry_max_ms = DAY_MS;
    check(hf_subscribe(bus, SUBSCRIPTION, "*", handler, &handled, &options, NULL), "subscribe");
    check(hf_start(bus), "hf_start");
    while (atomic_load(&handled) < task->events) {
        usleep(10000);
    }
    check(hf_close(&bus), "hf_close");
}

void grow_letters(const struct task *task)
{
    hand_over(task, bury_event);
}

void grow_retries(const struct task *task)
{
    hand_over(task, retry_event);
}

void library_tail(const struct task *task, bool shared, struct result *ret_result)
{
    static const char *const pattern = "*";
    atomic_llong handled = 0;
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    hf_bus *bus = open_as(task->address, "bench");
    options.from.kind = HF_PLACE_NOW;
    options.mode = shared ? HF_MODE_SHARED : HF_MODE_ORDERED;
    check(hf_subscription_create(bus, SUBSCRIPTION, &pattern, 1, &options, NULL), "create");
    check(hf_close(&bus), "hf_close");
    library_fill(task->address, task->events, 1000);
    bus = open_as(task->address, "bench");
    check(hf_subscribe(bus, SUBSCRIPTION, "*", count_event, &handled, NULL, NULL), "subscribe");
    struct cost before = cost_now(task->server);
    double began = seconds();
    check(hf_start(bus), "hf_start");
    while (atomic_load(&handled) < task->events) {
        usleep(200);
    }
    ret_result->seconds = seconds() - began;
    ret_result->events = task->events;
    check(hf_close(&bus), "hf_close"); /* settles what is left */
    cost_add(ret_result, &before, task->server);
}

/* ---- A steady stream ------------------------------------------------------------------------- */

static hf_verdict retry_some(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    if (event->position % RETRY_EVERY == 0 && hf_delivery_attempt(delivery) == 1) {
        return HF_RETRY;
    }
    return count_event(event, delivery, ctx);
}

static void subscribe_steady(hf_bus *bus, const char *name, hf_mode mode, atomic_llong *handled)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.from.kind = HF_PLACE_NOW;
    options.mode = mode;
    options.retry_base_ms = RETRY_MS;
    check(hf_subscribe(bus, name, "*", retry_some, handled, &options, NULL), "subscribe");
}

/* An ordered and a shared subscription follow; one event in a hundred fails once in each. */
void library_steady(const struct task *task, struct result *ret_result)
{
    atomic_llong handled = 0;
    struct sheaf sheaf;
    hf_bus *bus = open_as(task->address, "bench");
    sheaf_make(&sheaf, task->batch, task->ids);
    subscribe_steady(bus, SUBSCRIPTION, HF_MODE_ORDERED, &handled);
    subscribe_steady(bus, SUBSCRIPTION "-shared", HF_MODE_SHARED, &handled);
    check(hf_start(bus), "hf_start");
    struct cost before = cost_now(task->server);
    double began = seconds();
    int64_t start_ns = now_ns();
    while (seconds() - began < task->seconds) {
        sleep_until_ns(start_ns + (int64_t)((double)ret_result->events * 1e9 / task->rate));
        sheaf_publish(&sheaf, bus, ret_result->events, 1000);
        ret_result->events += task->batch;
    }
    while (atomic_load(&handled) < 2 * ret_result->events) {
        usleep(1000);
    }
    ret_result->seconds = seconds() - began;
    cost_add(ret_result, &before, task->server);
    check(hf_close(&bus), "hf_close");
    sheaf_free(&sheaf);
}
