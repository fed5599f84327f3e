/*
 * test_holes.c - what handlers and checkpoints see of positions that become visible late, or never.
 *
 * Publishers are sessions of their own, so that each interleaving is forced: a hole is open as long
 * as the test wants it to be.
 */
#include "postgres/support_stage.h"

#include "base/set64.h"
#include "support/crowd.h"

#define GAPS 6000
#define GAPS_MAX 4096 /* that a reader keeps */

/* ---- Out of order ---------------------------------------------------------------------------- */

/* The number is drawn long before the event is written, and the next one is committed meanwhile. */
static void events_that_commit_out_of_order_reach_every_subscription(void **state)
{
    struct stage s = stage_of(*state);
    side_must(s.a, "BEGIN");
    assert_int_equal(stage_draw(s.a), 1); /* which assigns no transaction id */
    assert_int_equal(stage_publish(s.b), 2);
    assert_string_equal(stage_await(s.loose, 1), "2");
    assert_string_equal(stage_await(s.shared, 1), "2");
    stage_let_it_look();
    assert_int_equal(recorder_count(s.strict), 0);
    assert_int_equal(info_of(s.bus, "loose").checkpoint, 0);
    assert_int_equal(info_of(s.bus, "shared").checkpoint, 0);
    stage_insert(s.a, 1);
    stage_let_it_look();
    assert_int_equal(info_of(s.bus, "loose").checkpoint, 0);
    side_must(s.a, "COMMIT");
    assert_string_equal(stage_await(s.loose, 2), "2 1");
    assert_string_equal(stage_await(s.strict, 2), "1 2");
    assert_string_equal(stage_await(s.shared, 2), "2 1");
    settle_all(s.bus, NULL);
    stage_await_checkpoint(&s, "loose", 2);
    stage_await_checkpoint(&s, "strict", 2);
    stage_await_checkpoint(&s, "shared", 2);
    stage_end(&s);
}

static void a_rolled_back_publish_does_not_keep_the_checkpoint(void **state)
{
    struct stage s = stage_of(*state);
    assert_int_equal(stage_publish(s.b), 1);
    side_must(s.a, "BEGIN");
    assert_int_equal(stage_publish(s.a), 2);
    assert_int_equal(stage_publish(s.b), 3);
    assert_string_equal(stage_await(s.loose, 2), "1 3");
    stage_let_it_look();
    assert_string_equal(stage_await(s.strict, 1), "1");
    assert_true(info_of(s.bus, "loose").checkpoint <= 1);
    side_must(s.a, "ROLLBACK");
    assert_string_equal(stage_await(s.strict, 2), "1 3");
    stage_await_checkpoint(&s, "loose", 3);
    stage_await_checkpoint(&s, "strict", 3);
    stage_await_checkpoint(&s, "shared", 3);
    assert_string_equal(stage_list(s.shared), "1 3");
    stage_end(&s);
}

/* The transaction has published before the savepoint: it stays a publisher after the rollback. */
static void a_rolled_back_savepoint_of_a_publisher_leaves_a_hole_until_the_end(void **state)
{
    struct stage s = stage_of(*state);
    side_must(s.a, "BEGIN");
    assert_int_equal(stage_publish(s.a), 1);
    side_must(s.a, "SAVEPOINT one");
    assert_int_equal(stage_publish(s.a), 2);
    side_must(s.a, "ROLLBACK TO one");
    assert_int_equal(stage_publish(s.b), 3);
    assert_int_equal(stage_publish(s.a), 4);
    assert_int_equal(stage_publish(s.b), 5);
    assert_string_equal(stage_await(s.loose, 2), "3 5");
    stage_let_it_look();
    assert_int_equal(recorder_count(s.strict), 0);
    side_must(s.a, "COMMIT");
    assert_string_equal(stage_await(s.strict, 4), "1 3 4 5");
    assert_string_equal(stage_await(s.loose, 4), "3 5 1 4");
    stage_await_checkpoint(&s, "loose", 5);
    stage_end(&s);
}

/* Nothing but the savepoint has published: what it drew ends with it, and the open transaction is
 * a publisher again from its next event on. */
static void a_rolled_back_savepoint_with_the_only_event_leaves_no_hole(void **state)
{
    struct stage s = stage_of(*state);
    side_must(s.a, "BEGIN");
    side_must(s.a, "SAVEPOINT one");
    assert_int_equal(stage_publish(s.a), 1);
    side_must(s.a, "ROLLBACK TO one");
    assert_int_equal(stage_publish(s.b), 2);
    assert_string_equal(stage_await(s.strict, 1), "2");
    assert_int_equal(stage_publish(s.a), 3);
    assert_int_equal(stage_publish(s.b), 4);
    assert_string_equal(stage_await(s.loose, 2), "2 4");
    stage_let_it_look();
    assert_string_equal(stage_list(s.strict), "2");
    side_must(s.a, "COMMIT");
    assert_string_equal(stage_await(s.strict, 3), "2 3 4");
    assert_string_equal(stage_await(s.loose, 3), "2 4 3");
    stage_await_checkpoint(&s, "loose", 4);
    stage_end(&s);
}

#define BURST_THREADS 10
#define BURST_EACH 5

static void burst(int index, void *ctx)
{
    struct stage *s = ctx;
    PGconn *pg = side_open_url(s->scene->url);
    for (int i = 0; i < BURST_EACH; i++) {
        hf_new_event event = HF_NEW_EVENT_INIT;
        event.type = "t";
        if (index % 2) {
            stage_publish(pg);
        } else {
            assert_ok(hf_publish(s->bus, &event, NULL));
        }
    }
    PQfinish(pg);
}

static void a_burst_of_concurrent_publishers_is_processed_whole(void **state)
{
    struct stage s = stage_of(*state);
    crowd_run(BURST_THREADS, burst, &s);
    settle_all(s.bus, NULL);
    assert_int_equal(recorder_count(s.loose), BURST_THREADS * BURST_EACH);
    assert_int_equal(recorder_count(s.strict), BURST_THREADS * BURST_EACH);
    assert_int_equal(recorder_count(s.shared), BURST_THREADS * BURST_EACH);
    for (size_t i = 0; i < BURST_THREADS * BURST_EACH; i++) {
        assert_int_equal(recorder_get(s.strict, i).position, i + 1);
    }
    stage_end(&s);
}

/* Holes are decided by looking twice, which takes two snapshots. */
static void whatever_isolation_the_database_defaults_to_holes_are_decided_right(void **state)
{
    struct scene *scene = *state;
    if (scene->path) {
        skip();
    }
    PGconn *pg = side_open_url(scene->url);
    side_must(pg, "ALTER DATABASE %s SET default_transaction_isolation = 'serializable'", PQdb(pg));
    PQfinish(pg);
    scene_reopen(scene);
    struct stage s = stage_of(scene);
    side_must(s.a, "BEGIN ISOLATION LEVEL READ COMMITTED");
    assert_int_equal(stage_publish(s.a), 1);
    assert_int_equal(stage_publish(s.b), 2);
    assert_string_equal(stage_await(s.shared, 1), "2");
    assert_string_equal(stage_await(s.loose, 1), "2");
    stage_let_it_look();
    side_must(s.a, "COMMIT");
    assert_string_equal(stage_await(s.shared, 2), "2 1");
    assert_string_equal(stage_await(s.loose, 2), "2 1");
    assert_string_equal(stage_await(s.strict, 2), "1 2");
    settle_all(s.bus, NULL);
    /* Who claims in SQL with one snapshot for all is refused. */
    side_must(s.c, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    assert_int_equal(
        side_number(s.c, "SELECT c.status FROM holdfast_private.subscriptions s CROSS JOIN LATERAL "
                         "holdfast.change_claim(s.namespace_id, s.id, 0, NULL, NULL, NULL, "
                         "NULL, false, 10, 1000, false, false, NULL, NULL, NULL, false, "
                         "clock_timestamp()) c WHERE s.name = 'shared'"),
        HF_MISUSE);
    side_must(s.c, "ROLLBACK");
    stage_end(&s);
}

/* ---- No other session is waited for ---------------------------------------------------------- */

/* A writer in another database of the cluster, and one in this database that has not published. */
static void long_transactions_of_others_delay_nothing(void **state)
{
    struct stage s = stage_of(*state);
    char url[512];
    snprintf(url, sizeof url, "host='%s' user='%s' dbname=postgres", PQhost(s.a), PQuser(s.a));
    PGconn *elsewhere = side_open_url(url);
    side_must(elsewhere, "BEGIN");
    side_must(elsewhere, "CREATE TABLE elsewhere_%d (n int)", (int)getpid());
    side_must(s.c, "BEGIN");
    side_must(s.c, "CREATE TABLE mine (n int)");
    side_must(s.c, "SELECT count(*) FROM holdfast_private.events");
    side_must(s.c, "SELECT last_value FROM holdfast_private.events_%lld_position",
              (long long)stage_namespace(s.c));
    assert_int_equal(stage_publish(s.b), 1);
    assert_string_equal(stage_await(s.strict, 1), "1");
    side_must(s.a, "BEGIN");
    assert_int_equal(stage_publish(s.a), 2);
    assert_int_equal(stage_publish(s.b), 3);
    side_must(s.a, "ROLLBACK");
    assert_string_equal(stage_await(s.strict, 2), "1 3");
    stage_await_checkpoint(&s, "loose", 3);
    stage_await_checkpoint(&s, "shared", 3);
    int64_t position = 0;
    hf_place now = {HF_PLACE_NOW, 0};
    assert_ok(hf_locate(s.bus, now, &position));
    assert_int_equal(position, 3);
    side_must(elsewhere, "ROLLBACK");
    PQfinish(elsewhere);
    stage_end(&s);
}

/* Nothing is visible above it, so no reader finds a gap: it is not waited for all the same. */
static void a_rolled_back_last_number_is_not_waited_for(void **state)
{
    struct stage s = stage_of(*state);
    assert_int_equal(stage_publish(s.a), 1);
    side_must(s.a, "BEGIN");
    assert_int_equal(stage_publish(s.a), 2);
    side_must(s.a, "ROLLBACK");
    settle_all(s.bus, NULL);
    assert_int_equal(info_of(s.bus, "loose").lag, 0);
    assert_int_equal(info_of(s.bus, "strict").lag, 0);
    assert_int_equal(info_of(s.bus, "shared").lag, 0);
    assert_string_equal(info_of(s.bus, "loose").not_moving, "");
    stage_end(&s);
}

/* ---- Many ------------------------------------------------------------------------------------ */

/*
 * As after a failover: the sequence goes on some numbers later than it had come. No session holds
 * them, none ends, nothing is published after them, and there is no other subscription whose
 * progress would make a sound: the look that decides it is the last news.
 */
static void a_jump_of_the_sequence_does_not_keep_the_checkpoint(void **state)
{
    struct scene *scene = *state;
    if (scene->path) {
        skip();
    }
    struct stage s = {.bus = scene->bus, .b = side_open_url(scene->url)};
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    options.checkpoint_ms = 100;
    subscribe(s.bus, "loose", "*", recorder, &options);
    assert_ok(hf_start(s.bus));
    publish(s.bus, "t", NULL, "{}");
    stage_await_checkpoint(&s, "loose", 1);
    int64_t begun_us = mono_us();
    for (int64_t last = 1; last < 200; last += 24) {
        side_must(s.b, "SELECT setval('holdfast_private.events_%lld_position', %lld)",
                  (long long)stage_namespace(s.b), (long long)last + 23);
        publish(s.bus, "t", NULL, "{}");
        stage_await_checkpoint(&s, "loose", last + 24);
    }
    assert_true(mono_us() - begun_us < DEADLINE_MS * 1000); /* not by the keeper's looks */
    stage_end(&s);
}

static void ten_thousand_rolled_back_numbers_are_passed_in_one_go(void **state)
{
    struct stage s = stage_of(*state);
    side_must(s.a, "BEGIN");
    side_must(s.a, "SELECT holdfast.publish('" STAGE_NAMESPACE "', 't', '{}') "
                   "FROM generate_series(1, 10000)");
    assert_int_equal(stage_publish(s.b), 10001);
    assert_string_equal(stage_await(s.loose, 1), "10001");
    side_must(s.a, "ROLLBACK");
    int64_t begin_us = mono_us();
    assert_string_equal(stage_await(s.strict, 1), "10001");
    printf("# 10,000 rolled-back numbers were passed after %d ms\n",
           (int)((mono_us() - begin_us) / 1000));
    stage_await_checkpoint(&s, "loose", 10001);
    stage_await_checkpoint(&s, "shared", 10001);
    stage_end(&s);
}

struct talk {
    hf_bus *bus;
    const char *subscription;
    const char *part;
};

static bool says(void *ctx)
{
    struct talk *talk = ctx;
    return strstr(info_of(talk->bus, talk->subscription).not_moving, talk->part) != NULL;
}

static void await_sentence(hf_bus *bus, const char *subscription, const char *part)
{
    struct talk talk = {bus, subscription, part};
    if (!wait_until(says, &talk)) {
        fail_msg("%s does not say \"%s\" but \"%s\"", subscription, part,
                 info_of(bus, subscription).not_moving);
    }
}

static void the_session_that_keeps_a_position_open_is_named(void **state)
{
    struct stage s = stage_of(*state);
    char part[64];
    side_must(s.a, "BEGIN");
    assert_int_equal(stage_publish(s.a), 1);
    assert_int_equal(stage_publish(s.b), 2);
    assert_string_equal(stage_await(s.loose, 1), "2");
    snprintf(part, sizeof part, "pid %d", PQbackendPID(s.a));
    await_sentence(s.bus, "strict", "position 1");
    await_sentence(s.bus, "strict", part);
    await_sentence(s.bus, "loose", part);
    await_sentence(s.bus, "shared", part);
    side_must(s.a, "COMMIT");
    settle_all(s.bus, NULL);
    assert_string_equal(info_of(s.bus, "strict").not_moving, "");
    assert_string_equal(info_of(s.bus, "loose").not_moving, "");
    assert_string_equal(info_of(s.bus, "shared").not_moving, "");
    stage_end(&s);
}

static void too_many_gaps_stop_the_reading_and_it_says_so(void **state)
{
    struct stage s = stage_of(*state);
    side_must(s.a, "BEGIN");
    assert_int_equal(stage_publish(s.a), 1);
    side_must(s.b,
              "DO $$ BEGIN FOR i IN 1 .. %d LOOP "
              "PERFORM holdfast_private.draw(%lld); "
              "PERFORM holdfast.publish('" STAGE_NAMESPACE "', 't', '{}'); END LOOP; END $$",
              GAPS, (long long)stage_namespace(s.b));
    assert_true(recorder_wait(s.loose, GAPS_MAX));
    await_sentence(s.bus, "loose", "4096 gaps");
    await_sentence(s.bus, "shared", "4096 gaps");
    assert_true(recorder_wait(s.shared, GAPS_MAX));
    stage_let_it_look();
    assert_int_equal(recorder_count(s.loose), GAPS_MAX);
    assert_int_equal(recorder_count(s.shared), GAPS_MAX);
    assert_int_equal(recorder_count(s.strict), 0);
    side_must(s.a, "COMMIT");
    settle_all(s.bus, NULL);
    assert_int_equal(recorder_count(s.loose), GAPS + 1);
    assert_int_equal(recorder_count(s.strict), GAPS + 1);
    assert_int_equal(recorder_count(s.shared), GAPS + 1);
    for (size_t i = 1; i <= GAPS; i++) {
        assert_true(recorder_get(s.strict, i - 1).position < recorder_get(s.strict, i).position);
    }
    stage_end(&s);
}

#define ROUNDS 20

static void a_hole_ends_soon_after_the_last_publisher_that_might_fill_it(void **state)
{
    struct stage s = stage_of(*state);
    int64_t worst_us = 0;
    int64_t sum_us = 0;
    for (int round = 0; round < ROUNDS; round++) {
        side_must(s.a, "BEGIN");
        stage_publish(s.a);
        side_must(s.c, "BEGIN");
        stage_publish(s.c); /* open when the hole is seen, so it counts as well */
        stage_publish(s.b);
        assert_true(recorder_wait(s.loose, (size_t)round + 1));
        side_must(s.a, "ROLLBACK");
        usleep((useconds_t)(round * 7000));
        assert_int_equal(recorder_count(s.strict), round);
        side_must(s.c, "ROLLBACK");
        int64_t begin_us = mono_us();
        assert_true(recorder_wait(s.strict, (size_t)round + 1));
        int64_t spent_us = mono_us() - begin_us;
        worst_us = spent_us > worst_us ? spent_us : worst_us;
        sum_us += spent_us;
    }
    printf("# strict order goes on %d ms after the last publisher on average, %d ms at worst\n",
           (int)(sum_us / ROUNDS / 1000), (int)(worst_us / 1000));
    assert_true(sum_us / ROUNDS < 5000000); /* 100 ms on a machine that has nothing else to do */
    stage_end(&s);
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

/* Positions 1, 2, 4, 5, 6 are processed, 3 is open in session a. */
static void open_a_hole_at_three(struct stage *s)
{
    stage_publish(s->b);
    stage_publish(s->b);
    side_must(s->a, "BEGIN");
    assert_int_equal(stage_publish(s->a), 3);
    for (int i = 0; i < 3; i++) {
        stage_publish(s->b);
    }
    assert_string_equal(stage_await(s->loose, 5), "1 2 4 5 6");
    assert_string_equal(stage_await(s->strict, 2), "1 2");
}

static void checkpoints_in_batches_do_not_pass_a_hole(void **state)
{
    struct stage s = stage_of(*state);
    hf_subscription_options options = quick_options();
    struct recorder *each = scene_recorder(s.scene, NULL);
    options.checkpoint_events = 2;
    options.checkpoint_ms = 20;
    subscribe(s.bus, "each", "*", each, &options);
    open_a_hole_at_three(&s);
    assert_string_equal(stage_await(each, 5), "1 2 4 5 6");
    stage_await_checkpoint(&s, "each", 2);
    stage_await_checkpoint(&s, "loose", 2);
    stage_let_it_look();
    assert_int_equal(info_of(s.bus, "each").checkpoint, 2);
    assert_int_equal(info_of(s.bus, "loose").checkpoint, 2);
    side_must(s.a, "COMMIT");
    assert_string_equal(stage_await(each, 6), "1 2 4 5 6 3");
    stage_await_checkpoint(&s, "each", 6);
    stage_await_checkpoint(&s, "loose", 6);
    stage_end(&s);
}

/* What was processed beyond the hole is remembered, and does not come again. */
static void shutting_down_stores_the_checkpoint_below_a_hole(void **state)
{
    struct stage s = stage_of(*state);
    open_a_hole_at_three(&s);
    assert_string_equal(stage_await(s.shared, 5), "1 2 4 5 6");
    scene_reopen(s.scene);
    s.bus = s.scene->bus;
    assert_int_equal(info_of(s.bus, "loose").checkpoint, 2);
    assert_int_equal(info_of(s.bus, "strict").checkpoint, 2);
    assert_int_equal(info_of(s.bus, "shared").checkpoint, 2);
    struct recorder *again[] = {scene_recorder(s.scene, NULL), scene_recorder(s.scene, NULL),
                                scene_recorder(s.scene, NULL)};
    subscribe(s.bus, "loose", "*", again[0], NULL);
    hf_subscription_options none = HF_SUBSCRIPTION_OPTIONS_INIT;
    subscribe(s.bus, "strict", "*", again[1], &none);
    subscribe(s.bus, "shared", "*", again[2], &none);
    assert_ok(hf_start(s.bus));
    side_must(s.a, "COMMIT");
    settle_all(s.bus, NULL);
    assert_string_equal(stage_list(again[0]), "3");
    assert_string_equal(stage_list(again[1]), "3 4 5 6");
    assert_string_equal(stage_list(again[2]), "3");
    assert_int_equal(info_of(s.bus, "loose").checkpoint, 6);
    stage_end(&s);
}

static hf_verdict cannot_read(const hf_event *event, hf_delivery *delivery,
                              struct recorder *recorder)
{
    (void)delivery;
    (void)recorder;
    return event->position == 2 ? HF_UNDECODABLE : HF_ACK;
}

static void an_undecodable_event_is_passed_at_once_beside_a_hole(void **state)
{
    struct stage s = stage_of(*state);
    struct recorder *reader = scene_recorder(s.scene, cannot_read);
    struct dead dead;
    subscribe(s.bus, "decoder", "*", reader, NULL);
    side_must(s.a, "BEGIN");
    assert_int_equal(stage_publish(s.a), 1);
    assert_int_equal(stage_publish(s.b), 2);
    assert_int_equal(stage_publish(s.b), 3);
    assert_string_equal(stage_await(reader, 2), "2 3");
    side_must(s.a, "COMMIT");
    assert_string_equal(stage_await(reader, 3), "2 3 1");
    settle_all(s.bus, "decoder");
    assert_int_equal(info_of(s.bus, "decoder").checkpoint, 3);
    assert_int_equal(dead_of(s.bus, "decoder", &dead, 1), 1);
    assert_string_equal(dead.reason, "decode");
    assert_int_equal(dead.position, 2);
    assert_int_equal(dead.attempts, 1);
    stage_end(&s);
}

/* ---- More above a hole than can be known ----------------------------------------------------- */

#define KNOWN 16
#define ABOVE 60

static int bounds_teardown(void **state)
{
    set64_bound(0);
    return scene_teardown(state);
}

/* Position 1 is open, and those above it come one by one. */
static struct recorder *run_above_a_hole(struct stage *s, hf_toggle transactional)
{
    struct recorder *recorder = scene_recorder(s->scene, NULL);
    hf_subscription_options options = quick_options();
    options.transactional = transactional;
    set64_bound(KNOWN);
    subscribe(s->bus, "many", "*", recorder, &options);
    assert_ok(hf_start(s->bus));
    side_must(s->a, "BEGIN");
    assert_int_equal(stage_draw(s->a), 1);
    for (size_t i = 1; i <= ABOVE; i++) {
        stage_publish(s->b);
        assert_true(recorder_wait(recorder, i));
    }
    return recorder;
}

#define bounds_test(test) cmocka_unit_test_setup_teardown(test, scene_setup, bounds_teardown)

static struct stage stage_bare(struct scene *scene)
{
    if (scene->path) {
        skip();
    }
    return (struct stage){.scene = scene,
                          .bus = scene->bus,
                          .a = side_open_url(scene->url),
                          .b = side_open_url(scene->url)};
}

static void events_done_above_a_hole_do_not_come_again_however_many(void **state)
{
    struct stage s = stage_bare(*state);
    struct recorder *recorder = run_above_a_hole(&s, HF_OFF);
    stage_insert(s.a, 1);
    side_must(s.a, "COMMIT");
    settle_all(s.bus, "many");
    assert_int_equal(recorder_count(recorder), ABOVE + 1);
    stage_await_checkpoint(&s, "many", ABOVE + 1);
    PQfinish(s.a);
    PQfinish(s.b);
}

/* The next process can know only the first of what was done. */
static void events_done_above_a_hole_can_be_taken_over_however_many(void **state)
{
    struct stage s = stage_bare(*state);
    struct recorder *before = run_above_a_hole(&s, HF_ON);
    struct recorder *after = scene_recorder(s.scene, NULL);
    scene_reopen(s.scene);
    s.bus = s.scene->bus;
    assert_int_equal(recorder_count(before), ABOVE);
    subscribe(s.bus, "many", "*", after, NULL);
    assert_ok(hf_start(s.bus));
    stage_publish(s.b);
    side_must(s.a, "ROLLBACK");
    settle_all(s.bus, "many");
    assert_int_equal(recorder_count(after), 1);
    stage_await_checkpoint(&s, "many", ABOVE + 2);
    PQfinish(s.a);
    PQfinish(s.b);
}

static const struct CMUnitTest tests[] = {
    scene_test(events_that_commit_out_of_order_reach_every_subscription),
    scene_test(a_rolled_back_publish_does_not_keep_the_checkpoint),
    scene_test(a_rolled_back_savepoint_of_a_publisher_leaves_a_hole_until_the_end),
    scene_test(a_rolled_back_savepoint_with_the_only_event_leaves_no_hole),
    scene_test(a_burst_of_concurrent_publishers_is_processed_whole),
    scene_test(whatever_isolation_the_database_defaults_to_holes_are_decided_right),
    scene_test(long_transactions_of_others_delay_nothing),
    scene_test(a_rolled_back_last_number_is_not_waited_for),
    scene_test(a_jump_of_the_sequence_does_not_keep_the_checkpoint),
    scene_test(ten_thousand_rolled_back_numbers_are_passed_in_one_go),
    scene_test(the_session_that_keeps_a_position_open_is_named),
    scene_test(too_many_gaps_stop_the_reading_and_it_says_so),
    scene_test(a_hole_ends_soon_after_the_last_publisher_that_might_fill_it),
    scene_test(checkpoints_in_batches_do_not_pass_a_hole),
    scene_test(shutting_down_stores_the_checkpoint_below_a_hole),
    scene_test(an_undecodable_event_is_passed_at_once_beside_a_hole),
    bounds_test(events_done_above_a_hole_do_not_come_again_however_many),
    bounds_test(events_done_above_a_hole_can_be_taken_over_however_many),
};

SCENE_MAIN(tests)
