/*
 * Tests of suspects: an event whose last attempt ended with the process runs alone. If it hangs
 * then, or kills again, all others still go on, and stopping comes back in time.
 */
#include "support_actor.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

static hf_verdict kill_the_process(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)event;
    (void)delivery;
    (void)ctx;
    raise(SIGKILL);
    return HF_ACK;
}

/* die URL: dies in the handler of "suspect". */
static int die(int argc, char **argv)
{
    hf_subscription_options options = quick_options();
    hf_bus *bus = NULL;

    if (argc < 1 || hf_open(argv[0], NULL, &bus) != HF_OK ||
        hf_subscribe(bus, "suspect", "*", kill_the_process, NULL, &options, NULL) != HF_OK ||
        hf_start(bus) != HF_OK) {
        return 1;
    }
    for (;;) {
        pause();
    }
}

static const struct part parts[] = {{"die", die}};

static void make_suspect(struct scene *scene)
{
    /* Where no notes are taken the first death is not recorded. */
    int deaths = scene->path ? 1 : 2;

    publish(scene->bus, "x", NULL, "1");
    for (int i = 0; i < deaths; i++) {
        int status = actor_wait(actor_start("die", scene->url, NULL));

        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGKILL);
    }
}

static void a_crash_suspect_that_hangs_stops_no_other_event(void **state)
{
    struct scene *scene = *state;
    struct recorder *suspect = scene_recorder(scene, NULL);
    struct recorder *healthy = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    int64_t begin_us;
    hf_status stopped;

    make_suspect(scene);
    suspect->door = scene_door(scene);
    options.handler_timeout_ms = 1000;
    subscribe(scene->bus, "suspect", "*", suspect, &options);
    subscribe(scene->bus, "healthy", "*", healthy, NULL); /* which has time on a slow machine */
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(suspect->door, 1));
    for (int i = 0; i < 5; i++) {
        publish(scene->bus, "y", NULL, "1");
    }
    settle_all(scene->bus, "healthy");
    assert_int_equal(recorder_count(healthy), 6);
    begin_us = mono_us();
    stopped = hf_stop(scene->bus, 200);
    assert_true(mono_us() - begin_us < 15000000);
    assert_true(stopped == HF_TIMEOUT || stopped == HF_OK);
}

static void a_crash_suspect_that_succeeds_is_done(void **state)
{
    struct scene *scene = *state;
    struct recorder *suspect = scene_recorder(scene, NULL);

    make_suspect(scene);
    subscribe(scene->bus, "suspect", "*", suspect, NULL);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "suspect");
    assert_int_equal(recorder_count(suspect), 1);
    assert_int_equal(recorder_get(suspect, 0).attempt, 2);
    assert_int_equal(info_of(scene->bus, "suspect").dead, 0);
}

/* Shows how many handlers of the bus run while the suspect does. */
static atomic_int inside, inside_with_suspect;

static hf_verdict count_inside(const hf_event *event, hf_delivery *delivery,
                               struct recorder *recorder)
{
    int others = atomic_fetch_add(&inside, 1);

    (void)recorder;
    if (event->position == 1 && strcmp(hf_delivery_subscription(delivery), "suspect") == 0) {
        usleep(50000);
        others = atomic_load(&inside) - 1;
        atomic_store(&inside_with_suspect, others);
    }
    atomic_fetch_sub(&inside, 1);
    return HF_ACK;
}

static void a_crash_suspect_runs_alone(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();

    make_suspect(scene);
    atomic_store(&inside, 0);
    atomic_store(&inside_with_suspect, -1);
    options.concurrency = 4;
    for (int i = 0; i < 50; i++) {
        publish(scene->bus, "y", NULL, "1");
    }
    subscribe(scene->bus, "suspect", "*", scene_recorder(scene, count_inside), &options);
    subscribe(scene->bus, "other", "*", scene_recorder(scene, count_inside), &options);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, NULL);
    assert_int_equal(atomic_load(&inside_with_suspect), 0);
}

static const struct CMUnitTest tests[] = {
    scene_test(a_crash_suspect_that_hangs_stops_no_other_event),
    scene_test(a_crash_suspect_that_succeeds_is_done),
    scene_test(a_crash_suspect_runs_alone),
};

ACTOR_MAIN(tests, parts)
