/*
 * Tests of starting, stopping, shutting down and closing: what is waited for, what is refused
 * afterwards, and what a handler that does not return leaves behind.
 */
#include "support_scene.h"

#include "support/postgres.h"

#include <sqlite3.h>
#include <stdatomic.h>

/* ---- Stop ------------------------------------------------------------------------------------ */

static void stop_waits_for_the_running_handler(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    struct seen seen;
    int64_t stopped_us;

    recorder->door = scene_door(scene);
    subscribe(scene->bus, "a", "*", recorder, NULL);
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->door, 1));
    assert_status(hf_stop(scene->bus, 50), HF_TIMEOUT);
    door_open(recorder->door);
    assert_true(recorder_wait(recorder, 1));
    assert_ok(hf_stop(scene->bus, -1));
    stopped_us = mono_us();
    seen = recorder_get(recorder, 0);
    assert_true(seen.end_us > 0 && seen.end_us <= stopped_us);
}

static void after_a_stop_nothing_is_delivered_and_publishing_works(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_receipt receipt;

    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_ok(hf_stop(scene->bus, -1));
    receipt = *publish(scene->bus, "x", NULL, "2");
    assert_status(hf_wait(scene->bus, "a", receipt.position, 100), HF_TIMEOUT);
    assert_int_equal(recorder_count(recorder), 1);
    assert_ok(hf_stop(scene->bus, -1));
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
}

static void stopping_a_bus_that_never_started_is_fine(void **state)
{
    struct scene *scene = *state;

    assert_ok(hf_stop(scene->bus, -1));
    assert_ok(hf_start(scene->bus));
}

/* "HF_TIMEOUT: handlers still run; their results will be refused and their events delivered
 * again." */
static void a_result_that_comes_after_the_stop_timed_out_is_refused(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_receipt receipt;

    recorder->door = scene_door(scene);
    subscribe(scene->bus, "a", "*", recorder, NULL);
    receipt = *publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->door, 1));
    assert_status(hf_stop(scene->bus, 50), HF_TIMEOUT);
    door_open(recorder->door);
    assert_true(recorder_wait(recorder, 1));
    assert_int_not_equal(state_of(scene->bus, "a", receipt.id, NULL), HF_STATE_DONE);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
    assert_int_equal(state_of(scene->bus, "a", receipt.id, NULL), HF_STATE_DONE);
}

static void a_stop_cancels_running_handlers(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, until_cancelled);
    hf_receipt receipt;

    subscribe(scene->bus, "a", "*", recorder, NULL);
    receipt = *publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait_begun(recorder, 1));
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
    assert_int_equal(recorder_count(recorder), 1);
    assert_int_not_equal(state_of(scene->bus, "a", receipt.id, NULL), HF_STATE_DONE);
}

static void the_events_in_hand_at_a_stop_are_not_lost(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();

    recorder->door = scene_door(scene);
    options.concurrency = 2;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 50; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->door, 2));
    assert_status(hf_stop(scene->bus, 20), HF_TIMEOUT);
    door_open(recorder->door);
    assert_ok(hf_stop(scene->bus, -1));
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    for (int64_t position = 1; position <= 50; position++) {
        assert_true(recorder_calls(recorder, position, NULL) >= 1);
    }
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
}

/* ---- Stopping while the database is locked --------------------------------------------------- */

/* A process that is in the way: a writer of the file, or one that locks tables of a server. */
struct obstacle {
    sqlite3 *db;
    PGconn *pg;
};

static struct obstacle lock_database(struct scene *scene, const char *tables)
{
    struct obstacle obstacle = {0};

    if (!scene->path) {
        obstacle.pg = postgres_lock(scene->url, tables);
        assert_non_null(obstacle.pg);
        return obstacle;
    }
    assert_int_equal(sqlite3_open(scene->path, &obstacle.db), SQLITE_OK);
    sqlite3_db_config(obstacle.db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_busy_timeout(obstacle.db, DEADLINE_MS); /* the bus may be writing just now */
    assert_int_equal(sqlite3_exec(obstacle.db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return obstacle;
}

static void unlock_database(struct obstacle *obstacle)
{
    sqlite3_close(obstacle->db);
    PQfinish(obstacle->pg);
}

/* A stop that could not store its checkpoints says so, in time; nothing is lost by that. */
static void stop_while_locked(struct scene *scene, hf_mode mode, bool others)
{
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    hf_options bus_options = scene->options;
    hf_status stopped;
    int64_t begin_us, took_us;
    struct obstacle obstacle;
    hf_bus *bus;

    bus_options.timeout_ms = 15000;
    bus = scene_open(scene, &bus_options);
    recorder->door = scene_door(scene);
    options.mode = mode;
    options.checkpoint_ms = 60000;
    subscribe(bus, "a", "*", recorder, &options);
    for (int i = 0; i < 10; i++) {
        publish(bus, "x", NULL, "1");
    }
    assert_ok(hf_start(bus));
    assert_true(door_wait_inside(recorder->door, 1));
    obstacle = lock_database(scene, "holdfast_private.partitions, holdfast_private.leases");
    door_open(recorder->door);
    assert_true(recorder_wait(recorder, 1));
    begin_us = mono_us();
    stopped = hf_stop(bus, 100);
    took_us = mono_us() - begin_us;
    unlock_database(&obstacle);
    assert_status(stopped, HF_TIMEOUT);
    assert_true(took_us < 20000000);
    if (others) { /* the bus stays open, but has nothing any more that others need */
        assert_ok(hf_stop(bus, DEADLINE_MS));
        subscribe(scene->bus, "a", "*", recorder, NULL);
        assert_ok(hf_start(scene->bus));
    } else {
        assert_ok(hf_start(bus));
    }
    settle_all(bus, "a");
    for (int64_t position = 1; position <= 10; position++) {
        assert_true(recorder_calls(recorder, position, NULL) >= 1);
    }
    scene_close(scene, bus);
}

/* What a stop could not give back the next one tries again, of all subscriptions one after the
 * other: they have one moment together, not one each. */
static void many_subscriptions_that_cannot_be_given_back_take_no_longer_than_one(void **state)
{
    enum { SUBSCRIPTIONS = 25 };
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    hf_bus *bus = scene_open(scene, NULL);
    struct obstacle obstacle;
    hf_status first, second;
    int64_t begin_us, took_us;

    for (int i = 0; i < SUBSCRIPTIONS; i++) {
        char name[16];

        snprintf(name, sizeof name, "s%d", i);
        subscribe(bus, name, "*", recorder, &options);
    }
    publish(bus, "x", NULL, "1");
    assert_ok(hf_start(bus));
    assert_true(recorder_wait(recorder, SUBSCRIPTIONS));
    obstacle = lock_database(scene, "holdfast_private.partitions, holdfast_private.members");
    first = hf_stop(bus, 0);
    begin_us = mono_us();
    second = hf_stop(bus, 0);
    took_us = mono_us() - begin_us;
    unlock_database(&obstacle);
    assert_status(first, HF_TIMEOUT);
    assert_status(second, HF_TIMEOUT);
    assert_true(took_us < SUBSCRIPTIONS * 1000000 / 2);
    assert_ok(hf_stop(bus, DEADLINE_MS));
    scene_close(scene, bus);
}

static bool is_settled(void *ctx)
{
    return info_of(ctx, "a").checkpoint == 1;
}

/* Closing tells others that the process is gone, so none needs what it could not give back. */
static void closing_with_nothing_in_hand_does_not_wait_for_a_locked_database(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    hf_options bus_options = scene->options;
    struct obstacle obstacle;
    hf_status closed;
    int64_t begin_us, took_us;
    hf_bus *bus = NULL;

    bus_options.timeout_ms = bus_options.shutdown_ms = DEADLINE_MS;
    assert_ok(hf_open(scene->url, &bus_options, &bus));
    subscribe(bus, "a", "*", recorder, &options);
    publish(bus, "x", NULL, "1");
    assert_ok(hf_start(bus));
    assert_true(recorder_wait(recorder, 1));
    assert_true(wait_until(is_settled, bus));
    obstacle = lock_database(scene, "holdfast_private.partitions, holdfast_private.members");
    begin_us = mono_us();
    closed = hf_close(&bus);
    took_us = mono_us() - begin_us;
    unlock_database(&obstacle);
    assert_status(closed, HF_OK);
    assert_true(took_us < DEADLINE_MS * 1000 / 2);
    subscribe(scene->bus, "a", "*", recorder, NULL);
    publish(scene->bus, "x", NULL, "2");
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
}

static void a_stop_while_the_database_is_locked_says_so_in_time(void **state)
{
    stop_while_locked(*state, HF_MODE_ORDERED, false);
}

static void ordered_work_that_a_stop_could_not_give_back_is_given_back_by_the_next(void **state)
{
    stop_while_locked(*state, HF_MODE_ORDERED, true);
}

static void shared_work_that_a_stop_could_not_give_back_is_given_back_by_the_next(void **state)
{
    stop_while_locked(*state, HF_MODE_SHARED, true);
}

static void a_stop_of_shared_work_while_it_is_locked_strands_nothing(void **state)
{
    stop_while_locked(*state, HF_MODE_SHARED, false);
}

/* ---- Shutdown -------------------------------------------------------------------------------- */

static void after_a_shutdown_publishing_and_subscribing_are_refused(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_handler_id id = 5;
    hf_receipt receipt = {.position = 77};

    event.type = "x";
    assert_ok(hf_shutdown(scene->bus, -1));
    assert_status(hf_publish(scene->bus, &event, &receipt), HF_CLOSED);
    assert_int_equal(receipt.position, 77);
    assert_status(hf_publish_many(scene->bus, &event, 1, NULL), HF_CLOSED);
    assert_status(hf_publish_async(scene->bus, &event, NULL, NULL), HF_CLOSED);
    assert_status(hf_subscribe(scene->bus, "a", "*", recorder_handle, recorder, &options, &id),
                  HF_CLOSED);
    assert_int_equal(id, 5);
    assert_status(hf_start(scene->bus), HF_CLOSED);
    assert_ok(hf_shutdown(scene->bus, -1));
}

static void a_shutdown_finishes_what_runs(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_receipt receipt;
    hf_bus *other = scene_open(scene, NULL);

    recorder->door = scene_door(scene);
    subscribe(scene->bus, "a", "*", recorder, NULL);
    receipt = *publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->door, 1));
    assert_status(hf_shutdown(scene->bus, 30), HF_TIMEOUT);
    door_open(recorder->door);
    assert_ok(hf_shutdown(scene->bus, -1));
    assert_int_equal(recorder_count(recorder), 1);
    assert_int_not_equal(state_of(other, "a", receipt.id, NULL), HF_STATE_DEAD);
}

/* What was published asynchronously cannot be stored, and a handler does not return: one deadline
 * is for both. */
static void a_shutdown_spends_its_time_once(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_options bus_options = scene->options;
    struct obstacle obstacle;
    int64_t begin_us, took_us;
    hf_bus *bus;

    bus_options.timeout_ms = 5000;
    bus = scene_open(scene, &bus_options);
    recorder->door = scene_door(scene);
    event.type = "x";
    subscribe(bus, "a", "*", recorder, NULL);
    publish(bus, "x", NULL, "1");
    assert_ok(hf_start(bus));
    assert_true(door_wait_inside(recorder->door, 1));
    obstacle = lock_database(scene, "holdfast_private.events");
    assert_ok(hf_publish_async(bus, &event, NULL, NULL));
    begin_us = mono_us();
    assert_status(hf_shutdown(bus, 12000), HF_TIMEOUT);
    took_us = mono_us() - begin_us;
    unlock_database(&obstacle);
    door_open(recorder->door);
    assert_true(took_us < 23500000); /* not twice */
    assert_true(took_us >= 11900000);
}

static atomic_int answered_ok;

static void count_answer(hf_status status, const hf_receipt *receipt, const char *message,
                         void *ctx)
{
    (void)receipt;
    (void)message;
    (void)ctx;
    atomic_fetch_add(&answered_ok, status == HF_OK);
}

static void a_shutdown_answers_all_asynchronous_publishes(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_stats stats = {.size = sizeof stats};
    hf_bus *other = scene_open(scene, NULL);

    atomic_store(&answered_ok, 0);
    event.type = "x";
    for (int i = 0; i < 300; i++) {
        assert_ok(hf_publish_async(scene->bus, &event, count_answer, NULL));
    }
    assert_ok(hf_shutdown(scene->bus, -1));
    assert_int_equal(atomic_load(&answered_ok), 300);
    assert_ok(hf_stats_get(other, &stats));
    assert_int_equal(stats.head, 300);
}

/* ---- Close ----------------------------------------------------------------------------------- */

static void closing_sets_the_pointer_to_null_and_may_be_repeated(void **state)
{
    struct scene *scene = *state;

    assert_ok(hf_close(&scene->bus));
    assert_null(scene->bus);
    assert_ok(hf_close(&scene->bus));
    assert_ok(hf_close(NULL));
}

static void closing_waits_for_handlers_and_settles_them(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);

    subscribe(scene->bus, "a", "*", recorder, NULL);
    for (int i = 0; i < 20; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait_begun(recorder, 1));
    scene_reopen(scene);
    assert_int_equal(info_of(scene->bus, "a").checkpoint, recorder_count(recorder));
}

struct inside {
    hf_status stop, shutdown, close;
    hf_bus *after; /* what the pointer was after hf_close */
};

static hf_verdict stop_inside(const hf_event *event, hf_delivery *delivery,
                              struct recorder *recorder)
{
    struct inside *inside = recorder->extra;
    hf_bus *bus = hf_delivery_bus(delivery);

    (void)event;
    inside->stop = hf_stop(bus, 10);
    inside->shutdown = hf_shutdown(bus, 10);
    inside->close = hf_close(&bus);
    inside->after = bus;
    return HF_ACK;
}

static void stopping_and_closing_inside_a_handler_are_misuse(void **state)
{
    static struct inside inside;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, stop_inside);

    memset(&inside, 0, sizeof inside);
    recorder->extra = &inside;
    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_status(inside.stop, HF_MISUSE);
    assert_status(inside.shutdown, HF_MISUSE);
    assert_status(inside.close, HF_MISUSE);
    assert_ptr_equal(inside.after, scene->bus);
    publish(scene->bus, "x", NULL, "2");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
}

/* Uses everything that a handler may use after the bus was closed around it. */
static hf_verdict use_after_door(const hf_event *event, hf_delivery *delivery,
                                 struct recorder *recorder)
{
    size_t *bytes = recorder->extra;

    *bytes = strlen(event->payload) + strlen(event->type) + strlen(event->id) +
             strlen(hf_delivery_subscription(delivery));
    *bytes += (size_t)hf_delivery_attempt(delivery) + (size_t)hf_delivery_attempts_max(delivery);
    hf_delivery_error(delivery, "too late: %s", event->type);
    return hf_delivery_cancelled(delivery) ? HF_RETRY : HF_ACK;
}

static void a_handler_that_outlives_the_close_keeps_its_memory(void **state)
{
    static size_t bytes;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, use_after_door);
    hf_bus *bus = scene->bus;
    hf_receipt receipt;

    bytes = 0;
    recorder->extra = &bytes;
    recorder->door = scene_door(scene);
    subscribe(bus, "a", "*", recorder, NULL);
    receipt = *publish(bus, "x.y", NULL, "\"0123456789\"");
    assert_ok(hf_start(bus));
    assert_true(door_wait_inside(recorder->door, 1));
    assert_status(hf_stop(bus, 20), HF_TIMEOUT);
    assert_status(hf_shutdown(bus, 20), HF_TIMEOUT);
    scene->bus = NULL;
    /* A close after a timed-out shutdown waits for shutdown_ms once more. */
    door_open(recorder->door);
    assert_true(recorder_wait(recorder, 1));
    assert_ok(hf_close(&bus));
    assert_null(bus);
    assert_int_equal(bytes, 12 + 3 + 36 + 1 + 1 + 4);
    assert_ok(hf_open(scene->url, &scene->options, &scene->bus));
    assert_int_not_equal(state_of(scene->bus, "a", receipt.id, NULL), HF_STATE_DONE);
}

static void a_close_that_times_out_frees_when_the_handler_returns(void **state)
{
    static size_t bytes;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, use_after_door);
    hf_options options = scene->options;
    hf_receipt receipt;
    hf_bus *bus;

    bytes = 0;
    options.shutdown_ms = 30;
    recorder->extra = &bytes;
    recorder->door = scene_door(scene);
    assert_ok(hf_open(scene->url, &options, &bus));
    subscribe(bus, "a", "*", recorder, NULL);
    receipt = *publish(bus, "x.y", NULL, "\"0123456789\"");
    assert_ok(hf_start(bus));
    assert_true(door_wait_inside(recorder->door, 1));
    assert_status(hf_close(&bus), HF_TIMEOUT);
    assert_null(bus);
    door_open(recorder->door);
    assert_true(recorder_wait(recorder, 1));
    assert_int_equal(bytes, 12 + 3 + 36 + 1 + 1 + 4);
    /* Another process goes on with the event. */
    recorder = scene_recorder(scene, NULL);
    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    assert_ok(hf_wait(scene->bus, "a", receipt.position, DEADLINE_MS));
    assert_int_equal(recorder_count(recorder), 1);
}

static hf_verdict publish_inside(const hf_event *event, hf_delivery *delivery,
                                 struct recorder *recorder)
{
    hf_new_event next = HF_NEW_EVENT_INIT;

    (void)recorder;
    if (strcmp(event->type, "step.9") == 0) {
        return HF_ACK;
    }
    char type[] = "step.0";

    type[5] = (char)(event->type[5] + 1);
    next.type = type;
    return hf_publish(hf_delivery_bus(delivery), &next, NULL) == HF_OK ? HF_ACK : HF_RETRY;
}

static void a_handler_may_publish(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, publish_inside);

    subscribe(scene->bus, "a", "step.*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "step.0", NULL, "1");
    assert_true(recorder_wait(recorder, 10));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 10);
}

/* "not what handlers publish meanwhile" */
static hf_verdict publish_successor(const hf_event *event, hf_delivery *delivery,
                                    struct recorder *recorder)
{
    hf_new_event next = HF_NEW_EVENT_INIT;

    (void)event;
    next.type = "x";
    if (!atomic_load((atomic_bool *)recorder->extra)) {
        hf_publish(hf_delivery_bus(delivery), &next, NULL);
    }
    return HF_ACK;
}

static void wait_while_handlers_publish(struct scene *scene, hf_mode mode)
{
    static atomic_bool enough;
    struct recorder *recorder = scene_recorder(scene, publish_successor);
    hf_subscription_options options = quick_options();

    atomic_store(&enough, false);
    recorder->extra = &enough;
    options.mode = mode;
    options.concurrency = 2;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 4; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_true(recorder_wait_begun(recorder, recorder_count(recorder) + 10));
    settle_all(scene->bus, NULL);
    atomic_store(&enough, true);
}

static void waiting_ends_although_ordered_handlers_go_on_publishing(void **state)
{
    wait_while_handlers_publish(*state, HF_MODE_ORDERED);
}

static void waiting_ends_although_shared_handlers_go_on_publishing(void **state)
{
    wait_while_handlers_publish(*state, HF_MODE_SHARED);
}

static void opening_and_closing_again_and_again_leaves_nothing_open(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    int before, after;

    scene_reopen(scene);
    before = dup(0);
    close(before);
    for (int i = 0; i < 20; i++) {
        subscribe(scene->bus, "a", "*", recorder, NULL);
        assert_ok(hf_start(scene->bus));
        publish(scene->bus, "x", NULL, "1");
        scene_reopen(scene);
    }
    after = dup(0);
    close(after);
    assert_int_equal(after, before);
}

static const struct CMUnitTest tests[] = {
    scene_test(stop_waits_for_the_running_handler),
    scene_test(after_a_stop_nothing_is_delivered_and_publishing_works),
    scene_test(stopping_a_bus_that_never_started_is_fine),
    scene_test(a_result_that_comes_after_the_stop_timed_out_is_refused),
    scene_test(a_stop_cancels_running_handlers),
    scene_test(the_events_in_hand_at_a_stop_are_not_lost),
    scene_test(many_subscriptions_that_cannot_be_given_back_take_no_longer_than_one),
    scene_test(closing_with_nothing_in_hand_does_not_wait_for_a_locked_database),
    scene_test(a_stop_while_the_database_is_locked_says_so_in_time),
    scene_test(ordered_work_that_a_stop_could_not_give_back_is_given_back_by_the_next),
    scene_test(shared_work_that_a_stop_could_not_give_back_is_given_back_by_the_next),
    scene_test(a_stop_of_shared_work_while_it_is_locked_strands_nothing),
    scene_test(after_a_shutdown_publishing_and_subscribing_are_refused),
    scene_test(a_shutdown_finishes_what_runs),
    scene_test(a_shutdown_spends_its_time_once),
    scene_test(a_shutdown_answers_all_asynchronous_publishes),
    scene_test(closing_sets_the_pointer_to_null_and_may_be_repeated),
    scene_test(closing_waits_for_handlers_and_settles_them),
    scene_test(stopping_and_closing_inside_a_handler_are_misuse),
    scene_test(a_handler_that_outlives_the_close_keeps_its_memory),
    scene_test(a_close_that_times_out_frees_when_the_handler_returns),
    scene_test(a_handler_may_publish),
    scene_test(waiting_ends_although_ordered_handlers_go_on_publishing),
    scene_test(waiting_ends_although_shared_handlers_go_on_publishing),
    scene_test(opening_and_closing_again_and_again_leaves_nothing_open),
};

SCENE_MAIN(tests)
