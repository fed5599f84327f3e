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

/* Settles 30 events in both subscriptions. */
static void settle_thirty(hf_bus *bus)
{
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
}

/* What a rate is told of is the life of the subscription, which began between these times, but a
 * second at least, and 30 to 60 seconds at most: machines may be that slow. */
static double life_since(int64_t us)
{
    double seconds = (double)(mono_us() - us) / 1e6;
    return seconds < 1 ? 1 : seconds;
}

static void expect_rate_of_thirty(hf_bus *bus, const char *name, int64_t begun_us,
                                  int64_t created_us)
{
    double least = life_since(created_us);
    double rate = info_of(bus, name).rate;
    double most = life_since(begun_us);
    assert_true(rate >= 30 / (most < 60 ? most : 60) - 0.001);
    assert_true(rate <= 30 / (least < 30 ? least : 30) + 0.001);
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
    int64_t begun_us = mono_us();
    assert_ok(hf_subscription_create(scene->bus, "s", &pattern, 1, &shared, NULL));
    subscribe(scene->bus, "t", "a.*", scene_recorder(scene, NULL), &ordered);
    int64_t created_us = mono_us();
    assert_ok(hf_start(scene->bus));
    assert_true(info_of(scene->bus, "s").rate == 0);
    assert_true(info_of(scene->bus, "t").rate == 0);
    settle_thirty(scene->bus);
    assert_true(wait_until(both_are_up_to_date, scene->bus));
    expect_rate_of_thirty(scene->bus, "s", begun_us, created_us);
    expect_rate_of_thirty(scene->bus, "t", begun_us, created_us);
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
