/*
 * Tests of the time that a transactional handler has: past tx_max_ms nothing of it is kept and
 * others go on, whatever the handler and its dispatcher are doing at that moment.
 */
#include "support_effects.h"

#include "base/point.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <unistd.h>

/* ---- Past its time --------------------------------------------------------------------------- */

struct slow {
    struct door *door;
    atomic_int late; /* of the write after the time was up: 1 it worked, 2 it failed */
};

static hf_verdict write_late(const hf_event *event, hf_delivery *delivery,
                             struct recorder *recorder)
{
    struct slow *slow = recorder->extra;

    if (!effects_write(delivery, event)) {
        return HF_DEAD;
    }
    if (strcmp(event->type, "x") == 0 && hf_delivery_attempt(delivery) == 1) {
        door_pass(slow->door);
        atomic_store(&slow->late, effects_write(delivery, event) ? 1 : 2);
    }
    return HF_ACK;
}

static bool has_tried(void *ctx)
{
    return atomic_load(&((struct slow *)ctx)->late) != 0;
}

static void past_tx_max_the_transaction_is_undone_and_others_go_on(void **state)
{
    static struct slow slow;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, write_late);
    hf_subscription_options options = effects_options();
    hf_receipt receipt;
    int64_t begin_us;

    effects_make(scene);
    slow.door = scene_door(scene);
    atomic_store(&slow.late, 0);
    recorder->extra = &slow;
    options.tx_max_ms = 1000; /* a slow machine exceeds it once more, now and then */
    options.attempts_max = 100;
    subscribe(scene->bus, "a", "*", recorder, &options);
    receipt = *publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(slow.door, 1));
    /* Publishing waits for the transaction, but not longer than tx_max_ms. */
    begin_us = mono_us();
    publish(scene->bus, "y", NULL, "1");
    assert_true(mono_us() - begin_us < 20000000);
    settle_all(scene->bus, "a");
    assert_int_equal(state_of(scene->bus, "a", receipt.id, NULL), HF_STATE_DONE);
    door_open(slow.door);
    assert_true(wait_until(has_tried, &slow));
    assert_int_equal(atomic_load(&slow.late), 2);
    publish(scene->bus, "z", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 3);
    assert_int_equal(tables_number(scene, "SELECT count(DISTINCT position) FROM effects"), 3);
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects "
                                          "WHERE position = 1 AND attempt > 1"),
                     1);
}

/* The same while the dispatcher is stopped, as a store that does not answer stops it: on SQLite it
 * often waits for the lock that its own handler holds. */
static hf_verdict write_late_without_dispatcher(const hf_event *event, hf_delivery *delivery,
                                                struct recorder *recorder)
{
    struct slow *slow = recorder->extra;

    if (!effects_write(delivery, event)) {
        return HF_DEAD;
    }
    if (strcmp(event->type, "x") == 0 && hf_delivery_attempt(delivery) == 1) {
        point_arm("after_refresh", 1, POINT_STOP_THREAD);
        for (int i = 0; i < DEADLINE_MS && !hf_delivery_cancelled(delivery); i++) {
            usleep(1000);
        }
        door_pass(slow->door);
        atomic_store(&slow->late, effects_write(delivery, event) ? 1 : 2);
    }
    return HF_ACK;
}

static void time_is_up_without_dispatcher(struct scene *scene, hf_mode mode)
{
    static struct slow slow;
    struct recorder *recorder = scene_recorder(scene, write_late_without_dispatcher);
    hf_subscription_options options = effects_options();
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_status published;
    bool cancelled, tried;

    effects_make(scene);
    slow.door = scene_door(scene);
    atomic_store(&slow.late, 0);
    recorder->extra = &slow;
    options.mode = mode;
    options.tx_max_ms = 3000; /* by then the dispatcher has been stopped */
    options.attempts_max = 100;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait_begun(recorder, 1));
    event.type = "y";
    published = hf_publish(scene->bus, &event, NULL); /* the handler has not returned */
    cancelled = door_wait_inside(slow.door, 1);
    door_open(slow.door);
    tried = wait_until(has_tried, &slow);
    point_reset();
    assert_ok(published);
    assert_true(cancelled);
    assert_true(tried);
    assert_int_equal(atomic_load(&slow.late), 2);
    settle_all(scene->bus, "a");
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 2);
    assert_int_equal(tables_number(scene, "SELECT count(DISTINCT position) FROM effects"), 2);
}

static void past_tx_max_a_transaction_is_undone_although_the_dispatcher_waits(void **state)
{
    time_is_up_without_dispatcher(*state, HF_MODE_ORDERED);
}

static void past_tx_max_a_shared_transaction_is_undone_although_the_dispatcher_waits(void **state)
{
    time_is_up_without_dispatcher(*state, HF_MODE_SHARED);
}

#define HASTY_MS 50

struct hasty {
    _Atomic int64_t shortest_us; /* from the handler's begin until it saw that it is cancelled */
};

/* Waits until it is cancelled, and notes the shortest time that this has taken. */
static hf_verdict time_the_cancelling(const hf_event *event, hf_delivery *delivery,
                                      struct recorder *recorder)
{
    struct hasty *hasty = recorder->extra;
    int64_t begin_us = mono_us();

    (void)event;
    for (int i = 0; i < DEADLINE_MS && !hf_delivery_cancelled(delivery); i++) {
        usleep(1000);
    }
    if (mono_us() - begin_us < atomic_load(&hasty->shortest_us)) {
        atomic_store(&hasty->shortest_us, mono_us() - begin_us);
    }
    return HF_ACK;
}

static void limit_is_noticed_in_time(struct scene *scene, hf_mode mode)
{
    static struct hasty hasty;
    struct recorder *recorder = scene_recorder(scene, time_the_cancelling);
    hf_subscription_options options = effects_options();

    effects_make(scene);
    atomic_store(&hasty.shortest_us, INT64_MAX);
    recorder->extra = &hasty;
    options.mode = mode;
    options.tx_max_ms = HASTY_MS;
    options.attempts_max = 8; /* on a busy machine one of them is in time */
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    /* The limit counts from before the handler's first line, which a busy machine runs later. */
    assert_in_range(atomic_load(&hasty.shortest_us), HASTY_MS * 500, 10 * HASTY_MS * 1000);
}

static void a_tx_max_below_a_second_is_noticed_in_time(void **state)
{
    limit_is_noticed_in_time(*state, HF_MODE_ORDERED);
}

static void a_tx_max_below_a_second_is_noticed_in_time_in_a_shared_subscription(void **state)
{
    limit_is_noticed_in_time(*state, HF_MODE_SHARED);
}

/* An SQL function that outlasts the time limit. */
static void outlast(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    (void)values;
    for (int i = 0; i < DEADLINE_MS && !hf_delivery_cancelled(sqlite3_user_data(context)); i++) {
        usleep(1000);
    }
    usleep(20000); /* so that the rollback is tried meanwhile: it cannot succeed */
    sqlite3_result_int(context, 1);
}

/* Is over its time in the middle of a statement; then it does not return either. */
static hf_verdict write_in_outlasting_statement(const hf_event *event, hf_delivery *delivery,
                                                struct recorder *recorder)
{
    struct slow *slow = recorder->extra;

    if (strcmp(event->type, "x") == 0 && hf_delivery_attempt(delivery) == 1) {
        sqlite3_create_function(hf_delivery_sqlite(delivery), "outlast", 0, SQLITE_UTF8, delivery,
                                outlast, NULL, NULL);
        delivery_run(delivery, "INSERT INTO effects VALUES (outlast(), 0)");
        door_pass(slow->door);
        atomic_store(&slow->late, effects_write(delivery, event) ? 1 : 2);
        return HF_ACK;
    }
    return effects_handle(event, delivery, recorder);
}

static void a_statement_that_outlasts_tx_max_is_undone_when_it_ends(void **state)
{
    static struct slow slow;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, write_in_outlasting_statement);
    hf_subscription_options options = effects_options();

    if (!scene->path) {
        skip();
    }
    effects_make(scene);
    slow.door = scene_door(scene);
    atomic_store(&slow.late, 0);
    recorder->extra = &slow;
    options.tx_max_ms = 1000;
    options.attempts_max = 100;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(slow.door, 1));
    publish(scene->bus, "y", NULL, "1"); /* the handler has not returned */
    settle_all(scene->bus, "a");
    door_open(slow.door);
    assert_true(wait_until(has_tried, &slow));
    assert_int_equal(atomic_load(&slow.late), 2);
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 2);
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects WHERE attempt = 0"), 0);
}

/* An SQL function that waits at a door. */
static void stand(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    (void)values;
    door_pass(sqlite3_user_data(context));
    sqlite3_result_int(context, 1);
}

struct standing {
    struct door *inside; /* of a statement */
    struct door *behind; /* it has ended, and the handler has not */
};

static hf_verdict stand_in_statement(const hf_event *event, hf_delivery *delivery,
                                     struct recorder *recorder)
{
    struct standing *standing = recorder->extra;

    (void)event;
    sqlite3_create_function(hf_delivery_sqlite(delivery), "stand", 0, SQLITE_UTF8, standing->inside,
                            stand, NULL, NULL);
    delivery_run(delivery, "INSERT INTO effects VALUES (stand(), 0)");
    door_pass(standing->behind);
    return HF_ACK;
}

/* A stop has long returned when the statement ends, and the handler has not. */
static void a_statement_that_outlasts_a_stop_is_undone_when_it_ends(void **state)
{
    static struct standing standing;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, stand_in_statement);
    hf_subscription_options options = effects_options();
    hf_bus *other;

    if (!scene->path) {
        skip();
    }
    effects_make(scene);
    standing = (struct standing){scene_door(scene), scene_door(scene)};
    recorder->extra = &standing;
    options.tx_max_ms = options.handler_timeout_ms = DEADLINE_MS;
    other = scene_open(scene, NULL);
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(standing.inside, 1));
    assert_status(hf_stop(scene->bus, 0), HF_TIMEOUT);
    door_open(standing.inside);
    assert_true(door_wait_inside(standing.behind, 1));
    publish(other, "y", NULL, "1");
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 0);
    door_open(standing.behind);
}

static const struct CMUnitTest tests[] = {
    scene_test(past_tx_max_the_transaction_is_undone_and_others_go_on),
    scene_test(past_tx_max_a_transaction_is_undone_although_the_dispatcher_waits),
    scene_test(past_tx_max_a_shared_transaction_is_undone_although_the_dispatcher_waits),
    scene_test(a_tx_max_below_a_second_is_noticed_in_time),
    scene_test(a_tx_max_below_a_second_is_noticed_in_time_in_a_shared_subscription),
    scene_test(a_statement_that_outlasts_tx_max_is_undone_when_it_ends),
    scene_test(a_statement_that_outlasts_a_stop_is_undone_when_it_ends),
};

SCENE_MAIN(tests)
