/*
 * Tests of the circuit breaker: it opens when too many first attempts fail, pauses without
 * skipping, lets exactly one event through to see, and closes or stays open by what becomes of that
 * one.
 */
#include "support_scene.h"

#include <stdatomic.h>

static atomic_bool sick;

static hf_verdict fail_while_sick(const hf_event *event, hf_delivery *delivery,
                                  struct recorder *recorder)
{
    (void)event;
    (void)recorder;
    if (!atomic_load(&sick)) {
        return HF_ACK;
    }
    hf_delivery_error(delivery, "sick");
    return HF_RETRY;
}

static hf_subscription_options breaker_options(void)
{
    hf_subscription_options options = quick_options();

    atomic_store(&sick, true);
    options.breaker = HF_ON;
    options.breaker_events = 5;
    options.breaker_percent = 50;
    options.breaker_window_ms = 60000;
    options.breaker_pause_ms = 300;
    options.attempts_max = 100;
    options.retry_base_ms = 60000; /* so that only the probe runs again */
    options.retry_max_ms = 60000;
    return options;
}

static bool is_open(void *ctx)
{
    return strcmp(info_of(ctx, "a").breaker, "open") == 0;
}

/* Nothing but a probe runs: open, or its pause is over. */
static bool is_not_closed(void *ctx)
{
    return strcmp(info_of(ctx, "a").breaker, "closed") != 0;
}

static bool is_closed(void *ctx)
{
    return strcmp(info_of(ctx, "a").breaker, "closed") == 0;
}

static void a_breaker_opens_when_too_many_first_attempts_fail(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_while_sick);
    hf_subscription_options options = breaker_options();
    int64_t before_us = wall_us();
    struct info info;

    options.breaker_pause_ms = 60000;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 50; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(is_open, scene->bus));
    info = info_of(scene->bus, "a");
    assert_in_range(info.breaker_until_us, before_us + 50000000, wall_us() + 60000000);
    assert_int_not_equal(info.not_moving[0], 0);
    assert_in_range(recorder_count(recorder), 5, 8);
    assert_int_equal(info.dead, 0);
}

static void a_breaker_stays_closed_when_too_few_first_attempts_fail(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_while_sick);
    hf_subscription_options options = breaker_options();

    /* 10 healthy ones first: 4 failures of 14 are less than half. */
    atomic_store(&sick, false);
    options.retry_base_ms = 10;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 10; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    settle_all(scene->bus, "a");
    atomic_store(&sick, true);
    for (int i = 0; i < 4; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_true(recorder_wait(recorder, 20));
    assert_string_equal(info_of(scene->bus, "a").breaker, "closed");
    atomic_store(&sick, false);
    settle_all(scene->bus, "a");
}

static void a_breaker_that_is_off_never_opens(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_while_sick);
    hf_subscription_options options = breaker_options();

    options.breaker = HF_OFF;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 30; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait(recorder, 30));
    assert_string_equal(info_of(scene->bus, "a").breaker, "");
}

static void after_the_pause_exactly_one_probe_runs(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_while_sick);
    hf_subscription_options options = breaker_options();

    recorder->door = scene_door(scene);
    options.concurrency = 4;
    subscribe(scene->bus, "a", "*", recorder, &options);
    /* Just as many as open it fail, and wait for a minute. The rest comes when it is open. */
    door_let(recorder->door, options.breaker_events);
    for (int i = 0; i < options.breaker_events; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(is_not_closed, scene->bus));
    for (int i = 0; i < 40; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_true(door_wait_inside(recorder->door, 1));
    /* The probe is inside: no other event is let in, whatever time passes. */
    assert_status(hf_wait(scene->bus, "a", -1, 700), HF_TIMEOUT);
    assert_int_equal(recorder_count(recorder), 5 + 1);
    /* It fails: open again, and again one. */
    door_let(recorder->door, 1);
    assert_true(recorder_wait_begun(recorder, 5 + 2));
    assert_status(hf_wait(scene->bus, "a", -1, 700), HF_TIMEOUT);
    assert_int_equal(recorder_count(recorder), 5 + 2);
    atomic_store(&sick, false);
    door_open(recorder->door);
    assert_true(wait_until(is_closed, scene->bus));
    assert_true(recorder_wait(recorder, 5 + 2 + 10));
}

static void a_breaker_never_skips_an_event(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_while_sick);
    hf_subscription_options options = breaker_options();

    options.retry_base_ms = 20;
    options.retry_max_ms = 20;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 60; i++) {
        publish(scene->bus, "x", i % 2 ? "k" : NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(is_open, scene->bus));
    atomic_store(&sick, false);
    settle_all(scene->bus, "a");
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
    for (int64_t position = 1; position <= 60; position++) {
        assert_true(recorder_calls(recorder, position, NULL) >= 1);
    }
    assert_string_equal(info_of(scene->bus, "a").breaker, "closed");
}

static void an_open_breaker_is_seen_by_the_next_process(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_while_sick);
    hf_subscription_options options = breaker_options();
    hf_receipt receipt;
    size_t before;

    options.breaker_pause_ms = 60000;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 20; i++) {
        receipt = *publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(is_open, scene->bus));
    scene_reopen(scene);
    before = recorder_count(recorder);
    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    assert_status(hf_wait(scene->bus, "a", receipt.position, 200), HF_TIMEOUT);
    assert_int_equal(recorder_count(recorder), before);
    assert_string_equal(info_of(scene->bus, "a").breaker, "open");
    /* Resuming closes it. */
    atomic_store(&sick, false);
    assert_ok(hf_resume(scene->bus, "a"));
    assert_ok(hf_wait(scene->bus, "a", receipt.position, DEADLINE_MS));
    assert_string_equal(info_of(scene->bus, "a").breaker, "closed");
}

static void a_shared_subscription_has_a_breaker_too(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_while_sick);
    hf_subscription_options options = breaker_options();

    options.mode = HF_MODE_SHARED;
    options.retry_base_ms = 20;
    options.retry_max_ms = 20;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 40; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(is_open, scene->bus));
    atomic_store(&sick, false);
    settle_all(scene->bus, "a");
    for (int64_t position = 1; position <= 40; position++) {
        assert_true(recorder_calls(recorder, position, NULL) >= 1);
    }
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
}

static void an_open_breaker_counts_for_every_handle(void **state)
{
    struct scene *scene = *state;
    struct recorder *one = scene_recorder(scene, fail_while_sick);
    struct recorder *two = scene_recorder(scene, fail_while_sick);
    hf_subscription_options options = breaker_options();
    hf_bus *other = scene_open(scene, NULL);
    size_t before, count;

    options.mode = HF_MODE_SHARED;
    options.batch = 5;
    options.breaker_pause_ms = 60000;
    subscribe(scene->bus, "a", "*", one, &options);
    subscribe(other, "a", "*", two, &options);
    assert_ok(hf_start(other)); /* it works, and has nothing to do yet */
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 50; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_true(wait_until(is_open, scene->bus));
    /* Without it all fifty would be tried. The other one hears of it when its time has come. */
    count = recorder_count(one) + recorder_count(two);
    do {
        before = count;
        assert_status(hf_wait(scene->bus, "a", -1, 700), HF_TIMEOUT);
        count = recorder_count(one) + recorder_count(two);
    } while (count != before);
    assert_in_range(count, 5, 25);
}

static const struct CMUnitTest tests[] = {
    scene_test(a_breaker_opens_when_too_many_first_attempts_fail),
    scene_test(a_breaker_stays_closed_when_too_few_first_attempts_fail),
    scene_test(a_breaker_that_is_off_never_opens),
    scene_test(after_the_pause_exactly_one_probe_runs),
    scene_test(a_breaker_never_skips_an_event),
    scene_test(an_open_breaker_is_seen_by_the_next_process),
    scene_test(a_shared_subscription_has_a_breaker_too),
    scene_test(an_open_breaker_counts_for_every_handle),
};

SCENE_MAIN(tests)
