/*
 * Tests that catching up and following live are one path: while publishers run, a subscription that
 * starts late, starts again or changes hands gets every event, each exactly once.
 */
#include "support_scene.h"

#include <stdatomic.h>

#define PUBLISHERS 4

struct publishers {
    hf_bus *bus;
    pthread_t threads[PUBLISHERS];
    int each;
    int many; /* events per publish; 1: hf_publish */
    atomic_int members;
    atomic_int published;
    atomic_int failures;
};

static void *publish_some(void *ctx)
{
    struct publishers *publishers = ctx;
    hf_new_event events[16];
    char key[16];
    int member = atomic_fetch_add(&publishers->members, 1);

    snprintf(key, sizeof key, "k%d", member);
    for (int i = 0; i < publishers->many; i++) {
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = "x";
        events[i].key = i % 2 ? key : NULL;
    }
    for (int i = 0; i < publishers->each; i += publishers->many) {
        if (hf_publish_many(publishers->bus, events, (size_t)publishers->many, NULL) != HF_OK) {
            atomic_fetch_add(&publishers->failures, 1);
        }
        atomic_fetch_add(&publishers->published, publishers->many);
    }
    return NULL;
}

static void publishers_start(struct publishers *publishers, hf_bus *bus, int each, int many)
{
    memset(publishers, 0, sizeof *publishers);
    publishers->bus = bus;
    publishers->each = each;
    publishers->many = many;
    for (int i = 0; i < PUBLISHERS; i++) {
        assert_int_equal(pthread_create(&publishers->threads[i], NULL, publish_some, publishers),
                         0);
    }
}

static void publishers_wait_for(struct publishers *publishers, int count)
{
    int64_t end_us = mono_us() + DEADLINE_MS * 1000;

    while (atomic_load(&publishers->published) < count && mono_us() < end_us) {
        usleep(500);
    }
}

static void publishers_join(struct publishers *publishers)
{
    for (int i = 0; i < PUBLISHERS; i++) {
        pthread_join(publishers->threads[i], NULL);
    }
    assert_int_equal(atomic_load(&publishers->failures), 0);
    assert_int_equal(atomic_load(&publishers->published), PUBLISHERS * publishers->each);
}

/* Every position from 1 to `last` was delivered exactly once by the recorders together. */
static void assert_each_once(struct recorder **recorders, size_t count, int64_t last)
{
    unsigned char *calls = calloc((size_t)last + 1, 1);
    int64_t missing = 0, doubled = 0;

    assert_non_null(calls);
    for (size_t r = 0; r < count; r++) {
        for (size_t i = 0; i < recorder_count(recorders[r]); i++) {
            calls[recorder_get(recorders[r], i).position]++;
        }
    }
    for (int64_t position = 1; position <= last; position++) {
        missing += calls[position] == 0;
        doubled += calls[position] > 1;
    }
    free(calls);
    assert_int_equal(missing, 0);
    assert_int_equal(doubled, 0);
}

static void start_late(struct scene *scene, hf_mode mode, int32_t concurrency, int many)
{
    static struct publishers publishers;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();

    options.mode = mode;
    options.concurrency = concurrency;
    options.batch = 20;
    publishers_start(&publishers, scene->bus, 320, many);
    publishers_wait_for(&publishers, 200);
    subscribe(scene->bus, "a", "*", recorder, &options);
    hf_status started = hf_start(scene->bus);

    publishers_join(&publishers);
    assert_ok(started);
    settle_all(scene->bus, "a");
    assert_each_once(&recorder, 1, PUBLISHERS * 320);
    assert_int_equal(recorder_overlaps(recorder), 0);
}

static void an_ordered_subscription_that_starts_late_misses_and_doubles_nothing(void **state)
{
    start_late(*state, HF_MODE_ORDERED, 4, 1);
}

static void a_subscription_with_batches_that_starts_late_misses_and_doubles_nothing(void **state)
{
    start_late(*state, HF_MODE_ORDERED, 1, 16);
}

static void a_shared_subscription_that_starts_late_misses_and_doubles_nothing(void **state)
{
    static struct publishers publishers;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();

    options.mode = HF_MODE_SHARED;
    options.concurrency = 4;
    publishers_start(&publishers, scene->bus, 320, 4);
    publishers_wait_for(&publishers, 200);
    subscribe(scene->bus, "a", "*", recorder, &options);
    hf_status started = hf_start(scene->bus);

    publishers_join(&publishers);
    assert_ok(started);
    settle_all(scene->bus, "a");
    assert_each_once(&recorder, 1, PUBLISHERS * 320);
}

static void several_subscriptions_each_get_everything(void **state)
{
    static struct publishers publishers;
    struct scene *scene = *state;
    struct recorder *recorders[5];
    hf_subscription_options options = quick_options();
    char name[16];

    assert_ok(hf_start(scene->bus));
    publishers_start(&publishers, scene->bus, 160, 1);
    for (int i = 0; i < 5; i++) {
        hf_status status;

        recorders[i] = scene_recorder(scene, NULL);
        snprintf(name, sizeof name, "s%d", i);
        options.mode = i % 2 ? HF_MODE_SHARED : HF_MODE_ORDERED;
        options.concurrency = i + 1;
        status = hf_subscribe(scene->bus, name, "*", recorder_handle, recorders[i], &options, NULL);
        if (status) {
            publishers_join(&publishers);
        }
        assert_ok(status);
    }
    publishers_join(&publishers);
    settle_all(scene->bus, NULL);
    for (int i = 0; i < 5; i++) {
        assert_each_once(&recorders[i], 1, PUBLISHERS * 160);
    }
}

static void stopping_and_starting_again_misses_and_doubles_nothing(void **state)
{
    static struct publishers publishers;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    int failures = 0;

    options.concurrency = 3;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publishers_start(&publishers, scene->bus, 320, 1);
    for (int i = 0; i < 8; i++) {
        failures += hf_start(scene->bus) != HF_OK;
        publishers_wait_for(&publishers, (i + 1) * 150);
        failures += hf_stop(scene->bus, -1) != HF_OK;
    }
    publishers_join(&publishers);
    assert_int_equal(failures, 0);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_each_once(&recorder, 1, PUBLISHERS * 320);
    assert_int_equal(recorder_overlaps(recorder), 0);
}

static void a_change_of_the_owner_misses_and_doubles_nothing(void **state)
{
    static struct publishers publishers;
    struct scene *scene = *state;
    struct recorder *recorders[2] = {scene_recorder(scene, NULL), scene_recorder(scene, NULL)};
    hf_bus *buses[2] = {scene_open(scene, NULL), scene_open(scene, NULL)};
    hf_new_event event = HF_NEW_EVENT_INIT;
    int failures = 0, extra = 0;

    event.type = "x";
    for (int i = 0; i < 2; i++) {
        subscribe(buses[i], "a", "*", recorders[i], NULL);
    }
    publishers_start(&publishers, scene->bus, 320, 1);
    failures += hf_start(buses[0]) != HF_OK;
    for (int i = 0; i < 4; i++) {
        struct recorder *next = recorders[1 - i % 2];
        size_t before = recorder_count(next);

        failures += hf_start(buses[1 - i % 2]) != HF_OK;
        publishers_wait_for(&publishers, (i + 1) * 200);
        failures += hf_stop(buses[i % 2], -1) != HF_OK;
        failures += hf_publish(scene->bus, &event, NULL) != HF_OK;
        extra++;
        failures += !recorder_wait_begun(next, before + 1);
    }
    publishers_join(&publishers);
    assert_int_equal(failures, 0);
    settle_all(scene->bus, "a");
    assert_each_once(recorders, 2, PUBLISHERS * 320 + extra);
}

/* Most events are of another type: long stretches of the log hold nothing for it. */
static void a_rare_type_is_found_in_a_long_log(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_new_event events[500];
    hf_subscription_options options = quick_options();

    options.batch = 3;
    for (size_t i = 0; i < COUNTED(events); i++) {
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = i == 250 ? "rare" : "common";
    }
    for (int i = 0; i < 6; i++) {
        assert_ok(hf_publish_many(scene->bus, events, COUNTED(events), NULL));
    }
    subscribe(scene->bus, "a", "rare", recorder, &options);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 6);
    for (int64_t i = 0; i < 6; i++) {
        assert_int_equal(recorder_calls(recorder, i * 500 + 251, NULL), 1);
    }
}

static const struct CMUnitTest tests[] = {
    scene_test(an_ordered_subscription_that_starts_late_misses_and_doubles_nothing),
    scene_test(a_subscription_with_batches_that_starts_late_misses_and_doubles_nothing),
    scene_test(a_shared_subscription_that_starts_late_misses_and_doubles_nothing),
    scene_test(several_subscriptions_each_get_everything),
    scene_test(stopping_and_starting_again_misses_and_doubles_nothing),
    scene_test(a_change_of_the_owner_misses_and_doubles_nothing),
    scene_test(a_rare_type_is_found_in_a_long_log),
};

SCENE_MAIN(tests)
