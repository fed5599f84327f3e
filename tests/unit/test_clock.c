/* Unit tests of base/clock, base/deadline and the waiting of base/thread. */
#include "base/thread.h"
#include "base/time/clock.h"
#include "base/time/deadline.h"
#include "unit.h"

#include <signal.h>
#include <sys/prctl.h>

static void the_real_clocks_run_and_mono_never_goes_back(void **state)
{
    int64_t last = clock_mono_us();

    (void)state;
    for (int i = 0; i < 1000; i++) {
        int64_t now = clock_mono_us();

        assert_true(now >= last);
        last = now;
    }
    assert_true(clock_wall_us() > INT64_C(1600000000000000));
    assert_false(clock_is_fake());
}

static void the_fake_clock_stands_still_until_it_is_advanced(void **state)
{
    (void)state;
    clock_fake_set(1000, 50);
    assert_true(clock_is_fake());
    assert_int_equal(clock_wall_us(), 1000);
    assert_int_equal(clock_mono_us(), 50);
    clock_fake_advance(7);
    assert_int_equal(clock_wall_us(), 1007);
    assert_int_equal(clock_mono_us(), 57);
    clock_fake_off();
    assert_true(clock_wall_us() > 1007);
}

static void a_deadline_passes_at_its_microsecond(void **state)
{
    (void)state;
    clock_fake_set(0, 1000000);

    struct deadline deadline = deadline_after_ms(10);

    assert_int_equal(deadline_left_ms(deadline), 10);
    clock_fake_advance(9001);
    assert_int_equal(deadline_left_ms(deadline), 1); /* rounded up */
    assert_false(deadline_passed(deadline));
    clock_fake_advance(999);
    assert_true(deadline_passed(deadline));
    assert_int_equal(deadline_left_ms(deadline), 0);
    clock_fake_advance(5000);
    assert_int_equal(deadline_left_ms(deadline), 0);
    clock_fake_off();
}

static void a_negative_or_enormous_time_is_never(void **state)
{
    (void)state;
    assert_true(deadline_is_never(deadline_after_ms(-1)));
    assert_true(deadline_is_never(deadline_after_ms(INT64_MAX)));
    assert_false(deadline_is_never(deadline_after_ms(0)));
    assert_false(deadline_passed(DEADLINE_NEVER));
    assert_int_equal(deadline_left_ms(DEADLINE_NEVER), -1);
    assert_true(deadline_timespec(DEADLINE_NEVER).tv_sec > clock_mono_us() / 1000000 + 3600);
}

static void earlier_picks_the_one_that_comes_first(void **state)
{
    struct deadline soon = {5}, late = {6};

    (void)state;
    assert_int_equal(deadline_earlier(soon, late).mono_us, 5);
    assert_int_equal(deadline_earlier(late, soon).mono_us, 5);
    assert_int_equal(deadline_earlier(DEADLINE_NEVER, late).mono_us, 6);
}

static void timespec_splits_seconds_and_nanoseconds(void **state)
{
    struct timespec at = deadline_timespec((struct deadline){INT64_C(12345678)});

    (void)state;
    assert_int_equal(at.tv_sec, 12);
    assert_int_equal(at.tv_nsec, 345678000);
}

static void *look_around(void *ctx)
{
    sigset_t *blocked = ctx;
    char name[16];

    pthread_sigmask(SIG_SETMASK, NULL, blocked);
    prctl(PR_GET_NAME, name);
    return strcmp(name, "a-rather-long-n") == 0 ? ctx : NULL;
}

static void a_thread_blocks_all_signals_has_its_name_and_its_creator_keeps_its_mask(void **state)
{
    sigset_t mine, in_thread;
    pthread_t thread;
    void *result;

    (void)state;
    assert_ok(thread_start(&thread, "a-rather-long-name", look_around, &in_thread));
    pthread_join(thread, &result);
    assert_ptr_equal(result, &in_thread);
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    for (int number = 1; number < NSIG; number++) {
        bool reserved = number == SIGKILL || number == SIGSTOP || (number >= 32 && number < 34);

        if (reserved) {
            continue;
        }
        assert_int_equal(sigismember(&in_thread, number), 1);
        assert_int_equal(sigismember(&mine, number), 0);
    }
}

static void a_wait_ends_when_its_deadline_passes(void **state)
{
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    struct deadline deadline = deadline_after_ms(5);

    (void)state;
    assert_ok(mutex_init(&mutex));
    assert_ok(cond_init(&cond));
    pthread_mutex_lock(&mutex);
    while (cond_wait_until(&cond, &mutex, deadline)) {
        continue;
    }
    assert_true(deadline_passed(deadline));
    pthread_mutex_unlock(&mutex);
    pthread_cond_destroy(&cond);
    pthread_mutex_destroy(&mutex);
}

static void *advance_clock(void *ctx)
{
    (void)ctx;
    clock_fake_advance(3600 * INT64_C(1000000));
    return NULL;
}

static void a_wait_notices_that_the_fake_clock_was_advanced(void **state)
{
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    pthread_t thread;

    (void)state;
    assert_ok(mutex_init(&mutex));
    assert_ok(cond_init(&cond));
    clock_fake_set(0, 0);

    struct deadline deadline = deadline_after_ms(3600 * 1000);

    pthread_mutex_lock(&mutex);
    assert_true(cond_wait_until(&cond, &mutex, deadline)); /* an hour left, and it stands still */
    assert_ok(thread_start(&thread, "advance", advance_clock, NULL));
    while (cond_wait_until(&cond, &mutex, deadline)) {
        continue;
    }
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    clock_fake_off();
    pthread_cond_destroy(&cond);
    pthread_mutex_destroy(&mutex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_real_clocks_run_and_mono_never_goes_back),
        cmocka_unit_test(the_fake_clock_stands_still_until_it_is_advanced),
        cmocka_unit_test(a_deadline_passes_at_its_microsecond),
        cmocka_unit_test(a_negative_or_enormous_time_is_never),
        cmocka_unit_test(earlier_picks_the_one_that_comes_first),
        cmocka_unit_test(timespec_splits_seconds_and_nanoseconds),
        cmocka_unit_test(a_thread_blocks_all_signals_has_its_name_and_its_creator_keeps_its_mask),
        cmocka_unit_test(a_wait_ends_when_its_deadline_passes),
        cmocka_unit_test(a_wait_notices_that_the_fake_clock_was_advanced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
