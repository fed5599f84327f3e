/*
 * test_async.c - publishing without waiting: answers, order, bounds, faults inside a share, flush
 * and shutdown. The thread of the queue is stopped at its fault point to fill the queue behind it.
 */
#include "support_trouble.h"

#include <stdatomic.h>
#include <sys/wait.h>

#include "base/point.h"
#include "base/time/clock.h"

#define ANSWERS_MAX 4096

/* What callbacks were told, in order. The ctx of each publish is its `slot`. */
struct answers {
    pthread_mutex_t mutex;
    int64_t count;
    struct answer {
        const void *slot;
        hf_status status;
        hf_receipt receipt;
        char message[128];
    } list[ANSWERS_MAX];
    atomic_int unexpected;
    hf_bus *bus; /* for callbacks that publish again */
    int64_t again;
};

static struct answers answers;
static char slots[ANSWERS_MAX]; /* addresses to tell publishes apart */

static void answered(hf_status status, const hf_receipt *receipt, const char *message, void *ctx)
{
    pthread_mutex_lock(&answers.mutex);
    struct answer *answer = &answers.list[answers.count++ % ANSWERS_MAX];
    answer->slot = ctx;
    answer->status = status;
    answer->receipt = *receipt;
    snprintf(answer->message, sizeof answer->message, "%s", message);
    pthread_mutex_unlock(&answers.mutex);
}

static int64_t answer_count(void)
{
    pthread_mutex_lock(&answers.mutex);
    int64_t count = answers.count;
    pthread_mutex_unlock(&answers.mutex);
    return count;
}

static hf_new_event event_of(const char *type)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    event.type = type;
    return event;
}

static int setup(void **state)
{
    memset(&answers, 0, sizeof answers);
    pthread_mutex_init(&answers.mutex, NULL);
    return scene_setup(state);
}

static int teardown(void **state)
{
    point_reset(); /* no thread may stay stopped while the bus is closed */
    return scene_teardown(state);
}

/* The same with a bus whose store refuses those who come late. */
static int setup_refusing(void **state)
{
    memset(&answers, 0, sizeof answers);
    pthread_mutex_init(&answers.mutex, NULL);
    int failed = trouble_setup(state);
    if (!failed) {
        trouble_open(*state);
        faulty_refuse_late();
    }
    return failed;
}

static int teardown_refusing(void **state)
{
    clock_fake_off();
    point_reset();
    return trouble_teardown(state);
}

/* Publishes one event and waits until the queue's thread has taken it and stands still. */
static void stop_the_thread(hf_bus *bus)
{
    hf_new_event event = event_of("first");
    point_arm("async_taken", 1, POINT_STOP_THREAD);
    assert_ok(hf_publish_async(bus, &event, answered, &slots[ANSWERS_MAX - 1]));
    assert_true(point_wait_blocked("async_taken", DEADLINE_MS));
}

static int64_t commits_of(hf_bus *bus)
{
    hf_stats stats = {.size = sizeof stats};
    assert_ok(hf_stats_get(bus, &stats));
    return stats.commits;
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void every_event_is_answered_once_in_order(void **state)
{
    struct scene *scene = *state;
    char payload[32];
    hf_new_event event = event_of("a");
    event.payload = payload;
    for (int i = 0; i < 1000; i++) {
        snprintf(payload, sizeof payload, "%d", i); /* it is copied */
        assert_ok(hf_publish_async(scene->bus, &event, answered, &slots[i]));
    }
    memset(payload, 'x', sizeof payload);
    assert_ok(hf_flush(scene->bus, DEADLINE_MS));
    assert_int_equal(answer_count(), 1000);
    for (int i = 0; i < 1000; i++) {
        assert_ptr_equal(answers.list[i].slot, &slots[i]);
        assert_int_equal(answers.list[i].status, HF_OK);
        assert_int_equal(answers.list[i].receipt.position, i + 1);
        assert_string_equal(answers.list[i].message, "");
    }
    hf_stats stats = {.size = sizeof stats};
    assert_ok(hf_stats_get(scene->bus, &stats));
    assert_int_equal(stats.published, 1000);
}

static int check_payload(const hf_event *event, void *ctx)
{
    int *next = ctx;
    assert_int_equal(strtol(event->payload, NULL, 10), (*next)++);
    return 0;
}

static void the_log_has_them_in_the_order_of_the_calls(void **state)
{
    struct scene *scene = *state;
    char payload[32];
    hf_new_event event = event_of("a");
    event.payload = payload;
    for (int i = 0; i < 2500; i++) {
        snprintf(payload, sizeof payload, "%d", i);
        assert_ok(hf_publish_async(scene->bus, &event, NULL, NULL));
    }
    assert_ok(hf_flush(scene->bus, DEADLINE_MS));
    int64_t cursor = 0;
    int next = 0;
    assert_ok(hf_read(scene->bus, NULL, 10000, 0, &cursor, check_payload, &next));
    assert_int_equal(next, 2500);
}

static void an_invalid_event_is_refused_at_once_and_never_called_back(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = event_of("not a type");
    assert_status(hf_publish_async(scene->bus, &event, answered, NULL), HF_INVALID);
    assert_status(hf_publish_async(scene->bus, NULL, answered, NULL), HF_INVALID);
    assert_status(hf_publish_async(NULL, &event, answered, NULL), HF_INVALID);
    assert_ok(hf_flush(scene->bus, DEADLINE_MS));
    assert_int_equal(answer_count(), 0);
}

static void asynchronous_publishes_that_wait_together_share_a_commit(void **state)
{
    struct scene *scene = *state;
    stop_the_thread(scene->bus);
    int64_t before = commits_of(scene->bus);
    hf_new_event event = event_of("a");
    for (int i = 0; i < 500; i++) {
        assert_ok(hf_publish_async(scene->bus, &event, answered, &slots[i]));
    }
    point_release("async_taken");
    assert_ok(hf_flush(scene->bus, DEADLINE_MS));
    assert_int_equal(answer_count(), 501);
    assert_int_equal(commits_of(scene->bus) - before, 2);
}

/* ---- Faults inside a share ------------------------------------------------------------------- */

static void one_version_conflict_does_not_fail_other_publishes(void **state)
{
    struct scene *scene = *state;
    stop_the_thread(scene->bus);
    hf_new_event plain = event_of("a");
    hf_new_event versioned = event_of("b");
    versioned.key = "k";
    for (int i = 0; i < 300; i++) {
        bool bad = i == 0 || i == 100 || i == 101 || i == 299;
        versioned.expected_version = bad ? 77 : -1;
        assert_ok(hf_publish_async(scene->bus, bad ? &versioned : &plain, answered, &slots[i]));
    }
    point_release("async_taken");
    assert_ok(hf_flush(scene->bus, DEADLINE_MS));
    assert_int_equal(answer_count(), 301);
    int64_t position = 1; /* the one that stopped the thread */
    for (int i = 0; i < 300; i++) {
        const struct answer *answer = &answers.list[i + 1];
        assert_ptr_equal(answer->slot, &slots[i]);
        if (i == 0 || i == 100 || i == 101 || i == 299) {
            assert_int_equal(answer->status, HF_CONFLICT);
            assert_int_equal(answer->receipt.position, -1);
            assert_int_equal(strlen(answer->receipt.id), HF_ID_BYTES - 1);
            assert_non_null(strstr(answer->message, "version"));
        } else {
            assert_int_equal(answer->status, HF_OK);
            /* A server's positions may have gaps. */
            if (scene->path) {
                assert_int_equal(answer->receipt.position, position + 1);
            }
            assert_true(answer->receipt.position > position);
            position = answer->receipt.position;
        }
    }
}

/* The end of a part, after which its share has had all the time that a call may take. */
static void answered_at_last(hf_status status, const hf_receipt *receipt, const char *message,
                             void *ctx)
{
    answered(status, receipt, message, ctx);
    clock_fake_advance(3600 * INT64_C(1000000));
}

/* Publishes an event that will be refused, with this callback, and a good one behind it. */
static void publish_bad_and_good(hf_bus *bus, hf_published_fn told)
{
    hf_new_event good = event_of("good");
    hf_new_event bad = event_of("bad");
    bad.key = "k";
    bad.expected_version = 77;
    assert_ok(hf_publish_async(bus, &bad, told, &slots[0]));
    assert_ok(hf_publish_async(bus, &good, answered, &slots[1]));
}

static void a_refused_publish_delays_no_others(void **state)
{
    struct scene *scene = *state;
    stop_the_thread(scene->bus);
    publish_bad_and_good(scene->bus, answered_at_last);
    clock_fake_set(wall_us(), mono_us());
    point_release("async_taken");
    assert_ok(hf_flush(scene->bus, -1));
    assert_int_equal(answer_count(), 3);
    assert_int_equal(answers.list[1].status, HF_CONFLICT);
    assert_string_equal(answers.list[2].message, "");
    assert_int_equal(answers.list[2].status, HF_OK);
}

static void a_chain_of_versions_in_one_share_works(void **state)
{
    struct scene *scene = *state;
    stop_the_thread(scene->bus);
    hf_new_event event = event_of("a");
    event.key = "k";
    for (int i = 0; i < 10; i++) {
        event.expected_version = i < 5 ? i : i + 1; /* the sixth misses */
        assert_ok(hf_publish_async(scene->bus, &event, answered, &slots[i]));
    }
    point_release("async_taken");
    assert_ok(hf_flush(scene->bus, DEADLINE_MS));
    for (int i = 0; i < 10; i++) {
        assert_int_equal(answers.list[i + 1].status, i < 5 ? HF_OK : HF_CONFLICT);
        assert_int_equal(answers.list[i + 1].receipt.key_version, i < 5 ? i + 1 : -1);
    }
}

static void a_failure_without_a_callback_is_logged(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = event_of("a");
    event.key = "k";
    event.expected_version = 3;
    assert_ok(hf_publish_async(scene->bus, &event, NULL, NULL));
    assert_ok(hf_flush(scene->bus, DEADLINE_MS));
    assert_true(scene_said(scene, "without a callback and is not stored: HF_CONFLICT"));
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

static hf_bus *open_small(struct scene *scene, int64_t events, int64_t bytes, int64_t timeout_ms)
{
    hf_options options = scene->options;
    options.queue_events_max = events;
    options.queue_bytes_max = bytes;
    options.timeout_ms = timeout_ms;
    return scene_open(scene, &options);
}

static void a_full_queue_makes_the_caller_wait_and_then_refuses(void **state)
{
    struct scene *scene = *state;
    int64_t timeout_ms = scene->path ? 500 : 2500; /* also for opening */
    hf_bus *bus = open_small(scene, 3, 1 << 20, timeout_ms);
    stop_the_thread(bus);
    hf_new_event event = event_of("a");
    assert_ok(hf_publish_async(bus, &event, answered, &slots[0]));
    assert_ok(hf_publish_async(bus, &event, answered, &slots[1]));
    int64_t begin_us = mono_us();
    assert_status(hf_publish_async(bus, &event, answered, &slots[2]), HF_BUSY);
    assert_true(mono_us() - begin_us >= timeout_ms * 1000);
    assert_non_null(strstr(hf_errmsg(), "3 events"));
    point_release("async_taken");
    assert_ok(hf_flush(bus, DEADLINE_MS));
    assert_int_equal(answer_count(), 3);
    assert_ok(hf_publish_async(bus, &event, answered, &slots[3]));
    assert_ok(hf_flush(bus, DEADLINE_MS));
}

static void bytes_are_bounded_but_one_event_always_fits(void **state)
{
    struct scene *scene = *state;
    hf_bus *bus = open_small(scene, 1000, 2000, scene->path ? 500 : 2500);
    char payload[5000];
    memset(payload, '1', sizeof payload);
    hf_new_event event = event_of("a");
    event.payload = payload;
    event.payload_bytes = sizeof payload;
    assert_ok(
        hf_publish_async(bus, &event, answered, &slots[0])); /* alone: larger than the limit */
    assert_ok(hf_flush(bus, DEADLINE_MS));
    stop_the_thread(bus);
    assert_status(hf_publish_async(bus, &event, answered, &slots[1]), HF_BUSY);
    event.payload_bytes = 10;
    assert_ok(hf_publish_async(bus, &event, answered, &slots[1]));
    point_release("async_taken");
    assert_ok(hf_flush(bus, DEADLINE_MS));
    assert_int_equal(answer_count(), 3);
}

static void *publish_when_there_is_room(void *ctx)
{
    hf_new_event event = event_of("a");
    if (hf_publish_async(ctx, &event, answered, &slots[7]) != HF_OK) {
        atomic_fetch_add(&answers.unexpected, 1);
    }
    return NULL;
}

static void a_publisher_that_waits_for_room_gets_it(void **state)
{
    struct scene *scene = *state;
    hf_bus *bus = open_small(scene, 1, 1 << 20, DEADLINE_MS);
    stop_the_thread(bus);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, publish_when_there_is_room, bus), 0);
    point_release("async_taken");
    pthread_join(thread, NULL);
    assert_ok(hf_flush(bus, DEADLINE_MS));
    assert_int_equal(answers.unexpected, 0);
    assert_int_equal(answer_count(), 2);
}

static atomic_bool other_is_in;

static void *publish_the_other(void *ctx)
{
    publish_when_there_is_room(ctx);
    atomic_store(&other_is_in, true);
    return NULL;
}

static bool is_other_in(void *ctx)
{
    (void)ctx;
    return atomic_load(&other_is_in);
}

/* The room that its event had was free before it began: who waits for that does not wait for
 * this. */
static void answered_after_the_other_is_in(hf_status status, const hf_receipt *receipt,
                                           const char *message, void *ctx)
{
    answers.unexpected += !wait_until(is_other_in, NULL);
    answered(status, receipt, message, ctx);
}

static bool is_full(void *ctx)
{
    (void)ctx;
    return point_hits("async_full") > 0;
}

static void room_is_announced_before_the_callback_of_the_publish_that_left_it(void **state)
{
    struct scene *scene = *state;
    hf_bus *bus =
        open_small(scene, 1, 1 << 20, 2 * DEADLINE_MS); /* without a call it waits longer */
    hf_new_event event = event_of("first");
    pthread_t thread;
    atomic_store(&other_is_in, false);
    point_arm("async_taken", 1, POINT_STOP_THREAD);
    assert_ok(hf_publish_async(bus, &event, answered_after_the_other_is_in, &slots[0]));
    assert_true(point_wait_blocked("async_taken", DEADLINE_MS));
    assert_int_equal(pthread_create(&thread, NULL, publish_the_other, bus), 0);
    assert_true(wait_until(is_full, NULL));
    point_release("async_taken");
    pthread_join(thread, NULL);
    assert_ok(hf_flush(bus, DEADLINE_MS));
    assert_int_equal(answers.unexpected, 0);
    assert_int_equal(answer_count(), 2);
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

static void publish_again(hf_status status, const hf_receipt *receipt, const char *message,
                          void *ctx)
{
    hf_new_event event = event_of("again");
    answered(status, receipt, message, ctx);
    if (--answers.again > 0 &&
        hf_publish_async(answers.bus, &event, publish_again, NULL) != HF_OK) {
        atomic_fetch_add(&answers.unexpected, 1);
    }
}

static bool all_again(void *ctx)
{
    return answer_count() == *(int64_t *)ctx;
}

static void a_callback_may_publish_again_even_if_the_queue_holds_one(void **state)
{
    struct scene *scene = *state;
    hf_bus *bus = open_small(scene, 1, 1024, DEADLINE_MS / 3);
    int64_t wanted = 50;
    answers.bus = bus;
    answers.again = wanted;
    hf_new_event event = event_of("a");
    assert_ok(hf_publish_async(bus, &event, publish_again, NULL));
    assert_true(wait_until(all_again, &wanted));
    assert_int_equal(answers.unexpected, 0);
}

static void call_what_is_forbidden(hf_status status, const hf_receipt *receipt, const char *message,
                                   void *ctx)
{
    hf_bus *bus = answers.bus;
    answers.unexpected += hf_flush(bus, 0) != HF_MISUSE;
    answers.unexpected += hf_stop(bus, 0) != HF_MISUSE;
    answers.unexpected += hf_shutdown(bus, 0) != HF_MISUSE;
    answers.unexpected += hf_close(&bus) != HF_MISUSE;
    answered(status, receipt, message, ctx);
}

static void a_callback_must_not_wait_for_itself(void **state)
{
    struct scene *scene = *state;
    answers.bus = scene->bus;
    hf_new_event event = event_of("a");
    assert_ok(hf_publish_async(scene->bus, &event, call_what_is_forbidden, NULL));
    assert_ok(hf_flush(scene->bus, DEADLINE_MS));
    assert_int_equal(answer_count(), 1);
    assert_int_equal(answers.unexpected, 0);
}

/* ---- Flush and shutdown ---------------------------------------------------------------------- */

static void flush_without_work_returns_and_with_stuck_work_times_out(void **state)
{
    struct scene *scene = *state;
    assert_ok(hf_flush(scene->bus, 0));
    stop_the_thread(scene->bus);
    hf_new_event event = event_of("a");
    assert_ok(hf_publish_async(scene->bus, &event, answered, NULL));
    assert_status(hf_flush(scene->bus, 20), HF_TIMEOUT);
    assert_non_null(strstr(hf_errmsg(), "2 asynchronous publishes"));
    point_release("async_taken");
    assert_ok(hf_flush(scene->bus, -1));
    assert_int_equal(answer_count(), 2);
}

static void shutdown_answers_everything(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = event_of("a");
    for (int i = 0; i < 2000; i++) {
        assert_ok(hf_publish_async(scene->bus, &event, answered, &slots[i]));
    }
    assert_ok(hf_shutdown(scene->bus, -1));
    assert_int_equal(answer_count(), 2000);
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(answers.list[i].status, HF_OK);
    }
    assert_status(hf_publish_async(scene->bus, &event, answered, NULL), HF_CLOSED);
    assert_ok(hf_flush(scene->bus, 0));
    assert_ok(hf_shutdown(scene->bus, -1));
}

static void *shut_down_now(void *ctx)
{
    if (hf_shutdown(ctx, 0) != HF_OK) {
        atomic_fetch_add(&answers.unexpected, 1);
    }
    return NULL;
}

static bool is_stopping(void *ctx)
{
    return point_hits("async_stopping") > *(const int64_t *)ctx;
}

static void shutdown_past_its_deadline_still_answers_every_callback(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = event_of("a");
    stop_the_thread(scene->bus);
    for (int i = 0; i < 1500; i++) { /* more than one share */
        assert_ok(hf_publish_async(scene->bus, &event, answered, &slots[i]));
    }
    int64_t stops = point_hits("async_stopping"); /* of the tests before */
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, shut_down_now, scene->bus), 0);
    assert_true(wait_until(is_stopping, &stops));
    point_release("async_taken");
    pthread_join(thread, NULL);
    assert_int_equal(answers.unexpected, 0);
    assert_int_equal(answer_count(), 1501);
    assert_int_equal(answers.list[1500].status, HF_CLOSED);
    assert_non_null(strstr(answers.list[1500].message, "shut down"));
    assert_ptr_equal(answers.list[1500].slot, &slots[1499]);
}

static int64_t stops_before; /* of the tests before */

/* The end of a part, after which the bus is to stop and has no time left. */
static void answered_until_the_stop(hf_status status, const hf_receipt *receipt,
                                    const char *message, void *ctx)
{
    answered(status, receipt, message, ctx);
    if (!wait_until(is_stopping, &stops_before)) {
        atomic_fetch_add(&answers.unexpected, 1);
    }
}

static bool is_bad_answered(void *ctx)
{
    (void)ctx;
    return answer_count() == 2;
}

static void a_share_goes_no_further_than_the_deadline_of_a_shutdown(void **state)
{
    struct scene *scene = *state;
    stop_the_thread(scene->bus);
    publish_bad_and_good(scene->bus, answered_until_the_stop);
    stops_before = point_hits("async_stopping");
    point_release("async_taken");
    assert_true(wait_until(is_bad_answered, NULL));
    shut_down_now(scene->bus);
    assert_int_equal(answers.unexpected, 0);
    assert_int_equal(answer_count(), 3);
    assert_int_equal(answers.list[1].status, HF_CONFLICT);
    assert_int_equal(answers.list[2].status, HF_CLOSED);
    assert_ptr_equal(answers.list[2].slot, &slots[1]);
}

/* ---- Fork ------------------------------------------------------------------------------------ */

/* In the child: 0 if all is as it should be. */
static int child_of(hf_bus *bus)
{
    hf_new_event event = event_of("a");
    int wrong = hf_publish_async(bus, &event, answered, NULL) != HF_MISUSE;
    wrong += hf_flush(bus, 0) != HF_MISUSE;
    wrong += hf_close(&bus) != HF_OK || bus != NULL;
    return wrong;
}

static void a_forked_child_is_refused_and_may_close(void **state)
{
    struct scene *scene = *state;
    stop_the_thread(scene->bus);
    hf_new_event event = event_of("a");
    assert_ok(hf_publish_async(scene->bus, &event, answered, NULL));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(child_of(scene->bus));
    }
    int result = -1;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    point_release("async_taken");
    assert_ok(hf_flush(scene->bus, DEADLINE_MS));
    assert_int_equal(answer_count(), 2);
}

#define async_test(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        async_test(every_event_is_answered_once_in_order),
        async_test(the_log_has_them_in_the_order_of_the_calls),
        async_test(an_invalid_event_is_refused_at_once_and_never_called_back),
        async_test(asynchronous_publishes_that_wait_together_share_a_commit),
        async_test(one_version_conflict_does_not_fail_other_publishes),
        cmocka_unit_test_setup_teardown(a_refused_publish_delays_no_others, setup_refusing,
                                        teardown_refusing),
        async_test(a_chain_of_versions_in_one_share_works),
        async_test(a_failure_without_a_callback_is_logged),
        async_test(a_full_queue_makes_the_caller_wait_and_then_refuses),
        async_test(bytes_are_bounded_but_one_event_always_fits),
        async_test(a_publisher_that_waits_for_room_gets_it),
        async_test(room_is_announced_before_the_callback_of_the_publish_that_left_it),
        async_test(a_callback_may_publish_again_even_if_the_queue_holds_one),
        async_test(a_callback_must_not_wait_for_itself),
        async_test(flush_without_work_returns_and_with_stuck_work_times_out),
        async_test(shutdown_answers_everything),
        async_test(shutdown_past_its_deadline_still_answers_every_callback),
        async_test(a_share_goes_no_further_than_the_deadline_of_a_shutdown),
        async_test(a_forked_child_is_refused_and_may_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
