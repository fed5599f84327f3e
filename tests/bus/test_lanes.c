/*
 * Tests of what waits behind a failed event, while it is stored, and while others change what is
 * known of its key: its later events come in their order all the same.
 *
 * In those about a retry that succeeds in a transaction it comes, with later events of the key,
 * into the hands of the one worker while that stands after the commit of another event, where it
 * holds nothing of the store.
 */
#include "support_scene.h"

#include "base/point.h"
#include "support/faulty.h"

#define COMMITTED "handler_tx_after_commit"

static char url[600];

static int lanes_setup(void **state)
{
    struct scene *scene;

    if (scene_bare(state) != 0) {
        return -1;
    }
    scene = *state;
    faulty_install();
    snprintf(url, sizeof url, "faulty:%s", scene->url);
    return 0;
}

static int lanes_teardown(void **state)
{
    point_reset();
    faulty_reset();
    return scene_teardown(state);
}

/* "once" fails the first time, and passes the door in `extra` the second time. */
static hf_verdict once(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    if (strcmp(event->type, "once") != 0) {
        return HF_ACK;
    }
    if (hf_delivery_attempt(delivery) == 1) {
        return HF_RETRY;
    }
    if (recorder->extra) {
        door_pass(recorder->extra);
    }
    return HF_ACK;
}

struct calls {
    enum faulty_verb verb;
    int64_t before;
};

static bool called_again(void *ctx)
{
    const struct calls *calls = ctx;

    return faulty_calls(calls->verb) > calls->before;
}

/* Returns when the dispatcher has in hand what is published and what is due: it has begun to read
 * twice since. */
static void let_it_read(struct scene *scene)
{
    for (int i = 0; i < 2; i++) {
        struct calls calls = {FAULTY_READER_NEXT, faulty_calls(FAULTY_READER_NEXT)};

        publish(scene->bus, "news", NULL, "1");
        assert_true(wait_until(called_again, &calls));
    }
}

struct place {
    struct scene *scene;
    char id[HF_ID_BYTES];
    hf_state state;
    int64_t since_us; /* and for a while longer */
};

static bool is_there(void *ctx)
{
    struct place *place = ctx;

    if (state_of(place->scene->bus, "a", place->id, NULL) != place->state) {
        return false;
    }
    place->since_us = place->since_us ? place->since_us : mono_us();
    return mono_us() - place->since_us > (place->state == HF_STATE_RETRYING ? 50000 : 0);
}

/* Waits until the event is held, or retrying and due. */
static void wait_for_state(struct scene *scene, const char *id, hf_state state)
{
    struct place place = {.scene = scene, .state = state};

    snprintf(place.id, sizeof place.id, "%s", id);
    assert_true(wait_until(is_there, &place));
}

/* Publishes and keeps the id. */
static void publish_as(struct scene *scene, const char *type, const char *key, char id[HF_ID_BYTES])
{
    snprintf(id, HF_ID_BYTES, "%s", publish(scene->bus, type, key, "1")->id);
}

/* Starts with an event of "k" that has failed once, and a worker that stands behind a commit. */
static void begin(struct scene *scene, struct recorder *recorder)
{
    hf_subscription_options options = quick_options();
    char failing[HF_ID_BYTES];

    options.transactional = HF_ON;
    options.concurrency = 1;
    options.retry_base_ms = 1;
    options.retry_max_ms = 2;
    options.tx_max_ms = 60000;
    options.handler_timeout_ms = 60000;
    options.checkpoint_events = 1000;
    options.checkpoint_ms = 60000;
    assert_ok(hf_open(url, &scene->options, &scene->bus));
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish_as(scene, "once", "k", failing);
    publish(scene->bus, "other", NULL, "1");
    point_arm(COMMITTED, 2, POINT_STOP_THREAD);
    assert_ok(hf_start(scene->bus));
    assert_true(point_wait_blocked(COMMITTED, DEADLINE_MS));
    wait_for_state(scene, failing, HF_STATE_RETRYING);
}

/* The events of "k" came in the order of their positions; the first of them twice. */
static void assert_in_order(struct recorder *recorder, size_t events)
{
    int64_t latest = 0;
    size_t calls = 0;

    for (size_t i = 0; i < recorder_count(recorder); i++) {
        struct seen seen = recorder_get(recorder, i);

        if (strcmp(seen.key, "k") != 0) {
            continue;
        }
        assert_true(seen.position >= latest);
        latest = seen.position;
        calls++;
    }
    assert_int_equal(calls, events + 1);
}

/* Those behind it are stored as held after its transaction has found nothing behind it, and before
 * its worker says so. */
static void events_held_while_a_retry_commits_are_not_overtaken(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, once);
    struct door *door = scene_door(scene);
    char third[HF_ID_BYTES];

    recorder->extra = door;
    begin(scene, recorder);
    publish(scene->bus, "x", "k", "2");
    publish_as(scene, "x", "k", third);
    let_it_read(scene);
    point_arm("before_settle", 1, POINT_STOP_THREAD);
    point_release(COMMITTED);
    assert_true(door_wait_inside(door, 1));
    assert_true(point_wait_blocked("before_settle", DEADLINE_MS));
    point_arm(COMMITTED, 1, POINT_STOP_THREAD);
    door_open(door);
    assert_true(point_wait_blocked(COMMITTED, DEADLINE_MS));
    point_release("before_settle");
    wait_for_state(scene, third, HF_STATE_HELD);
    publish(scene->bus, "x", "k", "4");
    let_it_read(scene);
    point_release(COMMITTED);
    settle_all(scene->bus, "a");
    assert_in_order(recorder, 4);
}

/* The transaction of the retry is kept, but its answer is lost. When it is tried again it is found
 * settled, and says nothing of those behind it: what waits there is loaded again. */
static void events_behind_a_retry_whose_commit_got_lost_come_in_order(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, once);

    begin(scene, recorder);
    for (int i = 0; i < 3; i++) {
        publish(scene->bus, "x", "k", "2");
    }
    let_it_read(scene);
    faulty_lose(FAULTY_TX_COMMIT, 1, 1, HF_UNKNOWN);
    point_release(COMMITTED);
    for (int i = 0; i < 3; i++) {
        publish(scene->bus, "x", "k", "3");
    }
    settle_all(scene->bus, "a");
    assert_in_order(recorder, 7);
}

/* ---- What is held and not stored yet --------------------------------------------------------- */

enum { FAILING_DOOR, FIRST_DOOR, SLOW_DOOR, DOORS };

/* "once" passes its door and fails, the first time; "first" and "slow" pass others. */
static hf_verdict gated(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    struct door **doors = recorder->extra;

    if (strcmp(event->type, "slow") == 0) {
        door_pass(doors[SLOW_DOOR]);
    }
    if (strcmp(event->type, "first") == 0) {
        door_pass(doors[FIRST_DOOR]);
    }
    if (strcmp(event->type, "once") != 0 || hf_delivery_attempt(delivery) > 1) {
        return HF_ACK;
    }
    door_pass(doors[FAILING_DOOR]);
    return HF_RETRY;
}

static struct recorder *gated_recorder(struct scene *scene, struct door *doors[DOORS])
{
    struct recorder *recorder = scene_recorder(scene, gated);

    for (int i = 0; i < DOORS; i++) {
        doors[i] = scene_door(scene);
    }
    recorder->extra = doors;
    return recorder;
}

static void start_with(struct scene *scene, struct recorder *recorder,
                       const hf_subscription_options *options)
{
    assert_ok(hf_open(url, &scene->options, &scene->bus));
    subscribe(scene->bus, "a", "*", recorder, options);
}

/* The failure is reported when the dispatcher has stored what had ended and is about to store the
 * checkpoint: what is held behind it does not go with that. Alone in its lane it would be due at
 * once, before the failed one. It is looked at when the first of both has been stored. */
static void held_events_are_not_stored_before_the_failure_that_holds_them(void **state)
{
    struct scene *scene = *state;
    static struct door *doors[DOORS];
    struct recorder *recorder = gated_recorder(scene, doors);
    hf_subscription_options options = quick_options();
    char behind[HF_ID_BYTES];

    options.concurrency = 2;
    options.checkpoint_events = 1; /* a worker takes one at a time */
    start_with(scene, recorder, &options);
    publish(scene->bus, "slow", NULL, "1");
    publish(scene->bus, "once", "k", "2");
    publish_as(scene, "x", "k", behind);
    publish(scene->bus, "last", NULL, "4");
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(doors[SLOW_DOOR], 1));
    assert_true(door_wait_inside(doors[FAILING_DOOR], 1));
    point_arm("before_marks", 1, POINT_STOP_THREAD);
    publish(scene->bus, "news", NULL, "5");
    assert_true(point_wait_blocked("before_marks", DEADLINE_MS));
    door_open(doors[FAILING_DOOR]);
    assert_true(recorder_wait(recorder, 2)); /* "last", too: so the worker has passed "x" */
    point_arm("before_settle", 2, POINT_STOP_THREAD);
    point_release("before_marks");
    assert_true(point_wait_blocked("before_settle", DEADLINE_MS));
    assert_int_equal(state_of(scene->bus, "a", behind, NULL), HF_STATE_HELD);
    point_release("before_settle");
    door_open(doors[SLOW_DOOR]);
    settle_all(scene->bus, "a");
    assert_in_order(recorder, 2);
}

/* It has been stored, but the answer is lost: it is loaded again, and comes once, in its place. */
static void held_events_come_in_order_when_the_answer_is_lost(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, once);
    hf_subscription_options options = quick_options();
    char failing[HF_ID_BYTES];

    options.retry_base_ms = 1000;
    options.retry_max_ms = 1000;
    start_with(scene, recorder, &options);
    publish_as(scene, "once", "k", failing);
    assert_ok(hf_start(scene->bus));
    wait_for_state(scene, failing, HF_STATE_RETRYING);
    point_arm("before_settle", 1, POINT_STOP_THREAD);
    publish(scene->bus, "x", "k", "2");
    assert_true(point_wait_blocked("before_settle", DEADLINE_MS));
    struct calls calls = {FAULTY_APPLY, faulty_calls(FAULTY_APPLY)};
    faulty_lose(FAULTY_APPLY, 1, 1, HF_UNKNOWN);
    point_release("before_settle");
    assert_true(wait_until(called_again, &calls));
    publish(scene->bus, "x", "k", "3");
    settle_all(scene->bus, "a");
    assert_in_order(recorder, 3);
}

/* Nothing else ends, and enough is left to be done: it does not wait for that. */
static void held_events_are_stored_soon_while_handlers_run_long(void **state)
{
    struct scene *scene = *state;
    static struct door *doors[DOORS];
    struct recorder *recorder = gated_recorder(scene, doors);
    hf_subscription_options options = quick_options();
    char failing[HF_ID_BYTES], behind[HF_ID_BYTES];

    options.concurrency = 1;
    options.breaker = HF_ON; /* a worker takes one at a time */
    options.inflight_max = 8;
    options.checkpoint_events = 1000;
    options.checkpoint_ms = 3600000;
    options.retry_base_ms = options.retry_max_ms = 3600000;
    start_with(scene, recorder, &options);
    publish_as(scene, "once", "k", failing);
    publish(scene->bus, "first", NULL, "2");
    publish_as(scene, "x", "k", behind);
    for (int i = 0; i < 5; i++) {
        publish(scene->bus, "slow", NULL, "4");
    }
    door_open(doors[FAILING_DOOR]);
    assert_ok(hf_start(scene->bus));
    wait_for_state(scene, failing, HF_STATE_RETRYING);
    assert_true(door_wait_inside(doors[FIRST_DOOR], 1));
    door_open(doors[FIRST_DOOR]);
    assert_true(door_wait_inside(doors[SLOW_DOOR], 1));
    wait_for_state(scene, behind, HF_STATE_HELD);
    door_open(doors[SLOW_DOOR]);
}

#define lanes_test(test) cmocka_unit_test_setup_teardown(test, lanes_setup, lanes_teardown)

static const struct CMUnitTest tests[] = {
    lanes_test(events_held_while_a_retry_commits_are_not_overtaken),
    lanes_test(events_behind_a_retry_whose_commit_got_lost_come_in_order),
    lanes_test(held_events_are_not_stored_before_the_failure_that_holds_them),
    lanes_test(held_events_come_in_order_when_the_answer_is_lost),
    lanes_test(held_events_are_stored_soon_while_handlers_run_long),
};

SCENE_MAIN(tests)
