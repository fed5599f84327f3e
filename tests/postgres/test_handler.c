/*
 * test_handler.c - the connection that a handler gets, and the application's own: effects in the
 * same database are kept with the delivery or undone with it, whatever the handler does.
 */
#include "store/transfer.h"
#include "support/crowd.h"
#include "support/make.h"

#include <libpq-fe.h>
#include <sched.h>
#include <stdatomic.h>

struct scene {
    struct fixture *f;
    struct store *store;
    int64_t id;
    struct owner owner;
    char table[64];
    PGconn *side; /* another connection to the same database */
};

static void sql_must(PGconn *pg, const char *text)
{
    PGresult *result = PQexec(pg, text);
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        check_fail(__FILE__, __LINE__, "%s: %s", text, PQerrorMessage(pg));
    }
}

static bool sql_works(PGconn *pg, const char *text)
{
    PGresult *result = PQexec(pg, text);
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static int64_t sql_number(PGconn *pg, const char *text)
{
    PGresult *result = PQexec(pg, text);
    must_equal(PGRES_TUPLES_OK, PQresultStatus(result));
    int64_t number = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return number;
}

/* "before TABLE after", in a buffer that is good for one statement. */
static const char *with_table(const struct scene *s, const char *before, const char *after)
{
    static char text[256];
    snprintf(text, sizeof text, "%s%s%s", before, s->table, after);
    return text;
}

static const char *effect(const struct scene *s, int number)
{
    static char text[256];
    snprintf(text, sizeof text, "INSERT INTO %s VALUES (%d)", s->table, number);
    return text;
}

static int64_t effects_of(const struct scene *s)
{
    return sql_number(s->side, with_table(s, "SELECT count(*) FROM ", ""));
}

static struct scene scene_of(struct fixture *f, const char *letters)
{
    static int made;
    if (f->sqlite) {
        skip();
    }
    struct scene s = {.f = f, .store = fixture_open(f, "a")};
    append_lanes(s.store, letters);
    s.id = subscribe_ordered(s.store, "s", 1);
    s.owner = own(s.store, s.id, 0);
    s.side = PQconnectdb(f->url);
    must_equal(CONNECTION_OK, PQstatus(s.side));
    snprintf(s.table, sizeof s.table, "effects_%d_%d", (int)getpid(), ++made);
    sql_must(s.side, "SET client_min_messages = warning");
    sql_must(s.side, with_table(&s, "CREATE TABLE ", " (position bigint UNIQUE)"));
    return s;
}

static void scene_end(struct scene *s)
{
    sql_must(s->side, with_table(s, "DROP TABLE ", ""));
    PQfinish(s->side);
}

static struct tx *begin(struct store *store)
{
    struct tx *tx = NULL;
    must_answer(HF_OK, store_tx_begin(store, deadline_after_ms(DEADLINE_MS), &tx));
    return tx;
}

static hf_status enter(struct tx *tx, const struct scene *s, const struct entry *entry)
{
    struct hold hold = {.subscription_id = s->owner.subscription_id,
                        .partition = s->owner.partition,
                        .epoch = s->owner.epoch};
    return tx_enter(tx, &hold, entry, T0 + 3);
}

static hf_status leave(struct tx *tx, bool keep)
{
    bool lane_busy;
    return tx_leave(tx, keep, &lane_busy);
}

/* ---- Effects --------------------------------------------------------------------------------- */

static void effects_are_kept_with_the_delivery_and_undone_with_it(void **state)
{
    struct scene s = scene_of(*state, "abc");
    const struct entry *entries[3];
    for (int i = 0; i < 3; i++) {
        entries[i] = entry_at(*state, s.store, i + 1);
    }
    struct tx *tx = begin(s.store);
    for (int i = 0; i < 3; i++) {
        must_answer(HF_OK, enter(tx, &s, entries[i]));
        sql_must(tx_connection(tx), effect(&s, i + 1));
        must_answer(HF_OK, leave(tx, i != 1));
    }
    must_equal(0, effects_of(&s));
    must_answer(HF_OK, tx_commit(tx));
    must_equal(2, effects_of(&s));
    must_read("1 3", list_ahead(s.store, s.id, 0, 0));
    scene_end(&s);
}

/* The same deliveries from two owners, one of them out of date: every effect is there once. */
static void effects_happen_exactly_once_however_often_it_is_tried(void **state)
{
    struct scene s = scene_of(*state, "abcdef");
    struct scene t = s;
    t.store = fixture_open(*state, "b");
    for (int round = 0; round < 6; round++) {
        struct scene *worker = round % 2 ? &t : &s;
        struct acquire acquire = acquire_of(s.id, 0, LEASE_MS);
        acquire.force = true;
        must_answer(HF_OK, RUN(worker->store, &acquire));
        worker->owner.store = worker->store;
        worker->owner.epoch = acquire.ret_epoch;
        for (int p = 1; p <= 6; p++) {
            const struct entry *entry = entry_at(*state, worker->store, p);
            struct tx *tx = begin(worker->store);
            hf_status status = enter(tx, worker, entry);
            must_hold(status == HF_OK || status == HF_CONFLICT);
            if (!status) {
                sql_must(tx_connection(tx), effect(&s, p));
                must_answer(HF_OK, leave(tx, true));
            }
            if ((p + round) % 4 == 0) {
                tx_rollback(tx);
            } else {
                must_answer(HF_OK, tx_commit(tx));
            }
        }
        while (s.f->batch_count > 0) { /* there are not so many */
            batch_release(&s.f->batches[--s.f->batch_count]);
        }
    }
    must_equal(6, effects_of(&s));
    must_read("1 2 3 4 5 6", list_ahead(s.store, s.id, 0, 0));
    scene_end(&s);
}

/* Two processes run the handler of one delivery at the same time, because one was overtaken in the
 * middle of it: only the new owner's effects stay. */
static void a_process_that_is_overtaken_while_the_handler_runs_keeps_nothing(void **state)
{
    struct scene s = scene_of(*state, "abc");
    struct scene t = s;
    t.store = fixture_open(*state, "b");
    const struct entry *entry = entry_at(*state, s.store, 1);
    struct tx *old = begin(s.store);
    must_answer(HF_OK, enter(old, &s, entry));
    sql_must(tx_connection(old), effect(&s, 11));
    struct acquire acquire = acquire_of(s.id, 0, LEASE_MS);
    acquire.force = true;
    must_answer(HF_OK, RUN(t.store, &acquire));
    t.owner.epoch = acquire.ret_epoch;
    must_answer(HF_STALE, leave(old, true));
    tx_rollback(old);
    struct tx *tx = begin(t.store);
    must_answer(HF_OK, enter(tx, &t, entry));
    sql_must(tx_connection(tx), effect(&s, 1));
    must_answer(HF_OK, leave(tx, true));
    must_answer(HF_OK, tx_commit(tx));
    must_equal(1, effects_of(&s));
    must_equal(1, sql_number(s.side, with_table(&s, "SELECT sum(position) FROM ", "")));
    must_read("1", list_ahead(s.store, s.id, 0, 0));
    scene_end(&s);
}

/* As after a crash of the server that lost the newest event, and gives its position again. */
static void an_event_that_the_log_has_lost_is_not_settled_in_place_of_another(void **state)
{
    struct scene s = scene_of(*state, "ab");
    const struct entry *lost = entry_at(*state, s.store, 2);
    sql_must(s.side, "DELETE FROM holdfast_private.events WHERE position = 2 AND namespace_id ="
                     " (SELECT max(id) FROM holdfast_private.namespaces)");
    for (int again = 0; again < 2; again++) {
        struct tx *tx = begin(s.store);
        must_answer(HF_OK, enter(tx, &s, lost));
        sql_must(tx_connection(tx), effect(&s, 2));
        must_answer(HF_STALE, leave(tx, true));
        tx_rollback(tx);
        must_equal(0, effects_of(&s));
        if (again == 0) {
            sql_must(s.side, "SELECT setval(format('holdfast_private.events_%s_position',"
                             " max(id))::regclass, 1) FROM holdfast_private.namespaces");
            append_lanes(s.store, "c");
            must_hold(memcmp(entry_at(*state, s.store, 2)->id, lost->id, 16) != 0);
        }
    }
    must_read("", list_ahead(s.store, s.id, 0, 0));
    scene_end(&s);
}

/* A process that is stopped in the middle of a handler holds up no other. */
static void a_running_handler_locks_nothing_of_ours(void **state)
{
    struct scene s = scene_of(*state, "abc");
    const struct entry *entry = entry_at(*state, s.store, 2);
    struct tx *tx = begin(s.store);
    must_answer(HF_OK, enter(tx, &s, entry));
    sql_must(tx_connection(tx), effect(&s, 2));
    /* The role is called as the schema, so the handler's own table is in it. */
    must_equal(0, sql_number(s.side, "SELECT count(*) FROM pg_locks l JOIN pg_class c ON "
                                     "c.oid = l.relation JOIN pg_namespace n ON "
                                     "n.oid = c.relnamespace WHERE n.nspname LIKE 'holdfast%%' AND "
                                     "c.relname NOT LIKE 'effects%' AND "
                                     "l.mode <> 'AccessShareLock' AND "
                                     "l.pid = (SELECT pid FROM pg_locks k JOIN pg_class e ON "
                                     "e.oid = k.relation WHERE e.relname LIKE 'effects%' AND "
                                     "k.mode = 'RowExclusiveLock' LIMIT 1)"));
    must_answer(HF_OK, leave(tx, true));
    must_answer(HF_OK, tx_commit(tx));
    scene_end(&s);
}

/* ---- Handlers that misbehave ----------------------------------------------------------------- */

static void a_failed_statement_spoils_its_own_delivery_only(void **state)
{
    struct scene s = scene_of(*state, "abc");
    const struct entry *first = entry_at(*state, s.store, 1);
    const struct entry *second = entry_at(*state, s.store, 2);
    struct tx *tx = begin(s.store);
    must_answer(HF_OK, enter(tx, &s, first));
    sql_must(tx_connection(tx), effect(&s, 1));
    must_answer(HF_OK, leave(tx, true));
    must_answer(HF_OK, enter(tx, &s, second));
    must_hold(!sql_works(tx_connection(tx), "SELECT nonsense"));
    must_answer(HF_OK, leave(tx, false));
    must_answer(HF_OK, tx_commit(tx));
    must_equal(1, effects_of(&s));
    must_read("1", list_ahead(s.store, s.id, 0, 0));
    scene_end(&s);
}

static void a_failed_statement_is_not_kept_though_the_handler_says_so(void **state)
{
    struct scene s = scene_of(*state, "abc");
    const struct entry *entry = entry_at(*state, s.store, 1);
    struct tx *tx = begin(s.store);
    must_answer(HF_OK, enter(tx, &s, entry));
    sql_must(tx_connection(tx), effect(&s, 1));
    must_hold(!sql_works(tx_connection(tx), effect(&s, 1))); /* not unique */
    must_answer(HF_MISUSE, leave(tx, true));
    tx_rollback(tx);
    must_equal(0, effects_of(&s));
    must_read("", list_ahead(s.store, s.id, 0, 0));
    scene_end(&s);
}

/* Whatever it commits itself is committed; the delivery is not settled by that. */
static void a_handler_that_ends_the_transaction_is_not_settled(void **state)
{
    static const char *const ways[] = {"COMMIT",
                                       "ROLLBACK",
                                       "COMMIT; BEGIN",
                                       "ROLLBACK; BEGIN",
                                       "COMMIT AND CHAIN",
                                       "COMMIT; BEGIN; SAVEPOINT holdfast_delivery",
                                       "RELEASE SAVEPOINT holdfast_delivery; COMMIT",
                                       "SET client_encoding = LATIN1"};
    struct scene s = scene_of(*state, "abc");
    const struct entry *entry = entry_at(*state, s.store, 1);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct tx *tx = begin(s.store);
        must_answer(HF_OK, enter(tx, &s, entry));
        sql_must(tx_connection(tx), ways[i]);
        hf_status status = leave(tx, true);
        if (status != HF_MISUSE) {
            check_fail(__FILE__, __LINE__, "after \"%s\" leave answered %s", ways[i],
                       status_name(status));
        }
        tx_rollback(tx);
        must_read("", list_ahead(s.store, s.id, 0, 0));
    }
    struct tx *tx = begin(s.store);
    must_answer(HF_OK, enter(tx, &s, entry));
    must_answer(HF_OK, leave(tx, true));
    must_answer(HF_OK, tx_commit(tx));
    must_read("1", list_ahead(s.store, s.id, 0, 0));
    scene_end(&s);
}

/* What was kept before in the same transaction is gone, too, and must not be believed committed. */
static void a_handler_that_ends_the_transaction_takes_its_neighbours_back_with_it(void **state)
{
    struct scene s = scene_of(*state, "abc");
    const struct entry *first = entry_at(*state, s.store, 1);
    const struct entry *second = entry_at(*state, s.store, 2);
    for (int i = 0; i < 2; i++) {
        struct tx *tx = begin(s.store);
        must_answer(HF_OK, enter(tx, &s, first));
        sql_must(tx_connection(tx), effect(&s, 1));
        must_answer(HF_OK, leave(tx, true));
        must_answer(HF_OK, enter(tx, &s, second));
        sql_must(tx_connection(tx), "ROLLBACK; BEGIN; SAVEPOINT holdfast_delivery");
        hf_status left = leave(tx, i == 0);
        must_hold(left == HF_MISUSE || (i == 1 && left == HF_OK));
        must_answer(HF_MISUSE, tx_commit(tx));
        must_equal(0, effects_of(&s));
        must_read("", list_ahead(s.store, s.id, 0, 0));
    }
    scene_end(&s);
}

static void savepoints_of_the_handler_are_fine(void **state)
{
    struct scene s = scene_of(*state, "abc");
    const struct entry *entry = entry_at(*state, s.store, 1);
    struct tx *tx = begin(s.store);
    must_answer(HF_OK, enter(tx, &s, entry));
    sql_must(tx_connection(tx), effect(&s, 1));
    sql_must(tx_connection(tx), "SAVEPOINT mine");
    must_hold(!sql_works(tx_connection(tx), effect(&s, 1)));
    sql_must(tx_connection(tx), "ROLLBACK TO mine");
    sql_must(tx_connection(tx), "SAVEPOINT holdfast");
    sql_must(tx_connection(tx), effect(&s, 2));
    must_answer(HF_OK, leave(tx, true));
    must_answer(HF_OK, tx_commit(tx));
    must_equal(2, effects_of(&s));
    scene_end(&s);
}

static void a_commit_that_a_constraint_refuses_keeps_nothing(void **state)
{
    struct scene s = scene_of(*state, "abc");
    sql_must(s.side, with_table(&s, "DROP TABLE ", ""));
    sql_must(s.side, with_table(&s, "CREATE TABLE ",
                                " (position bigint UNIQUE DEFERRABLE "
                                "INITIALLY DEFERRED)"));
    const struct entry *entry = entry_at(*state, s.store, 1);
    struct tx *tx = begin(s.store);
    must_answer(HF_OK, enter(tx, &s, entry));
    sql_must(tx_connection(tx), effect(&s, 1));
    sql_must(tx_connection(tx), effect(&s, 1));
    must_answer(HF_OK, leave(tx, true));
    must_answer(HF_CONFLICT, tx_commit(tx));
    must_equal(0, effects_of(&s));
    must_read("", list_ahead(s.store, s.id, 0, 0));
    scene_end(&s);
}

/* ---- Aborts ---------------------------------------------------------------------------------- */

static void whatever_the_handler_does_after_an_abort_fails(void **state)
{
    struct scene s = scene_of(*state, "abc");
    const struct entry *entry = entry_at(*state, s.store, 1);
    struct tx *tx = begin(s.store);
    PGconn *pg = tx_connection(tx);
    must_answer(HF_OK, enter(tx, &s, entry));
    sql_must(pg, effect(&s, 1));
    tx_abort(tx);
    for (int i = 0; i < 3; i++) {
        must_hold(!sql_works(pg, effect(&s, 2)));
        must_hold(!sql_works(pg, "SELECT 1"));
    }
    must_answer(HF_TIMEOUT, leave(tx, true));
    must_answer(HF_TIMEOUT, tx_commit(tx));
    must_equal(0, effects_of(&s));
    must_read("", list_ahead(s.store, s.id, 0, 0));
    scene_end(&s);
}

struct endless {
    struct scene *scene;
    struct tx *tx;
};

static void abort_what_runs(int index, void *ctx)
{
    (void)index;
    struct endless *endless = ctx;
    struct scene *s = endless->scene;
    int64_t until_ms = mono_ms() + DEADLINE_MS;
    while (sql_number(s->side, "SELECT count(*) FROM pg_stat_activity WHERE datname = "
                               "current_database() AND state = 'active' AND "
                               "query = 'SELECT pg_sleep(1000)'") == 0) {
        must_hold(mono_ms() < until_ms);
        sched_yield();
    }
    tx_abort(endless->tx);
}

static void an_abort_ends_a_statement_that_runs(void **state)
{
    struct scene s = scene_of(*state, "abc");
    const struct entry *entry = entry_at(*state, s.store, 1);
    struct tx *tx = begin(s.store);
    must_answer(HF_OK, enter(tx, &s, entry));
    sql_must(tx_connection(tx), with_table(&s, "LOCK TABLE ", ""));
    struct crowd crowd;
    struct endless endless = {&s, tx};
    crowd_start(&crowd, 1, abort_what_runs, &endless);
    must_hold(!sql_works(tx_connection(tx), "SELECT pg_sleep(1000)"));
    crowd_join(&crowd);
    must_equal(0, effects_of(&s)); /* no session holds the table any more */
    must_answer(HF_TIMEOUT, tx_commit(tx));
    scene_end(&s);
}

/* ---- The application's own transaction ------------------------------------------------------- */

static hf_status join_append(struct scene *s, struct new_event *event)
{
    struct append append = append_of(event, 1);
    return store_join_append(s->store, s->side, &append);
}

static void an_event_exists_if_and_only_if_the_applications_transaction_commits(void **state)
{
    struct scene s = scene_of(*state, "a");
    for (int i = 0; i < 4; i++) {
        struct new_event event = event_of("joined", "k");
        sql_must(s.side, "BEGIN");
        sql_must(s.side, effect(&s, i + 1));
        must_answer(HF_OK, join_append(&s, &event));
        must_hold(event.position > 1 && !event.duplicate);
        struct batch *batch = fixture_batch(*state);
        must_answer(HF_NOTFOUND, store_event_find(s.store, event.id, batch));
        sql_must(s.side, i % 2 ? "COMMIT" : "ROLLBACK");
        must_answer(i % 2 ? HF_OK : HF_NOTFOUND, store_event_find(s.store, event.id, batch));
    }
    must_equal(2, effects_of(&s));
    scene_end(&s);
}

static void the_bus_can_begin_and_end_the_applications_transaction(void **state)
{
    struct scene s = scene_of(*state, "a");
    for (int i = 0; i < 2; i++) {
        struct new_event event = event_of("joined", NULL);
        must_answer(HF_OK, store_join_begin(s.store, s.side, deadline_after_ms(DEADLINE_MS)));
        must_answer(HF_MISUSE, store_join_begin(s.store, s.side, deadline_after_ms(DEADLINE_MS)));
        must_answer(HF_OK, join_append(&s, &event));
        uint64_t seen = store_news(s.store);
        must_answer(HF_OK,
                    i ? store_join_commit(s.store, s.side) : store_join_rollback(s.store, s.side));
        must_hold(!i || store_news(s.store) != seen);
        must_answer(HF_MISUSE, store_join_commit(s.store, s.side));
        must_answer(HF_MISUSE, store_join_rollback(s.store, s.side));
        struct batch *batch = fixture_batch(*state);
        must_answer(i ? HF_OK : HF_NOTFOUND, store_event_find(s.store, event.id, batch));
    }
    scene_end(&s);
}

static void a_refused_event_does_not_spoil_the_applications_transaction(void **state)
{
    struct scene s = scene_of(*state, "a");
    struct new_event event = event_of("joined", "versioned");
    event.expected_version = 7;
    sql_must(s.side, "BEGIN");
    sql_must(s.side, effect(&s, 1));
    must_answer(HF_CONFLICT, join_append(&s, &event));
    event.expected_version = 0;
    must_answer(HF_OK, join_append(&s, &event));
    must_equal(1, event.key_version);
    must_answer(HF_OK, join_append(&s, &event));
    must_equal(true, event.duplicate);
    sql_must(s.side, "COMMIT");
    must_equal(1, effects_of(&s));
    scene_end(&s);
}

static void a_connection_that_cannot_take_part_is_refused(void **state)
{
    struct scene s = scene_of(*state, "a");
    struct new_event event = event_of("joined", NULL);
    must_answer(HF_INVALID, store_join_begin(s.store, NULL, deadline_after_ms(DEADLINE_MS)));
    must_answer(HF_MISUSE, join_append(&s, &event)); /* no transaction */
    sql_must(s.side, "BEGIN READ ONLY");
    must_answer(HF_MISUSE, join_append(&s, &event));
    sql_must(s.side, "ROLLBACK");
    sql_must(s.side, "SET client_encoding = LATIN1");
    sql_must(s.side, "BEGIN");
    must_answer(HF_MISUSE, join_append(&s, &event));
    sql_must(s.side, "ROLLBACK");
    sql_must(s.side, "SET client_encoding = UTF8");
    sql_must(s.side, "BEGIN");
    must_hold(!sql_works(s.side, "SELECT nonsense"));
    must_answer(HF_MISUSE, join_append(&s, &event));
    sql_must(s.side, "ROLLBACK");
    scene_end(&s);
}

#define SYNC "SELECT (current_setting('synchronous_commit')"

/* It leaves nothing behind in the connection. */
static void joining_is_durable_and_changes_no_settings(void **state)
{
    struct scene s = scene_of(*state, "a");
    struct store_options options = fixture_options(*state, "durable");
    options.durability = HF_DURABILITY_POWER;
    s.store = fixture_open_with(*state, &options);
    struct new_event event = event_of("joined", NULL);
    sql_must(s.side, "SET synchronous_commit = off");
    sql_must(s.side, "BEGIN");
    must_answer(HF_OK, join_append(&s, &event));
    must_equal(1, sql_number(s.side, SYNC " = 'on')::int"));
    sql_must(s.side, "COMMIT");
    must_equal(1, sql_number(s.side, SYNC " = 'off')::int"));
    must_equal(0, sql_number(s.side, "SELECT count(*) FROM pg_prepared_statements"));
    scene_end(&s);
}

#define HANDLERS 8

struct resting {
    struct store *store;
    pthread_barrier_t begun;
};

static void handle(int index, void *ctx)
{
    struct resting *resting = ctx;
    struct tx *tx = begin(resting->store);
    (void)index;
    pthread_barrier_wait(&resting->begun); /* so that each has a session of its own */
    tx_rollback(tx);
}

static int64_t newest_session(PGconn *pg)
{
    return sql_number(pg, "SELECT max(extract(epoch FROM backend_start) * 1000000)::bigint "
                          "FROM pg_stat_activity WHERE datname = current_database() "
                          "AND backend_type = 'client backend'");
}

static int pass_over(const struct subscription_row *row, void *ctx)
{
    (void)row;
    (void)ctx;
    return 0;
}

/* The session of a query is given back when all handlers have come to rest. */
static void queries_keep_their_session_however_many_handlers_rest(void **state)
{
    struct fixture *f = *state;
    struct resting resting = {.store = fixture_open(f, "a")};
    struct exporter *exporter = NULL;
    struct crowd crowd;
    must_answer(HF_OK, store_export_open(resting.store, &exporter));
    pthread_barrier_init(&resting.begun, NULL, HANDLERS);
    crowd_start(&crowd, HANDLERS, handle, &resting);
    crowd_join(&crowd);
    pthread_barrier_destroy(&resting.begun);
    store_export_close(exporter);
    PGconn *pg = PQconnectdb(f->url);
    int64_t newest = newest_session(pg);
    for (int i = 0; i < 3; i++) {
        must_answer(HF_OK, store_subscription_list(resting.store, pass_over, NULL));
    }
    must_equal(newest, newest_session(pg));
    PQfinish(pg);
}

static const struct CMUnitTest claims[] = {
    CLAIM(effects_are_kept_with_the_delivery_and_undone_with_it),
    CLAIM(effects_happen_exactly_once_however_often_it_is_tried),
    CLAIM(a_process_that_is_overtaken_while_the_handler_runs_keeps_nothing),
    CLAIM(an_event_that_the_log_has_lost_is_not_settled_in_place_of_another),
    CLAIM(a_running_handler_locks_nothing_of_ours),
    CLAIM(a_failed_statement_spoils_its_own_delivery_only),
    CLAIM(a_failed_statement_is_not_kept_though_the_handler_says_so),
    CLAIM(a_handler_that_ends_the_transaction_is_not_settled),
    CLAIM(a_handler_that_ends_the_transaction_takes_its_neighbours_back_with_it),
    CLAIM(savepoints_of_the_handler_are_fine),
    CLAIM(a_commit_that_a_constraint_refuses_keeps_nothing),
    CLAIM(whatever_the_handler_does_after_an_abort_fails),
    CLAIM(an_abort_ends_a_statement_that_runs),
    CLAIM(an_event_exists_if_and_only_if_the_applications_transaction_commits),
    CLAIM(the_bus_can_begin_and_end_the_applications_transaction),
    CLAIM(a_refused_event_does_not_spoil_the_applications_transaction),
    CLAIM(a_connection_that_cannot_take_part_is_refused),
    CLAIM(joining_is_durable_and_changes_no_settings),
    CLAIM(queries_keep_their_session_however_many_handlers_rest),
};

FIXTURE_MAIN("handler", claims, NULL)
