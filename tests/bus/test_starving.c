/*
 * Tests of delivery without memory: whatever allocation fails, in whatever thread, no event is
 * lost, nothing crashes, nothing leaks, and the bus goes on when there is memory again. Opening,
 * publishing and subscribing answer HF_NOMEM and work at the next try.
 */
#include "support_scene.h"

#include "base/mem.h"

#define ALLOCATIONS_MAX 800

/* Opening without memory has one thread until it is nearly done, and opens the file each time: the
 * sanitizer of threads, for which that is ten times the work of all other tests, sees some of the
 * allocations fail. In other variants each of them fails. */
#ifdef __SANITIZE_THREAD__
#define OPENING_STRIDE 4
#else
#define OPENING_STRIDE 1
#endif

/* ---- Calls ----------------------------------------------------------------------------------- */

static void opening_without_memory_fails_cleanly(void **state)
{
    struct scene *scene = *state;
    hf_status status = HF_NOMEM;
    int failures = 0;

    for (int64_t nth = 1; nth < ALLOCATIONS_MAX && status != HF_OK; nth += OPENING_STRIDE) {
        hf_bus *bus = NULL;
        int64_t live = mem_live();

        mem_fail_at(nth, false);
        status = hf_open(scene->url, &scene->options, &bus);
        mem_fail_at(0, false);
        if (status) {
            assert_status(status, HF_NOMEM);
            assert_null(bus);
            failures++;
        }
        assert_ok(hf_close(&bus));
        assert_int_equal(mem_live(), live);
    }
    assert_status(status, HF_OK);
    assert_true(failures > 3);
}

static void publishing_without_memory_stores_nothing_or_one(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_stats stats = {.size = sizeof stats};
    hf_receipt receipt;
    hf_status status = HF_NOMEM;
    int64_t head = 0;

    event.type = "x";
    event.payload = "{\"a\":[1,2,3]}";
    for (int64_t nth = 1; nth < ALLOCATIONS_MAX && status != HF_OK; nth++) {
        mem_fail_at(nth, false);
        status = hf_publish(scene->bus, &event, &receipt);
        mem_fail_at(0, false);
        if (status) {
            assert_status(status, HF_NOMEM);
        }
        head += status == HF_OK;
        assert_ok(hf_stats_get(scene->bus, &stats));
        assert_int_equal(stats.head, head);
    }
    assert_status(status, HF_OK);
}

static void subscribing_without_memory_registers_nothing(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    hf_status status = HF_NOMEM;
    hf_handler_id id = -7;

    assert_ok(hf_start(scene->bus));
    for (int64_t nth = 1; nth < ALLOCATIONS_MAX && status != HF_OK; nth++) {
        mem_fail_at(nth, false);
        status = hf_subscribe(scene->bus, "a", "*", recorder_handle, recorder, &options, &id);
        mem_fail_at(0, false);
        if (status) {
            assert_status(status, HF_NOMEM);
            assert_int_equal(id, -7);
        }
    }
    assert_status(status, HF_OK);
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 1);
}

/* ---- Delivery -------------------------------------------------------------------------------- */

/* "bad" dies at the second attempt, "once" fails once. */
static hf_verdict mixed(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)recorder;
    if (strcmp(event->type, "bad") == 0 ||
        (strcmp(event->type, "once") == 0 && hf_delivery_attempt(delivery) == 1)) {
        hf_delivery_error(delivery, "failed in attempt %d", (int)hf_delivery_attempt(delivery));
        return HF_RETRY;
    }
    return HF_ACK;
}

static const char *const TYPES[] = {"x", "once", "x", "bad", "x"};

/* Publishes, however often memory is missing; the number of events that are in the log. */
static int64_t publish_hungry(struct scene *scene, int64_t nth)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    int64_t published = 0;

    event.key = nth % 2 ? "k" : NULL;
    for (size_t i = 0; i < COUNTED(TYPES); i++) {
        hf_status status;

        event.type = TYPES[i];
        mem_fail_at(nth, false);
        for (status = HF_NOMEM; status == HF_NOMEM;) {
            status = hf_publish(scene->bus, &event, NULL);
        }
        if (!status) {
            published++;
        } else {
            print_error("publish: %s: %s\n", hf_status_name(status), hf_errmsg());
        }
    }
    return published;
}

static void starve_delivery(struct scene *scene, hf_subscription_options options)
{
    struct recorder *recorder = scene_recorder(scene, mixed);
    const int rounds = 60;
    int64_t published = 0;

    options.attempts_max = 2;
    options.retry_base_ms = 1;
    options.retry_max_ms = 2;
    options.checkpoint_events = 3;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int64_t nth = 1; nth <= rounds; nth++) {
        published += publish_hungry(scene, nth);
        if (nth % 10 == 0) {
            mem_fail_at(0, false);
            settle_all(scene->bus, "a");
        }
    }
    mem_fail_at(0, false);
    settle_all(scene->bus, "a");
    assert_int_equal(published, rounds * (int)COUNTED(TYPES));
    for (int64_t position = 1; position <= published; position++) {
        assert_true(recorder_calls(recorder, position, NULL) >= 1);
    }
    assert_int_equal(info_of(scene->bus, "a").dead, rounds);
    assert_int_equal(info_of(scene->bus, "a").paused_at_us, -1);
    assert_ok(hf_close(&scene->bus));
}

/* A worker's thread may end a moment after the bus is closed. */
static bool nothing_more_is_kept(void *ctx)
{
    return mem_live() <= *(const int64_t *)ctx;
}

static void ordered_delivery_survives_every_missing_allocation(void **state)
{
    hf_subscription_options options = quick_options();
    int64_t live = mem_live();

    options.concurrency = 2;
    starve_delivery(*state, options);
    assert_true(wait_until(nothing_more_is_kept, &live));
}

static void shared_delivery_survives_every_missing_allocation(void **state)
{
    hf_subscription_options options = quick_options();
    int64_t live = mem_live();

    options.mode = HF_MODE_SHARED;
    options.concurrency = 2;
    starve_delivery(*state, options);
    assert_true(wait_until(nothing_more_is_kept, &live));
}

static void transactional_delivery_survives_every_missing_allocation(void **state)
{
    hf_subscription_options options = quick_options();
    int64_t live = mem_live();

    options.transactional = HF_ON;
    starve_delivery(*state, options);
    assert_true(wait_until(nothing_more_is_kept, &live));
}

/* ---- Many subscriptions ---------------------------------------------------------------------- */

#define MANY 60 /* from 50 on none keeps memory for events while it has none */

static void subscribe_many(struct scene *scene, const char *pattern, struct recorder *recorder)
{
    hf_subscription_options options = quick_options();

    for (int i = 0; i < MANY; i++) {
        char name[16];

        snprintf(name, sizeof name, "s%d", i);
        subscribe(scene->bus, name, pattern, recorder, &options);
    }
}

static void among_many_subscriptions_delivery_survives_every_missing_allocation(void **state)
{
    hf_subscription_options options = quick_options();
    int64_t live = mem_live();

    subscribe_many(*state, "none", scene_recorder(*state, NULL));
    options.concurrency = 2;
    starve_delivery(*state, options);
    assert_true(wait_until(nothing_more_is_kept, &live));
}

static void many_subscriptions_keep_no_memory_for_events_that_are_over(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);

    subscribe_many(scene, "*", recorder);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, NULL);
    int64_t live = mem_live() + 6 * MANY; /* what is kept without that is twice as many blocks */
    publish(scene->bus, "x", NULL, "1");
    assert_true(recorder_wait(recorder, MANY));
    assert_true(wait_until(nothing_more_is_kept, &live));
}

/* ---- Taking a partition ---------------------------------------------------------------------- */

static int keep_lag(const hf_subscription_info *info, void *ctx)
{
    *(int64_t *)ctx = info->lag;
    return 0;
}

/* Asking needs memory, too. */
static bool nothing_is_left(void *ctx)
{
    int64_t lag = -1;

    return hf_subscription_get(ctx, "a", keep_lag, &lag) == HF_OK && lag == 0;
}

/* One event of each key; all but the first ones have to wait for those. */
static void publish_of_all_keys(hf_bus *bus, int keys)
{
    for (int i = 0; i < keys; i++) {
        char key[16];

        snprintf(key, sizeof key, "%d", i);
        publish(bus, "x", key, "1");
    }
}

/* Whichever allocation fails while it starts: a key that is not known to fail would be passed. */
static void failing_keys_are_loaded_before_anything_runs(void **state)
{
    enum { KEYS = 40, ROUNDS = 60 };
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_always);
    hf_subscription_options options = quick_options();

    options.retry_base_ms = 3600000;
    options.retry_max_ms = 3600000;
    publish_of_all_keys(scene->bus, KEYS);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(nothing_is_left, scene->bus));
    assert_int_equal(recorder_count(recorder), KEYS);
    for (int64_t nth = 1; nth <= ROUNDS; nth++) {
        assert_ok(hf_stop(scene->bus, DEADLINE_MS));
        publish_of_all_keys(scene->bus, KEYS);
        mem_fail_at(nth, false);
        if (hf_start(scene->bus) != HF_OK) { /* the one allocation that fails was its own */
            assert_ok(hf_start(scene->bus));
        }
        usleep(20000); /* usually it is not the question then that finds no memory */
        assert_true(wait_until(nothing_is_left, scene->bus));
        mem_fail_at(0, false);
        assert_int_equal(recorder_count(recorder), KEYS);
    }
    assert_int_equal(info_of(scene->bus, "a").held, KEYS * ROUNDS);
}

/* ---- A famine -------------------------------------------------------------------------------- */

/* Memory is missing for a while, everywhere. */
static void after_a_long_lack_of_memory_everything_is_delivered(void **state)
{
    struct scene *scene = *state;
    struct recorder *ordered = scene_recorder(scene, mixed);
    struct recorder *shared = scene_recorder(scene, mixed);
    hf_subscription_options options = quick_options();

    options.attempts_max = 2;
    subscribe(scene->bus, "o", "*", ordered, &options);
    options.mode = HF_MODE_SHARED;
    subscribe(scene->bus, "s", "*", shared, &options);
    for (int i = 0; i < 100; i++) {
        publish(scene->bus, TYPES[i % 5], i % 3 ? "k" : NULL, "1");
    }
    mem_fail_at(40, true);
    assert_true(hf_start(scene->bus) == HF_OK || hf_start(scene->bus) == HF_NOMEM);
    usleep(300000);
    mem_fail_at(0, false);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, NULL);
    for (int64_t position = 1; position <= 100; position++) {
        assert_true(recorder_calls(ordered, position, NULL) >= 1);
        assert_true(recorder_calls(shared, position, NULL) >= 1);
    }
    assert_int_equal(info_of(scene->bus, "o").dead, 20);
    assert_int_equal(info_of(scene->bus, "s").dead, 20);
}

static const struct CMUnitTest tests[] = {
    bare_test(opening_without_memory_fails_cleanly),
    scene_test(publishing_without_memory_stores_nothing_or_one),
    scene_test(subscribing_without_memory_registers_nothing),
    scene_test(ordered_delivery_survives_every_missing_allocation),
    scene_test(shared_delivery_survives_every_missing_allocation),
    scene_test(transactional_delivery_survives_every_missing_allocation),
    scene_test(among_many_subscriptions_delivery_survives_every_missing_allocation),
    scene_test(many_subscriptions_keep_no_memory_for_events_that_are_over),
    scene_test(failing_keys_are_loaded_before_anything_runs),
    scene_test(after_a_long_lack_of_memory_everything_is_delivered),
};

SCENE_MAIN(tests)
