/*
 * test_meters.c - the meters of a bus: one for each subscription, whichever thread asks first.
 */
#include "unit.h"

#include "bus/meters.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 8
#define NAMES 500

static struct meters *meters_new(void **state)
{
    struct meters *meters = calloc(1, sizeof *meters);
    assert_non_null(meters);
    *state = meters;
    return meters;
}

static int free_meters(void **state)
{
    meters_release(*state);
    free(*state);
    return 0;
}

static void a_name_has_one_meter(void **state)
{
    struct meters *meters = meters_new(state);
    struct meter *mailer = meters_of(meters, "mailer");
    assert_string_equal(mailer->name, "mailer");
    assert_ptr_equal(meters_of(meters, "mailer"), mailer);
    assert_ptr_not_equal(meters_of(meters, "mailers"), mailer);
    assert_int_equal(atomic_load(&meters->count), 2);
}

static void *count_all(void *ctx)
{
    char name[32];
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "s%d", i);
        meter_count(&meters_of(ctx, name)->delivered, 1);
    }
    return NULL;
}

static int check_meter(const struct meter *meter, void *ctx)
{
    if (meter->name) {
        assert_int_equal(atomic_load(&meter->delivered), THREADS);
        ++*(int *)ctx;
    }
    return 0;
}

static void threads_that_ask_at_the_same_time_get_the_same_meter(void **state)
{
    struct meters *meters = meters_new(state);
    pthread_t threads[THREADS];
    int seen = 0;
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count_all, meters), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    meters_each(meters, check_meter, &seen);
    assert_int_equal(seen, NAMES);
    assert_int_equal(atomic_load(&meters->count), NAMES);
}

static void those_beyond_the_limit_share_one(void **state)
{
    struct meters *meters = meters_new(state);
    char name[32];
    for (int i = 0; i < HF_METRICS_SUBSCRIPTIONS_MAX; i++) {
        snprintf(name, sizeof name, "s%d", i);
        assert_string_equal(meters_of(meters, name)->name, name);
    }
    assert_null(meters_of(meters, "one")->name);
    assert_ptr_equal(meters_of(meters, "one"), meters_of(meters, "another"));
    assert_string_equal(meters_of(meters, "s7")->name, "s7");
}

static void what_is_wrong_with_an_event_is_no_failure_of_publishing(void **state)
{
    struct meters *meters = meters_new(state);
    hf_histogram publish = {0};
    meters_publish(meters, HF_CONFLICT, 10);
    meters_publish(meters, HF_CLOSED, 10);
    assert_int_equal(atomic_load(&meters->publish_failures), 0);
    meters_publish(meters, HF_BUSY, 10);
    meters_publish(meters, HF_UNKNOWN, 10);
    assert_int_equal(atomic_load(&meters->publish_failures), 2);
    meters_publish(meters, HF_OK, 10);
    timing_read(&meters->publish, &publish);
    assert_int_equal(publish.count, 1);
}

#define meters_test(test) cmocka_unit_test_teardown(test, free_meters)

int main(void)
{
    const struct CMUnitTest tests[] = {
        meters_test(a_name_has_one_meter),
        meters_test(threads_that_ask_at_the_same_time_get_the_same_meter),
        meters_test(those_beyond_the_limit_share_one),
        meters_test(what_is_wrong_with_an_event_is_no_failure_of_publishing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
