/*
 * Tests of where a subscription begins, and of moving and pausing it while handlers run.
 */
#include "support_scene.h"

#include <stdatomic.h>

#include "base/uuid.h"

#ifdef HF_FAULTS
#include "base/point.h"
#endif

/* A new subscription from this place gets exactly the positions after `after` up to `head`. */
static void expect_from(struct scene *scene, const char *name, hf_place from, int64_t after,
                        int64_t head)
{
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();

    options.from = from;
    subscribe(scene->bus, name, "*", recorder, &options);
    settle_all(scene->bus, name);
    assert_int_equal(recorder_count(recorder), head - after);
    for (int64_t position = after + 1; position <= head; position++) {
        assert_int_equal(recorder_calls(recorder, position, NULL), 1);
    }
    assert_int_equal(info_of(scene->bus, name).start_position, after);
}

/* ---- From ------------------------------------------------------------------------------------ */

static void a_subscription_begins_at_its_start_place(void **state)
{
    struct scene *scene = *state;
    int64_t middle_us;

    for (int i = 0; i < 5; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    usleep(2000); /* so that the sixth enters the log later */
    middle_us = wall_us();
    for (int i = 0; i < 5; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    expect_from(scene, "start", (hf_place){HF_PLACE_START, -1}, 0, 10);
    expect_from(scene, "position", (hf_place){HF_PLACE_POSITION, 7}, 7, 10);
    expect_from(scene, "zero", (hf_place){HF_PLACE_POSITION, 0}, 0, 10);
    expect_from(scene, "time", (hf_place){HF_PLACE_TIME, middle_us}, 5, 10);
    expect_from(scene, "past", (hf_place){HF_PLACE_TIME, 1}, 0, 10);
    expect_from(scene, "now", (hf_place){HF_PLACE_NOW, -1}, 10, 10);
}

/* Text of a version 7 id that was made so long ago. */
static void id_of_age(int64_t age_us, char out[UUID_TEXT_BYTES])
{
    uint8_t id[UUID_BYTES];

    uuid_v7(wall_us() - age_us, id);
    uuid_format(id, out);
}

static int keep_entered(const hf_event *event, void *ctx)
{
    *(int64_t *)ctx = event->entered_at_us;
    return 0;
}

/* What was made 20 hours ago and published now has entered the log now. */
static void an_old_id_enters_the_log_now(void **state)
{
    struct scene *scene = *state;
    hf_new_event item = HF_NEW_EVENT_INIT;
    char id[UUID_TEXT_BYTES];
    int64_t entered_us = 0;
    int64_t before_us;

    publish(scene->bus, "x", NULL, "1");
    usleep(2000); /* so that the second enters the log later */
    before_us = wall_us();
    id_of_age(INT64_C(20) * 3600 * 1000000, id);
    item.type = "x";
    item.payload = "2";
    item.id = id;
    assert_ok(hf_publish(scene->bus, &item, NULL));
    assert_ok(hf_event_get(scene->bus, id, keep_entered, &entered_us));
    assert_in_range(entered_us, before_us, wall_us());
    assert_ok(hf_start(scene->bus));
    expect_from(scene, "time", (hf_place){HF_PLACE_TIME, before_us}, 1, 2);
    expect_from(scene, "entered", (hf_place){HF_PLACE_TIME, entered_us}, 1, 2);
    expect_from(scene, "later", (hf_place){HF_PLACE_TIME, entered_us + 1}, 2, 2);
}

static void from_now_gets_everything_published_afterwards(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();

    publish(scene->bus, "x", NULL, "\"old\"");
    options.from.kind = HF_PLACE_NOW;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "\"new\"");
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 1);
    assert_string_equal(recorder_get(recorder, 0).payload, "\"new\"");
}

static void the_start_place_counts_only_for_a_new_subscription(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();

    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    scene_reopen(scene);
    publish(scene->bus, "x", NULL, "2");
    options.from.kind = HF_PLACE_NOW;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
}

/* ---- Seek ------------------------------------------------------------------------------------ */

static void seeking_back_while_running_delivers_again(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    int64_t count = -1;

    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 20; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    settle_all(scene->bus, "a");
    assert_ok(
        hf_seek(scene->bus, "a", (hf_place){HF_PLACE_POSITION, 5}, HF_TOGGLE_DEFAULT, &count));
    assert_int_equal(count, 15);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 35);
    for (int64_t position = 1; position <= 20; position++) {
        assert_int_equal(recorder_calls(recorder, position, NULL), position <= 5 ? 1 : 2);
    }
}

struct replay {
    struct door *door;
    atomic_bool again; /* it was sought back */
};

/* At first the event at position 2 waits at the door; when they come again all wait for the
 * stop. */
static hf_verdict replay(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    struct replay *replay = recorder->extra;

    if (!atomic_load(&replay->again)) {
        if (event->position == 2) {
            door_pass(replay->door);
        }
        return HF_ACK;
    }
    while (!hf_delivery_cancelled(delivery)) {
        usleep(1000);
    }
    return HF_RETRY_UNCOUNTED;
}

static bool second_pass_runs(void *ctx)
{
    struct recorder *recorder = ctx;

    return recorder_calls(recorder, 1, NULL) == 2 && recorder_calls(recorder, 2, NULL) == 2;
}

/* What was done before the seek and was still in hand is not what is done after it. */
static void a_replay_that_is_stopped_goes_on_with_all_that_is_left(void **state)
{
    static struct replay about;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, replay);
    hf_subscription_options options = quick_options();

    about.door = scene_door(scene);
    atomic_store(&about.again, false);
    recorder->extra = &about;
    options.concurrency = 2;
    publish(scene->bus, "x", "c", "1");
    publish(scene->bus, "x", "a", "1");
    publish(scene->bus, "x", "b", "1");
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait(recorder, 2)); /* those at 1 and 3 */
    assert_true(door_wait_inside(about.door, 1));
    atomic_store(&about.again, true);
    assert_ok(hf_seek(scene->bus, "a", (hf_place){HF_PLACE_START, -1}, HF_TOGGLE_DEFAULT, NULL));
    door_open(about.door);
    assert_true(wait_until(second_pass_runs, recorder));
    assert_int_equal(recorder_calls(recorder, 3, NULL), 1);
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));

    recorder->decide = NULL;
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_calls(recorder, 3, NULL), 2);
}

static void seeking_forward_skips(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    int64_t count = -1;

    recorder->door = scene_door(scene);
    options.inflight_max = 4;
    options.batch = 2;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 50; i++) {
        publish(scene->bus, "x", "k", "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->door, 1));
    assert_ok(
        hf_seek(scene->bus, "a", (hf_place){HF_PLACE_POSITION, 40}, HF_TOGGLE_DEFAULT, &count));
    assert_int_equal(count, 10);
    door_open(recorder->door);
    settle_all(scene->bus, "a");
    for (int64_t position = 5; position <= 40; position++) {
        assert_int_equal(recorder_calls(recorder, position, NULL), 0);
    }
    for (int64_t position = 41; position <= 50; position++) {
        assert_int_equal(recorder_calls(recorder, position, NULL), 1);
    }
}

static void the_result_of_what_ran_before_the_seek_is_refused(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);

    recorder->door = scene_door(scene);
    subscribe(scene->bus, "a", "*", recorder, NULL);
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->door, 1));
    assert_ok(hf_seek(scene->bus, "a", (hf_place){HF_PLACE_START, -1}, HF_OFF, NULL));
    door_open(recorder->door);
    settle_all(scene->bus, "a");
    /* It acknowledged what belonged to the time before the seek, so it comes again. */
    assert_int_equal(recorder_count(recorder), 2);
}

static hf_verdict reject(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)event;
    (void)delivery;
    (void)recorder;
    return HF_DEAD;
}

static hf_verdict always_fail(const hf_event *event, hf_delivery *delivery,
                              struct recorder *recorder)
{
    (void)event;
    (void)delivery;
    (void)recorder;
    return HF_RETRY;
}

static void seeking_drops_retries_and_keeps_dead_letters(void **state)
{
    struct scene *scene = *state;
    struct recorder *rejecting = scene_recorder(scene, reject);
    struct recorder *failing = scene_recorder(scene, always_fail);
    hf_subscription_options options = quick_options();
    hf_receipt retried;

    options.retry_base_ms = 60000;
    options.retry_max_ms = 60000;
    subscribe(scene->bus, "a", "dead", rejecting, &options);
    subscribe(scene->bus, "a", "retry", failing, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "dead", NULL, "1");
    retried = *publish(scene->bus, "retry", NULL, "1");
    assert_true(recorder_wait(failing, 1));
    assert_ok(hf_wait(scene->bus, "a", 1, DEADLINE_MS));
    assert_ok(hf_stop(scene->bus, -1));
    assert_int_equal(state_of(scene->bus, "a", retried.id, NULL), HF_STATE_RETRYING);
    assert_ok(hf_seek(scene->bus, "a", (hf_place){HF_PLACE_NOW, -1}, HF_OFF, NULL));
    assert_int_equal(info_of(scene->bus, "a").retrying, 0);
    assert_int_equal(info_of(scene->bus, "a").dead, 1);
    assert_int_equal(info_of(scene->bus, "a").lag, 0);
    assert_ok(hf_wait(scene->bus, "a", -1, DEADLINE_MS));
}

static void a_dry_seek_changes_nothing(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    int64_t count = -1;

    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 10; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    settle_all(scene->bus, "a");
    assert_ok(hf_seek(scene->bus, "a", (hf_place){HF_PLACE_START, -1}, HF_ON, &count));
    assert_int_equal(count, 10);
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 11);
}

static void seeking_works_from_another_handle_and_while_publishers_run(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_bus *steerer = scene_open(scene, NULL);
    hf_subscription_options options = quick_options();

    options.concurrency = 4;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 20; i++) {
            publish(scene->bus, "x", NULL, "1");
        }
        assert_ok(hf_seek(steerer, "a", (hf_place){HF_PLACE_START, -1}, HF_OFF, NULL));
    }
    settle_all(steerer, "a");
    /* After the last seek everything came at least once more. */
    for (int64_t position = 1; position <= 200; position++) {
        assert_true(recorder_calls(recorder, position, NULL) >= 1);
    }
    assert_int_equal(info_of(steerer, "a").lag, 0);
}

/* ---- Pause ----------------------------------------------------------------------------------- */

static void a_paused_subscription_gets_nothing_until_it_is_resumed(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    struct info info;
    hf_receipt receipt;

    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_ok(hf_pause(scene->bus, "a", "lunch"));
    receipt = *publish(scene->bus, "x", NULL, "2");
    assert_status(hf_wait(scene->bus, "a", receipt.position, 100), HF_TIMEOUT);
    assert_int_equal(recorder_count(recorder), 1);
    info = info_of(scene->bus, "a");
    assert_true(info.paused_at_us > 0);
    assert_string_equal(info.paused_reason, "lunch");
    assert_int_not_equal(info.not_moving[0], 0);
    assert_ok(hf_resume(scene->bus, "a"));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
    assert_int_equal(info_of(scene->bus, "a").paused_at_us, -1);
    assert_ok(hf_resume(scene->bus, "a"));
}

static void pausing_lets_the_running_handler_finish(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_receipt first;

    recorder->door = scene_door(scene);
    subscribe(scene->bus, "a", "*", recorder, NULL);
    first = *publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->door, 1));
    assert_ok(hf_pause(scene->bus, "a", NULL));
    door_open(recorder->door);
    assert_ok(hf_wait(scene->bus, "a", first.position, DEADLINE_MS));
    assert_int_equal(recorder_count(recorder), 1);
    assert_int_equal(state_of(scene->bus, "a", first.id, NULL), HF_STATE_DONE);
}

static void a_pause_holds_for_every_handle_and_over_a_restart(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_bus *other = scene_open(scene, NULL);
    hf_receipt receipt;

    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_ok(hf_pause(other, "a", "stop"));
    receipt = *publish(other, "x", NULL, "1");
    assert_status(hf_wait(other, "a", receipt.position, 100), HF_TIMEOUT);
    assert_int_equal(recorder_count(recorder), 0);
    scene_reopen(scene);
    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    assert_status(hf_wait(other, "a", receipt.position, 100), HF_TIMEOUT);
    assert_int_equal(recorder_count(recorder), 0);
    assert_ok(hf_resume(other, "a"));
    assert_ok(hf_wait(other, "a", receipt.position, DEADLINE_MS));
    assert_int_equal(recorder_count(recorder), 1);
}

#ifdef HF_FAULTS

static int stopped_teardown(void **state)
{
    point_reset(); /* no thread may stay stopped while the bus is closed */
    return scene_teardown(state);
}

/* The pause comes between the first look at the definition and taking the partition. */
static void a_pause_holds_for_a_process_that_begins_at_that_moment(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_bus *other = scene_open(scene, NULL);
    hf_receipt receipt;

    subscribe(scene->bus, "a", "*", recorder, NULL);
    point_arm("after_refresh", 1, POINT_STOP_THREAD);
    assert_ok(hf_start(scene->bus));
    assert_true(point_wait_blocked("after_refresh", DEADLINE_MS));
    assert_ok(hf_pause(other, "a", "stop"));
    receipt = *publish(other, "x", NULL, "1");
    point_arm("after_step", 1, POINT_STOP_THREAD);
    point_release("after_refresh");
    assert_true(point_wait_blocked("after_step", DEADLINE_MS));
    assert_status(hf_wait(other, "a", receipt.position, 500), HF_TIMEOUT);
    point_release("after_step");
    assert_status(hf_wait(other, "a", receipt.position, 500), HF_TIMEOUT);
    assert_int_equal(recorder_count(recorder), 0);
    assert_ok(hf_resume(other, "a"));
    assert_ok(hf_wait(other, "a", receipt.position, DEADLINE_MS));
    assert_int_equal(recorder_count(recorder), 1);
}

#endif

static void steering_an_unknown_subscription_is_not_found(void **state)
{
    struct scene *scene = *state;

    assert_status(hf_pause(scene->bus, "none", NULL), HF_NOTFOUND);
    assert_status(hf_resume(scene->bus, "none"), HF_NOTFOUND);
    assert_status(hf_seek(scene->bus, "none", (hf_place){HF_PLACE_START, -1}, HF_OFF, NULL),
                  HF_NOTFOUND);
}

/* "A process that is working for it stops within its next settle." */
static void removing_a_subscription_ends_its_delivery(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    struct recorder *other = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();

    options.checkpoint_events = 1;
    subscribe(scene->bus, "a", "*", recorder, &options);
    subscribe(scene->bus, "b", "*", other, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, NULL);
    assert_ok(hf_subscription_remove(scene->bus, "a"));
    assert_status(hf_subscription_remove(scene->bus, "a"), HF_NOTFOUND);
    for (int i = 0; i < 60; i++) {
        publish(scene->bus, "x", NULL, "2");
        settle_all(scene->bus, NULL);
    }
    assert_int_equal(recorder_count(other), 61);
    assert_in_range(recorder_count(recorder), 1, 30);
}

static const struct CMUnitTest tests[] = {
    scene_test(a_subscription_begins_at_its_start_place),
    scene_test(an_old_id_enters_the_log_now),
    scene_test(from_now_gets_everything_published_afterwards),
    scene_test(the_start_place_counts_only_for_a_new_subscription),
    scene_test(seeking_back_while_running_delivers_again),
    scene_test(a_replay_that_is_stopped_goes_on_with_all_that_is_left),
    scene_test(seeking_forward_skips),
    scene_test(the_result_of_what_ran_before_the_seek_is_refused),
    scene_test(seeking_drops_retries_and_keeps_dead_letters),
    scene_test(a_dry_seek_changes_nothing),
    scene_test(seeking_works_from_another_handle_and_while_publishers_run),
    scene_test(a_paused_subscription_gets_nothing_until_it_is_resumed),
    scene_test(pausing_lets_the_running_handler_finish),
    scene_test(a_pause_holds_for_every_handle_and_over_a_restart),
#ifdef HF_FAULTS
    cmocka_unit_test_setup_teardown(a_pause_holds_for_a_process_that_begins_at_that_moment,
                                    scene_setup, stopped_teardown),
#endif
    scene_test(steering_an_unknown_subscription_is_not_found),
    scene_test(removing_a_subscription_ends_its_delivery),
};

SCENE_MAIN(tests)
