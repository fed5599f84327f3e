/*
 * test_rate.c - how fast events come into a namespace, and how fast its subscriptions settle them.
 */
#include "support_scene.h"

static void the_rate_of_a_namespace_is_that_of_the_last_minute(void **state)
{
    struct scene *scene = *state;
    hf_stats stats = {.size = sizeof stats};
    assert_ok(hf_stats_get(scene->bus, &stats));
    assert_true(stats.rate == 0);
    for (int i = 0; i < 30; i++) {
        publish(scene->bus, "a.b", NULL, NULL);
    }
    assert_ok(hf_stats_get(scene->bus, &stats));
    assert_true(stats.rate == 0.5);
}

/* Settles 30 more events in both subscriptions. Answers how long that took. */
static int64_t settle_thirty(hf_bus *bus)
{
    int64_t begun_us = mono_us();
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    options.max = 30;
    hf_batch *batch;
    for (int i = 0; i < 30; i++) {
        publish(bus, "a.b", i % 2 ? "odd" : "even", NULL);
    }
    assert_ok(hf_claim(bus, "s", &options, &batch));
    assert_int_equal(hf_batch_count(batch), 30);
    assert_ok(hf_ack(bus, "s", hf_batch_lease(batch), NULL, 0));
    hf_batch_free(batch);
    settle_all(bus, "t");
    return mono_us() - begun_us;
}

static bool both_are_up_to_date(void *ctx)
{
    return info_of(ctx, "s").lag == 0 && info_of(ctx, "t").lag == 0;
}

static void subscriptions_have_rates(void **state)
{
    struct scene *scene = *state;
    const char *pattern = "a.*";
    hf_subscription_options shared = quick_options();
    hf_subscription_options ordered = quick_options();
    shared.mode = HF_MODE_SHARED;
    ordered.partitions = 4;
    assert_ok(hf_subscription_create(scene->bus, "s", &pattern, 1, &shared, NULL));
    subscribe(scene->bus, "t", "a.*", scene_recorder(scene, NULL), &ordered);
    assert_ok(hf_start(scene->bus));
    assert_true(info_of(scene->bus, "s").rate == 0);
    assert_true(info_of(scene->bus, "t").rate == 0);
    /* They are over the last 30 to 60 seconds: a machine that is slower than that tries again. */
    for (int count = 30;; count += 30) {
        int64_t spent_us = settle_thirty(scene->bus);
        int64_t begun_us = mono_us();
        assert_true(wait_until(both_are_up_to_date, scene->bus));
        double s_rate = info_of(scene->bus, "s").rate;
        double t_rate = info_of(scene->bus, "t").rate;
        spent_us += mono_us() - begun_us;
        if (spent_us < INT64_C(25000000)) {
            assert_true(s_rate >= 30 / 60.0 && s_rate <= count / 30.0);
            assert_true(t_rate >= 30 / 60.0 && t_rate <= count / 30.0);
            break;
        }
        assert_true(count < 600);
    }
    assert_ok(hf_stop(scene->bus, -1));
    hf_place start = {HF_PLACE_START, 0};
    assert_ok(hf_seek(scene->bus, "s", start, HF_OFF, NULL));
    assert_ok(hf_seek(scene->bus, "t", start, HF_OFF, NULL));
    assert_true(info_of(scene->bus, "s").rate == -1); /* not known, which is not 0 */
    assert_true(info_of(scene->bus, "t").rate == -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(the_rate_of_a_namespace_is_that_of_the_last_minute),
        scene_test(subscriptions_have_rates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
