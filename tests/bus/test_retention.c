/*
 * Tests of retention: what is too old or too much goes, what a subscription needs stays; a run that
 * is killed is gone on with; buses do it by themselves. Subscriptions that lag have tests of their
 * own, in test_retention_lagging.c.
 */
#include "base/point.h"
#include "base/time/clock.h"
#include "support_actor.h"
#include "support_retention.h"
#include "support_tables.h"

/* ---- Age ------------------------------------------------------------------------------------- */

static void old_events_are_deleted_and_positions_go_on(void **state)
{
    struct scene *scene = *state;

    publish_bulk(scene->bus, "old", EVENTS);
    grow_old(scene);
    publish_bulk(scene->bus, "new", 10);

    struct told dry = retain(scene->bus, HF_ON);
    assert_int_equal(dry.last.planned_events, EVENTS);
    assert_int_equal(dry.last.through, EVENTS);
    assert_int_equal(dry.last.events, 0);
    assert_int_equal(tables_events(scene), EVENTS + 10);

    struct told told = retain(scene->bus, HF_OFF);
    assert_int_equal(told.last.events, EVENTS);
    assert_int_equal(told.last.by_size, 0);
    assert_int_equal(tables_events(scene), 10);
    assert_int_equal(first_position(scene->bus), EVENTS + 1);
    assert_int_equal(retain(scene->bus, HF_OFF).last.through, 0);

    grow_old(scene);
    retain(scene->bus, HF_OFF);
    assert_int_equal(tables_events(scene), 0);
    assert_int_equal(publish(scene->bus, "x", NULL, "1")->position, EVENTS + 11);
}

/* The plan reads 10000 of them at a time. */
static void all_old_events_are_deleted_in_one_run(void **state)
{
    enum { MANY = 10100 };
    struct scene *scene = *state;

    scene_sqlite(scene);
    publish_bulk(scene->bus, "old", MANY);
    grow_old(scene);
    assert_int_equal(retain(scene->bus, HF_OFF).last.events, MANY);
    assert_int_equal(tables_events(scene), 0);
}

static void an_id_may_come_again_when_its_event_is_gone(void **state)
{
    static const char id[] = "5c1b1a8e-39a4-4e3c-9df5-0b6c3a2f7d11";
    struct scene *scene = *state;
    hf_new_event item = HF_NEW_EVENT_INIT;
    hf_receipt receipt;

    item.type = "x";
    item.payload = "1";
    item.id = id;
    assert_ok(hf_publish(scene->bus, &item, &receipt));
    assert_ok(hf_publish(scene->bus, &item, &receipt));
    assert_int_equal(receipt.duplicate, 1);
    grow_old(scene);
    if (!scene->path) {
        tables_run(scene,
                   "UPDATE holdfast_private.event_ids SET guard_at = now() - interval '400 days'");
    }
    retain(scene->bus, HF_OFF);
    assert_ok(hf_publish(scene->bus, &item, &receipt));
    assert_int_equal(receipt.duplicate, 0);
}

/* The age of an event is the time since it entered the log. Its id may have been made long before
 * that, by a producer that was offline, or whose clock is behind. */
static void an_id_that_is_20_hours_old_does_not_make_its_event_old(void **state)
{
    enum { HOUR_MS = 3600 * 1000 };
    struct scene *scene = *state;
    hf_new_event item = HF_NEW_EVENT_INIT;
    hf_receipt receipt;
    char id[HF_ID_BYTES];
    uint64_t then_ms = (uint64_t)(wall_us() / 1000) - 20 * HOUR_MS;

    snprintf(id, sizeof id, "%08x-%04x-7000-8000-0123456789ab", (unsigned)(then_ms >> 16),
             (unsigned)(then_ms & 0xffff));
    set_retention(scene->bus, 12 * HOUR_MS, 0, HF_LAGGING_DEFAULT);
    item.type = "x";
    item.payload = "1";
    item.id = id;
    assert_ok(hf_publish(scene->bus, &item, &receipt));
    assert_int_equal(retain(scene->bus, HF_ON).last.planned_events, 0);
    assert_int_equal(retain(scene->bus, HF_OFF).last.events, 0);
    assert_int_equal(tables_events(scene), 1);
    assert_ok(hf_publish(scene->bus, &item, &receipt));
    assert_int_equal(receipt.duplicate, 1);
    grow_old(scene);
    retain(scene->bus, HF_OFF);
    assert_int_equal(tables_events(scene), 0);
}

static void a_slow_subscription_keeps_its_events(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();

    subscribe(scene->bus, "slow", "*", recorder, &options);
    publish_bulk(scene->bus, "old", 100);
    grow_old(scene);
    struct told told = retain(scene->bus, HF_OFF);
    assert_int_equal(told.last.events, 0);
    assert_string_equal(told.kept_by, "slow");
    assert_int_equal(tables_events(scene), 100);

    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "slow");
    assert_int_equal(recorder_count(recorder), 100);
    assert_ok(hf_stop(scene->bus, -1)); /* the last checkpoint is stored */
    told = retain(scene->bus, HF_OFF);
    assert_int_equal(told.last.events, 100);
    assert_string_equal(told.kept_by, "");
}

static bool has_settled_rest(void *ctx)
{
    struct info info = info_of(ctx, "s");

    return info.retrying == 1 && info.checkpoint >= 20;
}

static void a_retry_keeps_its_event(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_first);
    hf_subscription_options options = patient_options();

    subscribe(scene->bus, "s", "*", recorder, &options);
    publish_bulk(scene->bus, "old", 20);
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(has_settled_rest, scene->bus));
    assert_ok(hf_stop(scene->bus, -1));
    grow_old(scene);
    struct told told = retain(scene->bus, HF_OFF);
    assert_string_equal(told.kept_by, "s");
    assert_int_equal(tables_events(scene), 20);
}

/* A claim has moved the cursor of the subscription past its events. */
static void a_lease_keeps_its_events(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    hf_claim_options claiming = HF_CLAIM_OPTIONS_INIT;
    const char *all[] = {"*"};
    hf_batch *first = NULL;
    hf_batch *rest = NULL;

    options.mode = HF_MODE_SHARED;
    assert_ok(hf_subscription_create(scene->bus, "s", all, 1, &options, NULL));
    publish_bulk(scene->bus, "old", 20);
    claiming.lease_ms = 3600000;
    claiming.max = 5;
    assert_ok(hf_claim(scene->bus, "s", &claiming, &first));
    assert_int_equal(hf_batch_count(first), 5);
    claiming.max = 100;
    assert_ok(hf_claim(scene->bus, "s", &claiming, &rest));
    assert_int_equal(hf_batch_count(rest), 15);
    assert_ok(hf_ack(scene->bus, "s", hf_batch_lease(rest), NULL, 0));
    grow_old(scene);
    assert_string_equal(retain(scene->bus, HF_OFF).kept_by, "s");
    assert_int_equal(tables_events(scene), 20);
    assert_ok(hf_ack(scene->bus, "s", hf_batch_lease(first), NULL, 0));
    assert_int_equal(retain(scene->bus, HF_OFF).last.events, 20);
    assert_int_equal(tables_events(scene), 0);
    hf_batch_free(first);
    hf_batch_free(rest);
}

static hf_verdict bury_first(const hf_event *event, hf_delivery *delivery,
                             struct recorder *recorder)
{
    (void)delivery;
    return event->position == 1 && recorder_calls(recorder, 1, NULL) == 1 ? HF_DEAD : HF_ACK;
}

static void a_dead_letter_keeps_no_event_and_can_be_tried_again(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, bury_first);
    hf_subscription_options options = quick_options();
    struct dead dead;

    subscribe(scene->bus, "s", "*", recorder, &options);
    publish_bulk(scene->bus, "old", 20);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "s");
    assert_ok(hf_stop(scene->bus, -1));
    assert_int_equal(dead_of(scene->bus, "s", &dead, 1), 1);
    assert_ok(hf_dead_retry(scene->bus, dead.dead_id, NULL, 0)); /* waits with its copy */
    grow_old(scene);
    assert_int_equal(retain(scene->bus, HF_OFF).last.events, 20);
    assert_int_equal(tables_events(scene), 0);
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait(recorder, 21));
    assert_int_equal(recorder_calls(recorder, 1, NULL), 2);
}

/* ---- Namespaces ------------------------------------------------------------------------------ */

static void retention_of_a_namespace_does_not_touch_another(void **state)
{
    struct scene *scene = *state;
    hf_options options = scene->options;

    options.namespace_name = "second";
    hf_bus *second = scene_open(scene, &options);
    publish_bulk(scene->bus, "old", 10);
    publish_bulk(second, "old", 20);
    grow_old_of(scene, 1);
    grow_old_of(scene, 2);
    struct told told = {.calls = 0};
    assert_ok(hf_retention_run(scene->bus, "second", HF_OFF, note_run, &told));
    assert_int_equal(told.last.events, 20);
    assert_int_equal(tables_events(scene), 10);
    assert_int_equal(first_position(scene->bus), 1);
    assert_int_equal(retain(scene->bus, HF_OFF).last.events, 10);
}

/* ---- Size ------------------------------------------------------------------------------------ */

static void events_above_the_size_limit_are_deleted_and_the_file_shrinks(void **state)
{
    struct scene *scene = *state;

    scene_sqlite(scene);
    publish_bulk(scene->bus, "x", EVENTS);
    set_retention(scene->bus, 0, 100000, HF_LAGGING_DEFAULT);
    struct told dry = retain(scene->bus, HF_ON);
    int64_t pages = tables_number(scene, "PRAGMA page_count");
    struct told told = retain(scene->bus, HF_OFF);
    assert_int_equal(told.last.by_size, 1);
    assert_int_equal(told.last.events, dry.last.planned_events);
    assert_in_range(tables_events(scene), 1, EVENTS - 1);
    assert_int_equal(tables_events(scene), EVENTS - told.last.events);
    assert_true(tables_number(scene, "PRAGMA page_count") < pages);
    assert_int_equal(tables_number(scene, "PRAGMA freelist_count"), 0);
    int64_t bytes = tables_number(scene, "SELECT log_bytes FROM holdfast_namespaces");
    assert_in_range(bytes, 1, 100000);
    assert_true(bytes + bytes / tables_events(scene) > 100000); /* and not one too many */
    publish_bulk(scene->bus, "x", 10);
    assert_int_equal(retain(scene->bus, HF_OFF).last.events, 10);
}

static int stop_when_all_have_gone(const hf_retention_info *info, void *ctx)
{
    (void)ctx;
    return info->events == info->planned_events;
}

static void a_file_shrinks_although_the_process_that_freed_the_pages_stopped(void **state)
{
    struct scene *scene = *state;

    scene_sqlite(scene);
    publish_bulk(scene->bus, "old", EVENTS);
    grow_old(scene);
    assert_ok(hf_retention_run(scene->bus, NULL, HF_OFF, stop_when_all_have_gone, NULL));
    assert_int_equal(tables_events(scene), 0);
    assert_true(tables_number(scene, "PRAGMA freelist_count") > 0);
    assert_int_equal(retain(scene->bus, HF_OFF).last.events, 0);
    assert_int_equal(tables_number(scene, "PRAGMA freelist_count"), 0);
}

static void a_file_of_an_application_is_not_vacuumed(void **state)
{
    struct scene *scene = *state;
    char path[512];

    scene_sqlite(scene);
    snprintf(path, sizeof path, "%s", scene_file(scene, "theirs.db"));
    char url[600];
    snprintf(url, sizeof url, "sqlite:%s", path);
    char command[700];
    snprintf(command, sizeof command, "sqlite3 '%s' 'CREATE TABLE theirs (x)'", path);
    if (system(command) != 0) {
        skip();
    } /* there is no sqlite3 here */
    hf_bus *bus = NULL;
    assert_ok(hf_open(url, NULL, &bus));
    publish_bulk(bus, "x", EVENTS);
    set_retention(bus, 0, 1000, HF_LAGGING_DEFAULT);
    assert_true(retain(bus, HF_OFF).last.events > 0);
    assert_ok(hf_close(&bus));
    snprintf(command, sizeof command,
             "test \"$(sqlite3 '%s' 'PRAGMA auto_vacuum; SELECT count(*) > 0 FROM theirs')\" = "
             "\"$(printf '0\\n0')\"",
             path);
    assert_int_equal(system(command), 0);
}

/* ---- Death ----------------------------------------------------------------------------------- */

#ifdef HF_FAULTS

/* url, point, number of the hit at which it dies */
static int run_retention(int argc, char **argv)
{
    hf_bus *bus = NULL;

    if (argc > 2) {
        point_arm(argv[1], strtoll(argv[2], NULL, 10), POINT_KILL);
    }
    if (hf_open(argv[0], NULL, &bus) || hf_retention_run(bus, NULL, HF_OFF, NULL, NULL)) {
        fprintf(stderr, "%s\n", hf_errmsg());
        return 1;
    }
    return hf_close(&bus) == HF_OK ? 0 : 1;
}

static void a_process_that_is_killed_while_it_deletes_leaves_the_rest_to_the_next(void **state)
{
    static const char *const points[] = {"mid_retention", "mid_retain", "before_detach",
                                         "after_detach"};
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    int killed = 0;
    int64_t gone = 0;

    set_retention(scene->bus, -1, -1, HF_LAGGING_DROP);
    subscribe(scene->bus, "s", "*", recorder, &options);
    for (size_t i = 0; i < COUNTED(points); i++) {
        for (int hit = 1; hit <= 2; hit++) {
            char number[16];

            snprintf(number, sizeof number, "%d", hit);
            publish_bulk(scene->bus, "old", 1200);
            gone = publish(scene->bus, "old", NULL, "1")->position;
            grow_old(scene);
            publish(scene->bus, "new", NULL, "1");
            killed += actor_wait(actor_start("retain", scene->url, points[i], number, NULL)) != 0;
            retain(scene->bus, HF_OFF);
            assert_int_equal(tables_events(scene), 1);
            assert_int_equal(first_position(scene->bus), gone + 1);
        }
    }
    assert_true(killed >= 4); /* not every point is on this engine's way */
    int64_t dropped[2] = {0, 0};
    assert_ok(hf_subscription_get(scene->bus, "s", note_dropped, dropped));
    assert_int_equal(dropped[0], gone);
    assert_int_equal(dropped[1], gone);
    if (!scene->path) {
        int64_t left =
            tables_number(scene, "SELECT count(*) FROM holdfast_private.retention_left(1)");
        assert_int_equal(left, 0);
    }
}

#endif

/* ---- By itself ------------------------------------------------------------------------------- */

/* All events are gone, and so is their month. */
static bool is_empty(void *ctx)
{
    struct scene *scene = ctx;

    return tables_events(scene) == 0 &&
           (scene->path ||
            tables_number(scene, "SELECT count(*) FROM holdfast_private.retention_left(1)") == 0);
}

/* The same, while the time passes: a process that looks may have begun to wait just now. */
static bool becomes_empty(void *ctx)
{
    clock_fake_advance(1000000);
    usleep(8000);
    return is_empty(ctx);
}

static int clock_teardown(void **state)
{
    int result = scene_teardown(state);

    clock_fake_off();
    return result;
}

static void started_buses_apply_retention_one_at_a_time(void **state)
{
    struct scene *scene = *state;
    hf_bus *other = scene_open(scene, NULL);

    publish_bulk(scene->bus, "old", 10);
    grow_old(scene);
    /* Another process had the turn before the clock was set back. */
    tables_run(scene, scene->path ? "UPDATE holdfast_namespaces "
                                    "SET retained_at = (strftime('%s') + 86400) * 1000000"
                                  : "UPDATE holdfast_private.namespaces "
                                    "SET retained_at = now() + interval '1 day'");
    clock_fake_set(wall_us(), mono_us());
    assert_ok(hf_start(scene->bus));
    assert_ok(hf_start(other));
    assert_true(wait_until(becomes_empty, scene));
    publish_bulk(scene->bus, "old", 10);
    grow_old(scene);
    for (int i = 0; i < 20; i++) { /* twenty minutes: both have looked, and neither had the turn */
        clock_fake_advance(INT64_C(60000000));
        usleep(1000);
    }
    assert_int_equal(tables_events(scene), 10);
}

/* On a server its own clock counts: tests/postgres/eight_months.sh. */
static void after_eight_months_only_the_last_63_days_are_kept(void **state)
{
    enum { MONTHS = 8, MONTHLY = 10 };
    const int64_t day_us = INT64_C(86400000000);
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);

    scene_sqlite(scene);
    set_retention(scene->bus, INT64_C(63) * day_us / 1000, -1, HF_LAGGING_DEFAULT);
    subscribe(scene->bus, "a", "*", recorder, NULL);
    clock_fake_set(wall_us(), mono_us());
    assert_ok(hf_start(scene->bus));
    for (int month = 0; month < MONTHS; month++) {
        clock_fake_advance(31 * day_us);
        publish_bulk(scene->bus, "x", MONTHLY);
        assert_true(recorder_wait(recorder, (size_t)(month + 1) * MONTHLY));
        settle_all(scene->bus, "a");
        retain(scene->bus, HF_OFF);
        int kept = month < 3 ? month + 1 : 3; /* this month's, and those of two */
        assert_int_equal(tables_events(scene), kept * MONTHLY);
    }
    for (int64_t position = 1; position <= MONTHS * MONTHLY; position++) {
        assert_int_equal(recorder_calls(recorder, position, NULL), 1);
    }
    assert_int_equal(first_position(scene->bus), (MONTHS - 3) * MONTHLY + 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        scene_test(old_events_are_deleted_and_positions_go_on),
        scene_test(all_old_events_are_deleted_in_one_run),
        scene_test(an_id_may_come_again_when_its_event_is_gone),
        scene_test(an_id_that_is_20_hours_old_does_not_make_its_event_old),
        scene_test(a_slow_subscription_keeps_its_events),
        scene_test(a_retry_keeps_its_event),
        scene_test(a_lease_keeps_its_events),
        scene_test(a_dead_letter_keeps_no_event_and_can_be_tried_again),
        scene_test(retention_of_a_namespace_does_not_touch_another),
        scene_test(events_above_the_size_limit_are_deleted_and_the_file_shrinks),
        scene_test(a_file_shrinks_although_the_process_that_freed_the_pages_stopped),
        scene_test(a_file_of_an_application_is_not_vacuumed),
#ifdef HF_FAULTS
        scene_test(a_process_that_is_killed_while_it_deletes_leaves_the_rest_to_the_next),
#endif
        cmocka_unit_test_setup_teardown(after_eight_months_only_the_last_63_days_are_kept,
                                        scene_setup, clock_teardown),
        cmocka_unit_test_setup_teardown(started_buses_apply_retention_one_at_a_time, scene_setup,
                                        clock_teardown),
    };
#ifdef HF_FAULTS
    static const struct part parts[] = {{"retain", run_retention}};
    if (actor_is_asked_for(argc, argv)) {
        return actor_run(argc, argv, parts, COUNTED(parts));
    }
#endif
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
