/*
 * Tests of retention and subscriptions that lag: they are moved past what goes, that is told and
 * counted, nothing else of theirs is lost, and every step looks again at what is needed.
 */
#include "support_retention.h"
#include "support_tables.h"

static void drop_beside_a_handler(struct scene *scene, hf_mode mode)
{
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    int64_t dropped[2] = {0, 0};

    options.mode = mode;
    recorder->door = scene_door(scene);
    subscribe(scene->bus, "s", "*", recorder, &options);
    publish_bulk(scene->bus, "old", EVENTS);
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->door, 1));
    grow_old(scene);
    publish_bulk(scene->bus, "new", 50);
    set_retention(scene->bus, -1, -1, HF_LAGGING_DROP);
    struct told told = retain(scene->bus, HF_OFF);
    assert_int_equal(told.drops, 1);
    assert_int_equal(told.last.events, EVENTS);
    assert_int_equal(tables_events(scene), 50);
    assert_true(scene_said(scene, "lagging=drop"));

    door_open(recorder->door);
    settle_all(scene->bus, "s");
    for (int64_t i = 1; i <= 50; i++) {
        assert_true(recorder_calls(recorder, EVENTS + i, NULL) >= 1);
    }
    assert_ok(hf_subscription_get(scene->bus, "s", note_dropped, dropped));
    assert_int_equal(dropped[0], EVENTS);
    assert_int_equal(dropped[1], EVENTS);
    assert_int_equal(info_of(scene->bus, "s").dead, 0);
}

static void an_ordered_subscription_that_lags_loses_events_and_goes_on(void **state)
{
    drop_beside_a_handler(*state, HF_MODE_ORDERED);
}

static void a_shared_subscription_that_lags_loses_events_and_goes_on(void **state)
{
    drop_beside_a_handler(*state, HF_MODE_SHARED);
}

static bool is_retrying(void *ctx)
{
    return info_of(ctx, "s").retrying == 1;
}

static bool is_held(void *ctx)
{
    return info_of(ctx, "s").held == 1;
}

/* The second event of a key waits for the first, which fails and is dropped. */
static void an_event_held_behind_a_dropped_one_is_delivered(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_first);
    hf_subscription_options options = patient_options();

    subscribe(scene->bus, "s", "*", recorder, &options);
    publish(scene->bus, "old", "k", "1");
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(is_retrying, scene->bus));
    grow_old(scene);
    publish(scene->bus, "new", "k", "2");
    assert_true(wait_until(is_held, scene->bus));
    set_retention(scene->bus, -1, -1, HF_LAGGING_DROP);
    assert_int_equal(retain(scene->bus, HF_OFF).drops, 1);
    settle_all(scene->bus, "s");
    assert_int_equal(recorder_calls(recorder, 1, NULL), 1);
    assert_int_equal(recorder_calls(recorder, 2, NULL), 1);
    assert_int_equal(info_of(scene->bus, "s").retrying, 0);
}

static void a_lease_of_dropped_events_is_refused(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    hf_claim_options claiming = HF_CLAIM_OPTIONS_INIT;
    const char *all[] = {"*"};
    hf_batch *batch = NULL;

    options.mode = HF_MODE_SHARED;
    assert_ok(hf_subscription_create(scene->bus, "s", all, 1, &options, NULL));
    publish_bulk(scene->bus, "old", 10);
    claiming.lease_ms = 3600000;
    assert_ok(hf_claim(scene->bus, "s", &claiming, &batch));
    assert_int_equal(hf_batch_count(batch), 10);
    grow_old(scene);
    set_retention(scene->bus, -1, -1, HF_LAGGING_DROP);
    assert_int_equal(retain(scene->bus, HF_OFF).drops, 1);
    assert_status(hf_ack(scene->bus, "s", hf_batch_lease(batch), NULL, 0), HF_STALE);
    hf_batch_free(batch);
}

/* What was done out of order below goes with the events, what was done above stays. */
static void rows_of_settled_events_are_deleted_with_the_events(void **state)
{
    struct scene *scene = *state;
    const char *dot = scene->path ? "_" : "_private.";
    hf_subscription_options options = quick_options();
    const char *all[] = {"*"};
    char sql[256];

    assert_ok(hf_subscription_create(scene->bus, "s", all, 1, &options, NULL));
    publish_bulk(scene->bus, "old", 10);
    grow_old(scene);
    publish_bulk(scene->bus, "new", 10);
    snprintf(sql, sizeof sql,
             "INSERT INTO holdfast%ssettled (subscription_id, partition, position)"
             " SELECT id, 0, p.x FROM holdfast%ssubscriptions,"
             " (SELECT 3 AS x UNION SELECT 10 UNION SELECT 12) p",
             dot, dot);
    tables_run(scene, sql);
    set_retention(scene->bus, -1, -1, HF_LAGGING_DROP);
    assert_int_equal(retain(scene->bus, HF_OFF).drops, 1);
    snprintf(sql, sizeof sql, "SELECT sum(position) FROM holdfast%ssettled", dot);
    assert_int_equal(tables_number(scene, sql), 12);
}

/* A subscription that has read nothing of ten events that are to go. */
static void fall_behind(struct scene *scene)
{
    hf_subscription_options options = quick_options();
    const char *all[] = {"*"};

    assert_ok(hf_subscription_create(scene->bus, "s", all, 1, &options, NULL));
    publish_bulk(scene->bus, "old", 10);
    grow_old(scene);
    set_retention(scene->bus, -1, -1, HF_LAGGING_DROP);
}

static int keep_for_ever(const hf_retention_info *info, void *ctx)
{
    if (info->dropped_name) {
        set_retention(ctx, 0, -1, HF_LAGGING_DEFAULT);
    }
    return 0;
}

/* A step has moved the subscription; the next one finds that nothing is to go any more. */
static void retention_settings_that_change_during_a_run_count(void **state)
{
    struct scene *scene = *state;

    fall_behind(scene);
    assert_ok(hf_retention_run(scene->bus, NULL, HF_OFF, keep_for_ever, scene->bus));
    assert_int_equal(info_of(scene->bus, "s").checkpoint, 10);
    assert_int_equal(tables_events(scene), 10);
}

/* Moved back to before what was deleted, it will never get that. */
static void an_event_that_was_deleted_is_not_waited_for(void **state)
{
    struct scene *scene = *state;

    fall_behind(scene);
    publish_bulk(scene->bus, "new", 1);
    assert_int_equal(retain(scene->bus, HF_OFF).drops, 1);
    assert_ok(hf_seek(scene->bus, "s", (hf_place){HF_PLACE_POSITION, 0}, HF_OFF, NULL));
    assert_ok(hf_wait(scene->bus, "s", 10, 0));
    assert_status(hf_wait(scene->bus, "s", 11, 0), HF_TIMEOUT);
}

/* ---- What stays ------------------------------------------------------------------------------ */

static hf_verdict bury_first_once(const hf_event *event, hf_delivery *delivery,
                                  struct recorder *recorder)
{
    (void)delivery;
    return event->position == 1 && recorder_calls(recorder, 1, NULL) == 1 ? HF_DEAD : HF_ACK;
}

static void a_retried_dead_letter_outlives_the_drop_of_its_event(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, bury_first_once);
    hf_subscription_options options = quick_options();
    struct dead dead;

    subscribe(scene->bus, "s", "*", recorder, &options);
    publish_bulk(scene->bus, "old", 1);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "s");
    assert_ok(hf_stop(scene->bus, -1));
    assert_int_equal(dead_of(scene->bus, "s", &dead, 1), 1);
    assert_ok(hf_dead_retry(scene->bus, dead.dead_id, NULL, 0));
    publish_bulk(scene->bus, "old", 10);
    grow_old(scene);
    set_retention(scene->bus, -1, -1, HF_LAGGING_DROP);
    struct told told = retain(scene->bus, HF_OFF);
    assert_int_equal(told.drops, 1);
    assert_string_equal(told.kept_by, ""); /* no subscription keeps anything */
    assert_int_equal(tables_events(scene), 0);
    int64_t last = publish(scene->bus, "new", NULL, "{}")->position;
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait(recorder, 3));
    assert_int_equal(recorder_calls(recorder, 1, NULL), 2);
    assert_int_equal(recorder_calls(recorder, last, NULL), 1);
}

/* A lease that has such a delivery among others keeps it, and can be settled. It makes the floor of
 * the subscription low for long; what is dropped above it is counted once. */
static void a_lease_keeps_the_copy_of_a_retried_dead_letter(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    hf_claim_options claiming = HF_CLAIM_OPTIONS_INIT;
    const char *all[] = {"*"};
    hf_batch *batch = NULL;
    struct dead dead;
    int64_t dropped[2] = {0, 0};

    options.mode = HF_MODE_SHARED;
    assert_ok(hf_subscription_create(scene->bus, "s", all, 1, &options, NULL));
    publish_bulk(scene->bus, "old", 1);
    claiming.lease_ms = 3600000;
    assert_ok(hf_claim(scene->bus, "s", &claiming, &batch));
    assert_ok(hf_bury(scene->bus, "s", hf_batch_lease(batch), NULL, 0, "no"));
    hf_batch_free(batch);
    assert_int_equal(dead_of(scene->bus, "s", &dead, 1), 1);
    assert_ok(hf_dead_retry(scene->bus, dead.dead_id, NULL, 0));
    publish_bulk(scene->bus, "old", 9);
    assert_ok(hf_claim(scene->bus, "s", &claiming, &batch));
    assert_true(hf_batch_count(batch) > 1);
    grow_old(scene);
    set_retention(scene->bus, -1, -1, HF_LAGGING_DROP);
    assert_int_equal(retain(scene->bus, HF_OFF).drops, 1);
    publish_bulk(scene->bus, "old", 10);
    grow_old(scene);
    assert_int_equal(retain(scene->bus, HF_OFF).drops, 1);
    assert_int_equal(tables_events(scene), 0);
    assert_ok(hf_subscription_get(scene->bus, "s", note_dropped, dropped));
    assert_int_equal(dropped[0], 20);
    assert_int_equal(dropped[1], 20);
    assert_ok(hf_ack(scene->bus, "s", hf_batch_lease(batch), NULL, 0));
    assert_int_equal(info_of(scene->bus, "s").retrying, 0);
    hf_batch_free(batch);
}

/* One partition lags, the other has got further than what goes. */
static void a_partition_that_is_ahead_stays_where_it_is(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    const char *all[] = {"*"};

    options.partitions = 2;
    assert_ok(hf_subscription_create(scene->bus, "s", all, 1, &options, NULL));
    publish_bulk(scene->bus, "old", 10);
    grow_old(scene);
    publish_bulk(scene->bus, "new", 10);
    tables_run(scene, scene->path ? "UPDATE holdfast_partitions SET checkpoint = 15 "
                                    "WHERE partition = 1"
                                  : "SELECT holdfast_private.journal_add(id, 1, 15, now(), NULL) "
                                    "FROM holdfast_private.subscriptions");
    set_retention(scene->bus, -1, -1, HF_LAGGING_DROP);
    assert_int_equal(retain(scene->bus, HF_OFF).drops, 1);
    const char *table = scene->path ? "holdfast_partitions" : "holdfast_private.checkpoints";
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT min(checkpoint) FROM %s", table);
    assert_int_equal(tables_number(scene, sql), 10);
    snprintf(sql, sizeof sql, "SELECT max(checkpoint) FROM %s", table);
    assert_int_equal(tables_number(scene, sql), 15);
}

/* ---- What changes on the way ----------------------------------------------------------------- */

static int keep_longer(const hf_retention_info *info, void *ctx)
{
    if (info->dropped_name) {
        set_retention(ctx, INT64_C(500) * 86400000, -1, HF_LAGGING_DEFAULT);
    }
    return 0;
}

static void events_whose_retention_was_extended_during_a_run_stay(void **state)
{
    struct scene *scene = *state;

    fall_behind(scene);
    assert_ok(hf_retention_run(scene->bus, NULL, HF_OFF, keep_longer, scene->bus));
    assert_int_equal(tables_events(scene), 10);
}

static int go_back(const hf_retention_info *info, void *ctx)
{
    hf_place place = {HF_PLACE_POSITION, 1500};

    if (info->events > 0) {
        assert_ok(hf_seek(ctx, "s", place, HF_OFF, NULL));
    }
    return 0;
}

/* The plan had no subscription that needs these; on a server they all go with the first step. */
static void a_subscription_that_seeks_back_during_a_run_keeps_the_rest(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    const char *all[] = {"*"};

    scene_sqlite(scene);
    publish_bulk(scene->bus, "old", EVENTS);
    options.from.kind = HF_PLACE_NOW;
    assert_ok(hf_subscription_create(scene->bus, "s", all, 1, &options, NULL));
    grow_old(scene);
    assert_ok(hf_retention_run(scene->bus, NULL, HF_OFF, go_back, scene->bus));
    assert_int_equal(first_position(scene->bus), 1501);
}

static void a_namespace_that_is_being_removed_is_left_alone(void **state)
{
    struct scene *scene = *state;

    publish_bulk(scene->bus, "old", 10);
    grow_old(scene);
    tables_run(scene, scene->path ? "UPDATE holdfast_namespaces SET removing_at = 1"
                                  : "UPDATE holdfast_private.namespaces SET removing_at = now()");
    assert_status(hf_retention_run(scene->bus, NULL, HF_OFF, NULL, NULL), HF_NOTFOUND);
    assert_int_equal(tables_events(scene), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(an_ordered_subscription_that_lags_loses_events_and_goes_on),
        scene_test(a_shared_subscription_that_lags_loses_events_and_goes_on),
        scene_test(an_event_held_behind_a_dropped_one_is_delivered),
        scene_test(a_lease_of_dropped_events_is_refused),
        scene_test(rows_of_settled_events_are_deleted_with_the_events),
        scene_test(retention_settings_that_change_during_a_run_count),
        scene_test(an_event_that_was_deleted_is_not_waited_for),
        scene_test(a_retried_dead_letter_outlives_the_drop_of_its_event),
        scene_test(a_lease_keeps_the_copy_of_a_retried_dead_letter),
        scene_test(a_partition_that_is_ahead_stays_where_it_is),
        scene_test(events_whose_retention_was_extended_during_a_run_stay),
        scene_test(a_subscription_that_seeks_back_during_a_run_keeps_the_rest),
        scene_test(a_namespace_that_is_being_removed_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
