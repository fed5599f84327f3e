/*
 * test_read.c - reading the log through the bus: over lost connections, and past gaps on a server
 * that hides who publishes.
 */
#include "bus/support_scene.h"
#include "support/postgres.h"

#include <libpq-fe.h>

#define EVENTS 1500

/* What hf_read hands over. */
struct tail {
    struct scene *scene;
    int64_t last;
    int count;
    int cuts;
    bool disorder;
};

/* Ends all other sessions of the database. */
static void cut_all(struct scene *scene)
{
    PGconn *pg = PQconnectdb(scene->url);

    PQclear(PQexec(pg, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                       "datname = current_database() AND pid <> pg_backend_pid()"));
    PQfinish(pg);
}

static int see(const hf_event *event, void *ctx)
{
    struct tail *tail = ctx;

    tail->disorder |= event->position <= tail->last;
    tail->last = event->position;
    if (tail->count++ % 600 == 0) {
        cut_all(tail->scene);
        tail->cuts++;
    }
    return 0;
}

static void a_read_goes_on_at_its_cursor_when_its_connection_is_lost(void **state)
{
    struct scene *scene = *state;
    struct tail tail = {.scene = scene};
    int64_t cursor = 0;
    hf_new_event events[100];

    for (int i = 0; i < 100; i++) {
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = "x";
    }
    for (int i = 0; i < EVENTS / 100; i++) {
        assert_ok(hf_publish_many(scene->bus, events, 100, NULL));
    }
    assert_ok(hf_read(scene->bus, NULL, EVENTS, 0, &cursor, see, &tail));
    assert_int_equal(tail.count, EVENTS);
    assert_false(tail.disorder);
    assert_true(tail.cuts >= 2);
    assert_int_equal(cursor, tail.last);
}

/* ---- Hidden locks ---------------------------------------------------------------------------- */

/* The URL with another user in it. */
static void url_as(const char *url, const char *user, char *out, size_t bytes)
{
    const char *at = strstr(url, "user=holdfast");

    assert_non_null(at);
    snprintf(out, bytes, "%.*suser=%s%s", (int)(at - url), url, user, at + strlen("user=holdfast"));
}

/* A role that owns the database but cannot see who holds locks in it. */
static void hide_locks(struct scene *scene, char *ret_url, size_t bytes)
{
    PGconn *pg = PQconnectdb(scene->url);
    char sql[512];

    PQclear(PQexec(pg, "CREATE ROLE blind_app LOGIN")); /* it may be there already */
    snprintf(sql, sizeof sql,
             "ALTER DATABASE %s OWNER TO blind_app; REVOKE SELECT ON pg_locks FROM PUBLIC",
             PQdb(pg));
    PQfinish(pg);
    assert_true(postgres_run(scene->url, sql));
    url_as(scene->url, "blind_app", ret_url, bytes);
}

static void where_locks_are_hidden_gap_timeout_passes_a_gap_and_says_so(void **state)
{
    struct scene *scene = *state;
    struct recorder *patient = scene_recorder(scene, NULL);
    struct recorder *hasty = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    char url[sizeof scene->url], own[sizeof scene->url];

    memcpy(own, scene->url, sizeof own);
    hide_locks(scene, url, sizeof url);
    memcpy(scene->url, url, sizeof url);
    hf_bus *bus = scene_open(scene, NULL);
    memcpy(scene->url, own, sizeof own);
    PGconn *slow = PQconnectdb(url);
    options.order = HF_ORDER_STRICT;
    subscribe(bus, "patient", "*", patient, &options);
    options.gap_timeout_ms = 300;
    subscribe(bus, "hasty", "*", hasty, &options);
    PQclear(PQexec(slow, "BEGIN"));
    PGresult *result = PQexec(slow, "SELECT holdfast.publish('default', 'x', '1')");
    assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    PQclear(result);
    publish(bus, "x", NULL, "2");
    assert_ok(hf_start(bus));
    assert_true(recorder_wait(hasty, 1));
    assert_int_equal(recorder_get(hasty, 0).position, 2);
    assert_true(scene_said(scene, "gave up on 1 missing positions between 1 and"));
    hf_metrics metrics = {.size = sizeof metrics};
    assert_ok(hf_metrics_get(bus, &metrics));
    assert_int_equal(metrics.gap_timeouts, 1);
    assert_int_equal(recorder_count(patient), 0);
    PQclear(PQexec(slow, "COMMIT"));
    assert_true(recorder_wait(patient, 2));
    assert_int_equal(recorder_get(patient, 0).position, 1);
    assert_int_equal(recorder_count(hasty), 1); /* as was threatened */
    PQfinish(slow);
}

static const struct CMUnitTest tests[] = {
    scene_test(a_read_goes_on_at_its_cursor_when_its_connection_is_lost),
    bare_test(where_locks_are_hidden_gap_timeout_passes_a_gap_and_says_so),
};

SCENE_MAIN(tests)
