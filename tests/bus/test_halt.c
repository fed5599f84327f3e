/*
 * Tests of on_poison=halt: the pause comes with the death, in one transaction, whatever gave the
 * event up, and nothing more runs.
 */
#include "support_actor.h"

#include "base/point.h"
#include "support/faulty.h"

#include <signal.h>
#include <sys/wait.h>

static hf_verdict reject_bad(const hf_event *event, hf_delivery *delivery,
                             struct recorder *recorder)
{
    (void)recorder;
    if (strcmp(event->type, "bad") != 0) {
        return HF_ACK;
    }
    hf_delivery_error(delivery, "bad");
    return HF_DEAD;
}

static hf_subscription_options halt_options(hf_mode mode)
{
    hf_subscription_options options = quick_options();

    options.mode = mode;
    options.on_poison = HF_POISON_HALT;
    options.batch = 5;
    return options;
}

static bool is_paused(void *ctx)
{
    return info_of(ctx, "a").paused_at_us != -1;
}

static void halt(struct scene *scene, hf_mode mode)
{
    struct recorder *recorder = scene_recorder(scene, reject_bad);
    hf_subscription_options options = halt_options(mode);
    size_t calls;

    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 40; i++) {
        publish(scene->bus, i == 3 ? "bad" : "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(is_paused, scene->bus));
    calls = recorder_count(recorder);
    assert_in_range(calls, 4, 8); /* what was in a worker's hands already may finish */
    assert_status(hf_wait(scene->bus, "a", -1, 100), HF_TIMEOUT);
    assert_int_equal(recorder_count(recorder), calls);
    assert_int_equal(info_of(scene->bus, "a").dead, 1);
    assert_ok(hf_resume(scene->bus, "a"));
    settle_all(scene->bus, "a");
    for (int64_t position = 1; position <= 40; position++) {
        assert_int_equal(recorder_calls(recorder, position, NULL), 1);
    }
}

/* "slow" waits at the door in `extra`, "bad" dies. */
static hf_verdict wait_or_reject(const hf_event *event, hf_delivery *delivery,
                                 struct recorder *recorder)
{
    if (strcmp(event->type, "slow") == 0) {
        door_pass(recorder->extra);
    }
    return reject_bad(event, delivery, recorder);
}

static int stopped_teardown(void **state)
{
    point_reset(); /* no thread may stay stopped while the bus is closed */
    return scene_teardown(state);
}

/* The pause is stored, and the dispatcher has just read it, when a worker comes for more. */
static void nothing_begins_while_the_pause_is_read(struct scene *scene, hf_mode mode,
                                                   const char *settled)
{
    struct recorder *recorder = scene_recorder(scene, wait_or_reject);
    hf_subscription_options options = halt_options(mode);

    recorder->extra = scene_door(scene);
    options.concurrency = 2;
    options.checkpoint_events = 1; /* a worker takes one at a time */
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "slow", NULL, "1");
    publish(scene->bus, "bad", NULL, "1");
    for (int i = 0; i < 20; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    point_arm(settled, 1, POINT_STOP_THREAD);
    assert_ok(hf_start(scene->bus));
    assert_true(point_wait_blocked(settled, DEADLINE_MS));
    assert_true(door_wait_inside(recorder->extra, 1));
    assert_true(is_paused(scene->bus));
    point_arm("after_refresh", 1, POINT_STOP_THREAD);
    point_release(settled);
    assert_true(point_wait_blocked("after_refresh", DEADLINE_MS));
    door_open(recorder->extra);
    assert_true(recorder_wait(recorder, 2));
    usleep(50000); /* time for one that begins to show itself */
    assert_int_equal(recorder_count(recorder), 2);
    point_release("after_refresh");
    assert_ok(hf_resume(scene->bus, "a"));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 22);
}

static void nothing_begins_while_the_pause_of_ordered_work_is_read(void **state)
{
    nothing_begins_while_the_pause_is_read(*state, HF_MODE_ORDERED, "after_settle");
}

static void nothing_begins_while_the_pause_of_shared_work_is_read(void **state)
{
    nothing_begins_while_the_pause_is_read(*state, HF_MODE_SHARED, "after_settle_lease");
}

static void an_ordered_subscription_stops_with_the_death(void **state)
{
    halt(*state, HF_MODE_ORDERED);
}

static void a_shared_subscription_stops_with_the_death(void **state)
{
    halt(*state, HF_MODE_SHARED);
}

static void burying_a_claimed_event_pauses_the_subscription(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = halt_options(HF_MODE_SHARED);
    const char *patterns[] = {"*"};
    hf_batch *batch = NULL;

    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL));
    publish(scene->bus, "x", NULL, "1");
    publish(scene->bus, "x", NULL, "2");
    assert_ok(hf_claim(scene->bus, "a", NULL, &batch));
    assert_ok(hf_bury(scene->bus, "a", hf_batch_lease(batch), &hf_batch_event(batch, 0)->position,
                      1, "no good"));
    hf_batch_free(batch);
    assert_true(is_paused(scene->bus));
    assert_int_not_equal(info_of(scene->bus, "a").paused_reason[0], 0);
}

static void the_last_nack_pauses_the_subscription(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = halt_options(HF_MODE_SHARED);
    const char *patterns[] = {"*"};
    hf_batch *batch = NULL;

    options.attempts_max = 1;
    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL));
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_claim(scene->bus, "a", NULL, &batch));
    assert_ok(hf_nack(scene->bus, "a", hf_batch_lease(batch), NULL, 0, 0, "no good"));
    hf_batch_free(batch);
    assert_int_equal(info_of(scene->bus, "a").dead, 1);
    assert_true(is_paused(scene->bus));
}

/* ---- Killed right after the death ------------------------------------------------------------ */

static hf_verdict reject(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)delivery;
    (void)ctx;
    return strcmp(event->type, "bad") == 0 ? HF_DEAD : HF_ACK;
}

/* work URL: dies right after the first settle that had a death in it was stored. */
static int work(int argc, char **argv)
{
    hf_bus *bus = NULL;

    if (argc < 1 || hf_open(argv[0], NULL, &bus) != HF_OK ||
        hf_subscribe(bus, "a", "*", reject, NULL, NULL, NULL) != HF_OK) {
        return 1;
    }
    point_arm("after_settle", 1, POINT_KILL);
    if (hf_start(bus) != HF_OK) {
        return 1;
    }
    for (;;) {
        pause();
    }
}

static const struct part parts[] = {{"work", work}};

static void the_pause_is_stored_with_the_death(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = halt_options(HF_MODE_ORDERED);
    const char *patterns[] = {"*"};
    int status;

    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL));
    publish(scene->bus, "bad", NULL, "1");
    publish(scene->bus, "x", NULL, "1");
    status = actor_wait(actor_start("work", scene->url, NULL));
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    assert_int_equal(info_of(scene->bus, "a").dead, 1);
    assert_true(is_paused(scene->bus));
}

/* A store that refuses once does not make the pause be forgotten. */
static void a_halt_is_stored_although_the_store_refuses_once(void **state)
{
    struct scene *scene = *state;
    char url[600];

    snprintf(url, sizeof url, "faulty:%s", scene->url);
    for (int64_t nth = 1; nth <= 4; nth++) {
        struct recorder *recorder = scene_recorder(scene, reject_bad);
        hf_subscription_options options = halt_options(HF_MODE_ORDERED);

        assert_ok(hf_close(&scene->bus));
        faulty_install();
        assert_ok(hf_open(url, &scene->options, &scene->bus));
        options.from.kind = HF_PLACE_NOW;
        subscribe(scene->bus, "a", "*", recorder, &options);
        publish(scene->bus, "bad", NULL, "1");
        faulty_fail(FAULTY_APPLY, nth, 1, HF_IO);
        assert_ok(hf_start(scene->bus));
        assert_true(wait_until(is_paused, scene->bus));
        faulty_reset();
        assert_ok(hf_stop(scene->bus, -1));
        assert_ok(hf_subscription_remove(scene->bus, "a"));
    }
}

static const struct CMUnitTest tests[] = {
    scene_test(an_ordered_subscription_stops_with_the_death),
    scene_test(a_shared_subscription_stops_with_the_death),
    cmocka_unit_test_setup_teardown(nothing_begins_while_the_pause_of_ordered_work_is_read,
                                    scene_setup, stopped_teardown),
    cmocka_unit_test_setup_teardown(nothing_begins_while_the_pause_of_shared_work_is_read,
                                    scene_setup, stopped_teardown),
    scene_test(burying_a_claimed_event_pauses_the_subscription),
    scene_test(the_last_nack_pauses_the_subscription),
    scene_test(the_pause_is_stored_with_the_death),
    scene_test(a_halt_is_stored_although_the_store_refuses_once),
};

ACTOR_MAIN(tests, parts)
