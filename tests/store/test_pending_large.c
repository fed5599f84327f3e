/*
 * test_pending_large.c - many events before a subscription: counting what is pending looks at a
 * bounded part of them.
 *
 * What is looked at is counted, not timed: steps of SQLite's virtual machine, blocks that
 * PostgreSQL reads. bench/types.c measures the time.
 */
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/progress.h"
#include "support/make.h"
#include "support/postgres.h"

#define FEW 15000 /* more than are counted */
#define MANY (2 * STORE_PENDING_ROWS_MAX)
#define SQL_BYTES 2048

/* ---- Many events ----------------------------------------------------------------------------- */

/* Adds events from..to. The last of MANY is of a rare type. */
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

static void fill(struct fixture *fixture, int from, int to)
{
    if (fixture->sqlite) {
        fill_sqlite(fixture, from, to);
    } else {
        fill_postgres(fixture, from, to);
    }
}

static int64_t subscribe(struct store *store, const char *name, const char *patterns_json)
{
    struct subscription_put put = put_of(name, HF_MODE_SHARED, 1);
    put.patterns_json = text_of(patterns_json);
    must_answer(HF_OK, RUN(store, &put));
    return put.ret_id;
}

/* ---- What is looked at ----------------------------------------------------------------------- */

static atomic_llong steps; /* of all statements on files of this process, as far as they ended */

static int note_statement(unsigned event, void *ctx, void *statement, void *duration_ns)
{
    (void)event, (void)ctx, (void)duration_ns;
    atomic_fetch_add(&steps, sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, 1));
    return 0;
}

/* SQLite calls it with every connection that is opened. */
static int trace_connection(sqlite3 *db, const char **ret_error, const void *functions)
{
    (void)ret_error, (void)functions;
    return sqlite3_trace_v2(db, SQLITE_TRACE_PROFILE, note_statement, NULL);
}

static int64_t number_after(const char *line, const char *name)
{
    const char *at = strstr(line, name);
    return at ? strtoll(at + strlen(name), NULL, 10) : 0;
}

/* Blocks that a session of the server looks at when it counts for this subscription. */
static int64_t blocks_of(struct fixture *fixture, int64_t id)
{
    char sql[SQL_BYTES];
    snprintf(sql, sizeof sql,
             "SELECT namespace_id FROM holdfast_private.subscriptions WHERE id = %lld",
             (long long)id);
    PGresult *result = postgres_ask(fixture->url, sql);
    must_equal(1, PQntuples(result));
    snprintf(sql, sizeof sql,
             "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) SELECT holdfast.pending_%s(%lld, %d)",
             PQgetvalue(result, 0, 0), (long long)id, HF_PENDING_MAX);
    PQclear(result);
    int64_t blocks = 0;
    for (int i = 0; i < 2; i++) { /* the first time the session reads catalogs and plans */
        result = postgres_ask(fixture->url, sql);
        must_equal(PGRES_TUPLES_OK, PQresultStatus(result));
        const char *line = "";
        for (int row = PQntuples(result) - 1; row >= 0; row--) { /* the first is of the whole */
            const char *it = PQgetvalue(result, row, 0);
            line = strstr(it, "Buffers:") ? it : line;
        }
        blocks = number_after(line, "shared hit=") + number_after(line, "read=");
        PQclear(result);
    }
    return blocks;
}

/* Counts what is pending for a subscription to nearly everything; how much is looked at. */
static int64_t looked_at(struct fixture *fixture, struct store *store, int64_t id,
                         const char *pattern)
{
    atomic_store(&steps, 0);
    struct pending pending = pending_of(store, id, pattern, HF_PENDING_MAX);
    int64_t much = fixture->sqlite ? atomic_load(&steps) : blocks_of(fixture, id);
    must_equal(HF_PENDING_MAX, pending.count);
    must_equal(true, pending.more);
    must_hold(much > 0);
    printf("# %s: %lld %s\n", pattern, (long long)much, fixture->sqlite ? "steps" : "blocks");
    return much;
}

/* ---- Claims ---------------------------------------------------------------------------------- */

static void counting_what_is_pending_looks_at_no_more_of_a_longer_log(void **state)
{
    static const char *const patterns[] = {"*", "common.*"};
    struct fixture *fixture = *state;
    struct store *store = fixture_open(fixture, "a");
    int64_t ids[2] = {
        subscribe(store, "all", "[\"*\"]"),
        subscribe(store, "typed", "[\"common.*\", \"rare\"]"),
    };
    int64_t few[2];
    fill(fixture, 1, FEW);
    for (int i = 0; i < 2; i++) {
        few[i] = looked_at(fixture, store, ids[i], patterns[i]);
    }
    fill(fixture, FEW + 1, MANY);
    for (int i = 0; i < 2; i++) {
        /* A larger index may have one more level. */
        must_hold(looked_at(fixture, store, ids[i], patterns[i]) <= few[i] + few[i] / 4);
    }
}

/* The rare event is behind all the others: the search ends before it, and does not report that
 * there is none. */
static void the_search_for_a_rare_type_ends_after_a_bounded_part_of_the_log(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = fixture_open(fixture, "a");
    int64_t id = subscribe(store, "rare", "[\"rare\"]");
    fill(fixture, 1, MANY);
    struct pending pending = pending_of(store, id, "rare", HF_PENDING_MAX);
    must_equal(true, pending.more);
    must_equal(0, pending.count);
    must_equal(-1, pending.first_at_us);
}

static const struct CMUnitTest claims[] = {
    CLAIM(counting_what_is_pending_looks_at_no_more_of_a_longer_log),
    CLAIM(the_search_for_a_rare_type_ends_after_a_bounded_part_of_the_log),
};

int main(int argc, char **argv)
{
    sqlite3_auto_extension((void (*)(void))trace_connection);
    return fixture_main(argc, argv, "pending_large", claims, sizeof claims / sizeof claims[0],
                        NULL);
}
