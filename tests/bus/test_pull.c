/*
 * test_pull.c - claiming and settling without handlers: batches, leases, stories, waiting.
 */
#include "support_scene.h"

#include "base/point.h"

#define EVENTS 10

static void assert_said(const char *words)
{
    if (!strstr(hf_errmsg(), words)) {
        fail_msg("\"%s\" does not say \"%s\"", hf_errmsg(), words);
    }
}

static hf_subscription_options shared_options(void)
{
    hf_subscription_options options = quick_options();
    options.mode = HF_MODE_SHARED;
    options.retry_jitter_percent = 0;
    return options;
}

static void create(hf_bus *bus, const char *name, const hf_subscription_options *options)
{
    const char *patterns[] = {"job.*"};
    hf_subscription_options shared = shared_options();
    assert_ok(hf_subscription_create(bus, name, patterns, 1, options ? options : &shared, NULL));
}

static void publish_jobs(hf_bus *bus, int count)
{
    for (int i = 0; i < count; i++) {
        publish(bus, "job.new", NULL, "{}");
    }
}

static hf_batch *claim_max(hf_bus *bus, const char *name, int32_t max)
{
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    hf_batch *batch = NULL;
    options.max = max;
    assert_ok(hf_claim(bus, name, &options, &batch));
    assert_non_null(batch);
    return batch;
}

static hf_batch *claim(hf_bus *bus)
{
    return claim_max(bus, "s", -1);
}

/* Claims, remembers the lease's text and frees the batch: what another process would have. */
static size_t claim_lease(hf_bus *bus, int32_t max, char lease[HF_LEASE_BYTES])
{
    hf_batch *batch = claim_max(bus, "s", max);
    size_t count = hf_batch_count(batch);
    memcpy(lease, hf_batch_lease(batch), HF_LEASE_BYTES);
    hf_batch_free(batch);
    return count;
}

static void assert_nothing_left(hf_bus *bus)
{
    hf_batch *batch = claim(bus);
    assert_int_equal(hf_batch_count(batch), 0);
    hf_batch_free(batch);
}

/* Only what is due now, up to a second from now. */
static size_t claim_soon(hf_bus *bus, int32_t *ret_attempt, char lease[HF_LEASE_BYTES])
{
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    hf_batch *batch = NULL;
    options.wait_ms = DEADLINE_MS;
    assert_ok(hf_claim(bus, "s", &options, &batch));
    size_t count = hf_batch_count(batch);
    *ret_attempt = count ? hf_batch_attempt(batch, 0) : -1;
    memcpy(lease, hf_batch_lease(batch), HF_LEASE_BYTES);
    hf_batch_free(batch);
    return count;
}

/* ---- Claiming -------------------------------------------------------------------------------- */

static void a_batch_holds_events_under_one_lease(void **state)
{
    struct scene *scene = *state;
    create(scene->bus, "s", NULL);
    publish_jobs(scene->bus, EVENTS);
    publish(scene->bus, "other", NULL, NULL);
    int64_t before_us = wall_us();
    hf_batch *batch = claim(scene->bus);
    assert_int_equal(hf_batch_count(batch), EVENTS);
    for (size_t i = 0; i < EVENTS; i++) {
        assert_int_equal(hf_batch_event(batch, i)->position, i + 1);
        assert_string_equal(hf_batch_event(batch, i)->type, "job.new");
        assert_int_equal(hf_batch_attempt(batch, i), 1);
    }
    assert_null(hf_batch_event(batch, EVENTS));
    assert_int_equal(hf_batch_attempt(batch, EVENTS), -1);
    assert_int_equal(strlen(hf_batch_lease(batch)), 32);
    assert_int_equal(strspn(hf_batch_lease(batch), "0123456789abcdef"), 32);
    assert_in_range(hf_batch_expires_at_us(batch), before_us + 30000000, wall_us() + 30000000);
    assert_nothing_left(scene->bus);
    hf_batch_free(batch);
    assert_nothing_left(scene->bus); /* freeing settles nothing */
}

static void nothing_to_claim_is_an_empty_batch(void **state)
{
    struct scene *scene = *state;
    create(scene->bus, "s", NULL);
    publish(scene->bus, "other", NULL, NULL);
    hf_batch *batch = claim(scene->bus);
    assert_int_equal(hf_batch_count(batch), 0);
    assert_string_equal(hf_batch_lease(batch), "");
    assert_int_equal(hf_batch_expires_at_us(batch), -1);
    hf_batch_free(batch);
    hf_batch_free(NULL);
    assert_int_equal(hf_batch_count(NULL), 0);
    assert_string_equal(hf_batch_lease(NULL), "");
}

static void max_and_the_options_batch_limit_a_claim(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = shared_options();
    options.batch = 3;
    create(scene->bus, "s", &options);
    publish_jobs(scene->bus, EVENTS);
    hf_batch *batch = claim(scene->bus);
    assert_int_equal(hf_batch_count(batch), 3);
    hf_batch_free(batch);
    batch = claim_max(scene->bus, "s", 5);
    assert_int_equal(hf_batch_count(batch), 5);
    assert_int_equal(hf_batch_event(batch, 0)->position, 4);
    hf_batch_free(batch);
}

static void bad_claims_are_refused(void **state)
{
    struct scene *scene = *state;
    hf_batch *batch = (hf_batch *)0x1;
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    hf_subscription_options ordered = quick_options();
    create(scene->bus, "s", NULL);
    create(scene->bus, "o", &ordered);
    assert_status(hf_claim(scene->bus, "missing", NULL, &batch), HF_NOTFOUND);
    assert_said("there is no subscription missing");
    assert_status(hf_claim(scene->bus, "o", NULL, &batch), HF_MISUSE);
    assert_said("ordered");
    assert_status(hf_claim(scene->bus, NULL, NULL, &batch), HF_INVALID);
    assert_status(hf_claim(scene->bus, "s", NULL, NULL), HF_INVALID);
    assert_status(hf_claim(NULL, "s", NULL, &batch), HF_INVALID);
    options.max = 10001;
    assert_status(hf_claim(scene->bus, "s", &options, &batch), HF_INVALID);
    assert_said("max is 10001; it must be 1 to 10000");
    options.max = 0;
    assert_status(hf_claim(scene->bus, "s", &options, &batch), HF_INVALID);
    options.max = -1;
    options.lease_ms = 0;
    assert_status(hf_claim(scene->bus, "s", &options, &batch), HF_INVALID);
    options.lease_ms = -1;
    options.wait_ms = -7;
    assert_status(hf_claim(scene->bus, "s", &options, &batch), HF_INVALID);
    options.wait_ms = 0;
    options.detached = (hf_toggle)3;
    assert_status(hf_claim(scene->bus, "s", &options, &batch), HF_INVALID);
    assert_ptr_equal(batch, (hf_batch *)0x1);
    assert_ok(hf_shutdown(scene->bus, -1));
    assert_status(hf_claim(scene->bus, "s", NULL, &batch), HF_CLOSED);
}

static void a_paused_subscription_gives_nothing(void **state)
{
    struct scene *scene = *state;
    create(scene->bus, "s", NULL);
    publish_jobs(scene->bus, 1);
    assert_ok(hf_pause(scene->bus, "s", NULL));
    assert_nothing_left(scene->bus);
    assert_ok(hf_resume(scene->bus, "s"));
    hf_batch *batch = claim(scene->bus);
    assert_int_equal(hf_batch_count(batch), 1);
    hf_batch_free(batch);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

struct waiting {
    hf_bus *bus;
    pthread_t thread;
    int64_t wait_ms;
    hf_status status;
    size_t count;
    int64_t took_us;
};

static struct waiting waiting;

static void *claim_and_wait(void *ctx)
{
    (void)ctx;
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    hf_batch *batch = NULL;
    int64_t begin_us = mono_us();
    options.wait_ms = waiting.wait_ms;
    waiting.status = hf_claim(waiting.bus, "s", &options, &batch);
    waiting.took_us = mono_us() - begin_us;
    waiting.count = hf_batch_count(batch);
    hf_batch_free(batch);
    return NULL;
}

static void start_waiting(hf_bus *bus, int64_t wait_ms)
{
    waiting = (struct waiting){.bus = bus, .wait_ms = wait_ms, .status = HF_IO};
    assert_int_equal(pthread_create(&waiting.thread, NULL, claim_and_wait, NULL), 0);
}

static void a_publish_wakes_a_waiting_claim(void **state)
{
    struct scene *scene = *state;
    create(scene->bus, "s", NULL);
    start_waiting(scene->bus, DEADLINE_MS);
    publish_jobs(scene_open(scene, NULL), 1);
    pthread_join(waiting.thread, NULL);
    assert_int_equal(waiting.status, HF_OK);
    assert_int_equal(waiting.count, 1);
    assert_true(waiting.took_us < DEADLINE_MS * 1000 / 2);
}

static void a_claim_waits_its_time_for_nothing(void **state)
{
    struct scene *scene = *state;
    create(scene->bus, "s", NULL);
    start_waiting(scene->bus, 60);
    pthread_join(waiting.thread, NULL);
    assert_int_equal(waiting.status, HF_OK);
    assert_int_equal(waiting.count, 0);
    assert_true(waiting.took_us >= 60000);
}

static void a_waiting_claim_sees_a_retry_become_due(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = shared_options();
    options.wait_period_ms = 3600000; /* the due time alone must wake it */
    char lease[HF_LEASE_BYTES];
    create(scene->bus, "s", &options);
    publish_jobs(scene->bus, 1);
    assert_int_equal(claim_lease(scene->bus, -1, lease), 1);
    int64_t begin_us = mono_us();
    assert_ok(hf_nack(scene->bus, "s", lease, NULL, 0, 200, "later"));
    start_waiting(scene->bus, DEADLINE_MS);
    pthread_join(waiting.thread, NULL);
    assert_int_equal(waiting.count, 1);
    assert_true(mono_us() - begin_us >= 200000);
    assert_true(waiting.took_us < DEADLINE_MS * 1000 / 2);
}

static void shutdown_ends_a_waiting_claim(void **state)
{
    struct scene *scene = *state;
    create(scene->bus, "s", NULL);
    hf_batch *batch = claim(scene->bus);
    hf_batch_free(batch);
    start_waiting(scene->bus, DEADLINE_MS);
    assert_ok(hf_shutdown(scene->bus, -1));
    pthread_join(waiting.thread, NULL);
    assert_int_equal(waiting.status, HF_CLOSED);
    assert_true(waiting.took_us < DEADLINE_MS * 1000 / 2);
}

/* ---- Settling -------------------------------------------------------------------------------- */

static void acknowledged_events_are_done(void **state)
{
    struct scene *scene = *state;
    char lease[HF_LEASE_BYTES];
    create(scene->bus, "s", NULL);
    publish_jobs(scene->bus, EVENTS);
    assert_int_equal(claim_lease(scene->bus, -1, lease), EVENTS);
    const int64_t some[] = {7, 2, 7};
    assert_ok(hf_ack(scene->bus, "s", lease, some, COUNTED(some)));
    assert_int_equal(info_of(scene->bus, "s").in_flight, EVENTS - 2);
    assert_int_equal(info_of(scene->bus, "s").checkpoint, 0);
    assert_status(hf_ack(scene->bus, "s", lease, some, 1), HF_STALE);
    assert_ok(hf_ack(scene->bus, "s", lease, NULL, 0));
    assert_int_equal(info_of(scene->bus, "s").in_flight, 0);
    assert_int_equal(info_of(scene->bus, "s").checkpoint, EVENTS);
    assert_status(hf_ack(scene->bus, "s", lease, NULL, 0), HF_STALE);
}

static void a_call_settles_all_its_events_or_none(void **state)
{
    struct scene *scene = *state;
    char lease[HF_LEASE_BYTES];
    create(scene->bus, "s", NULL);
    publish_jobs(scene->bus, EVENTS);
    assert_int_equal(claim_lease(scene->bus, 5, lease), 5);
    const int64_t mixed[] = {1, 2, 6};
    assert_status(hf_ack(scene->bus, "s", lease, mixed, 3), HF_STALE);
    assert_status(hf_release(scene->bus, "s", lease, mixed, 3), HF_STALE);
    assert_status(hf_nack(scene->bus, "s", lease, mixed, 3, -1, "x"), HF_STALE);
    assert_status(hf_bury(scene->bus, "s", lease, mixed, 3, "x"), HF_STALE);
    assert_int_equal(info_of(scene->bus, "s").in_flight, 5);
    assert_int_equal(info_of(scene->bus, "s").dead, 0);
    assert_int_equal(info_of(scene->bus, "s").retrying, 0);
    assert_ok(hf_ack(scene->bus, "s", lease, mixed, 0)); /* an empty list: nothing */
    assert_int_equal(info_of(scene->bus, "s").in_flight, 5);
}

static void a_released_event_comes_again_as_the_same_attempt(void **state)
{
    struct scene *scene = *state;
    char lease[HF_LEASE_BYTES];
    create(scene->bus, "s", NULL);
    publish_jobs(scene->bus, 3);
    assert_int_equal(claim_lease(scene->bus, -1, lease), 3);
    const int64_t two[] = {2};
    assert_ok(hf_release(scene->bus, "s", lease, two, 1));
    hf_batch *batch = claim(scene->bus);
    assert_int_equal(hf_batch_count(batch), 1);
    assert_int_equal(hf_batch_event(batch, 0)->position, 2);
    assert_int_equal(hf_batch_attempt(batch, 0), 1);
    hf_batch_free(batch);
    assert_ok(hf_release(scene->bus, "s", lease, NULL, 0));
    batch = claim(scene->bus);
    assert_int_equal(hf_batch_count(batch), 2);
    hf_batch_free(batch);
}

static void a_failed_event_comes_again_with_its_next_attempt(void **state)
{
    struct scene *scene = *state;
    char lease[HF_LEASE_BYTES];
    int32_t attempt;
    create(scene->bus, "s", NULL);
    const char *id = publish(scene->bus, "job.new", NULL, "{}")->id;
    char kept[HF_ID_BYTES];
    memcpy(kept, id, sizeof kept);
    assert_int_equal(claim_lease(scene->bus, -1, lease), 1);
    for (int32_t i = 1; i <= 3; i++) {
        char error[32];
        snprintf(error, sizeof error, "failure %d", (int)i);
        assert_ok(hf_nack(scene->bus, "s", lease, NULL, 0, -1, error));
        int32_t failed;
        assert_int_equal(state_of(scene->bus, "s", kept, &failed), HF_STATE_RETRYING);
        assert_int_equal(failed, i);
        assert_int_equal(claim_soon(scene->bus, &attempt, lease), 1);
        assert_int_equal(attempt, i + 1);
    }
    assert_int_equal(state_of(scene->bus, "s", kept, NULL), HF_STATE_PROCESSING);
    assert_ok(hf_nack(scene->bus, "s", lease, NULL, 0, 0, "failure 4"));
    assert_nothing_left(scene->bus);
    struct dead dead;
    assert_int_equal(dead_of(scene->bus, "s", &dead, 1), 1);
    assert_string_equal(dead.reason, "attempts");
    assert_string_equal(dead.error, "failure 4");
    assert_int_equal(dead.attempts, 4);
    assert_int_equal(occurrences(dead.story, "\"error\":\"failure "), 4);
    assert_string_equal(dead.event_id, kept);
}

static void every_failed_attempt_is_logged_with_all_there_is(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = shared_options();
    char lease[HF_LEASE_BYTES];
    int32_t attempt;
    options.attempts_max = 2;
    create(scene->bus, "s", &options);
    char id[HF_ID_BYTES];
    memcpy(id, publish(scene->bus, "job.new", NULL, "{}")->id, sizeof id);
    assert_int_equal(claim_lease(scene->bus, -1, lease), 1);
    assert_ok(hf_nack(scene->bus, "s", lease, NULL, 0, 5, "first"));
    assert_int_equal(claim_soon(scene->bus, &attempt, lease), 1);
    assert_ok(hf_nack(scene->bus, "s", lease, NULL, 0, 5, NULL));
    struct logged logged[3];
    assert_int_equal(scene_logged(scene, id, logged, 3), 2);
    assert_int_equal(logged[0].level, HF_LOG_WARN);
    assert_string_equal(logged[0].subscription, "s");
    assert_string_equal(logged[0].event_type, "job.new");
    assert_int_equal(logged[0].position, 1);
    assert_int_equal(logged[0].attempt, 1);
    assert_int_equal(logged[0].attempts_max, 2);
    assert_int_equal(logged[0].delay_ms, 5);
    assert_string_equal(logged[0].error, "first");
    assert_int_equal(logged[1].level, HF_LOG_ERROR);
    assert_int_equal(logged[1].attempt, 2);
    assert_int_equal(logged[1].delay_ms, -1);
    assert_string_equal(logged[1].error, "hf_nack was called without an error text");
}

static void nack_waits_by_the_retry_policy_unless_a_delay_is_given(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = shared_options();
    char lease[HF_LEASE_BYTES];
    options.retry_base_ms = 60000;
    options.retry_max_ms = 60000;
    create(scene->bus, "s", &options);
    publish_jobs(scene->bus, 2);
    assert_int_equal(claim_lease(scene->bus, 2, lease), 2);
    const int64_t first[] = {1};
    assert_ok(hf_nack(scene->bus, "s", lease, first, 1, -1, "x"));
    assert_nothing_left(scene->bus);
    assert_ok(hf_nack(scene->bus, "s", lease, NULL, 0, 0, "x"));
    hf_batch *batch = claim(scene->bus);
    assert_int_equal(hf_batch_count(batch), 1);
    assert_int_equal(hf_batch_event(batch, 0)->position, 2);
    hf_batch_free(batch);
    assert_int_equal(info_of(scene->bus, "s").retrying, 1);
}

static void a_buried_event_is_a_dead_letter_at_once(void **state)
{
    struct scene *scene = *state;
    char lease[HF_LEASE_BYTES];
    create(scene->bus, "s", NULL);
    publish_jobs(scene->bus, 3);
    assert_int_equal(claim_lease(scene->bus, -1, lease), 3);
    const int64_t two[] = {2};
    assert_ok(hf_bury(scene->bus, "s", lease, two, 1, "never"));
    assert_ok(hf_bury(scene->bus, "s", lease, NULL, 0, NULL));
    struct dead dead[4];
    assert_int_equal(dead_of(scene->bus, "s", dead, 4), 3);
    assert_string_equal(dead[2].reason, "rejected");
    assert_string_equal(dead[2].error, "never");
    assert_int_equal(dead[2].position, 2);
    assert_int_equal(dead[2].attempts, 1);
    assert_string_equal(dead[0].error, "hf_bury was called without an error text");
    assert_int_equal(info_of(scene->bus, "s").checkpoint, 3);
}

static void settling_works_from_another_bus(void **state)
{
    struct scene *scene = *state;
    hf_bus *other = scene_open(scene, NULL);
    char lease[HF_LEASE_BYTES];
    create(scene->bus, "s", NULL);
    publish_jobs(scene->bus, 4);
    assert_int_equal(claim_lease(scene->bus, -1, lease), 4);
    const int64_t p[] = {1, 2, 3, 4};
    assert_ok(hf_ack(other, "s", lease, &p[0], 1));
    assert_ok(hf_nack(other, "s", lease, &p[1], 1, 0, "x"));
    assert_ok(hf_bury(other, "s", lease, &p[2], 1, "x"));
    assert_ok(hf_touch(other, "s", lease, 60000));
    assert_ok(hf_release(other, "s", lease, &p[3], 1));
    assert_status(hf_touch(other, "s", lease, 1000), HF_STALE);
}

static void ten_thousand_can_be_claimed_and_failed_in_one_call(void **state)
{
    struct scene *scene = *state;
    hf_new_event *events = calloc(HF_CLAIM_MAX, sizeof *events);
    char lease[HF_LEASE_BYTES];
    create(scene->bus, "s", NULL);
    for (size_t i = 0; i < HF_CLAIM_MAX; i++) {
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = "job.new";
    }
    assert_ok(hf_publish_many(scene->bus, events, HF_CLAIM_MAX, NULL));
    free(events);
    assert_int_equal(claim_lease(scene->bus, HF_CLAIM_MAX, lease), HF_CLAIM_MAX);
    assert_ok(hf_nack(scene->bus, "s", lease, NULL, 0, 0, "x"));
    assert_int_equal(info_of(scene->bus, "s").retrying, HF_CLAIM_MAX);
    assert_int_equal(claim_lease(scene->bus, HF_CLAIM_MAX, lease), HF_CLAIM_MAX);
    assert_ok(hf_ack(scene->bus, "s", lease, NULL, 0));
    assert_int_equal(info_of(scene->bus, "s").lag, 0);
}

static void bad_leases_and_arguments_are_refused(void **state)
{
    struct scene *scene = *state;
    const int64_t one[] = {1};
    const char *none = "00000000000000000000000000000000";
    hf_subscription_options ordered = quick_options();
    create(scene->bus, "s", NULL);
    create(scene->bus, "o", &ordered);
    assert_status(hf_ack(scene->bus, "s", "", NULL, 0), HF_INVALID);
    assert_said("lease is 0 characters");
    assert_status(hf_ack(scene->bus, "s", "0000000000000000000000000000000G", NULL, 0), HF_INVALID);
    assert_said("byte 31");
    assert_status(hf_ack(scene->bus, "s", "A0000000000000000000000000000000", NULL, 0), HF_INVALID);
    assert_status(hf_ack(scene->bus, "s", NULL, NULL, 0), HF_INVALID);
    assert_status(hf_ack(scene->bus, NULL, none, NULL, 0), HF_INVALID);
    assert_status(hf_ack(NULL, "s", none, NULL, 0), HF_INVALID);
    assert_status(hf_ack(scene->bus, "s", none, NULL, 2), HF_INVALID);
    assert_status(hf_ack(scene->bus, "s", none, one, HF_CLAIM_MAX + 1), HF_INVALID);
    assert_said("count is 10001");
    assert_status(hf_ack(scene->bus, "s", none, NULL, 0), HF_STALE);
    assert_status(hf_release(scene->bus, "s", none, one, 1), HF_STALE);
    assert_status(hf_nack(scene->bus, "s", none, one, 1, -1, "x"), HF_STALE);
    assert_status(hf_bury(scene->bus, "s", none, one, 1, "x"), HF_STALE);
    assert_status(hf_touch(scene->bus, "s", none, -1), HF_STALE);
    assert_status(hf_touch(scene->bus, "s", none, 0), HF_INVALID);
    assert_status(hf_nack(scene->bus, "s", none, one, 1, -2, "x"), HF_INVALID);
    assert_said("delay_ms is -2");
    assert_status(hf_ack(scene->bus, "x", none, NULL, 0), HF_NOTFOUND);
    assert_status(hf_nack(scene->bus, "x", none, NULL, 0, -1, NULL), HF_NOTFOUND);
    assert_status(hf_ack(scene->bus, "o", none, NULL, 0), HF_MISUSE);
    assert_status(hf_bury(scene->bus, "o", none, NULL, 0, NULL), HF_MISUSE);
    assert_status(hf_touch(scene->bus, "o", none, -1), HF_MISUSE);
}

static void a_name_means_the_subscription_that_has_it_now(void **state)
{
    struct scene *scene = *state;
    hf_bus *other = scene_open(scene, NULL);
    char old[HF_LEASE_BYTES];
    char lease[HF_LEASE_BYTES];
    create(scene->bus, "s", NULL);
    publish_jobs(scene->bus, 2);
    assert_int_equal(claim_lease(scene->bus, 1, old), 1);
    assert_ok(hf_subscription_remove(other, "s"));
    hf_batch *batch = NULL;
    assert_status(hf_claim(scene->bus, "s", NULL, &batch), HF_NOTFOUND);
    assert_status(hf_ack(scene->bus, "s", old, NULL, 0), HF_NOTFOUND);
    create(other, "s", NULL);
    publish_jobs(other, 3);
    assert_int_equal(claim_lease(other, 3, lease), 3);
    assert_ok(hf_subscription_remove(other, "s"));
    hf_subscription_options start = shared_options();
    start.from.kind = HF_PLACE_START;
    create(other, "s", &start);
    assert_int_equal(claim_lease(scene->bus, 2, lease), 2);
    assert_status(hf_ack(scene->bus, "s", old, NULL, 0), HF_STALE);
    assert_ok(hf_subscription_remove(other, "s"));
    create(other, "s", &start);
    assert_int_equal(claim_lease(other, 4, lease), 4);
    assert_ok(hf_ack(scene->bus, "s", lease, NULL, 0)); /* remembers the one before */
    assert_int_equal(claim_lease(scene->bus, 9, lease), 1);
}

/* ---- Leases and time ------------------------------------------------------------------------- */

static size_t claim_short(hf_bus *bus, int64_t lease_ms, hf_toggle detached,
                          char lease[HF_LEASE_BYTES])
{
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    hf_batch *batch = NULL;
    options.lease_ms = lease_ms;
    options.detached = detached;
    assert_ok(hf_claim(bus, "s", &options, &batch));
    size_t count = hf_batch_count(batch);
    memcpy(lease, hf_batch_lease(batch), HF_LEASE_BYTES);
    hf_batch_free(batch);
    return count;
}

static void an_expired_lease_counts_as_an_attempt_and_is_stale(void **state)
{
    struct scene *scene = *state;
    char old[HF_LEASE_BYTES];
    char lease[HF_LEASE_BYTES];
    int32_t attempt;
    create(scene->bus, "s", NULL);
    publish_jobs(scene->bus, 1);
    assert_int_equal(claim_short(scene->bus, 1, HF_TOGGLE_DEFAULT, old), 1);
    assert_int_equal(claim_soon(scene->bus, &attempt, lease), 1);
    assert_int_equal(attempt, 2);
    assert_status(hf_ack(scene->bus, "s", old, NULL, 0), HF_STALE);
    assert_status(hf_nack(scene->bus, "s", old, NULL, 0, -1, "late"), HF_STALE);
    assert_ok(hf_ack(scene->bus, "s", lease, NULL, 0));
}

static void an_event_whose_leases_all_expire_is_buried_unseen(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = shared_options();
    char lease[HF_LEASE_BYTES];
    int32_t attempt;
    options.attempts_max = 2;
    options.lease_ms = 10;
    create(scene->bus, "s", &options);
    publish_jobs(scene->bus, 1);
    assert_int_equal(claim_lease(scene->bus, -1, lease), 1);
    assert_int_equal(claim_soon(scene->bus, &attempt, lease), 1);
    assert_int_equal(attempt, 2);
    /* The second lease runs out; the next claim buries the event and finds the new one. */
    start_waiting(scene->bus, DEADLINE_MS);
    struct dead dead;
    while (dead_of(scene->bus, "s", &dead, 1) == 0) {
        usleep(1000);
    }
    publish_jobs(scene->bus, 1);
    pthread_join(waiting.thread, NULL);
    assert_int_equal(waiting.count, 1);
    assert_int_equal(dead_of(scene->bus, "s", &dead, 1), 1);
    assert_string_equal(dead.reason, "lease");
    assert_string_equal(dead.error, "the lease expired without an answer");
    assert_int_equal(dead.attempts, 2);
    assert_int_equal(dead.position, 1);
}

static void touching_makes_a_lease_last(void **state)
{
    struct scene *scene = *state;
    char lease[HF_LEASE_BYTES];
    create(scene->bus, "s", NULL);
    publish_jobs(scene->bus, 1);
    assert_int_equal(claim_short(scene->bus, 1000, HF_TOGGLE_DEFAULT, lease), 1);
    int64_t begin_us = mono_us();
    assert_ok(hf_touch(scene->bus, "s", lease, 60000));
    while (mono_us() - begin_us < 1200000) {
        assert_nothing_left(scene->bus);
        usleep(20000);
    }
    assert_ok(hf_touch(scene->bus, "s", lease, -1));
    assert_ok(hf_ack(scene->bus, "s", lease, NULL, 0));
}

static void closing_gives_a_bound_lease_back_and_keeps_a_detached_one(void **state)
{
    struct scene *scene = *state;
    hf_bus *worker = scene_open(scene, NULL);
    char bound[HF_LEASE_BYTES];
    char detached[HF_LEASE_BYTES];
    create(scene->bus, "s", NULL);
    publish_jobs(scene->bus, 1);
    assert_int_equal(claim_short(worker, 60000, HF_TOGGLE_DEFAULT, bound), 1);
    publish_jobs(scene->bus, 1);
    assert_int_equal(claim_short(worker, 60000, HF_ON, detached), 1);
    scene_close(scene, worker);
    hf_batch *batch = claim(scene->bus);
    assert_int_equal(hf_batch_count(batch), 1);
    assert_int_equal(hf_batch_event(batch, 0)->position, 1);
    hf_batch_free(batch);
    assert_status(hf_ack(scene->bus, "s", bound, NULL, 0), HF_STALE);
    assert_ok(hf_ack(scene->bus, "s", detached, NULL, 0));
}

/* ---- What must not be seen ------------------------------------------------------------------- */

static void types_outside_the_patterns_die_if_the_subscription_says_so(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = shared_options();
    options.on_unhandled = HF_UNHANDLED_DEAD_LETTER;
    create(scene->bus, "s", &options);
    publish(scene->bus, "stray.one", NULL, "1");
    publish_jobs(scene->bus, 1);
    publish(scene->bus, "stray.two", NULL, "2");
    hf_batch *batch = claim(scene->bus);
    assert_int_equal(hf_batch_count(batch), 1);
    assert_string_equal(hf_batch_event(batch, 0)->type, "job.new");
    assert_ok(hf_ack(scene->bus, "s", hf_batch_lease(batch), NULL, 0));
    hf_batch_free(batch);
    struct dead dead[3];
    assert_int_equal(dead_of(scene->bus, "s", dead, 3), 2);
    assert_string_equal(dead[0].reason, "no_handler");
    assert_string_equal(dead[0].error, "no pattern of the subscription matches the event's type");
    assert_string_equal(dead[0].type, "stray.two");
    assert_int_equal(dead[0].attempts, 0);
    assert_string_equal(dead[0].story, "[]");
    assert_int_equal(info_of(scene->bus, "s").lag, 0);
}

static void a_claim_reads_past_a_batch_of_events_outside_the_patterns(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = shared_options();
    options.on_unhandled = HF_UNHANDLED_DEAD_LETTER;
    create(scene->bus, "s", &options);
    for (int i = 0; i < 5; i++) {
        publish(scene->bus, "stray", NULL, NULL);
    }
    publish_jobs(scene->bus, 1);
    hf_batch *batch = claim_max(scene->bus, "s", 2);
    assert_int_equal(hf_batch_count(batch), 1);
    hf_batch_free(batch);
    struct dead dead[6];
    assert_int_equal(dead_of(scene->bus, "s", dead, 6), 5);
}

/* ---- Races ----------------------------------------------------------------------------------- */

struct nacking {
    hf_bus *bus;
    char lease[HF_LEASE_BYTES];
    hf_status status;
};

static void *nack_all(void *ctx)
{
    struct nacking *nacking = ctx;
    nacking->status = hf_nack(nacking->bus, "s", nacking->lease, NULL, 0, 0, "x");
    return NULL;
}

static void events_settled_while_a_nack_was_under_way_stay_settled(void **state)
{
    struct scene *scene = *state;
    static struct nacking nacking;
    pthread_t thread;
    const int64_t two[] = {2};
    create(scene->bus, "s", NULL);
    publish_jobs(scene->bus, 3);
    nacking = (struct nacking){.bus = scene->bus};
    assert_int_equal(claim_lease(scene->bus, -1, nacking.lease), 3);
    point_arm("lease_read_before_settle", 1, POINT_STOP_THREAD);
    assert_int_equal(pthread_create(&thread, NULL, nack_all, &nacking), 0);
    assert_true(point_wait_blocked("lease_read_before_settle", DEADLINE_MS));
    assert_ok(hf_ack(scene->bus, "s", nacking.lease, two, 1));
    point_release("lease_read_before_settle");
    pthread_join(thread, NULL);
    assert_int_equal(nacking.status, HF_STALE);
    assert_int_equal(info_of(scene->bus, "s").in_flight, 2);
    assert_int_equal(info_of(scene->bus, "s").retrying, 0);
}

static void a_seek_makes_leases_stale(void **state)
{
    struct scene *scene = *state;
    char lease[HF_LEASE_BYTES];
    create(scene->bus, "s", NULL);
    publish_jobs(scene->bus, 3);
    assert_int_equal(claim_lease(scene->bus, -1, lease), 3);
    assert_ok(hf_seek(scene->bus, "s", (hf_place){HF_PLACE_START, 0}, HF_OFF, NULL));
    assert_status(hf_ack(scene->bus, "s", lease, NULL, 0), HF_STALE);
    assert_int_equal(claim_lease(scene->bus, -1, lease), 3);
}

static int teardown(void **state)
{
    point_reset();
    return scene_teardown(state);
}

#define pull_test(test) cmocka_unit_test_setup_teardown(test, scene_setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        pull_test(a_batch_holds_events_under_one_lease),
        pull_test(nothing_to_claim_is_an_empty_batch),
        pull_test(max_and_the_options_batch_limit_a_claim),
        pull_test(bad_claims_are_refused),
        pull_test(a_paused_subscription_gives_nothing),
        pull_test(a_publish_wakes_a_waiting_claim),
        pull_test(a_claim_waits_its_time_for_nothing),
        pull_test(a_waiting_claim_sees_a_retry_become_due),
        pull_test(shutdown_ends_a_waiting_claim),
        pull_test(acknowledged_events_are_done),
        pull_test(a_call_settles_all_its_events_or_none),
        pull_test(a_released_event_comes_again_as_the_same_attempt),
        pull_test(a_failed_event_comes_again_with_its_next_attempt),
        pull_test(every_failed_attempt_is_logged_with_all_there_is),
        pull_test(nack_waits_by_the_retry_policy_unless_a_delay_is_given),
        pull_test(a_buried_event_is_a_dead_letter_at_once),
        pull_test(settling_works_from_another_bus),
        pull_test(ten_thousand_can_be_claimed_and_failed_in_one_call),
        pull_test(bad_leases_and_arguments_are_refused),
        pull_test(a_name_means_the_subscription_that_has_it_now),
        pull_test(an_expired_lease_counts_as_an_attempt_and_is_stale),
        pull_test(an_event_whose_leases_all_expire_is_buried_unseen),
        pull_test(touching_makes_a_lease_last),
        pull_test(closing_gives_a_bound_lease_back_and_keeps_a_detached_one),
        pull_test(types_outside_the_patterns_die_if_the_subscription_says_so),
        pull_test(a_claim_reads_past_a_batch_of_events_outside_the_patterns),
        pull_test(events_settled_while_a_nack_was_under_way_stay_settled),
        pull_test(a_seek_makes_leases_stale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
