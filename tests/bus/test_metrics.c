/*
 * test_metrics.c - what a handle has done, in numbers (holdfast/metrics.h), and hf_ping.
 */
#include "support_trouble.h"

#include "support/sqlite.h"

#include <time.h>

#define SLEPT_US 3000

static hf_metrics metrics_of(hf_bus *bus)
{
    hf_metrics metrics = {.size = sizeof metrics};
    assert_ok(hf_metrics_get(bus, &metrics));
    return metrics;
}

/* What is said of one subscription; `name` is NULL if nothing is. */
static int take_one(const hf_subscription_metrics *metrics, void *ctx)
{
    hf_subscription_metrics *one = ctx;
    if (strcmp(metrics->name, one->name) == 0) {
        const char *name = one->name;
        *one = *metrics;
        one->name = name;
        return 1;
    }
    return 0;
}

static hf_subscription_metrics metrics_for(hf_bus *bus, const char *name)
{
    hf_subscription_metrics one = {.name = name};
    assert_ok(hf_subscription_metrics_list(bus, take_one, &one));
    return one;
}

/* The buckets of a histogram add up to its count, and say no more than its sum. */
static void check_histogram(const hf_histogram *histogram, int64_t count)
{
    int64_t sum = 0;
    int64_t least_us = 0;
    for (size_t i = 0; i < HF_HISTOGRAM_BUCKETS; i++) {
        sum += histogram->counts[i];
        least_us += histogram->counts[i] * (i ? hf_histogram_bound_us(i - 1) : 0);
    }
    assert_int_equal(sum, histogram->count);
    assert_int_equal(histogram->count, count);
    assert_true(histogram->sum_us >= least_us);
}

/* ---- Publishing ------------------------------------------------------------------------------ */

static void count_done(hf_status status, const hf_receipt *receipt, const char *message, void *ctx)
{
    (void)receipt;
    (void)message;
    (void)ctx;
    (void)status;
}

static void publishes_are_timed_by_call_and_counted_by_event(void **state)
{
    struct scene *scene = *state;
    hf_new_event events[10];
    for (size_t i = 0; i < COUNTED(events); i++) {
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = "x";
    }
    hf_metrics before = metrics_of(scene->bus);
    check_histogram(&before.publish, 0);
    for (int i = 0; i < 5; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_publish_many(scene->bus, events, COUNTED(events), NULL));
    hf_metrics after = metrics_of(scene->bus);
    assert_int_equal(after.published, 15);
    check_histogram(&after.publish, 6);
    check_histogram(&after.commit, before.commit.count + 6);
    assert_true(after.publish.sum_us >= after.commit.sum_us - before.commit.sum_us);
    for (int i = 0; i < 3; i++) {
        assert_ok(hf_publish_async(scene->bus, &events[0], count_done, NULL));
    }
    assert_ok(hf_flush(scene->bus, DEADLINE_MS));
    after = metrics_of(scene->bus);
    assert_int_equal(after.published, 18);
    check_histogram(&after.publish, 9);
    events[0].deliver_at_us = wall_us() + INT64_C(3600000000);
    assert_ok(hf_publish(scene->bus, &events[0], NULL));
    after = metrics_of(scene->bus);
    check_histogram(&after.publish, 10);
    assert_int_equal(after.publish_failures, 0);
}

static void a_publish_that_the_database_refuses_is_a_failure(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = HF_NEW_EVENT_INIT;
    trouble_open(scene);
    faulty_fail(FAULTY_APPLY, 1, 1, HF_NOSPACE);
    event.type = "x";
    assert_status(hf_publish(scene->bus, &event, NULL), HF_NOSPACE);
    hf_metrics metrics = metrics_of(scene->bus);
    assert_int_equal(metrics.publish_failures, 1);
    check_histogram(&metrics.publish, 0);
    event.type = "";
    assert_status(hf_publish(scene->bus, &event, NULL), HF_INVALID);
    event.type = "x";
    event.key = "k";
    event.expected_version = 7;
    assert_status(hf_publish(scene->bus, &event, NULL), HF_CONFLICT);
    assert_int_equal(metrics_of(scene->bus).publish_failures, 1);
}

/* ---- Handlers -------------------------------------------------------------------------------- */

/* "dead" and "garbled" are refused, "bad" fails always, "once" the first time, the rest is done
 * after a moment. */
static hf_verdict handle(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    struct timespec moment = {.tv_nsec = SLEPT_US * 1000};
    if (strcmp(event->type, "dead") == 0) {
        return HF_DEAD;
    }
    if (strcmp(event->type, "garbled") == 0) {
        return HF_UNDECODABLE;
    }
    nanosleep(&moment, NULL);
    return trouble_handle(event, delivery, recorder);
}

static void deliver_all(struct scene *scene, const hf_subscription_options *options)
{
    static const char *const types[] = {"dead", "garbled", "bad", "once", "good", "good"};
    struct recorder *recorder = scene_recorder(scene, handle);
    subscribe(scene->bus, "s", "*", recorder, options);
    for (size_t i = 0; i < COUNTED(types); i++) {
        publish(scene->bus, types[i], NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait(recorder, 9)); /* bad: three attempts, once: two */
    settle_all(scene->bus, "s");
    assert_ok(hf_stop(scene->bus, DEADLINE_MS)); /* all that is stored has been counted */
}

static void check_deliveries(hf_bus *bus)
{
    hf_metrics all = metrics_of(bus);
    hf_subscription_metrics one = metrics_for(bus, "s");
    assert_int_equal(one.delivered, 3);
    assert_int_equal(one.failed, 3); /* twice bad, once once */
    assert_int_equal(one.dead, 3);
    assert_int_equal(one.retries, 3);
    assert_int_equal(one.leases_lost, 0);
    check_histogram(&one.handler, 9);
    check_histogram(&one.end_to_end, 3);
    assert_in_range(one.handler.sum_us, 7 * SLEPT_US, DEADLINE_MS * 1000);
    for (size_t i = 0; hf_histogram_bound_us(i) < SLEPT_US; i++) {
        assert_int_equal(one.end_to_end.counts[i], 0);
    }
    assert_int_equal(all.delivered, 3);
    assert_int_equal(all.failed, 3);
    assert_int_equal(all.retries, 3);
    assert_int_equal(all.dead_attempts, 1);
    assert_int_equal(all.dead_rejected, 1);
    assert_int_equal(all.dead_decode, 1);
    assert_int_equal(all.dead_no_handler + all.dead_corrupt + all.dead_lease, 0);
    check_histogram(&all.handler, 9);
    check_histogram(&all.end_to_end, 3);
}

static void an_ordered_subscription_counts_what_its_handlers_answer(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    options.attempts_max = 3;
    deliver_all(scene, &options);
    check_deliveries(scene->bus);
}

static void a_shared_subscription_counts_what_its_handlers_answer(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    options.attempts_max = 3;
    options.mode = HF_MODE_SHARED;
    deliver_all(scene, &options);
    check_deliveries(scene->bus);
}

static void a_transactional_subscription_counts_what_its_handlers_answer(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    options.attempts_max = 3;
    options.transactional = HF_ON;
    deliver_all(scene, &options);
    check_deliveries(scene->bus);
}

static hf_verdict take_batch(const hf_event *const *events, size_t count, hf_delivery *delivery,
                             void *ctx)
{
    (void)events;
    (void)delivery;
    *(size_t *)ctx += count;
    return HF_ACK;
}

static void a_batch_is_one_call_and_several_deliveries(void **state)
{
    struct scene *scene = *state;
    static size_t taken;
    hf_subscription_options options = quick_options();
    taken = 0;
    options.batch = 10;
    for (int i = 0; i < 10; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_subscribe_batch(scene->bus, "s", "*", take_batch, &taken, &options, NULL));
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "s");
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
    hf_metrics metrics = metrics_of(scene->bus);
    assert_int_equal(taken, 10);
    assert_int_equal(metrics.delivered, 10);
    check_histogram(&metrics.end_to_end, 10);
    assert_in_range(metrics.handler.count, 1, 9);
}

/* Starts a handler that waits at a door. */
static struct door *hold_one(struct scene *scene, const hf_subscription_options *options)
{
    struct recorder *recorder = scene_recorder(scene, NULL);
    recorder->door = scene_door(scene);
    subscribe(scene->bus, "s", "*", recorder, options);
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->door, 1));
    assert_int_equal(metrics_for(scene->bus, "s").leases_lost, 0);
    return recorder->door;
}

static bool has_lost(void *ctx)
{
    return metrics_for(ctx, "s").leases_lost > 0;
}

static int take_away(const hf_lease_info *info, void *ctx)
{
    assert_ok(hf_lease_revoke(ctx, info->subscription, info->lease, NULL));
    return 1;
}

static void a_lease_that_was_taken_away_is_lost(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    options.mode = HF_MODE_SHARED;
    struct door *door = hold_one(scene, &options);
    hf_bus *other = scene_open(scene, NULL);
    assert_ok(hf_lease_list(other, "s", take_away, other));
    door_open(door);
    assert_true(wait_until(has_lost, scene->bus));
}

static void a_partition_that_is_moved_under_its_owner_is_lost(void **state)
{
    struct scene *scene = *state;
    struct door *door = hold_one(scene, NULL);
    assert_ok(hf_seek(scene->bus, "s", (hf_place){HF_PLACE_START, -1}, HF_OFF, NULL));
    door_open(door);
    assert_true(wait_until(has_lost, scene->bus));
}

/* ---- Claims ---------------------------------------------------------------------------------- */

static void create_shared(hf_bus *bus)
{
    const char *patterns[] = {"*"};
    hf_subscription_options options = quick_options();
    options.mode = HF_MODE_SHARED;
    options.attempts_max = 3;
    assert_ok(hf_subscription_create(bus, "s", patterns, 1, &options, NULL));
}

static size_t claim(hf_bus *bus, int32_t max, char lease[HF_LEASE_BYTES])
{
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    hf_batch *batch = NULL;
    options.max = max;
    options.wait_ms = DEADLINE_MS;
    assert_ok(hf_claim(bus, "s", &options, &batch));
    size_t count = hf_batch_count(batch);
    memcpy(lease, hf_batch_lease(batch), HF_LEASE_BYTES);
    hf_batch_free(batch);
    return count;
}

static void publish_some(hf_bus *bus, int count)
{
    for (int i = 0; i < count; i++) {
        publish(bus, "x", NULL, "1");
    }
}

static void claimed_events_count_when_they_are_settled(void **state)
{
    struct scene *scene = *state;
    char lease[HF_LEASE_BYTES];
    const int64_t some[] = {2, 4};
    create_shared(scene->bus);
    publish_some(scene->bus, 5);
    assert_int_equal(claim(scene->bus, 5, lease), 5);
    assert_null(metrics_for(scene->bus, "s").size ? "listed" : NULL);
    assert_ok(hf_ack(scene->bus, "s", lease, some, COUNTED(some)));
    hf_subscription_metrics one = metrics_for(scene->bus, "s");
    assert_int_equal(one.delivered, 2);
    check_histogram(&one.end_to_end, 2);
    check_histogram(&one.handler, 1);
    assert_ok(hf_ack(scene->bus, "s", lease, NULL, 0));
    one = metrics_for(scene->bus, "s");
    assert_int_equal(one.delivered, 5);
    check_histogram(&one.end_to_end, 5);
    check_histogram(&one.handler, 2);
    assert_int_equal(one.failed + one.dead + one.retries + one.leases_lost, 0);
    assert_status(hf_ack(scene->bus, "s", lease, NULL, 0), HF_STALE);
    one = metrics_for(scene->bus, "s");
    assert_int_equal(one.leases_lost, 1);
    assert_int_equal(one.delivered, 5);
}

static void claimed_events_that_fail_count_as_failed_and_dead(void **state)
{
    struct scene *scene = *state;
    char lease[HF_LEASE_BYTES];
    create_shared(scene->bus);
    publish_some(scene->bus, 2);
    assert_int_equal(claim(scene->bus, 2, lease), 2);
    assert_ok(hf_nack(scene->bus, "s", lease, NULL, 0, 0, "no"));
    assert_int_equal(claim(scene->bus, 2, lease), 2);
    assert_ok(hf_bury(scene->bus, "s", lease, NULL, 0, "never"));
    hf_subscription_metrics one = metrics_for(scene->bus, "s");
    assert_int_equal(one.delivered, 0);
    assert_int_equal(one.failed, 2);
    assert_int_equal(one.retries, 2);
    assert_int_equal(one.dead, 2);
    check_histogram(&one.handler, 2);
    check_histogram(&one.end_to_end, 0);
    assert_int_equal(metrics_of(scene->bus).dead_rejected, 2);
}

static void what_is_given_back_counts_as_nothing(void **state)
{
    struct scene *scene = *state;
    char lease[HF_LEASE_BYTES];
    create_shared(scene->bus);
    publish_some(scene->bus, 2);
    assert_int_equal(claim(scene->bus, 2, lease), 2);
    assert_ok(hf_release(scene->bus, "s", lease, NULL, 0));
    assert_int_equal(claim(scene->bus, 2, lease), 2);
    assert_ok(hf_release_after(scene->bus, "s", lease, NULL, 0, 0));
    hf_subscription_metrics one = metrics_for(scene->bus, "s");
    assert_int_equal(one.delivered + one.failed + one.dead + one.retries + one.leases_lost, 0);
    check_histogram(&one.handler, 0);
    check_histogram(&one.end_to_end, 0);
}

static void a_lease_of_another_handle_counts_as_far_as_it_is_known(void **state)
{
    struct scene *scene = *state;
    hf_bus *other = scene_open(scene, NULL);
    char lease[HF_LEASE_BYTES];
    const int64_t some[] = {1};
    create_shared(scene->bus);
    publish_some(scene->bus, 3);
    assert_int_equal(claim(other, 3, lease), 3);
    assert_ok(hf_ack(scene->bus, "s", lease, some, 1));
    assert_ok(hf_ack(scene->bus, "s", lease, NULL, 0));
    hf_subscription_metrics one = metrics_for(scene->bus, "s");
    assert_int_equal(one.delivered, 1);
    check_histogram(&one.handler, 0);
    check_histogram(&one.end_to_end, 0);
}

static void more_claims_than_are_remembered_are_settled_all_the_same(void **state)
{
    struct scene *scene = *state;
    enum { LEASES = 12, EACH = 9000 }; /* together more than CLAIMED_EVENTS_MAX */
    static hf_new_event events[EACH];
    static char leases[LEASES][HF_LEASE_BYTES];
    create_shared(scene->bus);
    for (size_t i = 0; i < EACH; i++) {
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = "x";
    }
    for (size_t i = 0; i < LEASES; i++) {
        assert_ok(hf_publish_many(scene->bus, events, EACH, NULL));
    }
    for (size_t i = 0; i < LEASES; i++) {
        assert_int_equal(claim(scene->bus, EACH, leases[i]), EACH);
    }
    for (size_t i = 0; i < LEASES; i++) {
        assert_ok(hf_ack(scene->bus, "s", leases[i], NULL, 0));
    }
    hf_metrics metrics = metrics_of(scene->bus);
    assert_int_equal(metrics.delivered, 11 * EACH); /* the first lease was forgotten */
    check_histogram(&metrics.end_to_end, 11 * EACH);
}

/* ---- Schedules ------------------------------------------------------------------------------- */

static bool has_fired(void *ctx)
{
    return metrics_of(ctx).schedules_fired > 0;
}

static void a_schedule_that_fires_says_how_late(void **state)
{
    struct scene *scene = *state;
    hf_schedule schedule = HF_SCHEDULE_INIT;
    schedule.name = "s";
    schedule.expression = "* * * * * *";
    schedule.type = "tick";
    assert_ok(hf_schedule_put(scene->bus, &schedule, NULL));
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(has_fired, scene->bus));
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
    hf_metrics metrics = metrics_of(scene->bus);
    check_histogram(&metrics.schedule_late, metrics.schedules_fired);
}

/* ---- The calls ------------------------------------------------------------------------------- */

static void metrics_ask_no_database_and_work_after_the_end(void **state)
{
    struct scene *scene = *state;
    trouble_open(scene);
    publish(scene->bus, "x", NULL, "1");
    int64_t asked = faulty_calls(FAULTY_APPLY) + faulty_calls(FAULTY_OTHER);
    assert_int_equal(metrics_of(scene->bus).published, 1);
    assert_int_equal(faulty_calls(FAULTY_APPLY) + faulty_calls(FAULTY_OTHER), asked);
    assert_ok(hf_shutdown(scene->bus, -1));
    assert_int_equal(metrics_of(scene->bus).published, 1);
}

static int never(const hf_subscription_metrics *metrics, void *ctx)
{
    (void)metrics;
    (void)ctx;
    return 0;
}

static void wrong_arguments_are_refused(void **state)
{
    struct scene *scene = *state;
    hf_metrics metrics = {.size = 3};
    assert_status(hf_metrics_get(NULL, &metrics), HF_INVALID);
    assert_status(hf_metrics_get(scene->bus, NULL), HF_INVALID);
    assert_status(hf_metrics_get(scene->bus, &metrics), HF_INVALID);
    assert_status(hf_subscription_metrics_list(NULL, never, NULL), HF_INVALID);
    assert_status(hf_subscription_metrics_list(scene->bus, NULL, NULL), HF_INVALID);
    assert_status(hf_ping(NULL, 0), HF_INVALID);
    assert_status(hf_ping(scene->bus, -2), HF_INVALID);
}

/* ---- Readiness ------------------------------------------------------------------------------- */

static void a_database_that_takes_changes_answers(void **state)
{
    struct scene *scene = *state;
    hf_stats stats = {.size = sizeof stats};
    assert_ok(hf_ping(scene->bus, 1000));
    assert_ok(hf_ping(scene->bus, -1));
    assert_ok(hf_stats_get(scene->bus, &stats));
    assert_int_equal(stats.head, 0);
    assert_ok(hf_shutdown(scene->bus, -1));
    assert_status(hf_ping(scene->bus, 1000), HF_CLOSED);
}

static void a_ping_brings_nothing_that_is_due(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_stats stats = {.size = sizeof stats};
    event.type = "x";
    event.deliver_at_us = 1;
    assert_ok(hf_publish(scene->bus, &event, NULL));
    assert_ok(hf_ping(scene->bus, -1));
    assert_ok(hf_stats_get(scene->bus, &stats));
    assert_int_equal(stats.later, 1);
}

static void a_locked_file_does_not_answer_in_time(void **state)
{
    struct scene *scene = *state;
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(scene_sqlite(scene), &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 10000);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    int64_t begin_us = mono_us();
    hf_status status = hf_ping(scene->bus, 300);
    assert_true(status == HF_TIMEOUT || status == HF_BUSY);
    assert_in_range(mono_us() - begin_us, 290000, 5000000);
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(db);
    assert_ok(hf_ping(scene->bus, -1));
}

static void a_file_that_was_removed_does_not_answer(void **state)
{
    struct scene *scene = *state;
    assert_ok(hf_ping(scene->bus, -1));
    assert_int_equal(unlink(scene_sqlite(scene)), 0);
    assert_status(hf_ping(scene->bus, -1), HF_UNAVAILABLE);
}

static const struct CMUnitTest tests[] = {
    scene_test(publishes_are_timed_by_call_and_counted_by_event),
    trouble_test(a_publish_that_the_database_refuses_is_a_failure),
    scene_test(an_ordered_subscription_counts_what_its_handlers_answer),
    scene_test(a_shared_subscription_counts_what_its_handlers_answer),
    scene_test(a_transactional_subscription_counts_what_its_handlers_answer),
    scene_test(a_batch_is_one_call_and_several_deliveries),
    scene_test(a_lease_that_was_taken_away_is_lost),
    scene_test(a_partition_that_is_moved_under_its_owner_is_lost),
    scene_test(claimed_events_count_when_they_are_settled),
    scene_test(claimed_events_that_fail_count_as_failed_and_dead),
    scene_test(what_is_given_back_counts_as_nothing),
    scene_test(a_lease_of_another_handle_counts_as_far_as_it_is_known),
    scene_test(more_claims_than_are_remembered_are_settled_all_the_same),
    scene_test(a_schedule_that_fires_says_how_late),
    trouble_test(metrics_ask_no_database_and_work_after_the_end),
    scene_test(wrong_arguments_are_refused),
    scene_test(a_database_that_takes_changes_answers),
    scene_test(a_ping_brings_nothing_that_is_due),
    scene_test(a_locked_file_does_not_answer_in_time),
    scene_test(a_file_that_was_removed_does_not_answer),
};

SCENE_MAIN(tests)
