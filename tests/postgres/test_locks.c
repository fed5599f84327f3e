/*
 * test_locks.c - what the gap proof asks of pg_locks: a transaction that has drawn a number, and is
 * open while a look (holdfast.publishing_now) takes place, is seen by that look.
 *
 * Sessions publish and hold, some of them below savepoints, before which they publish something
 * that they roll back; two others look. A stranger without any right lets locks come and go in the
 * shared table meanwhile, and holds, in transactions that have an id, the very keys that it sees
 * publishers hold: it must not be taken for one. LOCKS_MS (3000) says how long.
 */
#include "postgres/support_stage.h"

#include "support/crowd.h"

#include <stdatomic.h>

#define HOLDERS 8
#define LOOKERS 2
#define RUN_MS 3000
#define CHECKS_MIN 100

/* Roles of the crowd: holders, then lookers, then the stranger. */
struct holding {
    atomic_llong turn;    /* odd while it has published and is open */
    atomic_llong backend; /* its process */
};

struct watch {
    const char *url;
    int64_t until_us;
    struct holding holders[HOLDERS];
    atomic_llong stranger; /* its process */
    atomic_llong checks;
    atomic_llong missed;
    atomic_llong copied;   /* keys of publishers that the stranger held, too */
    atomic_llong mistaken; /* looks that took the stranger for a publisher */
};

/* A slow machine gets longer. */
static bool goes_on(const struct watch *watch)
{
    int64_t now_us = mono_us();
    bool enough = watch->checks > CHECKS_MIN && watch->copied > 0;
    return now_us < watch->until_us || (!enough && now_us < watch->until_us + DEADLINE_MS * 1000);
}

static void hold(struct watch *watch, int index)
{
    struct holding *self = &watch->holders[index];
    PGconn *pg = side_open_url(watch->url);
    atomic_store(&self->backend, PQbackendPID(pg));
    for (int i = 0; goes_on(watch); i++) {
        side_must(pg, "BEGIN");
        if (i % 3 == 0) {
            side_must(pg, "SAVEPOINT undone");
            stage_draw(pg);
            side_must(pg, "ROLLBACK TO SAVEPOINT undone");
            side_must(pg, "SAVEPOINT kept"); /* with an id of its own */
            side_must(pg, "SELECT pg_logical_emit_message(true, 'test', '')");
        }
        stage_draw(pg);
        atomic_fetch_add(&self->turn, 1);
        usleep((useconds_t)(index * 700 + i % 5 * 300));
        atomic_fetch_add(&self->turn, 1); /* before it ends */
        side_must(pg, i % 2 ? "COMMIT" : "ROLLBACK");
    }
    PQfinish(pg);
}

static bool is_listed(const PGresult *rows, long long backend)
{
    for (int row = 0; row < PQntuples(rows); row++) {
        if (strtoll(PQgetvalue(rows, row, 0), NULL, 10) == backend) {
            return true;
        }
    }
    return false;
}

static void look(struct watch *watch)
{
    PGconn *pg = side_open_url(watch->url);
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT pid FROM holdfast.publishing_now(%lld)",
             (long long)stage_namespace(pg));
    while (goes_on(watch)) {
        long long before[HOLDERS];
        for (int i = 0; i < HOLDERS; i++) {
            before[i] = atomic_load(&watch->holders[i].turn);
        }
        PGresult *rows = PQexec(pg, sql);
        assert_int_equal(PQresultStatus(rows), PGRES_TUPLES_OK);
        for (int i = 0; i < HOLDERS; i++) {
            /* It was open when the look began, and is so still. */
            if (before[i] % 2 == 0 || atomic_load(&watch->holders[i].turn) != before[i]) {
                continue;
            }
            atomic_fetch_add(&watch->checks, 1);
            if (!is_listed(rows, atomic_load(&watch->holders[i].backend))) {
                atomic_fetch_add(&watch->missed, 1);
            }
        }
        if (is_listed(rows, atomic_load(&watch->stranger))) {
            atomic_fetch_add(&watch->mistaken, 1);
        }
        PQclear(rows);
    }
    PQfinish(pg);
}

static void imitate(struct watch *watch)
{
    PGconn *pg = side_open_url(watch->url);
    atomic_store(&watch->stranger, PQbackendPID(pg));
    while (goes_on(watch)) {
        side_must(pg, "BEGIN; SELECT pg_current_xact_id()");
        PGresult *rows = PQexec(
            pg, "SELECT count(*) FILTER (WHERE pg_try_advisory_xact_lock_shared("
                "(l.classid::bigint << 32) | l.objid::bigint)) FROM pg_locks l WHERE l.granted "
                "AND l.locktype = 'advisory' AND l.objsubid = 1 AND l.mode = 'ShareLock' AND "
                "l.pid <> pg_backend_pid() AND l.database = (SELECT oid FROM pg_database WHERE "
                "datname = current_database())");
        assert_int_equal(PQresultStatus(rows), PGRES_TUPLES_OK);
        atomic_fetch_add(&watch->copied, strtoll(PQgetvalue(rows, 0, 0), NULL, 10));
        PQclear(rows);
        side_must(pg,
                  "SELECT count(pg_advisory_xact_lock_shared(i)) FROM generate_series(1, 100) i");
        usleep(2000);
        side_must(pg, "ROLLBACK");
    }
    PQfinish(pg);
}

static void take_part(int index, void *ctx)
{
    if (index < HOLDERS) {
        hold(ctx, index);
    } else if (index < HOLDERS + LOOKERS) {
        look(ctx);
    } else {
        imitate(ctx);
    }
}

static void a_publisher_that_is_open_throughout_a_look_is_seen(void **state)
{
    static struct watch watch;
    struct scene *scene = *state;
    const char *ms = getenv("LOCKS_MS");
    if (scene->path) {
        skip();
    }
    watch.url = scene->url;
    watch.until_us = mono_us() + (ms ? strtoll(ms, NULL, 10) : RUN_MS) * 1000;
    crowd_run(HOLDERS + LOOKERS + 1, take_part, &watch);
    printf("# %lld checks, %lld missed; a stranger held %lld of their keys, and was taken for a "
           "publisher %lld times\n",
           (long long)watch.checks, (long long)watch.missed, (long long)watch.copied,
           (long long)watch.mistaken);
    assert_int_equal(watch.missed, 0);
    assert_int_equal(watch.mistaken, 0);
    assert_true(watch.checks > CHECKS_MIN && watch.copied > 0);
}

static const struct CMUnitTest tests[] = {
    scene_test(a_publisher_that_is_open_throughout_a_look_is_seen),
};

SCENE_MAIN(tests)
