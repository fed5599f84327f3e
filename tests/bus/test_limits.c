/*
 * Tests of what is bounded: how far reading runs ahead, how many handlers run, how much memory a
 * backlog and large events take, and that small bounds only slow things down.
 */
#include "support_scene.h"

#include "base/mem.h"

#include <limits.h>
#include <sys/resource.h>

static void no_more_than_inflight_max_events_are_ahead_of_the_checkpoint(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, wait_at_first);
    hf_subscription_options options = quick_options();

    recorder->extra = scene_door(scene);
    options.inflight_max = 6;
    options.concurrency = 3;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 40; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait_begun(recorder, 6));
    assert_status(hf_wait(scene->bus, "a", -1, 200), HF_TIMEOUT);
    assert_int_equal(recorder_count(recorder), 6);
    assert_int_equal(info_of(scene->bus, "a").checkpoint, 0);
    door_open(recorder->extra);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 40);
}

static void no_more_than_concurrency_handlers_run(void **state)
{
    struct scene *scene = *state;
    struct recorder *ordered = scene_recorder(scene, NULL);
    struct recorder *shared = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();

    ordered->door = shared->door = scene_door(scene);
    options.concurrency = 3;
    subscribe(scene->bus, "o", "*", ordered, &options);
    options.mode = HF_MODE_SHARED;
    subscribe(scene->bus, "s", "*", shared, &options);
    for (int i = 0; i < 30; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(ordered->door, 6));
    assert_status(hf_wait(scene->bus, "o", -1, 100), HF_TIMEOUT);
    door_open(ordered->door);
    settle_all(scene->bus, NULL);
    assert_int_equal(recorder_running_max(ordered), 3);
    assert_int_equal(recorder_running_max(shared), 3);
}

static void the_smallest_bounds_deliver_everything(void **state)
{
    struct scene *scene = *state;
    struct recorder *ordered = scene_recorder(scene, NULL);
    struct recorder *shared = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();

    options.batch = 1;
    options.inflight_max = 1;
    options.checkpoint_events = 1;
    subscribe(scene->bus, "o", "*", ordered, &options);
    options.mode = HF_MODE_SHARED;
    subscribe(scene->bus, "s", "*", shared, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 60; i++) {
        publish(scene->bus, "x", i % 2 ? "k" : NULL, "1");
    }
    settle_all(scene->bus, NULL);
    assert_int_equal(recorder_count(ordered), 60);
    assert_int_equal(recorder_count(shared), 60);
}

static void concurrency_can_be_changed_while_handlers_run(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    const char *patterns[] = {"*"};

    recorder->door = scene_door(scene);
    options.concurrency = 1;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    assert_true(door_wait_inside(recorder->door, 1));
    for (int i = 1; i < 20; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    options.concurrency = 5;
    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL));
    assert_true(door_wait_inside(recorder->door, 5));
    door_open(recorder->door);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_running_max(recorder), 5);
    assert_int_equal(recorder_count(recorder), 20);
}

static void two_hundred_subscriptions_work_in_one_process(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    char name[16];

    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "s%d", i);
        subscribe(scene->bus, name, "*", recorder, NULL);
    }
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, NULL);
    assert_int_equal(recorder_count(recorder), 200);
}

/* ---- Size ------------------------------------------------------------------------------------ */

static hf_verdict check_bytes(const hf_event *event, hf_delivery *delivery,
                              struct recorder *recorder)
{
    size_t spaces = 0;

    (void)delivery;
    (void)recorder;
    while (event->payload[spaces] == ' ') {
        spaces++;
    }
    return spaces + 1 == event->payload_bytes && event->payload[spaces] == '1' ? HF_ACK : HF_DEAD;
}

static hf_status publish_bytes(hf_bus *bus, size_t bytes)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    char *payload = malloc(bytes + 1);
    hf_status status;

    assert_non_null(payload);
    memset(payload, ' ', bytes);
    payload[bytes - 1] = '1';
    payload[bytes] = '\0';
    event.type = "x";
    event.payload = payload;
    event.payload_bytes = bytes;
    status = hf_publish(bus, &event, NULL);
    free(payload);
    return status;
}

static void events_of_any_allowed_size_arrive_whole(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, check_bytes);
    const size_t sizes[] = {1, 2, 4095, 4096, 4097, 65536, 100000, 1 << 20};

    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    for (size_t i = 0; i < COUNTED(sizes); i++) {
        assert_ok(publish_bytes(scene->bus, sizes[i]));
    }
    assert_status(publish_bytes(scene->bus, (1 << 20) + 1), HF_INVALID);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), COUNTED(sizes));
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
}

/* A sanitizer keeps memory of its own, so there the growth cannot be judged, and a few events are
 * enough for what else is claimed. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BACKLOG 20
#define GROWTH_KIB_MAX LONG_MAX
#else
#define BACKLOG 200
#define GROWTH_KIB_MAX (32 * 1024)
#endif

/* A backlog of 60 MiB behind a handler that does not move takes a bounded part of that. */
static void memory_does_not_grow_with_the_backlog(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, check_bytes);
    hf_subscription_options options = quick_options();
    struct rusage before, after;

    recorder->door = scene_door(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(publish_bytes(scene->bus, 300000));
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->door, 1));
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < BACKLOG; i++) {
        assert_ok(publish_bytes(scene->bus, 300000));
    }
    assert_status(hf_wait(scene->bus, "a", -1, 200), HF_TIMEOUT);
    getrusage(RUSAGE_SELF, &after);
    print_message("# %ld KiB more for a backlog of %d KiB\n", after.ru_maxrss - before.ru_maxrss,
                  BACKLOG * 300000 / 1024);
    assert_true(after.ru_maxrss - before.ru_maxrss < GROWTH_KIB_MAX);
    door_open(recorder->door);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), BACKLOG + 1);
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
}

/* A thread may end a moment after the bus is closed. */
static bool nothing_more_is_kept(void *ctx)
{
    return mem_live() <= *(const int64_t *)ctx;
}

static void everything_that_was_allocated_is_freed_at_the_close(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    int64_t live = -1; /* after the first round: what a thread keeps for its next call is there */

    scene_close(scene, scene->bus); /* whose threads do something whenever they like */
    for (int round = 0; round < 6; round++) {
        hf_bus *bus = scene_open(scene, NULL);

        subscribe(bus, "a", "*", recorder, NULL);
        assert_ok(hf_start(bus));
        for (int i = 0; i < 20; i++) {
            publish(bus, "x", NULL, "1");
        }
        settle_all(bus, "a");
        scene_close(scene, bus);
        live = live < 0 ? mem_live() : live;
        assert_true(wait_until(nothing_more_is_kept, &live));
    }
}

static void a_gap_timeout_is_refused_where_there_are_no_gaps(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    const char *patterns[] = {"*"};

    options.gap_timeout_ms = 5000;
    assert_status(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL),
                  scene->path ? HF_INVALID : HF_OK);
    if (scene->path) {
        assert_non_null(strstr(hf_errmsg(), "gap_timeout_ms is 5000"));
    }
}

static void a_shared_subscription_cannot_block_keys(void **state)
{
    struct scene *scene = *state;
    const char *patterns[] = {"*"};
    hf_subscription_options options = quick_options();

    options.mode = HF_MODE_SHARED;
    options.on_poison = HF_POISON_BLOCK_KEY;
    assert_status(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL), HF_INVALID);
    assert_non_null(strstr(hf_errmsg(), "on_poison is block_key"));
    options.on_poison = HF_POISON_SKIP;
    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL));
    options.on_poison = HF_POISON_BLOCK_KEY;
    assert_status(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL), HF_INVALID);
}

/* ---- Sizes of structs ------------------------------------------------------------------------ */

static const size_t WRONG_SIZES[] = {0, 1, sizeof(size_t), sizeof(size_t) + 1, SIZE_MAX};

/* Gives the struct each wrong size, then one that is a word or a byte off, and makes the call. */
#define assert_sizes_refused(given, call)                                                          \
    do {                                                                                           \
        for (size_t i = 0; i < COUNTED(WRONG_SIZES); i++) {                                        \
            (given).size = WRONG_SIZES[i];                                                         \
            assert_status(call, HF_INVALID);                                                       \
        }                                                                                          \
        for (int off = -1; off <= 1; off++) {                                                      \
            (given).size = sizeof(given) + (size_t)off;                                            \
            if (off != 0)                                                                          \
                assert_status(call, HF_INVALID);                                                   \
        }                                                                                          \
        (given).size = sizeof(given) + sizeof(size_t);                                             \
        assert_status(call, HF_INVALID);                                                           \
        assert_non_null(strstr(hf_errmsg(), "has size"));                                          \
    } while (0)

static int no_subject(const hf_dead_letter *letter, void *ctx)
{
    (void)letter;
    (void)ctx;
    return 0;
}

static void a_size_that_no_header_has_given_is_refused(void **state)
{
    struct scene *scene = *state;
    const char *patterns[] = {"*"};
    hf_options options = HF_OPTIONS_INIT;
    hf_subscription_options subscription = HF_SUBSCRIPTION_OPTIONS_INIT;
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_namespace_options namespace = HF_NAMESPACE_OPTIONS_INIT;
    hf_claim_options claim = HF_CLAIM_OPTIONS_INIT;
    hf_dead_filter filter = HF_DEAD_FILTER_INIT;
    hf_schedule schedule = HF_SCHEDULE_INIT;
    hf_copy_options copy = HF_COPY_OPTIONS_INIT;
    hf_copy_report report = HF_COPY_REPORT_INIT;
    hf_stats stats = {.size = sizeof stats};
    hf_bus *bus = NULL;
    hf_batch *batch = NULL;

    assert_sizes_refused(options, hf_open("sqlite:none.db", &options, &bus));
    assert_sizes_refused(subscription,
                         hf_subscription_create(scene->bus, "a", patterns, 1, &subscription, NULL));
    event.type = "x";
    assert_sizes_refused(event, hf_publish(scene->bus, &event, NULL));
    assert_sizes_refused(namespace, hf_namespace_create(scene->bus, "other", &namespace, NULL));
    assert_sizes_refused(claim, hf_claim(scene->bus, "a", &claim, &batch));
    assert_sizes_refused(filter, hf_dead_list(scene->bus, &filter, no_subject, NULL));
    assert_sizes_refused(schedule, hf_schedule_put(scene->bus, &schedule, NULL));
    assert_sizes_refused(copy, hf_copy(scene->bus, scene->bus, &copy, NULL, NULL, NULL));
    assert_sizes_refused(report, hf_copy(scene->bus, scene->bus, NULL, NULL, NULL, &report));
    assert_sizes_refused(stats, hf_stats_get(scene->bus, &stats));
}

static const struct CMUnitTest tests[] = {
    scene_test(a_shared_subscription_cannot_block_keys),
    scene_test(a_size_that_no_header_has_given_is_refused),
    scene_test(a_gap_timeout_is_refused_where_there_are_no_gaps),
    scene_test(no_more_than_inflight_max_events_are_ahead_of_the_checkpoint),
    scene_test(no_more_than_concurrency_handlers_run),
    scene_test(the_smallest_bounds_deliver_everything),
    scene_test(concurrency_can_be_changed_while_handlers_run),
    scene_test(two_hundred_subscriptions_work_in_one_process),
    scene_test(events_of_any_allowed_size_arrive_whole),
    scene_test(memory_does_not_grow_with_the_backlog),
    scene_test(everything_that_was_allocated_is_freed_at_the_close),
};

SCENE_MAIN(tests)
