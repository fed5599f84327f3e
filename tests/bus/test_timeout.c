/*
 * Tests of handlers that take too long: the attempt fails, a replacement works on, the late result
 * is refused, and too many stuck handlers pause the subscription, which says why.
 */
#include "support_scene.h"

#include "base/point.h"

#include <stdatomic.h>

/* Long enough for a quick handler on a slow machine. */
#define HASTY_MS 1000
#define HASTY_TEXT "1000"

static hf_subscription_options hasty_options(void)
{
    hf_subscription_options options = quick_options();

    options.handler_timeout_ms = HASTY_MS;
    return options;
}

/* Waits at the door only in the first attempt of a payload "slow". */
static hf_verdict slow_at_first(const hf_event *event, hf_delivery *delivery,
                                struct recorder *recorder)
{
    if (strcmp(event->payload, "\"slow\"") == 0 && hf_delivery_attempt(delivery) == 1) {
        door_pass(recorder->extra);
    }
    return HF_ACK;
}

static void a_timed_out_attempt_counts_as_failed_and_is_tried_again(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, slow_at_first);
    hf_subscription_options options = hasty_options();
    hf_receipt receipt;
    struct logged logged[4];
    size_t count;

    options.attempts_max = 100;
    recorder->extra = scene_door(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    receipt = *publish(scene->bus, "x", NULL, "\"slow\"");
    settle_all(scene->bus, "a");
    count = recorder_count(recorder);
    assert_true(count >= 2); /* more if the machine is too slow for a quick handler, too */
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(recorder_get(recorder, i).attempt, i + 1);
    }
    assert_int_equal(state_of(scene->bus, "a", receipt.id, NULL), HF_STATE_DONE);
    assert_true(scene_wait_logged(scene, receipt.id, count - 1));
    assert_int_equal(scene_logged(scene, receipt.id, logged, COUNTED(logged)), count - 1);
    assert_non_null(strstr(logged[0].error, HASTY_TEXT));
    door_open(recorder->extra);
}

static void a_replacement_works_while_the_handler_is_stuck(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, slow_at_first);
    hf_subscription_options options = hasty_options();

    options.attempts_max = 100;
    recorder->extra = scene_door(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", "slow", "\"slow\"");
    for (int i = 0; i < 20; i++) {
        publish(scene->bus, "x", "fast", "1");
    }
    settle_all(scene->bus, "a");
    for (int64_t position = 2; position <= 21; position++) {
        assert_true(recorder_calls(recorder, position, "fast") >= 1);
    }
    assert_int_equal(recorder_get(recorder, 0).end_us, 0);
    door_open(recorder->extra);
}

/* First attempt: waits at the door, then claims success. All others fail for good. */
static hf_verdict late_success(const hf_event *event, hf_delivery *delivery,
                               struct recorder *recorder)
{
    (void)event;
    if (hf_delivery_attempt(delivery) == 1) {
        door_pass(recorder->extra);
        return HF_ACK;
    }
    hf_delivery_error(delivery, "second failure");
    return HF_RETRY;
}

static void a_late_result_is_refused(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, late_success);
    hf_subscription_options options = hasty_options();
    hf_receipt receipt;
    struct dead dead;

    options.attempts_max = 2;
    recorder->extra = scene_door(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    receipt = *publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    door_open(recorder->extra);
    assert_true(recorder_wait(recorder, 2));
    publish(scene->bus, "x", NULL, "1");
    assert_true(recorder_wait(recorder, 3));
    assert_int_equal(state_of(scene->bus, "a", receipt.id, NULL), HF_STATE_DEAD);
    assert_int_equal(dead.attempts, 2);
    assert_non_null(strstr(dead.story, HASTY_TEXT));
    /* On a slow machine the second attempt may have timed out as well. */
    assert_true(strstr(dead.story, "second failure") || occurrences(dead.story, HASTY_TEXT) == 2);
}

/* Waits until the delivery says that it is cancelled. */
static hf_verdict obey_cancel(const hf_event *event, hf_delivery *delivery,
                              struct recorder *recorder)
{
    (void)event;
    if (hf_delivery_attempt(delivery) > 1) {
        return HF_ACK;
    }
    for (int i = 0; i < DEADLINE_MS && !hf_delivery_cancelled(delivery); i++) {
        usleep(1000);
    }
    atomic_store((atomic_bool *)recorder->extra, hf_delivery_cancelled(delivery) == 1);
    return HF_ACK;
}

static void a_timed_out_handler_is_cancelled(void **state)
{
    static atomic_bool cancelled;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, obey_cancel);
    hf_subscription_options options = hasty_options();

    atomic_store(&cancelled, false);
    recorder->extra = &cancelled;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_true(recorder_wait(recorder, 2));
    assert_true(atomic_load(&cancelled));
}

/* Stops the dispatcher, as a store that does not answer does, and waits for the cancellation. */
static hf_verdict obey_without_dispatcher(const hf_event *event, hf_delivery *delivery,
                                          struct recorder *recorder)
{
    if (hf_delivery_attempt(delivery) == 1) {
        point_arm("after_refresh", 1, POINT_STOP_THREAD);
        point_wait_blocked("after_refresh", DEADLINE_MS);
    }
    return obey_cancel(event, delivery, recorder);
}

static bool is_true(void *ctx)
{
    return atomic_load((atomic_bool *)ctx);
}

static void a_handler_times_out_although_its_dispatcher_waits_for_the_store(void **state)
{
    static atomic_bool cancelled;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, obey_without_dispatcher);
    hf_subscription_options options = hasty_options();
    bool told;

    atomic_store(&cancelled, false);
    recorder->extra = &cancelled;
    options.handler_timeout_ms = 3 * HASTY_MS; /* by then the dispatcher has been stopped */
    options.attempts_max = 100;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    told = wait_until(is_true, &cancelled);
    point_reset();
    assert_true(told);
    settle_all(scene->bus, "a");
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
    assert_true(recorder_count(recorder) >= 2);
}

static hf_verdict always_stuck(const hf_event *event, hf_delivery *delivery,
                               struct recorder *recorder)
{
    (void)event;
    (void)delivery;
    door_pass(recorder->extra);
    return HF_ACK;
}

static bool is_paused(void *ctx)
{
    return info_of(ctx, "a").paused_at_us != -1;
}

static void too_many_stuck_handlers_pause_the_subscription_with_a_reason(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, always_stuck);
    hf_subscription_options options = hasty_options();
    struct info info;
    hf_receipt next;

    options.handler_timeout_ms = 50;
    options.stuck_max = 3;
    options.attempts_max = 100;
    recorder->extra = scene_door(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 10; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_true(wait_until(is_paused, scene->bus));
    info = info_of(scene->bus, "a");
    assert_int_not_equal(info.paused_reason[0], 0);
    assert_int_not_equal(info.not_moving[0], 0);
    assert_in_range(recorder_count(recorder), 3, 4);
    /* Other subscriptions do not notice. */
    recorder = scene_recorder(scene, NULL);
    subscribe(scene->bus, "b", "*", recorder, NULL);
    next = *publish(scene->bus, "x", NULL, "2");
    assert_ok(hf_wait(scene->bus, "b", next.position, DEADLINE_MS));
    assert_int_equal(recorder_count(recorder), 11);
}

/* Resumes it, as often as it pauses again because they have not returned yet. */
static bool gets_through(void *ctx)
{
    assert_ok(hf_resume(ctx, "a"));
    return hf_wait(ctx, "a", -1, 500) == HF_OK;
}

static void a_subscription_can_be_resumed_after_its_stuck_handlers_returned(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, always_stuck);
    hf_subscription_options options = hasty_options();

    options.stuck_max = 2;
    options.attempts_max = 100;
    recorder->extra = scene_door(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 10; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_true(wait_until(is_paused, scene->bus));
    door_open(recorder->extra);
    assert_true(wait_until(gets_through, scene->bus));
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
    for (int64_t position = 1; position <= 10; position++) {
        assert_true(recorder_calls(recorder, position, NULL) >= 1);
    }
}

static void timeouts_are_the_subscriptions_own(void **state)
{
    struct scene *scene = *state;
    struct recorder *hasty = scene_recorder(scene, slow_at_first);
    struct recorder *patient = scene_recorder(scene, slow_at_first);
    hf_subscription_options options = hasty_options();

    hasty->extra = patient->extra = scene_door(scene);
    options.attempts_max = 100;
    subscribe(scene->bus, "hasty", "*", hasty, &options);
    options.handler_timeout_ms = 2 * DEADLINE_MS;
    subscribe(scene->bus, "patient", "*", patient, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "\"slow\"");
    settle_all(scene->bus, "hasty");
    assert_true(recorder_count(hasty) >= 2);
    assert_true(door_wait_inside(patient->extra, 2)); /* the first attempts of both */
    assert_int_equal(recorder_count(patient), 1);
    door_open(hasty->extra);
    settle_all(scene->bus, "patient");
    assert_int_equal(recorder_count(patient), 1);
}

/* A handler may run longer than the lease: the lease is renewed meanwhile. */
static void a_handler_within_its_timeout_outlives_the_lease(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, slow_at_first);
    struct recorder *thief = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    hf_bus *other = scene_open(scene, NULL);
    hf_receipt receipt;

    options.lease_ms = 10000; /* far more than a pause of the machine */
    recorder->extra = scene_door(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    receipt = *publish(scene->bus, "x", NULL, "\"slow\"");
    assert_true(door_wait_inside(recorder->extra, 1));
    subscribe(other, "a", "*", thief, NULL);
    assert_ok(hf_start(other));
    assert_status(hf_wait(scene->bus, "a", receipt.position, 14000), HF_TIMEOUT);
    assert_int_equal(recorder_count(thief), 0);
    door_open(recorder->extra);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 1);
    assert_int_equal(recorder_count(thief), 0);
}

static const struct CMUnitTest tests[] = {
    scene_test(a_timed_out_attempt_counts_as_failed_and_is_tried_again),
    scene_test(a_replacement_works_while_the_handler_is_stuck),
    scene_test(a_late_result_is_refused),
    scene_test(a_timed_out_handler_is_cancelled),
    scene_test(a_handler_times_out_although_its_dispatcher_waits_for_the_store),
    scene_test(too_many_stuck_handlers_pause_the_subscription_with_a_reason),
    scene_test(a_subscription_can_be_resumed_after_its_stuck_handlers_returned),
    scene_test(timeouts_are_the_subscriptions_own),
    scene_test(a_handler_within_its_timeout_outlives_the_lease),
};

SCENE_MAIN(tests)
