/*
 * Tests of shared subscriptions with handlers: any number of workers in any number of handles take
 * each event once, failures are retried, and leases come back when their holder is gone.
 */
#include "base/point.h"
#include "support_scene.h"

#include <stdatomic.h>

static hf_subscription_options shared_options(void)
{
    hf_subscription_options options = quick_options();

    options.mode = HF_MODE_SHARED;
    return options;
}

static void every_event_is_handled_once_by_one_of_many_workers(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = shared_options();

    options.concurrency = 8;
    options.batch = 7;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 200; i++) {
        publish(scene->bus, "x", "k", "1");
    }
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 200);
    for (int64_t position = 1; position <= 200; position++) {
        assert_int_equal(recorder_calls(recorder, position, NULL), 1);
    }
}

static void events_of_one_key_run_at_once(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = shared_options();

    recorder->door = scene_door(scene);
    options.concurrency = 4;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 8; i++) {
        publish(scene->bus, "x", "k", "1");
    }
    assert_true(door_wait_inside(recorder->door, 4));
    door_open(recorder->door);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_running_max(recorder), 4);
    assert_int_equal(recorder_count(recorder), 8);
}

/* What is over takes no room, wherever the slow one is. */
static void any_number_of_events_pass_a_slow_one(void **state)
{
    enum { EVENTS = 60 };
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, wait_at_first);
    hf_subscription_options options = shared_options();

    recorder->extra = scene_door(scene);
    options.concurrency = 2;
    options.batch = 5;
    options.inflight_max = 10;
    options.handler_timeout_ms = 10 * DEADLINE_MS;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < EVENTS; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->extra, 1));
    assert_true(recorder_wait(recorder, EVENTS - 1));
    assert_true(door_wait_inside(recorder->extra, 1));
    door_open(recorder->extra);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), EVENTS);
}

static void two_handles_share_the_work(void **state)
{
    struct scene *scene = *state;
    struct recorder *one = scene_recorder(scene, NULL);
    struct recorder *two = scene_recorder(scene, NULL);
    hf_subscription_options options = shared_options();
    hf_bus *other = scene_open(scene, NULL);

    one->door = two->door = scene_door(scene);
    options.batch = 5;
    options.concurrency = 2;
    subscribe(scene->bus, "a", "*", one, &options);
    subscribe(other, "a", "*", two, NULL);
    assert_ok(hf_start(scene->bus));
    assert_ok(hf_start(other));
    for (int i = 0; i < 100; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_true(door_wait_inside(one->door, 4));
    door_open(one->door);
    settle_all(scene->bus, "a");
    assert_true(recorder_count(one) > 0);
    assert_true(recorder_count(two) > 0);
    for (int64_t position = 1; position <= 100; position++) {
        assert_int_equal(recorder_calls(one, position, NULL) + recorder_calls(two, position, NULL),
                         1);
    }
}

static hf_verdict fail_some(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)recorder;
    if (event->position % 10 == 0) {
        hf_delivery_error(delivery, "attempt %d", (int)hf_delivery_attempt(delivery));
        return HF_RETRY;
    }
    return event->position % 10 == 5 && hf_delivery_attempt(delivery) == 1 ? HF_RETRY : HF_ACK;
}

static void failures_are_retried_and_die_alone(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_some);
    hf_subscription_options options = shared_options();
    struct dead dead[10];

    options.concurrency = 3;
    options.attempts_max = 3;
    options.batch = 16;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 100; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    for (int64_t position = 1; position <= 100; position++) {
        assert_int_equal(recorder_calls(recorder, position, NULL), position % 10 == 0   ? 3
                                                                   : position % 10 == 5 ? 2
                                                                                        : 1);
    }
    assert_int_equal(dead_of(scene->bus, "a", dead, 10), 10);
    for (int i = 0; i < 10; i++) {
        assert_string_equal(dead[i].reason, "attempts");
        assert_int_equal(dead[i].attempts, 3);
        assert_int_equal(dead[i].position % 10, 0);
        assert_int_equal(occurrences(dead[i].story, "\"error\":\"attempt "), 3);
    }
}

static void backoff_counts_for_shared_retries(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_some);
    hf_subscription_options options = shared_options();

    options.retry_base_ms = 150;
    options.retry_max_ms = 150;
    options.retry_jitter_percent = 0;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 5; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 6);
    assert_int_equal(recorder_get(recorder, 5).attempt, 2);
    for (size_t i = 0; i < 5; i++) {
        struct seen first = recorder_get(recorder, i);

        if (first.position == 5) {
            assert_true(recorder_get(recorder, 5).begin_us - first.end_us >= 145000);
        }
    }
}

static void handlers_and_claims_share_the_work(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = shared_options();
    hf_claim_options claim = HF_CLAIM_OPTIONS_INIT;
    hf_batch *batch = NULL;

    options.batch = 10;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 40; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    claim.max = 15;
    assert_ok(hf_claim(scene->bus, "a", &claim, &batch));
    assert_int_equal(hf_batch_count(batch), 15);
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait(recorder, 25));
    assert_status(hf_wait(scene->bus, "a", -1, 100), HF_TIMEOUT);
    assert_int_equal(recorder_count(recorder), 25);
    assert_ok(hf_ack(scene->bus, "a", hf_batch_lease(batch), NULL, 0));
    settle_all(scene->bus, "a");
    for (size_t i = 0; i < 15; i++) {
        assert_int_equal(recorder_calls(recorder, hf_batch_event(batch, i)->position, NULL), 0);
    }
    hf_batch_free(batch);
}

static void an_expired_claim_comes_to_the_handlers(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = shared_options();
    hf_claim_options claim = HF_CLAIM_OPTIONS_INIT;
    hf_batch *batch = NULL;

    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 6; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    claim.max = 4;
    claim.lease_ms = 200;
    assert_ok(hf_claim(scene->bus, "a", &claim, &batch));
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    for (int64_t position = 1; position <= 6; position++) {
        assert_int_equal(recorder_calls(recorder, position, NULL), 1);
    }
    assert_status(hf_ack(scene->bus, "a", hf_batch_lease(batch), NULL, 0), HF_STALE);
    hf_batch_free(batch);
}

static void stopping_gives_the_leases_back(void **state)
{
    struct scene *scene = *state;
    struct recorder *one = scene_recorder(scene, NULL);
    struct recorder *two = scene_recorder(scene, NULL);
    hf_subscription_options options = shared_options();
    hf_bus *other = scene_open(scene, NULL);
    int64_t begin_us;

    one->door = scene_door(scene);
    options.lease_ms = 60000;
    subscribe(scene->bus, "a", "*", one, &options);
    for (int i = 0; i < 30; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(one->door, 1));
    assert_status(hf_stop(scene->bus, 20), HF_TIMEOUT);
    door_open(one->door);
    assert_ok(hf_stop(scene->bus, -1));
    subscribe(other, "a", "*", two, NULL);
    begin_us = mono_us();
    assert_ok(hf_start(other));
    settle_all(other, "a");
    assert_true(mono_us() - begin_us < 30000000); /* half a lease */
    for (int64_t position = 1; position <= 30; position++) {
        assert_true(recorder_calls(one, position, NULL) + recorder_calls(two, position, NULL) >= 1);
    }
    assert_int_equal(info_of(other, "a").dead, 0);
}

static void a_long_handler_renews_its_lease(void **state)
{
    struct scene *scene = *state;
    struct recorder *one = scene_recorder(scene, NULL);
    struct recorder *two = scene_recorder(scene, NULL);
    hf_subscription_options options = shared_options();
    hf_bus *other = scene_open(scene, NULL);

    one->door = scene_door(scene);
    options.lease_ms = 10000; /* far more than a pause of the machine */
    subscribe(scene->bus, "a", "*", one, &options);
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(one->door, 1));
    subscribe(other, "a", "*", two, NULL);
    assert_ok(hf_start(other));
    assert_status(hf_wait(scene->bus, "a", 1, 14000), HF_TIMEOUT);
    assert_int_equal(recorder_count(two), 0);
    door_open(one->door);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(one), 1);
    assert_int_equal(recorder_count(two), 0);
}

#ifdef HF_FAULTS

static int count_lease(const hf_lease_info *info, void *ctx)
{
    *(size_t *)ctx += info->count;
    return 0;
}

/* How many events are claimed. */
static size_t claimed(hf_bus *bus)
{
    size_t count = 0;
    assert_ok(hf_lease_list(bus, "a", count_lease, &count));
    return count;
}

enum { BATCH = 5 };

static bool batch_is_done(void *ctx)
{
    hf_metrics metrics = {.size = sizeof metrics};
    assert_ok(hf_metrics_get(ctx, &metrics));
    return metrics.delivered == BATCH;
}

/* The dispatcher is away while the first batch is worked off, so that it finds all of it done. */
static void a_batch_that_is_done_is_settled_with_the_claim_of_the_next(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = shared_options();

    options.batch = BATCH;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 2 * BATCH; i++) {
        publish(scene->bus, "x", "k", "1");
    }
    point_arm("after_claim", 1, POINT_STOP_THREAD);
    assert_ok(hf_start(scene->bus));
    assert_true(point_wait_blocked("after_claim", DEADLINE_MS));
    point_arm("after_step", 1, POINT_STOP_THREAD);
    point_release("after_claim");
    assert_true(point_wait_blocked("after_step", DEADLINE_MS));
    bool done = wait_until(batch_is_done, scene->bus);
    point_arm("after_settle_lease", 1, POINT_STOP_THREAD);
    point_release("after_step");
    assert_true(point_wait_blocked("after_settle_lease", DEADLINE_MS));
    size_t begun = recorder_count(recorder);
    size_t next = claimed(scene->bus);
    point_release("after_settle_lease");
    settle_all(scene->bus, "a");
    assert_true(done);
    assert_int_equal(begun, BATCH);
    assert_int_equal(next, BATCH);
    assert_int_equal(recorder_count(recorder), 2 * BATCH);
}

#endif

static void a_shared_subscription_keeps_its_mode(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = shared_options();
    hf_subscription_options ordered = quick_options();

    subscribe(scene->bus, "a", "*", recorder, &options);
    ordered.mode = HF_MODE_ORDERED;
    assert_status(hf_subscribe(scene->bus, "a", "*", recorder_handle, recorder, &ordered, NULL),
                  HF_CONFLICT);
    assert_int_equal(info_of(scene->bus, "a").options.mode, HF_MODE_SHARED);
}

static const struct CMUnitTest tests[] = {
    scene_test(every_event_is_handled_once_by_one_of_many_workers),
    scene_test(events_of_one_key_run_at_once),
    scene_test(any_number_of_events_pass_a_slow_one),
    scene_test(two_handles_share_the_work),
    scene_test(failures_are_retried_and_die_alone),
    scene_test(backoff_counts_for_shared_retries),
    scene_test(handlers_and_claims_share_the_work),
    scene_test(an_expired_claim_comes_to_the_handlers),
    scene_test(stopping_gives_the_leases_back),
    scene_test(a_long_handler_renews_its_lease),
#ifdef HF_FAULTS
    scene_test(a_batch_that_is_done_is_settled_with_the_claim_of_the_next),
#endif
    scene_test(a_shared_subscription_keeps_its_mode),
};

SCENE_MAIN(tests)
