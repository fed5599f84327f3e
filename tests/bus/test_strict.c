/*
 * Tests of strict order and of what waits behind a failing event: whatever lets an event go (a
 * retry, a transaction, a resolved dead letter), the next one of its lane follows, and none
 * overtakes.
 */
#include "support_scene.h"

#include <stdatomic.h>

/* "1" fails in its first `failures` attempts. */
static atomic_int failures;

static hf_verdict first_fails(const hf_event *event, hf_delivery *delivery,
                              struct recorder *recorder)
{
    (void)recorder;
    if (strcmp(event->payload, "1") != 0 ||
        hf_delivery_attempt(delivery) > atomic_load(&failures)) {
        return HF_ACK;
    }
    hf_delivery_error(delivery, "not yet");
    return HF_RETRY;
}

static hf_subscription_options strict_options(int fails)
{
    hf_subscription_options options = quick_options();

    atomic_store(&failures, fails);
    options.order = HF_ORDER_STRICT;
    options.concurrency = 4;
    options.attempts_max = 2;
    return options;
}

/* Four events of different keys, the first with payload "1". */
static void publish_four(hf_bus *bus)
{
    for (int i = 1; i <= 4; i++) {
        char text[16], key[16];

        snprintf(text, sizeof text, "%d", i);
        snprintf(key, sizeof key, "k%d", i);
        publish(bus, "x", key, text);
    }
}

static void assert_calls(struct recorder *recorder, const int64_t *positions, size_t count)
{
    assert_int_equal(recorder_count(recorder), count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(recorder_get(recorder, i).position, positions[i]);
    }
}

static void a_failure_holds_back_all_and_then_lets_them_go(struct scene *scene, hf_toggle tx)
{
    struct recorder *recorder = scene_recorder(scene, first_fails);
    hf_subscription_options options = strict_options(1);
    const int64_t expected[] = {1, 1, 2, 3, 4, 5};

    options.transactional = tx;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish_four(scene->bus);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    publish(scene->bus, "x", "k9", "9");
    settle_all(scene->bus, "a");
    assert_calls(recorder, expected, COUNTED(expected));
    assert_int_equal(info_of(scene->bus, "a").held, 0);
}

static void held_events_follow_a_retry_that_succeeds(void **state)
{
    a_failure_holds_back_all_and_then_lets_them_go(*state, HF_OFF);
}

static void held_events_follow_a_retry_that_succeeds_in_a_transaction(void **state)
{
    a_failure_holds_back_all_and_then_lets_them_go(*state, HF_ON);
}

struct held_search {
    hf_bus *bus;
    int64_t held;
};

static bool are_held(void *ctx)
{
    struct held_search *search = ctx;

    return info_of(search->bus, "a").held == search->held;
}

/* Blocks all with the first event and waits until the other three are held. */
static int64_t block_all(struct scene *scene, struct recorder *recorder)
{
    hf_subscription_options options = strict_options(2);
    struct dead dead;

    options.on_poison = HF_POISON_BLOCK_KEY;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish_four(scene->bus);
    assert_ok(hf_start(scene->bus));
    assert_ok(hf_wait(scene->bus, "a", 1, DEADLINE_MS));
    assert_true(wait_until(are_held, &(struct held_search){scene->bus, 3}));
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    return dead.dead_id;
}

static void held_events_follow_a_dead_letter_that_is_resolved(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, first_fails);
    int64_t dead_id = block_all(scene, recorder);
    const int64_t expected[] = {1, 1, 2, 3, 4};

    assert_ok(hf_dead_resolve(scene->bus, dead_id, "me", "done by hand"));
    settle_all(scene->bus, "a");
    assert_calls(recorder, expected, COUNTED(expected));
}

static void held_events_follow_a_dead_letter_that_is_retried(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, first_fails);
    int64_t dead_id = block_all(scene, recorder);
    const int64_t expected[] = {1, 1, 1, 2, 3, 4};

    atomic_store(&failures, 0);
    assert_ok(hf_dead_retry(scene->bus, dead_id, NULL, 0));
    settle_all(scene->bus, "a");
    assert_calls(recorder, expected, COUNTED(expected));
}

static void held_events_follow_a_dead_letter_that_is_purged(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, first_fails);
    hf_dead_filter filter = HF_DEAD_FILTER_INIT;
    const int64_t expected[] = {1, 1, 2, 3, 4};
    int64_t count = 0;

    block_all(scene, recorder);
    assert_ok(hf_dead_purge(scene->bus, &filter, &count));
    assert_int_equal(count, 1);
    settle_all(scene->bus, "a");
    assert_calls(recorder, expected, COUNTED(expected));
}

static void strict_order_cannot_be_changed_later(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = strict_options(0);

    subscribe(scene->bus, "a", "*", recorder, &options);
    options.order = HF_ORDER_RELAXED;
    assert_status(hf_subscribe(scene->bus, "a", "*", recorder_handle, recorder, &options, NULL),
                  HF_CONFLICT);
    assert_int_equal(info_of(scene->bus, "a").options.order, HF_ORDER_STRICT);
}

/* An event without a handler dies at once; the failing one before it still holds back its key. */
static void a_death_without_a_handler_does_not_free_a_failing_key(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, first_fails);
    hf_subscription_options options = quick_options();
    const int64_t expected[] = {1, 1, 3};

    atomic_store(&failures, 1);
    options.on_unhandled = HF_UNHANDLED_DEAD_LETTER;
    options.retry_base_ms = 300;
    options.retry_max_ms = 300;
    subscribe(scene->bus, "a", "good.*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "good.x", "k", "1");
    assert_true(recorder_wait(recorder, 1));
    publish(scene->bus, "bad.x", "k", "2");
    publish(scene->bus, "good.x", "k", "3");
    settle_all(scene->bus, "a");
    assert_calls(recorder, expected, COUNTED(expected));
    assert_int_equal(info_of(scene->bus, "a").dead, 1);
}

struct retrying {
    hf_bus *bus;
};

static bool one_waits(void *ctx)
{
    struct retrying *search = ctx;

    return info_of(search->bus, "a").retrying == 1;
}

/* They stay in the log instead of becoming rows that are fetched again one by one. */
static void events_behind_a_failing_one_are_not_stored_as_held(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, first_fails);
    hf_subscription_options options = strict_options(1);
    struct retrying search = {scene->bus};

    options.inflight_max = 8;
    options.batch = 4;
    options.retry_base_ms = options.retry_max_ms = 1500;
    options.retry_jitter_percent = 0;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    assert_true(wait_until(one_waits, &search));
    for (int i = 0; i < 100; i++) {
        publish(scene->bus, "x", NULL, "2");
    }
    if (recorder_count(recorder) == 1) { /* the second attempt has not come yet */
        assert_true(info_of(scene->bus, "a").held <= 8);
        assert_true(strstr(info_of(scene->bus, "a").not_moving, "1 event waits for its") ||
                    recorder_count(recorder) > 1);
    }
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 102);
    for (size_t i = 1; i < 102; i++) {
        assert_int_equal(recorder_get(recorder, i).position, i);
    }
}

static const struct CMUnitTest tests[] = {
    scene_test(held_events_follow_a_retry_that_succeeds),
    scene_test(held_events_follow_a_retry_that_succeeds_in_a_transaction),
    scene_test(held_events_follow_a_dead_letter_that_is_resolved),
    scene_test(held_events_follow_a_dead_letter_that_is_retried),
    scene_test(held_events_follow_a_dead_letter_that_is_purged),
    scene_test(strict_order_cannot_be_changed_later),
    scene_test(a_death_without_a_handler_does_not_free_a_failing_key),
    scene_test(events_behind_a_failing_one_are_not_stored_as_held),
};

SCENE_MAIN(tests)
