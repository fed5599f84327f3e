/*
 * test_idle.c - how little an idle process asks of the server, and that nothing waits for ever
 * because of it.
 *
 * Statements are counted in the server's own log: every session of the database logs all that it is
 * told, and the test reads what was added meanwhile.
 */
#include "bus/support_scene.h"
#include "support/postgres.h"

#include <libpq-fe.h>

#define IDLE_S 21   /* a little more than two looks of the keeper */
#define SETTLE_S 12 /* the first look still finds what was published before */
#define STANDBY_S 5
#define WINDOWS_MAX 4      /* one of them must be undisturbed: a slow machine is late */
#define PROMPT_US 9000000  /* before the keeper looks by itself */
#define PROMPT_WANTED 3    /* so many times it must be prompt */
#define PROMPT_TRIES_MAX 8 /* of so many on a slow machine */

/* The server's log, from where it was last read. */
struct server_log {
    FILE *file;
    PGconn *pg; /* of the test: its statements do not count */
};

/* From now on every new session of the database tells the log what it does. */
static void log_everything(struct scene *scene, struct server_log *log)
{
    char path[512];
    char sql[512];
    const char *directory = getenv("TEST_POSTGRES");

    assert_non_null(directory);
    log->pg = PQconnectdb(scene->url);
    snprintf(sql, sizeof sql, "ALTER DATABASE %s SET log_statement = 'all'", PQdb(log->pg));
    assert_true(postgres_run(scene->url, sql));
    snprintf(path, sizeof path, "%s/log", directory);
    log->file = fopen(path, "r");
    assert_non_null(log->file);
}

/* Whether the session with this number is the bus's. */
static bool is_of_the_bus(struct server_log *log, const char *pid)
{
    PGresult *result = PQexecParams(log->pg,
                                    "SELECT 1 FROM pg_stat_activity WHERE pid = $1::integer AND "
                                    "datname = current_database() AND pid <> pg_backend_pid()",
                                    1, NULL, &pid, NULL, NULL, 0);
    bool found = PQntuples(result) == 1;

    PQclear(result);
    return found;
}

/* Statements of the bus's sessions in `seconds` from now. */
static int count_statements(struct server_log *log, int seconds)
{
    char line[4096];
    int count = 0;

    assert_int_equal(fseek(log->file, 0, SEEK_END), 0);
    sleep((unsigned)seconds);
    while (fgets(line, sizeof line, log->file)) {
        char *pid = strchr(line, '[');
        char *end = pid ? strchr(pid, ']') : NULL;

        if (!end || (!strstr(end, "LOG:  execute ") && !strstr(end, "LOG:  statement: "))) {
            continue;
        }
        *end = '\0';
        count += is_of_the_bus(log, pid + 1);
    }
    clearerr(log->file);
    return count;
}

/* The same, again while it is not in the range. */
static int count_until_in_range(struct server_log *log, int seconds, int least, int most)
{
    int count = -1;

    for (int i = 0; i < WINDOWS_MAX && (count < least || count > most); i++) {
        count = count_statements(log, seconds);
        printf("# %d statements in %d s\n", count, seconds);
    }
    return count;
}

static void log_close(struct server_log *log)
{
    fclose(log->file);
    PQfinish(log->pg);
}

static hf_subscription_options defaults_from_start(hf_mode mode)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;

    options.mode = mode;
    options.from.kind = HF_PLACE_START;
    return options;
}

static void subscribe_three(struct scene *scene, hf_bus *bus, struct recorder *recorder)
{
    hf_subscription_options ordered = defaults_from_start(HF_MODE_ORDERED);
    hf_subscription_options shared = defaults_from_start(HF_MODE_SHARED);

    (void)scene;
    subscribe(bus, "a", "*", recorder, &ordered);
    subscribe(bus, "b", "x", recorder, &ordered);
    subscribe(bus, "c", "*", recorder, &shared);
    assert_ok(hf_start(bus));
}

static void an_idle_process_makes_one_statement_in_ten_seconds(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    struct server_log log;
    hf_bus *bus;
    int count;

    log_everything(scene, &log);
    bus = scene_open(scene, NULL);
    subscribe_three(scene, bus, recorder);
    for (int i = 0; i < 10; i++) {
        publish(bus, "x", NULL, "1");
    }
    settle_all(bus, NULL);
    assert_int_equal(info_of(bus, "a").options.wait_period_ms, 10000);
    sleep(SETTLE_S);
    count = count_until_in_range(&log, IDLE_S, 1, 3);
    assert_in_range(count, 1, 3); /* one look may fall on each end */
    /* It is awake all the same. */
    publish(bus, "x", NULL, "1");
    assert_true(recorder_wait(recorder, 33));
    log_close(&log);
}

static void a_process_that_stands_by_makes_about_one_query_a_second(void **state)
{
    struct scene *scene = *state;
    struct server_log log;
    int count;

    hf_bus *owner = scene_open(scene, NULL);
    subscribe_three(scene, owner, scene_recorder(scene, NULL));
    publish(owner, "x", NULL, "1");
    settle_all(owner, NULL);
    log_everything(scene, &log);
    subscribe_three(scene, scene_open(scene, NULL), scene_recorder(scene, NULL));
    sleep(2);
    count = count_until_in_range(&log, STANDBY_S, 3, 2 * STANDBY_S + 4);
    /* Its looks, the owner's one, and a few tries that watch for an owner that stands still. */
    assert_in_range(count, 3, 2 * STANDBY_S + 4);
    log_close(&log);
}

/* ---- Nothing waits for ever ------------------------------------------------------------------ */

static void an_event_of_another_process_s_abandoned_lease_comes_when_it_ends(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = defaults_from_start(HF_MODE_SHARED);
    hf_claim_options claim = HF_CLAIM_OPTIONS_INIT;
    const char *patterns[] = {"*"};
    hf_bus *worker = scene_open(scene, NULL);
    hf_bus *other = scene_open(scene, NULL);
    hf_batch *batch = NULL;
    int64_t took_us = INT64_MAX;

    assert_ok(hf_subscription_create(worker, "a", patterns, 1, &options, NULL));
    claim.lease_ms = 1500;
    claim.detached = HF_ON;
    subscribe(worker, "a", "*", recorder, NULL);
    for (size_t i = 1; i <= PROMPT_TRIES_MAX && took_us >= PROMPT_US; i++) {
        publish(worker, "x", NULL, "1");
        assert_ok(hf_claim(other, "a", &claim, &batch));
        assert_int_equal(hf_batch_count(batch), 1);
        hf_batch_free(batch);
        assert_ok(hf_start(worker));
        took_us = -mono_us();
        assert_true(recorder_wait(recorder, i));
        took_us += mono_us();
        assert_ok(hf_stop(worker, DEADLINE_MS));
    }
    assert_true(took_us < PROMPT_US);
}

static void a_keeper_that_lost_its_connection_misses_nothing(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = defaults_from_start(HF_MODE_ORDERED);
    hf_bus *worker = scene_open(scene, NULL);
    int prompt = 0;

    subscribe(worker, "a", "*", recorder, &options);
    assert_ok(hf_start(worker));
    publish(worker, "x", NULL, "1");
    assert_true(recorder_wait(recorder, 1));
    for (size_t i = 2; i < 2 + PROMPT_TRIES_MAX && prompt < PROMPT_WANTED; i++) {
        int64_t begin_us = mono_us();
        /* The one that holds the process's lock is the keeper's. Published in the same moment, when
         * no process listens. */
        PGconn *pg = PQconnectdb(scene->url);

        PQclear(PQexec(pg, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE "
                           "locktype = 'advisory' AND objsubid = 1 AND granted AND "
                           "pid <> pg_backend_pid() AND "
                           "database = (SELECT oid FROM pg_database WHERE datname = "
                           "current_database())"));
        PGresult *result = PQexec(pg, "SELECT holdfast.publish('default', 'x', '1')");
        assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
        PQclear(result);
        PQfinish(pg);
        assert_true(recorder_wait(recorder, i));
        prompt += mono_us() - begin_us < PROMPT_US;
    }
    assert_int_equal(prompt, PROMPT_WANTED);
}

static void a_change_without_a_notification_is_found(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = defaults_from_start(HF_MODE_ORDERED);
    hf_bus *worker = scene_open(scene, NULL);

    subscribe(worker, "a", "*", recorder, &options);
    assert_ok(hf_start(worker));
    publish(worker, "x", NULL, "1");
    settle_all(worker, "a");
    assert_ok(hf_pause(worker, "a", "for a test"));
    publish(worker, "x", NULL, "1");
    assert_true(postgres_run(scene->url,
                             "UPDATE holdfast_private.subscriptions SET paused_at = NULL, "
                             "paused_by = NULL, paused_reason = NULL, "
                             "generation = generation + 1"));
    assert_true(recorder_wait(recorder, 2));
}

static const struct CMUnitTest tests[] = {
    bare_test(an_event_of_another_process_s_abandoned_lease_comes_when_it_ends),
    bare_test(a_keeper_that_lost_its_connection_misses_nothing),
    bare_test(a_change_without_a_notification_is_found),
    bare_test(a_process_that_stands_by_makes_about_one_query_a_second),
    bare_test(an_idle_process_makes_one_statement_in_ten_seconds),
};

SCENE_MAIN(tests)
