/*
 * test_failover.c - the primary dies, its synchronous standby takes its place, and a program
 * that has both in the URL goes on: nothing that was acknowledged is lost.
 *
 * FAILOVERS in the environment says how many in a row (two if it is not set); each makes a new
 * standby of the server that was promoted before. LOAD_LOG shows what the bus says meanwhile.
 */
#include "postgres/support_audience.h"
#include "postgres/support_load.h"
#include "postgres/support_replica.h"
#include "postgres/support_side.h"
#include "support/crowd.h"
#include "support/make.h"

#include "base/uuid.h"

#define HASTE_MS 2500    /* for what will not be answered; more on a slow machine */
#define RESUMED_MS 20000 /* after the promotion; generous: two seconds are promised */
#define WARM_EVENTS 100
#define FAILOVERS 2
#define URL_BYTES 512

/* Waits until the server says so. */
static void await_true(PGconn *pg, const char *sql)
{
    int64_t begun_ms = mono_ms();
    while (side_number(pg, "%s", sql) == 0) {
        must_hold(mono_ms() - begun_ms < DEADLINE_MS);
        usleep(5000);
    }
}

/* From now on a commit waits for this standby. */
static void require_standby(const struct replica *primary)
{
    PGconn *pg = replica_open(primary);
    await_true(pg, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'");
    replica_set(pg, "synchronous_standby_names", "*");
    await_true(pg, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'");
    PQfinish(pg);
}

static void nothing_acknowledged_is_lost_in_a_failover(void **state)
{
    struct fixture *f = *state;
    const char *given = getenv("FAILOVERS");
    if (f->sqlite) {
        skip();
    }
    int failovers = given ? (int)strtol(given, NULL, 10) : FAILOVERS;
    struct replica primary = replica_start();
    for (int i = 0; i < failovers; i++) {
        char url[URL_BYTES];
        static struct load load;
        struct replica standby = replica_standby(&primary);
        require_standby(&primary);
        PGconn *pg = replica_open(&primary);
        side_must(pg,
                  /* a log for this round alone */
                  "DROP SCHEMA IF EXISTS holdfast, holdfast_private CASCADE");
        PQfinish(pg);
        replica_url(i % 2 ? &standby : &primary, i % 2 ? &primary : &standby, url, sizeof url);
        load_start(&load, url);
        load_await(&load, WARM_EVENTS);
        replica_kill(&primary);
        replica_promote(&standby);
        int64_t resumed_ms = load_await(&load, LOAD_PUBLISHERS + 1);
        print_message("# failover %d: went on after %d ms\n", i + 1, (int)resumed_ms);
        must_hold(resumed_ms < RESUMED_MS);
        load_await(&load, WARM_EVENTS);
        load_finish(&load);
        pg = replica_open(&standby);
        load_judge(&load, pg);
        PQfinish(pg);
        replica_stop(&primary);
        primary = standby;
    }
    replica_stop(&primary);
}

/* ---- A commit that is perhaps not on the standby --------------------------------------------- */

struct attempt {
    struct store *store;
    struct new_event event;
    int64_t timeout_ms;
    uint64_t news; /* before */
    hf_status status;
    atomic_bool answered;
};

static void publish_in_a_thread(int index, void *ctx)
{
    struct attempt *attempt = ctx;
    (void)index;
    struct append append = append_of(&attempt->event, 1);
    attempt->status =
        store_run(attempt->store, &append.change, deadline_after_ms(attempt->timeout_ms));
    atomic_store(&attempt->answered, true);
}

/* Publishes, and when the server waits for its standby does this to the waiting process. The first
 * commits may not wait yet: the server takes its time to hear of a setting. */
static void interrupt(struct attempt *attempt, PGconn *pg, const char *function)
{
    int64_t begun_ms = mono_ms();
    int64_t hit = 0;
    while (hit == 0) {
        struct crowd crowd;
        must_hold(mono_ms() - begun_ms < DEADLINE_MS);
        attempt->event = event_of("t", NULL);
        atomic_store(&attempt->answered, false);
        attempt->news = store_news(attempt->store);
        crowd_start(&crowd, 1, publish_in_a_thread, attempt);
        while (hit == 0 && !atomic_load(&attempt->answered)) {
            hit = side_number(pg,
                              "SELECT count(%s(pid)) FROM pg_stat_activity WHERE "
                              "wait_event = 'SyncRep' AND query LIKE '%%holdfast.append%%' AND "
                              "application_name = 'victim'",
                              function);
        }
        crowd_join(&crowd);
    }
}

/* Publishes the same event again. Whether it is begun in time is up to the machine; then it is
 * open. */
static void must_stay_unknown(struct attempt *attempt)
{
    int64_t timeout_ms = attempt->timeout_ms;
    do {
        publish_in_a_thread(0, attempt);
        attempt->timeout_ms *= 2;
    } while (attempt->status != HF_UNKNOWN && attempt->status && attempt->timeout_ms < DEADLINE_MS);
    must_answer(HF_UNKNOWN, attempt->status);
    attempt->timeout_ms = timeout_ms;
}

/* With as little time as this machine can open a store in. */
static struct store *open_hasty(struct fixture *f)
{
    struct store_options options = fixture_options(f, "victim");
    struct store *store = NULL;
    hf_status status;
    options.durability = HF_DURABILITY_POWER;
    options.timeout_ms = HASTE_MS / 2;
    do {
        options.timeout_ms *= 2;
        status = store_open(f->url, &options, &store);
    } while (status && options.timeout_ms < DEADLINE_MS);
    must_answer(HF_OK, status);
    return store;
}

/* The row is there and can be seen; but a failover would take it away. So no process may say that
 * it is stored, also not who publishes the same id again. */
static void a_publish_is_of_unknown_outcome_until_the_standby_has_it(void **state)
{
    struct fixture *f = *state;
    if (f->sqlite) {
        skip();
    }
    static const char *const ways[] = {"pg_cancel_backend", "pg_terminate_backend"};
    struct replica cluster = replica_start();
    replica_url(&cluster, NULL, f->url, sizeof f->url);
    PGconn *pg = replica_open(&cluster);
    fixture_close(f, fixture_open(f, "maker")); /* which takes its time */
    struct attempt attempt = {.store = open_hasty(f), .timeout_ms = HASTE_MS};
    append_one(attempt.store, "t", NULL);
    for (int i = 0; i < 2; i++) {
        replica_set(pg, "synchronous_standby_names", "nobody");
        interrupt(&attempt, pg, ways[i]);
        must_answer(HF_UNKNOWN, attempt.status);
        must_hold(store_news(attempt.store) != attempt.news); /* it can be read */
        must_stay_unknown(&attempt);                          /* again, with the same id */
        replica_set(pg, "synchronous_standby_names", "");
        attempt.timeout_ms = DEADLINE_MS;
        publish_in_a_thread(0, &attempt);
        must_answer(HF_OK, attempt.status);
        must_equal(true, attempt.event.duplicate);
        attempt.timeout_ms = HASTE_MS;
    }
    store_close(attempt.store);
    PQfinish(pg);
    replica_stop(&cluster);
}

/* ---- Two servers at once --------------------------------------------------------------------- */

/* How many sessions the store has with a server. */
static int64_t sessions_of(PGconn *pg)
{
    return side_number(pg, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'");
}

/*
 * The standby is promoted while the old primary lives on, takes no new session, and keeps those
 * that it has: the next session is one of the new primary. What was read from the old one is not
 * put together with what the new one says, and no session stays with the old one.
 */
static void sessions_of_two_servers_are_not_mixed(void **state)
{
    struct fixture *f = *state;
    if (f->sqlite) {
        skip();
    }
    struct replica old = replica_start();
    PGconn *pg = replica_open(&old);
    side_must(pg, "CREATE ROLE app LOGIN");
    side_must(pg, "ALTER DATABASE " REPLICA_DATABASE " OWNER TO app");
    struct replica new = replica_standby(&old);
    replica_url(&old, &new, f->url, sizeof f->url);
    size_t used = strlen(f->url);
    snprintf(f->url + used, sizeof f->url - used, "&user=app");
    struct store *store = fixture_open(f, "mover");
    struct audience audience;
    audience_open(&audience, store, 0, false, "*");
    append_count(store, "t", 2);
    audience_await(&audience, 2);
    side_must(pg, "CHECKPOINT"); /* commits of the store need not wait for the disk */
    await_true(pg, "SELECT count(*) FROM pg_stat_replication "
                   "WHERE replay_lsn >= pg_current_wal_lsn()");
    replica_promote(&new);
    PGconn *other = replica_open(&new);
    await_true(other, "SELECT (NOT pg_is_in_recovery())::integer");
    side_must(pg, "ALTER ROLE app CONNECTION LIMIT 0");
    must_hold(side_number(pg, "SELECT count(pg_terminate_backend(pid, 60000)) FROM "
                              "pg_stat_activity WHERE usename = 'app' AND query LIKE "
                              "'SELECT t.position%%'") > 0);
    int64_t next = side_publish(other, f, "t", NULL);
    must_hold(next > 2);
    int64_t floor = -7;
    bool more;
    hf_status status;
    do {
        batch_clear(&audience.batch);
        status = store_reader_next(audience.reader, &audience.filter, 10, &audience.batch, &floor,
                                   &more);
        must_equal(0, audience.batch.count);
    } while (status == HF_UNAVAILABLE);
    must_answer(HF_STALE, status);
    audience_close(&audience);
    audience_open(&audience, store, 2, false, "*");
    audience_await(&audience, next);
    must_hold(audience.seen[next]);
    must_hold(append_one(store, "t", NULL) > next); /* the writer has gone over, too */
    int64_t begun_ms = mono_ms();
    while (sessions_of(pg) > 0) {
        must_hold(mono_ms() - begun_ms < DEADLINE_MS);
        store_wake(store);
        usleep(5000);
    }
    must_hold(sessions_of(other) > 0);
    audience_close(&audience);
    fixture_close(f, store);
    PQfinish(pg);
    PQfinish(other);
    replica_stop(&old);
    replica_stop(&new);
}

static const struct CMUnitTest claims[] = {
    CLAIM(nothing_acknowledged_is_lost_in_a_failover),
    CLAIM(sessions_of_two_servers_are_not_mixed),
    CLAIM(a_publish_is_of_unknown_outcome_until_the_standby_has_it),
};

FIXTURE_MAIN("failover", claims, NULL)
