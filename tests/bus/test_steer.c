/*
 * test_steer.c - places in the log, seeking, pausing, resuming, and waiting for progress.
 */
#include "support_scene.h"

static void assert_said(const char *words)
{
    if (!strstr(hf_errmsg(), words)) {
        fail_msg("\"%s\" does not say \"%s\"", hf_errmsg(), words);
    }
}

static void create(hf_bus *bus, const char *name, hf_mode mode)
{
    const char *patterns[] = {"a.*"};
    hf_subscription_options options = quick_options();
    options.mode = mode;
    assert_ok(hf_subscription_create(bus, name, patterns, 1, &options, NULL));
}

static void publish_some(hf_bus *bus, int count)
{
    for (int i = 0; i < count; i++) {
        publish(bus, "a.b", NULL, NULL);
    }
}

static int64_t located(hf_bus *bus, hf_place_kind kind, int64_t value)
{
    int64_t position = -99;
    assert_ok(hf_locate(bus, (hf_place){kind, value}, &position));
    return position;
}

static int keep_entered(const hf_event *event, void *ctx)
{
    *(int64_t *)ctx = event->entered_at_us;
    return 0;
}

/* ---- Places ---------------------------------------------------------------------------------- */

static void places_in_the_log_become_positions(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(located(scene->bus, HF_PLACE_START, 0), 0);
    assert_int_equal(located(scene->bus, HF_PLACE_NOW, 0), 0);
    publish_some(scene->bus, 2);
    usleep(2000); /* so that the third has a time of its own */
    char id[HF_ID_BYTES];
    memcpy(id, publish(scene->bus, "a.b", NULL, NULL)->id, sizeof id);
    int64_t entered_us = 0;
    assert_ok(hf_event_get(scene->bus, id, keep_entered, &entered_us));
    assert_int_equal(located(scene->bus, HF_PLACE_START, 0), 0);
    assert_int_equal(located(scene->bus, HF_PLACE_NOW, 0), 3);
    assert_int_equal(located(scene->bus, HF_PLACE_POSITION, 2), 2);
    assert_int_equal(located(scene->bus, HF_PLACE_TIME, entered_us), 2);
    assert_int_equal(located(scene->bus, HF_PLACE_TIME, entered_us + 1), 3);
    assert_int_equal(located(scene->bus, HF_PLACE_TIME, 0), 0);
}

static void bad_places_are_refused(void **state)
{
    struct scene *scene = *state;
    int64_t position = -99;
    publish_some(scene->bus, 3);
    assert_status(hf_locate(scene->bus, (hf_place){HF_PLACE_NONE, 0}, &position), HF_INVALID);
    assert_status(hf_locate(scene->bus, (hf_place){HF_PLACE_POSITION, 4}, &position), HF_INVALID);
    assert_said("position 4 is beyond the end of the log, which is 3");
    assert_status(hf_locate(scene->bus, (hf_place){HF_PLACE_POSITION, -1}, &position), HF_INVALID);
    assert_status(hf_locate(scene->bus, (hf_place){HF_PLACE_TIME, INT64_MAX}, &position),
                  HF_INVALID);
    assert_status(hf_locate(scene->bus, (hf_place){(hf_place_kind)9, 0}, &position), HF_INVALID);
    assert_status(hf_locate(scene->bus, (hf_place){HF_PLACE_NOW, 0}, NULL), HF_INVALID);
    assert_status(hf_locate(NULL, (hf_place){HF_PLACE_NOW, 0}, &position), HF_INVALID);
    assert_int_equal(position, -99);
}

/* ---- Seek ------------------------------------------------------------------------------------ */

static void a_dry_run_counts_and_changes_nothing(void **state)
{
    struct scene *scene = *state;
    int64_t count = -1;
    publish_some(scene->bus, 10);
    create(scene->bus, "s", HF_MODE_SHARED);
    hf_place four = {HF_PLACE_POSITION, 4};
    assert_ok(hf_seek(scene->bus, "s", four, HF_ON, &count));
    assert_int_equal(count, 6);
    assert_int_equal(info_of(scene->bus, "s").start_position, 0);
    assert_ok(hf_seek(scene->bus, "s", four, HF_TOGGLE_DEFAULT, &count));
    assert_int_equal(count, 6);
    assert_int_equal(info_of(scene->bus, "s").start_position, 4);
    assert_int_equal(info_of(scene->bus, "s").checkpoint, 4);
    assert_int_equal(info_of(scene->bus, "s").cursor, 4);
    assert_ok(hf_seek(scene->bus, "s", (hf_place){HF_PLACE_NOW, 0}, HF_OFF, &count));
    assert_int_equal(count, 0);
    assert_ok(hf_seek(scene->bus, "s", (hf_place){HF_PLACE_START, 0}, HF_OFF, NULL));
    assert_int_equal(info_of(scene->bus, "s").checkpoint, 0);
}

static void seeking_back_while_handlers_run_delivers_again(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    publish_some(scene->bus, 5);
    subscribe(scene->bus, "s", "a.*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "s");
    assert_int_equal(recorder_count(recorder), 5);
    int64_t count;
    assert_ok(hf_seek(scene->bus, "s", (hf_place){HF_PLACE_POSITION, 3}, HF_OFF, &count));
    assert_int_equal(count, 2);
    assert_true(recorder_wait(recorder, 7));
    settle_all(scene->bus, "s");
    assert_int_equal(recorder_count(recorder), 7);
    assert_int_equal(recorder_get(recorder, 5).position, 4);
    assert_int_equal(recorder_get(recorder, 6).position, 5);
}

static void bad_seeks_are_refused(void **state)
{
    struct scene *scene = *state;
    int64_t count = -99;
    hf_place now = {HF_PLACE_NOW, 0};
    create(scene->bus, "s", HF_MODE_ORDERED);
    assert_status(hf_seek(scene->bus, "missing", now, HF_OFF, &count), HF_NOTFOUND);
    assert_status(hf_seek(scene->bus, NULL, now, HF_OFF, &count), HF_INVALID);
    assert_status(hf_seek(NULL, "s", now, HF_OFF, &count), HF_INVALID);
    assert_status(hf_seek(scene->bus, "s", now, (hf_toggle)5, &count), HF_INVALID);
    assert_status(hf_seek(scene->bus, "s", (hf_place){HF_PLACE_NONE, 0}, HF_OFF, &count),
                  HF_INVALID);
    assert_status(hf_seek(scene->bus, "s", (hf_place){HF_PLACE_POSITION, 1}, HF_OFF, &count),
                  HF_INVALID);
    assert_int_equal(count, -99);
}

/* ---- Pause ----------------------------------------------------------------------------------- */

static void a_pause_records_author_and_reason_and_a_second_one_keeps_them(void **state)
{
    struct scene *scene = *state;
    hf_options options = scene->options;
    options.node_name = "operator";
    hf_bus *bus = scene_open(scene, &options);
    create(bus, "s", HF_MODE_ORDERED);
    assert_ok(hf_pause(bus, "s", "deploying"));
    assert_ok(hf_pause(scene->bus, "s", "another reason"));
    struct info info = info_of(bus, "s");
    assert_true(info.paused_at_us > 0);
    assert_string_equal(info.paused_by, "operator");
    assert_string_equal(info.paused_reason, "deploying");
    assert_non_null(strstr(info.not_moving, "by operator: deploying"));
    assert_ok(hf_resume(bus, "s"));
    assert_ok(hf_resume(bus, "s"));
    info = info_of(bus, "s");
    assert_int_equal(info.paused_at_us, -1);
    assert_string_equal(info.paused_by, "");
    assert_string_equal(info.not_moving, "");
}

static void a_pause_stops_delivery_until_resumed(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    subscribe(scene->bus, "s", "a.*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    publish_some(scene->bus, 1);
    settle_all(scene->bus, "s");
    assert_ok(hf_pause(scene->bus, "s", NULL));
    publish_some(scene->bus, 1);
    assert_status(hf_wait(scene->bus, "s", -1, 300), HF_TIMEOUT);
    assert_int_equal(recorder_count(recorder), 1);
    assert_ok(hf_resume(scene->bus, "s"));
    settle_all(scene->bus, "s");
    assert_int_equal(recorder_count(recorder), 2);
}

static void bad_pauses_are_refused(void **state)
{
    struct scene *scene = *state;
    char reason[HF_ERROR_BYTES_MAX + 2];
    memset(reason, 'r', sizeof reason);
    reason[sizeof reason - 1] = '\0';
    create(scene->bus, "s", HF_MODE_ORDERED);
    assert_status(hf_pause(scene->bus, "missing", NULL), HF_NOTFOUND);
    assert_status(hf_resume(scene->bus, "missing"), HF_NOTFOUND);
    assert_status(hf_pause(scene->bus, NULL, NULL), HF_INVALID);
    assert_status(hf_resume(NULL, "s"), HF_INVALID);
    assert_status(hf_pause(scene->bus, "s", reason), HF_INVALID);
    assert_said("reason is 2049 bytes; the limit is 2048");
    assert_status(hf_pause(scene->bus, "s", "\xFF"), HF_INVALID);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static hf_verdict fail_until_released(const hf_event *event, hf_delivery *delivery,
                                      struct recorder *recorder)
{
    (void)event;
    (void)recorder;
    return hf_delivery_attempt(delivery) < 3 ? HF_RETRY : HF_ACK;
}

static void waiting_for_everything_includes_retries(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_until_released);
    subscribe(scene->bus, "s", "a.*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    publish_some(scene->bus, 3);
    assert_ok(hf_wait(scene->bus, "s", -1, DEADLINE_MS));
    assert_int_equal(recorder_count(recorder), 9);
    assert_int_equal(info_of(scene->bus, "s").lag, 0);
}

static void waiting_for_one_event_does_not_wait_for_later_ones(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    struct door *door = scene_door(scene);
    subscribe(scene->bus, "s", "a.*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    publish_some(scene->bus, 1);
    assert_ok(hf_wait(scene->bus, "s", 1, DEADLINE_MS));
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
    recorder->door = door;
    assert_ok(hf_start(scene->bus));
    publish_some(scene->bus, 1);
    assert_true(door_wait_inside(door, 1));
    assert_ok(hf_wait(scene->bus, "s", 1, DEADLINE_MS));
    assert_status(hf_wait(scene->bus, "s", 2, 50), HF_TIMEOUT);
    assert_status(hf_wait(scene->bus, NULL, 2, 0), HF_TIMEOUT);
    assert_said("1 subscription has not got that far");
    door_open(door);
    assert_ok(hf_wait(scene->bus, "s", 2, DEADLINE_MS));
}

static void waiting_counts_dead_and_unmatched_events_as_settled(void **state)
{
    struct scene *scene = *state;
    char lease[HF_LEASE_BYTES];
    hf_batch *batch;
    create(scene->bus, "s", HF_MODE_SHARED);
    publish(scene->bus, "x.y", NULL, NULL);
    publish_some(scene->bus, 2);
    assert_ok(hf_wait(scene->bus, "s", 1, 0)); /* no pattern matches it */
    assert_status(hf_wait(scene->bus, "s", 2, 0), HF_TIMEOUT);
    assert_ok(hf_claim(scene->bus, "s", NULL, &batch));
    memcpy(lease, hf_batch_lease(batch), sizeof lease);
    hf_batch_free(batch);
    assert_status(hf_wait(scene->bus, "s", 2, 0), HF_TIMEOUT);
    const int64_t two[] = {2};
    const int64_t three[] = {3};
    assert_ok(hf_bury(scene->bus, "s", lease, two, 1, "x"));
    assert_ok(hf_wait(scene->bus, "s", 2, 0));
    assert_status(hf_wait(scene->bus, "s", -1, 0), HF_TIMEOUT);
    assert_ok(hf_nack(scene->bus, "s", lease, three, 1, 60000, "x"));
    assert_status(hf_wait(scene->bus, "s", 3, 0), HF_TIMEOUT);
    assert_status(hf_wait(scene->bus, "s", -1, 0), HF_TIMEOUT);
}

static void waiting_for_everything_includes_what_is_held_behind_a_blocked_key(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    struct recorder *recorder = scene_recorder(scene, fail_always);
    options.attempts_max = 1;
    options.on_poison = HF_POISON_BLOCK_KEY;
    subscribe(scene->bus, "s", "a.*", recorder, &options);
    publish(scene->bus, "a.b", "k", NULL);
    publish(scene->bus, "a.b", "k", NULL);
    assert_ok(hf_start(scene->bus));
    assert_ok(hf_wait(scene->bus, "s", 1, DEADLINE_MS)); /* a dead letter */
    assert_status(hf_wait(scene->bus, "s", -1, 500), HF_TIMEOUT);
    assert_int_equal(recorder_count(recorder), 1);
}

static void waiting_without_subscriptions_returns_at_once(void **state)
{
    struct scene *scene = *state;
    publish_some(scene->bus, 1);
    assert_ok(hf_wait(scene->bus, NULL, -1, 0));
    assert_ok(hf_wait(scene->bus, NULL, 1, 0));
}

struct waiter {
    hf_bus *bus;
    pthread_t thread;
    const char *subscription;
    int64_t position;
    hf_status status;
};

static struct waiter waiter;

static void *wait_for_ever(void *ctx)
{
    (void)ctx;
    waiter.status = hf_wait(waiter.bus, waiter.subscription, waiter.position, -1);
    return NULL;
}

static void start_waiter(hf_bus *bus, const char *subscription, int64_t position)
{
    waiter = (struct waiter){.bus = bus, .subscription = subscription, .position = position};
    assert_int_equal(pthread_create(&waiter.thread, NULL, wait_for_ever, NULL), 0);
}

static void a_position_that_is_not_published_yet_is_waited_for(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    subscribe(scene->bus, "s", "a.*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    assert_status(hf_wait(scene->bus, "s", 1, 0), HF_TIMEOUT);
    start_waiter(scene->bus, "s", 1);
    publish_some(scene->bus, 1);
    pthread_join(waiter.thread, NULL);
    assert_int_equal(waiter.status, HF_OK);
    assert_int_equal(recorder_count(recorder), 1);
}

static void removing_a_subscription_ends_a_wait_for_it(void **state)
{
    struct scene *scene = *state;
    create(scene->bus, "s", HF_MODE_ORDERED);
    publish_some(scene->bus, 1);
    start_waiter(scene->bus, NULL, -1);
    assert_ok(hf_subscription_remove(scene->bus, "s"));
    pthread_join(waiter.thread, NULL);
    assert_int_equal(waiter.status, HF_OK);
    create(scene->bus, "s", HF_MODE_ORDERED);
    assert_status(hf_wait(scene->bus, "s", 1, 0), HF_TIMEOUT);
    start_waiter(scene->bus, "s", 1);
    assert_ok(hf_subscription_remove(scene->bus, "s"));
    pthread_join(waiter.thread, NULL);
    assert_int_equal(waiter.status, HF_NOTFOUND);
}

static void shutdown_ends_a_wait(void **state)
{
    struct scene *scene = *state;
    create(scene->bus, "s", HF_MODE_ORDERED);
    publish_some(scene->bus, 1);
    start_waiter(scene->bus, "s", -1);
    assert_ok(hf_shutdown(scene->bus, -1));
    pthread_join(waiter.thread, NULL);
    assert_int_equal(waiter.status, HF_CLOSED);
}

static void bad_waits_are_refused(void **state)
{
    struct scene *scene = *state;
    assert_status(hf_wait(scene->bus, "missing", -1, 0), HF_NOTFOUND);
    assert_status(hf_wait(scene->bus, "missing", 0, 0), HF_INVALID);
    assert_status(hf_wait(scene->bus, NULL, -2, 0), HF_INVALID);
    assert_status(hf_wait(NULL, NULL, -1, 0), HF_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(places_in_the_log_become_positions),
        scene_test(bad_places_are_refused),
        scene_test(a_dry_run_counts_and_changes_nothing),
        scene_test(seeking_back_while_handlers_run_delivers_again),
        scene_test(bad_seeks_are_refused),
        scene_test(a_pause_records_author_and_reason_and_a_second_one_keeps_them),
        scene_test(a_pause_stops_delivery_until_resumed),
        scene_test(bad_pauses_are_refused),
        scene_test(waiting_for_everything_includes_retries),
        scene_test(waiting_for_one_event_does_not_wait_for_later_ones),
        scene_test(waiting_counts_dead_and_unmatched_events_as_settled),
        scene_test(waiting_for_everything_includes_what_is_held_behind_a_blocked_key),
        scene_test(waiting_without_subscriptions_returns_at_once),
        scene_test(a_position_that_is_not_published_yet_is_waited_for),
        scene_test(removing_a_subscription_ends_a_wait_for_it),
        scene_test(shutdown_ends_a_wait),
        scene_test(bad_waits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
