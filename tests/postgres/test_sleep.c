/*
 * test_sleep.c - consumers that sleep are woken by every publish, whatever the order of its steps
 * and of theirs: the cases of keeper.c, each forced with another connection.
 *
 * A sleeper waits far longer than a test may last, so a wake-up that is lost fails the claim. The
 * last claims lose the notification on purpose: then the event is late, and it is there.
 */
#include "postgres/support_audience.h"

#include "support/crowd.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/point.h"

#define SLEEP_MS 120000
#define PROMPT_MS 20000 /* a wake-up of our own takes milliseconds */
#define SHORT_LEASE_MS 60
#define CROWD 6 /* publishers at once */
#define PUBLISHES 100
#define APART_MS 20 /* between two looks for sleepers while there are none (keeper.c) */

struct sleeper {
    struct fixture *f;
    struct store *store;
    struct audience audience;
    PGconn *a;
    PGconn *b;
    uint64_t seen;
    atomic_bool woken;
    atomic_int heard; /* events that sleep_on has read */
    int64_t woken_after_ms;
    struct crowd crowd;
};

static struct sleeper sleeper_of(struct fixture *f)
{
    if (f->sqlite) {
        skip();
    }
    struct sleeper s = {.f = f, .store = fixture_open(f, "sleeper")};
    audience_open(&s.audience, s.store, 0, false, "*");
    s.a = side_open(f);
    s.b = side_open(f);
    return s;
}

static void sleeper_end(struct sleeper *s)
{
    audience_close(&s->audience);
    PQfinish(s->a);
    PQfinish(s->b);
}

static int64_t publish(const struct sleeper *s, PGconn *pg)
{
    return side_publish(pg, s->f, "t", NULL);
}

/* Whether a process has declared that it sleeps, as publishers see it. */
static bool is_declared(const struct sleeper *s)
{
    return side_number(s->b,
                       "SELECT (coalesce(pg_sequence_last_value(n.sleep), 0) > extract(epoch FROM "
                       "clock_timestamp()) * 1000000)::int FROM holdfast_private.namespaces n "
                       "WHERE n.name = '%s'",
                       s->f->namespace_name) != 0;
}

static void await_declared(const struct sleeper *s)
{
    int64_t end_ms = mono_ms() + DEADLINE_MS;
    while (!is_declared(s)) {
        must_hold(mono_ms() < end_ms);
        usleep(2000);
    }
}

/* Reads all there is, and remembers the news from before. */
static void read_before_sleep(struct sleeper *s)
{
    s->seen = store_news(s->store);
    audience_read(&s->audience);
}

/* Sleeps until the event at the last position has come. */
static void sleep_until_it_comes(int index, void *ctx)
{
    struct sleeper *s = ctx;
    int64_t begin_ms = mono_ms();
    (void)index;
    while (s->audience.count == 0 && mono_ms() - begin_ms < SLEEP_MS) {
        uint64_t seen = store_wait(s->store, s->seen, SLEEP_MS);
        s->seen = seen;
        audience_read(&s->audience);
    }
    s->woken_after_ms = mono_ms() - begin_ms;
    atomic_store(&s->woken, true);
}

static void must_wake_within(struct sleeper *s, int64_t timeout_ms)
{
    int64_t end_ms = mono_ms() + timeout_ms;
    while (!atomic_load(&s->woken) && mono_ms() < end_ms) {
        usleep(1000);
    }
    bool woken = atomic_load(&s->woken);
    if (!woken) {
        store_wake(s->store); /* let it go, so that the test can end */
    }
    crowd_join(&s->crowd);
    must_hold(woken);
    must_equal(1, s->audience.count);
}

static void must_wake(struct sleeper *s)
{
    must_wake_within(s, PROMPT_MS);
}

static void start_sleeping(struct sleeper *s)
{
    crowd_start(&s->crowd, 1, sleep_until_it_comes, s);
}

/* ---- The cases ------------------------------------------------------------------------------- */

static void an_event_committed_before_the_sleep_flag_wakes(void **state)
{
    struct sleeper s = sleeper_of(*state);
    read_before_sleep(&s);
    must_hold(!is_declared(&s));
    must_equal(1, publish(&s, s.a)); /* none sleeps: none is notified */
    start_sleeping(&s);
    must_wake(&s);
    sleeper_end(&s);
}

/* The keeper has seen the number when it was drawn, before any process slept. When it looks again
 * the head is the same, and no publisher is under way any more. */
static void an_event_seen_when_drawn_and_committed_before_the_sleep_flag_wakes(void **state)
{
    struct sleeper s = sleeper_of(*state);
    int64_t id = subscribe_ordered(s.store, "s", 1);
    struct acquire acquire = acquire_of(id, 0, SHORT_LEASE_MS);
    must_answer(HF_OK, RUN(s.store, &acquire));
    side_must(s.a, "BEGIN");
    must_equal(1, publish(&s, s.a));
    int64_t before = side_number(s.b, "SELECT max(renewals) FROM holdfast_private.processes");
    int64_t end_ms = mono_ms() + DEADLINE_MS;
    while (side_number(s.b, "SELECT max(renewals) FROM holdfast_private.processes") < before + 2) {
        must_hold(mono_ms() < end_ms);
        store_alive(s.store); /* lets the keeper look */
        usleep(2000);
    }
    read_before_sleep(&s);
    must_equal(0, s.audience.count);
    must_hold(!is_declared(&s));
    side_must(s.a, "COMMIT"); /* none sleeps: none is notified */
    start_sleeping(&s);
    must_wake(&s);
    sleeper_end(&s);
}

static void an_event_published_before_the_sleep_flag_and_committed_after_it_wakes(void **state)
{
    struct sleeper s = sleeper_of(*state);
    read_before_sleep(&s);
    side_must(s.a, "BEGIN");
    must_equal(1, publish(&s, s.a)); /* it has looked at the flag, and will notify none */
    start_sleeping(&s);
    await_declared(&s);
    usleep(200000);
    must_hold(!atomic_load(&s.woken));
    side_must(s.a, "COMMIT");
    must_wake(&s);
    sleeper_end(&s);
}

static void an_event_published_after_the_sleep_flag_wakes(void **state)
{
    struct sleeper s = sleeper_of(*state);
    read_before_sleep(&s);
    start_sleeping(&s);
    await_declared(&s);
    side_must(s.a, "BEGIN");
    must_equal(1, publish(&s, s.a));
    usleep(200000);
    must_hold(!atomic_load(&s.woken));
    side_must(s.a, "COMMIT");
    must_wake(&s);
    sleeper_end(&s);
}

static void an_event_published_by_another_process_in_c_wakes(void **state)
{
    struct sleeper s = sleeper_of(*state);
    struct store *other = fixture_open(s.f, "other");
    read_before_sleep(&s);
    start_sleeping(&s);
    await_declared(&s);
    must_equal(1, append_one(other, "t", NULL));
    must_wake(&s);
    sleeper_end(&s);
}

#ifdef HF_FAULTS
static void a_publisher_looks_for_sleepers_less_often_while_there_are_none(void **state)
{
    struct sleeper s = sleeper_of(*state);
    struct store *publisher = fixture_open(s.f, "publisher");
    int64_t before = point_hits("keeper_ring");
    int64_t begun_ms = mono_ms();
    for (int i = 0; i < PUBLISHES; i++) {
        append_one(publisher, "t", NULL);
    }
    int64_t looks = point_hits("keeper_ring") - before;
    must_hold(looks > 0 && (looks - 1) * APART_MS <= mono_ms() - begun_ms);
    sleeper_end(&s);
}
#endif

/* Another session has taken the flag back, as in a flood; notified ones declare it anew. */
static void a_sleep_flag_that_is_taken_back_is_declared_anew(void **state)
{
    struct sleeper s = sleeper_of(*state);
    read_before_sleep(&s);
    start_sleeping(&s);
    await_declared(&s);
    side_must(s.b, "BEGIN");
    side_must(s.b,
              "SELECT pg_notify('holdfast_' || n.id, ''), setval(n.sleep, 1) "
              "FROM holdfast_private.namespaces n WHERE n.name = '%s'",
              s.f->namespace_name);
    side_must(s.b, "COMMIT");
    await_declared(&s);
    must_equal(1, publish(&s, s.a));
    must_wake(&s);
    sleeper_end(&s);
}

/* ---- Lost notifications ---------------------------------------------------------------------- */

static void a_keeper_that_loses_its_connection_wakes_the_sleepers(void **state)
{
    struct sleeper s = sleeper_of(*state);
    read_before_sleep(&s);
    start_sleeping(&s);
    await_declared(&s);
    must_equal(1, side_number(s.b, "SELECT count(pg_terminate_backend(l.pid)) FROM pg_locks l "
                                   "JOIN pg_stat_activity a ON a.pid = l.pid "
                                   "WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND "
                                   "l.database = (SELECT oid FROM "
                                   "pg_database WHERE datname = current_database()) "
                                   "AND a.application_name = 'sleeper'"));
    must_equal(1, publish(&s, s.a));
    must_wake(&s);
    sleeper_end(&s);
}

/* An event without any notification: a process that looks by itself finds it. */
static void without_a_notification_an_event_is_late_and_not_lost(void **state)
{
    struct sleeper s = sleeper_of(*state);
    int64_t id = side_namespace(s.b, s.f);
    read_before_sleep(&s);
    start_sleeping(&s);
    await_declared(&s);
    side_must(
        s.a,
        "INSERT INTO holdfast_private.events (position, hash, checksum, emitted_at, "
        "entered_at, id, "
        "namespace_id, type, payload) SELECT e.position, 1, holdfast_private.checksum_of("
        "holdfast_private.content_of(e.id, now(), 't', NULL, NULL, NULL, NULL, NULL, '{}'), 1, "
        "e.position, now(), NULL), now(), now(), e.id, %lld, 't', '{}' "
        "FROM (SELECT holdfast_private.draw(%lld) AS position, gen_random_uuid() AS id) e",
        (long long)id, (long long)id);
    must_wake_within(&s, DEADLINE_MS); /* by the keeper's next look */
    printf("# without a notification it took %d ms\n", (int)s.woken_after_ms);
    sleeper_end(&s);
}

/* ---- Who must not notify --------------------------------------------------------------------- */

/* Sleeps again and again, as a consumer does. */
static void sleep_on(int index, void *ctx)
{
    struct sleeper *s = ctx;
    (void)index;
    while (!atomic_load(&s->woken)) {
        s->seen = store_wait(s->store, s->seen, SLEEP_MS);
        audience_read(&s->audience);
        atomic_store(&s->heard, (int)s->audience.count);
    }
}

static void end_sleep(struct sleeper *s)
{
    atomic_store(&s->woken, true);
    store_wake(s->store);
    crowd_join(&s->crowd);
}

/* So many publishers are under way that the sleeper spares them. Answers how many events of others
 * were committed meanwhile. */
static int gather_crowd(struct sleeper *s, PGconn *crowd[CROWD])
{
    read_before_sleep(s);
    crowd_start(&s->crowd, 1, sleep_on, s);
    await_declared(s);
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = side_open(s->f);
        side_must(crowd[i], "BEGIN");
        publish(s, crowd[i]);
    }
    int published = 0;
    int64_t end_ms = mono_ms() + DEADLINE_MS;
    do {
        must_hold(mono_ms() < end_ms);
        usleep(5000); /* too slow for a flood */
        publish(s, s->a);
        published++;
    } while (is_declared(s));
    return published;
}

static void end_crowd(PGconn *crowd[CROWD])
{
    for (int i = 0; i < CROWD; i++) {
        side_must(crowd[i], "COMMIT");
        PQfinish(crowd[i]);
    }
}

/* Each commit that notifies waits for the one before it to be on disk, so publishers of whom many
 * are under way are spared, however few notifications come. */
static void many_publishers_at_once_need_not_notify(void **state)
{
    struct sleeper s = sleeper_of(*state);
    PGconn *crowd[CROWD];
    gather_crowd(&s, crowd);
    end_crowd(crowd);
    await_declared(&s); /* the crowd has gone */
    end_sleep(&s);
    sleeper_end(&s);
}

/* The position was seen by a glance when it was drawn, and its commit is not notified of. */
static void an_event_committed_late_among_many_publishers_wakes(void **state)
{
    struct sleeper s = sleeper_of(*state);
    PGconn *crowd[CROWD];
    int expected = gather_crowd(&s, crowd) + 1;
    side_must(s.a, "BEGIN");
    publish(&s, s.a);
    usleep(60000); /* several glances */
    side_must(s.a, "COMMIT");
    int64_t end_ms = mono_ms() + PROMPT_MS;
    while (atomic_load(&s.heard) < expected && mono_ms() < end_ms) {
        usleep(1000);
    }
    int heard = atomic_load(&s.heard);
    end_crowd(crowd);
    end_sleep(&s);
    must_equal(expected, heard);
    sleeper_end(&s);
}

static void a_process_that_ends_takes_its_sleep_flag_along(void **state)
{
    struct sleeper s = sleeper_of(*state);
    read_before_sleep(&s);
    crowd_start(&s.crowd, 1, sleep_on, &s);
    await_declared(&s);
    end_sleep(&s);
    audience_close(&s.audience);
    fixture_close(s.f, s.store);
    must_hold(!is_declared(&s));
    PQfinish(s.a);
    PQfinish(s.b);
}

static const struct CMUnitTest claims[] = {
    CLAIM(an_event_committed_before_the_sleep_flag_wakes),
    CLAIM(an_event_seen_when_drawn_and_committed_before_the_sleep_flag_wakes),
    CLAIM(an_event_published_before_the_sleep_flag_and_committed_after_it_wakes),
    CLAIM(an_event_published_after_the_sleep_flag_wakes),
    CLAIM(an_event_published_by_another_process_in_c_wakes),
#ifdef HF_FAULTS
    CLAIM(a_publisher_looks_for_sleepers_less_often_while_there_are_none),
#endif
    CLAIM(a_sleep_flag_that_is_taken_back_is_declared_anew),
    CLAIM(a_keeper_that_loses_its_connection_wakes_the_sleepers),
    CLAIM(without_a_notification_an_event_is_late_and_not_lost),
    CLAIM(many_publishers_at_once_need_not_notify),
    CLAIM(an_event_committed_late_among_many_publishers_wakes),
    CLAIM(a_process_that_ends_takes_its_sleep_flag_along),
};

FIXTURE_MAIN("sleep", claims, NULL)
