/*
 * Tests of a store that is away while an ordered subscription has read ahead (support/faulty.h): as
 * long as nothing can be stored no handler begins, because it would only run again; afterwards
 * everything goes on, each event once and in order.
 */
#include "support_trouble.h"

#include "support/sqlite.h"

#include <stdatomic.h>

#define EVENTS 200
#define WORKERS 2
#define STILL_MS 1500 /* nothing has begun for so long: nothing will */

static hf_subscription_options away_options(void)
{
    hf_subscription_options options = quick_options();

    options.concurrency = WORKERS;
    options.checkpoint_events = 2;
    options.checkpoint_ms = 10;
    options.breaker = HF_ON; /* a worker takes one at a time */
    options.inflight_max = EVENTS;
    return options;
}

static atomic_bool hurry;

/* Takes its time, so that much is left when the store has been away for a while. */
static hf_verdict take_time(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)event;
    (void)delivery;
    (void)recorder;
    usleep(atomic_load(&hurry) ? 0 : 50000);
    return HF_ACK;
}

static void publish_all(hf_bus *bus)
{
    char key[8];

    for (int i = 0; i < EVENTS; i++) {
        snprintf(key, sizeof key, "k%d", i % 4);
        publish(bus, "x", key, "1");
    }
}

/* Everything is published, as many as may run wait at the door, the rest is in hand. */
static struct recorder *begin(struct scene *scene, const hf_subscription_options *options)
{
    struct recorder *recorder = scene_recorder(scene, NULL);

    recorder->door = scene_door(scene);
    trouble_open(scene);
    subscribe(scene->bus, "a", "*", recorder, options);
    publish_all(scene->bus);
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->door, WORKERS));
    return recorder;
}

/* Others may fail, too, who are no reason not to begin. */
static bool said(void *ctx)
{
    return scene_said(ctx, "storing progress failed (HF_") ||
           scene_said(ctx, "reading the subscription failed (HF_") ||
           scene_said(ctx, "settling a lease failed (HF_");
}

/* Lets one after the other through until the failure is said; then it is noticed. */
static void notice(struct scene *scene, struct recorder *recorder)
{
    for (int i = 0; i < EVENTS / 4 && !said(scene); i++) {
        door_let(recorder->door, 1);
        usleep(20000);
    }
    assert_true(wait_until(said, scene));
}

static bool tried_again(void *ctx)
{
    return faulty_calls(FAULTY_APPLY) + faulty_calls(FAULTY_STANDING) >= *(int64_t *)ctx;
}

/* What runs may end; nothing begins although the dispatcher has tried again. */
static void expect_still(struct recorder *recorder)
{
    size_t before = recorder_count(recorder);
    int64_t calls = faulty_calls(FAULTY_APPLY) + faulty_calls(FAULTY_STANDING) + 3;

    door_open(recorder->door);
    assert_true(wait_until(tried_again, &calls));
    assert_in_range(recorder_count(recorder), before, before + WORKERS);
    assert_true(before + WORKERS < EVENTS);
}

/* Tells what came more than once. */
static void print_doubles(struct recorder *recorder)
{
    for (size_t i = 0; i < recorder_count(recorder); i++) {
        struct seen seen = recorder_get(recorder, i);

        if (recorder_calls(recorder, seen.position, NULL) > 1) {
            print_message("# position %lld, attempt %d, began at %lld us, took %lld us\n",
                          (long long)seen.position, (int)seen.attempt, (long long)seen.begin_us,
                          (long long)(seen.end_us - seen.begin_us));
        }
    }
}

/* The positions of each key come in order, and each once. */
static void expect_in_order(struct scene *scene, struct recorder *recorder)
{
    int64_t latest[4] = {0};

    settle_all(scene->bus, "a");
    if (recorder_count(recorder) != EVENTS) {
        print_doubles(recorder);
    }
    assert_int_equal(recorder_count(recorder), EVENTS);
    assert_int_equal(recorder_overlaps(recorder), 0);
    for (size_t i = 0; i < EVENTS; i++) {
        struct seen seen = recorder_get(recorder, i);
        int64_t *before = &latest[seen.key[1] - '0'];

        assert_true(seen.position > *before);
        *before = seen.position;
    }
}

/* ---- Failures -------------------------------------------------------------------------------- */

static void fail_and_go_on(struct scene *scene, enum faulty_verb verb, hf_status status)
{
    hf_subscription_options options = away_options();
    struct recorder *recorder = begin(scene, &options);

    faulty_fail(verb, 1, INT32_MAX, status);
    notice(scene, recorder);
    expect_still(recorder);
    faulty_reset();
    expect_in_order(scene, recorder);
}

static void nothing_begins_while_the_store_is_not_there(void **state)
{
    fail_and_go_on(*state, FAULTY_APPLY, HF_UNAVAILABLE);
}

static void nothing_begins_while_the_disk_is_full(void **state)
{
    fail_and_go_on(*state, FAULTY_APPLY, HF_NOSPACE);
}

static void nothing_begins_while_the_store_is_locked(void **state)
{
    fail_and_go_on(*state, FAULTY_APPLY, HF_TIMEOUT);
}

static void nothing_begins_while_the_subscription_cannot_be_read(void **state)
{
    fail_and_go_on(*state, FAULTY_STANDING, HF_UNAVAILABLE);
}

/* Nothing is stored any more, and what was is unknown: what is in hand is dropped, and taken up
 * again where the store says. */
static void nothing_begins_while_it_is_unknown_what_was_stored(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = away_options();
    struct recorder *recorder = begin(scene, &options);

    faulty_fail(FAULTY_APPLY, 1, INT32_MAX, HF_UNKNOWN);
    notice(scene, recorder);
    expect_still(recorder);
    faulty_reset();
    settle_all(scene->bus, "a");
    for (int64_t position = 1; position <= EVENTS; position++) {
        assert_true(recorder_calls(recorder, position, NULL) >= 1);
    }
    assert_true(recorder_count(recorder) < EVENTS + EVENTS / 2);
}

static bool ten_are_stored(void *ctx)
{
    return info_of(ctx, "a").checkpoint >= 10;
}

/* That nothing new can be read is no reason not to run what was. */
static void events_that_were_read_are_run_and_stored_while_no_more_can_be_read(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = away_options();
    struct recorder *recorder;

    options.inflight_max = 10;
    recorder = begin(scene, &options);
    faulty_fail(FAULTY_READER_NEXT, 1, INT32_MAX, HF_UNAVAILABLE);
    faulty_fail(FAULTY_RETRIES_DUE, 1, INT32_MAX, HF_UNAVAILABLE);
    door_open(recorder->door);
    assert_true(wait_until(ten_are_stored, scene->bus));
    faulty_reset();
    expect_in_order(scene, recorder);
}

/* A process of shared work has leases, which outlast the outage: what ran meanwhile is settled. */
static void shared_work_goes_on_with_what_was_claimed(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = away_options();
    struct recorder *recorder;

    options.mode = HF_MODE_SHARED;
    options.batch = 20;
    recorder = begin(scene, &options);
    faulty_fail(FAULTY_APPLY, 1, INT32_MAX, HF_UNAVAILABLE);
    notice(scene, recorder);
    door_open(recorder->door);
    assert_true(recorder_wait(recorder, 20));
    faulty_reset();
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), EVENTS);
}

/* ---- Silence --------------------------------------------------------------------------------- */

/* Waits until nothing has begun for a while: then much must be left. */
static void expect_silence(struct recorder *recorder)
{
    size_t before;

    do {
        before = recorder_count(recorder);
        usleep(STILL_MS * 1000);
    } while (recorder_count(recorder) > before);
    assert_true(before < EVENTS);
    atomic_store(&hurry, true);
}

/* Everything is published, and nothing ends before the door is opened: when the store is away. */
static struct recorder *begin_slowly(struct scene *scene, hf_bus *publisher)
{
    hf_subscription_options options = away_options();
    struct recorder *recorder = scene_recorder(scene, take_time);

    atomic_store(&hurry, false);
    recorder->door = scene_door(scene);
    trouble_open(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish_all(publisher ? publisher : scene->bus);
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->door, WORKERS));
    return recorder;
}

/* Nothing fails: the answer does not come. */
static void nothing_begins_while_the_store_is_silent(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = begin_slowly(scene, NULL);

    faulty_stop(FAULTY_APPLY, 1);
    door_open(recorder->door);
    assert_true(faulty_stopped(FAULTY_APPLY, DEADLINE_MS));
    expect_silence(recorder);
    faulty_go(FAULTY_APPLY);
    expect_in_order(scene, recorder);
}

static void nothing_begins_while_a_file_is_locked(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder;
    sqlite3 *db = NULL;
    hf_bus *patient;

    scene_sqlite(scene);
    patient = scene_open(scene, NULL); /* makes the tables and publishes, which may take longer */
    assert_int_equal(sqlite3_open(scene_sqlite(scene), &db), SQLITE_OK);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_busy_timeout(db, DEADLINE_MS);
    scene->options.timeout_ms = 1000;
    recorder = begin_slowly(scene, patient);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    door_open(recorder->door);
    expect_silence(recorder);
    sqlite3_close(db);
    expect_in_order(scene, recorder);
}

/* ---- Stopping -------------------------------------------------------------------------------- */

static void a_stop_while_the_store_is_away_comes_back_and_says_so(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = away_options();
    struct recorder *recorder = begin(scene, &options);
    int64_t begin_us;

    faulty_fail(FAULTY_APPLY, 1, INT32_MAX, HF_UNAVAILABLE);
    notice(scene, recorder);
    expect_still(recorder);
    assert_true(recorder_wait(recorder, recorder_count(recorder)));
    begin_us = mono_us();
    assert_status(hf_stop(scene->bus, 5000), HF_TIMEOUT);
    assert_non_null(strstr(hf_errmsg(), "progress could not be stored"));
    assert_true(mono_us() - begin_us < 30000000);
    faulty_reset();
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    for (int64_t position = 1; position <= EVENTS; position++) {
        assert_true(recorder_calls(recorder, position, NULL) >= 1);
    }
}

static void a_stop_right_after_an_outage_loses_nothing(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = away_options();
    struct recorder *recorder = begin(scene, &options);

    faulty_fail(FAULTY_APPLY, 1, INT32_MAX, HF_UNAVAILABLE);
    notice(scene, recorder);
    expect_still(recorder);
    faulty_reset();
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
    assert_ok(hf_start(scene->bus));
    expect_in_order(scene, recorder);
}

static const struct CMUnitTest tests[] = {
    trouble_test(nothing_begins_while_the_store_is_not_there),
    trouble_test(nothing_begins_while_the_disk_is_full),
    trouble_test(nothing_begins_while_the_store_is_locked),
    trouble_test(nothing_begins_while_the_subscription_cannot_be_read),
    trouble_test(nothing_begins_while_it_is_unknown_what_was_stored),
    trouble_test(events_that_were_read_are_run_and_stored_while_no_more_can_be_read),
    trouble_test(shared_work_goes_on_with_what_was_claimed),
    trouble_test(nothing_begins_while_the_store_is_silent),
    trouble_test(nothing_begins_while_a_file_is_locked),
    trouble_test(a_stop_while_the_store_is_away_comes_back_and_says_so),
    trouble_test(a_stop_right_after_an_outage_loses_nothing),
};

SCENE_MAIN(tests)
