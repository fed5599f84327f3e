/*
 * Tests of what is unsubscribed: it costs nothing a moment later, no thread, no descriptor and no
 * memory, and what still runs or could not be given back is not forgotten.
 */
#include "support_trouble.h"

#include <dirent.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "base/point.h"
#include "bus/watch.h"

#define NAMES 40   /* more than the connections that are kept for later */
#define ROUNDS 100 /* of subscribing and unsubscribing */

static int retiring_setup(void **state)
{
    point_reset();
    return trouble_setup(state);
}

static int retiring_teardown(void **state)
{
    point_reset(); /* no thread may stay stopped while the bus is closed */
    return trouble_teardown(state);
}

#define retiring_test(test) cmocka_unit_test_setup_teardown(test, retiring_setup, retiring_teardown)

/* ---- What there is --------------------------------------------------------------------------- */

struct use {
    int threads;
    int files;
    int64_t memory; /* blocks */
};

static int entries_of(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;

    assert_non_null(dir);
    while (readdir(dir)) {
        count++;
    }
    closedir(dir);
    return count;
}

static struct use use_now(void)
{
    return (struct use){entries_of("/proc/self/task"), entries_of("/proc/self/fd"), mem_live()};
}

/* Connections that are kept for later: eight of each kind, and what the bus remembers with them. A
 * connection of SQLite has up to three descriptors, and SQLite keeps those of closed ones for the
 * next that is opened: as many as were open at once. */
static void allow_some(const struct scene *scene, struct use *use)
{
    use->files += scene->path ? 24 + 2 * NAMES : 24;
    use->memory += 100;
}

static bool is_no_more_than(void *ctx)
{
    const struct use *before = ctx;
    struct use now = use_now();

    return now.threads <= before->threads && now.files <= before->files &&
           now.memory <= before->memory;
}

static void assert_no_more_than(struct use before)
{
    if (!wait_until(is_no_more_than, &before)) {
        struct use now = use_now();

        print_error("threads %d, were %d; descriptors %d, were %d; memory %lld, was %lld\n",
                    now.threads, before.threads, now.files, before.files, (long long)now.memory,
                    (long long)before.memory);
        fail();
    }
}

/* ---- Costs ----------------------------------------------------------------------------------- */

static hf_subscription_options options_of(hf_mode mode)
{
    hf_subscription_options options = quick_options();

    options.mode = mode;
    options.concurrency = 2;
    return options;
}

/* Subscribes to many names, lets all of them work, and unsubscribes. */
static void come_and_go(struct scene *scene, struct recorder *recorder, hf_mode mode, bool remove)
{
    hf_subscription_options options = options_of(mode);
    hf_handler_id ids[NAMES];
    char names[NAMES][32];

    for (int i = 0; i < NAMES; i++) {
        snprintf(names[i], sizeof names[i], "name-%d-%d", (int)mode, i);
        ids[i] = subscribe(scene->bus, names[i], "*", recorder, &options);
    }
    publish(scene->bus, "x", NULL, "1");
    for (int i = 0; i < NAMES; i++) {
        settle_all(scene->bus, names[i]);
    }
    for (int i = 0; i < NAMES; i++) {
        if (remove) {
            assert_ok(hf_subscription_remove(scene->bus, names[i]));
        }
        assert_ok(hf_unsubscribe(scene->bus, ids[i]));
        assert_status(hf_unsubscribe(scene->bus, ids[i]), HF_NOTFOUND);
    }
}

static void leave_nothing(struct scene *scene, hf_mode mode, bool remove)
{
    struct recorder *recorder = scene_recorder(scene, NULL);
    struct use before;

    if (!scene->bus) {
        trouble_open(scene);
    }
    assert_ok(hf_start(scene->bus));
    before = use_now();
    come_and_go(scene, recorder, mode, remove);
    allow_some(scene, &before);
    assert_no_more_than(before);
}

static void an_unsubscribed_ordered_subscription_costs_nothing(void **state)
{
    leave_nothing(*state, HF_MODE_ORDERED, false);
}

static void an_unsubscribed_shared_subscription_costs_nothing(void **state)
{
    leave_nothing(*state, HF_MODE_SHARED, false);
}

static void a_subscription_that_was_removed_before_costs_nothing(void **state)
{
    leave_nothing(*state, HF_MODE_ORDERED, true);
    leave_nothing(*state, HF_MODE_SHARED, true);
}

static void a_removed_subscription_has_no_threads_although_it_has_handlers(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = options_of(HF_MODE_ORDERED);
    struct use before;
    hf_handler_id id;

    trouble_open(scene);
    assert_ok(hf_start(scene->bus));
    before = use_now();
    id = subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_subscription_remove(scene->bus, "a"));
    allow_some(scene, &before);
    assert_no_more_than(before);
    /* One of the same name is another one. */
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 1);
    assert_ok(hf_unsubscribe(scene->bus, id));
    assert_status(hf_unsubscribe(scene->bus, id), HF_NOTFOUND);
}

static void a_bus_that_is_not_started_keeps_nothing_of_removed_handlers(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    struct use before;
    hf_handler_id id;

    trouble_open(scene);
    id = subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_unsubscribe(scene->bus, id));
    before = use_now();
    for (int i = 0; i < ROUNDS; i++) {
        id = subscribe(scene->bus, "a", "*", recorder, NULL);
        assert_ok(hf_unsubscribe(scene->bus, id));
    }
    assert_no_more_than(before);
    assert_ok(hf_start(scene->bus));
    assert_ok(hf_stop(scene->bus, -1));
    assert_no_more_than(before);
}

static void subscribing_and_unsubscribing_repeatedly_does_not_grow_memory(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = options_of(HF_MODE_ORDERED);
    struct use before;

    trouble_open(scene);
    assert_ok(hf_start(scene->bus));
    before = use_now();
    for (int i = 0; i < ROUNDS; i++) {
        hf_handler_id id = subscribe(scene->bus, "a", "*", recorder, &options);

        if (i % 10 == 0) {
            publish(scene->bus, "x", NULL, "1");
            settle_all(scene->bus, "a");
        }
        assert_ok(hf_unsubscribe(scene->bus, id));
    }
    allow_some(scene, &before);
    assert_no_more_than(before);
    assert_int_equal(recorder_count(recorder), ROUNDS / 10);
}

/* ---- Meanwhile ------------------------------------------------------------------------------- */

/* Unsubscribes after an event was handled, and stops the dispatcher before it gives back. */
static struct recorder *retire_until_the_end(struct scene *scene)
{
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = options_of(HF_MODE_ORDERED);
    hf_handler_id id;

    trouble_open(scene);
    id = subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    point_arm("before_finish", 1, POINT_STOP_THREAD);
    assert_ok(hf_unsubscribe(scene->bus, id));
    assert_true(point_wait_blocked("before_finish", DEADLINE_MS));
    return recorder;
}

static void a_subscription_that_gets_handlers_while_it_is_given_back_goes_on(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = retire_until_the_end(scene);
    int threads = use_now().threads;

    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_true(use_now().threads <= threads); /* no second dispatcher */
    publish(scene->bus, "x", NULL, "2");
    point_release("before_finish");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
    assert_int_equal(recorder_calls(recorder, 2, NULL), 1);
}

static void a_subscription_that_gets_handlers_before_its_workers_end_goes_on(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = options_of(HF_MODE_ORDERED);
    hf_handler_id id;

    trouble_open(scene);
    point_arm("worker_begins", 2, POINT_STOP_THREAD); /* it does not see that it is to end */
    id = subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "1");
    publish(scene->bus, "x", NULL, "2"); /* for a second worker */
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_true(point_wait_blocked("worker_begins", DEADLINE_MS));
    point_arm("before_drain", 1, POINT_STOP_THREAD);
    assert_ok(hf_unsubscribe(scene->bus, id));
    assert_true(point_wait_blocked("before_drain", DEADLINE_MS));
    subscribe(scene->bus, "a", "*", recorder, NULL);
    point_release("worker_begins");
    point_release("before_drain");
    publish(scene->bus, "x", NULL, "3");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_calls(recorder, 3, NULL), 1);
}

static void a_stop_waits_for_a_subscription_that_is_being_given_back(void **state)
{
    struct scene *scene = *state;
    hf_bus *other;
    struct recorder *recorder = retire_until_the_end(scene);

    assert_status(hf_stop(scene->bus, 0), HF_TIMEOUT);
    point_release("before_finish");
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
    other = scene_open(scene, NULL);
    subscribe(other, "a", "*", recorder, NULL);
    publish(other, "x", NULL, "2");
    assert_ok(hf_start(other));
    settle_all(other, "a");
    assert_int_equal(recorder_count(recorder), 2);
}

static hf_verdict ack_all(const hf_event *const *events, size_t count, hf_delivery *delivery,
                          void *ctx)
{
    (void)events;
    (void)delivery;
    atomic_fetch_add((atomic_int *)ctx, (int)count);
    return HF_ACK;
}

struct batch_subscriber {
    hf_bus *bus;
    atomic_int seen;
    atomic_int done;
    hf_status status;
};

static void *subscribe_batch(void *ctx)
{
    struct batch_subscriber *subscriber = ctx;

    subscriber->status =
        hf_subscribe_batch(subscriber->bus, "a", "*", ack_all, &subscriber->seen, NULL, NULL);
    atomic_store(&subscriber->done, 1);
    return NULL;
}

static void batch_handlers_wait_until_the_single_handlers_are_gone(void **state)
{
    struct scene *scene = *state;
    static struct batch_subscriber subscriber;
    pthread_t thread;

    retire_until_the_end(scene);
    memset(&subscriber, 0, sizeof subscriber);
    subscriber.bus = scene->bus;
    assert_int_equal(pthread_create(&thread, NULL, subscribe_batch, &subscriber), 0);
    publish(scene->bus, "x", NULL, "2");
    assert_int_equal(atomic_load(&subscriber.done), 0);
    point_release("before_finish");
    pthread_join(thread, NULL);
    assert_status(subscriber.status, HF_OK);
    settle_all(scene->bus, "a");
    assert_int_equal(atomic_load(&subscriber.seen), 1);
}

/* ---- Not at once ----------------------------------------------------------------------------- */

static atomic_llong own_id;

static hf_verdict leave_and_wait(const hf_event *event, hf_delivery *delivery,
                                 struct recorder *recorder)
{
    (void)event;
    hf_unsubscribe(hf_delivery_bus(delivery), atomic_load(&own_id));
    door_pass(recorder->extra);
    return HF_ACK;
}

static void a_stop_waits_for_a_handler_that_has_unsubscribed_itself(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, leave_and_wait);
    hf_subscription_options options = options_of(HF_MODE_ORDERED);
    int64_t live = mem_live();

    recorder->extra = scene_door(scene);
    trouble_open(scene);
    atomic_store(&own_id, subscribe(scene->bus, "a", "*", recorder, &options));
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->extra, 1));
    assert_status(hf_stop(scene->bus, 0), HF_TIMEOUT);
    door_open(recorder->extra);
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
    assert_true(recorder_get(recorder, 0).end_us > 0);
    assert_ok(hf_close(&scene->bus));
    assert_true(mem_live() <= live);
}

static void the_result_of_a_handler_that_runs_while_unsubscribing_is_stored(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, leave_and_wait);
    hf_subscription_options options = options_of(HF_MODE_ORDERED);
    struct use before;

    recorder->extra = scene_door(scene);
    trouble_open(scene);
    assert_ok(hf_start(scene->bus));
    before = use_now();
    allow_some(scene, &before);
    atomic_store(&own_id, subscribe(scene->bus, "a", "*", recorder, &options));
    publish(scene->bus, "x", NULL, "1");
    assert_true(door_wait_inside(recorder->extra, 1));
    door_open(recorder->extra);
    assert_no_more_than(before);
    assert_int_equal(info_of(scene->bus, "a").checkpoint, 1);
    assert_int_equal(recorder_count(recorder), 1);
}

static void an_unsubscribed_subscription_that_cannot_be_given_back_is_tried_again(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = options_of(HF_MODE_ORDERED);
    struct use before;
    hf_handler_id id;

    trouble_open(scene);
    assert_ok(hf_start(scene->bus));
    before = use_now();
    allow_some(scene, &before);
    id = subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    faulty_fail(FAULTY_APPLY, 1, 10, HF_UNAVAILABLE);
    assert_ok(hf_unsubscribe(scene->bus, id));
    assert_no_more_than(before);
    assert_string_equal(info_of(scene->bus, "a").owner, "");
}

/* ---- Two at once ----------------------------------------------------------------------------- */

struct leaver {
    hf_bus *bus;
    hf_handler_id id;
    hf_status status;
};

static void *leave(void *ctx)
{
    struct leaver *leaver = ctx;

    leaver->status = hf_unsubscribe(leaver->bus, leaver->id);
    return NULL;
}

static hf_verdict ack_batch(const hf_event *const *events, size_t count, hf_delivery *delivery,
                            void *ctx)
{
    (void)events;
    (void)count;
    (void)delivery;
    (void)ctx;
    return HF_ACK;
}

/* One call has looked at all entries and still holds the lock that the other would need. */
static void two_subscriptions_unsubscribed_at_once_are_both_taken_out(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    static struct leaver leaver;
    pthread_t thread;
    hf_handler_id id;

    trouble_open(scene);
    leaver.bus = scene->bus;
    id = subscribe(scene->bus, "a", "*", recorder, NULL);
    leaver.id = subscribe(scene->bus, "b", "*", recorder, NULL);
    point_arm("reaped", 1, POINT_STOP_THREAD);
    assert_int_equal(pthread_create(&thread, NULL, leave, &leaver), 0);
    assert_true(point_wait_blocked("reaped", DEADLINE_MS));
    assert_ok(hf_unsubscribe(scene->bus, id));
    point_release("reaped");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(leaver.status);
    assert_ok(hf_subscribe_batch(scene->bus, "a", "*", ack_batch, NULL, NULL, NULL));
}

/* The leases of those that stay have been looked at when one of them becomes shorter. */
static void a_lease_that_becomes_shorter_meanwhile_is_not_forgotten(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = options_of(HF_MODE_ORDERED);
    static struct leaver leaver;
    pthread_t thread;
    hf_handler_id id;

    options.lease_ms = 60000;
    trouble_open(scene);
    leaver.bus = scene->bus;
    subscribe(scene->bus, "a", "*", recorder, &options);
    leaver.id = subscribe(scene->bus, "b", "*", recorder, &options);
    id = subscribe(scene->bus, "c", "*", recorder, &options);
    point_arm("leases_looked_at", 1, POINT_STOP_THREAD);
    assert_int_equal(pthread_create(&thread, NULL, leave, &leaver), 0);
    assert_true(point_wait_blocked("leases_looked_at", DEADLINE_MS));
    watch_lease(scene->bus, 400);
    point_release("leases_looked_at");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(leaver.status);
    assert_int_equal(watch_period_ms(scene->bus), 100);
    assert_ok(hf_unsubscribe(scene->bus, id)); /* nothing comes between: it is gone */
    assert_int_equal(watch_period_ms(scene->bus), 1000);
}

static const struct CMUnitTest tests[] = {
    retiring_test(an_unsubscribed_ordered_subscription_costs_nothing),
    retiring_test(an_unsubscribed_shared_subscription_costs_nothing),
    retiring_test(a_subscription_that_was_removed_before_costs_nothing),
    retiring_test(a_removed_subscription_has_no_threads_although_it_has_handlers),
    retiring_test(a_bus_that_is_not_started_keeps_nothing_of_removed_handlers),
    retiring_test(subscribing_and_unsubscribing_repeatedly_does_not_grow_memory),
    retiring_test(a_subscription_that_gets_handlers_while_it_is_given_back_goes_on),
    retiring_test(a_subscription_that_gets_handlers_before_its_workers_end_goes_on),
    retiring_test(a_stop_waits_for_a_subscription_that_is_being_given_back),
    retiring_test(batch_handlers_wait_until_the_single_handlers_are_gone),
    retiring_test(a_stop_waits_for_a_handler_that_has_unsubscribed_itself),
    retiring_test(the_result_of_a_handler_that_runs_while_unsubscribing_is_stored),
    retiring_test(an_unsubscribed_subscription_that_cannot_be_given_back_is_tried_again),
    retiring_test(two_subscriptions_unsubscribed_at_once_are_both_taken_out),
    retiring_test(a_lease_that_becomes_shorter_meanwhile_is_not_forgotten),
};

SCENE_MAIN(tests)
