/*
 * Tests of the stored progress: after each event or in batches, at a stop, and what a process that
 * dies in between delivers again.
 */
#include "support_scene.h"

#define MANY 60 /* subscriptions of a process: enough not to do everything at once */

static bool is_stored(void *ctx)
{
    struct scene *scene = ctx;
    struct info info = info_of(scene->bus, "a");

    return info.checkpoint == info.head;
}

static void with_checkpoint_events_1_the_checkpoint_follows_each_event(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    hf_bus *watcher = scene_open(scene, NULL);
    struct info info;

    options.checkpoint_events = 1;
    options.checkpoint_ms = 60000;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 5; i++) {
        hf_receipt receipt = *publish(scene->bus, "x", NULL, "1");

        assert_ok(hf_wait(watcher, "a", receipt.position, DEADLINE_MS));
        info = info_of(watcher, "a");
        assert_int_equal(info.checkpoint, receipt.position);
        assert_string_equal(info.checkpoint_event_id, receipt.id);
        assert_int_equal(info.lag, 0);
    }
}

static hf_verdict fail_first_once(const hf_event *event, hf_delivery *delivery,
                                  struct recorder *recorder)
{
    (void)recorder;
    return event->position == 1 && hf_delivery_attempt(delivery) == 1 ? HF_RETRY : HF_ACK;
}

/* The checkpoint has moved past it by the time that it is done. */
static void with_checkpoint_events_1_a_transactional_retry_stops_no_other_event(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_first_once);
    hf_subscription_options options = quick_options();

    options.checkpoint_events = 1;
    options.transactional = HF_ON;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 20; i++) {
        publish(scene->bus, "x", "k", "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait(recorder, 21));
    settle_all(scene->bus, "a");
}

static void with_checkpoint_events_1_and_many_workers_a_slow_event_stops_no_other(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, wait_at_first);
    hf_subscription_options options = quick_options();

    recorder->extra = scene_door(scene);
    options.checkpoint_events = 1;
    options.concurrency = 3;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 20; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait(recorder, 19));
    assert_int_equal(info_of(scene->bus, "a").checkpoint, 0);
    door_open(recorder->extra);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 20);
}

/* The checkpoint must not lie: while an event runs it stays below it. */
static void the_checkpoint_never_passes_an_event_that_runs(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();

    recorder->door = scene_door(scene);
    options.checkpoint_events = 1;
    options.concurrency = 4;
    subscribe(scene->bus, "a", "slow", recorder, &options);
    subscribe(scene->bus, "a", "fast", scene_recorder(scene, NULL), NULL);
    publish(scene->bus, "fast", NULL, "1");
    publish(scene->bus, "slow", NULL, "2");
    for (int i = 0; i < 20; i++) {
        publish(scene->bus, "fast", NULL, "3");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->door, 1));
    assert_ok(hf_wait(scene->bus, "a", 1, DEADLINE_MS));
    assert_status(hf_wait(scene->bus, "a", 2, 200), HF_TIMEOUT);
    assert_int_equal(info_of(scene->bus, "a").checkpoint, 1);
    door_open(recorder->door);
    settle_all(scene->bus, "a");
    assert_true(wait_until(is_stored, scene));
}

static void a_batched_checkpoint_is_stored_after_checkpoint_events(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();

    options.checkpoint_events = 10;
    options.checkpoint_ms = 60000;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 10; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_true(recorder_wait(recorder, 10));
    assert_true(wait_until(is_stored, scene));
}

static void a_batched_checkpoint_is_stored_after_checkpoint_ms(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();

    options.checkpoint_events = 1000;
    options.checkpoint_ms = 100;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    assert_true(recorder_wait(recorder, 1));
    assert_true(wait_until(is_stored, scene));
}

/* Options by which nothing but idleness is a reason to store a checkpoint. */
static hf_subscription_options patient_options(void)
{
    hf_subscription_options options = quick_options();

    options.checkpoint_events = 100000;
    options.checkpoint_ms = 3600000;
    return options;
}

static void when_nothing_is_left_to_be_done_the_checkpoint_is_stored_at_once(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = patient_options();

    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 7; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_true(recorder_wait(recorder, 7));
    assert_true(wait_until(is_stored, scene));
}

/* The next event comes as soon as the one before it is done: there is no quiet time. */
static void while_events_come_one_by_one_their_checkpoints_are_stored(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = patient_options();
    int64_t end_us = mono_us() + DEADLINE_MS * 1000;
    size_t published = 0;

    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    while (info_of(scene->bus, "a").checkpoint < 10 && mono_us() < end_us) {
        publish(scene->bus, "x", NULL, "1");
        published++;
        assert_true(recorder_wait(recorder, published));
    }
    assert_true(info_of(scene->bus, "a").checkpoint >= 10);
}

static bool are_all_stored(void *ctx)
{
    struct scene *scene = ctx;
    bool stored = true;

    for (int i = 0; i < MANY && stored; i++) {
        char name[16];

        snprintf(name, sizeof name, "s%d", i);
        struct info info = info_of(scene->bus, name);
        stored = info.checkpoint == info.head;
    }
    return stored;
}

static void many_subscriptions_store_their_checkpoints_when_they_are_idle_too(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = patient_options();

    for (int i = 0; i < MANY; i++) {
        char name[16];

        snprintf(name, sizeof name, "s%d", i);
        subscribe(scene->bus, name, "*", recorder, &options);
    }
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    publish(scene->bus, "x", NULL, "2");
    assert_true(recorder_wait(recorder, 2 * MANY));
    assert_true(wait_until(are_all_stored, scene));
}

static void stopping_stores_the_checkpoint(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    hf_receipt receipt;

    options.checkpoint_events = 1000;
    options.checkpoint_ms = 60000;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 7; i++) {
        receipt = *publish(scene->bus, "x", NULL, "1");
    }
    assert_true(recorder_wait(recorder, 7));
    assert_ok(hf_stop(scene->bus, -1));
    assert_int_equal(info_of(scene->bus, "a").checkpoint, receipt.position);
    assert_string_equal(info_of(scene->bus, "a").checkpoint_event_id, receipt.id);
}

static void closing_stores_the_checkpoint_and_no_event_comes_again(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();

    options.checkpoint_events = 1000;
    options.checkpoint_ms = 60000;
    options.concurrency = 4;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 200; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait(recorder, 50));
    scene_reopen(scene);
    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    for (int64_t position = 1; position <= 200; position++) {
        assert_int_equal(recorder_calls(recorder, position, NULL), 1);
    }
}

/* An event that finished early, above one that fails, is not delivered again after a restart. */
static hf_verdict fail_first(const hf_event *event, hf_delivery *delivery,
                             struct recorder *recorder)
{
    (void)recorder;
    return event->position == 1 && hf_delivery_attempt(delivery) == 1 ? HF_RETRY : HF_ACK;
}

static void events_done_above_the_checkpoint_are_remembered_over_a_restart(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_first);
    hf_subscription_options options = quick_options();

    options.retry_base_ms = 400;
    options.retry_max_ms = 400;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 10; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait(recorder, 10));
    scene_reopen(scene);
    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_calls(recorder, 1, NULL), 2);
    for (int64_t position = 2; position <= 10; position++) {
        assert_int_equal(recorder_calls(recorder, position, NULL), 1);
    }
}

static void lag_is_the_distance_to_the_newest_position(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    const char *patterns[] = {"*"};
    struct info info;

    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL));
    for (int i = 0; i < 9; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    info = info_of(scene->bus, "a");
    assert_int_equal(info.head, 9);
    assert_int_equal(info.checkpoint, 0);
    assert_int_equal(info.lag, 9);
    assert_int_not_equal(info.not_moving[0], 0);
}

static const struct CMUnitTest tests[] = {
    scene_test(with_checkpoint_events_1_the_checkpoint_follows_each_event),
    scene_test(with_checkpoint_events_1_a_transactional_retry_stops_no_other_event),
    scene_test(with_checkpoint_events_1_and_many_workers_a_slow_event_stops_no_other),
    scene_test(the_checkpoint_never_passes_an_event_that_runs),
    scene_test(a_batched_checkpoint_is_stored_after_checkpoint_events),
    scene_test(a_batched_checkpoint_is_stored_after_checkpoint_ms),
    scene_test(when_nothing_is_left_to_be_done_the_checkpoint_is_stored_at_once),
    scene_test(while_events_come_one_by_one_their_checkpoints_are_stored),
    scene_test(many_subscriptions_store_their_checkpoints_when_they_are_idle_too),
    scene_test(stopping_stores_the_checkpoint),
    scene_test(closing_stores_the_checkpoint_and_no_event_comes_again),
    scene_test(events_done_above_the_checkpoint_are_remembered_over_a_restart),
    scene_test(lag_is_the_distance_to_the_newest_position),
};

SCENE_MAIN(tests)
