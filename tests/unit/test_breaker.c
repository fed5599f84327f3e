/* Unit tests of base/breaker. */
#include "base/breaker.h"
#include "base/text/json_check.h"
#include "unit.h"

#define SECOND_US INT64_C(1000000)
#define START_US (INT64_C(1794714878) * SECOND_US)

static const struct breaker_policy policy = {
    .events_min = 20,
    .failed_percent = 50,
    .window_ms = 60000,
    .pause_ms = 30000,
};

/* ok first attempts that succeeded, then failed ones that did not; whether it opened. */
static bool report(struct breaker *breaker, int ok, int failed, int64_t now_us)
{
    bool opened = false;

    for (int i = 0; i < ok + failed; i++) {
        opened |= breaker_report(breaker, &policy, 1, i < ok, now_us);
    }
    return opened;
}

static struct breaker opened_at(int64_t now_us)
{
    struct breaker breaker;

    breaker_init(&breaker);
    assert_true(report(&breaker, 0, 20, now_us));
    return breaker;
}

static void a_breaker_opens_only_above_the_percentage_and_with_enough_events(void **state)
{
    struct breaker breaker;

    (void)state;
    breaker_init(&breaker);
    assert_false(report(&breaker, 0, 19, START_US)); /* all failed, too few */
    assert_true(report(&breaker, 1, 0, START_US));   /* the 20th decides, though it went well */
    assert_int_equal(breaker.state, BREAKER_OPEN);

    breaker_init(&breaker);
    assert_false(report(&breaker, 10, 10, START_US)); /* exactly half is not more than half */
    assert_int_equal(breaker_ask(&breaker, &policy, START_US), BREAKER_RUN);
    assert_true(report(&breaker, 0, 1, START_US));
}

static void retries_of_one_event_do_not_open_the_breaker(void **state)
{
    struct breaker breaker;

    (void)state;
    breaker_init(&breaker);
    for (int32_t attempt = 2; attempt < 200; attempt++) {
        assert_false(breaker_report(&breaker, &policy, attempt, false, START_US));
    }
    assert_int_equal(breaker.state, BREAKER_CLOSED);
}

static void attempts_leave_the_breakers_window(void **state)
{
    struct breaker breaker;

    (void)state;
    breaker_init(&breaker);
    assert_false(report(&breaker, 0, 19, START_US));
    assert_false(report(&breaker, 0, 1, START_US + 60 * SECOND_US));
    assert_false(report(&breaker, 0, 18, START_US + 100 * SECOND_US));
    assert_true(report(&breaker, 0, 1, START_US + 110 * SECOND_US));
}

static void events_within_nine_tenths_of_the_window_count_together(void **state)
{
    struct breaker breaker;

    (void)state;
    breaker_init(&breaker);
    assert_false(report(&breaker, 0, 19, START_US));
    assert_true(report(&breaker, 0, 1, START_US + 54 * SECOND_US - 1));
}

static void while_open_everything_waits_then_exactly_one_probe_runs(void **state)
{
    struct breaker breaker = opened_at(START_US);

    (void)state;
    assert_int_equal(breaker_ask(&breaker, &policy, START_US), BREAKER_WAIT);
    assert_int_equal(breaker_wait_ms(&breaker, START_US), 30000);
    assert_int_equal(breaker_ask(&breaker, &policy, START_US + 30 * SECOND_US - 1), BREAKER_WAIT);
    assert_int_equal(breaker_wait_ms(&breaker, START_US + 30 * SECOND_US - 1), 1);
    assert_int_equal(breaker_ask(&breaker, &policy, START_US + 30 * SECOND_US), BREAKER_PROBE);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(breaker_ask(&breaker, &policy, START_US + 1000 * SECOND_US), BREAKER_WAIT);
    }
    assert_int_equal(breaker_wait_ms(&breaker, START_US + 1000 * SECOND_US), -1);
}

static void a_good_probe_closes_and_forgets(void **state)
{
    int64_t later_us = START_US + 30 * SECOND_US;
    struct breaker breaker = opened_at(START_US);

    (void)state;
    breaker_ask(&breaker, &policy, later_us);
    breaker_report_probe(&breaker, &policy, true, later_us);
    assert_int_equal(breaker_ask(&breaker, &policy, later_us), BREAKER_RUN);
    assert_int_equal(breaker_wait_ms(&breaker, later_us), 0);
    assert_false(report(&breaker, 0, 19, later_us)); /* the old failures are gone */
}

static void a_failed_probe_opens_for_another_pause(void **state)
{
    int64_t later_us = START_US + 30 * SECOND_US;
    struct breaker breaker = opened_at(START_US);

    (void)state;
    breaker_ask(&breaker, &policy, later_us);
    breaker_report_probe(&breaker, &policy, false, later_us);
    assert_int_equal(breaker_ask(&breaker, &policy, later_us + 30 * SECOND_US - 1), BREAKER_WAIT);
    assert_int_equal(breaker_ask(&breaker, &policy, later_us + 30 * SECOND_US), BREAKER_PROBE);
}

static void an_abandoned_probe_is_given_again_at_once(void **state)
{
    int64_t later_us = START_US + 30 * SECOND_US;
    struct breaker breaker = opened_at(START_US);

    (void)state;
    breaker_ask(&breaker, &policy, later_us);
    breaker_abandon_probe(&breaker, later_us);
    assert_int_equal(breaker_ask(&breaker, &policy, later_us), BREAKER_PROBE);
}

static void late_results_do_not_disturb_an_open_breaker(void **state)
{
    struct breaker breaker = opened_at(START_US);

    (void)state;
    assert_false(report(&breaker, 100, 100, START_US));
    assert_int_equal(breaker_wait_ms(&breaker, START_US), 30000);
    breaker_report_probe(&breaker, &policy, true, START_US); /* there is no probe */
    assert_int_equal(breaker.state, BREAKER_OPEN);
}

static void a_clock_that_steps_back_does_not_prolong_the_pause(void **state)
{
    struct breaker breaker = opened_at(START_US);
    int64_t earlier_us = START_US - 3600 * SECOND_US;

    (void)state;
    assert_int_equal(breaker_ask(&breaker, &policy, earlier_us), BREAKER_WAIT);
    assert_int_equal(breaker_ask(&breaker, &policy, earlier_us + 30 * SECOND_US), BREAKER_PROBE);
}

static struct breaker written_and_read(const struct breaker *breaker)
{
    struct breaker back;
    struct json_out out;
    struct buf buf;

    buf_init(&buf, 4096);
    json_out_init(&out, &buf);
    breaker_write(breaker, &out);
    assert_ok(buf_status(&buf));
    assert_ok(json_check_object(buf.bytes, buf.length, NULL, "breaker"));
    assert_ok(breaker_read(buf_text(&buf), &back));
    buf_release(&buf);
    return back;
}

static void the_state_survives_as_json(void **state)
{
    struct breaker breaker, back;

    (void)state;
    breaker_init(&breaker);
    report(&breaker, 3, 4, START_US);
    report(&breaker, 5, 6, START_US + 20 * SECOND_US);
    back = written_and_read(&breaker);
    assert_int_equal(back.state, BREAKER_CLOSED);
    assert_memory_equal(back.steps, breaker.steps, sizeof back.steps);

    breaker = opened_at(START_US);
    back = written_and_read(&breaker);
    assert_int_equal(back.state, BREAKER_OPEN);
    assert_int_equal(back.until_us, breaker.until_us);
}

static void a_stored_half_open_breaker_probes_again(void **state)
{
    int64_t later_us = START_US + 30 * SECOND_US;
    struct breaker breaker = opened_at(START_US), back;

    (void)state;
    breaker_ask(&breaker, &policy, later_us);
    back = written_and_read(&breaker);
    assert_int_equal(breaker_ask(&back, &policy, later_us), BREAKER_PROBE);
}

static void unreadable_state_is_refused(void **state)
{
    static const char *const table[] = {
        "",
        "null",
        "{}",
        "{\"state\":\"ajar\",\"until_us\":0,\"steps\":[]}",
        "{\"state\":\"open\",\"until_us\":\"x\",\"steps\":[]}",
        "{\"state\":\"open\",\"until_us\":0}",
        "{\"state\":\"open\",\"until_us\":0,\"steps\":[1]}",
        "{\"state\":\"open\",\"until_us\":0,\"steps\":[[1,2]]}",
        "{\"state\":\"open\",\"until_us\":0,\"steps\":[[1,2,3]]}",
        "{\"state\":\"open\",\"until_us\":0,\"steps\":[[-1,2,1]]}",
        "{\"state\":\"open\",\"until_us\":0,\"steps\":[[1,2,1,0]]}",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct breaker breaker = {.until_us = 77};

        if (breaker_read(text_of(table[i]), &breaker) != HF_INVALID) {
            fail_msg("%s was accepted", table[i]);
        }
        assert_int_equal(breaker.until_us, 77);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_breaker_opens_only_above_the_percentage_and_with_enough_events),
        cmocka_unit_test(retries_of_one_event_do_not_open_the_breaker),
        cmocka_unit_test(attempts_leave_the_breakers_window),
        cmocka_unit_test(events_within_nine_tenths_of_the_window_count_together),
        cmocka_unit_test(while_open_everything_waits_then_exactly_one_probe_runs),
        cmocka_unit_test(a_good_probe_closes_and_forgets),
        cmocka_unit_test(a_failed_probe_opens_for_another_pause),
        cmocka_unit_test(an_abandoned_probe_is_given_again_at_once),
        cmocka_unit_test(late_results_do_not_disturb_an_open_breaker),
        cmocka_unit_test(a_clock_that_steps_back_does_not_prolong_the_pause),
        cmocka_unit_test(the_state_survives_as_json),
        cmocka_unit_test(a_stored_half_open_breaker_probes_again),
        cmocka_unit_test(unreadable_state_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
