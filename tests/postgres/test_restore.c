/*
 * test_restore.c - a database that was dumped while transactions were open, and restored on another
 * server, is a log and subscriptions that go on: nothing of it is lost, nothing comes twice but
 * what was in flight, and no transaction of the other server is waited for.
 */
#include "postgres/support_cluster.h"
#include "postgres/support_stage.h"

/* Dumps the session's database into another server; the URL there. */
static void restore(PGconn *pg, const struct cluster *target, char *url, size_t url_bytes)
{
    cluster_database(target, "copy", url, url_bytes);
    cluster_run(target, "pg_dump", "-Fc -h '%s' -U holdfast -d '%s' -f '%s/dump'", PQhost(pg),
                PQdb(pg), target->dir);
    cluster_run(target, "pg_restore", "-h '%s' -U holdfast -d copy --exit-on-error '%s/dump'",
                target->dir, target->dir);
}

static void a_restored_copy_goes_on_where_the_dump_was_made(void **state)
{
    static struct cluster target;
    struct stage s = stage_of(*state);
    char url[1024];
    for (int64_t i = 1; i <= 5; i++) {
        assert_int_equal(stage_publish(s.b), i);
    }
    settle_all(s.bus, NULL);
    side_must(s.a, "BEGIN");
    assert_int_equal(stage_publish(s.a), 6); /* open at the moment of the dump */
    assert_int_equal(stage_publish(s.b), 7);
    assert_int_equal(stage_publish(s.b), 8);
    assert_string_equal(stage_await(s.loose, 7), "1 2 3 4 5 7 8");
    assert_string_equal(stage_await(s.shared, 7), "1 2 3 4 5 7 8");
    stage_let_it_look(); /* the hole has its witnesses */
    cluster_start(&target);
    restore(s.b, &target, url, sizeof url);
    side_must(s.a, "COMMIT"); /* there, not here */
    settle_all(s.bus, NULL);

    struct recorder *loose = scene_recorder(s.scene, NULL);
    struct recorder *strict = scene_recorder(s.scene, NULL);
    struct recorder *shared = scene_recorder(s.scene, NULL);
    hf_subscription_options none = HF_SUBSCRIPTION_OPTIONS_INIT;
    hf_bus *copy = NULL;
    assert_ok(hf_open(url, &s.scene->options, &copy));
    assert_int_equal(info_of(copy, "loose").checkpoint, 5);
    assert_int_equal(info_of(copy, "strict").checkpoint, 5);
    subscribe(copy, "loose", "*", loose, &none);
    subscribe(copy, "strict", "*", strict, &none);
    subscribe(copy, "shared", "*", shared, &none);
    assert_ok(hf_start(copy));
    settle_all(copy, NULL); /* 6 is passed: no session of this server ever drew it */
    assert_string_equal(stage_list(loose), "7 8"); /* above its checkpoint: in flight */
    assert_string_equal(stage_list(strict), "7 8");
    assert_int_equal(recorder_calls(shared, 6, NULL), 0);
    for (int64_t i = 1; i <= 5; i++) {
        assert_int_equal(recorder_calls(shared, i, NULL), 0);
    }
    /* Positions go on after those that were given when it was dumped. */
    const hf_receipt *receipt = publish(copy, "t", NULL, "{}");
    int64_t next = receipt->position;
    assert_true(next > 8);
    settle_all(copy, NULL);
    assert_int_equal(recorder_calls(loose, next, NULL), 1);
    assert_int_equal(recorder_calls(strict, next, NULL), 1);
    assert_int_equal(recorder_calls(shared, next, NULL), 1);
    assert_int_equal(info_of(copy, "loose").lag, 0);
    assert_int_equal(info_of(copy, "shared").lag, 0);
    /* A hole of its own is decided by its own transactions. */
    PGconn *pg = side_open_url(url);
    side_must(pg, "BEGIN");
    int64_t open = stage_publish(pg);
    publish(copy, "t", NULL, "{}");
    assert_true(recorder_wait(loose, 4));
    stage_let_it_look();
    assert_int_equal(recorder_count(strict), 3);
    side_must(pg, "COMMIT");
    settle_all(copy, NULL);
    assert_int_equal(recorder_calls(strict, open, NULL), 1);
    assert_int_equal(recorder_calls(shared, open, NULL), 1);
    PQfinish(pg);
    assert_ok(hf_close(&copy));
    cluster_stop(&target);
    stage_end(&s);
}

static const struct CMUnitTest tests[] = {
    scene_test(a_restored_copy_goes_on_where_the_dump_was_made),
};

SCENE_MAIN(tests)
