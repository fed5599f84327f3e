/*
 * test_pending_large.c - a million events before a subscription: counting what is pending looks at
 * a bounded part of them.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <time.h>

#include "support/make.h"
#include "support/postgres.h"

#define FEW 30000 /* more than are looked at */
#define MANY 1000000
#define ASKS 25
#define RATIO_MAX 4 /* of what looks at a bounded part, beside other programs; else it is 33 */
#define SQL_BYTES 2048

/* Adds events from..to. The millionth is of a rare type. */
static void fill_sqlite(struct fixture *fixture, int from, int to)
{
    sqlite3 *db;
    char sql[SQL_BYTES];
    must_equal(SQLITE_OK, sqlite3_open(fixture_path(fixture), &db));
    snprintf(
        sql, sizeof sql,
        "BEGIN; WITH RECURSIVE n (i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
        "INSERT INTO holdfast_events (place, id, type, hash, checksum, emitted_at, entered_at,"
        " payload)"
        " SELECT (s.id << 44) + i, cast(printf('%%016d', i) AS blob),"
        " CASE WHEN i = %d THEN 'rare' ELSE 'common.type' END, i, 0, i, i,"
        " '{\"number\":1,\"text\":\"some hundred bytes of what an event usually carries, more or"
        " less\"}'"
        " FROM n, (SELECT max(namespace_id) AS id FROM holdfast_subscriptions) s; COMMIT",
        from, to, MANY);
    must_equal(SQLITE_OK, sqlite3_exec(db, sql, NULL, NULL, NULL));
    sqlite3_close(db);
}

static void fill_postgres(struct fixture *fixture, int from, int to)
{
    char sql[SQL_BYTES];
    snprintf(
        sql, sizeof sql,
        "DO $$ DECLARE v_id integer := (SELECT max(namespace_id) FROM"
        " holdfast_private.subscriptions); BEGIN"
        " INSERT INTO holdfast_private.events (position, hash, checksum, emitted_at, entered_at,"
        " id, namespace_id, type, payload) SELECT i, i, 0, now(), now(),"
        " ('00000000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, v_id,"
        " CASE WHEN i = %d THEN 'rare' ELSE 'common.type' END,"
        " '{\"number\":1,\"text\":\"some hundred bytes of what an event usually carries, more or"
        " less\"}' FROM generate_series(%d, %d) i;"
        " PERFORM setval('holdfast_private.events_' || v_id || '_position', %d);"
        " END $$",
        MANY, from, to, to);
    must_equal(true, postgres_run(fixture->url, sql));
}

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static int64_t subscribe(struct store *store, const char *name, const char *patterns_json)
{
    struct subscription_put put = put_of(name, HF_MODE_SHARED, 1);
    put.patterns_json = text_of(patterns_json);
    must_answer(HF_OK, RUN(store, &put));
    return put.ret_id;
}

/* The quickest of many looks: what it costs, not what else the machine does. */
static int64_t quickest_us(struct store *store, int64_t id, const char *pattern,
                           struct pending *ret_pending)
{
    int64_t best_us = INT64_MAX;
    for (int i = 0; i < ASKS; i++) {
        int64_t began_us = now_us();
        *ret_pending = pending_of(store, id, pattern, HF_PENDING_MAX);
        int64_t took_us = now_us() - began_us;
        best_us = took_us < best_us ? took_us : best_us;
    }
    printf("# %s: %lld us\n", pattern, (long long)best_us);
    return best_us;
}

static void fill(struct fixture *fixture, int from, int to)
{
    if (fixture->sqlite) {
        fill_sqlite(fixture, from, to);
    } else {
        fill_postgres(fixture, from, to);
    }
}

/* Counts what is pending for subscriptions to all, to nearly all and to a rare type. */
static void count_all(struct store *store, const int64_t ids[3], int64_t ret_us[3])
{
    static const char *const patterns[] = {"*", "common.*", "rare"};
    for (int i = 0; i < 3; i++) {
        struct pending pending;
        ret_us[i] = quickest_us(store, ids[i], patterns[i], &pending);
        must_equal(true, pending.more);
        if (i < 2) {
            must_equal(HF_PENDING_MAX, pending.count);
        } else {
            /* The rare event is behind all the others: the search ends before it, and does not
             * report that there is none. */
            must_equal(0, pending.count);
            must_equal(-1, pending.first_at_us);
        }
    }
}

static void a_million_pending_events_are_counted_as_quickly_as_a_few(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = fixture_open(fixture, "a");
    int64_t ids[3] = {
        subscribe(store, "all", "[\"*\"]"),
        subscribe(store, "typed", "[\"common.*\", \"rare\"]"),
        subscribe(store, "rare", "[\"rare\"]"),
    };
    int64_t few_us[3];
    int64_t many_us[3];
    fill(fixture, 1, FEW);
    count_all(store, ids, few_us);
    fill(fixture, FEW + 1, MANY);
    count_all(store, ids, many_us);
    for (int i = 0; i < 3; i++) {
        must_hold(many_us[i] <= few_us[i] * RATIO_MAX);
    }
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_million_pending_events_are_counted_as_quickly_as_a_few),
};

FIXTURE_MAIN("pending_large", claims, NULL)
