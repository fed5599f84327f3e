/*
 * test_release_after.c - giving claimed events back for later.
 */
#include "support_scene.h"

static void create(hf_bus *bus)
{
    const char *patterns[] = {"job.*"};
    hf_subscription_options options = quick_options();
    options.mode = HF_MODE_SHARED;
    options.attempts_max = 2;
    assert_ok(hf_subscription_create(bus, "s", patterns, 1, &options, NULL));
}

/* Claims what is due within wait_ms; answers how many, the first one's attempt and the lease. */
static size_t claim(hf_bus *bus, int64_t wait_ms, int32_t *ret_attempt, char lease[HF_LEASE_BYTES])
{
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    hf_batch *batch = NULL;
    options.wait_ms = wait_ms;
    assert_ok(hf_claim(bus, "s", &options, &batch));
    size_t count = hf_batch_count(batch);
    *ret_attempt = hf_batch_attempt(batch, 0);
    memcpy(lease, hf_batch_lease(batch), strlen(hf_batch_lease(batch)) + 1);
    hf_batch_free(batch);
    return count;
}

static int take_state(const hf_event_state *found, void *ctx)
{
    *(hf_event_state *)ctx = *found;
    return 0;
}

static void an_event_released_for_later_waits_for_its_time(void **state)
{
    struct scene *scene = *state;
    char lease[HF_LEASE_BYTES];
    hf_event_state found = {0};
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_receipt receipt;
    int32_t attempt;
    create(scene->bus);
    publish(scene->bus, "job.new", NULL, "{}");
    event.type = "job.new";
    assert_ok(hf_publish(scene->bus, &event, &receipt));
    assert_int_equal(claim(scene->bus, 0, &attempt, lease), 2);
    int64_t before_us = wall_us();
    assert_ok(hf_release_after(scene->bus, "s", lease, &receipt.position, 1, 3600000));
    assert_status(hf_ack(scene->bus, "s", lease, &receipt.position, 1), HF_STALE);
    assert_ok(hf_ack(scene->bus, "s", lease, NULL, 0));
    assert_int_equal(claim(scene->bus, 0, &attempt, lease), 0);
    assert_ok(hf_event_states(scene->bus, receipt.id, take_state, &found));
    assert_int_equal(found.state, HF_STATE_RETRYING);
    assert_int_equal(found.attempts, 0);
    assert_in_range(found.next_attempt_at_us, before_us + INT64_C(3599000000),
                    wall_us() + INT64_C(3601000000));
}

static void releasing_for_later_counts_no_attempt_and_forgets_none(void **state)
{
    struct scene *scene = *state;
    char lease[HF_LEASE_BYTES];
    int32_t attempt;
    create(scene->bus);
    publish(scene->bus, "job.new", NULL, "{}");
    for (int i = 0; i < 5; i++) { /* more often than attempts_max */
        assert_int_equal(claim(scene->bus, DEADLINE_MS, &attempt, lease), 1);
        assert_int_equal(attempt, 1);
        assert_ok(hf_release_after(scene->bus, "s", lease, NULL, 0, i));
    }
    assert_int_equal(claim(scene->bus, DEADLINE_MS, &attempt, lease), 1);
    assert_ok(hf_nack(scene->bus, "s", lease, NULL, 0, 0, "once"));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(claim(scene->bus, DEADLINE_MS, &attempt, lease), 1);
        assert_int_equal(attempt, 2);
        assert_ok(hf_release_after(scene->bus, "s", lease, NULL, 0, 1));
    }
}

static void releasing_for_later_is_refused_as_a_release_is(void **state)
{
    struct scene *scene = *state;
    char lease[HF_LEASE_BYTES];
    int64_t one[] = {1};
    int32_t attempt;
    create(scene->bus);
    publish(scene->bus, "job.new", NULL, "{}");
    assert_int_equal(claim(scene->bus, 0, &attempt, lease), 1);
    assert_status(hf_release_after(scene->bus, "s", lease, one, 1, -1), HF_INVALID);
    assert_non_null(strstr(hf_errmsg(), "delay_ms is -1"));
    assert_status(hf_release_after(scene->bus, "s", lease, one, 1, INT64_C(31622400001)),
                  HF_INVALID);
    assert_ok(hf_release(scene->bus, "s", lease, one, 1));
    assert_status(hf_release_after(scene->bus, "s", lease, one, 1, 1), HF_STALE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(an_event_released_for_later_waits_for_its_time),
        scene_test(releasing_for_later_counts_no_attempt_and_forgets_none),
        scene_test(releasing_for_later_is_refused_as_a_release_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
