/*
 * test_timing.c - durations in buckets.
 */
#include "unit.h"

#include "base/timing.h"

#include <pthread.h>

#define THREADS 4
#define ADDED 20000

static hf_histogram read_one(int64_t us)
{
    struct timing timing = {0};
    hf_histogram histogram = {0};
    timing_add(&timing, us);
    timing_read(&timing, &histogram);
    return histogram;
}

static void bounds_rise_and_the_last_bucket_has_none(void **state)
{
    (void)state;
    int64_t before_us = 0;
    for (size_t i = 0; i < TIMING_BUCKETS; i++) {
        assert_true(timing_bound_us(i) > before_us);
        before_us = timing_bound_us(i);
    }
    assert_int_equal(timing_bound_us(0), 100);
    assert_true(timing_bound_us(TIMING_BUCKETS - 1) == INT64_MAX);
    assert_true(timing_bound_us(TIMING_BUCKETS) == INT64_MAX);
    assert_true(timing_bound_us(SIZE_MAX) == INT64_MAX);
}

static void a_duration_is_in_the_bucket_whose_bound_it_does_not_pass(void **state)
{
    (void)state;
    for (size_t i = 0; i + 1 < TIMING_BUCKETS; i++) {
        int64_t bound_us = timing_bound_us(i);
        assert_int_equal(read_one(bound_us).counts[i], 1);
        assert_int_equal(read_one(bound_us + 1).counts[i + 1], 1);
        assert_int_equal(read_one(bound_us).count, 1);
        assert_int_equal(read_one(bound_us).sum_us, bound_us);
    }
    assert_int_equal(read_one(0).counts[0], 1);
    assert_int_equal(read_one(INT64_MAX).counts[TIMING_BUCKETS - 1], 1);
}

static void a_clock_that_was_set_back_counts_as_nothing(void **state)
{
    (void)state;
    hf_histogram histogram = read_one(-5000000);
    assert_int_equal(histogram.counts[0], 1);
    assert_int_equal(histogram.sum_us, 0);
}

static void reading_adds_to_what_is_there(void **state)
{
    (void)state;
    struct timing timing = {0};
    hf_histogram histogram = {0};
    timing_add(&timing, 70);
    timing_add(&timing, 130);
    timing_read(&timing, &histogram);
    timing_read(&timing, &histogram);
    assert_int_equal(histogram.counts[0], 2);
    assert_int_equal(histogram.counts[1], 2);
    assert_int_equal(histogram.count, 4);
    assert_int_equal(histogram.sum_us, 400);
}

static void *add_many(void *ctx)
{
    for (int64_t i = 0; i < ADDED; i++) {
        timing_add(ctx, i);
    }
    return NULL;
}

static void threads_that_add_at_the_same_time_lose_nothing(void **state)
{
    (void)state;
    static struct timing timing;
    pthread_t threads[THREADS];
    hf_histogram histogram = {0};
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, &timing), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    timing_read(&timing, &histogram);
    assert_int_equal(histogram.count, THREADS * ADDED);
    assert_int_equal(histogram.sum_us, (int64_t)THREADS * ADDED * (ADDED - 1) / 2);
    assert_int_equal(histogram.counts[0], THREADS * 101); /* 0 to 100 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_rise_and_the_last_bucket_has_none),
        cmocka_unit_test(a_duration_is_in_the_bucket_whose_bound_it_does_not_pass),
        cmocka_unit_test(a_clock_that_was_set_back_counts_as_nothing),
        cmocka_unit_test(reading_adds_to_what_is_there),
        cmocka_unit_test(threads_that_add_at_the_same_time_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
