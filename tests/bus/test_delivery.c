/*
 * Tests of delivery to handlers: which events come, in which form, how several handlers work as one
 * unit, and that the order of publishing, subscribing and starting does not matter.
 */
#include "support_scene.h"

/* ---- Patterns -------------------------------------------------------------------------------- */

static const char *const TYPES[] = {
    "user.created",  "user.updated",      "user.created.late", "user",
    "order.created", "order.123.shipped", "order.shipped",     "order.1.2.shipped",
};

static size_t calls_of_type(struct recorder *recorder, const char *type)
{
    size_t calls = 0;

    for (size_t i = 0; i < recorder_count(recorder); i++) {
        calls += strcmp(recorder_get(recorder, i).type, type) == 0;
    }
    return calls;
}

/* Expects that a subscription with this pattern gets exactly the types of the list. */
static void expect_types(struct scene *scene, const char *name, const char *pattern,
                         const char *const *types, size_t count)
{
    struct recorder *recorder = scene_recorder(scene, NULL);

    subscribe(scene->bus, name, pattern, recorder, NULL);
    settle_all(scene->bus, name);
    assert_int_equal(recorder_count(recorder), count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(calls_of_type(recorder, types[i]), 1);
    }
}

static void each_pattern_gets_exactly_its_types(void **state)
{
    struct scene *scene = *state;
    const char *const exact[] = {"user.created"};
    const char *const star[] = {"user.created", "user.updated"};
    const char *const middle[] = {"order.123.shipped"};
    const char *const tail[] = {"order.created", "order.123.shipped", "order.shipped",
                                "order.1.2.shipped"};

    for (size_t i = 0; i < COUNTED(TYPES); i++) {
        publish(scene->bus, TYPES[i], NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    expect_types(scene, "exact", "user.created", exact, COUNTED(exact));
    expect_types(scene, "star", "user.*", star, COUNTED(star));
    expect_types(scene, "middle", "order.*.shipped", middle, COUNTED(middle));
    expect_types(scene, "tail", "order.**", tail, COUNTED(tail));
    expect_types(scene, "all", "*", TYPES, COUNTED(TYPES));
}

static void events_that_do_not_match_are_not_for_it_and_do_not_stop_the_checkpoint(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_receipt other;

    subscribe(scene->bus, "a", "user.*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "user.created", NULL, "1");
    other = *publish(scene->bus, "order.created", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 1);
    assert_int_equal(state_of(scene->bus, "a", other.id, NULL), HF_STATE_NOT_FOR_IT);
    assert_ok(hf_stop(scene->bus, -1));
    assert_int_equal(info_of(scene->bus, "a").checkpoint, other.position);
    assert_int_equal(info_of(scene->bus, "a").lag, 0);
}

/* ---- What a handler sees --------------------------------------------------------------------- */

struct exhibit {
    char id[HF_ID_BYTES], type[64], key[64], tenant[64], metadata[64], producer[64];
    char payload[256];
    size_t payload_bytes;
    bool payload_ends, key_absent, tenant_absent, metadata_absent, schedule_absent;
    int64_t position, key_version, emitted_at_us, entered_at_us;
    char subscription[64];
    int32_t attempt, attempts_max;
    hf_bus *bus;
    int cancelled;
    struct sqlite3 *sqlite;
};

#define KEEP(to, from) snprintf(to, sizeof(to), "%s", (from) ? (from) : "")

static hf_verdict exhibit_event(const hf_event *event, hf_delivery *delivery,
                                struct recorder *recorder)
{
    struct exhibit *exhibit = recorder->extra;

    KEEP(exhibit->id, event->id);
    KEEP(exhibit->type, event->type);
    KEEP(exhibit->key, event->key);
    KEEP(exhibit->tenant, event->tenant);
    KEEP(exhibit->metadata, event->metadata);
    KEEP(exhibit->producer, event->producer);
    KEEP(exhibit->payload, event->payload);
    exhibit->payload_bytes = event->payload_bytes;
    exhibit->payload_ends = event->payload[event->payload_bytes] == '\0';
    exhibit->key_absent = !event->key;
    exhibit->tenant_absent = !event->tenant;
    exhibit->metadata_absent = !event->metadata;
    exhibit->schedule_absent = !event->schedule_id;
    exhibit->position = event->position;
    exhibit->key_version = event->key_version;
    exhibit->emitted_at_us = event->emitted_at_us;
    exhibit->entered_at_us = event->entered_at_us;
    KEEP(exhibit->subscription, hf_delivery_subscription(delivery));
    exhibit->attempt = hf_delivery_attempt(delivery);
    exhibit->attempts_max = hf_delivery_attempts_max(delivery);
    exhibit->bus = hf_delivery_bus(delivery);
    exhibit->cancelled = hf_delivery_cancelled(delivery);
    exhibit->sqlite = hf_delivery_sqlite(delivery);
    return HF_ACK;
}

static void a_handler_sees_every_field_as_it_was_published(void **state)
{
    static struct exhibit exhibit;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, exhibit_event);
    const char payload[] = " { \"b\" : 1.50 ,\"a\":\"\\u00e9 \xc3\xa9\" , \"b\":2 }  ";
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_receipt receipt;
    int64_t before_us = wall_us();

    memset(&exhibit, 0, sizeof exhibit);
    recorder->extra = &exhibit;
    event.type = "user.created";
    event.payload = payload;
    event.payload_bytes = sizeof payload - 1;
    event.id = "0190b0f0-1111-7222-8333-444455556666";
    event.key = "k 1";
    event.tenant = "t'1";
    event.metadata = "{\"trace\":\"7\"}";
    event.producer = "web-3";
    event.emitted_at_us = 1234567890123456;
    event.expected_version = 0;
    subscribe(scene->bus, "a", "user.*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    assert_ok(hf_publish(scene->bus, &event, &receipt));
    settle_all(scene->bus, "a");
    assert_string_equal(exhibit.id, event.id);
    assert_string_equal(exhibit.type, event.type);
    assert_string_equal(exhibit.key, event.key);
    assert_string_equal(exhibit.tenant, event.tenant);
    assert_string_equal(exhibit.metadata, event.metadata);
    assert_string_equal(exhibit.producer, event.producer);
    assert_int_equal(exhibit.payload_bytes, sizeof payload - 1);
    assert_string_equal(exhibit.payload, payload);
    assert_true(exhibit.payload_ends);
    assert_true(exhibit.schedule_absent);
    assert_int_equal(exhibit.position, receipt.position);
    assert_int_equal(exhibit.key_version, receipt.key_version);
    assert_int_equal(exhibit.emitted_at_us, event.emitted_at_us);
    assert_in_range(exhibit.entered_at_us, before_us, wall_us());
    assert_string_equal(exhibit.subscription, "a");
    assert_int_equal(exhibit.attempt, 1);
    assert_int_equal(exhibit.attempts_max, 4);
    assert_ptr_equal(exhibit.bus, scene->bus);
    assert_int_equal(exhibit.cancelled, 0);
    assert_null(exhibit.sqlite);
}

static void fields_that_were_not_given_are_absent_and_the_producer_is_the_node(void **state)
{
    static struct exhibit exhibit;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, exhibit_event);
    hf_options options = scene->options;
    hf_bus *bus;

    memset(&exhibit, 0, sizeof exhibit);
    recorder->extra = &exhibit;
    options.node_name = "node-9";
    bus = scene_open(scene, &options);
    subscribe(bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(bus));
    publish(bus, "x", NULL, NULL);
    settle_all(bus, "a");
    assert_true(exhibit.key_absent);
    assert_true(exhibit.tenant_absent);
    assert_true(exhibit.metadata_absent);
    assert_string_equal(exhibit.producer, "node-9");
    assert_string_equal(exhibit.payload, "null");
    assert_int_equal(exhibit.payload_bytes, 4);
    assert_int_equal(exhibit.key_version, -1);
}

/* ---- Order of the calls ---------------------------------------------------------------------- */

static void nothing_is_delivered_before_the_start(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_receipt receipt;

    subscribe(scene->bus, "a", "*", recorder, NULL);
    receipt = *publish(scene->bus, "x", NULL, "1");
    assert_status(hf_wait(scene->bus, "a", receipt.position, 50), HF_TIMEOUT);
    assert_int_equal(recorder_count(recorder), 0);
    assert_int_equal(state_of(scene->bus, "a", receipt.id, NULL), HF_STATE_PENDING);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 1);
    assert_int_equal(state_of(scene->bus, "a", receipt.id, NULL), HF_STATE_DONE);
}

static void starting_before_subscribing_loses_nothing(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);

    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", "k", "1");
    publish(scene->bus, "x", "k", "2");
    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_true(recorder_wait(recorder, 2));
    publish(scene->bus, "x", "k", "3");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 3);
    assert_string_equal(recorder_get(recorder, 0).payload, "1");
    assert_string_equal(recorder_get(recorder, 2).payload, "3");
}

static void starting_twice_is_the_same_as_once(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);

    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 1);
}

static void a_new_subscription_must_say_where_it_starts(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    hf_handler_id id = 77;

    assert_status(hf_subscribe(scene->bus, "a", "*", recorder_handle, recorder, &options, &id),
                  HF_INVALID);
    assert_status(hf_subscribe(scene->bus, "a", "*", recorder_handle, recorder, NULL, &id),
                  HF_INVALID);
    assert_int_equal(id, 77);
    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_subscribe(scene->bus, "a", "*", recorder_handle, recorder, NULL, NULL));
}

static void a_subscription_made_before_gets_its_handler_later(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    const char *patterns[] = {"user.*", "order.*"};

    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 2, &options, NULL));
    publish(scene->bus, "user.created", NULL, "1");
    publish(scene->bus, "order.created", NULL, "2");
    assert_ok(hf_start(scene->bus));
    assert_ok(hf_subscribe(scene->bus, "a", "*", recorder_handle, recorder, NULL, NULL));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
}

static void a_settled_event_does_not_come_again_after_a_restart(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);

    for (int round = 0; round < 3; round++) {
        subscribe(scene->bus, "a", "*", recorder, NULL);
        assert_ok(hf_start(scene->bus));
        for (int i = 0; i < 10; i++) {
            publish(scene->bus, "x", NULL, "1");
        }
        settle_all(scene->bus, "a");
        scene_reopen(scene);
    }
    assert_int_equal(recorder_count(recorder), 30);
    for (int64_t position = 1; position <= 30; position++) {
        assert_int_equal(recorder_calls(recorder, position, NULL), 1);
    }
}

static void namespaces_do_not_see_each_other(void **state)
{
    struct scene *scene = *state;
    struct recorder *here = scene_recorder(scene, NULL);
    struct recorder *there = scene_recorder(scene, NULL);
    hf_options options = scene->options;
    hf_bus *other;

    options.namespace_name = "other";
    other = scene_open(scene, &options);
    subscribe(scene->bus, "a", "*", here, NULL);
    subscribe(other, "a", "*", there, NULL);
    assert_ok(hf_start(scene->bus));
    assert_ok(hf_start(other));
    publish(scene->bus, "x", NULL, "1");
    publish(other, "x", NULL, "2");
    publish(other, "x", NULL, "3");
    settle_all(scene->bus, NULL);
    settle_all(other, NULL);
    assert_int_equal(recorder_count(here), 1);
    assert_int_equal(recorder_count(there), 2);
    assert_int_equal(recorder_get(there, 0).position, 1);
}

/* ---- Several handlers ------------------------------------------------------------------------ */

static void handlers_of_a_subscription_run_in_the_order_of_registration(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    struct recorder *second = scene_recorder(scene, NULL);

    recorder->tag = "first";
    second->tag = "second";
    subscribe(scene->bus, "a", "user.*", recorder, NULL);
    subscribe(scene->bus, "a", "user.created", second, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "user.created", "k", "1");
    publish(scene->bus, "user.updated", "k", "2");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
    assert_int_equal(recorder_count(second), 1);
    assert_true(recorder_get(recorder, 0).end_us <= recorder_get(second, 0).begin_us);
    assert_true(recorder_get(second, 0).end_us <= recorder_get(recorder, 1).begin_us);
}

static hf_verdict fail_once(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)event;
    (void)recorder;
    if (hf_delivery_attempt(delivery) > 1) {
        return HF_ACK;
    }
    hf_delivery_error(delivery, "not %s time", "this");
    return HF_RETRY;
}

static void handlers_fail_as_one_and_later_ones_do_not_run(void **state)
{
    struct scene *scene = *state;
    struct recorder *first = scene_recorder(scene, NULL);
    struct recorder *second = scene_recorder(scene, fail_once);
    struct recorder *third = scene_recorder(scene, NULL);

    subscribe(scene->bus, "a", "*", first, NULL);
    subscribe(scene->bus, "a", "*", second, NULL);
    subscribe(scene->bus, "a", "*", third, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(first), 2);
    assert_int_equal(recorder_count(second), 2);
    assert_int_equal(recorder_count(third), 1);
    assert_int_equal(recorder_get(first, 1).attempt, 2);
    assert_int_equal(recorder_get(third, 0).attempt, 2);
}

static void a_failure_in_one_subscription_does_not_affect_another(void **state)
{
    struct scene *scene = *state;
    struct recorder *failing = scene_recorder(scene, fail_once);
    struct recorder *healthy = scene_recorder(scene, NULL);

    subscribe(scene->bus, "failing", "*", failing, NULL);
    subscribe(scene->bus, "healthy", "*", healthy, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, NULL);
    assert_int_equal(recorder_count(failing), 2);
    assert_int_equal(recorder_count(healthy), 1);
}

static void a_slow_subscription_does_not_slow_another(void **state)
{
    struct scene *scene = *state;
    struct recorder *slow = scene_recorder(scene, NULL);
    struct recorder *fast = scene_recorder(scene, NULL);

    slow->door = scene_door(scene);
    subscribe(scene->bus, "slow", "*", slow, NULL);
    subscribe(scene->bus, "fast", "*", fast, NULL);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 300; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    settle_all(scene->bus, "fast");
    assert_int_equal(recorder_count(fast), 300);
    assert_true(recorder_wait_begun(slow, 1));
    assert_int_equal(recorder_count(slow), 1);
    door_open(slow->door);
    settle_all(scene->bus, "slow");
    assert_int_equal(recorder_count(slow), 300);
}

/* ---- Unsubscribing --------------------------------------------------------------------------- */

static void unsubscribing_ends_delivery_and_keeps_the_subscription(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_handler_id id = subscribe(scene->bus, "a", "*", recorder, NULL);
    hf_receipt receipt;

    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_ok(hf_unsubscribe(scene->bus, id));
    receipt = *publish(scene->bus, "x", NULL, "2");
    assert_status(hf_wait(scene->bus, "a", receipt.position, 50), HF_TIMEOUT);
    assert_int_equal(recorder_count(recorder), 1);
    assert_int_equal(info_of(scene->bus, "a").pattern_count, 1);
    subscribe(scene->bus, "a", "*", recorder, NULL);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
}

static void only_the_handler_with_the_id_is_unsubscribed(void **state)
{
    struct scene *scene = *state;
    struct recorder *first = scene_recorder(scene, NULL);
    struct recorder *second = scene_recorder(scene, NULL);
    hf_handler_id id = subscribe(scene->bus, "a", "*", first, NULL);

    subscribe(scene->bus, "a", "*", second, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_ok(hf_unsubscribe(scene->bus, id));
    publish(scene->bus, "x", NULL, "2");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(first), 1);
    assert_int_equal(recorder_count(second), 2);
}

static void an_unknown_handler_is_not_found(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_handler_id id = subscribe(scene->bus, "a", "*", recorder, NULL);

    assert_status(hf_unsubscribe(scene->bus, id + 1000), HF_NOTFOUND);
    assert_ok(hf_unsubscribe(scene->bus, id));
    assert_status(hf_unsubscribe(scene->bus, id), HF_NOTFOUND);
}

struct leaving {
    hf_bus *bus;
    hf_handler_id id;
    hf_status status;
    bool returned;
    pthread_mutex_t mutex;
};

static void *leave(void *ctx)
{
    struct leaving *leaving = ctx;
    hf_status status = hf_unsubscribe(leaving->bus, leaving->id);

    pthread_mutex_lock(&leaving->mutex);
    leaving->status = status;
    leaving->returned = true;
    pthread_mutex_unlock(&leaving->mutex);
    return NULL;
}

static void unsubscribing_waits_for_the_running_handler(void **state)
{
    static struct leaving leaving;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    pthread_t thread;
    bool early;

    recorder->door = scene_door(scene);
    leaving = (struct leaving){.bus = scene->bus, .mutex = PTHREAD_MUTEX_INITIALIZER};
    leaving.id = subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    assert_true(door_wait_inside(recorder->door, 1));
    pthread_create(&thread, NULL, leave, &leaving);
    usleep(50000); /* time for a call that does not wait to show itself */
    pthread_mutex_lock(&leaving.mutex);
    early = leaving.returned;
    pthread_mutex_unlock(&leaving.mutex);
    door_open(recorder->door);
    pthread_join(thread, NULL);
    assert_false(early);
    assert_status(leaving.status, HF_OK);
    assert_int_equal(recorder_count(recorder), 1);
}

static hf_verdict leave_inside(const hf_event *event, hf_delivery *delivery,
                               struct recorder *recorder)
{
    struct leaving *leaving = recorder->extra;

    (void)event;
    leaving->status = hf_unsubscribe(hf_delivery_bus(delivery), leaving->id);
    return HF_ACK;
}

static void a_handler_may_unsubscribe_itself(void **state)
{
    static struct leaving leaving;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, leave_inside);

    leaving = (struct leaving){.status = HF_IO};
    recorder->extra = &leaving;
    leaving.id = subscribe(scene->bus, "a", "*", recorder, NULL);
    publish(scene->bus, "x", NULL, "1");
    publish(scene->bus, "x", NULL, "2");
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait(recorder, 1));
    assert_ok(hf_stop(scene->bus, -1));
    assert_int_equal(recorder_count(recorder), 1);
    assert_status(leaving.status, HF_OK);
    assert_status(hf_unsubscribe(scene->bus, leaving.id), HF_NOTFOUND);
}

static const struct CMUnitTest tests[] = {
    scene_test(each_pattern_gets_exactly_its_types),
    scene_test(events_that_do_not_match_are_not_for_it_and_do_not_stop_the_checkpoint),
    scene_test(a_handler_sees_every_field_as_it_was_published),
    scene_test(fields_that_were_not_given_are_absent_and_the_producer_is_the_node),
    scene_test(nothing_is_delivered_before_the_start),
    scene_test(starting_before_subscribing_loses_nothing),
    scene_test(starting_twice_is_the_same_as_once),
    scene_test(a_new_subscription_must_say_where_it_starts),
    scene_test(a_subscription_made_before_gets_its_handler_later),
    scene_test(a_settled_event_does_not_come_again_after_a_restart),
    scene_test(namespaces_do_not_see_each_other),
    scene_test(handlers_of_a_subscription_run_in_the_order_of_registration),
    scene_test(handlers_fail_as_one_and_later_ones_do_not_run),
    scene_test(a_failure_in_one_subscription_does_not_affect_another),
    scene_test(a_slow_subscription_does_not_slow_another),
    scene_test(unsubscribing_ends_delivery_and_keeps_the_subscription),
    scene_test(only_the_handler_with_the_id_is_unsubscribed),
    scene_test(an_unknown_handler_is_not_found),
    scene_test(unsubscribing_waits_for_the_running_handler),
    scene_test(a_handler_may_unsubscribe_itself),
};

SCENE_MAIN(tests)
