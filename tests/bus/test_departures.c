/*
 * Tests of stopping with many subscriptions: what they own is given back together, in few commits,
 * and soon, whatever some handler still does.
 */
#include "support_scene.h"

#define MANY 120 /* from 50 on a stop gives back for all of them */
#define COMMITS_MAX (MANY / 2)

static void name_of(int i, char name[16])
{
    snprintf(name, 16, "s%d", i);
}

/* Each is for events of its own, which nobody publishes; the first one is for x. */
static void start_many(hf_bus *bus, struct recorder *recorder)
{
    hf_subscription_options options = quick_options();
    for (int i = 0; i < MANY; i++) {
        char name[16];
        name_of(i, name);
        subscribe(bus, name, i == 0 ? "x" : name, recorder, &options);
    }
    assert_ok(hf_start(bus));
}

static int owned(hf_bus *bus)
{
    int count = 0;
    for (int i = 0; i < MANY; i++) {
        char name[16];
        name_of(i, name);
        count += info_of(bus, name).owner[0] ? 1 : 0;
    }
    return count;
}

static bool all_are_owned(void *ctx)
{
    return owned(ctx) == MANY;
}

static bool one_is_owned(void *ctx)
{
    return owned(ctx) == 1;
}

static int64_t commits_of(hf_bus *bus)
{
    hf_metrics metrics = {.size = sizeof metrics};
    assert_ok(hf_metrics_get(bus, &metrics));
    return metrics.commit.count;
}

static void many_subscriptions_are_given_back_in_few_commits(void **state)
{
    struct scene *scene = *state;
    hf_bus *other = scene_open(scene, NULL);
    start_many(scene->bus, scene_recorder(scene, NULL));
    for (int round = 0; round < 2; round++) {
        assert_true(wait_until(all_are_owned, other));
        int64_t commits = commits_of(scene->bus);
        assert_ok(hf_stop(scene->bus, -1));
        commits = commits_of(scene->bus) - commits;
        print_message("# %lld commits\n", (long long)commits);
        assert_true(commits <= COMMITS_MAX);
        assert_int_equal(owned(other), 0);
        assert_ok(hf_start(scene->bus));
    }
}

static void *stop(void *ctx)
{
    struct scene *scene = ctx;
    assert_ok(hf_stop(scene->bus, -1));
    return NULL;
}

static void a_handler_that_still_runs_keeps_its_own_subscription_only(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_bus *other = scene_open(scene, NULL);
    pthread_t thread;
    recorder->door = scene_door(scene);
    start_many(scene->bus, recorder);
    assert_true(wait_until(all_are_owned, other));
    publish(scene->bus, "x", NULL, "1");
    assert_true(door_wait_inside(recorder->door, 1));
    assert_int_equal(pthread_create(&thread, NULL, stop, scene), 0);
    assert_true(wait_until(one_is_owned, other));
    assert_true(info_of(other, "s0").owner[0]);
    door_open(recorder->door);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(owned(other), 0);
    assert_int_equal(recorder_count(recorder), 1);
}

/* What was given back was done: nothing comes again, and nothing is told of a crash. */
static void what_is_given_back_together_is_taken_over_as_it_was_left(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    struct recorder *next = scene_recorder(scene, NULL);
    hf_bus *other = scene_open(scene, NULL);
    start_many(scene->bus, recorder);
    for (int i = 0; i < 10; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_true(recorder_wait(recorder, 10));
    assert_ok(hf_stop(scene->bus, -1));
    start_many(other, next);
    int64_t position = publish(other, "x", NULL, "1")->position;
    assert_true(recorder_wait(next, 1));
    settle_all(other, "s0");
    assert_int_equal(recorder_count(next), 1);
    assert_int_equal(recorder_calls(next, position, NULL), 1);
    assert_int_equal(info_of(other, "s0").dead, 0);
}

static const struct CMUnitTest tests[] = {
    scene_test(many_subscriptions_are_given_back_in_few_commits),
    scene_test(a_handler_that_still_runs_keeps_its_own_subscription_only),
    scene_test(what_is_given_back_together_is_taken_over_as_it_was_left),
};

SCENE_MAIN(tests)
