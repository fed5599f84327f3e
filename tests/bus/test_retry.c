/*
 * Tests of failed attempts: delays, the story that is kept, what each verdict means, and that
 * waiting happens in the store and not in a worker.
 */
#include "support_scene.h"

#include "base/point.h"

#include <stdatomic.h>

static hf_verdict always_fail(const hf_event *event, hf_delivery *delivery,
                              struct recorder *recorder)
{
    (void)event;
    (void)recorder;
    hf_delivery_error(delivery, "failure number %d", (int)hf_delivery_attempt(delivery));
    return HF_RETRY;
}

/* The time from the end of one call to the beginning of the next, in ms. */
static int64_t pause_ms(struct recorder *recorder, size_t index)
{
    return (recorder_get(recorder, index + 1).begin_us - recorder_get(recorder, index).end_us) /
           1000;
}

/* ---- Policy ---------------------------------------------------------------------------------- */

static void delays_grow_from_the_base_by_the_multiplier_up_to_the_maximum(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, always_fail);
    hf_subscription_options options = quick_options();
    const int64_t expected_ms[] = {60, 180, 300, 300};
    struct logged logged[8];

    options.attempts_max = 5;
    options.retry_base_ms = 60;
    options.retry_multiplier = 3.0;
    options.retry_max_ms = 300;
    options.retry_jitter_percent = 0;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 5);
    for (size_t i = 0; i < COUNTED(expected_ms); i++) {
        assert_int_equal(recorder_get(recorder, i).attempt, i + 1);
        assert_true(pause_ms(recorder, i) >= expected_ms[i] - 2);
    }
    assert_true(scene_wait_logged(scene, "", 5));
    assert_int_equal(scene_logged(scene, "", logged, COUNTED(logged)), 5);
    for (size_t i = 0; i < COUNTED(expected_ms); i++) {
        assert_int_equal(logged[i].delay_ms, expected_ms[i]);
    }
}

static hf_verdict fail_and_ask_for_time(const hf_event *event, hf_delivery *delivery,
                                        struct recorder *recorder)
{
    (void)event;
    (void)recorder;
    if (hf_delivery_attempt(delivery) == 1) {
        hf_delivery_retry_in(delivery, 70000);
        hf_delivery_retry_in(delivery, 150); /* the last call counts */
    } else if (hf_delivery_attempt(delivery) == 2) {
        hf_delivery_retry_in(delivery, 5);
    } else if (hf_delivery_attempt(delivery) == 3) {
        hf_delivery_retry_in(delivery, -1);
    }
    return HF_RETRY;
}

static void a_handler_can_make_the_next_attempt_wait_longer_but_not_shorter(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_and_ask_for_time);
    hf_subscription_options options = quick_options();
    const int64_t expected_ms[] = {150, 20, 20};
    struct logged logged[8];

    options.attempts_max = 4;
    options.retry_base_ms = 20;
    options.retry_multiplier = 1.0;
    options.retry_max_ms = 20;
    options.retry_jitter_percent = 0;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_true(scene_wait_logged(scene, "", 4));
    assert_int_equal(scene_logged(scene, "", logged, COUNTED(logged)), 4);
    for (size_t i = 0; i < COUNTED(expected_ms); i++) {
        assert_int_equal(logged[i].delay_ms, expected_ms[i]);
        assert_true(pause_ms(recorder, i) >= expected_ms[i] - 2);
    }
}

static void jitter_stays_within_its_percentage_and_the_maximum(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, always_fail);
    hf_subscription_options options = quick_options();
    struct logged logged[64];
    size_t count;

    options.attempts_max = 3;
    options.retry_base_ms = 20;
    options.retry_multiplier = 2.0;
    options.retry_max_ms = 40;
    options.retry_jitter_percent = 50;
    options.concurrency = 8;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 20; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_true(scene_wait_logged(scene, "", 60));
    count = scene_logged(scene, "", logged, COUNTED(logged));
    assert_int_equal(count, 60);
    for (size_t i = 0; i < count; i++) {
        if (logged[i].attempt == 1) {
            assert_in_range(logged[i].delay_ms, 10, 30);
        } else if (logged[i].attempt == 2) {
            assert_in_range(logged[i].delay_ms, 20, 40);
        } else {
            assert_int_equal(logged[i].delay_ms, -1);
        }
    }
}

static void an_event_is_dead_after_attempts_max_with_every_error(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, always_fail);
    hf_subscription_options options = quick_options();
    hf_receipt receipt;
    struct dead dead;
    int64_t before_us = wall_us();
    int32_t attempts = -1;

    options.attempts_max = 4;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    receipt = *publish(scene->bus, "user.created", NULL, "{\"n\":1}");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 4);
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    assert_string_equal(dead.event_id, receipt.id);
    assert_string_equal(dead.type, "user.created");
    assert_string_equal(dead.payload, "{\"n\":1}");
    assert_string_equal(dead.reason, "attempts");
    assert_string_equal(dead.error, "failure number 4");
    assert_int_equal(dead.attempts, 4);
    assert_int_equal(dead.position, receipt.position);
    assert_in_range(dead.failed_at_us, before_us, wall_us());
    assert_int_equal(occurrences(dead.story, "\"attempt\":"), 4);
    assert_int_equal(occurrences(dead.story, "failure number 1\""), 1);
    assert_int_equal(occurrences(dead.story, "failure number 2\""), 1);
    assert_int_equal(occurrences(dead.story, "failure number 3\""), 1);
    assert_int_equal(occurrences(dead.story, "failure number 4\""), 1);
    assert_int_equal(occurrences(dead.story, "\"at\":"), 4);
    assert_int_equal(occurrences(dead.story, "\"node\":"), 4);
    assert_int_equal(state_of(scene->bus, "a", receipt.id, &attempts), HF_STATE_DEAD);
    assert_int_equal(attempts, 4);
}

static void with_one_attempt_there_is_no_retry(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, always_fail);
    hf_subscription_options options = quick_options();
    struct dead dead;

    options.attempts_max = 1;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 1);
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    assert_int_equal(dead.attempts, 1);
}

static void each_subscription_has_its_own_policy(void **state)
{
    struct scene *scene = *state;
    struct recorder *two = scene_recorder(scene, always_fail);
    struct recorder *six = scene_recorder(scene, always_fail);
    hf_subscription_options options = quick_options();
    struct dead dead;

    options.retry_base_ms = 1;
    options.retry_max_ms = 5;
    options.attempts_max = 2;
    subscribe(scene->bus, "two", "*", two, &options);
    options.attempts_max = 6;
    subscribe(scene->bus, "six", "*", six, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, NULL);
    assert_int_equal(recorder_count(two), 2);
    assert_int_equal(recorder_count(six), 6);
    assert_int_equal(dead_of(scene->bus, "two", &dead, 1), 1);
    assert_int_equal(dead_of(scene->bus, "six", &dead, 1), 1);
    assert_int_equal(dead_of(scene->bus, NULL, &dead, 1), 2);
}

static void options_given_later_replace_only_what_they_give(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, always_fail);
    hf_subscription_options options = quick_options();
    hf_subscription_options change = HF_SUBSCRIPTION_OPTIONS_INIT;
    struct info info;

    options.attempts_max = 7;
    options.handler_timeout_ms = 4321;
    subscribe(scene->bus, "a", "*", recorder, &options);
    change.attempts_max = 2;
    subscribe(scene->bus, "a", "*", recorder, &change);
    info = info_of(scene->bus, "a");
    assert_int_equal(info.options.attempts_max, 2);
    assert_int_equal(info.options.handler_timeout_ms, 4321);
    assert_int_equal(info.options.retry_base_ms, 10);
    assert_int_equal(info.options.retry_max_ms, 50);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    /* Both registrations are handlers of the unit; the first fails it. */
    assert_int_equal(recorder_count(recorder), 2);
    assert_int_equal(info_of(scene->bus, "a").dead, 1);
}

/* ---- The log and the story ------------------------------------------------------------------- */

static void every_failed_attempt_makes_one_record_with_all_fields(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, always_fail);
    hf_subscription_options options = quick_options();
    struct logged logged[8];
    hf_receipt receipt;
    char error[32];

    options.attempts_max = 3;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    receipt = *publish(scene->bus, "user.created", NULL, "1");
    settle_all(scene->bus, "a");
    assert_true(scene_wait_logged(scene, receipt.id, 3));
    assert_int_equal(scene_logged(scene, receipt.id, logged, COUNTED(logged)), 3);
    for (int i = 0; i < 3; i++) {
        snprintf(error, sizeof error, "failure number %d", i + 1);
        assert_string_equal(logged[i].subscription, "a");
        assert_string_equal(logged[i].event_type, "user.created");
        assert_int_equal(logged[i].position, receipt.position);
        assert_int_equal(logged[i].attempt, i + 1);
        assert_int_equal(logged[i].attempts_max, 3);
        assert_string_equal(logged[i].error, error);
        assert_true(logged[i].level >= HF_LOG_WARN);
        if (i < 2) {
            assert_true(logged[i].delay_ms > 0);
        } else {
            assert_int_equal(logged[i].delay_ms, -1);
        }
    }
}

static hf_verdict long_error(const hf_event *event, hf_delivery *delivery,
                             struct recorder *recorder)
{
    static char text[5000];

    (void)event;
    (void)recorder;
    memset(text, 'e', sizeof text - 1);
    hf_delivery_error(delivery, "%s", text);
    return HF_RETRY;
}

static int measure_error(const hf_dead_letter *letter, void *ctx)
{
    *(size_t *)ctx = strlen(letter->error);
    return 0;
}

static void an_error_is_kept_up_to_its_limit(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, long_error);
    hf_subscription_options options = quick_options();
    hf_dead_filter filter = HF_DEAD_FILTER_INIT;
    size_t bytes = 0;

    options.attempts_max = 1;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_ok(hf_dead_list(scene->bus, &filter, measure_error, &bytes));
    assert_in_range(bytes, HF_ERROR_BYTES_MAX - 8, HF_ERROR_BYTES_MAX);
}

static hf_verdict hostile_error(const hf_event *event, hf_delivery *delivery,
                                struct recorder *recorder)
{
    (void)event;
    (void)recorder;
    hf_delivery_error(delivery, "%s", "\"},'); \xff\x1b[2J\r\n%s%n");
    return HF_DEAD;
}

static void a_hostile_error_text_is_kept_and_the_story_stays_json(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, hostile_error);
    struct dead dead;

    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    assert_non_null(strstr(dead.error, "\"},'); "));
    assert_non_null(strstr(dead.story, "\\\"},'); "));
    assert_null(strchr(dead.story, '\n'));
    assert_null(strchr(dead.story, '\x1b'));
}

static hf_verdict silent_failure(const hf_event *event, hf_delivery *delivery,
                                 struct recorder *recorder)
{
    (void)event;
    (void)delivery;
    (void)recorder;
    return HF_RETRY;
}

static void a_failure_without_a_word_still_counts(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, silent_failure);
    hf_subscription_options options = quick_options();
    struct dead dead;

    options.attempts_max = 2;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    assert_int_equal(dead.attempts, 2);
    assert_int_equal(occurrences(dead.story, "\"attempt\":"), 2);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

#ifdef HF_FAULTS
#define LATE_MS 400 /* a pause, less than which the handler does not take */

static bool is_late(void *ctx)
{
    return mono_us() - *(int64_t *)ctx > 2 * LATE_MS * INT64_C(1000);
}

static bool was_reported(void *ctx)
{
    return point_hits("before_report") > *(int64_t *)ctx;
}

/* The turn of the dispatcher in which the attempt is stored began before the handler had ended. */
static void the_pause_counts_from_the_end_of_the_attempt(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, always_fail);
    hf_subscription_options options = quick_options();
    int64_t stopped_us, reports;

    recorder->door = scene_door(scene);
    options.attempts_max = 2;
    options.handler_timeout_ms = 10 * DEADLINE_MS;
    options.retry_base_ms = LATE_MS;
    options.retry_max_ms = LATE_MS;
    options.retry_jitter_percent = 0;
    subscribe(scene->bus, "a", "x", recorder, &options);
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->door, 1));
    point_arm("after_refresh", 1, POINT_STOP_THREAD);
    publish(scene->bus, "y", NULL, "1");
    assert_true(point_wait_blocked("after_refresh", DEADLINE_MS));
    stopped_us = mono_us();
    reports = point_hits("before_report");
    assert_true(wait_until(is_late, &stopped_us));
    door_open(recorder->door);
    assert_true(wait_until(was_reported, &reports));
    point_release("after_refresh");
    assert_true(recorder_wait(recorder, 2));
    assert_true(pause_ms(recorder, 0) >= LATE_MS - 2);
    settle_all(scene->bus, "a");
}

static int release_and_teardown(void **state)
{
    point_reset(); /* no thread may stay stopped while the bus is closed */
    return scene_teardown(state);
}
#endif

static hf_verdict fail_bad_ones(const hf_event *event, hf_delivery *delivery,
                                struct recorder *recorder)
{
    atomic_bool *heal = recorder->extra;

    (void)delivery;
    return strcmp(event->payload, "\"bad\"") == 0 && !atomic_load(heal) ? HF_RETRY : HF_ACK;
}

static void a_waiting_retry_occupies_no_worker(void **state)
{
    static atomic_bool heal;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_bad_ones);
    hf_subscription_options options = quick_options();
    hf_receipt bad;
    int32_t attempts = 0;

    atomic_store(&heal, false);
    recorder->extra = &heal;
    options.retry_base_ms = 60000;
    options.retry_max_ms = 60000;
    options.retry_jitter_percent = 0;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    bad = *publish(scene->bus, "x", "bad", "\"bad\"");
    for (int i = 0; i < 10; i++) {
        assert_ok(
            hf_wait(scene->bus, "a", publish(scene->bus, "x", "k", "1")->position, DEADLINE_MS));
    }
    assert_int_equal(state_of(scene->bus, "a", bad.id, &attempts), HF_STATE_RETRYING);
    assert_int_equal(attempts, 1);
    assert_int_equal(info_of(scene->bus, "a").retrying, 1);
    assert_status(hf_wait(scene->bus, "a", bad.position, 20), HF_TIMEOUT);
    assert_status(hf_wait(scene->bus, "a", -1, 20), HF_TIMEOUT);
}

static void a_retry_and_its_story_survive_a_restart(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, always_fail);
    hf_subscription_options options = quick_options();
    struct dead dead;

    options.attempts_max = 3;
    options.retry_base_ms = 300;
    options.retry_max_ms = 300;
    options.retry_jitter_percent = 0;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    assert_true(recorder_wait(recorder, 1));
    scene_reopen(scene);
    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 3);
    assert_int_equal(recorder_get(recorder, 1).attempt, 2);
    assert_true(pause_ms(recorder, 0) >= 290);
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    assert_int_equal(dead.attempts, 3);
    assert_int_equal(occurrences(dead.story, "failure number"), 3);
}

/* ---- Other verdicts -------------------------------------------------------------------------- */

static hf_verdict uncounted_ten_times(const hf_event *event, hf_delivery *delivery,
                                      struct recorder *recorder)
{
    int *calls = recorder->extra;

    (void)event;
    if (++*calls <= 10) {
        return HF_RETRY_UNCOUNTED;
    }
    hf_delivery_error(delivery, "a counted failure");
    return HF_RETRY;
}

static void an_uncounted_retry_is_not_an_attempt(void **state)
{
    static int calls;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, uncounted_ten_times);
    hf_subscription_options options = quick_options();
    struct dead dead;

    calls = 0;
    recorder->extra = &calls;
    options.attempts_max = 2;
    options.retry_base_ms = 1;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 12);
    for (size_t i = 0; i < 11; i++) {
        assert_int_equal(recorder_get(recorder, i).attempt, 1);
    }
    assert_int_equal(recorder_get(recorder, 11).attempt, 2);
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    assert_int_equal(dead.attempts, 2);
}

static hf_verdict uncounted_for_ever(const hf_event *event, hf_delivery *delivery,
                                     struct recorder *recorder)
{
    (void)event;
    (void)delivery;
    (void)recorder;
    return HF_RETRY_UNCOUNTED;
}

static void uncounted_retries_end_after_a_hundred(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, uncounted_for_ever);
    hf_subscription_options options = quick_options();
    struct dead dead;

    options.attempts_max = 2;
    options.retry_base_ms = 1;
    options.retry_max_ms = 1;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_in_range(recorder_count(recorder), 101, 102);
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    assert_string_equal(dead.reason, "attempts");
}

static hf_verdict reject(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)recorder;
    hf_delivery_error(delivery, "will never work");
    return strcmp(event->type, "undecodable") == 0 ? HF_UNDECODABLE : HF_DEAD;
}

static void dead_and_undecodable_are_dead_at_once_with_their_reason(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, reject);
    struct dead dead[2];

    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "rejected", NULL, "1");
    settle_all(scene->bus, "a");
    publish(scene->bus, "undecodable", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
    assert_int_equal(dead_of(scene->bus, "a", dead, 2), 2);
    assert_string_equal(dead[0].type, "undecodable");
    assert_string_equal(dead[0].reason, "decode");
    assert_string_equal(dead[1].reason, "rejected");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dead[i].attempts, 1);
        assert_string_equal(dead[i].error, "will never work");
        assert_int_equal(occurrences(dead[i].story, "will never work"), 1);
    }
}

static hf_verdict nonsense(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)event;
    (void)delivery;
    (void)recorder;
    return (hf_verdict)42;
}

static void an_unknown_verdict_is_a_failure(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, nonsense);
    hf_subscription_options options = quick_options();

    options.attempts_max = 2;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(info_of(scene->bus, "a").dead, 1);
}

static const struct CMUnitTest tests[] = {
    scene_test(delays_grow_from_the_base_by_the_multiplier_up_to_the_maximum),
    scene_test(a_handler_can_make_the_next_attempt_wait_longer_but_not_shorter),
    scene_test(jitter_stays_within_its_percentage_and_the_maximum),
    scene_test(an_event_is_dead_after_attempts_max_with_every_error),
    scene_test(with_one_attempt_there_is_no_retry),
    scene_test(each_subscription_has_its_own_policy),
    scene_test(options_given_later_replace_only_what_they_give),
    scene_test(every_failed_attempt_makes_one_record_with_all_fields),
    scene_test(an_error_is_kept_up_to_its_limit),
    scene_test(a_hostile_error_text_is_kept_and_the_story_stays_json),
    scene_test(a_failure_without_a_word_still_counts),
#ifdef HF_FAULTS
    cmocka_unit_test_setup_teardown(the_pause_counts_from_the_end_of_the_attempt, scene_setup,
                                    release_and_teardown),
#endif
    scene_test(a_waiting_retry_occupies_no_worker),
    scene_test(a_retry_and_its_story_survive_a_restart),
    scene_test(an_uncounted_retry_is_not_an_attempt),
    scene_test(uncounted_retries_end_after_a_hundred),
    scene_test(dead_and_undecodable_are_dead_at_once_with_their_reason),
    scene_test(an_unknown_verdict_is_a_failure),
};

SCENE_MAIN(tests)
