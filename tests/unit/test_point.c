/* Unit tests of base/point. Fault points exist only in builds with HF_FAULTS. */
#include "base/point.h"
#include "unit.h"

#ifdef HF_FAULTS

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMEOUT_MS 10000

static void hits_are_counted_until_reset(void **state)
{
    (void)state;
    assert_int_equal(point_hits("counted"), 0);
    HF_POINT("counted");
    HF_POINT("counted");
    assert_int_equal(point_hits("counted"), 2);
    assert_int_equal(point_hits("never_hit"), 0);
    point_reset();
    assert_int_equal(point_hits("counted"), 0);
}

static void all_names_are_listed(void **state)
{
    const char *names[POINT_COUNT_MAX];
    bool seen = false;

    (void)state;
    HF_POINT("listed");

    size_t count = point_list(names, COUNT_OF(names));

    assert_int_equal(point_list(NULL, 0), count);
    for (size_t i = 0; i < count; i++) {
        seen |= strcmp(names[i], "listed") == 0;
    }
    assert_true(seen);
}

/* The exit status of a child that arms the point and hits it `hits` times. */
static int status_of_child(int64_t nth, int hits)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        point_arm("deadly", nth, POINT_KILL);
        for (int i = 0; i < hits; i++) {
            HF_POINT("deadly");
        }
        _exit(0);
    }
    waitpid(child, &status, 0);
    return status;
}

static void the_nth_hit_kills_and_no_earlier_one(void **state)
{
    (void)state;
    assert_int_equal(status_of_child(3, 2), 0);

    int status = status_of_child(3, 3);

    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

static _Atomic int passed;

static void *pass_points(void *ctx)
{
    (void)ctx;
    for (int i = 0; i < 3; i++) {
        HF_POINT("gate");
        atomic_fetch_add(&passed, 1);
    }
    return NULL;
}

static void a_thread_stops_at_the_nth_hit_until_it_is_released(void **state)
{
    pthread_t thread;

    (void)state;
    atomic_store(&passed, 0);
    point_arm("gate", 2, POINT_STOP_THREAD);
    pthread_create(&thread, NULL, pass_points, NULL);
    assert_true(point_wait_blocked("gate", TIMEOUT_MS));
    assert_int_equal(atomic_load(&passed), 1);
    HF_POINT("gate"); /* only the nth hit stops; this thread goes on */
    point_release("gate");
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&passed), 3);
    assert_int_equal(point_hits("gate"), 4);
    assert_false(point_wait_blocked("gate", 0));
    point_reset();
}

static void reset_releases_threads_that_are_stopped(void **state)
{
    pthread_t thread;

    (void)state;
    point_arm("gate", 1, POINT_STOP_THREAD);
    pthread_create(&thread, NULL, pass_points, NULL);
    assert_true(point_wait_blocked("gate", TIMEOUT_MS));
    point_reset();
    pthread_join(thread, NULL);
    assert_int_equal(point_hits("gate"), 2); /* the hit before the reset is forgotten */
    point_reset();
}

static void a_released_point_is_disarmed(void **state)
{
    (void)state;
    point_arm("gate", 1, POINT_STOP_THREAD);
    point_release("gate");
    HF_POINT("gate");
    assert_int_equal(point_hits("gate"), 1);
    point_reset();
}

static void *hit_often(void *ctx)
{
    (void)ctx;
    for (int i = 0; i < 10000; i++) {
        HF_POINT("busy");
        HF_POINT("busy_too");
    }
    return NULL;
}

static void threads_that_hit_at_once_lose_no_count(void **state)
{
    pthread_t threads[4];

    (void)state;
    for (size_t t = 0; t < COUNT_OF(threads); t++) {
        pthread_create(&threads[t], NULL, hit_often, NULL);
    }
    for (size_t t = 0; t < COUNT_OF(threads); t++) {
        pthread_join(threads[t], NULL);
    }
    assert_int_equal(point_hits("busy"), 40000);
    assert_int_equal(point_hits("busy_too"), 40000);
    point_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hits_are_counted_until_reset),
        cmocka_unit_test(all_names_are_listed),
        cmocka_unit_test(the_nth_hit_kills_and_no_earlier_one),
        cmocka_unit_test(a_thread_stops_at_the_nth_hit_until_it_is_released),
        cmocka_unit_test(reset_releases_threads_that_are_stopped),
        cmocka_unit_test(a_released_point_is_disarmed),
        cmocka_unit_test(threads_that_hit_at_once_lose_no_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void a_point_evaluates_nothing_in_a_release_build(void **state)
{
    int evaluated = 0;

    (void)state;
    HF_POINT((evaluated++, "gone"));
    assert_int_equal(evaluated, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_point_evaluates_nothing_in_a_release_build),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
