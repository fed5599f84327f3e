/*
 * Tests of stopping while the store does not answer (support/faulty.h): all are told before
 * one is waited for, a thread that waits for the store is not waited for longer than was asked, and
 * what is left behind gives back and frees what it has when it is answered.
 */
#include "support_trouble.h"

#include "base/point.h"

#include <stdatomic.h>

#include "base/mem.h"

#define LATE_US 40000000 /* a stop that took so long has waited for the store */

/* Opens the bus, with one event that waits for `recorder` when the bus is started. */
static void open_with_an_event(struct scene *scene, struct recorder *recorder)
{
    hf_subscription_options options = quick_options();

    trouble_open(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "1");
}

/* Starts with a scheduler that asks what is due and gets no answer. */
static void start_without_scheduler(struct scene *scene)
{
    faulty_stop(FAULTY_TIMERS, 1);
    assert_ok(hf_start(scene->bus));
    assert_true(faulty_stopped(FAULTY_TIMERS, DEADLINE_MS));
}

/* Starts, lets the first event be handled, and has the dispatcher wait for the store. */
static void start_until_the_dispatcher_waits(struct scene *scene, struct recorder *recorder)
{
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 1);
    faulty_stop(FAULTY_STANDING, 1);
    publish(scene->bus, "x", NULL, "2");
    assert_true(faulty_stopped(FAULTY_STANDING, DEADLINE_MS));
}

static void stop_without_an_answer(struct scene *scene, int64_t timeout_ms)
{
    int64_t begin_us = mono_us();

    assert_status(hf_stop(scene->bus, timeout_ms), HF_TIMEOUT);
    assert_true(mono_us() - begin_us < LATE_US);
}

static void a_stop_cancels_handlers_although_the_scheduler_waits_for_the_store(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, until_cancelled);

    open_with_an_event(scene, recorder);
    start_without_scheduler(scene);
    assert_true(recorder_wait_begun(recorder, 1));
    publish(scene->bus, "x", NULL, "2");
    stop_without_an_answer(scene, 5000);
    assert_non_null(strstr(hf_errmsg(), "what fires schedules")); /* and no handler was given up */
    assert_int_equal(recorder_count(recorder), 1);
    assert_true(recorder_get(recorder, 0).end_us > 0);
    faulty_go(FAULTY_TIMERS);
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
}

static void a_dispatcher_that_waits_for_the_store_is_not_waited_for(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    struct recorder *next = scene_recorder(scene, NULL);
    hf_bus *healthy;

    open_with_an_event(scene, recorder);
    start_until_the_dispatcher_waits(scene, recorder);
    stop_without_an_answer(scene, 0);
    stop_without_an_answer(scene, 0);
    faulty_go(FAULTY_STANDING);
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
    /* The bus stays open, but has nothing any more that others need. */
    healthy = scene_open(scene, NULL);
    subscribe(healthy, "a", "*", next, NULL);
    assert_ok(hf_start(healthy));
    settle_all(healthy, "a");
    assert_int_equal(recorder_count(recorder), 1);
    assert_int_equal(recorder_count(next), 1);
}

static void a_start_waits_for_threads_that_the_stop_left_behind(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);

    scene_close(scene, scene_open(scene, NULL)); /* makes the tables, which may take longer */
    scene->options.timeout_ms = 5000;
    open_with_an_event(scene, recorder);
    start_until_the_dispatcher_waits(scene, recorder);
    stop_without_an_answer(scene, 0);
    assert_status(hf_start(scene->bus), HF_TIMEOUT);
    faulty_go(FAULTY_STANDING);
    start_without_scheduler(scene);
    settle_all(scene->bus, "a"); /* a stop without time might not store it */
    stop_without_an_answer(scene, 0);
    faulty_go(FAULTY_TIMERS);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_calls(recorder, 2, NULL), 1);
}

static void a_worker_that_waits_for_its_transaction_is_not_waited_for(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();

    options.transactional = HF_ON;
    trouble_open(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "1");
    faulty_stop(FAULTY_TX_BEGIN, 1);
    assert_ok(hf_start(scene->bus));
    assert_true(faulty_stopped(FAULTY_TX_BEGIN, DEADLINE_MS));
    stop_without_an_answer(scene, 0);
    faulty_go(FAULTY_TX_BEGIN);
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_true(recorder_count(recorder) >= 1);
}

static bool nothing_more_is_kept(void *ctx)
{
    return mem_live() <= *(const int64_t *)ctx;
}

/* Closes while a thread waits for the store; all is freed when that answers. */
static void close_without_an_answer(struct scene *scene, enum faulty_verb verb, int64_t live)
{
    assert_status(hf_close(&scene->bus), HF_TIMEOUT);
    assert_null(scene->bus);
    assert_false(nothing_more_is_kept(&live));
    faulty_go(verb);
    assert_true(wait_until(nothing_more_is_kept, &live));
}

static void a_scheduler_that_outlives_the_close_frees_the_bus(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    int64_t live = mem_live();

    scene->options.shutdown_ms = 0;
    open_with_an_event(scene, recorder);
    start_without_scheduler(scene);
    settle_all(scene->bus, "a");
    close_without_an_answer(scene, FAULTY_TIMERS, live);
}

static void a_dispatcher_that_outlives_the_close_gives_back_and_frees_the_bus(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    int64_t live = mem_live();
    hf_bus *healthy;

    scene->options.shutdown_ms = 0;
    open_with_an_event(scene, recorder);
    start_until_the_dispatcher_waits(scene, recorder);
    close_without_an_answer(scene, FAULTY_STANDING, live);
    healthy = scene_open(scene, NULL);
    subscribe(healthy, "a", "*", recorder, NULL);
    assert_ok(hf_start(healthy));
    settle_all(healthy, "a");
    assert_int_equal(recorder_count(recorder), 2);
}

static atomic_int answered_ok;

static void count_answer(hf_status status, const hf_receipt *receipt, const char *message,
                         void *ctx)
{
    (void)receipt;
    (void)message;
    (void)ctx;
    if (!status) {
        atomic_fetch_add(&answered_ok, 1);
    }
}

static void *shut_down(void *ctx)
{
    struct scene *scene = ctx;

    return (void *)(intptr_t)hf_shutdown(scene->bus, DEADLINE_MS);
}

static void a_stop_cancels_handlers_while_asynchronous_publishes_are_stored(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, until_cancelled);
    hf_new_event event = HF_NEW_EVENT_INIT;
    pthread_t thread;
    void *status;
    bool told;

    atomic_store(&answered_ok, 0);
    event.type = "y";
    open_with_an_event(scene, recorder);
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait_begun(recorder, 1));
    faulty_stop(FAULTY_APPLY, 1);
    assert_ok(hf_publish_async(scene->bus, &event, count_answer, NULL));
    assert_true(faulty_stopped(FAULTY_APPLY, DEADLINE_MS));
    assert_int_equal(pthread_create(&thread, NULL, shut_down, scene), 0);
    told = recorder_wait(recorder, 1);
    faulty_go(FAULTY_APPLY);
    pthread_join(thread, &status);
    assert_true(told);
    assert_status((hf_status)(intptr_t)status, HF_OK);
    assert_int_equal(atomic_load(&answered_ok), 1);
}

/* A stop has its time once: a second try would only make it last longer. */
static void a_stop_tries_once_to_store_results(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, wait_at_first);
    int64_t before = point_hits("finish");

    recorder->extra = scene_door(scene);
    open_with_an_event(scene, recorder);
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->extra, 1));
    faulty_fail(FAULTY_APPLY, 1, INT32_MAX, HF_UNAVAILABLE);
    door_open(recorder->extra);
    assert_status(hf_stop(scene->bus, 100), HF_TIMEOUT);
    assert_int_equal(point_hits("finish") - before, 1);
    faulty_fail(FAULTY_APPLY, 1, 0, HF_OK);
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
}

/* The first event is done, every other waits until it is cancelled. */
static hf_verdict ack_first(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    return event->position == 1 ? HF_ACK : until_cancelled(event, delivery, recorder);
}

static void after_a_stop_that_leaves_a_dispatcher_behind_handlers_still_time_out(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, ack_first);
    hf_subscription_options options = quick_options();

    options.handler_timeout_ms = 100;
    trouble_open(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    faulty_stop(FAULTY_STANDING, 1);
    publish(scene->bus, "x", NULL, "1");
    assert_true(faulty_stopped(FAULTY_STANDING, DEADLINE_MS));
    assert_status(hf_stop(scene->bus, 0), HF_TIMEOUT);
    faulty_go(FAULTY_STANDING);
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait_begun(recorder, 3)); /* the second was cancelled, and comes again */
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
}

static const struct CMUnitTest tests[] = {
    trouble_test(a_stop_cancels_handlers_although_the_scheduler_waits_for_the_store),
    trouble_test(a_dispatcher_that_waits_for_the_store_is_not_waited_for),
    trouble_test(a_worker_that_waits_for_its_transaction_is_not_waited_for),
    trouble_test(a_start_waits_for_threads_that_the_stop_left_behind),
    trouble_test(a_scheduler_that_outlives_the_close_frees_the_bus),
    trouble_test(a_dispatcher_that_outlives_the_close_gives_back_and_frees_the_bus),
    trouble_test(a_stop_cancels_handlers_while_asynchronous_publishes_are_stored),
    trouble_test(a_stop_tries_once_to_store_results),
    trouble_test(after_a_stop_that_leaves_a_dispatcher_behind_handlers_still_time_out),
};

SCENE_MAIN(tests)
