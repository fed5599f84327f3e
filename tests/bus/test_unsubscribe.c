/*
 * Tests of handlers that come and go while events flow: an event that no handler has seen is never
 * acknowledged, and what has a record does not disappear.
 */
#include "support_scene.h"

#include <stdatomic.h>

#define EVENTS 3000

static hf_subscription_options busy_options(hf_mode mode)
{
    hf_subscription_options options = quick_options();

    options.mode = mode;
    options.concurrency = 2;
    return options;
}

static void publish_all(hf_bus *bus)
{
    static hf_new_event events[EVENTS];

    for (int i = 0; i < EVENTS; i++) {
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = i % 2 ? "user.created" : "order.created";
    }
    assert_ok(hf_publish_many(bus, events, EVENTS, NULL));
}

/* Every position was seen by one of the recorders. */
static void assert_all_seen(struct recorder **recorders, size_t count)
{
    unsigned char *seen = calloc(EVENTS + 1, 1);
    int missing = 0;

    assert_non_null(seen);
    for (size_t r = 0; r < count; r++) {
        for (size_t i = 0; i < recorder_count(recorders[r]); i++) {
            seen[recorder_get(recorders[r], i).position] = 1;
        }
    }
    for (int position = 1; position <= EVENTS; position++) {
        missing += !seen[position];
    }
    free(seen);
    assert_int_equal(missing, 0);
}

/* ---- In the middle --------------------------------------------------------------------------- */

static void come_and_go(struct scene *scene, hf_mode mode)
{
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = busy_options(mode);
    hf_handler_id id = subscribe(scene->bus, "a", "*", recorder, &options);

    publish_all(scene->bus);
    assert_ok(hf_start(scene->bus));
    for (size_t round = 1; round <= 5; round++) {
        assert_true(recorder_wait_begun(recorder, round * 300));
        assert_ok(hf_unsubscribe(scene->bus, id));
        id = subscribe(scene->bus, "a", "*", recorder, NULL);
    }
    settle_all(scene->bus, "a");
    assert_all_seen(&recorder, 1);
}

static void unsubscribing_a_busy_ordered_handler_loses_nothing(void **state)
{
    come_and_go(*state, HF_MODE_ORDERED);
}

static void unsubscribing_a_busy_shared_handler_loses_nothing(void **state)
{
    come_and_go(*state, HF_MODE_SHARED);
}

static void one_of_two(struct scene *scene, hf_mode mode)
{
    struct recorder *recorders[2] = {scene_recorder(scene, NULL), scene_recorder(scene, NULL)};
    hf_subscription_options options = busy_options(mode);
    hf_handler_id id;

    subscribe(scene->bus, "a", "user.*", recorders[0], &options);
    id = subscribe(scene->bus, "a", "order.*", recorders[1], NULL);
    publish_all(scene->bus);
    assert_ok(hf_start(scene->bus));
    for (size_t round = 1; round <= 5; round++) {
        assert_true(recorder_wait_begun(recorders[1], round * 150));
        assert_ok(hf_unsubscribe(scene->bus, id));
        id = subscribe(scene->bus, "a", "order.*", recorders[1], NULL);
    }
    settle_all(scene->bus, "a");
    assert_all_seen(recorders, 2);
}

static void unsubscribing_one_of_two_patterns_loses_nothing(void **state)
{
    one_of_two(*state, HF_MODE_ORDERED);
}

static void unsubscribing_one_of_two_shared_patterns_loses_nothing(void **state)
{
    one_of_two(*state, HF_MODE_SHARED);
}

static atomic_llong own_id;
static atomic_bool left;

static hf_verdict leave_at_a_hundred(const hf_event *event, hf_delivery *delivery,
                                     struct recorder *recorder)
{
    (void)recorder;
    if (event->position == 100 &&
        hf_unsubscribe(hf_delivery_bus(delivery), atomic_load(&own_id)) == HF_OK) {
        atomic_store(&left, true);
    }
    return HF_ACK;
}

static bool has_left(void *ctx)
{
    (void)ctx;
    return atomic_load(&left);
}

static void a_handler_that_unsubscribes_itself_loses_nothing(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, leave_at_a_hundred);
    struct recorder *next = scene_recorder(scene, NULL);
    struct recorder *both[2] = {recorder, next};
    hf_subscription_options options = busy_options(HF_MODE_ORDERED);

    atomic_store(&left, false);
    atomic_store(&own_id, subscribe(scene->bus, "a", "*", recorder, &options));
    publish_all(scene->bus);
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait(recorder, 1));
    assert_true(wait_until(has_left, scene->bus));
    assert_status(hf_wait(scene->bus, "a", EVENTS, 50), HF_TIMEOUT);
    subscribe(scene->bus, "a", "*", next, NULL);
    settle_all(scene->bus, "a");
    assert_all_seen(both, 2);
}

/* ---- What has a record ----------------------------------------------------------------------- */

static void retrying_a_dead_letter_without_a_handler_does_not_lose_it(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    hf_receipt receipt;
    struct dead dead;

    options.on_unhandled = HF_UNHANDLED_DEAD_LETTER;
    subscribe(scene->bus, "a", "user.*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    receipt = *publish(scene->bus, "order.created", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    assert_ok(hf_dead_retry(scene->bus, dead.dead_id, NULL, 0));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 0);
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    assert_string_equal(dead.event_id, receipt.id);
    assert_string_equal(dead.reason, "no_handler");
    /* With a handler for it the next retry gets through. */
    subscribe(scene->bus, "a", "order.*", recorder, NULL);
    assert_ok(hf_dead_retry(scene->bus, dead.dead_id, NULL, 0));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_calls(recorder, receipt.position, NULL), 1);
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
}

static hf_verdict ack_all(const hf_event *const *events, size_t count, hf_delivery *delivery,
                          void *ctx)
{
    (void)events;
    (void)count;
    (void)delivery;
    (void)ctx;
    return HF_ACK;
}

/* What is in hand is in portions for handlers of its kind. */
static void a_subscription_with_handlers_gets_no_batch_handlers_until_they_are_gone(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_handler_id id = subscribe(scene->bus, "a", "*", recorder, NULL);

    assert_status(hf_subscribe_batch(scene->bus, "a", "*", ack_all, NULL, NULL, NULL), HF_MISUSE);
    assert_non_null(strstr(hf_errmsg(), "has handlers in this bus already"));
    assert_ok(hf_unsubscribe(scene->bus, id));
    assert_ok(hf_subscribe_batch(scene->bus, "a", "*", ack_all, NULL, NULL, &id));
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 0);
    assert_ok(hf_unsubscribe(scene->bus, id));
    subscribe(scene->bus, "a", "*", recorder, NULL);
    publish(scene->bus, "x", NULL, "2");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 1);
}

static const struct CMUnitTest tests[] = {
    scene_test(unsubscribing_a_busy_ordered_handler_loses_nothing),
    scene_test(unsubscribing_a_busy_shared_handler_loses_nothing),
    scene_test(unsubscribing_one_of_two_patterns_loses_nothing),
    scene_test(unsubscribing_one_of_two_shared_patterns_loses_nothing),
    scene_test(a_handler_that_unsubscribes_itself_loses_nothing),
    scene_test(retrying_a_dead_letter_without_a_handler_does_not_lose_it),
    scene_test(a_subscription_with_handlers_gets_no_batch_handlers_until_they_are_gone),
};

SCENE_MAIN(tests)
