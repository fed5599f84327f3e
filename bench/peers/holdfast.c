/*
 * holdfast.c - the library, as its users call it: threads that publish, handlers that consume, a
 * program that claims.
 *
 * Options are the defaults where nothing else is said. A backlog is done when the library says that
 * all of it is settled (hf_wait), and not when the last handler has run.
 */
#include "library.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

#define ATTEMPTS 3
#define WARM_UP 20
#define SETTLED_MS 60000

/* ---- Publishing ------------------------------------------------------------------------------ */

struct publisher {
    const struct task *task;
    hf_bus *bus;
    pthread_barrier_t *ready;
    _Atomic double *until;
    pthread_t thread;
    long long done;
};

static void *publish_on(void *ctx)
{
    struct publisher *publisher = ctx;
    struct sheaf sheaf;
    sheaf_make(&sheaf, publisher->task->batch, publisher->task->ids);
    sheaf_publish(&sheaf, publisher->bus, 0, 1); /* the first one is not counted */
    pthread_barrier_wait(publisher->ready);
    pthread_barrier_wait(publisher->ready);
    while (seconds() < atomic_load(publisher->until)) {
        sheaf_publish(&sheaf, publisher->bus, publisher->done, 1);
        publisher->done += publisher->task->batch;
    }
    sheaf_free(&sheaf);
    return NULL;
}

void library_publish(const struct task *task, struct result *ret_result)
{
    struct publisher publishers[LINKS_MAX];
    pthread_barrier_t ready;
    _Atomic double until = 0;
    hf_bus *bus = open_as(task->address, "bench");
    pthread_barrier_init(&ready, NULL, (unsigned)task->links + 1);
    for (int i = 0; i < task->links; i++) {
        publishers[i] =
            (struct publisher){.task = task, .bus = bus, .ready = &ready, .until = &until};
        if (pthread_create(&publishers[i].thread, NULL, publish_on, &publishers[i]) != 0) {
            die("a thread", "cannot be started");
        }
    }
    pthread_barrier_wait(&ready);
    struct cost before = cost_now(task->server);
    double began = seconds();
    atomic_store(&until, began + task->seconds);
    pthread_barrier_wait(&ready);
    for (int i = 0; i < task->links; i++) {
        pthread_join(publishers[i].thread, NULL);
        ret_result->events += publishers[i].done;
    }
    ret_result->seconds = seconds() - began;
    cost_add(ret_result, &before, task->server);
    pthread_barrier_destroy(&ready);
    check(hf_close(&bus), "hf_close");
}

/* ---- Publishing without waiting -------------------------------------------------------------- */

/* Each event that is stored is followed by another one, as a program that serves many clients would
 * publish for them. All but `ended` is used by the one thread that runs callbacks. */
struct flight {
    hf_bus *bus;
    struct sheaf sheaf;
    double until;
    int under_way;
    long long done;
    sem_t ended;
};

static void publish_next(struct flight *flight);

static void must_be_stored(hf_status status, const char *message)
{
    if (status) {
        die("hf_publish_async", message);
    }
}

static void published(hf_status status, const hf_receipt *receipt, const char *message, void *ctx)
{
    struct flight *flight = ctx;
    (void)receipt;
    must_be_stored(status, message);
    flight->done++;
    if (seconds() < flight->until) {
        publish_next(flight);
    } else if (--flight->under_way == 0) {
        sem_post(&flight->ended);
    }
}

static void publish_next(struct flight *flight)
{
    payload_make(flight->sheaf.payloads[0], flight->done);
    check(hf_publish_async(flight->bus, &flight->sheaf.events[0], published, flight),
          "hf_publish_async");
}

/* The first event is answered: the others begin in its callback, on the thread that runs them. */
static void take_off(hf_status status, const hf_receipt *receipt, const char *message, void *ctx)
{
    struct flight *flight = ctx;
    (void)receipt;
    must_be_stored(status, message);
    for (int i = 0; i < flight->under_way; i++) {
        publish_next(flight);
    }
}

void library_publish_async(const struct task *task, struct result *ret_result)
{
    struct flight flight = {.bus = open_as(task->address, "bench"), .under_way = task->flight};
    sheaf_make(&flight.sheaf, 1, 0);
    sheaf_publish(&flight.sheaf, flight.bus, 0, 1); /* the first one is not counted */
    sem_init(&flight.ended, 0, 0);
    struct cost before = cost_now(task->server);
    double began = seconds();
    flight.until = began + task->seconds;
    check(hf_publish_async(flight.bus, &flight.sheaf.events[0], take_off, &flight),
          "hf_publish_async");
    sem_wait(&flight.ended);
    ret_result->seconds = seconds() - began;
    ret_result->events = flight.done;
    cost_add(ret_result, &before, task->server);
    check(hf_close(&flight.bus), "hf_close");
    sem_destroy(&flight.ended);
    sheaf_free(&flight.sheaf);
}

/* ---- Consuming ------------------------------------------------------------------------------- */

hf_verdict count_event(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    atomic_llong *handled = ctx;
    (void)event;
    (void)delivery;
    atomic_fetch_add_explicit(handled, 1, memory_order_relaxed);
    return HF_ACK;
}

static hf_verdict refuse_event(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    count_event(event, delivery, ctx);
    return HF_RETRY;
}

static hf_subscription_options options_for(bool shared)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.from.kind = HF_PLACE_START;
    options.mode = shared ? HF_MODE_SHARED : HF_MODE_ORDERED;
    return options;
}

/* Starts the bus, and waits until all is settled. */
void library_settle(const struct task *task, hf_bus *bus, atomic_llong *handled,
                    struct result *ret_result)
{
    struct cost before = cost_now(task->server);
    double began = seconds();
    check(hf_start(bus), "hf_start");
    check(hf_wait(bus, SUBSCRIPTION, -1, SETTLED_MS), "hf_wait");
    ret_result->seconds = seconds() - began;
    ret_result->events = atomic_load(handled);
    cost_add(ret_result, &before, task->server);
}

void library_consume(const struct task *task, bool shared, struct result *ret_result)
{
    atomic_llong handled = 0;
    hf_subscription_options options = options_for(shared);
    library_fill(task->address, task->events, 1000);
    hf_bus *bus = open_as(task->address, "bench");
    options.batch = task->batch > 1 ? task->batch : -1;
    check(hf_subscribe(bus, SUBSCRIPTION, "*", count_event, &handled, &options, NULL), "subscribe");
    library_settle(task, bus, &handled, ret_result);
    check(hf_close(&bus), "hf_close");
    if (ret_result->events != task->events) {
        die("consume", "another number of events was handled than published");
    }
}

void library_fail(const struct task *task, bool shared, struct result *ret_result)
{
    atomic_llong handled = 0;
    hf_subscription_options options = options_for(shared);
    library_fill(task->address, task->events, task->events);
    hf_bus *bus = open_as(task->address, "bench");
    options.attempts_max = ATTEMPTS;
    options.retry_base_ms = 0;
    options.retry_jitter_percent = 0;
    check(hf_subscribe(bus, SUBSCRIPTION, "*", refuse_event, &handled, &options, NULL),
          "subscribe");
    library_settle(task, bus, &handled, ret_result);
    check(hf_close(&bus), "hf_close");
    if (ret_result->events != task->events * ATTEMPTS) {
        die("fail", "another number of attempts was made than there should be");
    }
}

/* ---- Claiming -------------------------------------------------------------------------------- */

struct claimer {
    const struct task *task;
    hf_bus *bus;
    pthread_t thread;
    atomic_llong *left;
};

static void *claim_on(void *ctx)
{
    struct claimer *claimer = ctx;
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    options.max = claimer->task->batch;
    while (atomic_load(claimer->left) > 0) {
        hf_batch *batch = NULL;
        check(hf_claim(claimer->bus, SUBSCRIPTION, &options, &batch), "hf_claim");
        size_t count = hf_batch_count(batch);
        if (count > 0) {
            check(hf_ack(claimer->bus, SUBSCRIPTION, hf_batch_lease(batch), NULL, 0), "hf_ack");
            atomic_fetch_sub(claimer->left, (long long)count);
        }
        hf_batch_free(batch);
    }
    return NULL;
}

void library_claim(const struct task *task, struct result *ret_result)
{
    struct claimer claimers[LINKS_MAX];
    atomic_llong left = task->events;
    const char *pattern = "*";
    hf_subscription_options options = options_for(true);
    library_fill(task->address, task->events, 1000);
    for (int i = 0; i < task->links; i++) {
        claimers[i] =
            (struct claimer){.task = task, .bus = open_as(task->address, "bench"), .left = &left};
    }
    check(hf_subscription_create(claimers[0].bus, SUBSCRIPTION, &pattern, 1, &options, NULL),
          "create");
    struct cost before = cost_now(task->server);
    double began = seconds();
    for (int i = 0; i < task->links; i++) {
        if (pthread_create(&claimers[i].thread, NULL, claim_on, &claimers[i]) != 0) {
            die("a thread", "cannot be started");
        }
    }
    for (int i = 0; i < task->links; i++) {
        pthread_join(claimers[i].thread, NULL);
    }
    ret_result->seconds = seconds() - began;
    ret_result->events = task->events - atomic_load(&left);
    cost_add(ret_result, &before, task->server);
    for (int i = 0; i < task->links; i++) {
        check(hf_close(&claimers[i].bus), "hf_close");
    }
}

/* ---- Many subscriptions ---------------------------------------------------------------------- */

/* Subscribes to all events and waits until all subscriptions are at the end of the log. */
static void follow_with(hf_bus *bus, int count, atomic_llong *handled)
{
    hf_subscription_options options = options_for(false);
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "s%d", i);
        check(hf_subscribe(bus, name, "*", count_event, handled, &options, NULL), "subscribe");
    }
    check(hf_start(bus), "hf_start");
}

static void await(const atomic_llong *handled, long long count)
{
    double since = seconds();
    while (atomic_load(handled) < count) {
        if (seconds() - since > SETTLED_MS / 1e3) {
            die("following", "not all events were handled");
        }
        usleep(500);
    }
}

void library_follow(const struct task *task, struct result *ret_result)
{
    atomic_llong handled = 0;
    struct latencies took = {0};
    struct sheaf sheaf;
    hf_bus *bus = open_as(task->address, "bench");
    sheaf_make(&sheaf, 1, 0);
    follow_with(bus, task->subscriptions, &handled);
    for (int i = 0; i < WARM_UP; i++) {
        sheaf_publish(&sheaf, bus, i, 1);
    }
    await(&handled, (long long)WARM_UP * task->subscriptions);
    struct cost before = cost_now(task->server);
    double began = seconds();
    while (seconds() - began < task->seconds) {
        double at = seconds();
        sheaf_publish(&sheaf, bus, ret_result->events++, 1);
        latencies_add(&took, (seconds() - at) * 1e3);
    }
    ret_result->seconds = seconds() - began;
    await(&handled, (ret_result->events + WARM_UP) * task->subscriptions);
    cost_add(ret_result, &before, task->server);
    latencies_end(&took, ret_result);
    check(hf_close(&bus), "hf_close");
    sheaf_free(&sheaf);
}

/* Events are deliveries here. */
void library_burst(const struct task *task, struct result *ret_result)
{
    atomic_llong handled = 0;
    struct sheaf sheaf;
    hf_bus *bus = open_as(task->address, "bench");
    sheaf_make(&sheaf, FILL_BATCH, 0);
    follow_with(bus, task->subscriptions, &handled);
    sheaf_publish(&sheaf, bus, 0, 1000);
    await(&handled, (long long)FILL_BATCH * task->subscriptions);
    struct cost before = cost_now(task->server);
    double began = seconds();
    for (int done = 0; done < task->events; done += FILL_BATCH) {
        sheaf_publish(&sheaf, bus, done, 1000);
    }
    ret_result->events = task->events * task->subscriptions;
    await(&handled, ret_result->events + (long long)FILL_BATCH * task->subscriptions);
    ret_result->seconds = seconds() - began;
    cost_add(ret_result, &before, task->server);
    check(hf_close(&bus), "hf_close");
    sheaf_free(&sheaf);
}

/* ---- Latency --------------------------------------------------------------------------------- */

struct timing {
    struct latencies latencies; /* of the one thread that handlers of the subscription have */
    atomic_llong handled;
};

static hf_verdict time_event(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    struct timing *timing = ctx;
    int64_t due_ns = payload_number(event->payload);
    if (due_ns > 0) {
        latencies_add(&timing->latencies, (double)(now_ns() - due_ns) / 1e6);
    }
    return count_event(event, delivery, &timing->handled);
}

static void stored(hf_status status, const hf_receipt *receipt, const char *message, void *ctx)
{
    (void)receipt;
    (void)ctx;
    must_be_stored(status, message);
}

static void publish_due(const struct task *task, hf_bus *bus, long long events)
{
    char payload[PAYLOAD_BYTES + 1];
    hf_new_event event = HF_NEW_EVENT_INIT;
    int64_t start_ns = now_ns() + 1000000;
    event.type = "bench.event";
    event.payload = payload;
    event.payload_bytes = PAYLOAD_BYTES;
    for (long long i = 0; i < events; i++) {
        int64_t due_ns = start_ns + (int64_t)((double)i * 1e9 / task->rate);
        if (due_ns > now_ns()) {
            sleep_until_ns(due_ns);
        }
        payload_make(payload, due_ns);
        check(hf_publish_async(bus, &event, stored, NULL), "hf_publish_async");
    }
    check(hf_flush(bus, SETTLED_MS), "hf_flush");
}

void library_latency(const struct task *task, struct result *ret_result)
{
    struct timing timing = {0};
    struct sheaf sheaf;
    hf_subscription_options options = options_for(false);
    hf_bus *bus = open_as(task->address, "bench");
    long long events = (long long)(task->rate * task->seconds);
    sheaf_make(&sheaf, 1, 0);
    check(hf_subscribe(bus, SUBSCRIPTION, "*", time_event, &timing, &options, NULL), "subscribe");
    check(hf_start(bus), "hf_start");
    for (int i = 0; i < WARM_UP; i++) {
        sheaf_publish(&sheaf, bus, 0, 1);
    }
    await(&timing.handled, WARM_UP);
    struct cost before = cost_now(task->server);
    double began = seconds();
    publish_due(task, bus, events);
    ret_result->seconds = seconds() - began;
    ret_result->events = events;
    await(&timing.handled, events + WARM_UP);
    cost_add(ret_result, &before, task->server);
    check(hf_close(&bus), "hf_close");
    latencies_end(&timing.latencies, ret_result);
    sheaf_free(&sheaf);
}
