/*
 * test_connection.c - connections of the bus are cut, one by one and all at once, and nothing is
 * lost.
 *
 * CUTS in the environment says how many are cut under load (25 if it is not set). LOAD_LOG shows
 * what the bus says meanwhile.
 */
#include "postgres/support_load.h"
#include "postgres/support_replica.h"
#include "postgres/support_stage.h"

#define CUTS 25
#define CUTS_PER_STORM 8  /* then all of them at once */
#define EVENTS_BETWEEN 20 /* acknowledged between two cuts */
#define URL_BYTES 512
#define RESUMED_MS 20000 /* generous: two seconds are promised */

/* ---- One connection at a certain moment ------------------------------------------------------ */

/* The keeper's connection, which listens, shows by a lock that the process lives. */
#define IS_LISTENER "pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1)"
/* The writer's, if taking the partition was the last that it did. */
#define HAS_ACQUIRED "query LIKE '%acquire%'"

/* Ends those of our sessions for which this is true; how many there were. */
static int64_t cut(PGconn *pg, const char *condition)
{
    return side_number(pg,
                       "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE "
                       "datname = current_database() AND pid <> pg_backend_pid() AND "
                       "application_name LIKE '%%:%d' AND %s",
                       (int)getpid(), condition);
}

struct doors {
    struct door *first;  /* position 2 waits here */
    struct door *second; /* position 4, which fails once */
};

static hf_verdict wait_at_doors(const hf_event *event, hf_delivery *delivery,
                                struct recorder *recorder)
{
    const struct doors *doors = recorder->extra;
    (void)delivery;
    if (event->position == 2) {
        door_pass(doors->first);
    }
    if (event->position != 4) {
        return HF_ACK;
    }
    door_pass(doors->second);
    return recorder_calls(recorder, 4, NULL) > 1 ? HF_ACK : HF_RETRY;
}

static bool has_lost(void *ctx)
{
    return scene_said(ctx, "lost the subscription");
}

/*
 * Position 1 is open, so the checkpoint stands. 2 runs, 3 waits behind it, 4 is to be stored as a
 * retry: on another connection than the partition was taken on, so it is lost, and 3 is dropped
 * from the window. The reader has passed it, and must go back.
 */
static void events_dropped_from_the_window_above_a_gap_come_again(void **state)
{
    struct scene *scene = *state;
    if (scene->path) {
        skip();
    }
    static struct doors doors;
    doors = (struct doors){scene_door(scene), scene_door(scene)};
    PGconn *a = side_open_url(scene->url);
    PGconn *b = side_open_url(scene->url);
    hf_subscription_options options = quick_options();
    options.concurrency = 2;
    struct recorder *recorder = scene_recorder(scene, wait_at_doors);
    recorder->extra = &doors;
    subscribe(scene->bus, "o", "*", recorder, &options);
    side_must(a, "BEGIN");
    assert_int_equal(side_publish_in(a, STAGE_NAMESPACE, "t", "open"), 1);
    assert_int_equal(side_publish_in(b, STAGE_NAMESPACE, "t", "x"), 2);
    assert_int_equal(side_publish_in(b, STAGE_NAMESPACE, "t", "x"), 3);
    assert_int_equal(side_publish_in(b, STAGE_NAMESPACE, "t", "y"), 4);
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(doors.first, 1));
    assert_true(door_wait_inside(doors.second, 1));
    assert_int_equal(cut(b, HAS_ACQUIRED), 1);
    door_open(doors.second);
    assert_true(wait_until(has_lost, scene));
    door_open(doors.first);
    assert_true(recorder_wait(recorder, 4));
    side_must(a, "COMMIT");
    settle_all(scene->bus, NULL);
    for (int64_t position = 1; position <= 4; position++) {
        assert_true(recorder_calls(recorder, position, NULL) > 0);
    }
    PQfinish(a);
    PQfinish(b);
}

/* It may not be there yet: events are found without it, too. */
static bool listener_is_cut(void *ctx)
{
    return cut(ctx, IS_LISTENER) == 1;
}

/* Notifications are heard by one connection. Without it the bus would sleep until its next look. */
static void a_listener_that_was_cut_listens_again(void **state)
{
    struct stage s = stage_of(*state);
    assert_int_equal(stage_publish(s.b), 1);
    settle_all(s.bus, NULL);
    for (int64_t position = 2; position <= 4; position++) {
        assert_true(wait_until(listener_is_cut, s.b));
        int64_t begun_us = mono_us();
        assert_int_equal(stage_publish(s.b), position);
        assert_true(recorder_wait(s.strict, (size_t)position));
        int64_t took_ms = (mono_us() - begun_us) / 1000;
        print_message("# heard of after %d ms\n", (int)took_ms);
        assert_true(took_ms < RESUMED_MS);
        settle_all(s.bus, NULL);
    }
    stage_end(&s);
}

/* ---- Servers that do not take everything ----------------------------------------------------- */

static void a_standby_is_refused_as_read_only(void **state)
{
    struct scene *scene = *state;
    if (scene->path) {
        skip();
    }
    char url[URL_BYTES];
    hf_bus *bus = NULL;
    hf_options options = HF_OPTIONS_INIT;
    options.timeout_ms = DEADLINE_MS;
    struct replica primary = replica_start();
    struct replica standby = replica_standby(&primary);
    replica_url(&standby, NULL, url, sizeof url);
    assert_status(hf_open(url, &options, &bus), HF_UNAVAILABLE);
    assert_non_null(strstr(hf_errmsg(), "read-only"));
    replica_stop(&standby);
    replica_stop(&primary);
}

/* What is published has no room; what is in the log is delivered and settled, and when there is
 * room again it goes on. */
static void a_server_without_room_delivers_what_it_has(void **state)
{
    struct stage s = stage_of(*state);
    hf_new_event event = HF_NEW_EVENT_INIT;
    event.type = "t";
    long long id = (long long)stage_namespace(s.b);
    side_must(s.b, "CREATE FUNCTION public.full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                   "RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$");
    side_must(s.a, "BEGIN");
    assert_int_equal(stage_publish(s.a), 1);
    side_must(s.a,
              "CREATE TRIGGER full_disk BEFORE INSERT ON holdfast_private.events_%lld FOR EACH ROW "
              "EXECUTE FUNCTION public.full()",
              id);
    side_must(s.a, "COMMIT"); /* the event and the end of all room are there at the same moment */
    int64_t begun_us = mono_us();
    assert_status(hf_publish(s.bus, &event, NULL), HF_NOSPACE);
    assert_true(mono_us() - begun_us < RESUMED_MS * 1000);
    assert_non_null(strstr(hf_errmsg(), "disk is full"));
    settle_all(s.bus, NULL);
    assert_int_equal(recorder_calls(s.loose, 1, NULL), 1);
    assert_int_equal(recorder_calls(s.strict, 1, NULL), 1);
    assert_int_equal(recorder_calls(s.shared, 1, NULL), 1);
    /* Readers lock the parts of the log in an order of their own: one of the two may be chosen as
     * the victim of a deadlock. */
    side_must(s.a,
              "DO $$ BEGIN FOR i IN 1..20 LOOP BEGIN "
              "DROP TRIGGER IF EXISTS full_disk ON holdfast_private.events_%lld; EXIT; "
              "EXCEPTION WHEN deadlock_detected THEN PERFORM pg_sleep(0.05); END; END LOOP; END $$",
              id);
    hf_receipt receipt = {0};
    assert_ok(hf_publish(s.bus, &event, &receipt));
    settle_all(s.bus, NULL);
    assert_int_equal(recorder_calls(s.strict, receipt.position, NULL), 1);
    assert_int_equal(recorder_calls(s.shared, receipt.position, NULL), 1);
    stage_end(&s);
}

/* ---- Under load ------------------------------------------------------------------------------ */

/* Ends the n-th of our sessions, counted by age, or all of them. */
static void cut_one_or_all(PGconn *pg, int n)
{
    bool all = n % CUTS_PER_STORM == CUTS_PER_STORM - 1;
    side_must(pg,
              "WITH ours AS (SELECT pid, count(*) OVER () AS rows, "
              "row_number() OVER (ORDER BY backend_start, pid) - 1 AS row FROM pg_stat_activity "
              "WHERE datname = current_database() AND application_name LIKE '%%:%d') "
              "SELECT pg_terminate_backend(pid) FROM ours WHERE %s OR row = %d %% rows",
              (int)getpid(), all ? "true" : "false", n);
}

static void whatever_connection_is_cut_nothing_is_lost(void **state)
{
    struct scene *scene = *state;
    if (scene->path) {
        skip();
    }
    static struct load load;
    const char *given = getenv("CUTS");
    int cuts = given ? (int)strtol(given, NULL, 10) : CUTS;
    int64_t longest_ms = 0;
    PGconn *pg = side_open_url(scene->url);
    load_start(&load, scene->url);
    load_await(&load, EVENTS_BETWEEN);
    for (int n = 0; n < cuts; n++) {
        cut_one_or_all(pg, n);
        int64_t took_ms = load_await(&load, LOAD_PUBLISHERS + 1);
        longest_ms = took_ms > longest_ms ? took_ms : longest_ms;
        load_await(&load, EVENTS_BETWEEN);
    }
    print_message("# went on after %d ms at worst\n", (int)longest_ms);
    assert_true(longest_ms < RESUMED_MS);
    load_finish(&load);
    load_judge(&load, pg);
    PQfinish(pg);
}

static void a_server_that_is_killed_and_started_again_loses_nothing(void **state)
{
    struct scene *scene = *state;
    if (scene->path) {
        skip();
    }
    char url[URL_BYTES];
    static struct load load;
    struct replica server = replica_start();
    replica_url(&server, NULL, url, sizeof url);
    load_start(&load, url);
    for (int i = 0; i < 2; i++) {
        load_await(&load, EVENTS_BETWEEN);
        replica_kill(&server);
        replica_revive(&server);
        int64_t took_ms = load_await(&load, LOAD_PUBLISHERS + 1);
        print_message("# went on %d ms after the server\n", (int)took_ms);
        assert_true(took_ms < RESUMED_MS);
    }
    load_await(&load, EVENTS_BETWEEN);
    load_finish(&load);
    PGconn *pg = replica_open(&server);
    load_judge(&load, pg);
    PQfinish(pg);
    replica_stop(&server);
}

static const struct CMUnitTest tests[] = {
    scene_test(events_dropped_from_the_window_above_a_gap_come_again),
    scene_test(a_listener_that_was_cut_listens_again),
    bare_test(a_standby_is_refused_as_read_only),
    scene_test(a_server_without_room_delivers_what_it_has),
    bare_test(whatever_connection_is_cut_nothing_is_lost),
    bare_test(a_server_that_is_killed_and_started_again_loses_nothing),
};

SCENE_MAIN(tests)
