/*
 * Tests of batch handlers: what a unit holds, what its verdict does; a unit is one transaction.
 *
 * The handler records every call; what it answers is decided by the payloads: "poison" fails, and
 * so does everything while `fail` is positive. It never asserts.
 */
#include "support_actor.h"
#include "support_tables.h"

#ifdef HF_FAULTS
#include "base/point.h"
#endif

#include <signal.h>
#include <sys/wait.h>

#define CALLS_MAX 4096
#define EVENTS_MAX 2600

struct call {
    size_t count;
    int64_t first, last;
    bool ascending, one_key; /* by position; of all events */
    int32_t attempt;
    char key[32];
};

/* The ctx of handle_batch: static, because handlers may outlive a failed test. */
static struct journal {
    pthread_mutex_t mutex;
    struct call calls[CALLS_MAX];
    size_t count;
    size_t events;  /* acknowledged */
    int fail;       /* number of calls that fail next, whatever they get */
    hf_verdict how; /* the answer of a call that fails */
    bool poison;    /* units with the payload "poison" fail */
    bool writes;    /* a row for each event, in the transaction */
    struct door *door;
} journal = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int journal_setup(void **state)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    journal = (struct journal){.mutex = mutex, .how = HF_RETRY};
    return scene_setup(state);
}

static int journal_teardown(void **state)
{
#ifdef HF_FAULTS
    point_reset(); /* no thread may stay stopped while the bus is closed */
#endif
    return scene_teardown(state);
}

#define batch_test(test) cmocka_unit_test_setup_teardown(test, journal_setup, journal_teardown)

static bool same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static hf_verdict handle_batch(const hf_event *const *events, size_t count, hf_delivery *delivery,
                               void *ctx)
{
    struct call call = {count, events[0]->position, events[count - 1]->position, true, true, 0, ""};
    hf_verdict verdict = HF_ACK;
    bool poison = false;
    (void)ctx;
    call.attempt = hf_delivery_attempt(delivery);
    snprintf(call.key, sizeof call.key, "%s", events[0]->key ? events[0]->key : "");
    for (size_t i = 0; i < count; i++) {
        call.ascending &= i == 0 || events[i]->position > events[i - 1]->position;
        call.one_key &= same(events[i]->key, events[0]->key);
        poison |= strstr(events[i]->payload, "poison") != NULL;
    }
    if (journal.door) {
        door_pass(journal.door);
    }
    for (size_t i = 0; i < count && journal.writes; i++) {
        long long position = events[i]->position;
        bool written = delivery_run(delivery, "INSERT INTO effects VALUES (%lld)", position);
        verdict = written ? verdict : HF_RETRY;
    }
    pthread_mutex_lock(&journal.mutex);
    journal.calls[journal.count++ % CALLS_MAX] = call;
    if (journal.fail > 0) {
        journal.fail--;
        verdict = journal.how;
        hf_delivery_error(delivery, "not yet");
    } else if (poison && journal.poison) {
        verdict = journal.how;
        hf_delivery_error(delivery, "poisoned");
    }
    journal.events += verdict == HF_ACK ? count : 0;
    pthread_mutex_unlock(&journal.mutex);
    return verdict;
}

/* A number of the journal, while handlers run. */
static size_t now(const size_t *number)
{
    pthread_mutex_lock(&journal.mutex);
    size_t value = *number;
    pthread_mutex_unlock(&journal.mutex);
    return value;
}

static void subscribe_batch(hf_bus *bus, const hf_subscription_options *options)
{
    assert_ok(hf_subscribe_batch(bus, "a", "*", handle_batch, NULL, options, NULL));
}

static hf_subscription_options batch_options(hf_batch_by by)
{
    hf_subscription_options options = quick_options();
    options.batch_by = by;
    return options;
}

/* So many events of a key in one transaction, so that their positions are consecutive. */
static void publish_run(hf_bus *bus, const char *key, size_t count)
{
    static hf_new_event events[EVENTS_MAX];

    for (size_t i = 0; i < count; i++) {
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = "t";
        events[i].key = key;
        events[i].payload = "1";
    }
    assert_ok(hf_publish_many(bus, events, count, NULL));
}

static void work_off(struct scene *scene, const hf_subscription_options *options)
{
    subscribe_batch(scene->bus, options);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
}

/* ---- What goes into a unit ------------------------------------------------------------------- */

static void a_run_of_120_events_of_a_key_lands_in_one_transaction(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_KEY);

    options.batch = 100;
    options.transactional = HF_ON;
    journal.writes = true;
    tables_run(scene, "CREATE TABLE effects (position INTEGER)");
    publish_run(scene->bus, "user", 120);
    work_off(scene, &options);
    assert_int_equal(now(&journal.count), 1);
    assert_int_equal(journal.calls[0].count, 120);
    assert_true(journal.calls[0].ascending && journal.calls[0].one_key);
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 120);
}

static void a_run_longer_than_the_cap_is_cut_there_and_the_log_says_so(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_KEY);

    options.batch = 10;
    options.batch_extend_max = 15;
    publish_run(scene->bus, "user", 40);
    work_off(scene, &options);
    assert_int_equal(journal.calls[0].count, 25);
    assert_int_equal(now(&journal.events), 40);
    assert_true(scene_said(scene, "was cut after 25 events"));
    assert_true(scene_said(scene, "batch_extend_max 15"));
}

static void a_run_that_is_longer_than_what_was_read_is_not_cut(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_KEY);

    options.batch = 5;
    options.inflight_max = 300;
    publish_run(scene->bus, "other", 250);
    publish_run(scene->bus, "user", 200);
    work_off(scene, &options);
    assert_int_equal(now(&journal.events), 450);
    assert_int_equal(now(&journal.count), 2);
    assert_int_equal(journal.calls[1].count, 200);
}

static void events_of_a_key_are_collected_from_between_those_of_others(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_KEY);
    static const char *const keys[] = {"a", "b", "c"};

    for (int i = 0; i < 30; i++) {
        publish(scene->bus, "t", keys[i % 3], "1");
    }
    publish(scene->bus, "t", NULL, "1");
    publish(scene->bus, "t", NULL, "1");
    work_off(scene, &options);
    assert_int_equal(now(&journal.count), 5);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(journal.calls[i].count, 10);
        assert_true(journal.calls[i].ascending && journal.calls[i].one_key);
        assert_string_equal(journal.calls[i].key, keys[i]);
    }
    assert_int_equal(journal.calls[3].count + journal.calls[4].count, 2);
}

static void without_keys_a_unit_is_the_next_events_in_order(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_NONE);

    options.batch = 20;
    for (int i = 0; i < 50; i++) {
        publish(scene->bus, "t", i % 2 ? "odd" : "even", "1");
    }
    work_off(scene, &options);
    assert_int_equal(now(&journal.count), 3);
    assert_int_equal(journal.calls[0].count, 20);
    assert_int_equal(journal.calls[2].count, 10);
    for (size_t i = 0; i < 3; i++) {
        assert_true(journal.calls[i].ascending);
    }
}

static void each_batch_handler_gets_the_events_of_its_pattern(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_KEY);

    for (int i = 0; i < 10; i++) {
        publish(scene->bus, i % 2 ? "x" : "y", "k", "1");
    }
    assert_ok(hf_subscribe_batch(scene->bus, "a", "x", handle_batch, NULL, &options, NULL));
    assert_ok(hf_subscribe_batch(scene->bus, "a", "*", handle_batch, NULL, NULL, NULL));
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(now(&journal.count), 2);
    assert_int_equal(journal.calls[0].count, 5);
    assert_int_equal(journal.calls[1].count, 10);
}

/* ---- What its verdict does ------------------------------------------------------------------- */

static void fails_and_comes_again_as_one(struct scene *scene, hf_subscription_options options,
                                         size_t events)
{
    options.attempts_max = 4;
    journal.fail = 2;
    publish_run(scene->bus, "user", events);
    work_off(scene, &options);
    assert_int_equal(now(&journal.count), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(journal.calls[i].count, events);
        assert_int_equal(journal.calls[i].attempt, i + 1);
        assert_true(journal.calls[i].ascending);
    }
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
}

static void a_unit_that_fails_comes_again_as_one(void **state)
{
    fails_and_comes_again_as_one(*state, batch_options(HF_BATCH_KEY), 120);
}

static void a_transactional_unit_that_fails_comes_again_as_one(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_KEY);

    options.transactional = HF_ON;
    journal.writes = true;
    tables_run(scene, "CREATE TABLE effects (position INTEGER)");
    fails_and_comes_again_as_one(scene, options, 30);
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 30);
}

static void a_large_unit_that_fails_comes_again_as_one(void **state)
{
    hf_subscription_options options = batch_options(HF_BATCH_KEY);
    options.inflight_max = 2000;
    fails_and_comes_again_as_one(*state, options, 1100);
}

static void a_unit_without_keys_that_fails_comes_again_as_one(void **state)
{
    fails_and_comes_again_as_one(*state, batch_options(HF_BATCH_NONE), 40);
}
static void a_shared_unit_that_fails_comes_again_as_one(void **state)
{
    hf_subscription_options options = batch_options(HF_BATCH_KEY);

    options.mode = HF_MODE_SHARED;
    fails_and_comes_again_as_one(*state, options, 50);
}

static void two_units_that_fail_stay_apart(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_KEY);

    journal.fail = 2;
    for (int i = 0; i < 40; i++) {
        publish(scene->bus, "t", i % 2 ? "odd" : "even", "1");
    }
    work_off(scene, &options);
    assert_int_equal(now(&journal.count), 4);
    for (size_t i = 0; i < 4; i++) {
        assert_true(journal.calls[i].count == 20 && journal.calls[i].one_key);
    }
}

static void events_behind_a_failed_unit_are_delivered_in_units(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_KEY);

    options.batch = 50;
    options.batch_extend_max = 0;
    options.retry_base_ms = 200;
    options.retry_max_ms = 200;
    journal.fail = 1;
    publish_run(scene->bus, "k", 250);
    work_off(scene, &options);
    assert_int_equal(now(&journal.events), 250);
    assert_int_equal(now(&journal.count), 6);
    for (size_t i = 2; i < now(&journal.count); i++) {
        assert_int_equal(journal.calls[i].count, 50);
        assert_int_equal(journal.calls[i].attempt, 1);
        assert_int_equal(journal.calls[i].first, journal.calls[i - 1].last + 1);
    }
}

static void the_order_of_a_key_is_kept_while_its_units_fail(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_KEY);
    int64_t done[3] = {0};
    static const char *const keys[] = {"a", "b", "c"};

    options.batch = 10;
    options.batch_extend_max = 0;
    options.concurrency = 3;
    options.attempts_max = 100;
    options.retry_max_ms = 20;
    journal.fail = 40;
    for (int i = 0; i < 600; i++) {
        publish(scene->bus, "t", keys[i % 3], "1");
    }
    work_off(scene, &options);
    assert_int_equal(now(&journal.events), 600);
    for (size_t i = 0; i < now(&journal.count); i++) {
        const struct call *call = &journal.calls[i];
        int64_t *last = &done[call->key[0] - 'a'];
        assert_true(call->ascending && call->one_key);
        assert_true(call->first == *last + 3 || call->first <= *last || *last == 0);
        *last = call->last;
    }
}

#ifdef HF_FAULTS
static bool one_waits(void *ctx)
{
    return info_of(ctx, "a").retrying == 1;
}

/* The dispatcher stands still after it has stored that the second waits, until the first is due
 * again; then it reads the third, and stores that, too, before it looks for what is due. */
static void events_behind_a_failed_unit_keep_their_order_whenever_they_were_stored(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_KEY);

    options.retry_base_ms = 5000;
    options.retry_max_ms = 5000;
    options.batch = 1;
    options.batch_extend_max = 0;
    journal.fail = 1;
    subscribe_batch(scene->bus, &options);
    assert_ok(hf_start(scene->bus));
    publish_run(scene->bus, "k", 1);
    assert_true(wait_until(one_waits, scene->bus));
    point_arm("after_settle", 1, POINT_STOP_THREAD);
    publish_run(scene->bus, "k", 1);
    while (point_wait_blocked("after_settle", DEADLINE_MS) &&
           info_of(scene->bus, "a").retrying != 2) {
        point_release("after_settle"); /* it was a checkpoint */
        point_arm("after_settle", 1, POINT_STOP_THREAD);
    }
    publish_run(scene->bus, "k", 1);
    usleep(5200000);
    point_release("after_settle");
    settle_all(scene->bus, "a");
    assert_int_equal(now(&journal.count), 4);
    assert_int_equal(now(&journal.events), 3);
    for (size_t i = 2; i < 4; i++) {
        assert_true(journal.calls[i].first > journal.calls[i - 1].first);
    }
}
#endif

static bool twenty_five_wait(void *ctx)
{
    return info_of(ctx, "a").retrying == 25;
}

static void a_unit_that_fails_comes_again_as_one_after_a_restart(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_KEY);

    options.retry_base_ms = options.retry_max_ms = 3600000;
    journal.fail = 1;
    publish_run(scene->bus, "user", 25);
    subscribe_batch(scene->bus, &options);
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(twenty_five_wait, scene->bus));
    scene_reopen(scene);
    tables_run(scene, scene->path
                          ? "UPDATE holdfast_retries SET next_attempt_at = 1"
                          : "UPDATE holdfast_private.retries SET next_attempt_at = 'epoch'");
    work_off(scene, NULL);
    assert_int_equal(now(&journal.count), 2);
    assert_int_equal(journal.calls[1].count, 25);
    assert_int_equal(journal.calls[1].attempt, 2);
}

static void all_events_of_a_unit_die_after_its_last_attempt_with_the_whole_story(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_KEY);
    static struct dead dead[20];

    options.attempts_max = 2;
    journal.poison = true;
    for (int i = 0; i < 10; i++) {
        publish(scene->bus, "t", "k", i == 5 ? "\"poison\"" : "1");
    }
    for (int i = 0; i < 10; i++) {
        publish(scene->bus, "t", "other", "1");
    }
    work_off(scene, &options);
    assert_int_equal(dead_of(scene->bus, "a", dead, 20), 10);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(dead[i].attempts, 2);
        assert_int_equal(occurrences(dead[i].story, "\"attempt\":"), 2);
        assert_int_equal(occurrences(dead[i].story, "\"events\":10"), 2);
        assert_string_equal(dead[i].error, "poisoned");
        assert_string_equal(dead[i].reason, "attempts");
    }
    assert_int_equal(now(&journal.events), 10);
}

static void split_isolates(struct scene *scene, hf_subscription_options options)
{
    static struct dead dead[20];
    int64_t bad = 0;

    options.on_batch_failure = HF_BATCH_SPLIT;
    journal.poison = true;
    for (int i = 0; i < 50; i++) {
        const hf_receipt *receipt = publish(scene->bus, "t", "k", i == 37 ? "\"poison\"" : "1");
        bad = i == 37 ? receipt->position : bad;
    }
    work_off(scene, &options);
    assert_int_equal(dead_of(scene->bus, "a", dead, 20), 1);
    assert_int_equal(dead[0].position, bad);
    assert_int_equal(now(&journal.events), 49);
    for (size_t i = 0, last = 0; i < now(&journal.count); i++) {
        const struct call *call = &journal.calls[i];
        if (call->first <= bad && bad <= call->last) {
            continue;
        }
        assert_true((size_t)call->first > last); /* in order */
        last = (size_t)call->last;
    }
}

static void split_isolates_the_poison_event(void **state)
{
    hf_subscription_options options = batch_options(HF_BATCH_KEY);

    options.attempts_max = 2;
    split_isolates(*state, options);
    assert_int_equal(journal.calls[1].count, 50);
    assert_int_equal(journal.calls[2].count, 25);
}

static void split_isolates_the_poison_event_at_the_first_attempt(void **state)
{
    hf_subscription_options options = batch_options(HF_BATCH_KEY);
    options.attempts_max = 1;
    split_isolates(*state, options);
}

static void split_isolates_the_poison_event_wherever_it_is(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_KEY);
    static struct dead dead[20];
    char key[16];

    options.on_batch_failure = HF_BATCH_SPLIT;
    options.attempts_max = 2;
    journal.poison = true;
    for (int i = 0; i < 64; i++) {
        snprintf(key, sizeof key, "%d", i / 8);
        publish(scene->bus, "t", key, i / 8 == i % 8 ? "\"poison\"" : "1");
    }
    work_off(scene, &options);
    assert_int_equal(dead_of(scene->bus, "a", dead, 20), 8);
    assert_int_equal(now(&journal.events), 56);
}

static void split_isolates_a_rejected_event(void **state)
{
    journal.how = HF_DEAD;
    split_isolates(*state, batch_options(HF_BATCH_KEY));
}

static void split_isolates_the_poison_event_in_transactions(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_KEY);

    options.attempts_max = 2;
    options.transactional = HF_ON;
    journal.writes = true;
    tables_run(scene, "CREATE TABLE effects (position INTEGER)");
    split_isolates(scene, options);
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 49);
}

static void split_isolates_the_poison_event_in_a_lease(void **state)
{
    hf_subscription_options options = batch_options(HF_BATCH_NONE);

    options.mode = HF_MODE_SHARED;
    options.attempts_max = 2;
    split_isolates(*state, options);
}

/* A unit of ten waits in its handler. */
static void begin_unit(struct scene *scene, hf_subscription_options options)
{
    journal.door = scene_door(scene);
    publish_run(scene->bus, "k", 10);
    subscribe_batch(scene->bus, &options);
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(journal.door, 1));
}

static bool unit_failed(void *ctx)
{
    return info_of(ctx, "a").retrying == 10 || door_entered(journal.door) >= 2;
}

static void a_unit_that_times_out_fails_as_one(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_KEY);

    options.handler_timeout_ms = 1000;
    options.attempts_max = options.stuck_max = 100; /* until the door is opened */
    begin_unit(scene, options);
    assert_true(wait_until(unit_failed, scene->bus));
    door_open(journal.door);
    settle_all(scene->bus, "a");
    while (now(&journal.count) < 2) { /* the late one, too */
        usleep(2000);
    }
    for (size_t i = 0; i < now(&journal.count); i++) {
        assert_int_equal(journal.calls[i].count, 10);
    }
}

static bool key_is_blocked(void *ctx)
{
    return info_of(ctx, "a").blocked == 2 && now(&journal.events) >= 1;
}

static bool the_rest_waits_behind_it(void *ctx)
{
    return info_of(ctx, "a").retrying == 5 && now(&journal.events) >= 2;
}

static void a_unit_that_dies_blocks_its_key(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_KEY);

    options.attempts_max = 1;
    options.on_poison = HF_POISON_BLOCK_KEY;
    journal.poison = true;
    publish(scene->bus, "t", "k", "\"poison\"");
    publish(scene->bus, "t", "k", "1");
    publish(scene->bus, "t", "free", "1");
    subscribe_batch(scene->bus, &options);
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(key_is_blocked, scene->bus));
    assert_int_equal(info_of(scene->bus, "a").dead, 2);
    publish_run(scene->bus, "k", 5);
    publish(scene->bus, "t", "free", "1");
    assert_true(wait_until(the_rest_waits_behind_it, scene->bus));
    assert_int_equal(now(&journal.events), 2);
}

static bool is_paused(void *ctx)
{
    return info_of(ctx, "a").paused_at_us >= 0;
}

static void a_unit_that_dies_halts_the_subscription(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_KEY);

    options.attempts_max = 1;
    options.on_poison = HF_POISON_HALT;
    journal.fail = 1;
    publish_run(scene->bus, "k", 10);
    publish_run(scene->bus, "later", 10);
    subscribe_batch(scene->bus, &options);
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(is_paused, scene->bus));
    assert_int_equal(info_of(scene->bus, "a").dead, 10);
    assert_int_equal(now(&journal.count), 1);
    assert_ok(hf_resume(scene->bus, "a"));
    settle_all(scene->bus, "a");
    assert_int_equal(now(&journal.events), 10);
}

/* ---- Steering -------------------------------------------------------------------------------- */

static void a_pause_lets_a_running_unit_finish(void **state)
{
    struct scene *scene = *state;

    begin_unit(scene, batch_options(HF_BATCH_KEY));
    assert_ok(hf_pause(scene->bus, "a", "test"));
    publish_run(scene->bus, "k", 5);
    door_open(journal.door);
    while (now(&journal.events) < 10) {
        usleep(2000);
    }
    assert_ok(hf_resume(scene->bus, "a"));
    settle_all(scene->bus, "a");
    assert_int_equal(now(&journal.count), 2);
    assert_int_equal(journal.calls[1].count, 5);
}

static void a_seek_rolls_back_a_running_transactional_unit(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_KEY);
    hf_place start = {HF_PLACE_START, 0};

    if (scene->path) {
        skip(); /* there no other transaction writes beside a handler's */
    }
    options.transactional = HF_ON;
    options.tx_max_ms = 30000;
    journal.writes = true;
    tables_run(scene, "CREATE TABLE effects (position INTEGER)");
    begin_unit(scene, options);
    assert_ok(hf_seek(scene->bus, "a", start, HF_OFF, NULL));
    door_open(journal.door);
    settle_all(scene->bus, "a");
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 10);
    assert_int_equal(tables_number(scene, "SELECT count(DISTINCT position) FROM effects"), 10);
}

static void a_stop_waits_for_a_running_unit(void **state)
{
    struct scene *scene = *state;
    begin_unit(scene, batch_options(HF_BATCH_KEY));
    assert_status(hf_stop(scene->bus, 50), HF_TIMEOUT);
    door_open(journal.door);
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(journal.calls[now(&journal.count) - 1].count, 10);
}

static void partitions_have_units_of_their_own(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_NONE);
    char key[16];

    options.partitions = 4;
    options.concurrency = 3;
    options.attempts_max = 10;
    journal.fail = 3;
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "k%d", i % 17);
        publish(scene->bus, "t", key, "1");
    }
    work_off(scene, &options);
    assert_int_equal(now(&journal.events), 200);
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
    for (size_t i = 0; i < now(&journal.count); i++) {
        assert_true(journal.calls[i].ascending);
    }
}

/* ---- Crashes --------------------------------------------------------------------------------- */

/* fatal URL: its handler kills the process when it meets poison. */
static hf_verdict die_of_poison(const hf_event *const *events, size_t count, hf_delivery *delivery,
                                void *ctx)
{
    (void)delivery;
    (void)ctx;
    for (size_t i = 0; i < count; i++) {
        if (strstr(events[i]->payload, "poison")) {
            raise(SIGKILL);
        }
    }
    return HF_ACK;
}

static int fatal(int argc, char **argv)
{
    hf_bus *bus = NULL;

    if (argc < 1 || hf_open(argv[0], NULL, &bus) != HF_OK ||
        hf_subscribe_batch(bus, "a", "*", die_of_poison, NULL, NULL, NULL) != HF_OK ||
        hf_start(bus) != HF_OK || hf_wait(bus, "a", -1, DEADLINE_MS) != HF_OK) {
        return 1;
    }
    return hf_close(&bus) == HF_OK ? 0 : 1;
}

static void an_event_that_kills_its_process_dies_and_its_neighbours_live(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = batch_options(HF_BATCH_KEY);
    const char *patterns[] = {"*"};
    static struct dead dead[20];
    int deaths = 0;

    options.attempts_max = 3;
    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL));
    for (int i = 0; i < 20; i++) {
        publish(scene->bus, "t", "k", i == 7 ? "\"poison\"" : "1");
    }
    while (actor_wait(actor_start("fatal", scene->url, NULL)) != 0 && deaths < 20) {
        deaths++;
    }
    assert_true(deaths >= 2 && deaths <= 4);
    assert_int_equal(dead_of(scene->bus, "a", dead, 20), 1);
    assert_string_equal(dead[0].payload, "\"poison\"");
}

static const struct part parts[] = {{"fatal", fatal}};

static const struct CMUnitTest tests[] = {
    batch_test(a_run_of_120_events_of_a_key_lands_in_one_transaction),
    batch_test(a_run_longer_than_the_cap_is_cut_there_and_the_log_says_so),
    batch_test(a_run_that_is_longer_than_what_was_read_is_not_cut),
    batch_test(events_of_a_key_are_collected_from_between_those_of_others),
    batch_test(without_keys_a_unit_is_the_next_events_in_order),
    batch_test(each_batch_handler_gets_the_events_of_its_pattern),
    batch_test(a_unit_that_fails_comes_again_as_one),
    batch_test(a_transactional_unit_that_fails_comes_again_as_one),
    batch_test(a_large_unit_that_fails_comes_again_as_one),
    batch_test(a_unit_without_keys_that_fails_comes_again_as_one),
    batch_test(a_shared_unit_that_fails_comes_again_as_one),
    batch_test(two_units_that_fail_stay_apart),
    batch_test(events_behind_a_failed_unit_are_delivered_in_units),
    batch_test(the_order_of_a_key_is_kept_while_its_units_fail),
#ifdef HF_FAULTS
    batch_test(events_behind_a_failed_unit_keep_their_order_whenever_they_were_stored),
#endif
    batch_test(a_unit_that_fails_comes_again_as_one_after_a_restart),
    batch_test(all_events_of_a_unit_die_after_its_last_attempt_with_the_whole_story),
    batch_test(split_isolates_the_poison_event),
    batch_test(split_isolates_the_poison_event_at_the_first_attempt),
    batch_test(split_isolates_the_poison_event_wherever_it_is),
    batch_test(split_isolates_a_rejected_event),
    batch_test(split_isolates_the_poison_event_in_transactions),
    batch_test(split_isolates_the_poison_event_in_a_lease),
    batch_test(a_unit_that_times_out_fails_as_one),
    batch_test(a_unit_that_dies_blocks_its_key),
    batch_test(a_unit_that_dies_halts_the_subscription),
    batch_test(a_pause_lets_a_running_unit_finish),
    batch_test(a_seek_rolls_back_a_running_transactional_unit),
    batch_test(a_stop_waits_for_a_running_unit),
    batch_test(partitions_have_units_of_their_own),
    batch_test(an_event_that_kills_its_process_dies_and_its_neighbours_live),
};

ACTOR_MAIN(tests, parts)
