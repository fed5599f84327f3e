/*
 * Tests of handlers that run while the bus is shut down: what a handler is given the time to finish
 * it can finish, and what it is refused afterwards is not held against its event.
 */
#include "support_trouble.h"

#include "base/mem.h"

#include <stdatomic.h>

/* What the handlers of a test were answered. */
static struct {
    atomic_int published, published_many, queued, called_back, found, started, registered;
    atomic_int callback_done; /* the callback of the asynchronous publish has run */
} answers;

/* No attempt to spare: an attempt that fails and counts makes a dead letter. */
static hf_subscription_options one_attempt(void)
{
    hf_subscription_options options = quick_options();

    options.attempts_max = 1;
    return options;
}

static int forget_answers(void **state)
{
    memset(&answers, 0, sizeof answers);
    return trouble_setup(state);
}

#define draining_test(test) cmocka_unit_test_setup_teardown(test, forget_answers, trouble_teardown)

static void *shut_down(void *ctx)
{
    return (void *)(intptr_t)hf_shutdown(ctx, DEADLINE_MS);
}

static void *shut_down_now(void *ctx)
{
    return (void *)(intptr_t)hf_shutdown(ctx, 0);
}

/* A thread that is none of the bus' is refused. It asks for something that is never done. */
static bool is_refused(void *ctx)
{
    return hf_subscription_create(ctx, "", NULL, 0, NULL, NULL) == HF_CLOSED;
}

static void note_answer(hf_status status, const hf_receipt *receipt, const char *message, void *ctx)
{
    (void)receipt;
    (void)message;
    (void)ctx;
    atomic_store(&answers.called_back, (int)status);
    atomic_store(&answers.callback_done, 1);
}

static int ignore_event(const hf_event *event, void *ctx)
{
    (void)event;
    (void)ctx;
    return 0;
}

/* Waits at the door, then calls what handlers call, and fails if it is refused. */
static hf_verdict call_everything(const hf_event *event, hf_delivery *delivery,
                                  struct recorder *recorder)
{
    hf_bus *bus = hf_delivery_bus(delivery);
    hf_new_event next = HF_NEW_EVENT_INIT;
    hf_new_event many[2] = {HF_NEW_EVENT_INIT, HF_NEW_EVENT_INIT};
    hf_status status;

    if (strcmp(event->type, "x") != 0) {
        return HF_ACK;
    }
    door_pass(recorder->extra);
    next.type = many[0].type = many[1].type = "next";
    status = hf_publish(bus, &next, NULL);
    atomic_store(&answers.published, (int)status);
    status = status ? status : hf_publish_many(bus, many, 2, NULL);
    atomic_store(&answers.published_many, (int)status);
    status = status ? status : hf_event_get(bus, event->id, ignore_event, NULL);
    atomic_store(&answers.found, (int)status);
    status = status ? status : hf_publish_async(bus, &next, note_answer, NULL);
    atomic_store(&answers.queued, (int)status);
    return status ? HF_RETRY : HF_ACK;
}

/* Opens the bus and has one handler of `decide` stand at the door. */
static struct recorder *stand_at_the_door(struct scene *scene, decide_fn decide,
                                          const hf_subscription_options *options)
{
    struct recorder *recorder = scene_recorder(scene, decide);

    recorder->extra = scene_door(scene);
    trouble_open(scene);
    subscribe(scene->bus, "a", "*", recorder, options);
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->extra, 1));
    return recorder;
}

/* ---- In time --------------------------------------------------------------------------------- */

static void finish_in_time(struct scene *scene, const hf_subscription_options *options)
{
    struct recorder *recorder = stand_at_the_door(scene, call_everything, options);
    pthread_t thread;
    void *status;

    assert_int_equal(pthread_create(&thread, NULL, shut_down, scene->bus), 0);
    assert_true(wait_until(is_refused, scene->bus));
    door_open(recorder->extra);
    pthread_join(thread, &status);
    assert_status((hf_status)(intptr_t)status, HF_OK);
    assert_int_equal(atomic_load(&answers.published), HF_OK);
    assert_int_equal(atomic_load(&answers.published_many), HF_OK);
    assert_int_equal(atomic_load(&answers.found), HF_OK);
    assert_int_equal(atomic_load(&answers.queued), HF_OK);
    assert_int_equal(atomic_load(&answers.callback_done), 1); /* before the shutdown returned */
    assert_int_equal(atomic_load(&answers.called_back), HF_OK);
    assert_int_equal(recorder_count(recorder), 1);
    assert_ok(hf_close(&scene->bus));

    trouble_open(scene);
    assert_int_equal(dead_of(scene->bus, "a", NULL, 0), 0);
    assert_int_equal(info_of(scene->bus, "a").checkpoint, 1);
    assert_int_equal(info_of(scene->bus, "a").head, 5);
}

static void a_handler_publishes_while_a_shutdown_waits_for_it(void **state)
{
    hf_subscription_options options = one_attempt();

    finish_in_time(*state, &options);
}

static void a_shared_handler_publishes_while_a_shutdown_waits_for_it(void **state)
{
    hf_subscription_options options = one_attempt();

    options.mode = HF_MODE_SHARED;
    finish_in_time(*state, &options);
}

/* A transactional handler publishes in its transaction. */
static hf_verdict publish_in_transaction(const hf_event *event, hf_delivery *delivery,
                                         struct recorder *recorder)
{
    hf_new_event next = HF_NEW_EVENT_INIT;
    hf_status status;

    if (strcmp(event->type, "x") != 0) {
        return HF_ACK;
    }
    door_pass(recorder->extra);
    next.type = "next";
    status = hf_publish(hf_delivery_bus(delivery), &next, NULL);
    atomic_store(&answers.published, (int)status);
    status =
        status ? status : hf_publish_async(hf_delivery_bus(delivery), &next, note_answer, NULL);
    atomic_store(&answers.queued, (int)status);
    return status ? HF_RETRY : HF_ACK;
}

static void a_transactional_handler_publishes_while_a_shutdown_waits_for_it(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = one_attempt();
    struct recorder *recorder;
    pthread_t thread;
    void *status;

    options.transactional = HF_ON;
    options.tx_max_ms = DEADLINE_MS;
    options.handler_timeout_ms = DEADLINE_MS;
    recorder = stand_at_the_door(scene, publish_in_transaction, &options);
    assert_int_equal(pthread_create(&thread, NULL, shut_down, scene->bus), 0);
    assert_true(wait_until(is_refused, scene->bus));
    door_open(recorder->extra);
    pthread_join(thread, &status);
    assert_status((hf_status)(intptr_t)status, HF_OK);
    assert_int_equal(atomic_load(&answers.published), HF_OK);
    assert_int_equal(atomic_load(&answers.queued), HF_OK);
    assert_int_equal(atomic_load(&answers.called_back), HF_OK);
    assert_ok(hf_close(&scene->bus));
    trouble_open(scene);
    assert_int_equal(dead_of(scene->bus, "a", NULL, 0), 0);
    assert_int_equal(info_of(scene->bus, "a").head, 3);
}

/* ---- Too late -------------------------------------------------------------------------------- */

/* The first time it waits at the door and fails if it cannot publish. */
static hf_verdict publish_once(const hf_event *event, hf_delivery *delivery,
                               struct recorder *recorder)
{
    hf_new_event next = HF_NEW_EVENT_INIT;
    hf_status status;

    if (strcmp(event->type, "x") != 0 || recorder_count(recorder) > 1) {
        return HF_ACK;
    }
    door_pass(recorder->extra);
    next.type = "next";
    status = hf_publish(hf_delivery_bus(delivery), &next, NULL);
    atomic_store(&answers.published, (int)status);
    return status ? HF_RETRY : HF_ACK;
}

/* The bus that comes next delivers the event again, and it is not dead. */
static void assert_delivered_again(struct scene *scene, struct recorder *recorder)
{
    trouble_open(scene);
    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_calls(recorder, 1, NULL), 2);
    assert_int_equal(dead_of(scene->bus, "a", NULL, 0), 0);
}

static bool has_published(void *ctx)
{
    struct recorder *recorder = ctx;

    return recorder_get(recorder, 0).end_us > 0;
}

static void a_publish_refused_after_the_deadline_of_a_stop_uses_no_attempt(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = one_attempt();
    struct recorder *recorder = stand_at_the_door(scene, publish_once, &options);

    assert_status(hf_shutdown(scene->bus, 0), HF_TIMEOUT);
    door_open(recorder->extra);
    assert_true(wait_until(has_published, recorder));
    assert_int_equal(atomic_load(&answers.published), HF_CLOSED);
    assert_ok(hf_close(&scene->bus));
    assert_delivered_again(scene, recorder);
}

static void a_refused_publish_uses_no_attempt_although_the_dispatcher_is_late(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = one_attempt();
    struct recorder *recorder = stand_at_the_door(scene, publish_once, &options);
    pthread_t thread;
    void *status;

    /* The dispatcher waits for the store, so it takes the turn of no handler at the deadline. */
    faulty_stop(FAULTY_STANDING, 1);
    publish(scene->bus, "y", NULL, "2");
    assert_true(faulty_stopped(FAULTY_STANDING, DEADLINE_MS));
    assert_int_equal(pthread_create(&thread, NULL, shut_down_now, scene->bus), 0);
    pthread_join(thread, &status);
    assert_status((hf_status)(intptr_t)status, HF_TIMEOUT);
    door_open(recorder->extra);
    assert_true(wait_until(has_published, recorder));
    assert_int_equal(atomic_load(&answers.published), HF_CLOSED);
    faulty_go(FAULTY_STANDING);
    assert_ok(hf_close(&scene->bus));
    assert_delivered_again(scene, recorder);
}

/* Registers another handler, and notes the answer. */
static hf_verdict register_another(const hf_event *event, hf_delivery *delivery,
                                   struct recorder *recorder)
{
    hf_subscription_options options = quick_options();

    (void)event;
    door_pass(recorder->extra);
    atomic_store(&answers.registered, (int)hf_subscribe(hf_delivery_bus(delivery), "b", "*",
                                                        recorder_handle, recorder, &options, NULL));
    return HF_ACK;
}

/* Is no more memory in use than `ctx` says? */
static bool nothing_more_is_kept(void *ctx)
{
    return mem_live() <= *(const int64_t *)ctx;
}

/* It would keep the bus, which is closed, open for ever: nothing would end its runner. */
static void a_handler_that_registers_one_is_refused_if_the_bus_is_closed_meanwhile(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = one_attempt();
    struct recorder *recorder;
    int64_t live = mem_live();

    scene->options.shutdown_ms = 1;
    recorder = stand_at_the_door(scene, register_another, &options);
    faulty_stop(FAULTY_SUBSCRIPTION, 1);
    door_open(recorder->extra);
    assert_true(faulty_stopped(FAULTY_SUBSCRIPTION, DEADLINE_MS));
    assert_status(hf_close(&scene->bus), HF_TIMEOUT);
    faulty_go(FAULTY_SUBSCRIPTION);
    assert_true(recorder_wait(recorder, 1));
    assert_int_equal(atomic_load(&answers.registered), HF_CLOSED);
    assert_true(wait_until(nothing_more_is_kept, &live)); /* until then its threads log to us */
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* Calls hf_start when a stop waits for it. */
static hf_verdict start_again(const hf_event *event, hf_delivery *delivery,
                              struct recorder *recorder)
{
    until_cancelled(event, delivery, recorder);
    atomic_store(&answers.started, (int)hf_start(hf_delivery_bus(delivery)));
    return HF_ACK;
}

static void a_handler_that_starts_the_bus_does_not_hold_up_its_stop(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    struct recorder *recorder = scene_recorder(scene, start_again);

    trouble_open(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait_begun(recorder, 1));
    assert_ok(hf_stop(scene->bus, 10000));
    assert_int_equal(atomic_load(&answers.started), HF_MISUSE);
}

static const struct CMUnitTest tests[] = {
    draining_test(a_handler_publishes_while_a_shutdown_waits_for_it),
    draining_test(a_shared_handler_publishes_while_a_shutdown_waits_for_it),
    draining_test(a_transactional_handler_publishes_while_a_shutdown_waits_for_it),
    draining_test(a_publish_refused_after_the_deadline_of_a_stop_uses_no_attempt),
    draining_test(a_refused_publish_uses_no_attempt_although_the_dispatcher_is_late),
    draining_test(a_handler_that_registers_one_is_refused_if_the_bus_is_closed_meanwhile),
    draining_test(a_handler_that_starts_the_bus_does_not_hold_up_its_stop),
};

SCENE_MAIN(tests)
