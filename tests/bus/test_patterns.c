/*
 * Tests of stored patterns: a process works for a subscription only while its handlers cover what
 * is stored, new patterns widen it, and on_unhandled speaks of types outside all of them.
 */
#include "support_scene.h"

#include <stdatomic.h>

/* ---- Covering -------------------------------------------------------------------------------- */

static void a_process_whose_handlers_do_not_cover_the_patterns_stands_by(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    const char *patterns[] = {"user.*", "order.*"};
    hf_subscription_options options = quick_options();
    hf_receipt user, order;

    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 2, &options, NULL));
    subscribe(scene->bus, "a", "user.*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    user = *publish(scene->bus, "user.created", NULL, "1");
    order = *publish(scene->bus, "order.created", NULL, "1");
    assert_status(hf_wait(scene->bus, "a", user.position, 100), HF_TIMEOUT);
    assert_int_equal(recorder_count(recorder), 0);
    subscribe(scene->bus, "a", "order.*", recorder, NULL);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_calls(recorder, user.position, NULL), 1);
    assert_int_equal(recorder_calls(recorder, order.position, NULL), 1);
}

static void a_narrower_handler_does_not_cover_a_wider_pattern(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    const char *patterns[] = {"user.*"};
    hf_subscription_options options = quick_options();
    hf_receipt receipt;

    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL));
    subscribe(scene->bus, "a", "user.created", recorder, NULL);
    assert_int_equal(info_of(scene->bus, "a").pattern_count, 1);
    assert_ok(hf_start(scene->bus));
    receipt = *publish(scene->bus, "user.created", NULL, "1");
    assert_status(hf_wait(scene->bus, "a", receipt.position, 100), HF_TIMEOUT);
    assert_int_equal(recorder_count(recorder), 0);
}

static void a_wider_handler_covers_all_patterns(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    const char *patterns[] = {"user.*", "order.*.shipped", "x"};
    hf_subscription_options options = quick_options();

    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 3, &options, NULL));
    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "order.1.shipped", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 1);
}

static void a_handler_outside_the_patterns_widens_them(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    struct info info;

    subscribe(scene->bus, "a", "user.*", recorder, NULL);
    subscribe(scene->bus, "a", "user.created", recorder, NULL);
    assert_int_equal(info_of(scene->bus, "a").pattern_count, 1);
    subscribe(scene->bus, "a", "order.*", recorder, NULL);
    info = info_of(scene->bus, "a");
    assert_int_equal(info.pattern_count, 2);
    assert_string_equal(info.patterns[0], "user.*");
    assert_string_equal(info.patterns[1], "order.*");
}

static void wider_patterns_reach_a_process_that_already_runs(void **state)
{
    struct scene *scene = *state;
    struct recorder *old = scene_recorder(scene, NULL);
    struct recorder *new = scene_recorder(scene, NULL);
    hf_bus *other;
    hf_receipt receipt;

    subscribe(scene->bus, "a", "user.*", old, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "user.created", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(old), 1);
    /* The newer program has both handlers; the old one may not skip order events any more. */
    other = scene_open(scene, NULL);
    subscribe(other, "a", "user.*", new, NULL);
    subscribe(other, "a", "order.*", new, NULL);
    publish(scene->bus, "order.created", NULL, "2");
    receipt = *publish(scene->bus, "user.created", NULL, "3");
    assert_ok(hf_start(other));
    assert_ok(hf_wait(other, "a", receipt.position, DEADLINE_MS));
    assert_int_equal(recorder_count(new), 2);
    assert_int_equal(recorder_count(old), 1);
}

/* Done, gone from the window, and no checkpoint tells it: the new patterns read from there. */
static void settled_events_do_not_come_again_when_the_patterns_change(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, wait_at_first);
    hf_subscription_options options = quick_options();

    recorder->extra = scene_door(scene);
    options.concurrency = 2;
    subscribe(scene->bus, "a", "user.*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "user.created", "waits at the door", "1");
    for (size_t i = 1; i <= 20; i++) { /* what is read next makes the dispatcher clear up before */
        publish(scene->bus, "user.created", "k", "1");
        assert_true(recorder_wait(recorder, i));
    }
    assert_int_equal(info_of(scene->bus, "a").checkpoint, 0);
    subscribe(scene->bus, "a", "order.*", recorder, NULL);
    publish(scene->bus, "order.created", "k", "2");
    door_open(recorder->extra);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 22);
}

static void unsubscribing_one_of_two_patterns_makes_the_process_stand_by(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_handler_id orders;
    hf_receipt receipt;

    subscribe(scene->bus, "a", "user.*", recorder, NULL);
    orders = subscribe(scene->bus, "a", "order.*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "user.created", NULL, "1");
    settle_all(scene->bus, "a");
    assert_ok(hf_unsubscribe(scene->bus, orders));
    receipt = *publish(scene->bus, "user.created", NULL, "2");
    assert_status(hf_wait(scene->bus, "a", receipt.position, 100), HF_TIMEOUT);
    assert_int_equal(recorder_count(recorder), 1);
}

static void a_standby_says_why_it_does_not_move(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    const char *patterns[] = {"user.*", "order.*"};
    hf_subscription_options options = quick_options();

    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 2, &options, NULL));
    subscribe(scene->bus, "a", "user.*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "order.created", NULL, "1");
    assert_int_not_equal(info_of(scene->bus, "a").not_moving[0], 0);
}

struct narrowing {
    hf_handler_id orders;
    atomic_bool done;
};

/* "user.created" takes the other pattern away from the subscription, and its handler. */
static hf_verdict narrow(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    struct narrowing *narrowing = recorder->extra;
    const char *patterns[] = {"user.*"};
    hf_bus *bus = hf_delivery_bus(delivery);

    if (strcmp(event->type, "user.created") == 0 && !atomic_exchange(&narrowing->done, true) &&
        (hf_subscription_create(bus, "a", patterns, 1, NULL, NULL) ||
         hf_unsubscribe(bus, narrowing->orders))) {
        return HF_DEAD;
    }
    return HF_ACK;
}

/* It was read by the old patterns, and no handler takes it. */
static void leave_without_a_handler(struct scene *scene, hf_mode mode)
{
    static struct narrowing narrowing;
    struct recorder *recorder = scene_recorder(scene, narrow);
    hf_subscription_options options = quick_options();

    narrowing = (struct narrowing){0};
    recorder->extra = &narrowing;
    options.mode = mode;
    options.concurrency = 1;
    subscribe(scene->bus, "a", "user.*", recorder, &options);
    narrowing.orders = subscribe(scene->bus, "a", "order.*", recorder, NULL);
    publish(scene->bus, "user.created", NULL, "1");
    publish(scene->bus, "order.created", NULL, "2");
    publish(scene->bus, "user.updated", NULL, "3");
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
}

static void events_in_hand_of_a_removed_pattern_are_skipped(void **state)
{
    leave_without_a_handler(*state, HF_MODE_ORDERED);
}

static void claimed_events_of_a_removed_pattern_are_skipped(void **state)
{
    leave_without_a_handler(*state, HF_MODE_SHARED);
}

/* Claimed by the old patterns and given back: no worker has it. */
static void release_before_narrowing(struct scene *scene, hf_on_unhandled unhandled, int64_t dead)
{
    struct recorder *recorder = scene_recorder(scene, NULL);
    const char *patterns[] = {"user.*", "order.*"};
    hf_subscription_options options = quick_options();
    hf_batch *batch = NULL;

    options.mode = HF_MODE_SHARED;
    options.on_unhandled = unhandled;
    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 2, &options, NULL));
    publish(scene->bus, "user.created", NULL, "1");
    publish(scene->bus, "order.created", NULL, "2");
    assert_ok(hf_claim(scene->bus, "a", NULL, &batch));
    assert_int_equal(hf_batch_count(batch), 2);
    assert_ok(hf_release(scene->bus, "a", hf_batch_lease(batch), NULL, 0));
    hf_batch_free(batch);
    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 1, NULL, NULL));
    subscribe(scene->bus, "a", "user.*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 1);
    assert_int_equal(info_of(scene->bus, "a").dead, dead);
}

static void released_events_of_a_removed_pattern_are_skipped(void **state)
{
    release_before_narrowing(*state, HF_UNHANDLED_SKIP, 0);
}

static void with_dead_letter_released_events_of_a_removed_pattern_die(void **state)
{
    release_before_narrowing(*state, HF_UNHANDLED_DEAD_LETTER, 1);
}

/* ---- Types outside the patterns -------------------------------------------------------------- */

static void by_default_other_types_are_skipped(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);

    subscribe(scene->bus, "a", "user.*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "order.created", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 0);
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
}

static void with_dead_letter_other_types_die_without_a_handler(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    hf_receipt receipt;
    struct dead dead;

    options.on_unhandled = HF_UNHANDLED_DEAD_LETTER;
    subscribe(scene->bus, "a", "user.*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "user.created", NULL, "1");
    receipt = *publish(scene->bus, "order.created", "k", "{\"n\":2}");
    publish(scene->bus, "user.updated", NULL, "3");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    assert_string_equal(dead.event_id, receipt.id);
    assert_string_equal(dead.type, "order.created");
    assert_string_equal(dead.payload, "{\"n\":2}");
    assert_string_equal(dead.reason, "no_handler");
    assert_string_equal(dead.error, "no pattern of the subscription matches the event's type");
    assert_int_equal(dead.attempts, 0);
    assert_int_equal(state_of(scene->bus, "a", receipt.id, NULL), HF_STATE_DEAD);
}

static void with_dead_letter_other_types_die_in_a_shared_subscription(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    struct dead dead;

    options.mode = HF_MODE_SHARED;
    options.on_unhandled = HF_UNHANDLED_DEAD_LETTER;
    subscribe(scene->bus, "a", "user.*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "user.created", NULL, "1");
    publish(scene->bus, "order.created", NULL, "2");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 1);
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    assert_string_equal(dead.type, "order.created");
    assert_string_equal(dead.reason, "no_handler");
    assert_string_equal(dead.error, "no pattern of the subscription matches the event's type");
}

static const struct CMUnitTest tests[] = {
    scene_test(a_process_whose_handlers_do_not_cover_the_patterns_stands_by),
    scene_test(a_narrower_handler_does_not_cover_a_wider_pattern),
    scene_test(a_wider_handler_covers_all_patterns),
    scene_test(a_handler_outside_the_patterns_widens_them),
    scene_test(wider_patterns_reach_a_process_that_already_runs),
    scene_test(settled_events_do_not_come_again_when_the_patterns_change),
    scene_test(unsubscribing_one_of_two_patterns_makes_the_process_stand_by),
    scene_test(a_standby_says_why_it_does_not_move),
    scene_test(events_in_hand_of_a_removed_pattern_are_skipped),
    scene_test(claimed_events_of_a_removed_pattern_are_skipped),
    scene_test(released_events_of_a_removed_pattern_are_skipped),
    scene_test(with_dead_letter_released_events_of_a_removed_pattern_die),
    scene_test(by_default_other_types_are_skipped),
    scene_test(with_dead_letter_other_types_die_without_a_handler),
    scene_test(with_dead_letter_other_types_die_in_a_shared_subscription),
};

SCENE_MAIN(tests)
