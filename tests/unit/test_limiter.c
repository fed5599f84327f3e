/*
 * test_limiter.c - the bucket of tokens behind the rate of a subscription.
 */
#include "unit.h"

#include "base/limiter.h"

#define T0 INT64_C(1800000000000000)
#define SECOND INT64_C(1000000)

static const struct limiter hundred = {100, SECOND};

static struct limiter_answer take(int64_t *empty_us, int64_t now_us, int64_t want)
{
    struct limiter_answer answer = limiter_take(&hundred, *empty_us, now_us, want);
    *empty_us = answer.empty_us;
    return answer;
}

static void a_new_bucket_has_one_token(void **state)
{
    (void)state;
    int64_t empty_us = LIMITER_NEW;
    struct limiter_answer answer = take(&empty_us, T0, 5);
    assert_int_equal(answer.granted, 1);
    assert_in_range(answer.wait_us, 10000, 10002);
    answer = take(&empty_us, T0 + 9000, 5);
    assert_int_equal(answer.granted, 0);
    assert_in_range(answer.wait_us, 1000, 1002);
    answer = take(&empty_us, T0 + 9000 + answer.wait_us, 1);
    assert_int_equal(answer.granted, 1);
    assert_int_equal(answer.wait_us, 0);
}

static void tokens_that_are_not_taken_are_lost_after_the_burst(void **state)
{
    (void)state;
    int64_t empty_us = LIMITER_NEW;
    take(&empty_us, T0, 1);
    struct limiter_answer answer = take(&empty_us, T0 + 3600 * SECOND, 100000);
    assert_int_equal(answer.granted, 100 * LIMITER_BURST_US / SECOND);
    empty_us = T0;
    answer = take(&empty_us, T0 + LIMITER_BURST_US + SECOND / 2, 100000);
    assert_int_equal(answer.granted, 100 * LIMITER_BURST_US / SECOND);
}

static void however_many_take_from_a_bucket_their_sum_is_the_rate(void **state)
{
    (void)state;
    int64_t empty_us = LIMITER_NEW;
    int64_t sum = 0;
    uint64_t chance = 1;
    int64_t now_us = T0;
    while (now_us < T0 + 60 * SECOND) {
        sum += take(&empty_us, now_us, (int64_t)(chance % 7) + 10).granted;
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        now_us += (int64_t)(chance >> 33) % 60000;
    }
    assert_in_range(sum, 60 * 100 - 20, 60 * 100 + 1);
}

static void tokens_that_are_given_back_can_be_taken_again(void **state)
{
    (void)state;
    int64_t empty_us = T0;
    assert_int_equal(take(&empty_us, T0 + SECOND / 2, 50).granted, 50);
    assert_int_equal(take(&empty_us, T0 + SECOND / 2, -20).granted, -20);
    assert_int_equal(take(&empty_us, T0 + SECOND / 2, 50).granted, 20);
}

static void a_clock_that_was_set_back_empties_the_bucket_and_does_not_stop_it(void **state)
{
    (void)state;
    int64_t empty_us = T0 + 3600 * SECOND;
    assert_int_equal(take(&empty_us, T0, 1).granted, 0);
    struct limiter_answer answer = limiter_take(&hundred, T0 + 3600 * SECOND, T0, 1);
    assert_in_range(answer.wait_us, 10000, 10002);
    assert_int_equal(answer.empty_us, T0);
}

static void a_rate_of_one_in_an_hour_is_kept(void **state)
{
    (void)state;
    struct limiter hourly = {1, 3600 * SECOND};
    struct limiter_answer answer = limiter_take(&hourly, LIMITER_NEW, T0, 3);
    assert_int_equal(answer.granted, 1);
    answer = limiter_take(&hourly, answer.empty_us, T0 + 3599 * SECOND, 3);
    assert_int_equal(answer.granted, 0);
    assert_in_range(answer.wait_us, SECOND, SECOND + 2);
    answer = limiter_take(&hourly, answer.empty_us, T0 + 36000 * SECOND, 3);
    assert_int_equal(answer.granted, 1);
}

static void a_rate_of_a_million_in_a_second_is_counted_exactly(void **state)
{
    (void)state;
    struct limiter fast = {1000000, SECOND};
    struct limiter_answer answer = limiter_take(&fast, T0, T0 + 333, 1000000);
    assert_int_equal(answer.granted, 333);
    assert_int_equal(answer.empty_us, T0 + 333);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_bucket_has_one_token),
        cmocka_unit_test(tokens_that_are_not_taken_are_lost_after_the_burst),
        cmocka_unit_test(however_many_take_from_a_bucket_their_sum_is_the_rate),
        cmocka_unit_test(tokens_that_are_given_back_can_be_taken_again),
        cmocka_unit_test(a_clock_that_was_set_back_empties_the_bucket_and_does_not_stop_it),
        cmocka_unit_test(a_rate_of_one_in_an_hour_is_kept),
        cmocka_unit_test(a_rate_of_a_million_in_a_second_is_counted_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
