/*
 * Tests of how often a dispatcher turns: while it can do nothing but wait it waits, whatever waits
 * with it. A turn without a pause behind it would be followed by thousands in the time in which
 * these tests allow some.
 */
#include "support_trouble.h"

#include "base/clock.h"
#include "base/point.h"

#include <stdatomic.h>

#define TURN "after_step"
#define WATCHED_US 1000000
#define TURNS_MAX 200 /* in that time; one that turns without a pause makes thousands */

#define SHORT_TURNS_MAX 40 /* where times are short; one who goes by them alone makes a hundred */
#define SHORT_READS_MAX 100 /* ... and reads four times in each */

#define HUGE_BYTES 100000
#define HUGE_EVENTS 60 /* together more than is read at once */

static int turns_setup(void **state)
{
    if (trouble_setup(state) != 0)
        return -1;
    trouble_open(*state);
    return 0;
}

static int turns_teardown(void **state)
{
    point_reset();
    return trouble_teardown(state);
}

/* How often something that `count` counts happens in WATCHED_US. On a busy machine more than that
 * passes. */
static int64_t rate_of(int64_t (*count)(void))
{
    int64_t began_us = clock_mono_us();
    int64_t before = count();

    usleep(WATCHED_US);
    return (count() - before) * WATCHED_US / (clock_mono_us() - began_us);
}

static int64_t turns(void)
{
    return point_hits(TURN);
}

static int64_t turns_for_a_while(void)
{
    return rate_of(turns);
}

static hf_subscription_options turns_options(int32_t concurrency)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;

    options.from.kind = HF_PLACE_START;
    options.concurrency = concurrency;
    options.handler_timeout_ms = 10 * PATIENCE_MS;
    return options;
}

/* ---- A unit that waits for the rest of it ---------------------------------------------------- */

static atomic_int units;
static struct door *door;

static hf_verdict count_unit(const hf_event *const *events, size_t count, hf_delivery *delivery,
                             void *ctx)
{
    (void)count;
    (void)delivery;
    (void)ctx;
    if (door && strcmp(events[0]->type, "slow") == 0)
        door_pass(door);
    atomic_fetch_add(&units, 1);
    return HF_ACK;
}

static void begin_units(struct scene *scene, hf_subscription_options options)
{
    atomic_store(&units, 0);
    options.batch_by = HF_BATCH_KEY;
    assert_ok(hf_subscribe_batch(scene->bus, "a", "*", count_unit, NULL, &options, NULL));
}

static bool was_read_twice(void *ctx)
{
    (void)ctx;
    return faulty_calls(FAULTY_READER_NEXT) >= 2;
}

/* A run of one key is read in part, and the store is away when it is to be read on. */
static void a_unit_waits_for_the_store_without_waking_anybody(void **state)
{
    static char payload[HUGE_BYTES + 1];
    struct scene *scene = *state;
    hf_subscription_options options = turns_options(1);

    door = NULL;
    options.batch = HUGE_EVENTS;
    begin_units(scene, options);
    memset(payload, 'x', HUGE_BYTES);
    payload[0] = payload[HUGE_BYTES - 1] = '"';
    for (int i = 0; i < HUGE_EVENTS; i++)
        publish(scene->bus, "x", "k", payload);
    faulty_fail(FAULTY_READER_NEXT, 2, INT32_MAX, HF_UNAVAILABLE);
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(was_read_twice, NULL));
    assert_in_range(turns_for_a_while(), 0, TURNS_MAX);
    faulty_reset();
    settle_all(scene->bus, "a");
    assert_int_equal(atomic_load(&units), 1);
}

static hf_verdict fail_or_wait(const hf_event *event, hf_delivery *delivery,
                               struct recorder *recorder)
{
    (void)delivery;
    if (strcmp(event->type, "slow") == 0) {
        door_pass(door);
        return HF_ACK;
    }
    door_pass(recorder->extra);
    return HF_RETRY;
}

static bool was_stored_in_vain(void *ctx)
{
    (void)ctx;
    return faulty_calls(FAULTY_APPLY) > 0;
}

/* One handler is slow, the next event of its key waits for it, and what has failed meanwhile cannot
 * be stored: a free worker has nothing to do, and nothing to tell. */
static void what_cannot_be_stored_keeps_nobody_awake(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_or_wait);
    hf_subscription_options options = turns_options(2);

    door = scene_door(scene);
    recorder->extra = scene_door(scene);
    publish(scene->bus, "slow", "k", "1");
    publish(scene->bus, "bad", "l", "1");
    publish(scene->bus, "slow", "k", "1");
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(door, 1));
    assert_true(door_wait_inside(recorder->extra, 1));
    faulty_reset();
    faulty_fail(FAULTY_APPLY, 1, INT32_MAX, HF_UNAVAILABLE);
    door_open(recorder->extra);
    assert_true(wait_until(was_stored_in_vain, NULL));
    assert_in_range(turns_for_a_while(), 0, TURNS_MAX);
    faulty_reset();
    door_open(door);
}

#define FULL_EVENTS 40 /* much more than may be in hand */

static bool all_but_the_slow_ones(void *ctx)
{
    return atomic_load(&units) >= *(const int *)ctx;
}

/* A slow unit is in front, and all places behind it are taken by what is over: the last run in hand
 * could not be read on, so it need not wait, and nobody asks for more again and again. */
static void a_full_window_is_not_asked_for_more_again_and_again(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = turns_options(2);
    int others;

    door = scene_door(scene);
    options.batch = 4;
    options.batch_extend_max = 4;
    options.inflight_max = 10;
    begin_units(scene, options);
    publish(scene->bus, "slow", "slow", "1");
    for (int i = 0; i < FULL_EVENTS; i++)
        publish(scene->bus, "x", i % 2 ? "k" : "l", "1");
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(door, 1));
    others = 2; /* one for each key, at least */
    assert_true(wait_until(all_but_the_slow_ones, &others));
    assert_in_range(turns_for_a_while(), 0, TURNS_MAX);
    door_open(door);
    settle_all(scene->bus, "a");
}

/* ---- Short times ----------------------------------------------------------------------------- */

static int64_t reads(void)
{
    return faulty_calls(FAULTY_STANDING) + faulty_calls(FAULTY_SUBSCRIPTION_GET) +
           faulty_calls(FAULTY_RETRIES_DUE) + faulty_calls(FAULTY_READER_NEXT);
}

static int64_t reads_for_a_while(void)
{
    return rate_of(reads);
}

/* One handler runs, and another event waits for it. */
static void checkpoints_at_once_do_not_wake_anybody_while_a_handler_runs(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = turns_options(1);

    recorder->door = scene_door(scene);
    options.checkpoint_ms = 1;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "1");
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->door, 1));
    assert_in_range(turns_for_a_while(), 0, SHORT_TURNS_MAX);
    door_open(recorder->door);
    settle_all(scene->bus, "a");
}

static bool breaker_is_open(void *ctx)
{
    return strcmp(info_of(ctx, "a").breaker, "open") == 0;
}

/* The breaker is open and events are in hand: nothing times out, but something could. */
static void short_timeouts_do_not_make_the_dispatcher_read(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = turns_options(1);

    options.handler_timeout_ms = 10;
    options.retry_base_ms = 10 * PATIENCE_MS;
    options.retry_max_ms = 10 * PATIENCE_MS;
    options.breaker = HF_ON;
    options.breaker_pause_ms = 10 * PATIENCE_MS;
    subscribe(scene->bus, "a", "*", scene_recorder(scene, fail_always), &options);
    for (int i = 0; i < 200; i++)
        publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(breaker_is_open, scene->bus));
    assert_in_range(reads_for_a_while(), 0, SHORT_READS_MAX);
}

#define turns_test(test) cmocka_unit_test_setup_teardown(test, turns_setup, turns_teardown)

static const struct CMUnitTest tests[] = {
    turns_test(a_unit_waits_for_the_store_without_waking_anybody),
    turns_test(what_cannot_be_stored_keeps_nobody_awake),
    turns_test(a_full_window_is_not_asked_for_more_again_and_again),
    turns_test(checkpoints_at_once_do_not_wake_anybody_while_a_handler_runs),
    turns_test(short_timeouts_do_not_make_the_dispatcher_read),
};

SCENE_MAIN(tests)
