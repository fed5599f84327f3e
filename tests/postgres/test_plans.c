/*
 * test_plans.c - the plans that the engine's statements get. A statement that is planned wrongly
 * is right and slow, so nothing else would tell. On a live server: skipped unless the URL is one.
 *
 * The statements are run by a session of the test's own, by name (PREPARE), because a session's
 * plans cannot be looked at from outside.
 */
#include "postgres/support_side.h"

#include <stdio.h>
#include <string.h>

#include "postgres_sql.h"
#include "support/fixture.h"
#include "support/make.h"

#define OFTEN 8 /* executions after which a plan is kept, if it ever is */
#define SQL_BYTES 8192

struct scene {
    struct fixture *f;
    int64_t namespace_id;
    PGconn *pg;
};

static struct scene scene_of(struct fixture *f)
{
    if (f->sqlite) {
        skip();
    }
    fixture_open(f, "plans");
    PGconn *pg = side_open(f);
    return (struct scene){.f = f, .namespace_id = side_namespace(pg, f), .pg = pg};
}

/* Prepares a statement of the engine by its name. */
static void prepare(const struct scene *s, enum postgres_query query)
{
    char sql[SQL_BYTES];
    size_t used = 0;
    for (const char *at = postgres_queries[query].sql; *at; at++) {
        must_hold(used < sizeof sql - 32);
        if (strncmp(at, "{namespace}", 11) == 0) {
            used += (size_t)snprintf(sql + used, 32, "%lld", (long long)s->namespace_id);
            at += 10;
        } else {
            sql[used++] = *at;
        }
    }
    sql[used] = '\0';
    side_must(s->pg, "PREPARE %s AS %s", postgres_queries[query].name, sql);
}

/* The plan that a call has after many of them must not have such a line. */
static void must_plan_without(const struct scene *s, const char *call, const char *bad)
{
    char explain[512];
    for (int i = 0; i < OFTEN; i++) {
        side_must(s->pg, "EXECUTE %s", call);
    }
    snprintf(explain, sizeof explain, "EXPLAIN (COSTS OFF) EXECUTE %s", call);
    PGresult *plan = PQexec(s->pg, explain);
    must_equal(PGRES_TUPLES_OK, PQresultStatus(plan));
    for (int row = 0; row < PQntuples(plan); row++) {
        if (strstr(PQgetvalue(plan, row, 0), bad)) {
            check_fail(__FILE__, __LINE__, "%s: %s", call, PQgetvalue(plan, row, 0));
        }
    }
    PQclear(plan);
}

/* ---- The log --------------------------------------------------------------------------------- */

static void look_at_tail(const struct scene *s, enum postgres_query settings)
{
    side_must(s->pg, "BEGIN");
    side_must(s->pg, "%s", postgres_queries[settings].sql);
    static const char *const bad[] = {"Seq Scan", "->  Sort"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        must_plan_without(s, "read_tail_whole (5, 4096)", bad[i]);
        must_plan_without(s, "read_tail (5, 4096, NULL, NULL, '{}')", bad[i]);
        must_plan_without(s, "read_tail (5, 100, '^t$', 16, '{3}')", bad[i]);
    }
    must_hold(side_number(s->pg, "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()") <
              20);
    side_must(s->pg, "ROLLBACK");
}

/* Nor does it touch the tables of other namespaces. */
static void the_tail_is_read_by_index_whether_many_or_few_rows_are_expected(void **state)
{
    struct scene s = scene_of(*state);
    for (int i = 0; i < 30; i++) {
        side_must(s.pg, "SELECT holdfast_private.namespace_put('%s-%d')", s.f->namespace_name, i);
    }
    side_must(s.pg, "SELECT holdfast.publish('%s', 't', '{}') FROM generate_series(1, 2000)",
              s.f->namespace_name);
    prepare(&s, POSTGRES_QUERY_READ_TAIL);
    prepare(&s, POSTGRES_QUERY_READ_TAIL_WHOLE);
    look_at_tail(&s, POSTGRES_QUERY_READ_SETTINGS);
    look_at_tail(&s, POSTGRES_QUERY_READ_SETTINGS_FEW);
    PQfinish(s.pg);
}

/* An INSERT that reads its rows from a function in FROM stores them all first, and one that sorts
 * them stores them twice. */
static void plain_appends_are_inserted_as_they_are_unnested(void **state)
{
    struct scene s = scene_of(*state);
    side_must(s.pg, "SET search_path = pg_catalog, holdfast_private");
    side_must(
        s.pg,
        "DO $do$ DECLARE v_sql text := replace(substring(holdfast.append_source() "
        "FROM 'RETURN QUERY(.*);\nEND'), '{namespace}', '%lld'); v_parameter record; BEGIN "
        "FOR v_parameter IN SELECT * FROM unnest('{ids,types,payloads,keys,tenants,metadata,"
        "producers,emitted_at,guard_at,hashes,contents}'::text[]) "
        "WITH ORDINALITY p (name, place) LOOP "
        "v_sql := replace(v_sql, 'p_' || v_parameter.name, '$' || v_parameter.place); "
        "END LOOP; v_sql := regexp_replace(v_sql, 'v_(entered_at|from|to)', 'now()', 'g'); "
        "v_sql := replace(v_sql, 'v_time', '0'); "
        "EXECUTE 'PREPARE append_plain (uuid[], text[], json[], text[], text[], "
        "json[], text[], timestamptz[], timestamptz[], bigint[], bigint[]) AS ' || v_sql; END "
        "$do$",
        (long long)s.namespace_id);
    static const char *const bad[] = {"Function Scan", "Sort", "Materialize"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        must_plan_without(&s,
                          "append_plain ('{}', '{}', '{}', '{}', NULL, NULL, '{}', '{}', '{}', "
                          "'{}', '{}')",
                          bad[i]);
    }
    PQfinish(s.pg);
}

/* Types are found one behind the other, and the events of each by position, all in the index of
 * the months; no month is read, nor are the events of a type sorted. */
static void types_are_read_by_their_index(void **state)
{
    struct scene s = scene_of(*state);
    side_must(s.pg,
              "SELECT holdfast.publish('%s', 't' || i %% 9, '{}') "
              "FROM generate_series(1, 2000) i",
              s.f->namespace_name);
    side_must(s.pg,
              "DO $do$ DECLARE v_month text; BEGIN FOR v_month IN SELECT c.relname FROM "
              "pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid WHERE h.inhparent = "
              "'holdfast_private.events_%lld'::regclass LOOP EXECUTE format('CREATE INDEX %%I ON "
              "holdfast_private.%%I (type, position)', v_month || '_type', v_month); "
              "END LOOP; END $do$",
              (long long)s.namespace_id);
    side_must(s.pg,
              "DO $do$ BEGIN EXECUTE 'PREPARE read_types (bigint, bigint, text[], text[], text, "
              "integer) AS ' || replace(substring((SELECT p.prosrc FROM pg_proc p WHERE p.oid = "
              "'holdfast.type_positions'::regproc) FROM '[$]query[$](.*)[$]query[$]'), "
              "'{namespace}', '%lld'); END $do$",
              (long long)s.namespace_id);
    side_must(s.pg, "SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off");
    must_plan_without(&s, "read_types (0, 2000, '{t1}', '{t}', '^t', 10)", "Seq Scan");
    PGresult *plan = PQexec(s.pg, "EXPLAIN (COSTS OFF) EXECUTE read_types (0, 2000, '{t1}', "
                                  "'{t}', '^t', 10)");
    int by_type = 0;
    for (int row = 0; row < PQntuples(plan); row++) {
        by_type += strstr(PQgetvalue(plan, row, 0), "_type on ") ? 1 : 0;
    }
    PQclear(plan);
    must_hold(by_type >= 3); /* the first type, the next, and the positions of each */
    PQfinish(s.pg);
}

/* ---- Kept plans ------------------------------------------------------------------------------ */

/* A table that is empty when the plan is made would be read as a whole ever after. */
static void a_plan_that_is_kept_is_good_for_a_table_that_grows(void **state)
{
    struct scene s = scene_of(*state);
    side_must(s.pg, "ANALYZE holdfast_private.subscriptions, holdfast_private.partitions, "
                    "holdfast_private.retries");
    prepare(&s, POSTGRES_QUERY_HELLO);
    side_must(s.pg, "EXECUTE hello (pg_backend_pid(), '0', true, '0', false, true)");
    prepare(&s, POSTGRES_QUERY_SUBSCRIPTION_STANDING);
    prepare(&s, POSTGRES_QUERY_RETRIES_DUE);
    must_plan_without(&s, "subscription_standing (1, 1, gen_random_uuid())", "Seq Scan");
    must_plan_without(&s, "retries_due (1, ARRAY[0], now(), 100, 1000, ARRAY[7])", "Seq Scan");
    PQfinish(s.pg);
}

/* A page must not cost as much as all that come after it. */
static void pages_of_schedules_are_read_in_the_order_of_an_index(void **state)
{
    struct scene s = scene_of(*state);
    prepare(&s, POSTGRES_QUERY_HELLO);
    side_must(s.pg, "EXECUTE hello (pg_backend_pid(), '0', true, '0', false, true)");
    prepare(&s, POSTGRES_QUERY_SCHEDULES_DUE);
    prepare(&s, POSTGRES_QUERY_SCHEDULE_LIST);
    static const char *const bad[] = {"Seq Scan", "Sort"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        must_plan_without(&s, "schedules_due (1, now(), now(), gen_random_uuid(), 1000, 4194304)",
                          bad[i]);
        must_plan_without(&s, "schedule_list (1, 'a', 1000, 4194304)", bad[i]);
    }
    PQfinish(s.pg);
}

/* Which processes are dead is read off all locks of the server. */
static void the_dead_are_looked_for_once_however_many_subscriptions_an_event_is_for(void **state)
{
    struct scene s = scene_of(*state);
    static const char token[] = "00000000-0000-4000-8000-00000000000a";
    side_must(s.pg, "SELECT holdfast.publish('%s', 't', '{}')", s.f->namespace_name);
    side_must(s.pg, "SELECT FROM holdfast.process_beat(%lld, '%s', 'a', false)",
              (long long)s.namespace_id, token);
    side_must(s.pg,
              "SELECT holdfast.change_subscription_put(%lld, 's' || i, '[\"**\"]', '{}', 1, 1, 0, "
              "-1, now()) FROM generate_series(1, 50) i",
              (long long)s.namespace_id);
    side_must(s.pg,
              "SELECT holdfast.change_acquire(%lld, id, 0, '%s', 'a', false, NULL, NULL) "
              "FROM holdfast_private.subscriptions",
              (long long)s.namespace_id, token);
    side_must(s.pg,
              "UPDATE holdfast_private.processes SET running_subscriptions = ARRAY(SELECT id FROM "
              "holdfast_private.subscriptions), running_positions = array_fill(1::bigint, "
              "ARRAY[50]), running_since = array_fill(now(), ARRAY[50])");
    side_must(s.pg, "SET track_functions = 'all'");
    side_must(s.pg, "BEGIN");
    side_must(s.pg,
              "SELECT count(f.leased) FROM holdfast.delivery_facts(%lld, ARRAY(SELECT id FROM "
              "holdfast_private.subscriptions), gen_random_uuid(), 1, 5, now(), NULL) f",
              (long long)s.namespace_id);
    must_equal(1, side_number(s.pg, "SELECT coalesce(sum(calls), 0) FROM "
                                    "pg_stat_xact_user_functions WHERE funcname = 'dead_of'"));
    side_must(s.pg, "ROLLBACK");
    PQfinish(s.pg);
}

/* Blocks that a statement looks at when the session has run it before. */
static long long blocks_of(const struct scene *s, const char *sql)
{
    char explain[512];
    long long blocks = -1;
    snprintf(explain, sizeof explain, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) %s", sql);
    for (int i = 0; i < OFTEN; i++) {
        PGresult *plan = PQexec(s->pg, explain);
        must_equal(PGRES_TUPLES_OK, PQresultStatus(plan));
        blocks = -1;
        for (int row = 0; row < PQntuples(plan) && blocks < 0; row++) { /* the first is the sum */
            const char *hit = strstr(PQgetvalue(plan, row, 0), "shared hit=");
            blocks = hit ? strtoll(hit + strlen("shared hit="), NULL, 10) : -1;
        }
        PQclear(plan);
    }
    must_hold(blocks > 0);
    return blocks;
}

/* 100,000 retries in four partitions, a tenth of them each held behind one of 100 lanes. */
static void a_page_of_retries_looks_at_no_more_than_is_on_it(void **state)
{
    struct scene s = scene_of(*state);
    side_must(s.pg,
              "SELECT FROM holdfast.change_subscription_put(%lld, 's', '[\"**\"]', '{}', 1, 4, 0, "
              "-1, now())",
              (long long)s.namespace_id);
    long long id = side_number(s.pg, "SELECT max(id) FROM holdfast_private.subscriptions");
    side_must(s.pg,
              "INSERT INTO holdfast_private.retries (subscription_id, position, lane, "
              "next_attempt_at, partition, attempts, kind) SELECT %lld, i, CASE i %% 10 WHEN 0 "
              "THEN i / 10 %% 100 ELSE i END, now() + i * interval '1s', i %% 4, 1, "
              "CASE i %% 10 WHEN 0 THEN 2 ELSE 1 END FROM generate_series(1, 100000) i",
              id);
    static const char *const pages[] = {"NULL, NULL, NULL", "NULL, now() + interval '9h', 7",
                                        "10, NULL, NULL"};
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        char sql[256];
        snprintf(sql, sizeof sql, "SELECT * FROM holdfast.retry_rows(%lld, %lld, %s, 100, 1000)",
                 (long long)s.namespace_id, id, pages[i]);
        long long blocks = blocks_of(&s, sql);
        printf("# %s: %lld blocks\n", sql, blocks);
        must_hold(blocks < 10000);
    }
    PQfinish(s.pg);
}

static const struct CMUnitTest claims[] = {
    CLAIM(the_tail_is_read_by_index_whether_many_or_few_rows_are_expected),
    CLAIM(plain_appends_are_inserted_as_they_are_unnested),
    CLAIM(types_are_read_by_their_index),
    CLAIM(a_plan_that_is_kept_is_good_for_a_table_that_grows),
    CLAIM(pages_of_schedules_are_read_in_the_order_of_an_index),
    CLAIM(the_dead_are_looked_for_once_however_many_subscriptions_an_event_is_for),
    CLAIM(a_page_of_retries_looks_at_no_more_than_is_on_it),
};

FIXTURE_MAIN("plans", claims, NULL)
