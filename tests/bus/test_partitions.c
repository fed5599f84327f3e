/*
 * Tests of partitions: several processes share one subscription, each key stays in order, nothing
 * is lost or done twice when they come, go, die or freeze.
 */
#include "support_mates.h"
#include "support_tables.h"

#include <signal.h>

#define PARTITIONS 8
#define CONCURRENCY 2

static hf_subscription_options shares(void)
{
    return mates_share(PARTITIONS, CONCURRENCY);
}

static pid_t worker(struct scene *scene, const char *name)
{
    return mates_start(scene, name, PARTITIONS, CONCURRENCY, NULL);
}

/* ---- In one process -------------------------------------------------------------------------- */

static void one_process_works_for_all_partitions(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = shares();

    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    mates_publish(scene->bus, 20, 10);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 200);
    assert_int_equal(recorder_overlaps(recorder), 0);
    assert_int_equal(info_of(scene->bus, "a").checkpoint, 200);
}

/* Each partition knows the last event of its own; which of those was the last is not known. */
static void with_several_partitions_no_event_is_shown_as_the_last(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = shares();

    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    mates_publish(scene->bus, 20, 1);
    settle_all(scene->bus, "a");
    assert_int_equal(info_of(scene->bus, "a").checkpoint, 20);
    assert_string_equal(info_of(scene->bus, "a").checkpoint_event_id, "");
}

static void progress_survives_a_restart(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = shares();

    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    mates_publish(scene->bus, 20, 5);
    settle_all(scene->bus, "a");
    scene_reopen(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    mates_publish(scene->bus, 20, 1);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 120);
}

static hf_verdict fail_one_key(const hf_event *event, hf_delivery *delivery,
                               struct recorder *recorder)
{
    (void)delivery;
    (void)recorder;
    return event->key && strcmp(event->key, "k3") == 0 ? HF_RETRY : HF_ACK;
}

static void a_failing_key_holds_back_only_itself(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_one_key);
    hf_subscription_options options = shares();

    options.attempts_max = 2;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    mates_publish(scene->bus, 10, 3);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_calls(recorder, 0, "k3"), 6);
    assert_int_equal(recorder_calls(recorder, 0, "k4"), 3);
    assert_int_equal(info_of(scene->bus, "a").dead, 3);
    assert_int_equal(info_of(scene->bus, "a").lag, 0);
}

static bool healthy_are_done(void *ctx)
{
    return recorder_calls(ctx, 0, NULL) - recorder_calls(ctx, 0, "k3") == 2 * 999;
}

static void a_poison_key_among_a_thousand_holds_back_only_itself(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_one_key);
    hf_subscription_options options = shares();

    options.retry_base_ms = 3600000; /* it stays what it is while we look */
    options.retry_max_ms = 3600000;
    subscribe(scene->bus, "a", "*", recorder, &options);
    mates_publish(scene->bus, 1000, 2);
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(healthy_are_done, recorder));
    assert_int_equal(recorder_calls(recorder, 0, "k3"), 1);
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
    assert_int_equal(info_of(scene->bus, "a").checkpoint, 2000);
    assert_int_equal(info_of(scene->bus, "a").retrying, 1);
    assert_int_equal(info_of(scene->bus, "a").held, 1);
}

static void a_seek_takes_all_partitions_back(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = shares();
    hf_place start = {HF_PLACE_START, -1};

    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    mates_publish(scene->bus, 20, 2);
    settle_all(scene->bus, "a");
    assert_ok(hf_seek(scene->bus, "a", start, HF_OFF, NULL));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 80);
}

static void partitions_are_for_relaxed_ordered_subscriptions(void **state)
{
    struct scene *scene = *state;
    const char *patterns[] = {"*"};
    hf_subscription_options options = shares();

    options.partitions = HF_PARTITIONS_MAX + 1;
    assert_status(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL), HF_INVALID);
    options.partitions = 2;
    options.order = HF_ORDER_STRICT;
    assert_status(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL), HF_INVALID);
    options.order = HF_ORDER_RELAXED;
    options.mode = HF_MODE_SHARED;
    assert_status(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL), HF_INVALID);
    assert_non_null(strstr(hf_errmsg(), "partitions is 2"));
    options.partitions = 1;
    options.order = HF_ORDER_STRICT;
    assert_status(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL), HF_INVALID);
    assert_non_null(strstr(hf_errmsg(), "a shared subscription has no order"));
    options.order = HF_ORDER_RELAXED;
    options.mode = HF_MODE_ORDERED;
    options.partitions = HF_PARTITIONS_MAX;
    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL));
}

/* ---- Two in one process, each with its own handle -------------------------------------------- */

struct pair {
    struct recorder *one;
    struct recorder *two;
    hf_bus *other;
    int published;
};

/* Publishes a round of all keys; both must have been called since the last look. */
static bool both_work(void *ctx)
{
    struct pair *pair = ctx;
    size_t one = recorder_count(pair->one), two = recorder_count(pair->two);

    mates_publish(pair->other, 20, 1);
    pair->published += 20;
    settle_all(pair->other, "a");
    return recorder_count(pair->one) > one && recorder_count(pair->two) > two;
}

/* No key was handled by the two in an order that differs from the log's. */
static void assert_keys_in_order(struct pair *pair)
{
    int64_t last[20] = {0};
    size_t a = 0, b = 0, ones = recorder_count(pair->one), twos = recorder_count(pair->two);

    while (a < ones || b < twos) {
        struct seen one =
            a < ones ? recorder_get(pair->one, a) : (struct seen){.begin_us = INT64_MAX};
        struct seen two =
            b < twos ? recorder_get(pair->two, b) : (struct seen){.begin_us = INT64_MAX};
        struct seen *next = one.begin_us <= two.begin_us ? &one : &two;
        int key = (int)strtol(next->key + 1, NULL, 10);

        a += next == &one;
        b += next == &two;
        assert_true(next->position > last[key]);
        last[key] = next->position;
    }
}

static void two_processes_share_the_partitions_and_keep_every_key_in_order(void **state)
{
    struct scene *scene = *state;
    struct pair pair = {.one = scene_recorder(scene, NULL), .two = scene_recorder(scene, NULL)};
    hf_subscription_options options = shares();

    pair.other = scene_open(scene, NULL);
    subscribe(scene->bus, "a", "*", pair.one, &options);
    assert_ok(hf_start(scene->bus));
    mates_publish(scene->bus, 20, 5);
    pair.published = 100;
    subscribe(pair.other, "a", "*", pair.two, &options);
    assert_ok(hf_start(pair.other));
    assert_true(wait_until(both_work, &pair));
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
    mates_publish(pair.other, 20, 5);
    pair.published += 100;
    settle_all(pair.other, "a");
    assert_int_equal(recorder_count(pair.one) + recorder_count(pair.two), pair.published);
    assert_keys_in_order(&pair);
}

/* As after a drop of all that was in hand: the store says that a partition belongs to a process
 * that has its share without it, and no other may take it. */
static void a_partition_owned_beyond_the_share_is_given_back(void **state)
{
    struct scene *scene = *state;
    struct pair pair = {.one = scene_recorder(scene, NULL), .two = scene_recorder(scene, NULL)};
    hf_subscription_options options = shares();
    const char *table = scene->path ? "holdfast_partitions" : "holdfast_private.partitions";
    char sql[256];

    pair.other = scene_open(scene, NULL);
    subscribe(scene->bus, "a", "*", pair.one, &options);
    assert_ok(hf_start(scene->bus));
    subscribe(pair.other, "a", "*", pair.two, &options);
    assert_ok(hf_start(pair.other));
    assert_true(wait_until(both_work, &pair));
    snprintf(sql, sizeof sql,
             "UPDATE %s AS o SET epoch = epoch + 1, owner = (SELECT p.owner FROM %s p "
             "WHERE p.owner <> o.owner LIMIT 1) WHERE o.partition = 0",
             table, table);
    tables_run(scene, sql);
    mates_publish(scene->bus, 20, 5);
    settle_all(scene->bus, "a");
}

static void a_handler_that_runs_keeps_only_its_own_partition(void **state)
{
    struct scene *scene = *state;
    struct pair pair = {.one = scene_recorder(scene, NULL), .two = scene_recorder(scene, NULL)};
    hf_subscription_options options = shares();

    options.partitions = 2;
    options.concurrency = 1;
    pair.other = scene_open(scene, NULL);
    pair.one->door = scene_door(scene);
    subscribe(scene->bus, "a", "*", pair.one, &options);
    assert_ok(hf_start(scene->bus));
    mates_publish(scene->bus, 20, 1); /* the first handler waits at the door */
    assert_true(door_wait_inside(pair.one->door, 1));
    subscribe(pair.other, "a", "*", pair.two, &options);
    assert_ok(hf_start(pair.other));
    assert_true(recorder_wait_begun(pair.two, 1)); /* the other partition has moved */
    door_open(pair.one->door);
    settle_all(pair.other, "a");
    assert_int_equal(recorder_count(pair.one) + recorder_count(pair.two), 20);
    assert_keys_in_order(&pair);
}

static hf_verdict hold_some(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)delivery;
    if (strcmp(event->type, "hold") == 0) {
        door_pass(recorder->extra);
    }
    return HF_ACK;
}

/* A partition that is to be given back waits for its handlers, and the log is read meanwhile. */
static void events_that_come_while_a_partition_is_given_back_are_not_lost(void **state)
{
    struct scene *scene = *state;
    struct pair pair = {.one = scene_recorder(scene, hold_some),
                        .two = scene_recorder(scene, NULL)};
    hf_subscription_options options = shares();
    int published = 20;

    options.partitions = 2;
    options.concurrency = 30;
    pair.other = scene_open(scene, NULL);
    pair.one->extra = scene_door(scene);
    subscribe(scene->bus, "a", "*", pair.one, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 20; i++) { /* some of each partition */
        char key[16];

        snprintf(key, sizeof key, "held%d", i);
        publish(scene->bus, "hold", key, "1");
    }
    assert_true(door_wait_inside(pair.one->extra, 20));
    subscribe(pair.other, "a", "*", pair.two, &options);
    assert_ok(hf_start(pair.other));
    for (int i = 0; i < 25; i++, published += 20) {
        mates_publish(scene->bus, 20, 1);
        usleep(20000); /* for them to share and to read; if they do so later, nothing is shown */
    }
    door_open(pair.one->extra);
    settle_all(pair.other, "a");
    assert_int_equal(recorder_count(pair.one) + recorder_count(pair.two), published);
}

struct leaving {
    hf_bus *bus;
    hf_handler_id id;
};

static void *leave(void *ctx)
{
    struct leaving *leaving = ctx;

    hf_unsubscribe(leaving->bus, leaving->id);
    return NULL;
}

/* The first of a key waits at the door, the second has not begun behind it, another key's is done:
 * the handler goes, and comes back. */
static void events_done_above_one_that_has_not_begun_are_not_done_again(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL), *after = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    struct leaving leaving = {.bus = scene->bus};
    pthread_t thread;

    options.concurrency = 2;
    recorder->door = scene_door(scene);
    leaving.id = subscribe(scene->bus, "a", "x", recorder, &options);
    subscribe(scene->bus, "a", "y", after, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", "slow", "1");
    publish(scene->bus, "x", "slow", "1");
    publish(scene->bus, "y", "quick", "1");
    assert_true(door_wait_inside(recorder->door, 1));
    assert_true(recorder_wait(after, 1));
    assert_int_equal(pthread_create(&thread, NULL, leave, &leaving), 0);
    usleep(100000); /* so that nothing more begins when the door opens */
    door_open(recorder->door);
    assert_int_equal(pthread_join(thread, NULL), 0);
    subscribe(scene->bus, "a", "x", recorder, &options);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
    assert_int_equal(recorder_count(after), 1);
}

/* ---- Several processes ----------------------------------------------------------------------- */

static void the_partitions_of_a_killed_process_are_taken_over(void **state)
{
    struct scene *scene = *state;
    pid_t pids[3];
    size_t lines;

    mates_publish(scene->bus, 40, 2);
    pids[0] = worker(scene, "one");
    pids[1] = worker(scene, "two");
    pids[2] = worker(scene, "three");
    mates_publish(scene->bus, 40, 10);
    actor_kill(pids[1]);
    mates_publish(scene->bus, 40, 5);
    settle_all(scene->bus, "a");
    actor_kill(pids[0]);
    actor_kill(pids[2]);
    lines = mates_assert_done(scene, 680);
    assert_true(lines < 680 + 200); /* what was in its hands, at most, comes again */
}

static void processes_that_come_and_go_cleanly_do_nothing_twice(void **state)
{
    struct scene *scene = *state;
    pid_t first = worker(scene, "first"), second, third;

    mates_publish(scene->bus, 40, 3);
    second = worker(scene, "second");
    mates_publish(scene->bus, 40, 3);
    mates_stop(scene, "first");
    mates_publish(scene->bus, 40, 3);
    third = worker(scene, "third");
    assert_int_equal(actor_wait(first), 0);
    mates_publish(scene->bus, 40, 3);
    settle_all(scene->bus, "a");
    mates_stop(scene, "second");
    mates_stop(scene, "third");
    assert_int_equal(actor_wait(second), 0);
    assert_int_equal(actor_wait(third), 0);
    assert_int_equal(mates_assert_done(scene, 480), 480);
}

static void a_frozen_process_loses_its_partitions_and_is_refused_afterwards(void **state)
{
    struct scene *scene = *state;
    pid_t first, second;

    mates_have_short_leases(); /* the last test of all */
    first = worker(scene, "first");
    second = worker(scene, "second");
    mates_publish(scene->bus, 40, 3);
    settle_all(scene->bus, "a");
    actor_freeze(scene, first);
    mates_publish(scene->bus, 40, 3);
    settle_all(scene->bus, "a"); /* after a lease */
    kill(first, SIGCONT);
    mates_publish(scene->bus, 40, 3);
    settle_all(scene->bus, "a");
    mates_stop(scene, "first");
    mates_stop(scene, "second");
    assert_int_equal(actor_wait(first), 0);
    assert_int_equal(actor_wait(second), 0);
    mates_assert_done(scene, 360);
}

static const struct CMUnitTest tests[] = {
    scene_test(one_process_works_for_all_partitions),
    scene_test(with_several_partitions_no_event_is_shown_as_the_last),
    scene_test(progress_survives_a_restart),
    scene_test(a_failing_key_holds_back_only_itself),
    scene_test(a_poison_key_among_a_thousand_holds_back_only_itself),
    scene_test(a_seek_takes_all_partitions_back),
    scene_test(partitions_are_for_relaxed_ordered_subscriptions),
    scene_test(two_processes_share_the_partitions_and_keep_every_key_in_order),
    scene_test(a_partition_owned_beyond_the_share_is_given_back),
    scene_test(a_handler_that_runs_keeps_only_its_own_partition),
    scene_test(events_that_come_while_a_partition_is_given_back_are_not_lost),
    scene_test(events_done_above_one_that_has_not_begun_are_not_done_again),
    scene_test(the_partitions_of_a_killed_process_are_taken_over),
    scene_test(processes_that_come_and_go_cleanly_do_nothing_twice),
    scene_test(a_frozen_process_loses_its_partitions_and_is_refused_afterwards),
};
static const struct part parts[] = {MATES_PART};

ACTOR_MAIN(tests, parts)
