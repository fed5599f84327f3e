/*
 * Unit tests of sql/sqlite: how SQLite carries the statements out.
 *
 * A statement that scans a table or sorts in a temporary b-tree works in every test and fails its
 * users years later. So every statement must search an index and sort nothing, but for those listed
 * here with a reason; and the ones that could be served by several indexes must use the right one,
 * also when the application has run ANALYZE on its file.
 */
#include "sqlite_sql.h"
#include "unit.h"

#include <sqlite3.h>

#define PLAN_BYTES_MAX 1024

/* Read whole tables, rarely, and small ones. */
static const char *const may_scan[] = {
    "partition_give_back_all", /* once, at closing */
    "members_changed_by",      /* at closing */
    "member_remove_all",       /* at closing */
    "lease_owned",             /* at closing */
    "lease_held",              /* sorts a subscription's few leases, for people */
    "token_is_named",          /* once per dead process */
    "token_has_something",     /* at closing */
    "schema_exists",           /* at opening */
    "retries_clock_back",      /* when the clock was set back */
    "leases_clock_back",       /* the same */
    "retention_lagging",       /* hourly, the subscriptions of a namespace */
    "transfer_read_leases",    /* by token; a subscription has few */
    "transfer_end",            /* once per copy */
};

/* Which index a statement must use. */
static const struct {
    const char *query;
    const char *index;
} wanted[] = {
    {"read_log", "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
    {"event_by_id", "holdfast_events_by_id (id=? AND <expr>=?)"},
    {"event_find", "holdfast_events_by_id (id=? AND <expr>=?)"},
    {"event_at", "INTEGER PRIMARY KEY (rowid=?)"},
    {"event_first", "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
    {"partition_get", "p USING PRIMARY KEY (subscription_id=? AND partition=?)"},
    {"partition_move", "PRIMARY KEY (subscription_id=? AND partition=?)"},
    {"partition_move_cursor", "PRIMARY KEY (subscription_id=? AND partition=?)"},
    {"settled_fold", "PRIMARY KEY (subscription_id=? AND partition=? AND position<?)"},
    {"retries_ahead", "holdfast_retries_by_kind (subscription_id=? AND partition=? AND kind=? AND "
                      "next_attempt_at>?)"},
    {"retry_get", "PRIMARY KEY (subscription_id=? AND position=?)"},
    {"retry_remove", "PRIMARY KEY (subscription_id=? AND position=?)"},
    {"lane_first", "holdfast_retries_by_lane (subscription_id=? AND partition=? AND lane=?)"},
    {"lane_list", "COVERING INDEX holdfast_retries_by_lane (subscription_id=? AND partition=?)"},
    {"ahead", "holdfast_settled USING PRIMARY KEY "
              "(subscription_id=? AND partition=? AND position>?)"},
    {"ahead", "holdfast_retries USING PRIMARY KEY (subscription_id=? AND position>?)"},
    {"lane_moving", "holdfast_retries_by_lane (subscription_id=? AND partition=? AND lane=?)"},
    {"retries_due", "holdfast_retries_by_kind "
                    "(subscription_id=? AND partition=? AND kind=? AND next_attempt_at<?)"},
    {"retries_next", "COVERING INDEX holdfast_retries_by_kind "
                     "(subscription_id=? AND partition=? AND kind=? AND next_attempt_at>?)"},
    {"retries_count", "COVERING INDEX holdfast_retries_by_kind "
                      "(subscription_id=? AND partition=? AND kind=?)"},
    {"retries_page", "COVERING INDEX holdfast_retries_by_kind (subscription_id=? AND partition=? "
                     "AND kind=? AND (next_attempt_at,position)>(?,?))"},
    {"retries_behind", "COVERING INDEX holdfast_retries_by_lane "
                       "(subscription_id=? AND partition=? AND lane=? AND position>?)"},
    {"retry_look", "COVERING INDEX holdfast_retries_by_lane "
                   "(subscription_id=? AND partition=? AND lane=? AND position>?)"},
    {"retries_lowest", "PRIMARY KEY (subscription_id=?)"},
    {"claim_ahead", "holdfast_retries USING PRIMARY KEY (subscription_id=?)"},
    {"claim_ahead", "holdfast_settled USING PRIMARY KEY (subscription_id=? AND partition=?)"},
    {"cancels_requested", "holdfast_cancels_requested (subscription_id=?"},
    {"lease_get", "PRIMARY KEY (token=?)"},
    {"lease_finish", "PRIMARY KEY (token=?)"},
    {"lease_owner_next", "COVERING INDEX holdfast_leases_by_owner (subscription_id=? AND owner>?)"},
    {"lease_over", "holdfast_leases_by_owner "
                   "(subscription_id=? AND owner=? AND kept=? AND expires_at<?)"},
    {"lease_expiry_next", "COVERING INDEX holdfast_leases_by_owner "
                          "(subscription_id=? AND owner=? AND kept=? AND expires_at>?)"},
    {"dead_get", "INTEGER PRIMARY KEY (rowid=?)"},
    {"dead_open_of_newest", "holdfast_dead_letters_open_of "
                            "(namespace_id=? AND subscription=? AND id>? AND id<?)"},
    {"dead_open_of_oldest", "holdfast_dead_letters_open_of "
                            "(namespace_id=? AND subscription=? AND id>? AND id<?)"},
    {"dead_open_newest", "holdfast_dead_letters_open (namespace_id=? AND id>? AND id<?)"},
    {"dead_open_oldest", "holdfast_dead_letters_open (namespace_id=? AND id>? AND id<?)"},
    {"dead_all_newest", "holdfast_dead_letters_all (namespace_id=? AND id>? AND id<?)"},
    {"dead_all_oldest", "holdfast_dead_letters_all (namespace_id=? AND id>? AND id<?)"},
    {"dead_count_open_of", "COVERING INDEX holdfast_dead_letters_open_of "
                           "(namespace_id=? AND subscription=?)"},
    {"dead_of_event", "holdfast_dead_letters_event "
                      "(namespace_id=? AND subscription=? AND event_id=?)"},
    {"dead_kinds_largest", "COVERING INDEX holdfast_dead_kinds_largest (namespace_id=?)"},
    {"dead_kind_newest", "holdfast_dead_letters_open_kind (namespace_id=? AND kind_hash=?)"},
    {"dead_kind_oldest", "holdfast_dead_letters_open_kind (namespace_id=? AND kind_hash=?)"},
    {"schedules_due", "holdfast_schedules_due "
                      "(namespace_id=? AND (next_at,id)>(?,?) AND next_at<?)"},
    {"schedule_list", "(namespace_id=? AND name>?)"},
    {"verify_events", "INTEGER PRIMARY KEY (rowid>?)"},
    {"verify_copies", "(subscription_id,position)>(?,?)"},
    {"verify_outcomes", "(subscription_id,position)>(?,?)"},
    {"verify_dead_letters", "INTEGER PRIMARY KEY (rowid>?)"},
    {"verify_schedules", "INTEGER PRIMARY KEY (rowid>?)"},
    {"verify_delayed", "INTEGER PRIMARY KEY (rowid>?)"},
    {"verify_retries", "PRIMARY KEY ((subscription_id,position)>(?,?))"},
};

/* Stands for holdfast_kind of the connections of the engine: plans do not ask what it answers. */
static void answer_zero(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count, (void)values;
    sqlite3_result_int64(context, 0);
}

static sqlite3 *open_schema(void)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_create_function(db, "holdfast_kind", 4, SQLITE_UTF8, NULL, answer_zero, NULL, NULL),
        SQLITE_OK);
    for (int i = 0; i < SQLITE_MIGRATION_COUNT; i++) {
        assert_int_equal(sqlite3_exec(db, sqlite_migrations[i].sql, NULL, NULL, NULL), SQLITE_OK);
    }
    return db;
}

/* Whether it is data that the statement is about; the others have no plan. */
static bool has_plan(const char *sql)
{
    static const char *const verbs[] = {"SELECT", "INSERT", "UPDATE", "DELETE"};
    for (size_t i = 0; i < COUNT_OF(verbs); i++) {
        if (strncmp(sql, verbs[i], strlen(verbs[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* The steps of a statement's plan, one per line. */
static void explain(sqlite3 *db, const char *sql, char plan[PLAN_BYTES_MAX])
{
    char *text = sqlite3_mprintf("EXPLAIN QUERY PLAN %s", sql);
    sqlite3_stmt *stmt = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, text, -1, &stmt, NULL), SQLITE_OK);
    sqlite3_free(text);
    size_t length = 0;
    plan[0] = '\0';
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        const char *step = (const char *)sqlite3_column_text(stmt, 3);
        int added = snprintf(plan + length, PLAN_BYTES_MAX - length, "%s\n", step);
        assert_true(added > 0 && length + (size_t)added < PLAN_BYTES_MAX);
        length += (size_t)added;
    }
    sqlite3_finalize(stmt);
}

/* Listed, or one that looks for damage, which is nowhere near an index. */
static bool is_listed(const char *name)
{
    if (strncmp(name, "verify_", strlen("verify_")) == 0) {
        return true;
    }
    for (size_t i = 0; i < COUNT_OF(may_scan); i++) {
        if (strcmp(may_scan[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void assert_nothing_scans(sqlite3 *db)
{
    int seen = 0;
    for (int i = 0; i < SQLITE_QUERY_COUNT; i++) {
        char plan[PLAN_BYTES_MAX];
        if (!has_plan(sqlite_queries[i].sql) || is_listed(sqlite_queries[i].name)) {
            continue;
        }
        seen++;
        explain(db, sqlite_queries[i].sql, plan);
        if (strstr(plan, "SCAN holdfast") || strstr(plan, "TEMP B-TREE") ||
            strstr(plan, "AUTOMATIC")) {
            fail_msg("%s: %s", sqlite_queries[i].name, plan);
        }
    }
    assert_true(seen > 50);
}

static const char *sql_of(const char *name)
{
    for (int i = 0; i < SQLITE_QUERY_COUNT; i++) {
        if (strcmp(sqlite_queries[i].name, name) == 0) {
            return sqlite_queries[i].sql;
        }
    }
    fail_msg("there is no statement %s", name);
    return NULL;
}

static void assert_wanted_indexes(sqlite3 *db)
{
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        char plan[PLAN_BYTES_MAX];
        explain(db, sql_of(wanted[i].query), plan);
        if (!strstr(plan, wanted[i].index)) {
            fail_msg("%s does not use %s: %s", wanted[i].query, wanted[i].index, plan);
        }
    }
}

static void no_statement_scans_or_sorts(void **state)
{
    (void)state;
    sqlite3 *db = open_schema();
    assert_nothing_scans(db);
    sqlite3_close(db);
}

static void statements_use_the_index_made_for_them(void **state)
{
    (void)state;
    sqlite3 *db = open_schema();
    assert_wanted_indexes(db);
    sqlite3_close(db);
}

static void fill(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        fail_msg("%s: %s", sqlite3_errmsg(db), sql);
    }
}

/* Statistics that make every leading column look useless: one namespace, one subscription, one
 * partition, one lane, thousands of rows. */
static void statistics_do_not_change_the_plans(void **state)
{
    (void)state;
    sqlite3 *db = open_schema();
    fill(db, "CREATE TABLE n AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
             "WHERE i < 3000) SELECT i FROM n");
    fill(db, "INSERT INTO holdfast_namespaces (name, created_at) SELECT 'n' || i, 0 FROM n "
             "WHERE i < 5");
    fill(db, "INSERT INTO holdfast_events (place, id, type, payload, hash, checksum, "
             "emitted_at, entered_at) "
             "SELECT (1 << 44) + i, randomblob(16), 't', '1', i, 0, 0, 0 FROM n");
    fill(db, "INSERT INTO holdfast_subscriptions (namespace_id, name, patterns, options, mode, "
             "partitions, start, created_at) SELECT 1, 's' || i, '[]', '{}', 1, 1, 0, 0 FROM n");
    fill(db, "INSERT INTO holdfast_partitions (subscription_id, partition, checkpoint) "
             "SELECT i, 0, 0 FROM n");
    fill(db, "INSERT INTO holdfast_retries (subscription_id, position, kind, partition, lane, "
             "attempts, next_attempt_at) SELECT 1, i, 1 + i % 3, 0, i % 2, 0, 0 FROM n");
    fill(db, "INSERT INTO holdfast_settled SELECT 1, 0, i FROM n");
    fill(db, "INSERT INTO holdfast_leases (token, subscription_id, expires_at, lease_ms, bound, "
             "kept, has_retries, count, first, positions) "
             "SELECT randomblob(16), 1, i, 1, 0, 0, 0, 1, i, x'01' FROM n");
    fill(db,
         "INSERT INTO holdfast_dead_letters (namespace_id, subscription, event_id, position, "
         "failed_at, attempts, reason, type, hash, checksum, emitted_at, entered_at, payload, "
         "story) SELECT 1, 's1', randomblob(16), i, 0, 1, 'r', 't', 0, 0, 0, 0, '1', '[]' FROM n");
    fill(db, "ANALYZE");
    assert_wanted_indexes(db);
    assert_nothing_scans(db);
    sqlite3_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_statement_scans_or_sorts),
        cmocka_unit_test(statements_use_the_index_made_for_them),
        cmocka_unit_test(statistics_do_not_change_the_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
