/*
 * Tests of a store that fails under running handlers (support/faulty.h): the bus says so, waits and
 * goes on; what was answered is true; nothing is lost whatever answer gets lost on the way.
 */
#include "support_trouble.h"

static hf_subscription_options trouble_options(hf_mode mode)
{
    hf_subscription_options options = quick_options();

    options.mode = mode;
    options.attempts_max = 2;
    options.concurrency = 2;
    options.checkpoint_events = 2;
    options.lease_ms = 500;
    return options;
}

/* Publishes 20 events of which 4 die, with the fault armed after the publishes. */
static void work_through(struct scene *scene, hf_mode mode, hf_toggle transactional,
                         enum faulty_verb verb, hf_status status, int64_t times, bool lose)
{
    static const char *const types[] = {"x", "once", "x", "bad", "x"};
    struct recorder *recorder = scene_recorder(scene, trouble_handle);
    hf_subscription_options options = trouble_options(mode);

    trouble_open(scene);
    options.transactional = transactional;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 20; i++) {
        publish(scene->bus, types[i % 5], i % 2 ? "k" : NULL, "1");
    }
    if (lose) {
        faulty_lose(verb, 2, times, status);
    } else {
        faulty_fail(verb, 2, times, status);
    }
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    for (int64_t position = 1; position <= 20; position++) {
        assert_true(recorder_calls(recorder, position, NULL) >= 1);
    }
    assert_int_equal(info_of(scene->bus, "a").dead, 4);
    assert_int_equal(info_of(scene->bus, "a").retrying, 0);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void a_failed_read_is_logged_and_tried_again(void **state)
{
    struct scene *scene = *state;

    work_through(scene, HF_MODE_ORDERED, HF_OFF, FAULTY_READER_NEXT, HF_IO, 2, false);
    assert_true(scene->logged > 0);
}

static void a_reader_that_cannot_be_opened_is_tried_again(void **state)
{
    work_through(*state, HF_MODE_ORDERED, HF_OFF, FAULTY_READER_OPEN, HF_UNAVAILABLE, 1, false);
}

static void retries_that_cannot_be_read_are_read_later(void **state)
{
    work_through(*state, HF_MODE_ORDERED, HF_OFF, FAULTY_RETRIES_DUE, HF_IO, 2, false);
}

static void lanes_that_cannot_be_read_are_read_before_anything_runs(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, trouble_handle);
    hf_subscription_options options = trouble_options(HF_MODE_ORDERED);
    hf_receipt bad, next;

    /* bad waits, next is held behind it; the next owner must know that or it breaks the order. */
    options.retry_base_ms = 700;
    options.retry_max_ms = 700;
    trouble_open(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    bad = *publish(scene->bus, "once", "k", "1");
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait(recorder, 1));
    assert_ok(hf_close(&scene->bus));
    trouble_open(scene);
    next = *publish(scene->bus, "x", "k", "1");
    faulty_fail(FAULTY_LANES, 1, 1, HF_IO);
    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 3);
    assert_int_equal(recorder_get(recorder, 1).position, bad.position);
    assert_int_equal(recorder_get(recorder, 2).position, next.position);
}

/* ---- Settling -------------------------------------------------------------------------------- */

static void settles_that_fail_are_tried_again(void **state)
{
    work_through(*state, HF_MODE_ORDERED, HF_OFF, FAULTY_APPLY, HF_IO, 3, false);
}

/* The bounds hold on any machine: a slow one only tries less often. */
static void refused_for_long(struct scene *scene, hf_status status)
{
    struct recorder *recorder = scene_recorder(scene, wait_at_first);
    hf_subscription_options options = trouble_options(HF_MODE_ORDERED);
    int64_t calls, began_us, tried;

    recorder->extra = scene_door(scene);
    trouble_open(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", "k", "1");
    assert_true(door_wait_inside(recorder->extra, 1));
    calls = faulty_calls(FAULTY_APPLY);
    faulty_fail(FAULTY_APPLY, 1, INT32_MAX, status);
    door_open(recorder->extra);
    began_us = mono_us();
    assert_status(hf_wait(scene->bus, "a", 1, 3000), HF_TIMEOUT);
    tried = faulty_calls(FAULTY_APPLY) - calls;
    faulty_fail(FAULTY_APPLY, 1, 0, HF_OK);
    /* Up to the longest pause some twelve tries, then one or two in two seconds, for two kinds of
     * changes. */
    assert_in_range(tried, 1, 40 + (mono_us() - began_us) / 500000);
    settle_all(scene->bus, "a");
}

static void settles_that_are_refused_again_and_again_come_less_and_less_often(void **state)
{
    refused_for_long(*state, HF_CONFLICT);
}

static void
refused_settles_of_partitions_that_others_seem_to_have_come_less_and_less_often(void **state)
{
    refused_for_long(*state, HF_STALE);
}

static void settles_that_time_out_are_tried_again(void **state)
{
    work_through(*state, HF_MODE_ORDERED, HF_OFF, FAULTY_APPLY, HF_TIMEOUT, 3, false);
}

static void settles_whose_answer_is_lost_do_no_harm(void **state)
{
    work_through(*state, HF_MODE_ORDERED, HF_OFF, FAULTY_APPLY, HF_UNKNOWN, 3, true);
}

static void settles_that_did_not_happen_though_unknown_do_no_harm(void **state)
{
    work_through(*state, HF_MODE_ORDERED, HF_OFF, FAULTY_APPLY, HF_UNKNOWN, 3, false);
}

static void shared_work_survives_failing_changes(void **state)
{
    work_through(*state, HF_MODE_SHARED, HF_OFF, FAULTY_APPLY, HF_IO, 3, false);
}

static void shared_work_survives_lost_answers(void **state)
{
    work_through(*state, HF_MODE_SHARED, HF_OFF, FAULTY_APPLY, HF_UNKNOWN, 3, true);
}

/* ---- Transactions ---------------------------------------------------------------------------- */

static void a_transaction_that_cannot_begin_is_tried_again(void **state)
{
    work_through(*state, HF_MODE_ORDERED, HF_ON, FAULTY_TX_BEGIN, HF_BUSY, 2, false);
}

static void a_handler_whose_commit_fails_is_run_again(void **state)
{
    work_through(*state, HF_MODE_ORDERED, HF_ON, FAULTY_TX_COMMIT, HF_IO, 2, false);
}

static void a_commit_whose_answer_is_lost_is_not_run_twice(void **state)
{
    work_through(*state, HF_MODE_ORDERED, HF_ON, FAULTY_TX_COMMIT, HF_UNKNOWN, 2, true);
}

static void a_shared_commit_whose_answer_is_lost_does_no_harm(void **state)
{
    work_through(*state, HF_MODE_SHARED, HF_ON, FAULTY_TX_COMMIT, HF_UNKNOWN, 2, true);
}

/* ---- Long trouble ---------------------------------------------------------------------------- */

static void delivery_goes_on_after_a_long_outage(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, trouble_handle);
    hf_subscription_options options = trouble_options(HF_MODE_ORDERED);
    hf_bus *healthy;

    healthy = scene_open(scene, NULL);
    trouble_open(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    faulty_fail(FAULTY_APPLY, 1, INT32_MAX, HF_UNAVAILABLE);
    faulty_fail(FAULTY_READER_NEXT, 1, INT32_MAX, HF_UNAVAILABLE);
    for (int i = 0; i < 20; i++) {
        publish(healthy, "x", NULL, "1");
    }
    assert_status(hf_wait(healthy, "a", 21, 300), HF_TIMEOUT);
    faulty_reset();
    assert_ok(hf_wait(healthy, "a", 21, DEADLINE_MS));
    for (int64_t position = 1; position <= 21; position++) {
        assert_true(recorder_calls(recorder, position, NULL) >= 1);
    }
}

static void a_stop_during_an_outage_comes_back(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = trouble_options(HF_MODE_ORDERED);
    int64_t begin_us;

    trouble_open(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "1");
    faulty_fail(FAULTY_APPLY, 3, INT32_MAX, HF_UNAVAILABLE); /* it has joined and acquired */
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait(recorder, 1));
    begin_us = mono_us();
    hf_stop(scene->bus, 2000);
    assert_true(mono_us() - begin_us < 30000000);
    faulty_reset();
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
}

static const struct CMUnitTest tests[] = {
    trouble_test(a_failed_read_is_logged_and_tried_again),
    trouble_test(a_reader_that_cannot_be_opened_is_tried_again),
    trouble_test(retries_that_cannot_be_read_are_read_later),
    trouble_test(lanes_that_cannot_be_read_are_read_before_anything_runs),
    trouble_test(settles_that_fail_are_tried_again),
    trouble_test(settles_that_time_out_are_tried_again),
    trouble_test(settles_that_are_refused_again_and_again_come_less_and_less_often),
    trouble_test(refused_settles_of_partitions_that_others_seem_to_have_come_less_and_less_often),
    trouble_test(settles_whose_answer_is_lost_do_no_harm),
    trouble_test(settles_that_did_not_happen_though_unknown_do_no_harm),
    trouble_test(shared_work_survives_failing_changes),
    trouble_test(shared_work_survives_lost_answers),
    trouble_test(a_transaction_that_cannot_begin_is_tried_again),
    trouble_test(a_handler_whose_commit_fails_is_run_again),
    trouble_test(a_commit_whose_answer_is_lost_is_not_run_twice),
    trouble_test(a_shared_commit_whose_answer_is_lost_does_no_harm),
    trouble_test(delivery_goes_on_after_a_long_outage),
    trouble_test(a_stop_during_an_outage_comes_back),
};

SCENE_MAIN(tests)
