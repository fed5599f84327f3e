/*
 * Tests of what a subscription must do of its own accord: on a database on which nothing else
 * happens, and without a short wait_period_ms, nothing wakes it up by chance.
 *
 * Everything is published before the bus starts, so that what a start makes known is over when the
 * moment comes that counts. There are no limits of time but the one of all tests: a thread that
 * misses its moment sleeps for an hour.
 */
#include "support_scene.h"

#include "base/hash.h"
#include "base/time/clock.h"

#include <stdatomic.h>

#define RETRY_MS 1500   /* after this time the bus has come to rest */
#define REST_US 1000000 /* the bus has come to rest by then; if it has not, nothing is proven */
#define HUGE_BYTES 100000
#define HUGE_EVENTS 60

/* Where handlers wait. */
struct stage {
    struct door *slow;
    struct door *gate;
};

static struct stage stage;

/* Nothing is short, least of all wait_period_ms. */
static hf_subscription_options calm_options(int32_t concurrency)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;

    options.from.kind = HF_PLACE_START;
    options.concurrency = concurrency;
    options.retry_base_ms = RETRY_MS;
    options.retry_max_ms = RETRY_MS;
    options.retry_jitter_percent = 0;
    options.handler_timeout_ms = 600000;
    options.lease_ms = 600000;
    return options;
}

static struct recorder *stage_recorder(struct scene *scene, decide_fn decide)
{
    struct recorder *recorder = scene_recorder(scene, decide);

    stage.slow = scene_door(scene);
    stage.gate = scene_door(scene);
    return recorder;
}

static bool is(const hf_event *event, const char *type)
{
    return strcmp(event->type, type) == 0;
}

struct calls {
    struct recorder *recorder;
    int64_t position;
    size_t count;
};

static bool were_made(void *ctx)
{
    const struct calls *calls = ctx;

    return recorder_calls(calls->recorder, calls->position, NULL) >= calls->count;
}

/* Waits until the event has begun so often. */
static bool wait_calls(struct recorder *recorder, int64_t position, size_t count)
{
    struct calls calls = {recorder, position, count};

    return wait_until(were_made, &calls);
}

/* ---- Retries --------------------------------------------------------------------------------- */

/* "slow" fails once, and then takes long; "again" fails twice, first when the gate is open. */
static hf_verdict one_behind_the_other(const hf_event *event, hf_delivery *delivery,
                                       struct recorder *recorder)
{
    int32_t attempt = hf_delivery_attempt(delivery);

    (void)recorder;
    if (is(event, "slow") && attempt == 2) {
        door_pass(stage.slow);
    }
    if (is(event, "again") && attempt == 1) {
        door_pass(stage.gate);
    }
    return attempt < (is(event, "again") ? 3 : 2) ? HF_RETRY : HF_ACK;
}

static void a_retry_does_not_wait_for_a_slow_retry_before_it(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = stage_recorder(scene, one_behind_the_other);
    hf_subscription_options options = calm_options(3);
    int64_t again;

    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "slow", "a", "1");
    again = publish(scene->bus, "again", "b", "1")->position;
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(stage.slow, 1));
    door_open(stage.gate);
    assert_true(wait_calls(recorder, again, 3));
    assert_true(door_wait_inside(stage.slow, 1));
    door_open(stage.slow);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 5);
}

/* All fail once. The first that comes again waits for the others to be due. */
static hf_verdict fail_together(const hf_event *event, hf_delivery *delivery,
                                struct recorder *recorder)
{
    (void)event;
    (void)recorder;
    if (hf_delivery_attempt(delivery) == 1) {
        return HF_RETRY;
    }
    door_pass(stage.slow);
    return HF_ACK;
}

/* Publishes HUGE_EVENTS events, more than the store reads at once. */
static void publish_huge(hf_bus *bus, const char *key)
{
    static char payload[HUGE_BYTES + 1];

    memset(payload, 'x', HUGE_BYTES);
    payload[0] = payload[HUGE_BYTES - 1] = '"';
    for (int i = 0; i < HUGE_EVENTS; i++) {
        publish(bus, "x", key, payload);
    }
}

static void retries_of_many_megabytes_come_one_after_the_other(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = stage_recorder(scene, fail_together);
    hf_subscription_options options = calm_options(1);

    subscribe(scene->bus, "a", "*", recorder, &options);
    publish_huge(scene->bus, NULL);
    door_open(stage.slow); /* one that comes before all have failed must keep none waiting */
    assert_ok(hf_start(scene->bus));
    assert_true(wait_calls(recorder, HUGE_EVENTS, 1));
    door_shut(stage.slow);
    usleep(RETRY_MS * 1000 + REST_US); /* now all that are left are due */
    door_open(stage.slow);
    assert_true(recorder_wait(recorder, 2 * HUGE_EVENTS));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2 * HUGE_EVENTS);
}

/* "slow" fails once, and then takes long; others fail once, when those are inside. */
static hf_verdict hide_others(const hf_event *event, hf_delivery *delivery,
                              struct recorder *recorder)
{
    bool first = hf_delivery_attempt(delivery) == 1;

    (void)recorder;
    if (is(event, "slow") != first) {
        door_pass(is(event, "slow") ? stage.slow : stage.gate);
    }
    return first ? HF_RETRY : HF_ACK;
}

/* They have as many bytes as are read at once. */
static void slow_retries_of_many_megabytes_hide_no_others(void **state)
{
    enum { SLOW = 6 };
    static char payload[900001];
    struct scene *scene = *state;
    struct recorder *recorder = stage_recorder(scene, hide_others);
    hf_subscription_options options = calm_options(SLOW + 1);
    int64_t other;

    memset(payload, 'x', sizeof payload - 1);
    payload[0] = payload[sizeof payload - 2] = '"';
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < SLOW; i++) {
        publish(scene->bus, "slow", NULL, payload);
    }
    other = publish(scene->bus, "other", NULL, "1")->position;
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(stage.slow, SLOW));
    door_open(stage.gate);
    assert_true(wait_calls(recorder, other, 2));
    assert_true(door_wait_inside(stage.slow, SLOW));
    door_open(stage.slow);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2 * SLOW + 2);
}

static atomic_size_t done, units;

static hf_verdict fail_the_unit(const hf_event *const *events, size_t count, hf_delivery *delivery,
                                void *ctx)
{
    (void)events;
    (void)ctx;
    if (hf_delivery_attempt(delivery) == 1) {
        return HF_RETRY;
    }
    atomic_fetch_add(&units, 1);
    atomic_fetch_add(&done, count);
    return HF_ACK;
}

static bool all_are_done(void *ctx)
{
    (void)ctx;
    return atomic_load(&done) == HUGE_EVENTS;
}

/* It is read in several looks. */
static void a_unit_of_many_megabytes_comes_again_whole(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = calm_options(1);

    atomic_store(&done, 0);
    atomic_store(&units, 0);
    options.batch = HUGE_EVENTS;
    options.batch_by = HF_BATCH_KEY; /* so that what comes first is whole */
    assert_ok(hf_subscribe_batch(scene->bus, "a", "*", fail_the_unit, NULL, &options, NULL));
    publish_huge(scene->bus, "k");
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(all_are_done, NULL));
    settle_all(scene->bus, "a");
    assert_int_equal(atomic_load(&units), 1);
}

/* "dead" dies at first. "slow" fails at first, and is slow when it comes again. */
static hf_verdict die_at_first(const hf_event *event, hf_delivery *delivery,
                               struct recorder *recorder)
{
    bool first = recorder_calls(recorder, event->position, NULL) == 1;

    (void)delivery;
    if (is(event, "dead")) {
        return first ? HF_DEAD : HF_ACK;
    }
    if (is(event, "slow") && !first) {
        door_pass(stage.slow);
    }
    return first ? HF_RETRY : HF_ACK;
}

static int64_t retry_dead(hf_bus *bus)
{
    hf_dead_filter filter = HF_DEAD_FILTER_INIT;
    int64_t count = 0;

    filter.subscription = "a";
    assert_ok(hf_dead_retry_all(bus, &filter, &count));
    return count;
}

static bool one_has_died(void *ctx)
{
    return info_of(ctx, "a").dead == 1;
}

static void a_dead_letter_that_is_retried_finds_room_later(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = stage_recorder(scene, die_at_first);
    hf_subscription_options options = calm_options(4);
    int64_t dead;

    options.batch = 3; /* so many retries are in hand at once */
    subscribe(scene->bus, "a", "*", recorder, &options);
    dead = publish(scene->bus, "dead", NULL, "1")->position;
    for (int i = 0; i < 3; i++) {
        publish(scene->bus, "slow", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(stage.slow, 3));
    assert_true(wait_until(one_has_died, scene->bus));
    assert_int_equal(retry_dead(scene->bus), 1);
    usleep(REST_US);
    door_open(stage.slow);
    assert_true(wait_calls(recorder, dead, 2));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 8);
}

/* Many more come again behind a slow retry than there are places, of which those that are over take
 * none. */
static void any_number_of_retries_pass_a_slow_one(void **state)
{
    enum { EVENTS = 9 };
    struct scene *scene = *state;
    struct recorder *recorder = stage_recorder(scene, one_behind_the_other);
    hf_subscription_options options = calm_options(2);

    options.batch = 4;
    door_open(stage.gate);
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "slow", "a", "1");
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(stage.slow, 1));
    for (int i = 0; i < EVENTS; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_true(recorder_wait(recorder, 1 + 2 * EVENTS));
    assert_true(door_wait_inside(stage.slow, 1));
    door_open(stage.slow);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2 + 2 * EVENTS);
}

static bool have_died(void *ctx)
{
    return info_of(ctx, "a").dead == 4;
}

/* Two slow retries have the places that there are, when four more are due at once. */
static void retries_that_find_no_room_in_the_window_come_when_there_is_some(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = stage_recorder(scene, die_at_first);
    hf_subscription_options options = calm_options(4);

    options.batch = 2;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 2; i++) {
        publish(scene->bus, "slow", NULL, "1");
    }
    for (int i = 0; i < 4; i++) {
        publish(scene->bus, "dead", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(stage.slow, 2));
    assert_true(wait_until(have_died, scene->bus));
    assert_int_equal(retry_dead(scene->bus), 4);
    usleep(REST_US);
    door_open(stage.slow);
    assert_true(recorder_wait(recorder, 12));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 12);
}

/* ---- What begins between two looks ----------------------------------------------------------- */

/* Fails, hangs, and is done at last. */
static hf_verdict hang_later(const hf_event *event, hf_delivery *delivery,
                             struct recorder *recorder)
{
    (void)event;
    (void)recorder;
    if (hf_delivery_attempt(delivery) == 2) {
        door_pass(stage.slow);
    }
    return hf_delivery_attempt(delivery) == 1 ? HF_RETRY : HF_ACK;
}

static void a_retry_that_hangs_times_out(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = stage_recorder(scene, hang_later);
    hf_subscription_options options = calm_options(1);

    options.handler_timeout_ms = 1000;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(stage.slow, 1));
    assert_true(recorder_wait_begun(recorder, 3));
    assert_int_equal(recorder_get(recorder, 2).attempt, 3);
    door_open(stage.slow);
}

static bool is_stored(void *ctx)
{
    return info_of(ctx, "a").checkpoint >= 1;
}

/* Many more wait than would make the dispatcher read on, and fewer are done than would make it
 * store: only time does. */
static void a_checkpoint_is_stored_in_time_while_handlers_run(void **state)
{
    enum { EVENTS = 600 };
    struct scene *scene = *state;
    struct recorder *recorder = stage_recorder(scene, NULL);
    hf_subscription_options options = calm_options(1);
    hf_bus *other = scene_open(scene, NULL);
    hf_new_event events[EVENTS];

    recorder->door = stage.slow;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < EVENTS; i++) {
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = "x";
    }
    assert_ok(hf_publish_many(scene->bus, events, EVENTS, NULL));
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(stage.slow, 1));
    usleep(REST_US);
    door_let(stage.slow, 1);
    assert_true(wait_until(is_stored, other));
    assert_true(door_wait_inside(stage.slow, 1));
    assert_int_equal(recorder_count(recorder), 2);
    door_open(stage.slow);
    settle_all(scene->bus, "a");
}

static void after_concurrency_is_lowered_the_next_event_is_not_missed(void **state)
{
    static const char *const patterns[] = {"*"};
    struct scene *scene = *state;
    struct recorder *recorder = stage_recorder(scene, one_behind_the_other);
    hf_subscription_options options = calm_options(4);
    hf_subscription_options fewer = HF_SUBSCRIPTION_OPTIONS_INIT;
    hf_bus *other = scene_open(scene, NULL);

    options.retry_base_ms = 2 * RETRY_MS;
    options.retry_max_ms = 2 * RETRY_MS;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait(recorder, 1));
    fewer.concurrency = 1;
    assert_ok(hf_subscription_create(other, "a", patterns, 1, &fewer, NULL));
    assert_true(recorder_wait(recorder, 2)); /* the retry, which only the time announces */
    settle_all(scene->bus, "a");
}

/* ---- Handing over ---------------------------------------------------------------------------- */

#ifdef HF_FAULTS

static int fake_teardown(void **state)
{
    clock_fake_off();
    return scene_teardown(state);
}

/* A key of the partition, of two. */
static const char *key_of(int32_t partition)
{
    static char keys[2][16];
    static const uint8_t no_id[16];
    char *key = keys[partition];

    for (int i = 0; i < 1000; i++) {
        struct text text = {key, (size_t)snprintf(key, sizeof keys[0], "k%d", i)};

        if (hash_slice(hash_event(TEXT_ABSENT, text, no_id), 2) == partition) {
            return key;
        }
    }
    fail_msg("no key is of partition %d", partition);
    return NULL;
}

/* "slow" and "rest" wait at a door each. */
static hf_verdict wait_inside(const hf_event *event, hf_delivery *delivery,
                              struct recorder *recorder)
{
    (void)delivery;
    (void)recorder;
    door_pass(is(event, "slow") ? stage.slow : stage.gate);
    return HF_ACK;
}

static hf_bus *named(struct scene *scene, const char *name)
{
    hf_options options = scene->options;

    options.node_name = name;
    return scene_open(scene, &options);
}

struct owner {
    hf_bus *bus;
    const char *name;
    hf_partition_state state;
    bool found;
};

static int compare_first(const hf_partition_info *info, void *ctx)
{
    struct owner *owner = ctx;

    owner->found |= info->partition == 0 && info->state == owner->state && info->owner &&
                    strcmp(info->owner, owner->name) == 0;
    return 0;
}

static bool has_first(void *ctx)
{
    struct owner *owner = ctx;

    owner->found = false;
    assert_ok(hf_partition_list(owner->bus, "a", compare_first, owner));
    return owner->found;
}

static bool wait_owner(hf_bus *bus, const char *name, hf_partition_state state)
{
    struct owner owner = {bus, name, state, false};

    return wait_until(has_first, &owner);
}

/* The time stands still, so that only the handler's end can tell that its partition may go. */
static void a_partition_is_given_back_when_its_last_handler_ends(void **state)
{
    enum { EVENTS = 600 };
    static const int32_t first[] = {0};
    struct scene *scene = *state;
    struct recorder *recorder = stage_recorder(scene, wait_inside);
    hf_subscription_options options = calm_options(2);
    hf_bus *a = named(scene, "a"), *b = named(scene, "b");
    hf_new_event events[EVENTS];

    options.partitions = 2;
    subscribe(a, "a", "*", recorder, &options);
    for (int i = 0; i < EVENTS; i++) {
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = i == 0 ? "slow" : "rest";
        events[i].key = key_of(i == 0 ? 0 : 1);
    }
    assert_ok(hf_publish_many(a, events, EVENTS, NULL));
    assert_ok(hf_start(a));
    assert_true(door_wait_inside(stage.slow, 1));
    assert_true(door_wait_inside(stage.gate, 1));
    subscribe(b, "a", "*", scene_recorder(scene, NULL), &options);
    assert_ok(hf_assign(b, "a", first, 1, 2));
    assert_ok(hf_start(b));
    assert_true(wait_owner(b, "a", HF_PARTITION_MOVING));
    usleep(REST_US);
    clock_fake_set(wall_us(), mono_us());
    door_open(stage.slow);
    assert_true(wait_owner(b, "b", HF_PARTITION_OWNED));
    assert_true(door_wait_inside(stage.gate, 1));
    clock_fake_off();
    door_open(stage.gate);
}

#endif

static const struct CMUnitTest tests[] = {
    scene_test(a_retry_does_not_wait_for_a_slow_retry_before_it),
    scene_test(retries_of_many_megabytes_come_one_after_the_other),
    scene_test(slow_retries_of_many_megabytes_hide_no_others),
    scene_test(a_unit_of_many_megabytes_comes_again_whole),
    scene_test(a_dead_letter_that_is_retried_finds_room_later),
    scene_test(any_number_of_retries_pass_a_slow_one),
    scene_test(retries_that_find_no_room_in_the_window_come_when_there_is_some),
    scene_test(a_retry_that_hangs_times_out),
    scene_test(a_checkpoint_is_stored_in_time_while_handlers_run),
    scene_test(after_concurrency_is_lowered_the_next_event_is_not_missed),
#ifdef HF_FAULTS
    cmocka_unit_test_setup_teardown(a_partition_is_given_back_when_its_last_handler_ends,
                                    scene_setup, fake_teardown),
#endif
};

SCENE_MAIN(tests)
