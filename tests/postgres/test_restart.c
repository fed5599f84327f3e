/*
 * test_restart.c - handlers go on where they were after crashes of the server: nothing that was
 * acknowledged is lost, whatever was prepared is waited for, and nothing that was known about
 * transactions of the former server is believed.
 *
 * The program has a server of its own, which it crashes.
 */
#include "postgres/support_cluster.h"
#include "postgres/support_stage.h"

#include "support/crowd.h"
#include "support/server.h"

#include <signal.h>
#include <stdatomic.h>

static struct cluster cluster;

/* The sessions beside the bus, anew. */
static void connect_again(struct stage *s)
{
    stage_end(s);
    s->a = side_open_url(s->scene->url);
    s->b = side_open_url(s->scene->url);
    s->c = side_open_url(s->scene->url);
}

/* Publishes through the bus, and again with the same id until it is answered. */
static hf_receipt publish_surely(hf_bus *bus, const char *key)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_receipt receipt = {0};
    char id[HF_ID_BYTES];
    static atomic_uint counter;
    int64_t end_us = mono_us() + 2 * DEADLINE_MS * 1000;

    snprintf(id, sizeof id, "%08x-0000-4000-8000-%012llx", 1 + atomic_fetch_add(&counter, 1),
             (unsigned long long)getpid());
    event.type = "t";
    event.key = key;
    event.id = id;
    while (hf_publish(bus, &event, &receipt) != HF_OK && mono_us() < end_us) {
        usleep(5000);
    }
    return receipt;
}

/* ---- Prepared transactions ------------------------------------------------------------------- */

/* Position 1 is prepared in session a; 2 is there. */
static void prepare_one(struct stage *s, const char *name)
{
    side_must(s->a, "BEGIN");
    side_must(s->a, "SET LOCAL holdfast.notify = off");
    assert_int_equal(stage_publish(s->a), 1);
    assert_int_equal(stage_publish(s->b), 2);
    assert_string_equal(stage_await(s->loose, 1), "2");
    stage_let_it_look(); /* it is known by the name that it had before */
    side_must(s->a, "PREPARE TRANSACTION '%s'", name);
    stage_let_it_look();
    assert_int_equal(recorder_count(s->strict), 0);
}

static void a_prepared_publish_is_delivered_after_a_crash(void **state)
{
    struct stage s = stage_of(*state);
    prepare_one(&s, "kept");
    cluster_kill(&cluster);
    connect_again(&s);
    int64_t next = publish_surely(s.bus, NULL).position;
    assert_true(next > 2);
    stage_let_it_look();
    assert_int_equal(recorder_count(s.strict), 0); /* it waits, also across the crash */
    assert_int_equal(info_of(s.bus, "loose").checkpoint, 0);
    side_must(s.b, "COMMIT PREPARED 'kept'");
    settle_all(s.bus, NULL);
    assert_int_equal(recorder_calls(s.loose, 1, NULL), 1);
    assert_int_equal(recorder_calls(s.strict, 1, NULL), 1);
    assert_int_equal(recorder_calls(s.shared, 1, NULL), 1);
    assert_int_equal(recorder_get(s.strict, 0).position, 1);
    assert_int_equal(recorder_get(s.strict, 1).position, 2);
    assert_true(info_of(s.bus, "loose").checkpoint >= next);
    stage_end(&s);
}

static void a_prepared_publish_that_is_rolled_back_after_a_crash_is_passed(void **state)
{
    struct stage s = stage_of(*state);
    prepare_one(&s, "undone");
    cluster_crash(&cluster);
    connect_again(&s);
    int64_t next = publish_surely(s.bus, NULL).position;
    stage_let_it_look();
    assert_int_equal(recorder_count(s.strict), 0);
    side_must(s.b, "ROLLBACK PREPARED 'undone'");
    settle_all(s.bus, NULL);
    assert_int_equal(recorder_calls(s.strict, 1, NULL), 0);
    assert_int_equal(recorder_get(s.strict, 0).position, 2);
    assert_int_equal(recorder_get(s.strict, 1).position, next);
    stage_end(&s);
}

/* ---- What a crash takes ---------------------------------------------------------------------- */

static void positions_of_publishers_that_a_crash_interrupted_are_passed(void **state)
{
    struct stage s = stage_of(*state);
    assert_int_equal(stage_publish(s.b), 1);
    side_must(s.a, "BEGIN");
    assert_int_equal(stage_publish(s.a), 2);
    assert_int_equal(stage_publish(s.b), 3);
    assert_string_equal(stage_await(s.loose, 2), "1 3");
    stage_let_it_look();
    assert_string_equal(stage_list(s.strict), "1");
    cluster_kill(&cluster);
    connect_again(&s);
    settle_all(s.bus, NULL); /* though the sequence is ahead of everything that will ever be seen */
    assert_int_equal(recorder_calls(s.strict, 2, NULL), 0);
    assert_int_equal(recorder_calls(s.strict, 3, NULL), 1);
    int64_t next = publish_surely(s.bus, NULL).position;
    settle_all(s.bus, NULL);
    assert_int_equal(recorder_calls(s.strict, next, NULL), 1);
    assert_int_equal(recorder_calls(s.shared, next, NULL), 1);
    assert_int_equal(recorder_calls(s.loose, next, NULL), 1);
    stage_end(&s);
}

/* One process of the server is killed: the others begin again with it, and the names of virtual
 * transactions with them, but the server says that it was started when it was. */
static void names_of_transactions_from_before_a_crash_mean_nothing(void **state)
{
    struct stage s = stage_of(*state);
    side_must(s.a, "BEGIN");
    assert_int_equal(stage_publish(s.a), 1);
    assert_int_equal(stage_publish(s.b), 2);
    assert_string_equal(stage_await(s.loose, 1), "2");
    stage_let_it_look();
    int victim = PQbackendPID(s.c);
    assert_int_equal(kill(victim, SIGKILL), 0);
    int64_t end_us = mono_us() + DEADLINE_MS * 1000;
    while (PQstatus(s.b) == CONNECTION_OK) { /* the server has not ended all sessions yet */
        PQclear(PQexec(s.b, "SELECT 1"));
        assert_true(mono_us() < end_us);
        usleep(10000);
    }
    while (PQping(s.scene->url) != PQPING_OK) { /* the server takes no new sessions yet */
        assert_true(mono_us() < end_us);
        usleep(10000);
    }
    connect_again(&s);
    settle_all(s.bus, NULL);
    assert_string_equal(stage_await(s.strict, 1), "2");
    /* A session that has the name now and keeps its number open is waited for, for its own sake. */
    side_must(s.a, "BEGIN");
    int64_t open = stage_publish(s.a);
    int64_t next = stage_publish(s.b);
    stage_let_it_look();
    assert_int_equal(recorder_count(s.strict), 1);
    side_must(s.a, "COMMIT");
    settle_all(s.bus, NULL);
    assert_int_equal(recorder_calls(s.strict, open, NULL), 1);
    assert_int_equal(recorder_calls(s.strict, next, NULL), 1);
    stage_end(&s);
}

/* Positions whose commit did not wait for the disk may be given again. */
static void events_at_positions_that_a_crash_has_taken_back_are_delivered(void **state)
{
    struct stage s = stage_of(*state);
    int64_t id = stage_namespace(s.a);
    assert_int_equal(stage_publish(s.b), 1);
    assert_string_equal(stage_await(s.strict, 1), "1");
    side_must(s.a, "SET synchronous_commit = off");
    side_must(
        s.a,
        "INSERT INTO holdfast_private.events (position, hash, checksum, emitted_at, "
        "entered_at, id, "
        "namespace_id, type, payload) SELECT e.position, 1, holdfast_private.checksum_of("
        "holdfast_private.content_of(e.id, now(), 't', NULL, NULL, NULL, NULL, NULL, '{}'), 1, "
        "e.position, now(), NULL), now(), now(), e.id, %lld, 't', '{}' "
        "FROM (SELECT holdfast_private.draw(%lld) AS position, gen_random_uuid() AS id "
        "FROM generate_series(1, 100)) e",
        (long long)id, (long long)id);
    assert_true(recorder_wait(s.loose, 2)); /* it is being processed */
    cluster_crash(&cluster);
    connect_again(&s);
    int64_t kept = side_number(s.b, "SELECT count(*) FROM holdfast_private.events");
    hf_receipt receipts[5];
    for (int i = 0; i < 5; i++) {
        receipts[i] = publish_surely(s.bus, NULL);
    }
    settle_all(s.bus, NULL);
    printf("# of 101 events %d survived; the next position is %d\n", (int)kept,
           (int)receipts[0].position);
    struct recorder *recorders[] = {s.loose, s.strict, s.shared};
    for (int r = 0; r < 3; r++) {
        for (int i = 0; i < 5; i++) {
            size_t calls = 0;
            for (size_t c = 0; c < recorder_count(recorders[r]); c++) {
                calls += strcmp(recorder_get(recorders[r], c).id, receipts[i].id) == 0;
            }
            assert_int_equal(calls, 1);
        }
    }
    stage_end(&s);
}

struct progress_of {
    hf_bus *bus;
    int64_t checkpoint;
};

static bool is_settled(void *ctx)
{
    struct progress_of *wanted = ctx;
    struct info info = info_of(wanted->bus, "one");
    return info.in_flight == 0 && info.checkpoint >= wanted->checkpoint;
}

/* That a lease was settled does not wait for the disk. After a crash the lease is there again, kept
 * by a process that lives and believes that it is over. */
static void a_lease_that_a_crash_brings_back_is_not_kept_for_ever(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    PGconn *pg = side_open_url(scene->url);
    side_must(pg, "ALTER SYSTEM SET wal_writer_delay = '10s'");
    side_must(pg, "SELECT pg_reload_conf()");
    options.mode = HF_MODE_SHARED;
    recorder->door = scene_door(scene);
    subscribe(scene->bus, "one", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    stage_publish(pg);
    assert_true(recorder_wait_begun(recorder, 1));
    side_must(pg, "CREATE TABLE to_sync_what_was_claimed ()");
    door_open(recorder->door);
    struct progress_of wanted = {scene->bus, 1};
    assert_true(wait_until(is_settled, &wanted));
    cluster_crash(&cluster);
    PQfinish(pg);
    settle_all(scene->bus, "one");
    assert_true(wait_until(is_settled, &wanted));
    printf("# the handler ran %zu times\n", recorder_count(recorder));
    pg = side_open_url(scene->url);
    side_must(pg, "ALTER SYSTEM RESET wal_writer_delay");
    side_must(pg, "SELECT pg_reload_conf()");
    PQfinish(pg);
}

/* ---- Under load ------------------------------------------------------------------------------ */

#define CRASHES 3
#define LOAD_THREADS 6
#define LOAD_EACH 150

struct load {
    struct stage *stage;
    hf_receipt receipts[LOAD_THREADS][LOAD_EACH];
    atomic_int done;
};

static void publish_load(int index, void *ctx)
{
    struct load *load = ctx;
    char key[16];
    if (index == LOAD_THREADS) { /* the one who crashes the server, when some work is done */
        for (int i = 1; i <= CRASHES; i++) {
            while (atomic_load(&load->done) < i * LOAD_THREADS * LOAD_EACH / (CRASHES + 1)) {
                usleep(1000);
            }
            if (i % 2) {
                cluster_crash(&cluster);
            } else {
                cluster_kill(&cluster);
            }
        }
        return;
    }
    snprintf(key, sizeof key, "k%d", index);
    for (int i = 0; i < LOAD_EACH; i++) {
        load->receipts[index][i] = publish_surely(load->stage->bus, key);
        atomic_fetch_add(&load->done, 1);
    }
}

/* First calls of a recorder by position; 0: none. */
static size_t first_call(struct recorder *recorder, const char *id)
{
    size_t count = recorder_count(recorder);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(recorder_get(recorder, i).id, id) == 0) {
            return i + 1;
        }
    }
    return 0;
}

static void crashes_under_load_lose_nothing_and_keep_the_order(void **state)
{
    static struct load load;
    struct stage s = stage_of(*state);
    load.stage = &s;
    crowd_run(LOAD_THREADS + 1, publish_load, &load);
    settle_all(s.bus, NULL);
    struct recorder *recorders[] = {s.loose, s.strict, s.shared};
    for (int thread = 0; thread < LOAD_THREADS; thread++) {
        size_t before[3] = {0};
        for (int i = 0; i < LOAD_EACH; i++) {
            const hf_receipt *receipt = &load.receipts[thread][i];
            assert_true(receipt->position > 0); /* acknowledged */
            for (int r = 0; r < 3; r++) {
                size_t call = first_call(recorders[r], receipt->id);
                assert_true(call > 0);
                assert_true(r == 2 || call > before[r]); /* G6 */
                before[r] = call;
            }
        }
    }
    printf("# %d crashes: %zu calls for %d events in the ordered subscription\n", CRASHES,
           recorder_count(s.loose), LOAD_THREADS * LOAD_EACH);
    stage_end(&s);
}

static const struct CMUnitTest tests[] = {
    scene_test(a_prepared_publish_is_delivered_after_a_crash),
    scene_test(a_prepared_publish_that_is_rolled_back_after_a_crash_is_passed),
    scene_test(positions_of_publishers_that_a_crash_interrupted_are_passed),
    scene_test(names_of_transactions_from_before_a_crash_mean_nothing),
    scene_test(events_at_positions_that_a_crash_has_taken_back_are_delivered),
    scene_test(a_lease_that_a_crash_brings_back_is_not_kept_for_ever),
    scene_test(crashes_under_load_lose_nothing_and_keep_the_order),
};

int main(int argc, char **argv)
{
    char pattern[512];
    const char *urls = getenv("HOLDFAST_TEST_URLS");
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    if (!urls || !server_is(urls)) {
        printf("1..0 # SKIP there is no server\n");
        return 0;
    }
    cluster_start(&cluster);
    cluster_pattern(&cluster, pattern, sizeof pattern);
    setenv("HOLDFAST_TEST_URLS", pattern, 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cluster_stop(&cluster);
    return failed;
}
