/*
 * Tests of changing the number of partitions while there is work: nothing is lost, nothing is done
 * twice, each key stays in order, and who dies in the middle leaves it to the others.
 */
#include "support_mates.h"

#include <signal.h>

#define KEYS 24
#define CONCURRENCY 3

static hf_subscription_options shares(int32_t partitions)
{
    return mates_share(partitions, CONCURRENCY);
}

/* Works for the subscription whatever its partitions are. */
static pid_t worker(struct scene *scene, const char *name, const char *point)
{
    return mates_start(scene, name, -1, CONCURRENCY, point);
}

static void publish_keys(hf_bus *bus, int each)
{
    mates_publish(bus, KEYS, each);
}

/* Requests this number of partitions. */
static void change_to(hf_bus *bus, int32_t partitions)
{
    const char *patterns[] = {"*"};
    hf_subscription_options options = shares(partitions);

    options.from = (hf_place){.kind = HF_PLACE_START};
    assert_ok(hf_subscription_create(bus, "a", patterns, 1, &options, NULL));
}

struct want {
    hf_bus *bus;
    int32_t partitions;
};

static bool has_changed(void *ctx)
{
    const struct want *want = ctx;

    return info_of(want->bus, "a").options.partitions == want->partitions;
}

static void assert_changes_to(hf_bus *bus, int32_t partitions)
{
    struct want want = {bus, partitions};

    assert_true(wait_until(has_changed, &want));
}

/* The calls of the recorders, in the order of their beginnings, keep each key in the log's order,
 * and are as many as the events. */
static void assert_in_order(struct recorder *one, struct recorder *two, size_t published)
{
    int64_t last[KEYS] = {0};
    size_t a = 0, b = 0, ones = recorder_count(one), twos = two ? recorder_count(two) : 0;

    assert_int_equal(ones + twos, published);
    while (a < ones || b < twos) {
        struct seen left = a < ones ? recorder_get(one, a) : (struct seen){.begin_us = INT64_MAX};
        struct seen right = b < twos ? recorder_get(two, b) : (struct seen){.begin_us = INT64_MAX};
        struct seen *next = left.begin_us <= right.begin_us ? &left : &right;
        int key = (int)strtol(next->key + 1, NULL, 10);

        a += next == &left;
        b += next == &right;
        assert_true(next->position > last[key]);
        last[key] = next->position;
    }
}

/* ---- In one process -------------------------------------------------------------------------- */

static void the_number_of_partitions_changes_at_once_if_no_process_works(void **state)
{
    struct scene *scene = *state;

    change_to(scene->bus, 4);
    publish_keys(scene->bus, 1);
    change_to(scene->bus, 9);
    assert_int_equal(info_of(scene->bus, "a").options.partitions, 9);
    change_to(scene->bus, 1);
    assert_int_equal(info_of(scene->bus, "a").options.partitions, 1);
}

static void partitions_of_one_process_grow_and_shrink_under_load(void **state)
{
    static const int32_t counts[] = {8, 3, 1, HF_PARTITIONS_MAX, 5};
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = shares(4);
    size_t published = 0;

    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (size_t i = 0; i < COUNTED(counts); i++) {
        publish_keys(scene->bus, 5);
        change_to(scene->bus, counts[i]);
        publish_keys(scene->bus, 5);
        published += (size_t)10 * KEYS;
        assert_changes_to(scene->bus, counts[i]);
    }
    publish_keys(scene->bus, 1);
    settle_all(scene->bus, "a");
    assert_in_order(recorder, NULL, published + KEYS);
    assert_int_equal(recorder_overlaps(recorder), 0);
}

static hf_verdict fail_twice(const hf_event *event, hf_delivery *delivery,
                             struct recorder *recorder)
{
    (void)recorder;
    return strcmp(event->key, "k3") == 0 && hf_delivery_attempt(delivery) < 3 ? HF_RETRY : HF_ACK;
}

static void a_failing_key_stays_in_order_over_a_change_of_partitions(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_twice);
    hf_subscription_options options = shares(4);
    int64_t last = 0;

    options.retry_base_ms = 20;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish_keys(scene->bus, 3);
    change_to(scene->bus, 7);
    publish_keys(scene->bus, 3);
    assert_changes_to(scene->bus, 7);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 6 * KEYS + 6 * 2);
    for (size_t i = 0; i < recorder_count(recorder); i++) {
        struct seen seen = recorder_get(recorder, i);

        if (strcmp(seen.key, "k3") == 0) {
            assert_true(seen.position >= last);
            last = seen.position;
        }
    }
}

static void a_change_of_partitions_waits_for_a_running_handler(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = shares(2);

    recorder->door = scene_door(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish_keys(scene->bus, 2);
    assert_true(door_wait_inside(recorder->door, 1));
    change_to(scene->bus, 6);
    assert_int_equal(info_of(scene->bus, "a").options.partitions, 2);
    door_open(recorder->door);
    assert_changes_to(scene->bus, 6);
    settle_all(scene->bus, "a");
    assert_in_order(recorder, NULL, (size_t)2 * KEYS);
}

static void a_change_that_waits_is_cancelled_by_the_old_number_and_replaced_by_another(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = shares(2);

    recorder->door = scene_door(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish_keys(scene->bus, 2);
    assert_true(door_wait_inside(recorder->door, 1));
    change_to(scene->bus, 6);
    change_to(scene->bus, 2);
    change_to(scene->bus, 3);
    publish_keys(scene->bus, 2);
    door_open(recorder->door);
    assert_changes_to(scene->bus, 3);
    settle_all(scene->bus, "a");
    assert_in_order(recorder, NULL, (size_t)4 * KEYS);
}

static void a_pause_and_a_seek_during_a_change_of_partitions_do_no_harm(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = shares(2);

    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish_keys(scene->bus, 3);
    settle_all(scene->bus, "a");
    assert_ok(hf_pause(scene->bus, "a", "test"));
    publish_keys(scene->bus, 1);
    change_to(scene->bus, 5);
    assert_ok(hf_seek(scene->bus, "a", (hf_place){.kind = HF_PLACE_START}, HF_OFF, NULL));
    assert_ok(hf_resume(scene->bus, "a"));
    assert_changes_to(scene->bus, 5);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 3 * KEYS + 4 * KEYS);
}

static void two_processes_keep_every_key_in_order_over_changes_of_partitions(void **state)
{
    struct scene *scene = *state;
    struct recorder *one = scene_recorder(scene, NULL), *two = scene_recorder(scene, NULL);
    hf_subscription_options options = shares(4);
    hf_bus *other = scene_open(scene, NULL);

    subscribe(scene->bus, "a", "*", one, &options);
    assert_ok(hf_start(scene->bus));
    subscribe(other, "a", "*", two, &options);
    assert_ok(hf_start(other));
    publish_keys(scene->bus, 10);
    change_to(scene->bus, 10);
    publish_keys(scene->bus, 10);
    assert_changes_to(other, 10);
    publish_keys(scene->bus, 10);
    change_to(other, 2);
    publish_keys(scene->bus, 10);
    assert_changes_to(other, 2);
    settle_all(other, "a");
    assert_in_order(one, two, (size_t)40 * KEYS);
}

/* ---- Several processes ----------------------------------------------------------------------- */

/* One worker dies at the point, another finishes what it began. */
static void die_at(struct scene *scene, const char *point)
{
    pid_t mortal, other;

    change_to(scene->bus, 3);
    publish_keys(scene->bus, 2);
    mortal = worker(scene, "mortal", point);
    settle_all(scene->bus, "a");
    publish_keys(scene->bus, 5);
    change_to(scene->bus, 8);
    publish_keys(scene->bus, 5);
    actor_wait(mortal);
    other = worker(scene, "other", NULL);
    assert_changes_to(scene->bus, 8);
    settle_all(scene->bus, "a");
    mates_stop(scene, "other");
    assert_int_equal(actor_wait(other), 0);
    assert_true(mates_assert_done(scene, (int64_t)12 * KEYS) < (size_t)24 * KEYS);
}

static void a_process_that_dies_before_repartitioning_leaves_it_to_the_next(void **state)
{
    die_at(*state, "before_repartition");
}

static void a_process_that_dies_while_repartitioning_has_changed_nothing(void **state)
{
    die_at(*state, "mid_repartition");
}

static void a_process_that_dies_after_repartitioning_has_changed_all(void **state)
{
    die_at(*state, "after_repartition");
}

static void processes_that_are_killed_while_repartitioning_lose_nothing(void **state)
{
    struct scene *scene = *state;
    pid_t pids[3];

    change_to(scene->bus, 6);
    publish_keys(scene->bus, 2);
    pids[0] = worker(scene, "one", NULL);
    pids[1] = worker(scene, "two", NULL);
    publish_keys(scene->bus, 5);
    change_to(scene->bus, 11);
    actor_kill(pids[0]);
    publish_keys(scene->bus, 5);
    pids[2] = worker(scene, "three", NULL);
    assert_changes_to(scene->bus, 11);
    publish_keys(scene->bus, 2);
    settle_all(scene->bus, "a");
    mates_stop(scene, "two");
    mates_stop(scene, "three");
    assert_int_equal(actor_wait(pids[1]), 0);
    assert_int_equal(actor_wait(pids[2]), 0);
    assert_true(mates_assert_done(scene, (int64_t)14 * KEYS) < (size_t)28 * KEYS);
}

struct owned {
    hf_bus *bus;
    const char *name;
    int count;
};

static int count_owned(const hf_partition_info *info, void *ctx)
{
    struct owned *owned = ctx;

    owned->count += info->owner && strcmp(info->owner, owned->name) == 0;
    return 0;
}

static bool owns_some(void *ctx)
{
    struct owned *owned = ctx;

    owned->count = 0;
    return hf_partition_list(owned->bus, "a", count_owned, owned) == HF_OK && owned->count > 0;
}

static void assert_comes_to_own(hf_bus *bus, const char *name)
{
    struct owned owned = {.bus = bus, .name = name};

    assert_true(wait_until(owns_some, &owned));
}

/* Its partitions have other numbers when it wakes up, and nothing new comes by which it would learn
 * that they are not its own any more. */
static void
a_process_that_was_frozen_during_a_change_takes_its_share_of_the_new_partitions(void **state)
{
    struct scene *scene = *state;
    pid_t frozen, other;

    mates_have_short_leases(); /* the last test of all */
    change_to(scene->bus, 4);
    publish_keys(scene->bus, 2);
    frozen = worker(scene, "frozen", NULL);
    other = worker(scene, "other", NULL);
    settle_all(scene->bus, "a");
    assert_comes_to_own(scene->bus, "frozen");
    assert_comes_to_own(scene->bus, "other");
    actor_freeze(scene, frozen);
    change_to(scene->bus, 9);
    assert_changes_to(scene->bus, 9);
    assert_comes_to_own(scene->bus, "other");
    kill(frozen, SIGCONT);
    assert_comes_to_own(scene->bus, "frozen");
    publish_keys(scene->bus, 3);
    settle_all(scene->bus, "a");
    mates_stop(scene, "frozen");
    mates_stop(scene, "other");
    assert_int_equal(actor_wait(frozen), 0);
    assert_int_equal(actor_wait(other), 0);
    mates_assert_done(scene, (int64_t)5 * KEYS);
}

static const struct CMUnitTest tests[] = {
    scene_test(the_number_of_partitions_changes_at_once_if_no_process_works),
    scene_test(partitions_of_one_process_grow_and_shrink_under_load),
    scene_test(a_failing_key_stays_in_order_over_a_change_of_partitions),
    scene_test(a_change_of_partitions_waits_for_a_running_handler),
    scene_test(a_change_that_waits_is_cancelled_by_the_old_number_and_replaced_by_another),
    scene_test(a_pause_and_a_seek_during_a_change_of_partitions_do_no_harm),
    scene_test(two_processes_keep_every_key_in_order_over_changes_of_partitions),
    scene_test(a_process_that_dies_before_repartitioning_leaves_it_to_the_next),
    scene_test(a_process_that_dies_while_repartitioning_has_changed_nothing),
    scene_test(a_process_that_dies_after_repartitioning_has_changed_all),
    scene_test(processes_that_are_killed_while_repartitioning_lose_nothing),
    scene_test(a_process_that_was_frozen_during_a_change_takes_its_share_of_the_new_partitions),
};
static const struct part parts[] = {MATES_PART};

ACTOR_MAIN(tests, parts)
