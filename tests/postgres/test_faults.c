/*
 * test_faults.c - what the PostgreSQL engine says when it cannot work, and that it works again when
 * the trouble is over.
 *
 * The cluster is the test run's own: its superuser has no password, the role `checked` must give
 * one and `refused` is not let in (scripts/postgres-cluster).
 */
#include "postgres/support_proxy.h"
#include "postgres/support_side.h"
#include "support/crowd.h"
#include "support/make.h"

#include "base/time/clock.h"
#include "base/uuid.h"
#include "store/timers.h"

#include <libpq-fe.h>
#include <stdatomic.h>
#include <stdio.h>

/* ---- Talking to the server ------------------------------------------------------------------- */

/* Runs a statement on a connection of its own; the number of its first value. */
static int64_t server(struct fixture *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static int64_t server(struct fixture *f, const char *format, ...)
{
    char sql[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(sql, sizeof sql, format, args);
    va_end(args);
    PGconn *pg = PQconnectdb(f->url);
    must_equal(CONNECTION_OK, PQstatus(pg));
    PGresult *result = PQexec(pg, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        check_fail(__FILE__, __LINE__, "%s: %s", sql, PQerrorMessage(pg));
    }
    int64_t number = PQntuples(result) > 0 ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    PQfinish(pg);
    return number;
}

/* The fixture's URL with another setting; later ones win. */
static const char *url_with(struct fixture *f, const char *setting)
{
    static char url[sizeof f->url + 128];
    snprintf(url, sizeof url, "%s&%s", f->url, setting);
    return url;
}

static hf_status open_at(struct fixture *f, const char *url, int64_t timeout_ms,
                         hf_open_mode open_mode)
{
    struct store *store = NULL;
    struct store_options options = fixture_options(f, "a");
    options.timeout_ms = timeout_ms;
    options.open_mode = open_mode;
    hf_status status = store_open(url, &options, &store);
    store_close(store);
    return status;
}

/* Ends the sessions of a store; how many there were. `query`: the last statement's beginning. */
static int64_t end_sessions(struct fixture *f, const char *node, const char *query)
{
    return server(f,
                  "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                  "WHERE datname = current_database() AND application_name = '%s' "
                  "AND query LIKE '%s%%'",
                  node, query);
}

/* ---- It cannot be opened --------------------------------------------------------------------- */

static void a_wrong_password_is_denied_and_not_repeated(void **state)
{
    struct fixture *f = *state;
    server(f, "DO $$ BEGIN CREATE ROLE checked LOGIN PASSWORD 'right'; "
              "EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$");
    int64_t begun_ms = mono_ms();
    must_answer(HF_DENIED, open_at(f, url_with(f, "user=checked&password=secretly-wrong"),
                                   DEADLINE_MS, HF_OPEN_CREATE));
    must_say("28P01");
    must_hold(!strstr(err_message(), "secretly"));
    must_hold(mono_ms() - begun_ms < DEADLINE_MS / 2);
}

static void a_host_that_is_not_let_in_is_denied(void **state)
{
    struct fixture *f = *state;
    must_answer(HF_DENIED, open_at(f, url_with(f, "user=refused"), DEADLINE_MS, HF_OPEN_CREATE));
    must_say("pg_hba.conf");
}

static void a_missing_database_is_not_found(void **state)
{
    struct fixture *f = *state;
    must_answer(HF_NOTFOUND,
                open_at(f, url_with(f, "dbname=no_such_database"), DEADLINE_MS, HF_OPEN_CREATE));
    must_say("no_such_database");
    must_say("createdb");
}

static void no_server_is_unavailable_at_once(void **state)
{
    struct fixture *f = *state;
    int64_t begun_ms = mono_ms();
    must_answer(HF_UNAVAILABLE,
                open_at(f, url_with(f, "host=/nonexistent"), DEADLINE_MS, HF_OPEN_CREATE));
    must_hold(mono_ms() - begun_ms < DEADLINE_MS / 2);
}

static void a_bad_url_is_invalid(void **state)
{
    struct fixture *f = *state;
    must_answer(HF_INVALID, open_at(f, url_with(f, "nonsense=1"), DEADLINE_MS, HF_OPEN_CREATE));
}

static void the_error_for_a_role_without_rights_names_the_missing_right(void **state)
{
    struct fixture *f = *state;
    fixture_open(f, "first"); /* the schema exists */
    server(f, "DO $$ BEGIN CREATE ROLE nobody_special LOGIN; "
              "EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$");
    must_answer(HF_DENIED,
                open_at(f, url_with(f, "user=nobody_special"), DEADLINE_MS, HF_OPEN_CREATE));
    must_say("holdfast namespace grant ROLE NAMESPACE \"nobody_special\"");
}

static void a_read_only_server_is_unavailable(void **state)
{
    struct fixture *f = *state;
    must_answer(HF_UNAVAILABLE,
                open_at(f, url_with(f, "options=-c%20default_transaction_read_only%3Don"),
                        DEADLINE_MS, HF_OPEN_CREATE));
    must_say("read-only");
}

static void no_connection_left_is_unavailable(void **state)
{
    struct fixture *f = *state;
    server(f, "DO $$ BEGIN CREATE ROLE scarce LOGIN CONNECTION LIMIT 0; "
              "EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$");
    int64_t timeout_ms = 250;
    hf_status status;
    do { /* on a slow machine the time may be over before the server has said so */
        timeout_ms *= 2;
        status = open_at(f, url_with(f, "user=scarce"), timeout_ms, HF_OPEN_CREATE);
    } while (!strstr(err_message(), "53300") && timeout_ms < DEADLINE_MS);
    must_answer(HF_UNAVAILABLE, status);
    must_say("53300");
    must_say("max_connections");
}

/* There is no old server here, so one pretends. */
static void an_old_server_is_named_with_what_is_needed(void **state)
{
    struct fixture *f = *state;
    const char *dir = getenv("TEST_POSTGRES");
    if (!dir) {
        skip();
    }
    char url[sizeof f->url + 64];
    struct proxy *proxy = proxy_start(dir);
    proxy_url(proxy, f->url, url, sizeof url);
    proxy_pretend(proxy, "13.22");
    hf_status status = open_at(f, url, DEADLINE_MS, HF_OPEN_CREATE);
    proxy_stop(proxy);
    must_answer(HF_UNAVAILABLE, status);
    must_say("PostgreSQL 13.22");
    must_say("needs 14 or newer");
}

/* A password that was not escaped stands where host, port and database are. */
static void a_url_that_cannot_be_read_is_not_shown(void **state)
{
    struct fixture *f = *state;
    static const char *const urls[] = {
        "postgres://me:sec/ret@host/db",
        "postgres://me:sec%zzret@h/d",
        "postgres://me:secret@[h/db",
        "postgres://h/d?secret",
    };
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        must_answer(HF_INVALID, open_at(f, urls[i], DEADLINE_MS, HF_OPEN_CREATE));
        must_hold(!strstr(err_message(), "sec"));
        must_say("URL");
    }
}

static void a_newer_schema_is_refused_and_left_alone(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "a");
    fixture_close(f, store);
    int64_t version =
        server(f, "SELECT value FROM holdfast_private.meta WHERE name = 'schema_version'");
    server(f, "UPDATE holdfast_private.meta SET value = '999' "
              "WHERE name IN ('schema_version', 'programs_from')");
    hf_status status = open_at(f, f->url, DEADLINE_MS, HF_OPEN_CREATE);
    server(f,
           "UPDATE holdfast_private.meta SET value = '%d' "
           "WHERE name IN ('schema_version', 'programs_from')",
           (int)version);
    must_answer(HF_SCHEMA, status);
    must_answer(HF_OK, open_at(f, f->url, DEADLINE_MS, HF_OPEN_EXISTING));
}

/* What is stored beside the functions: a digest that is no program's, and a release. */
static void pretend_functions_of(struct fixture *f, const char *release)
{
    server(f, "UPDATE holdfast_private.meta SET value = 'another' WHERE name = 'functions_digest'");
    server(f, "UPDATE holdfast_private.meta SET value = '%s' WHERE name = 'functions_release'",
           release);
}

static bool functions_are_ours(struct fixture *f)
{
    return server(f, "SELECT count(*) FROM holdfast_private.meta WHERE name = 'functions_digest' "
                     "AND value <> 'another'") == 1;
}

/* Every way to open that does not ask for a migration. */
static void open_without_migrating(struct fixture *f)
{
    must_answer(HF_OK, open_at(f, f->url, DEADLINE_MS, HF_OPEN_NOMIGRATE));
    must_answer(HF_OK, open_at(f, f->url, DEADLINE_MS, HF_OPEN_EXISTING));
    must_answer(HF_OK, open_at(f, f->url, DEADLINE_MS, HF_OPEN_CREATE));
}

static void functions_of_an_older_release_are_replaced_by_migrating_only(void **state)
{
    struct fixture *f = *state;
    fixture_close(f, fixture_open(f, "a"));
    pretend_functions_of(f, "0.0.9");
    open_without_migrating(f);
    must_hold(!functions_are_ours(f));
    must_answer(HF_OK, open_at(f, f->url, DEADLINE_MS, HF_OPEN_MIGRATE));
    must_hold(functions_are_ours(f));
}

static void functions_of_a_newer_release_are_left_alone(void **state)
{
    struct fixture *f = *state;
    fixture_close(f, fixture_open(f, "a"));
    pretend_functions_of(f, "99.0.0");
    open_without_migrating(f);
    must_answer(HF_OK, open_at(f, f->url, DEADLINE_MS, HF_OPEN_MIGRATE));
    must_hold(!functions_are_ours(f));
    pretend_functions_of(f, HF_VERSION);
    open_without_migrating(f);
    must_hold(!functions_are_ours(f));
    must_answer(HF_OK, open_at(f, f->url, DEADLINE_MS, HF_OPEN_MIGRATE));
    must_hold(functions_are_ours(f));
}

static void functions_of_a_newer_schema_are_left_alone(void **state)
{
    struct fixture *f = *state;
    fixture_close(f, fixture_open(f, "a"));
    pretend_functions_of(f, "0.0.9");
    server(f, "UPDATE holdfast_private.meta SET value = value::integer + 1 "
              "WHERE name = 'schema_version'");
    open_without_migrating(f);
    must_answer(HF_OK, open_at(f, f->url, DEADLINE_MS, HF_OPEN_MIGRATE));
    must_hold(!functions_are_ours(f));
}

/* A schema of an older version, of which nothing says that this program can work on it. */
static void an_older_schema_is_for_looking_until_it_is_migrated(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "a");
    append_one(store, "t", NULL);
    fixture_close(f, store);
    int64_t version =
        server(f, "SELECT value FROM holdfast_private.meta WHERE name = 'schema_version'");
    server(f, "UPDATE holdfast_private.meta SET value = '1' WHERE name = 'schema_version'");
    must_answer(HF_SCHEMA, open_at(f, f->url, DEADLINE_MS, HF_OPEN_CREATE));
    must_say("has schema version 1, and this program needs version");
    must_say("run `holdfast migrate`");
    must_answer(HF_SCHEMA, open_at(f, f->url, DEADLINE_MS, HF_OPEN_EXISTING));
    struct store_options options = fixture_options(f, "b");
    options.open_mode = HF_OPEN_NOMIGRATE;
    store = fixture_open_with(f, &options);
    int64_t head = 0;
    int64_t first = 0;
    must_answer(HF_OK, store_head(store, &head, &first));
    must_equal(1, head);
    struct new_event event = event_of("t", NULL);
    must_answer(HF_SCHEMA, append_event(store, &event));
    struct tx *tx = NULL;
    must_answer(HF_SCHEMA, store_tx_begin(store, deadline_after_ms(DEADLINE_MS), &tx));
    fixture_close(f, store);
    server(f, "UPDATE holdfast_private.meta SET value = '%d' WHERE name = 'schema_version'",
           (int)version);
}

/* ---- The connection is lost ------------------------------------------------------------------ */

static void a_writer_whose_session_was_ended_connects_again(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "victim");
    int64_t last = append_one(store, "t", NULL);
    for (int i = 0; i < 5; i++) {
        must_hold(end_sessions(f, "victim", "") > 0);
        int64_t next = append_one(store, "t", NULL);
        must_hold(next > last);
        last = next;
        must_hold(head_of(store) >= last);
    }
}

struct storm {
    struct store *store;
    atomic_bool stop;
    atomic_int appended;
};

static void append_in_a_storm(int index, void *ctx)
{
    (void)index;
    struct storm *storm = ctx;
    while (!atomic_load(&storm->stop)) {
        struct new_event event = event_of("t", NULL);
        must_answer(HF_OK, append_event(storm->store, &event));
        atomic_fetch_add(&storm->appended, 1);
    }
}

/* What is acknowledged is there, and once; what met a lost connection was resolved by its id. */
static void appends_survive_sessions_that_are_ended_under_them(void **state)
{
    struct fixture *f = *state;
    struct storm storm = {.store = fixture_open(f, "victim")};
    struct crowd crowd;
    crowd_start(&crowd, 8, append_in_a_storm, &storm);
    for (int i = 0; i < 40; i++) {
        end_sessions(f, "victim", "INSERT");
        usleep(10000);
    }
    atomic_store(&storm.stop, true);
    crowd_join(&crowd);
    int64_t stored =
        server(f,
               "SELECT count(*) FROM holdfast_private.events e JOIN holdfast_private.namespaces n "
               "ON n.id = e.namespace_id WHERE n.name = '%s'",
               f->namespace_name);
    int64_t ids =
        server(f,
               "SELECT count(DISTINCT e.id) FROM holdfast_private.events e JOIN "
               "holdfast_private.namespaces n ON n.id = e.namespace_id WHERE n.name = '%s'",
               f->namespace_name);
    must_equal(atomic_load(&storm.appended), stored);
    must_equal(stored, ids);
}

static void a_keeper_whose_session_was_ended_listens_again(void **state)
{
    struct fixture *f = *state;
    struct store *near = fixture_open(f, "near");
    struct store *far = fixture_open(f, "far");
    for (int i = 0; i < 3; i++) {
        int64_t until_ms = mono_ms() + DEADLINE_MS;
        while (end_sessions(f, "far", "") == 0) { /* it has not come back yet */
            must_hold(mono_ms() < until_ms);
            usleep(2000);
        }
        uint64_t seen = store_news(far);
        append_one(near, "t", NULL);
        must_hold(store_wait(far, seen, DEADLINE_MS) != seen);
    }
}

/* Longer than a keeper waits at first. */
#define SLOW_CONNECT "options=-c%20post_auth_delay%3D3"

static void a_keeper_gets_its_session_back_however_long_connecting_takes(void **state)
{
    struct fixture *f = *state;
    struct store *near = fixture_open(f, "near");
    struct store_options options = fixture_options(f, "far");
    struct store *far = NULL;
    must_answer(HF_OK, store_open(url_with(f, SLOW_CONNECT), &options, &far));
    must_hold(end_sessions(f, "far", "") > 0);
    uint64_t seen = store_news(far);
    append_one(near, "t", NULL);
    bool heard = store_wait(far, seen, DEADLINE_MS) != seen;
    store_close(far);
    must_hold(heard);
}

static void an_event_whose_commit_is_refused_is_not_stored(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "a");
    append_one(store, "t", NULL);
    int id = (int)server(f, "SELECT id FROM holdfast_private.namespaces WHERE name = '%s'",
                         f->namespace_name);
    server(f, "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
              "$$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '53100'; END $$");
    server(f,
           "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON holdfast_private.events_%d "
           "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()",
           id);
    struct new_event event = event_of("t", NULL);
    must_answer(HF_NOSPACE, append_event(store, &event));
    server(f, "DROP TRIGGER refuse ON holdfast_private.events_%d", id);
    struct batch *batch = fixture_batch(f);
    must_answer(HF_NOTFOUND, store_event_find(store, event.id, batch));
    must_answer(HF_OK, append_event(store, &event));
}

/* What a server says to a session that was idle for too long may come as the answer to whatever is
 * sent in that moment. */
static void a_session_that_was_ended_fails_no_publish(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "a");
    append_one(store, "t", NULL);
    int id = (int)server(f, "SELECT id FROM holdfast_private.namespaces WHERE name = '%s'",
                         f->namespace_name);
    server(f, "CREATE SEQUENCE IF NOT EXISTS endings");
    server(f, "SELECT setval('endings', 1, false)");
    server(f, "CREATE OR REPLACE FUNCTION end_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
              "IF nextval('endings') = 1 THEN RAISE EXCEPTION 'idle' USING ERRCODE = '57P05'; "
              "END IF; RETURN NULL; END $$");
    server(f,
           "CREATE TRIGGER end_once AFTER INSERT ON holdfast_private.events_%d "
           "FOR EACH STATEMENT EXECUTE FUNCTION end_once()",
           id);
    struct new_event event = event_of("t", NULL);
    must_answer(HF_OK, append_event(store, &event));
    must_equal(false, event.duplicate);
    must_equal(1, server(f, "SELECT is_called::int FROM endings"));
    server(f, "DROP TRIGGER end_once ON holdfast_private.events_%d", id);
}

static void an_id_in_anothers_open_transaction_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "a");
    struct new_event event = event_of("t", NULL);
    char id[UUID_TEXT_BYTES];
    char sql[256];
    uuid_format(event.id, id);
    snprintf(sql, sizeof sql, "BEGIN; SELECT holdfast.publish('%s', 't', '1', '%s')",
             f->namespace_name, id);
    PGconn *pg = PQconnectdb(f->url);
    PGresult *result = PQexec(pg, sql);
    must_equal(PGRES_TUPLES_OK, PQresultStatus(result));
    PQclear(result);
    struct append append = append_of(&event, 1);
    hf_status status = store_run(store, &append.change, deadline_after_ms(400));
    must_hold(status == HF_BUSY || status == HF_TIMEOUT || status == HF_UNKNOWN);
    append_one(store, "t", NULL); /* others go on */
    PQclear(PQexec(pg, "COMMIT"));
    PQfinish(pg);
    must_answer(HF_OK, append_event(store, &event));
    must_equal(true, event.duplicate);
}

/* An append and a pause in one list. */
struct list {
    struct store *store;
    struct append append;
    struct pause pause;
    atomic_bool answered;
};

static void run_list(int index, void *ctx)
{
    (void)index;
    struct list *list = ctx;
    struct change *changes[] = {&list->append.change, &list->pause.change};
    store_run_together(list->store, changes, 2, deadline_after_ms(DEADLINE_MS));
    atomic_store(&list->answered, true);
}

/* The statement of a publish names the log's table, and a new connection has to prepare it. */
static void a_locked_log_delays_only_processes_that_publish(void **state)
{
    struct fixture *f = *state;
    int64_t id = subscribe_ordered(fixture_open(f, "a"), "s", 1);
    int namespace_id = (int)server(
        f, "SELECT id FROM holdfast_private.namespaces WHERE name = '%s'", f->namespace_name);
    struct new_event event = event_of("t", NULL);
    struct list list = {
        .store = fixture_open(f, "b"),
        .append = append_of(&event, 1),
        .pause = {.change = {.kind = CHANGE_PAUSE, .now_us = T0},
                  .subscription_id = id,
                  .paused = true,
                  .reason = text_of("the log is locked"),
                  .by = text_of("b")},
    };
    PGconn *pg = side_open(f);
    side_must(pg, "BEGIN; LOCK TABLE holdfast_private.events_%d IN ACCESS EXCLUSIVE MODE",
              namespace_id);
    struct crowd crowd;
    crowd_start(&crowd, 1, run_list, &list);
    int64_t until_ms = mono_ms() + DEADLINE_MS;
    int64_t paused = 0;
    while (paused == 0 && !atomic_load(&list.answered) && mono_ms() < until_ms) {
        usleep(2000);
        paused =
            server(f, "SELECT count(paused_at) FROM holdfast_private.subscriptions WHERE id = %d",
                   (int)id);
    }
    bool waited = !atomic_load(&list.answered);
    side_must(pg, "COMMIT");
    PQfinish(pg);
    crowd_join(&crowd);
    must_equal(1, paused);
    must_hold(waited);
    must_equal(HF_OK, list.pause.change.status);
    must_equal(HF_OK, list.append.change.status);
}

/* Two appends in one list, whose first thread is in a hurry. */
struct pair {
    struct store *store;
    struct append appends[2];
};

static void run_pair(int index, void *ctx)
{
    (void)index;
    struct pair *pair = ctx;
    struct change *changes[] = {&pair->appends[0].change, &pair->appends[1].change};
    store_run_together(pair->store, changes, 2, deadline_after_ms(5000));
}

/* How many sessions of a store stand still inside a trigger; they are ended if it says so. */
static int64_t hesitating(struct fixture *f, const char *node, bool end)
{
    return server(f,
                  "SELECT count(%s) FROM pg_stat_activity WHERE datname = current_database() "
                  "AND application_name = '%s' AND wait_event = 'PgSleep'",
                  end ? "pg_terminate_backend(pid)" : "*", node);
}

/* What was sent together with a change that is in a hurry may belong to a caller that is not. */
static void changes_sent_together_are_not_given_up_when_the_first_times_out(void **state)
{
    struct fixture *f = *state;
    struct new_event events[] = {event_of("t", NULL), event_of("t", NULL)};
    struct pair pair = {.store = fixture_open(f, "hasty"),
                        .appends = {append_of(&events[0], 1), append_of(&events[1], 1)}};
    int id = (int)server(f, "SELECT id FROM holdfast_private.namespaces WHERE name = '%s'",
                         f->namespace_name);
    append_one(pair.store, "t", NULL); /* it is connected, and the month is there */
    server(f, "CREATE OR REPLACE FUNCTION hesitate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
              "PERFORM pg_sleep(600); RETURN NULL; END $$");
    server(f,
           "CREATE TRIGGER hesitate BEFORE INSERT ON holdfast_private.events_%d "
           "FOR EACH STATEMENT EXECUTE FUNCTION hesitate()",
           id);
    clock_fake_set(clock_wall_us(), clock_mono_us());
    struct crowd crowd;
    crowd_start(&crowd, 1, run_pair, &pair);
    for (int64_t looks = DEADLINE_MS / 2; hesitating(f, "hasty", false) == 0 && looks > 0;) {
        usleep(2000);
        looks--;
    }
    clock_fake_advance(6 * SECOND);
    int64_t ended = hesitating(f, "hasty", true);
    crowd_join(&crowd);
    clock_fake_off();
    server(f, "DROP TRIGGER hesitate ON holdfast_private.events_%d", id);
    must_equal(1, ended);
    must_equal(HF_OK, pair.appends[0].change.status);
    must_equal(HF_OK, pair.appends[1].change.status);
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_wrong_password_is_denied_and_not_repeated),
    CLAIM(a_host_that_is_not_let_in_is_denied),
    CLAIM(a_missing_database_is_not_found),
    CLAIM(no_server_is_unavailable_at_once),
    CLAIM(a_bad_url_is_invalid),
    CLAIM(the_error_for_a_role_without_rights_names_the_missing_right),
    CLAIM(a_read_only_server_is_unavailable),
    CLAIM(no_connection_left_is_unavailable),
    CLAIM(an_old_server_is_named_with_what_is_needed),
    CLAIM(a_url_that_cannot_be_read_is_not_shown),
    CLAIM(a_newer_schema_is_refused_and_left_alone),
    CLAIM(functions_of_an_older_release_are_replaced_by_migrating_only),
    CLAIM(functions_of_a_newer_release_are_left_alone),
    CLAIM(functions_of_a_newer_schema_are_left_alone),
    CLAIM(an_older_schema_is_for_looking_until_it_is_migrated),
    CLAIM(a_writer_whose_session_was_ended_connects_again),
    CLAIM(appends_survive_sessions_that_are_ended_under_them),
    CLAIM(a_keeper_whose_session_was_ended_listens_again),
    CLAIM(a_keeper_gets_its_session_back_however_long_connecting_takes),
    CLAIM(an_event_whose_commit_is_refused_is_not_stored),
    CLAIM(a_session_that_was_ended_fails_no_publish),
    CLAIM(an_id_in_anothers_open_transaction_is_waited_for),
    CLAIM(a_locked_log_delays_only_processes_that_publish),
    CLAIM(changes_sent_together_are_not_given_up_when_the_first_times_out),
};

FIXTURE_MAIN("faults", claims, NULL)
