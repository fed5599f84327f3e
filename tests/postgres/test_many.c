/*
 * test_many.c - many ordered subscriptions in one process share few sessions of the server; what
 * happens to those sessions, and to the server, loses, doubles and reorders nothing.
 *
 * The program has a server of its own, which takes few connections, and which it crashes.
 */
#include "postgres/support_cluster.h"
#include "postgres/support_side.h"

#include "bus/support_scene.h"
#include "support/crowd.h"
#include "support/server.h"

#include <stdatomic.h>

#define MANY 120
#define SOME 40
#define EVENTS 30
#define KEYS 5
#define CUTS 10
#define LOOKS_MAX 100    /* for a session that reads */
#define SESSIONS 8       /* the default of holdfast_sessions */
#define CONNECTIONS "20" /* max_connections of the server */
#define SAMPLE_US 3000
#define OURS                                                                                       \
    "datname = current_database() AND backend_type = 'client backend' AND "                        \
    "application_name LIKE '%%:%d'"

static struct cluster cluster;

/* ---- Counting sessions ----------------------------------------------------------------------- */

struct sampler {
    const char *url;
    atomic_bool stop;
    atomic_int most; /* sessions of this process at one time */
};

static void sample(int index, void *ctx)
{
    struct sampler *sampler = ctx;
    (void)index;
    PGconn *pg = side_open_url(sampler->url);
    while (!atomic_load(&sampler->stop)) {
        int count = (int)side_number(pg, "SELECT count(*) FROM pg_stat_activity WHERE " OURS,
                                     (int)getpid());
        if (count > atomic_load(&sampler->most)) {
            atomic_store(&sampler->most, count);
        }
        usleep(SAMPLE_US);
    }
    PQfinish(pg);
}

/* ---- Subscribing and publishing -------------------------------------------------------------- */

static struct recorder *recorders[MANY];

static void subscribe_all(struct scene *scene, int count)
{
    hf_subscription_options options = quick_options();
    options.concurrency = 1;
    for (int i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%03d", i);
        recorders[i] = scene_recorder(scene, NULL);
        subscribe(scene->bus, name, "*", recorders[i], &options);
    }
}

/* Publishes the event number `number`, and again with the same id until it is answered. */
static void publish_surely(hf_bus *bus, int number)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_receipt receipt;
    char id[HF_ID_BYTES];
    char key[16];
    char payload[16];
    int64_t end_us = mono_us() + DEADLINE_MS * INT64_C(1000);
    snprintf(id, sizeof id, "%08x-0000-4000-8000-%012x", number + 1, (unsigned)getpid());
    snprintf(key, sizeof key, "k%d", number % KEYS);
    snprintf(payload, sizeof payload, "%d", number);
    event.type = "t";
    event.key = key;
    event.id = id;
    event.payload = payload;
    while (hf_publish(bus, &event, &receipt) != HF_OK && mono_us() < end_us) {
        usleep(5000);
    }
}

struct wanted {
    int subscriptions;
    int events;
};

/* How many different events a recorder has, those with payloads 0 to events - 1; fails the test if
 * a key's events came for the first time in another order than they were published in. */
static int count_distinct(struct recorder *recorder, int events)
{
    static bool seen[EVENTS * 4];
    int last[KEYS] = {-1, -1, -1, -1, -1};
    int distinct = 0;
    memset(seen, 0, sizeof seen);
    size_t count = recorder_count(recorder);
    for (size_t i = 0; i < count; i++) {
        int number = (int)strtol(recorder_get(recorder, i).payload, NULL, 10);
        assert_in_range(number, 0, events - 1);
        if (!seen[number]) {
            seen[number] = true;
            distinct++;
            assert_true(number > last[number % KEYS]);
            last[number % KEYS] = number;
        }
    }
    return distinct;
}

static bool all_came(void *ctx)
{
    const struct wanted *wanted = ctx;
    for (int i = 0; i < wanted->subscriptions; i++) {
        if (recorder_count(recorders[i]) < (size_t)wanted->events ||
            count_distinct(recorders[i], wanted->events) < wanted->events) {
            return false;
        }
    }
    return true;
}

/* ---- Claims ---------------------------------------------------------------------------------- */

/* A client of the server that is no superuser, and so gets no connection that is reserved. */
static bool visitor_gets_in(struct scene *scene)
{
    char url[sizeof scene->url + 32];
    snprintf(url, sizeof url, "%s&user=visitor", scene->url); /* of two, the last one counts */
    PGconn *pg = PQconnectdb(url);
    bool in = PQstatus(pg) == CONNECTION_OK;
    PQfinish(pg);
    return in;
}

static void many_subscriptions_share_few_sessions(void **state)
{
    struct scene *scene = *state;
    struct sampler sampler = {.url = scene->url};
    struct wanted wanted = {MANY, EVENTS};
    struct crowd crowd;
    PGconn *pg = side_open_url(scene->url);
    side_must(pg, "CREATE ROLE visitor LOGIN");
    subscribe_all(scene, MANY);
    crowd_start(&crowd, 1, sample, &sampler);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < EVENTS / 2; i++) {
        publish_surely(scene->bus, i);
    }
    assert_true(visitor_gets_in(scene));
    for (int i = EVENTS / 2; i < EVENTS; i++) {
        publish_surely(scene->bus, i);
    }
    bool came = wait_until(all_came, &wanted);
    bool let_in = visitor_gets_in(scene);
    atomic_store(&sampler.stop, true);
    crowd_join(&crowd);
    print_message("# at most %d sessions\n", atomic_load(&sampler.most));
    assert_true(came);
    assert_true(let_in);
    assert_in_range(atomic_load(&sampler.most), 3, SESSIONS);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(recorder_count(recorders[i]), EVENTS);
    } /* once each */
    PQfinish(pg);
}

/* Ends the sessions whose last statement read the log, or asked whether the subscription is still
 * ours; the event that was just published makes readers ask soon. Returns how many it ended. */
static int64_t end_readers(PGconn *pg)
{
    int64_t ended = 0;
    for (int i = 0; i < LOOKS_MAX && ended == 0; i++) {
        ended = side_number(pg,
                            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                            "WHERE query ~ 't\\.position|s\\.generation' AND " OURS,
                            (int)getpid());
        if (ended == 0) {
            usleep(SAMPLE_US);
        }
    }
    return ended;
}

/* Sessions that read the log, or ask whether the subscription is still ours, end again and again,
 * and each reader goes on through another one, with what it knows: no event comes twice. */
static void sessions_that_end_cost_readers_nothing(void **state)
{
    struct scene *scene = *state;
    struct wanted wanted = {SOME, EVENTS};
    PGconn *pg = side_open_url(scene->url);
    int64_t cut = 0;
    subscribe_all(scene, SOME);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < EVENTS; i++) {
        publish_surely(scene->bus, i);
        if (i % (EVENTS / CUTS) == 0) {
            cut += end_readers(pg);
        }
    }
    assert_true(wait_until(all_came, &wanted));
    print_message("# %d sessions were ended\n", (int)cut);
    assert_true(cut > 0);
    for (int i = 0; i < SOME; i++) {
        assert_int_equal(recorder_count(recorders[i]), EVENTS);
    }
    PQfinish(pg);
}

/* The server crashes in the middle, and all sessions end at once. What was done since the last
 * checkpoint comes again; nothing is lost, and no key's events change their order. */
static void a_crash_in_the_middle_loses_and_reorders_nothing(void **state)
{
    struct scene *scene = *state;
    struct wanted wanted = {SOME, 3 * EVENTS};
    subscribe_all(scene, SOME);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < EVENTS; i++) {
        publish_surely(scene->bus, i);
    }
    cluster_crash(&cluster);
    for (int i = EVENTS; i < 2 * EVENTS; i++) {
        publish_surely(scene->bus, i);
    }
    PGconn *pg = side_open_url(scene->url);
    side_must(pg, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE " OURS,
              (int)getpid());
    PQfinish(pg);
    for (int i = 2 * EVENTS; i < 3 * EVENTS; i++) {
        publish_surely(scene->bus, i);
    }
    assert_true(wait_until(all_came, &wanted));
}

static const struct CMUnitTest tests[] = {
    scene_test(many_subscriptions_share_few_sessions),
    scene_test(sessions_that_end_cost_readers_nothing),
    scene_test(a_crash_in_the_middle_loses_and_reorders_nothing),
};

/* A server that takes so few connections. */
static void start_small(void)
{
    char url[512];
    cluster_start(&cluster);
    cluster_database(&cluster, "small", url, sizeof url);
    PGconn *pg = PQconnectdb(url);
    PQclear(PQexec(pg, "ALTER SYSTEM SET max_connections = " CONNECTIONS));
    PQfinish(pg);
    cluster_crash(&cluster);
}

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
    start_small();
    cluster_pattern(&cluster, pattern, sizeof pattern);
    setenv("HOLDFAST_TEST_URLS", pattern, 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cluster_stop(&cluster);
    return failed;
}
