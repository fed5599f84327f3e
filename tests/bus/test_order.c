/*
 * Tests of ordered subscriptions: the order of a (tenant, key), how much runs at once, what a
 * failing event holds back, what on_poison does when it dies, and strict order.
 */
#include "support_scene.h"

#include <stdatomic.h>

/* Between attempts of what is healed later: a hundred of them take longer than any test waits. */
#define HEALING_MS 1000

static atomic_bool healed;

/* Fails every event whose payload is "bad" until `healed`. */
static hf_verdict fail_bad(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)recorder;
    if (atomic_load(&healed) || strcmp(event->payload, "\"bad\"") != 0) {
        return HF_ACK;
    }
    hf_delivery_error(delivery, "attempt %d was bad", (int)hf_delivery_attempt(delivery));
    return HF_RETRY;
}

/* First deliveries of each key came in the order of positions. */
static void assert_keys_in_order(struct recorder *recorder)
{
    size_t count = recorder_count(recorder);

    for (size_t i = 0; i < count; i++) {
        struct seen later = recorder_get(recorder, i);

        if (later.attempt > 1) {
            continue;
        }
        for (size_t j = 0; j < i; j++) {
            struct seen earlier = recorder_get(recorder, j);

            if (strcmp(earlier.key, later.key) == 0) {
                assert_true(earlier.position <= later.position);
            }
        }
    }
}

/* Publishes `count` events over the keys "0" to "keys - 1". */
static void publish_over_keys(hf_bus *bus, int count, int keys)
{
    hf_new_event events[500];
    char names[500][16];

    assert_in_range(count, 1, COUNTED(events));
    for (int i = 0; i < count; i++) {
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        snprintf(names[i], sizeof names[i], "%d", i % keys);
        events[i].type = "x";
        events[i].key = names[i];
    }
    assert_ok(hf_publish_many(bus, events, (size_t)count, NULL));
}

/* ---- How much runs at once ------------------------------------------------------------------- */

static void a_key_is_in_order_with_eight_workers(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();

    options.concurrency = 8;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish_over_keys(scene->bus, 200, 7);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 4; i++) {
        publish_over_keys(scene->bus, 50, 7);
    }
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 400);
    assert_int_equal(recorder_overlaps(recorder), 0);
    assert_keys_in_order(recorder);
}

/* Now and then a handler lasts: what others could have taken meanwhile is given away. */
static hf_verdict sometimes_slow(const hf_event *event, hf_delivery *delivery,
                                 struct recorder *recorder)
{
    (void)delivery;
    (void)recorder;
    if (event->position % 7 == 0) {
        usleep((useconds_t)(event->position % 5) * 1000);
    }
    return HF_ACK;
}

static void a_key_is_in_order_when_handlers_differ_in_speed(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, sometimes_slow);
    hf_subscription_options options = quick_options();

    options.concurrency = 4;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 10; i++) {
        publish_over_keys(scene->bus, 100, 3 + i);
    }
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 1000);
    assert_int_equal(recorder_overlaps(recorder), 0);
    assert_keys_in_order(recorder);
}

static void as_many_keys_run_at_once_as_concurrency_says(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();

    recorder->door = scene_door(scene);
    options.concurrency = 8;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish_over_keys(scene->bus, 48, 24);
    assert_true(door_wait_inside(recorder->door, 8));
    door_open(recorder->door);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_running_max(recorder), 8);
    assert_int_equal(recorder_count(recorder), 48);
}

static void events_without_a_key_do_not_wait_for_each_other(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();

    recorder->door = scene_door(scene);
    options.concurrency = 4;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 6; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_true(door_wait_inside(recorder->door, 4));
    door_open(recorder->door);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 6);
}

static void one_key_never_runs_twice_at_once(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    int64_t position = 0;

    recorder->door = scene_door(scene);
    options.concurrency = 8;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 20; i++) {
        position = publish(scene->bus, "x", "k", "1")->position;
    }
    assert_true(door_wait_inside(recorder->door, 1));
    assert_status(hf_wait(scene->bus, "a", position, 50), HF_TIMEOUT);
    assert_int_equal(recorder_count(recorder), 1);
    door_open(recorder->door);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 20);
    assert_int_equal(recorder_running_max(recorder), 1);
}

static void the_same_key_of_two_tenants_is_two_keys(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    hf_new_event event = HF_NEW_EVENT_INIT;

    recorder->door = scene_door(scene);
    options.concurrency = 2;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    event.type = "x";
    event.key = "k";
    event.tenant = "one";
    assert_ok(hf_publish(scene->bus, &event, NULL));
    event.tenant = "two";
    assert_ok(hf_publish(scene->bus, &event, NULL));
    assert_true(door_wait_inside(recorder->door, 2));
    door_open(recorder->door);
    settle_all(scene->bus, "a");
}

/* ---- A failing event ------------------------------------------------------------------------- */

struct held_search {
    hf_bus *bus;
    const char *id;
};

static bool is_held(void *ctx)
{
    struct held_search *search = ctx;

    return state_of(search->bus, "a", search->id, NULL) == HF_STATE_HELD;
}

static void a_failing_event_holds_back_only_its_own_key(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_bad);
    hf_subscription_options options = quick_options();
    hf_receipt bad[3];
    int64_t good = 0;

    atomic_store(&healed, false);
    options.attempts_max = 100;
    options.retry_max_ms = HEALING_MS;
    subscribe(scene->bus, "a", "*", recorder, &options);
    bad[0] = *publish(scene->bus, "x", "bad", "\"bad\"");
    bad[1] = *publish(scene->bus, "x", "bad", "2");
    for (int i = 0; i < 20; i++) {
        good = publish(scene->bus, "x", "good", "1")->position;
    }
    bad[2] = *publish(scene->bus, "x", "bad", "3");
    assert_ok(hf_start(scene->bus));
    assert_ok(hf_wait(scene->bus, "a", good, DEADLINE_MS));
    assert_true(wait_until(is_held, &(struct held_search){scene->bus, bad[1].id}));
    assert_true(wait_until(is_held, &(struct held_search){scene->bus, bad[2].id}));
    assert_int_equal(info_of(scene->bus, "a").held, 2);
    assert_int_equal(recorder_calls(recorder, 0, "good"), 20);
    assert_int_equal(recorder_calls(recorder, bad[1].position, NULL), 0);
    atomic_store(&healed, true);
    settle_all(scene->bus, "a");
    for (int i = 1; i < 3; i++) {
        assert_int_equal(recorder_calls(recorder, bad[i].position, NULL), 1);
    }
    assert_keys_in_order(recorder);
    assert_int_equal(recorder_overlaps(recorder), 0);
    assert_int_equal(info_of(scene->bus, "a").held, 0);
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
}

static void many_held_events_come_in_order_and_once(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_bad);
    hf_subscription_options options = quick_options();
    hf_receipt last;

    atomic_store(&healed, false);
    options.attempts_max = 100;
    options.retry_max_ms = HEALING_MS;
    options.concurrency = 8;
    options.batch = 10;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", "3", "\"bad\"");
    publish_over_keys(scene->bus, 300, 6);
    last = *publish(scene->bus, "x", "3", "1");
    assert_true(wait_until(is_held, &(struct held_search){scene->bus, last.id}));
    atomic_store(&healed, true);
    publish_over_keys(scene->bus, 60, 6);
    settle_all(scene->bus, "a");
    for (int64_t position = 2; position <= 362; position++) {
        assert_int_equal(recorder_calls(recorder, position, NULL), 1);
    }
    assert_keys_in_order(recorder);
    assert_int_equal(recorder_overlaps(recorder), 0);
}

/* A quarter of the events fails once. */
static hf_verdict fail_a_quarter_once(const hf_event *event, hf_delivery *delivery,
                                      struct recorder *recorder)
{
    (void)recorder;
    return event->position % 4 == 0 && hf_delivery_attempt(delivery) == 1 ? HF_RETRY : HF_ACK;
}

/* Each event was done with before the next of its key came for the first time. */
static void assert_no_overtaking(struct recorder *recorder)
{
    size_t count = recorder_count(recorder);

    for (size_t i = 0; i < count; i++) {
        struct seen earlier = recorder_get(recorder, i);

        for (size_t j = 0; j < i; j++) {
            struct seen later = recorder_get(recorder, j);

            if (strcmp(earlier.key, later.key) == 0 && earlier.position < later.position) {
                fail_msg("%lld of key %s ran (attempt %d) after %lld", (long long)earlier.position,
                         earlier.key, (int)earlier.attempt, (long long)later.position);
            }
        }
    }
}

static void events_held_behind_failures_are_not_overtaken(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_a_quarter_once);
    hf_subscription_options options = quick_options();
    char key[16];

    options.concurrency = 4;
    options.retry_base_ms = 1;
    options.retry_max_ms = 5;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 300; i++) {
        snprintf(key, sizeof key, "%d", i * 7 % 3);
        publish(scene->bus, "x", key, "1");
    }
    settle_all(scene->bus, "a");
    assert_no_overtaking(recorder);
    assert_int_equal(recorder_overlaps(recorder), 0);
    assert_int_equal(recorder_count(recorder), 375);
}

static void held_events_keep_their_order_over_a_restart(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_bad);
    hf_subscription_options options = quick_options();
    hf_receipt last;

    atomic_store(&healed, false);
    options.attempts_max = 100;
    options.retry_max_ms = HEALING_MS;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", "k", "\"bad\"");
    for (int i = 0; i < 10; i++) {
        last = *publish(scene->bus, "x", "k", "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(is_held, &(struct held_search){scene->bus, last.id}));
    scene_reopen(scene);
    assert_int_equal(recorder_calls(recorder, 2, NULL), 0);
    atomic_store(&healed, true);
    subscribe(scene->bus, "a", "*", recorder, NULL);
    publish(scene->bus, "x", "k", "1");
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    for (int64_t position = 2; position <= 12; position++) {
        assert_int_equal(recorder_calls(recorder, position, NULL), 1);
    }
    assert_keys_in_order(recorder);
}

/* ---- A dying event --------------------------------------------------------------------------- */

static hf_subscription_options poison_options(hf_on_poison on_poison)
{
    hf_subscription_options options = quick_options();

    atomic_store(&healed, false);
    options.attempts_max = 2;
    options.on_poison = on_poison;
    return options;
}

static void with_skip_the_next_of_the_key_goes_on(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_bad);
    hf_subscription_options options = poison_options(HF_POISON_SKIP);
    struct dead dead;
    hf_receipt bad, next;

    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    bad = *publish(scene->bus, "x", "k", "\"bad\"");
    next = *publish(scene->bus, "x", "k", "1");
    settle_all(scene->bus, "a");
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    assert_string_equal(dead.event_id, bad.id);
    assert_int_equal(recorder_calls(recorder, bad.position, NULL), 2);
    assert_int_equal(recorder_calls(recorder, next.position, NULL), 1);
    assert_int_equal(recorder_get(recorder, 2).position, next.position);
    assert_int_equal(info_of(scene->bus, "a").blocked, 0);
}

/* Publishes bad, held (same key) and free (another key), and waits until bad is dead. */
static hf_receipt block_a_key(struct scene *scene, struct recorder *recorder, hf_receipt *ret_held)
{
    hf_subscription_options options = poison_options(HF_POISON_BLOCK_KEY);
    hf_receipt bad;
    int64_t other;

    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    bad = *publish(scene->bus, "x", "k", "\"bad\"");
    *ret_held = *publish(scene->bus, "x", "k", "1");
    other = publish(scene->bus, "x", "free", "1")->position;
    assert_ok(hf_wait(scene->bus, "a", bad.position, DEADLINE_MS));
    assert_ok(hf_wait(scene->bus, "a", other, DEADLINE_MS));
    assert_true(wait_until(is_held, &(struct held_search){scene->bus, ret_held->id}));
    assert_int_equal(state_of(scene->bus, "a", bad.id, NULL), HF_STATE_DEAD);
    assert_int_equal(recorder_calls(recorder, ret_held->position, NULL), 0);
    assert_int_equal(recorder_calls(recorder, other, NULL), 1);
    assert_int_equal(info_of(scene->bus, "a").blocked, 1);
    return bad;
}

static void with_block_key_the_key_waits_until_the_dead_letter_is_retried(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_bad);
    hf_receipt held;
    hf_receipt bad = block_a_key(scene, recorder, &held);
    struct dead dead;
    size_t before;

    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    before = recorder_count(recorder);
    atomic_store(&healed, true);
    assert_ok(hf_dead_retry(scene->bus, dead.dead_id, NULL, 0));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), before + 2);
    assert_int_equal(recorder_get(recorder, before).position, bad.position);
    assert_int_equal(recorder_get(recorder, before).attempt, 1);
    assert_int_equal(recorder_get(recorder, before + 1).position, held.position);
    assert_int_equal(info_of(scene->bus, "a").blocked, 0);
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
}

static void with_block_key_the_key_waits_until_the_dead_letter_is_resolved(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_bad);
    hf_receipt held;
    hf_receipt bad = block_a_key(scene, recorder, &held);
    struct dead dead;

    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    assert_ok(hf_dead_resolve(scene->bus, dead.dead_id, "me", "by hand"));
    assert_ok(hf_wait(scene->bus, "a", held.position, DEADLINE_MS));
    assert_int_equal(recorder_calls(recorder, held.position, NULL), 1);
    assert_int_equal(recorder_calls(recorder, bad.position, NULL), 2);
    assert_int_equal(info_of(scene->bus, "a").blocked, 0);
}

static void a_blocked_key_stays_blocked_over_a_restart(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_bad);
    hf_receipt held, later, other;
    struct dead dead;

    block_a_key(scene, recorder, &held);
    scene_reopen(scene);
    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    later = *publish(scene->bus, "x", "k", "1");
    other = *publish(scene->bus, "x", "free", "1");
    assert_ok(hf_wait(scene->bus, "a", other.position, DEADLINE_MS));
    assert_true(wait_until(is_held, &(struct held_search){scene->bus, later.id}));
    assert_int_equal(recorder_calls(recorder, held.position, NULL), 0);
    assert_int_equal(recorder_calls(recorder, later.position, NULL), 0);
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    assert_ok(hf_dead_resolve(scene->bus, dead.dead_id, "me", "by hand"));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_calls(recorder, held.position, NULL), 1);
    assert_int_equal(recorder_calls(recorder, later.position, NULL), 1);
    assert_keys_in_order(recorder);
}

static bool is_paused(void *ctx)
{
    return info_of(ctx, "a").paused_at_us != -1;
}

static void with_halt_the_subscription_pauses_and_says_why(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_bad);
    hf_subscription_options options = poison_options(HF_POISON_HALT);
    hf_receipt bad, next;
    struct info info;

    subscribe(scene->bus, "a", "*", recorder, &options);
    bad = *publish(scene->bus, "x", "k", "\"bad\"");
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(is_paused, scene->bus));
    next = *publish(scene->bus, "x", "other", "1");
    assert_status(hf_wait(scene->bus, "a", next.position, 50), HF_TIMEOUT);
    info = info_of(scene->bus, "a");
    assert_int_not_equal(info.paused_reason[0], 0);
    assert_int_not_equal(info.not_moving[0], 0);
    assert_int_equal(info.dead, 1);
    assert_int_equal(state_of(scene->bus, "a", bad.id, NULL), HF_STATE_DEAD);
    assert_int_equal(recorder_calls(recorder, next.position, NULL), 0);
    assert_ok(hf_resume(scene->bus, "a"));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_calls(recorder, next.position, NULL), 1);
    assert_int_equal(recorder_calls(recorder, bad.position, NULL), 2);
}

/* ---- Strict order ---------------------------------------------------------------------------- */

static void strict_order_is_one_event_at_a_time_in_the_order_of_positions(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();

    options.order = HF_ORDER_STRICT;
    options.concurrency = 8;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish_over_keys(scene->bus, 100, 10);
    assert_ok(hf_start(scene->bus));
    publish_over_keys(scene->bus, 100, 10);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 200);
    assert_int_equal(recorder_running_max(recorder), 1);
    for (size_t i = 0; i < 200; i++) {
        assert_int_equal(recorder_get(recorder, i).position, i + 1);
    }
}

static void in_strict_order_a_failing_event_holds_back_everything(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_bad);
    hf_subscription_options options = quick_options();
    const int64_t expected[] = {1, 2, 3, 3, 3, 4, 5, 6};

    atomic_store(&healed, false);
    options.order = HF_ORDER_STRICT;
    options.concurrency = 4;
    options.attempts_max = 3;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 1; i <= 6; i++) {
        char key[16];

        snprintf(key, sizeof key, "%d", i);
        publish(scene->bus, "x", key, i == 3 ? "\"bad\"" : "1");
    }
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), COUNTED(expected));
    for (size_t i = 0; i < COUNTED(expected); i++) {
        assert_int_equal(recorder_get(recorder, i).position, expected[i]);
    }
    assert_int_equal(info_of(scene->bus, "a").dead, 1);
}

static const struct CMUnitTest tests[] = {
    scene_test(a_key_is_in_order_with_eight_workers),
    scene_test(a_key_is_in_order_when_handlers_differ_in_speed),
    scene_test(as_many_keys_run_at_once_as_concurrency_says),
    scene_test(events_without_a_key_do_not_wait_for_each_other),
    scene_test(one_key_never_runs_twice_at_once),
    scene_test(the_same_key_of_two_tenants_is_two_keys),
    scene_test(a_failing_event_holds_back_only_its_own_key),
    scene_test(many_held_events_come_in_order_and_once),
    scene_test(events_held_behind_failures_are_not_overtaken),
    scene_test(held_events_keep_their_order_over_a_restart),
    scene_test(with_skip_the_next_of_the_key_goes_on),
    scene_test(with_block_key_the_key_waits_until_the_dead_letter_is_retried),
    scene_test(with_block_key_the_key_waits_until_the_dead_letter_is_resolved),
    scene_test(a_blocked_key_stays_blocked_over_a_restart),
    scene_test(with_halt_the_subscription_pauses_and_says_why),
    scene_test(strict_order_is_one_event_at_a_time_in_the_order_of_positions),
    scene_test(in_strict_order_a_failing_event_holds_back_everything),
};

SCENE_MAIN(tests)
