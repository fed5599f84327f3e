/*
 * Tests of how large a unit is: what the limit of a batch cuts, what it does not cut, and up to
 * where. And of a poison key among a thousand healthy ones, whatever is done about poison; and that
 * batch handlers stay apart from others.
 */
#include "support_tables.h"

#include <stdatomic.h>
#include <time.h>

#define BATCH 100
#define EXTEND 1000
#define CALLS_MAX 64
#define HEALTHY 1000

/* What the handler was given. Static: handlers may outlive a failed test. */
static struct {
    pthread_mutex_t mutex;
    size_t counts[CALLS_MAX];
    size_t calls, events;
    bool ascending;
} given = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static hf_verdict take(const hf_event *const *events, size_t count, hf_delivery *delivery,
                       void *ctx)
{
    (void)delivery;
    (void)ctx;
    pthread_mutex_lock(&given.mutex);
    if (given.calls < CALLS_MAX) {
        given.counts[given.calls] = count;
    }
    given.calls++;
    given.events += count;
    for (size_t i = 1; i < count; i++) {
        given.ascending &= events[i]->position > events[i - 1]->position;
    }
    pthread_mutex_unlock(&given.mutex);
    return HF_ACK;
}

static int limits_setup(void **state)
{
    given.calls = given.events = 0;
    given.ascending = true;
    return scene_setup(state);
}

#define limit_test(test) cmocka_unit_test_setup_teardown(test, limits_setup, scene_teardown)

/* So many events at once, the key of each by its place. */
static void publish_all(hf_bus *bus, size_t count, const char *even, const char *odd)
{
    static hf_new_event events[BATCH + EXTEND + 1];

    assert_true(count <= COUNTED(events));
    for (size_t i = 0; i < count; i++) {
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = "t";
        events[i].key = i % 2 ? odd : even;
        events[i].payload = "1";
    }
    assert_ok(hf_publish_many(bus, events, count, NULL));
}

static void hand_over(struct scene *scene, hf_mode mode, size_t events)
{
    hf_subscription_options options = quick_options();

    options.mode = mode;
    options.batch = BATCH;
    options.batch_by = HF_BATCH_KEY;
    options.batch_extend_max = EXTEND;
    assert_ok(hf_subscribe_batch(scene->bus, "a", "*", take, NULL, &options, NULL));
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(given.events, events);
    assert_true(given.ascending);
}

static void a_run_of_119_events_is_one_unit(void **state)
{
    publish_all(((struct scene *)*state)->bus, 119, "user", "user");
    hand_over(*state, HF_MODE_ORDERED, 119);
    assert_int_equal(given.calls, 1);
}

static void a_run_of_120_events_is_one_unit(void **state)
{
    publish_all(((struct scene *)*state)->bus, 120, "user", "user");
    hand_over(*state, HF_MODE_ORDERED, 120);
    assert_int_equal(given.calls, 1);
}

/* Positions that others took in the middle of a publish_many do not make two of it. */
static void events_of_other_types_do_not_end_a_run(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();

    for (int i = 0; i < BATCH + 20; i++) {
        publish(scene->bus, "t", "user", "1");
        publish(scene->bus, "other", "user", "1");
    }
    options.batch = BATCH;
    options.batch_by = HF_BATCH_KEY;
    assert_ok(hf_subscribe_batch(scene->bus, "a", "t", take, NULL, &options, NULL));
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(given.events, BATCH + 20);
    assert_int_equal(given.calls, 1);
}

static void a_run_that_reaches_the_cap_is_one_unit(void **state)
{
    struct scene *scene = *state;

    publish_all(scene->bus, BATCH + EXTEND, "user", "user");
    hand_over(scene, HF_MODE_ORDERED, BATCH + EXTEND);
    assert_int_equal(given.calls, 1);
    assert_false(scene_said(scene, "was cut"));
}

static void a_run_of_one_more_than_the_cap_is_cut_and_the_log_names_the_limits(void **state)
{
    struct scene *scene = *state;

    publish_all(scene->bus, BATCH + EXTEND + 1, "user", "user");
    hand_over(scene, HF_MODE_ORDERED, BATCH + EXTEND + 1);
    assert_int_equal(given.calls, 2);
    assert_int_equal(given.counts[0], BATCH + EXTEND);
    assert_true(scene_said(scene, "was cut after 1100 events"));
    assert_true(scene_said(scene, "batch is 100, batch_extend_max 1000"));
}

static void events_that_are_no_run_are_cut_at_the_batch(void **state)
{
    publish_all(((struct scene *)*state)->bus, 240, "a", "b");
    hand_over(*state, HF_MODE_ORDERED, 240);
    assert_int_equal(given.calls, 4); /* a hundred and twenty of each */
    for (size_t i = 0; i < 4; i++) {
        assert_true(given.counts[i] == BATCH || given.counts[i] == 20);
    }
}

/* The run at the end of what is in hand goes on in the log, but its first event is in front of all
 * others, and no other worker makes room. */
static void a_unit_that_fills_the_window_does_not_wait_for_itself(void **state)
{
    static const char keys[] = "abacdefghijbbklmnopq";
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();

    for (size_t i = 0; keys[i]; i++) {
        char key[] = {keys[i], '\0'};
        publish(scene->bus, "t", key, "1");
    }
    options.batch = 10;
    options.batch_by = HF_BATCH_KEY;
    options.batch_extend_max = 0;
    options.inflight_max = 12;
    assert_ok(hf_subscribe_batch(scene->bus, "a", "*", take, NULL, &options, NULL));
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(given.events, sizeof keys - 1);
}

static void a_unit_in_a_lease_has_at_most_a_batch(void **state)
{
    publish_all(((struct scene *)*state)->bus, 120, "user", "user");
    hand_over(*state, HF_MODE_SHARED, 120);
    for (size_t i = 0; i < given.calls; i++) {
        assert_true(given.counts[i] <= BATCH);
    }
}

/* ---- Poison ---------------------------------------------------------------------------------- */

static hf_verdict fail_poison(const hf_event *event, hf_delivery *delivery,
                              struct recorder *recorder)
{
    (void)delivery;
    (void)recorder;
    return strcmp(event->key, "poison") == 0 ? HF_RETRY : HF_ACK;
}

static bool healthy_are_done(void *ctx)
{
    return recorder_calls(ctx, 0, NULL) - recorder_calls(ctx, 0, "poison") == HEALTHY;
}

static void publish_healthy(hf_bus *bus, int from, int to)
{
    for (int i = from; i < to; i++) {
        char key[16];

        snprintf(key, sizeof key, "k%d", i);
        publish(bus, "t", key, "1");
    }
}

/* The poison key's two events stand among those of a thousand others. */
static struct recorder *poison(struct scene *scene, hf_on_poison how)
{
    struct recorder *recorder = scene_recorder(scene, fail_poison);
    hf_subscription_options options = quick_options();

    options.on_poison = how;
    options.attempts_max = 2;
    options.partitions = 8;
    options.concurrency = 2;
    publish_healthy(scene->bus, 0, 10);
    publish(scene->bus, "t", "poison", "1");
    publish(scene->bus, "t", "poison", "1");
    publish_healthy(scene->bus, 10, HEALTHY);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    return recorder;
}

static void a_poison_key_that_is_skipped_costs_only_its_own_events(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = poison(scene, HF_POISON_SKIP);

    settle_all(scene->bus, "a");
    assert_true(healthy_are_done(recorder));
    assert_int_equal(recorder_calls(recorder, 0, "poison"), 4);
    assert_int_equal(info_of(scene->bus, "a").dead, 2);
}

static bool is_blocked(void *ctx)
{
    return info_of(ctx, "a").blocked == 1;
}

static void a_poison_key_that_is_blocked_holds_back_only_itself(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = poison(scene, HF_POISON_BLOCK_KEY);

    assert_true(wait_until(healthy_are_done, recorder));
    assert_true(wait_until(is_blocked, scene->bus));
    assert_int_equal(recorder_calls(recorder, 0, "poison"), 2);
    assert_int_equal(info_of(scene->bus, "a").dead, 1);
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
    assert_int_equal(info_of(scene->bus, "a").held, 1);
    assert_int_equal(info_of(scene->bus, "a").lag, 0);
}

static bool is_paused(void *ctx)
{
    return info_of(ctx, "a").paused_at_us >= 0;
}

static void a_poison_key_that_halts_loses_no_event_of_other_keys(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = poison(scene, HF_POISON_HALT);

    for (int64_t deaths = 1; deaths <= 2; deaths++) { /* each of its events is a reason */
        assert_true(wait_until(is_paused, scene->bus));
        assert_int_equal(info_of(scene->bus, "a").dead, deaths);
        assert_ok(hf_resume(scene->bus, "a"));
    }
    settle_all(scene->bus, "a");
    assert_true(healthy_are_done(recorder));
    assert_int_equal(recorder_overlaps(recorder), 0);
    assert_int_equal(info_of(scene->bus, "a").dead, 2);
}

/* ---- Many at once ---------------------------------------------------------------------------- */

#define CROWD_UNITS 10
#define CROWD_EVENTS 8 /* of each */

static atomic_int crowd_whole, crowd_torn, crowd_failed;
static atomic_bool crowd_is_well;

/* Publishes the units, of a key each, one after the other or mixed, and lets the handler have
 * them. */
static void crowd_start(struct scene *scene, hf_batch_handler_fn handler, void *ctx,
                        int64_t retry_ms, int32_t concurrency, bool mixed)
{
    hf_subscription_options options = quick_options();

    options.attempts_max = 100;
    options.retry_base_ms = retry_ms;
    options.retry_max_ms = retry_ms;
    options.retry_jitter_percent = 0;
    options.concurrency = concurrency;
    options.batch = CROWD_EVENTS + 2;
    options.batch_extend_max = 0;
    options.batch_by = HF_BATCH_KEY;
    assert_ok(hf_subscribe_batch(scene->bus, "a", "*", handler, ctx, &options, NULL));
    for (int i = 0; i < CROWD_UNITS * CROWD_EVENTS; i++) {
        char key[16];

        snprintf(key, sizeof key, "k%d", mixed ? i % CROWD_UNITS : i / CROWD_EVENTS);
        publish(scene->bus, "x", key, "1");
    }
    assert_ok(hf_start(scene->bus));
}

static hf_verdict fail_until_well(const hf_event *const *events, size_t count,
                                  hf_delivery *delivery, void *ctx)
{
    (void)events;
    (void)ctx;
    if (!atomic_load(&crowd_is_well)) {
        atomic_fetch_add(&crowd_failed, hf_delivery_attempt(delivery) == 1);
        return HF_RETRY;
    }
    atomic_fetch_add(count == CROWD_EVENTS ? &crowd_whole : &crowd_torn, 1);
    return HF_ACK;
}

static bool all_have_failed(void *ctx)
{
    (void)ctx;
    return atomic_load(&crowd_failed) >= CROWD_UNITS;
}

static bool all_wait_for_a_retry(void *ctx)
{
    return info_of(ctx, "a").retrying == CROWD_UNITS * CROWD_EVENTS;
}

/* The units fail until all have, however long that takes; then they are paused. */
static void crowd_fail(struct scene *scene, bool mixed)
{
    atomic_store(&crowd_whole, 0);
    atomic_store(&crowd_torn, 0);
    atomic_store(&crowd_failed, 0);
    atomic_store(&crowd_is_well, false);
    crowd_start(scene, fail_until_well, NULL, 1000, 2, mixed);
    assert_true(wait_until(all_have_failed, NULL));
    assert_ok(hf_pause(scene->bus, "a", "until all are due"));
    assert_true(wait_until(all_wait_for_a_retry, scene->bus));
}

/* All are due, and come again. */
static void crowd_comes_again_whole(struct scene *scene)
{
    atomic_store(&crowd_is_well, true);
    assert_ok(hf_resume(scene->bus, "a"));
    settle_all(scene->bus, "a");
    assert_int_equal(atomic_load(&crowd_torn), 0);
    assert_int_equal(atomic_load(&crowd_whole), CROWD_UNITS);
}

/* There is room for two units and a part of the third, which waits for the rest of it. */
static void more_units_than_there_is_room_for_come_again_whole(void **state)
{
    struct scene *scene = *state;

    crowd_fail(scene, false);
    usleep(2000000);
    crowd_comes_again_whole(scene);
}

/* The events bear the marks of their units, which mean nothing to handlers of one event. */
static void handlers_of_one_event_get_those_of_failed_units_one_at_a_time_in_order(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);

    crowd_fail(scene, true);
    scene_reopen(scene);
    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_resume(scene->bus, "a"));
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), CROWD_UNITS * CROWD_EVENTS);
    assert_int_equal(recorder_overlaps(recorder), 0);
    for (int i = 0; i < CROWD_UNITS; i++) {
        int64_t last = 0;
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        for (size_t j = 0; j < CROWD_UNITS * CROWD_EVENTS; j++) {
            struct seen seen = recorder_get(recorder, j);
            bool its = strcmp(seen.key, key) == 0;
            assert_true(!its || seen.position > last);
            last = its ? seen.position : last;
        }
    }
}

/* By their time alone it cannot be seen where one of them ends. */
static void units_that_are_due_at_the_very_same_time_come_again_whole(void **state)
{
    struct scene *scene = *state;

    crowd_fail(scene, true);
    tables_run(scene, scene->path
                          ? "UPDATE holdfast_retries SET next_attempt_at = 1"
                          : "UPDATE holdfast_private.retries SET next_attempt_at = 'epoch'");
    crowd_comes_again_whole(scene);
}

/* The units of these keys fail at first; then they wait at the door in ctx. */
static hf_verdict fail_then_wait(const hf_event *const *events, size_t count, hf_delivery *delivery,
                                 void *ctx)
{
    (void)count;
    if (events[0]->key[0] == 'f') {
        atomic_fetch_add(&crowd_whole, 1);
        return HF_ACK;
    }
    if (hf_delivery_attempt(delivery) == 1) {
        return HF_RETRY;
    }
    door_pass(ctx);
    return HF_ACK;
}

static bool a_fresh_one_has_run(void *ctx)
{
    (void)ctx;
    return atomic_load(&crowd_whole) == 1;
}

static void fresh_events_do_not_wait_for_units_without_room(void **state)
{
    struct scene *scene = *state;
    struct door *door = scene_door(scene);

    atomic_store(&crowd_whole, 0);
    crowd_start(scene, fail_then_wait, door, 1, 4, false);
    assert_true(door_wait_inside(door, 2));
    publish(scene->bus, "x", "f", "1");
    assert_true(wait_until(a_fresh_one_has_run, NULL));
    door_open(door);
    settle_all(scene->bus, "a");
}

/* ---- The log --------------------------------------------------------------------------------- */

#define SLOW_MS 10000 /* how long the log callback below waits for a call that hangs */

/* A log callback that takes its time. Static, because it may outlive a failed test. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const char *words; /* of the message that it waits at */
    bool inside;
    bool released;
    bool too_late; /* it went on by itself */
} slow_log = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void write_slowly(const hf_log_record *record, void *ctx)
{
    (void)ctx;
    pthread_mutex_lock(&slow_log.mutex);
    if (strstr(record->message, slow_log.words) && !slow_log.released) {
        struct timespec end;

        clock_gettime(CLOCK_REALTIME, &end);
        end.tv_sec += SLOW_MS / 1000;
        slow_log.inside = true;
        pthread_cond_broadcast(&slow_log.changed);
        while (!slow_log.released && !slow_log.too_late) {
            slow_log.too_late =
                pthread_cond_timedwait(&slow_log.changed, &slow_log.mutex, &end) != 0;
        }
    }
    pthread_mutex_unlock(&slow_log.mutex);
}

static hf_verdict fail_all(const hf_event *const *events, size_t count, hf_delivery *delivery,
                           void *ctx)
{
    (void)events;
    (void)count;
    (void)delivery;
    (void)ctx;
    return HF_DEAD;
}

/* While the callback is inside with these words, another thread uses the subscription. */
static void use_beside_a_slow_log(struct scene *scene, const char *words,
                                  hf_batch_handler_fn handler, size_t events)
{
    hf_options options = scene->options;
    hf_subscription_options batches = quick_options();

    slow_log.words = words;
    slow_log.inside = slow_log.released = slow_log.too_late = false;
    options.log = write_slowly;
    hf_bus *bus = scene_open(scene, &options);
    batches.batch = BATCH;
    batches.batch_by = HF_BATCH_KEY;
    batches.on_batch_failure = HF_BATCH_SPLIT;
    publish_all(bus, events, "user", "user");
    assert_ok(hf_subscribe_batch(bus, "a", "*", handler, NULL, &batches, NULL));
    assert_ok(hf_start(bus));
    pthread_mutex_lock(&slow_log.mutex);
    while (!slow_log.inside) {
        pthread_cond_wait(&slow_log.changed, &slow_log.mutex);
    }
    pthread_mutex_unlock(&slow_log.mutex);
    assert_ok(hf_subscribe_batch(bus, "a", "t", handler, NULL, NULL, NULL));
    pthread_mutex_lock(&slow_log.mutex);
    slow_log.released = true;
    pthread_cond_broadcast(&slow_log.changed);
    bool too_late = slow_log.too_late;
    pthread_mutex_unlock(&slow_log.mutex);
    assert_false(too_late);
    settle_all(bus, "a");
}

static void a_log_that_takes_its_time_over_a_split_holds_up_no_other_thread(void **state)
{
    use_beside_a_slow_log(*state, "it is split", fail_all, 4);
}

static void a_log_that_takes_its_time_over_a_cut_holds_up_no_other_thread(void **state)
{
    use_beside_a_slow_log(*state, "was cut", take, BATCH + EXTEND + 1);
}

static void a_subscription_has_handlers_of_one_kind(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();

    options.batch_by = HF_BATCH_KEY;
    assert_ok(hf_subscribe_batch(scene->bus, "a", "*", take, NULL, &options, NULL));
    assert_status(hf_subscribe(scene->bus, "a", "*", recorder_handle, scene_recorder(scene, NULL),
                               NULL, NULL),
                  HF_MISUSE);
    assert_non_null(strstr(hf_errmsg(), "batch handlers"));
    options.on_batch_failure = HF_BATCH_SPLIT;
    options.on_poison = HF_POISON_BLOCK_KEY;
    assert_status(hf_subscribe_batch(scene->bus, "b", "*", take, NULL, &options, NULL), HF_INVALID);
    assert_status(hf_subscribe_batch(scene->bus, "b", "*", NULL, NULL, NULL, NULL), HF_INVALID);
}

static const struct CMUnitTest tests[] = {
    limit_test(a_subscription_has_handlers_of_one_kind),
    limit_test(a_run_of_119_events_is_one_unit),
    limit_test(a_run_of_120_events_is_one_unit),
    limit_test(events_of_other_types_do_not_end_a_run),
    limit_test(a_run_that_reaches_the_cap_is_one_unit),
    limit_test(a_run_of_one_more_than_the_cap_is_cut_and_the_log_names_the_limits),
    limit_test(events_that_are_no_run_are_cut_at_the_batch),
    limit_test(a_unit_that_fills_the_window_does_not_wait_for_itself),
    limit_test(a_unit_in_a_lease_has_at_most_a_batch),
    limit_test(a_log_that_takes_its_time_over_a_split_holds_up_no_other_thread),
    limit_test(a_log_that_takes_its_time_over_a_cut_holds_up_no_other_thread),
    scene_test(a_poison_key_that_is_skipped_costs_only_its_own_events),
    scene_test(a_poison_key_that_is_blocked_holds_back_only_itself),
    scene_test(a_poison_key_that_halts_loses_no_event_of_other_keys),
    scene_test(more_units_than_there_is_room_for_come_again_whole),
    scene_test(handlers_of_one_event_get_those_of_failed_units_one_at_a_time_in_order),
    scene_test(units_that_are_due_at_the_very_same_time_come_again_whole),
    scene_test(fresh_events_do_not_wait_for_units_without_room),
};

SCENE_MAIN(tests)
