/*
 * Tests of more than can be known (set64_bound): of more failing keys, and of more events that are
 * done above a position that is still open. Nothing stands still, and nothing comes out of order.
 */
#include "support_scene.h"

#include "base/set64.h"

#define KNOWN 8
#define KEYS 30

static int bounds_teardown(void **state)
{
    set64_bound(0);
    return scene_teardown(state);
}

/* The first event of each key fails the first time. */
static hf_verdict fail_once(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)recorder;
    return strcmp(event->type, "once") == 0 && hf_delivery_attempt(delivery) == 1 ? HF_RETRY
                                                                                  : HF_ACK;
}

/* What was acknowledged of a key is in order. */
static void expect_order(struct recorder *recorder)
{
    int64_t latest[KEYS] = {0};

    for (size_t i = 0; i < recorder_count(recorder); i++) {
        struct seen seen = recorder_get(recorder, i);
        int64_t *before = &latest[strtol(seen.key, NULL, 10)];

        if (strcmp(seen.type, "once") == 0 && seen.attempt == 1) {
            continue;
        }
        assert_true(seen.position > *before);
        *before = seen.position;
    }
}

static void publish_keys(hf_bus *bus, const char *type, const char *payload)
{
    char key[16];

    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "%d", i);
        publish(bus, type, key, payload);
    }
}

static void fail_more_keys_than_can_be_known(struct scene *scene, hf_toggle transactional)
{
    struct recorder *recorder = scene_recorder(scene, fail_once);
    hf_subscription_options options = quick_options();

    set64_bound(KNOWN);
    options.transactional = transactional;
    options.concurrency = 1;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish_keys(scene->bus, "once", "1");
    publish_keys(scene->bus, "x", "2");
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 3 * KEYS);
    assert_int_equal(info_of(scene->bus, "a").retrying, 0);
    expect_order(recorder);
}

static void more_keys_may_fail_than_the_process_can_remember(void **state)
{
    fail_more_keys_than_can_be_known(*state, HF_OFF);
}

static void more_keys_may_fail_in_transactions_than_the_process_can_remember(void **state)
{
    fail_more_keys_than_can_be_known(*state, HF_ON);
}

/* What was read of the log, and waits for the keys to be known again, is as much as may be in
 * hand: retries are read all the same. */
static void large_events_do_not_keep_retries_waiting(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_once);
    hf_subscription_options options = quick_options();
    size_t bytes = 900000;
    char *payload = malloc(bytes + 1);

    memset(payload, '1', bytes);
    payload[bytes] = '\0';
    set64_bound(2);
    options.concurrency = 1;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish_keys(scene->bus, "once", payload);
    free(payload);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2 * KEYS);
}

#define bounds_test(test) cmocka_unit_test_setup_teardown(test, scene_setup, bounds_teardown)

static const struct CMUnitTest tests[] = {
    bounds_test(more_keys_may_fail_than_the_process_can_remember),
    bounds_test(more_keys_may_fail_in_transactions_than_the_process_can_remember),
    bounds_test(large_events_do_not_keep_retries_waiting),
};

SCENE_MAIN(tests)
