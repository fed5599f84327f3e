/*
 * test_connection.c - connections of the bus are cut, one by one and all at once, and nothing is
 * lost.
 */
#include "postgres/support_stage.h"

#include <stdatomic.h>

/* ---- One connection at a certain moment ------------------------------------------------------ */

/* Ends our sessions whose last statement is like this; how many there were. */
static int64_t cut(PGconn *pg, const char *like)
{
    return side_number(pg,
                       "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE "
                       "datname = current_database() AND pid <> pg_backend_pid() AND "
                       "application_name LIKE '%%:%d' AND query LIKE '%s'",
                       (int)getpid(), like);
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
    if (event->position == 2)
        door_pass(doors->first);
    if (event->position != 4)
        return HF_ACK;
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
static void what_was_dropped_above_a_gap_comes_again(void **state)
{
    struct scene *scene = *state;
    if (scene->path)
        skip();
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
    assert_int_equal(cut(b, "%acquire%"), 1);
    door_open(doors.second);
    assert_true(wait_until(has_lost, scene));
    door_open(doors.first);
    assert_true(recorder_wait(recorder, 4));
    side_must(a, "COMMIT");
    settle_all(scene->bus, NULL);
    for (int64_t position = 1; position <= 4; position++)
        assert_true(recorder_calls(recorder, position, NULL) > 0);
    PQfinish(a);
    PQfinish(b);
}

static const struct CMUnitTest tests[] = {
    scene_test(what_was_dropped_above_a_gap_comes_again),
};

SCENE_MAIN(tests)
