/*
 * test_rate_limit.c - the rate of a subscription counts for all processes together: handlers,
 * ordered and shared, and claims; also when one of them is killed.
 *
 * The long tests last SECONDS, or what HOLDFAST_TEST_RATE_SECONDS says (tests/torture/run).
 */
#include "support_actor.h"
#include "support_tables.h"

#include "base/limiter.h"
#include "base/time/clock.h"

#include <signal.h>

#define SECONDS 8
#define RATE 100
#define PROCESSES 4
#define KEYS 64

static int seconds(void)
{
    const char *given = getenv("HOLDFAST_TEST_RATE_SECONDS");
    return given ? (int)strtol(given, NULL, 10) : SECONDS;
}

static hf_subscription_options limited(hf_mode mode, int32_t events, int64_t ms)
{
    hf_subscription_options options = quick_options();
    options.mode = mode;
    options.rate_events = events;
    options.rate_ms = ms;
    return options;
}

static void publish_jobs(hf_bus *bus, int count)
{
    hf_new_event *events = calloc((size_t)count, sizeof *events);
    char keys[KEYS][8];
    assert_non_null(events);
    for (int i = 0; i < count; i++) {
        snprintf(keys[i % KEYS], sizeof keys[0], "k%d", i % KEYS);
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = "job";
        events[i].key = keys[i % KEYS];
    }
    assert_ok(hf_publish_many(bus, events, (size_t)count, NULL));
    free(events);
}

/* ---- One process ----------------------------------------------------------------------------- */

static bool has_seen(void *ctx)
{
    return recorder_count(ctx) >= 12;
}

static void handlers_begin_no_faster_than_the_rate(void **state, hf_mode mode)
{
    struct scene *scene = *state;
    hf_subscription_options options = limited(mode, 20, 1000);
    struct recorder *recorder = scene_recorder(scene, NULL);
    options.concurrency = 8;
    publish_jobs(scene->bus, 100);
    subscribe(scene->bus, "s", "job", recorder, &options);
    int64_t begun_us = mono_us();
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(has_seen, recorder));
    int64_t spent_us = mono_us() - begun_us;
    size_t count = recorder_count(recorder);
    assert_true(spent_us >= 500000); /* 11 of them, at 50 ms each */
    assert_true((int64_t)count <= 2 + (mono_us() - begun_us) * 20 / 1000000);
}

static void ordered_handlers_begin_no_faster_than_the_rate(void **state)
{
    handlers_begin_no_faster_than_the_rate(state, HF_MODE_ORDERED);
}

static void shared_handlers_begin_no_faster_than_the_rate(void **state)
{
    handlers_begin_no_faster_than_the_rate(state, HF_MODE_SHARED);
}

static size_t claim(hf_bus *bus, int64_t wait_ms)
{
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    hf_batch *batch = NULL;
    options.wait_ms = wait_ms;
    assert_ok(hf_claim(bus, "s", &options, &batch));
    size_t count = hf_batch_count(batch);
    hf_batch_free(batch);
    return count;
}

static void a_claim_gets_what_the_rate_allows_and_waits_for_more(void **state)
{
    struct scene *scene = *state;
    const char *pattern = "job";
    hf_subscription_options options = limited(HF_MODE_SHARED, 1, 1500);
    assert_ok(hf_subscription_create(scene->bus, "s", &pattern, 1, &options, NULL));
    int64_t begun_us = mono_us();
    assert_int_equal(claim(scene->bus, 0), 0); /* there is nothing: the rate is given back */
    publish_jobs(scene->bus, 10);
    assert_int_equal(claim(scene->bus, 0), 1);
    if (claim(scene->bus, 0) == 0) { /* not on a machine that stood still */
        assert_int_equal(claim(scene->bus, DEADLINE_MS), 1);
    }
    assert_true(mono_us() - begun_us >= 1490000);
}

static void waiting_claims_get_events_as_fast_as_the_rate_allows(void **state)
{
    struct scene *scene = *state;
    const char *pattern = "job";
    hf_subscription_options options = limited(HF_MODE_SHARED, 20, 1000);
    options.batch = 1;
    options.wait_period_ms = 3600000; /* whatever wakes a claim, it is not this */
    assert_ok(hf_subscription_create(scene->bus, "s", &pattern, 1, &options, NULL));
    publish_jobs(scene->bus, 40);
    int64_t begun_us = mono_us();
    for (int i = 0; i < 40; i++) {
        assert_int_equal(claim(scene->bus, DEADLINE_MS), 1);
    }
    assert_true(mono_us() - begun_us >= 900000);
    assert_true(mono_us() - begun_us < 20000000);
}

static void a_rate_can_be_changed_and_taken_away(void **state)
{
    struct scene *scene = *state;
    const char *pattern = "job";
    hf_subscription_options options = limited(HF_MODE_SHARED, 1, 3600000);
    assert_ok(hf_subscription_create(scene->bus, "s", &pattern, 1, &options, NULL));
    publish_jobs(scene->bus, 50);
    assert_int_equal(claim(scene->bus, 0), 1);
    assert_int_equal(claim(scene->bus, 0), 0);
    options.rate_events = 0;
    assert_ok(hf_subscription_create(scene->bus, "s", &pattern, 1, &options, NULL));
    assert_int_equal(claim(scene->bus, 0), 49);
}

/* As after a second in which nothing began: a second's worth may begin at once. */
static void fill_bucket(struct scene *scene)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             scene->path ? "INSERT INTO holdfast_rates SELECT id, %lld FROM holdfast_subscriptions"
                         : "INSERT INTO holdfast_private.rates SELECT id, to_timestamp(%lld / 1e6) "
                           "FROM holdfast_private.subscriptions",
             (long long)(wall_us() - 1000000));
    tables_run(scene, sql);
}

static void a_process_takes_a_tenth_of_a_second_of_the_rate_at_once(void **state)
{
    struct scene *scene = *state;
    const char *pattern = "job";
    hf_subscription_options options = limited(HF_MODE_SHARED, RATE, 1000);
    hf_claim_options most = HF_CLAIM_OPTIONS_INIT;
    hf_batch *batch = NULL;
    struct recorder *recorder = scene_recorder(scene, NULL);
    recorder->door = scene_door(scene);
    publish_jobs(scene->bus, 3 * RATE);
    assert_ok(hf_subscription_create(scene->bus, "s", &pattern, 1, &options, NULL));
    fill_bucket(scene);
    subscribe(scene->bus, "s", "job", recorder, &options);
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->door, 1));
    most.max = 2 * RATE;
    assert_ok(hf_claim(scene_open(scene, NULL), "s", &most, &batch));
    size_t left = hf_batch_count(batch);
    hf_batch_free(batch);
    assert_in_range(left, RATE * 8 / 10, RATE);
    door_open(recorder->door);
}

static void a_process_claims_what_begins_in_a_second_and_leaves_the_rest_to_others(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = limited(HF_MODE_SHARED, 5, 1000);
    struct recorder *recorder = scene_recorder(scene, NULL);
    recorder->door = scene_door(scene);
    publish_jobs(scene->bus, 50);
    subscribe(scene->bus, "s", "job", recorder, &options);
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->door, 1));
    assert_in_range(info_of(scene->bus, "s").in_flight, 1, 10);
    door_open(recorder->door);
}

/* When the bucket was empty, as the store remembers it: each share that is taken changes that. */
static int64_t bucket(struct scene *scene)
{
    return tables_number(scene, scene->path ? "SELECT empty_at FROM holdfast_rates"
                                            : "SELECT (extract(epoch FROM empty_at) * 1e6)::bigint "
                                              "FROM holdfast_private.rates");
}

/* Ten events wait, and the process has taken a share of the rate for all of them; the handler is at
 * the door with the first. The clock stands still: the share is not over by itself. */
static struct recorder *take_a_share(struct scene *scene, hf_subscription_options *options)
{
    const char *pattern = "job";
    struct recorder *recorder = scene_recorder(scene, NULL);
    recorder->door = scene_door(scene);
    options->partitions = 1;
    options->concurrency = 1;
    publish_jobs(scene->bus, 10);
    assert_ok(hf_subscription_create(scene->bus, "s", &pattern, 1, options, NULL));
    fill_bucket(scene);
    subscribe(scene->bus, "s", "job", recorder, options);
    clock_fake_set(wall_us(), mono_us());
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->door, 1));
    return recorder;
}

static int teardown_clock(void **state)
{
    clock_fake_off();
    return scene_teardown(state);
}

static void what_is_left_of_a_share_may_begin_for_a_second(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = limited(HF_MODE_ORDERED, RATE, 1000);
    options.checkpoint_events = 1; /* one by one: what waits is not in hand */
    struct recorder *recorder = take_a_share(scene, &options);
    int64_t share = bucket(scene);
    door_let(recorder->door, 1);
    assert_true(recorder_wait_begun(recorder, 2));
    assert_int_equal(bucket(scene), share);
    clock_fake_advance(LIMITER_BURST_US);
    door_let(recorder->door, 1);
    assert_true(recorder_wait_begun(recorder, 3));
    assert_int_not_equal(bucket(scene), share); /* the third is of another one */
    door_open(recorder->door);
}

static void what_was_in_hand_and_did_not_begin_keeps_its_share(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = limited(HF_MODE_ORDERED, RATE, 1000);
    hf_cancel_options fifth = HF_CANCEL_OPTIONS_INIT;
    struct recorder *recorder = take_a_share(scene, &options);
    int64_t share = bucket(scene);
    fifth.position = 5;
    fifth.wait_ms = DEADLINE_MS;
    /* For that the worker gives up all that wait behind the first one. */
    assert_ok(hf_cancel(scene->bus, "s", NULL, &fifth));
    door_open(recorder->door);
    assert_true(recorder_wait(recorder, 9));
    assert_int_equal(bucket(scene), share);
}

/* When each unit began. */
static struct {
    pthread_mutex_t mutex;
    int64_t at_us[8];
    size_t count;
} begun = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static hf_verdict note_unit(const hf_event *const *events, size_t count, hf_delivery *delivery,
                            void *ctx)
{
    (void)events, (void)count, (void)delivery, (void)ctx;
    pthread_mutex_lock(&begun.mutex);
    if (begun.count < COUNTED(begun.at_us)) {
        begun.at_us[begun.count++] = mono_us();
    }
    pthread_mutex_unlock(&begun.mutex);
    return HF_ACK;
}

static bool have_two_begun(void *ctx)
{
    (void)ctx;
    pthread_mutex_lock(&begun.mutex);
    bool have = begun.count >= 2;
    pthread_mutex_unlock(&begun.mutex);
    return have;
}

static void a_batch_is_delivered_whole_and_the_next_waits_for_its_share(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = limited(HF_MODE_ORDERED, 20, 1000);
    options.batch = 20;
    begun.count = 0;
    publish_jobs(scene->bus, 40);
    assert_ok(hf_subscribe_batch(scene->bus, "s", "job", note_unit, NULL, &options, NULL));
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(have_two_begun, NULL));
    assert_true(begun.at_us[1] - begun.at_us[0] >= 900000); /* 19 too many, at 50 ms each */
}

/* ---- Several processes ----------------------------------------------------------------------- */

static const char *diary_of_part;

static hf_verdict note(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)delivery;
    (void)ctx;
    diary_write(diary_of_part, "ran %lld %lld", (long long)mono_us(), (long long)event->position);
    return HF_ACK;
}

/* Handles "s" until it is killed. */
static int handle(int argc, char **argv)
{
    hf_bus *bus = NULL;
    hf_handler_id id;
    hf_options open = HF_OPTIONS_INIT;
    (void)argc;
    diary_of_part = argv[1];
    if (hf_open(argv[0], &open, &bus) != HF_OK ||
        hf_subscribe(bus, "s", "job", note, NULL, NULL, &id) != HF_OK || hf_start(bus) != HF_OK) {
        return 1;
    }
    for (;;) {
        pause();
    }
}

/* Claims from "s" until it is killed. */
static int pull(int argc, char **argv)
{
    hf_bus *bus = NULL;
    hf_options open = HF_OPTIONS_INIT;
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    (void)argc;
    options.wait_ms = 1000;
    options.max = 5;
    if (hf_open(argv[0], &open, &bus) != HF_OK) {
        return 1;
    }
    for (;;) {
        hf_batch *batch = NULL;
        if (hf_claim(bus, "s", &options, &batch) != HF_OK) {
            return 1;
        }
        for (size_t i = 0; i < hf_batch_count(batch); i++) {
            diary_write(argv[1], "ran %lld %lld", (long long)mono_us(),
                        (long long)hf_batch_event(batch, i)->position);
        }
        if (hf_batch_count(batch) > 0) {
            hf_ack(bus, "s", hf_batch_lease(batch), NULL, 0);
        }
        hf_batch_free(batch);
    }
}

/* How many ran from the first one on, until so long after it. */
static size_t ran_within(const char *diary, int64_t us)
{
    size_t all = diary_count(diary, "ran ");
    int64_t *at_us = calloc(all, sizeof *at_us);
    size_t count = 0;
    assert_non_null(at_us);
    all = diary_numbers(diary, "ran ", at_us, all);
    for (size_t i = 0; i < all; i++) {
        count += at_us[i] < at_us[0] + us;
    }
    free(at_us);
    return count;
}

static void keep_to_the_rate(struct scene *scene, hf_mode mode, const char *const parts[PROCESSES])
{
    const char *pattern = "job";
    hf_subscription_options options = limited(mode, RATE, 1000);
    char diary[512];
    pid_t pids[PROCESSES];
    snprintf(diary, sizeof diary, "%s/diary", scene->dir);
    options.partitions = mode == HF_MODE_ORDERED ? PROCESSES : -1;
    options.lease_ms = 1000;
    assert_ok(hf_subscription_create(scene->bus, "s", &pattern, 1, &options, NULL));
    publish_jobs(scene->bus, 2 * RATE * (seconds() + 2));
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = actor_start(parts[i], scene->url, diary, NULL);
        assert_true(pids[i] > 0);
    }
    assert_true(diary_wait(diary, "ran ", (size_t)(RATE * seconds() / 3)));
    actor_kill(pids[0]);
    usleep((useconds_t)(seconds() * 1000000));
    for (int i = 1; i < PROCESSES; i++) {
        actor_kill(pids[i]);
    }
    size_t ran = ran_within(diary, seconds() * INT64_C(1000000));
    print_message("# %zu in %d s at %d/s\n", ran, seconds(), RATE);
    assert_in_range(ran, seconds() * RATE * 95 / 100, seconds() * RATE * 105 / 100);
}

static void four_processes_with_handlers_keep_to_the_rate_and_one_is_killed(void **state)
{
    static const char *const parts[PROCESSES] = {"handle", "handle", "handle", "handle"};
    keep_to_the_rate(*state, HF_MODE_ORDERED, parts);
}

static void handlers_and_claims_keep_to_one_rate_and_one_is_killed(void **state)
{
    static const char *const parts[PROCESSES] = {"handle", "handle", "pull", "pull"};
    keep_to_the_rate(*state, HF_MODE_SHARED, parts);
}

#define frozen_test(test) cmocka_unit_test_setup_teardown(test, scene_setup, teardown_clock)

static const struct part parts[] = {{"handle", handle}, {"pull", pull}};

static const struct CMUnitTest tests[] = {
    scene_test(ordered_handlers_begin_no_faster_than_the_rate),
    scene_test(shared_handlers_begin_no_faster_than_the_rate),
    scene_test(a_claim_gets_what_the_rate_allows_and_waits_for_more),
    scene_test(waiting_claims_get_events_as_fast_as_the_rate_allows),
    scene_test(a_rate_can_be_changed_and_taken_away),
    scene_test(a_process_takes_a_tenth_of_a_second_of_the_rate_at_once),
    scene_test(a_process_claims_what_begins_in_a_second_and_leaves_the_rest_to_others),
    frozen_test(what_is_left_of_a_share_may_begin_for_a_second),
    frozen_test(what_was_in_hand_and_did_not_begin_keeps_its_share),
    scene_test(a_batch_is_delivered_whole_and_the_next_waits_for_its_share),
    scene_test(four_processes_with_handlers_keep_to_the_rate_and_one_is_killed),
    scene_test(handlers_and_claims_keep_to_one_rate_and_one_is_killed),
};

ACTOR_MAIN(tests, parts)
