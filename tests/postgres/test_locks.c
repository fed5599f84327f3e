/*
 * test_locks.c - what the gap proof asks of pg_locks: whoever has drawn a number, and holds its
 * transaction open while somebody looks, is seen by that look.
 *
 * nextval's lock is a weak one, which a session keeps to itself (fastpath) until somebody asks for
 * a strong lock on the same sequence; then it is moved into the shared table, while others look.
 * Sessions draw and hold, one asks for the strong lock again and again and gives up after a moment,
 * and two look. LOCKS_MS (3000) says how long.
 */
#include "postgres/support_stage.h"

#include "support/crowd.h"

#include <stdatomic.h>

#define HOLDERS 8
#define LOOKERS 2
#define RUN_MS 3000

/* Roles of the crowd: holders, then lookers, then the one who asks for the strong lock. */
struct holding {
    atomic_llong turn; /* odd while it holds the lock */
    atomic_llong key;  /* its process */
};

struct watch {
    const char *url;
    int64_t until_us;
    struct holding holders[HOLDERS];
    atomic_llong checks;
    atomic_llong missed;
    atomic_llong kept;  /* seen in a session's own memory */
    atomic_llong moved; /* seen in the table */
};

static bool is_strong(const struct watch *watch)
{
    return watch->checks > 100 && watch->kept > 0 && watch->moved > 0;
}

/* A slow machine gets longer. */
static bool goes_on(const struct watch *watch)
{
    int64_t now_us = mono_us();
    return now_us < watch->until_us ||
           (!is_strong(watch) && now_us < watch->until_us + PATIENCE_MS * 1000);
}

static void hold(struct watch *watch, int index)
{
    struct holding *self = &watch->holders[index];
    PGconn *pg = side_open_url(watch->url);
    atomic_store(&self->key, PQbackendPID(pg));
    for (int i = 0; goes_on(watch); i++) {
        side_must(pg, "BEGIN");
        stage_draw(pg);
        atomic_fetch_add(&self->turn, 1);
        usleep((useconds_t)(index * 700 + i % 5 * 300));
        atomic_fetch_add(&self->turn, 1); /* before it ends */
        side_must(pg, i % 2 ? "COMMIT" : "ROLLBACK");
    }
    PQfinish(pg);
}

static bool is_listed(const PGresult *rows, long long key)
{
    for (int row = 0; row < PQntuples(rows); row++)
        if (strtoll(PQgetvalue(rows, row, 0), NULL, 10) == key)
            return true;
    return false;
}

static void look(struct watch *watch)
{
    PGconn *pg = side_open_url(watch->url);
    char sql[512];
    snprintf(sql, sizeof sql,
             "SELECT l.pid, l.fastpath FROM pg_locks l WHERE l.locktype = 'relation' "
             "AND l.mode = 'RowExclusiveLock' AND l.granted AND l.database = (SELECT oid FROM "
             "pg_database WHERE datname = current_database()) "
             "AND l.relation = 'holdfast.events_%lld_position'::regclass",
             (long long)stage_namespace(pg));
    while (goes_on(watch)) {
        long long before[HOLDERS];
        for (int i = 0; i < HOLDERS; i++)
            before[i] = atomic_load(&watch->holders[i].turn);
        PGresult *rows = PQexec(pg, sql);
        assert_int_equal(PQresultStatus(rows), PGRES_TUPLES_OK);
        for (int i = 0; i < HOLDERS; i++) {
            /* It held the lock when the look began, and does so still. */
            if (before[i] % 2 == 0 || atomic_load(&watch->holders[i].turn) != before[i])
                continue;
            atomic_fetch_add(&watch->checks, 1);
            if (!is_listed(rows, atomic_load(&watch->holders[i].key)))
                atomic_fetch_add(&watch->missed, 1);
        }
        for (int row = 0; row < PQntuples(rows); row++)
            atomic_fetch_add(PQgetvalue(rows, row, 1)[0] == 't' ? &watch->kept : &watch->moved, 1);
        PQclear(rows);
    }
    PQfinish(pg);
}

static void ask_for_the_strong_lock(struct watch *watch)
{
    PGconn *pg = side_open_url(watch->url);
    long long id = (long long)stage_namespace(pg);
    char sql[128];
    snprintf(sql, sizeof sql, "ALTER SEQUENCE holdfast.events_%lld_position CACHE 1", id);
    side_must(pg, "SET lock_timeout = '2ms'");
    while (goes_on(watch)) {
        PQclear(PQexec(pg, sql)); /* it gets it, or gives up: both are well */
        usleep(2000);
    }
    PQfinish(pg);
}

static void take_part(int index, void *ctx)
{
    if (index < HOLDERS)
        hold(ctx, index);
    else if (index < HOLDERS + LOOKERS)
        look(ctx);
    else
        ask_for_the_strong_lock(ctx);
}

static void whoever_holds_the_lock_throughout_a_look_is_seen(void **state)
{
    static struct watch watch;
    struct scene *scene = *state;
    const char *ms = getenv("LOCKS_MS");
    if (scene->path)
        skip();
    watch.url = scene->url;
    watch.until_us = mono_us() + (ms ? strtoll(ms, NULL, 10) : RUN_MS) * 1000;
    crowd_run(HOLDERS + LOOKERS + 1, take_part, &watch);
    printf("# %lld checks, %lld missed; %lld locks seen with their sessions, %lld in the table\n",
           (long long)watch.checks, (long long)watch.missed, (long long)watch.kept,
           (long long)watch.moved);
    assert_int_equal(watch.missed, 0);
    assert_true(is_strong(&watch));
}

static const struct CMUnitTest tests[] = {
    scene_test(whoever_holds_the_lock_throughout_a_look_is_seen),
};

SCENE_MAIN(tests)
