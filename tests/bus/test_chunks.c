/*
 * Tests of a worker that has taken several deliveries, one of which lasts: others take over what it
 * has not come to, and what it has done counts.
 */
#include "support_scene.h"

#include "base/point.h"
#include "bus/deliver/window/window.h"
#include "bus/deliver/work/chunk.h"

#define EVENTS 40

static int chunks_teardown(void **state)
{
    point_reset();
    return scene_teardown(state);
}

static hf_subscription_options chunks_options(int32_t concurrency)
{
    hf_subscription_options options = quick_options();

    options.concurrency = concurrency;
    return options;
}

static void begin(struct scene *scene, struct recorder *recorder,
                  const hf_subscription_options *options)
{
    subscribe(scene->bus, "a", "*", recorder, options);
    for (int i = 0; i < EVENTS; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
}

static hf_verdict wait_if_slow(const hf_event *event, hf_delivery *delivery,
                               struct recorder *recorder)
{
    (void)delivery;
    if (strcmp(event->type, "slow") == 0) {
        door_pass(recorder->extra);
    }
    return HF_ACK;
}

static struct recorder *slow_recorder(struct scene *scene)
{
    struct recorder *recorder = scene_recorder(scene, wait_if_slow);

    recorder->extra = scene_door(scene);
    return recorder;
}

/* The first one waits at a door: all others run. */
static void deliveries_behind_a_slow_handler_are_run_by_other_workers(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, wait_at_first);
    hf_subscription_options options = chunks_options(2);

    recorder->extra = scene_door(scene);
    begin(scene, recorder, &options);
    assert_true(recorder_wait(recorder, EVENTS - 1));
    door_open(recorder->extra);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), EVENTS);
}

/* A worker has taken its first deliveries and stands before the handler of the first one, when the
 * other has nothing left to do. */
static void deliveries_behind_a_handler_that_has_not_begun_are_run_by_other_workers(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = chunks_options(2);

    point_arm("before_handler", 1, POINT_STOP_THREAD);
    begin(scene, recorder, &options);
    assert_true(point_wait_blocked("before_handler", DEADLINE_MS));
    assert_true(recorder_wait(recorder, EVENTS - 1));
    point_release("before_handler");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), EVENTS);
}

/* A worker has done all that it took, and stands before it says so. It took one: of several it
 * might have to leave some, if their time is over, and those are its own until it says so. */
static void a_delivery_counts_as_done_before_its_worker_reports_it(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = chunks_options(2);

    options.checkpoint_events = 1;
    point_arm("before_report", 1, POINT_STOP_THREAD);
    begin(scene, recorder, &options);
    assert_true(point_wait_blocked("before_report", DEADLINE_MS));
    settle_all(scene->bus, "a");
    point_release("before_report");
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), EVENTS + 1);
}

/* One worker takes "a" to "d" and stands in "b" when the other comes to the later ones of "a". */
static void the_key_of_a_finished_delivery_goes_on_beside_a_slow_handler(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = slow_recorder(scene);
    hf_subscription_options options = chunks_options(2);
    static const char *const keys[] = {"a", "b", "c", "d", "e", "f", "a", "a"};

    subscribe(scene->bus, "a", "*", recorder, &options);
    for (size_t i = 0; i < 8; i++) {
        publish(scene->bus, i == 1 ? "slow" : "x", keys[i], "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait(recorder, 7));
    door_open(recorder->extra);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 8);
    assert_int_equal(recorder_overlaps(recorder), 0);
}

static bool four_are_stored(void *ctx)
{
    return info_of(ctx, "a").checkpoint == 4;
}

/* The only worker has taken all of them. */
static void finished_deliveries_are_stored_beside_a_slow_handler(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = slow_recorder(scene);
    hf_subscription_options options = chunks_options(1);

    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 10; i++) {
        publish(scene->bus, i == 4 ? "slow" : "x", "k", "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(four_are_stored, scene->bus));
    assert_int_equal(recorder_count(recorder), 5);
    door_open(recorder->extra);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 10);
}

/* The only worker of a process has claimed and taken all of them: the other process gets them. */
static void another_process_gets_the_events_behind_a_slow_handler(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = slow_recorder(scene);
    hf_subscription_options options = chunks_options(1);
    hf_bus *other = scene_open(scene, NULL);

    options.mode = HF_MODE_SHARED;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "slow", NULL, "1");
    for (int i = 1; i < EVENTS; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->extra, 1));
    subscribe(other, "a", "*", recorder, &options);
    assert_ok(hf_start(other));
    assert_true(recorder_wait(recorder, EVENTS - 1));
    door_open(recorder->extra);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), EVENTS);
}

/* The handlers have changed under a worker and none takes the delivery of its turn: it is about to
 * give that back, when the runner, who has looked before, comes to the end of its time. Only one of
 * them may. */
static void a_delivery_without_a_handler_is_given_back_once(void **state)
{
    static struct slot slot;
    static struct slot *slots[] = {&slot};
    static struct chunk chunk = {.count = 1, .units = {{.slots = slots, .count = 1}}};
    struct chunk_place place;
    struct unit *given_up = NULL;

    (void)state;
    atomic_store(&chunk.turn, UINT64_C(1) << 32); /* it is at the first of one */
    chunk_begin(&chunk, 1);
    assert_true(chunk_look(&chunk, &place));
    assert_true(place.running);
    assert_true(chunk_stop(&chunk));
    assert_false(chunk_give_up(&chunk, place.turn, &given_up));
    assert_null(given_up);
    assert_int_equal(chunk_done(&chunk), 0);
}

#define chunks_test(test) cmocka_unit_test_setup_teardown(test, scene_setup, chunks_teardown)

static const struct CMUnitTest tests[] = {
    chunks_test(deliveries_behind_a_slow_handler_are_run_by_other_workers),
    chunks_test(deliveries_behind_a_handler_that_has_not_begun_are_run_by_other_workers),
    chunks_test(a_delivery_counts_as_done_before_its_worker_reports_it),
    chunks_test(the_key_of_a_finished_delivery_goes_on_beside_a_slow_handler),
    chunks_test(finished_deliveries_are_stored_beside_a_slow_handler),
    chunks_test(another_process_gets_the_events_behind_a_slow_handler),
    cmocka_unit_test(a_delivery_without_a_handler_is_given_back_once),
};

SCENE_MAIN(tests)
