/*
 * test_crash.c - what a crash of the server leaves of open, prepared and rolled-back publishes; and
 * a server that hides its locks.
 *
 * Each test has a server of its own, because it stops it without a word and starts it again, or
 * takes rights away that all roles have.
 */
#include "postgres/support_audience.h"
#include "postgres/support_cluster.h"

#include <signal.h>
#include <unistd.h>

#include "store/postgres/read/reader.h"

struct scene {
    struct fixture *f;
    struct cluster cluster;
    struct store *store;
    struct audience loose;
    struct audience strict;
    PGconn *a;
    PGconn *b;
    PGconn *root; /* the server's superuser */
};

static void connect_all(struct scene *s)
{
    s->a = side_open(s->f);
    s->b = side_open(s->f);
}

static void open_readers(struct scene *s, int64_t after)
{
    audience_open(&s->loose, s->store, after, false, "*");
    audience_open(&s->strict, s->store, after, true, "*");
}

static struct scene scene_of(struct fixture *f, const char *role)
{
    if (f->sqlite) {
        skip();
    }
    struct scene s = {.f = f};
    cluster_start(&s.cluster);
    cluster_database(&s.cluster, "hf", f->url, sizeof f->url);
    s.root = side_open(f);
    if (role) {
        side_must(s.root, "CREATE ROLE %s LOGIN", role);
        side_must(s.root, "ALTER DATABASE hf OWNER TO %s", role);
        size_t used = strlen(f->url); /* of two, the last one counts */
        snprintf(f->url + used, sizeof f->url - used, "&user=%s", role);
    }
    s.store = fixture_open(f, "reader");
    open_readers(&s, 0);
    connect_all(&s);
    return s;
}

static void scene_end(struct scene *s)
{
    audience_close(&s->loose);
    audience_close(&s->strict);
    fixture_close(s->f, s->store);
    PQfinish(s->a);
    PQfinish(s->b);
    PQfinish(s->root);
    cluster_stop(&s->cluster);
}

/* Stops the server as a power failure would, starts it again, and connects anew. */
static void crash(struct scene *s)
{
    cluster_crash(&s->cluster);
    PQfinish(s->a);
    PQfinish(s->b);
    PQfinish(s->root);
    s->root = side_open(s->f);
    connect_all(s);
}

/* The readers know that the server is another one, and others take their place, from `after` on. */
static void begin_again(struct scene *s, int64_t after)
{
    struct audience *readers[] = {&s->loose, &s->strict};
    for (int i = 0; i < 2; i++) {
        int64_t floor = -7;
        bool more;
        int unavailable = 0; /* that the connection is lost, and that the server is another one */
        hf_status status;
        batch_clear(&readers[i]->batch);
        do {
            status = store_reader_next(readers[i]->reader, &readers[i]->filter, 10,
                                       &readers[i]->batch, &floor, &more);
            unavailable += status == HF_UNAVAILABLE;
        } while (status == HF_UNAVAILABLE && unavailable <= 2);
        must_answer(HF_STALE, status);
        must_hold(unavailable > 0);
        must_equal(-7, floor);
        must_equal(0, readers[i]->batch.count);
        audience_close(readers[i]);
    }
    open_readers(s, after);
}

static int64_t publish(const struct scene *s, PGconn *pg)
{
    return side_publish(pg, s->f, "t", NULL);
}

static void read_for_a_while(struct scene *s)
{
    for (int i = 0; i < 10; i++) {
        usleep(30000);
        audience_read(&s->loose);
        audience_read(&s->strict);
    }
}

static void a_prepared_publish_is_waited_for_across_a_crash(void **state)
{
    struct scene s = scene_of(*state, NULL);
    side_must(s.a, "BEGIN");
    must_equal(1, publish(&s, s.a));
    must_equal(2, publish(&s, s.b));
    read_for_a_while(&s);
    side_must(s.a, "PREPARE TRANSACTION 'survivor'");
    read_for_a_while(&s);
    must_equal(0, s.loose.floor);
    crash(&s);
    begin_again(&s, 0);
    read_for_a_while(&s);
    must_read("2", audience_list(&s.loose));
    must_read("", audience_list(&s.strict));
    must_equal(0, s.loose.floor);
    int64_t next = publish(&s, s.b); /* a crash skips some numbers: they are dead */
    must_hold(next > 2);
    read_for_a_while(&s);
    must_equal(0, s.strict.floor);
    side_must(s.a, "COMMIT PREPARED 'survivor'");
    audience_await(&s.loose, next);
    audience_await(&s.strict, next);
    must_equal(3, s.loose.count);
    must_hold(s.loose.seen[1] && s.strict.seen[1]);
    must_equal(1, s.strict.positions[0]);
    scene_end(&s);
}

static void only_holes_of_publishers_that_a_crash_interrupted_are_dead(void **state)
{
    struct scene s = scene_of(*state, NULL);
    must_equal(1, publish(&s, s.b));
    side_must(s.a, "BEGIN");
    must_equal(2, publish(&s, s.a));
    must_equal(3, publish(&s, s.b));
    read_for_a_while(&s);
    must_equal(1, s.loose.floor);
    crash(&s);
    begin_again(&s, 1); /* the checkpoint */
    audience_await(&s.loose, 3);
    audience_await(&s.strict, 3);
    must_read("3", audience_list(&s.strict));
    int64_t next = publish(&s, s.a);
    audience_await(&s.loose, next);
    audience_await(&s.strict, next);
    must_equal(2, s.loose.count);
    scene_end(&s);
}

/* Publishes 1, which is kept, and 2 to 4, which a crash takes back: their commit does not wait for
 * the disk. Both readers have read them. */
static void publish_what_a_crash_takes_back(struct scene *s)
{
    must_equal(1, publish(s, s->b));
    side_must(s->a, "SET synchronous_commit = off");
    int64_t id = side_namespace(s->a, s->f);
    side_must(s->a, "SELECT pg_switch_wal()");
    side_must(s->a, "CHECKPOINT");
    side_must(s->a,
              "INSERT INTO holdfast_private.events (position, hash, checksum, emitted_at, "
              "entered_at, id, namespace_id, type, payload) "
              "SELECT e.position, 1, holdfast_private.checksum_of(holdfast_private.content_of("
              "e.id, now(), 't', NULL, NULL, NULL, NULL, NULL, '{}'), 1, e.position, now(), NULL), "
              "now(), now(), e.id, %lld, 't', '{}' "
              "FROM (SELECT holdfast_private.draw(%lld) AS position, gen_random_uuid() AS id "
              "FROM generate_series(1, 3)) e",
              (long long)id, (long long)id);
    audience_await(&s->loose, 4);
    audience_await(&s->strict, 4);
}

/* The crash is over, and the checkpoint is at 1. What is published now must come, whichever
 * position it gets. */
static void must_deliver_what_comes_next(struct scene *s)
{
    begin_again(s, 1);
    int64_t last = publish(s, s->b);
    audience_await(&s->loose, last);
    must_hold(s->loose.seen[last]);
    audience_await(&s->strict, last);
    must_hold(s->strict.seen[last]);
}

/* Positions whose commit did not wait for the disk may be given again: a reader must not go on from
 * what it saw before. */
static void a_reader_does_not_go_on_from_positions_that_a_crash_has_taken_back(void **state)
{
    struct scene s = scene_of(*state, NULL);
    publish_what_a_crash_takes_back(&s);
    crash(&s);
    must_deliver_what_comes_next(&s);
    scene_end(&s);
}

/* Asks until the server answers: then the session that the readers will borrow next has been
 * connected anew, by another call than theirs. */
static void ask_until_answered(struct scene *s)
{
    int64_t head;
    int64_t kept;
    int64_t begun_ms = mono_ms();
    while (store_head(s->store, &head, &kept) != HF_OK) {
        must_hold(mono_ms() - begun_ms < DEADLINE_MS);
        usleep(10000);
    }
}

/* The readers find a session that works, and nothing fails: only its era says that the server is
 * another one. */
static void a_session_that_others_made_after_a_crash_does_not_deceive_readers(void **state)
{
    struct scene s = scene_of(*state, NULL);
    publish_what_a_crash_takes_back(&s);
    crash(&s);
    ask_until_answered(&s);
    must_deliver_what_comes_next(&s);
    scene_end(&s);
}

/* One process of the server is killed, and the server starts the others anew. It has not been
 * restarted itself, so the time of its start is the same; but it has forgotten as much. */
static void a_server_that_restarts_its_processes_begins_anew(void **state)
{
    static const char started[] =
        "SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint";
    struct scene s = scene_of(*state, NULL);
    publish_what_a_crash_takes_back(&s);
    int64_t start_us = side_number(s.root, started);
    must_equal(0, kill(PQbackendPID(s.a), SIGKILL));
    while (PQping(s.f->url) == PQPING_OK && PQstatus(s.root) == CONNECTION_OK) {
        PQclear(PQexec(s.root, "SELECT 1"));
    }
    while (PQping(s.f->url) != PQPING_OK) {
        usleep(10000);
    }
    PQfinish(s.a);
    PQfinish(s.b);
    PQfinish(s.root);
    s.root = side_open(s.f);
    connect_all(&s);
    must_equal(start_us, side_number(s.root, started));
    ask_until_answered(&s);
    must_deliver_what_comes_next(&s);
    scene_end(&s);
}

/* Where publishers cannot be seen, gaps stay open for ever, or until the time that was given for
 * them is over. That is a guess: here it is wrong, and the reader says so. */
static void where_locks_are_hidden_only_the_timeout_passes_a_gap(void **state)
{
    struct scene s = scene_of(*state, "app");
    side_must(s.root, "REVOKE SELECT ON pg_locks FROM PUBLIC");
    postgres_reader_gap_timeout(s.loose.reader, 200);
    side_must(s.a, "BEGIN");
    must_equal(1, publish(&s, s.a));
    must_equal(2, publish(&s, s.b));
    audience_read(&s.loose);
    must_equal(0, s.loose.floor);
    must_equal(1, postgres_reader_gaps(s.loose.reader).open);
    audience_await(&s.loose, 2);
    must_equal(1, postgres_reader_gaps(s.loose.reader).skipped);
    must_equal(0, postgres_reader_gaps(s.loose.reader).dead);
    read_for_a_while(&s);
    must_equal(0, s.strict.floor); /* it was not given a timeout */
    side_must(s.a, "COMMIT");
    audience_await(&s.strict, 2); /* what is visible needs no proof */
    must_read("1 2", audience_list(&s.strict));
    must_read("2", audience_list(&s.loose)); /* lost, as was threatened */
    /* When the locks can be seen again, there are proofs again. */
    side_must(s.root, "GRANT SELECT ON pg_locks TO PUBLIC");
    side_must(s.a, "BEGIN");
    must_equal(3, publish(&s, s.a));
    must_equal(4, publish(&s, s.b));
    side_must(s.a, "ROLLBACK");
    audience_await(&s.strict, 4);
    must_equal(1, postgres_reader_gaps(s.strict.reader).dead);
    scene_end(&s);
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_prepared_publish_is_waited_for_across_a_crash),
    CLAIM(only_holes_of_publishers_that_a_crash_interrupted_are_dead),
    CLAIM(a_reader_does_not_go_on_from_positions_that_a_crash_has_taken_back),
    CLAIM(a_session_that_others_made_after_a_crash_does_not_deceive_readers),
    CLAIM(a_server_that_restarts_its_processes_begins_anew),
    CLAIM(where_locks_are_hidden_only_the_timeout_passes_a_gap),
};

FIXTURE_MAIN("crash", claims, NULL)
