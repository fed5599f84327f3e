/* Unit tests of base/retry: a table, and properties over random policies. */
#include "base/time/retry.h"
#include "unit.h"

#define NO_JITTER (UINT64_C(1) << 63) /* the middle of the range */

static const struct retry_policy policy_default = {
    .attempts_max = 4,
    .base_ms = 1000,
    .multiplier = 2.0,
    .max_ms = 30000,
    .jitter_percent = 10,
};

static void the_default_policy_waits_1_2_4_seconds(void **state)
{
    struct retry_policy policy = policy_default;

    (void)state;
    assert_int_equal(retry_delay_ms(&policy, 1, NO_JITTER), 0);
    assert_int_equal(retry_delay_ms(&policy, 2, NO_JITTER), 1000);
    assert_int_equal(retry_delay_ms(&policy, 3, NO_JITTER), 2000);
    assert_int_equal(retry_delay_ms(&policy, 4, NO_JITTER), 4000);
    assert_int_equal(retry_delay_ms(&policy, 7, NO_JITTER), 30000);
}

static void jitter_reaches_both_sides_and_not_beyond(void **state)
{
    struct retry_policy policy = policy_default;

    (void)state;
    assert_int_equal(retry_delay_ms(&policy, 2, 0), 900);
    assert_int_equal(retry_delay_ms(&policy, 2, UINT64_MAX), 1100);
    policy.jitter_percent = 100;
    assert_int_equal(retry_delay_ms(&policy, 2, 0), 0);
    assert_int_equal(retry_delay_ms(&policy, 2, UINT64_MAX), 2000);
}

static void the_clamp_comes_after_the_jitter(void **state)
{
    struct retry_policy policy = policy_default;

    (void)state;
    assert_int_equal(retry_delay_ms(&policy, 20, UINT64_MAX), 30000);
    assert_int_equal(retry_delay_ms(&policy, 20, 0), 27000);
}

static struct retry_policy draw_policy(uint64_t *seed)
{
    struct retry_policy policy;

    policy.attempts_max = 1 + (int32_t)chance_below(seed, RETRY_ATTEMPTS_MAX);
    policy.max_ms = (int64_t)(chance(seed) >> chance_below(seed, 64)) % (RETRY_DELAY_MS_MAX + 1);
    policy.max_ms = policy.max_ms < 0 ? -policy.max_ms : policy.max_ms;
    policy.base_ms = (int64_t)chance_below(seed, (uint64_t)policy.max_ms + 1);
    policy.multiplier = 1.0 + (double)chance_below(seed, 99001) / 1000.0;
    policy.jitter_percent = (int32_t)chance_below(seed, 101);
    return policy;
}

static void any_delay_of_any_attempt_lies_within_the_maximum(void **state)
{
    static const int32_t attempts[] = {1, 2, 3, 10, 100, 1000, 1000000, INT32_MAX};
    uint64_t seed = 29;

    (void)state;
    for (int i = 0; i < 50000; i++) {
        struct retry_policy policy = draw_policy(&seed);

        for (size_t a = 0; a < COUNT_OF(attempts); a++) {
            int64_t delay_ms = retry_delay_ms(&policy, attempts[a], chance(&seed));

            assert_true(delay_ms >= 0 && delay_ms <= policy.max_ms);
        }
    }
}

static void without_jitter_delays_never_shrink_and_end_at_the_maximum(void **state)
{
    uint64_t seed = 31;

    (void)state;
    for (int i = 0; i < 5000; i++) {
        struct retry_policy policy = draw_policy(&seed);
        int64_t last_ms = 0;

        policy.jitter_percent = 0;
        for (int32_t attempt = 2; attempt < 60; attempt++) {
            int64_t delay_ms = retry_delay_ms(&policy, attempt, chance(&seed));

            assert_true(delay_ms >= last_ms);
            last_ms = delay_ms;
        }
        assert_int_equal(retry_delay_ms(&policy, 2, 0), policy.base_ms);
        if (policy.multiplier >= 2.0 && policy.base_ms > 0) {
            assert_int_equal(last_ms, policy.max_ms);
        }
    }
}

static void jitter_stays_within_its_percentage(void **state)
{
    uint64_t seed = 37;

    (void)state;
    for (int i = 0; i < 50000; i++) {
        struct retry_policy policy = draw_policy(&seed), plain = policy;
        int32_t attempt = 2 + (int32_t)chance_below(&seed, 20);

        plain.jitter_percent = 0;

        double centre = (double)retry_delay_ms(&plain, attempt, 0);
        double delay = (double)retry_delay_ms(&policy, attempt, chance(&seed));
        double reach = centre * policy.jitter_percent / 100.0 + 1.5; /* two roundings */

        assert_true(delay >= centre - reach && delay <= centre + reach);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_policy_waits_1_2_4_seconds),
        cmocka_unit_test(jitter_reaches_both_sides_and_not_beyond),
        cmocka_unit_test(the_clamp_comes_after_the_jitter),
        cmocka_unit_test(any_delay_of_any_attempt_lies_within_the_maximum),
        cmocka_unit_test(without_jitter_delays_never_shrink_and_end_at_the_maximum),
        cmocka_unit_test(jitter_stays_within_its_percentage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
