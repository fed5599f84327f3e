/*
 * Tests of how often a dispatcher turns: while it can do nothing but wait it waits, whatever waits
 * with it. A turn without a pause behind it would be followed by thousands in the time in which
 * these tests allow some.
 */
#include "support_tables.h"
#include "support_trouble.h"

#include "base/point.h"
#include "base/time/clock.h"

#include <stdatomic.h>

#define TURN "after_step"
#define WATCHED_US 1000000
#define TURNS_MAX 200 /* in that time; one that turns without a pause makes thousands */

#define REST_US 500000 /* who has not asked for so long has come to rest */
#define LATE_US 600000 /* longer than an answer of the store may take (RUNNER_LATE_US) */
#define ASKED_MAX 6    /* queries, one after another, while the server is slow */
#define WRITES_MAX 2   /* writes meanwhile; one for each late answer would be more */

#define SHORT_TURNS_MAX                                                                            \
    40 /* a dispatcher that wakes for each short time would make a hundred turns */
#define SHORT_READS_MAX 100 /* and would read four times in each of those turns */

#define HUGE_BYTES 100000
#define HUGE_EVENTS 60 /* together more than is read at once */

static int turns_setup(void **state)
{
    if (trouble_setup(state) != 0) {
        return -1;
    }
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
    options.handler_timeout_ms = 10 * DEADLINE_MS;
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
    if (door && strcmp(events[0]->type, "slow") == 0) {
        door_pass(door);
    }
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
static void a_unit_that_waits_for_the_store_wakes_no_dispatcher(void **state)
{
    static char payload[HUGE_BYTES + 1];
    struct scene *scene = *state;
    hf_subscription_options options = turns_options(1);

    door = NULL;
    options.batch = HUGE_EVENTS;
    begin_units(scene, options);
    memset(payload, 'x', HUGE_BYTES);
    payload[0] = payload[HUGE_BYTES - 1] = '"';
    for (int i = 0; i < HUGE_EVENTS; i++) {
        publish(scene->bus, "x", "k", payload);
    }
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
static void failures_that_cannot_be_stored_keep_no_dispatcher_awake(void **state)
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
 * could not be read on, so it need not wait, and more is not asked for again and again. */
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
    for (int i = 0; i < FULL_EVENTS; i++) {
        publish(scene->bus, "x", i % 2 ? "k" : "l", "1");
    }
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
    return faulty_calls(FAULTY_STANDING) + faulty_calls(FAULTY_SUBSCRIPTION) +
           faulty_calls(FAULTY_RETRIES_DUE) + faulty_calls(FAULTY_READER_NEXT);
}

static int64_t reads_for_a_while(void)
{
    return rate_of(reads);
}

/* One handler runs, and another event waits for it. */
static void a_checkpoint_ms_of_1_wakes_no_dispatcher_while_a_handler_runs(void **state)
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
    options.retry_base_ms = 10 * DEADLINE_MS;
    options.retry_max_ms = 10 * DEADLINE_MS;
    options.breaker = HF_ON;
    options.breaker_pause_ms = 10 * DEADLINE_MS;
    subscribe(scene->bus, "a", "*", scene_recorder(scene, fail_always), &options);
    for (int i = 0; i < 200; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(breaker_is_open, scene->bus));
    assert_in_range(reads_for_a_while(), 0, SHORT_READS_MAX);
}

/* ---- Nothing to do --------------------------------------------------------------------------- */

struct rest {
    int64_t reads;
    int64_t since_us;
};

static bool is_at_rest(void *ctx)
{
    struct rest *rest = ctx;
    int64_t now = reads();

    if (now != rest->reads) {
        *rest = (struct rest){now, clock_mono_us()};
    }
    return clock_mono_us() - rest->since_us >= REST_US;
}

static bool breaker_is_not_closed(void *ctx)
{
    return strcmp(info_of(ctx, "a").breaker, "closed") != 0;
}

/* All that has failed is dead, and the pause is over as soon as it has begun. */
static void an_open_breaker_without_events_makes_no_queries(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = turns_options(1);
    struct rest rest = {-1, 0};

    options.wait_period_ms = 10 * DEADLINE_MS;
    options.attempts_max = 1;
    options.breaker = HF_ON;
    options.breaker_events = 1;
    options.breaker_pause_ms = 1;
    subscribe(scene->bus, "a", "*", scene_recorder(scene, fail_always), &options);
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(breaker_is_not_closed, scene->bus));
    settle_all(scene->bus, "a");
    assert_true(wait_until(is_at_rest, &rest));
    assert_true(breaker_is_not_closed(scene->bus));
}

static bool has_asked(void *ctx)
{
    return faulty_calls(FAULTY_STANDING) > *(int64_t *)ctx;
}

/* Waits for a question after the last one; false: none has come for REST_US. */
static bool asks_again(int64_t asked)
{
    int64_t began_us = clock_mono_us();

    while (!has_asked(&asked) && clock_mono_us() - began_us < REST_US) {
        usleep(2000);
    }
    return has_asked(&asked);
}

/* A subscription that has done all that there is, and asks because of an event that it does not
 * want: the answer does not come. Answers how often it had asked before. */
static int64_t begin_to_ask(struct scene *scene)
{
    hf_subscription_options options = turns_options(1);
    struct rest rest = {-1, 0};
    int64_t asked;

    options.wait_period_ms = 10 * DEADLINE_MS;
    subscribe(scene->bus, "a", "x", scene_recorder(scene, NULL), &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_true(wait_until(is_at_rest, &rest));
    asked = faulty_calls(FAULTY_STANDING);
    faulty_stop(FAULTY_STANDING, 1);
    publish(scene->bus, "y", NULL, "1");
    assert_true(wait_until(has_asked, &asked));
    return asked + 1;
}

/* The answer comes, late; that of the next question does not come. */
static void answer_late(void)
{
    usleep(LATE_US);
    faulty_stop(FAULTY_STANDING, 1);
}

/* Nothing wakes it: the thread that would stands still, after the first time. */
static void an_idle_subscription_does_not_ask_a_slow_server_again_and_again(void **state)
{
    int64_t asked;
    int times = 0;

    asked = begin_to_ask(*state);
    point_arm("after_nudge", 1, POINT_STOP_THREAD);
    assert_true(point_wait_blocked("after_nudge", DEADLINE_MS));
    for (bool again = true; again && times < ASKED_MAX; times++) {
        asked = faulty_calls(FAULTY_STANDING);
        answer_late();
        again = asks_again(asked);
    }
    faulty_go(FAULTY_STANDING);
    assert_in_range(times, 1, ASKED_MAX - 1);
}

/* What is written is news, and a reason to ask. */
static void an_idle_subscription_writes_nothing_because_answers_are_late(void **state)
{
    int64_t asked = begin_to_ask(*state);
    int64_t writes = faulty_calls(FAULTY_APPLY);

    for (int i = 0; i < ASKED_MAX; i++) {
        answer_late();
        assert_true(wait_until(has_asked, &asked)); /* it is nudged every second */
        asked = faulty_calls(FAULTY_STANDING);
    }
    faulty_go(FAULTY_STANDING);
    assert_in_range(faulty_calls(FAULTY_APPLY) - writes, 0, WRITES_MAX);
}

static bool has_lost(void *ctx)
{
    return scene_said(ctx, "lost the subscription");
}

/* One handler is slow, so that the partition stays in hand when it is lost; another has failed, and
 * an event of its key is held behind it. */
static void held_events_of_a_lost_partition_keep_no_dispatcher_awake(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_or_wait);
    hf_subscription_options options = turns_options(2);

    door = scene_door(scene);
    recorder->extra = scene_door(scene);
    options.retry_base_ms = 10 * DEADLINE_MS;
    options.retry_max_ms = 10 * DEADLINE_MS;
    publish(scene->bus, "slow", "k", "1");
    publish(scene->bus, "bad", "l", "1");
    publish(scene->bus, "bad", "l", "1");
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(door, 1));
    assert_true(door_wait_inside(recorder->extra, 1));
    tables_run(scene, scene->path ? "UPDATE holdfast_partitions SET epoch = epoch + 1"
                                  : "UPDATE holdfast_private.partitions SET epoch = epoch + 1");
    door_open(recorder->extra);
    assert_true(wait_until(has_lost, scene));
    assert_in_range(turns_for_a_while(), 0, TURNS_MAX);
    door_open(door);
}

#define turns_test(test) cmocka_unit_test_setup_teardown(test, turns_setup, turns_teardown)

static const struct CMUnitTest tests[] = {
    turns_test(a_unit_that_waits_for_the_store_wakes_no_dispatcher),
    turns_test(failures_that_cannot_be_stored_keep_no_dispatcher_awake),
    turns_test(a_full_window_is_not_asked_for_more_again_and_again),
    turns_test(a_checkpoint_ms_of_1_wakes_no_dispatcher_while_a_handler_runs),
    turns_test(short_timeouts_do_not_make_the_dispatcher_read),
    turns_test(an_open_breaker_without_events_makes_no_queries),
    turns_test(an_idle_subscription_does_not_ask_a_slow_server_again_and_again),
    turns_test(an_idle_subscription_writes_nothing_because_answers_are_late),
    turns_test(held_events_of_a_lost_partition_keep_no_dispatcher_awake),
};

SCENE_MAIN(tests)
