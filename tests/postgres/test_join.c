/*
 * test_join.c - G9 through the public functions: what is published on the application's own
 * connection exists if and only if the transaction that it is in commits, whatever becomes of the
 * transaction, the connection and the process.
 */
#include "postgres/support_side.h"
#include "support/crowd.h"
#include "support/fixture.h"
#include "support/make.h"

#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/point.h"

#define TOLD_WANTED 4     /* so many times it must be prompt */
#define TOLD_TRIES_MAX 10 /* of so many on a slow machine */

struct scene {
    struct fixture *f;
    hf_bus *bus;
    PGconn *pg;   /* the application's */
    PGconn *side; /* looks on */
};

static hf_bus *open_bus(const struct fixture *f)
{
    hf_options options = HF_OPTIONS_INIT;
    hf_bus *bus = NULL;
    options.namespace_name = f->namespace_name;
    must_answer(HF_OK, hf_open(f->url, &options, &bus));
    return bus;
}

static struct scene scene_of(struct fixture *f)
{
    if (f->sqlite) {
        skip();
    }
    struct scene s = {.f = f, .bus = open_bus(f), .pg = side_open(f), .side = side_open(f)};
    side_must(s.side, "DROP TABLE IF EXISTS orders; CREATE TABLE orders (number integer)");
    return s;
}

static void scene_end(struct scene *s)
{
    PQfinish(s->pg);
    PQfinish(s->side);
    must_answer(HF_OK, hf_close(&s->bus));
}

static hf_new_event order(void)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    event.type = "order.placed";
    event.payload = "{\"order\": 1}";
    return event;
}

static hf_status publish(struct scene *s, hf_receipt *ret_receipt)
{
    hf_new_event event = order();
    return hf_postgres_publish(s->bus, s->pg, &event, ret_receipt);
}

/* Rows that the application wrote, and events of the namespace. */
static int64_t orders_of(struct scene *s)
{
    return side_number(s->side, "SELECT count(*) FROM orders");
}

static int64_t events_of(struct scene *s)
{
    return side_number(
        s->side,
        "SELECT count(*) FROM holdfast_private.events e JOIN holdfast_private.namespaces n "
        "ON n.id = e.namespace_id WHERE n.name = '%s'",
        s->f->namespace_name);
}

/* ---- Commit and rollback --------------------------------------------------------------------- */

static void row_and_event_exist_both_or_neither(void **state)
{
    struct scene s = scene_of(*state);
    for (int i = 0; i < 6; i++) {
        bool commits = i % 2 == 0;
        hf_receipt receipt = {0};
        side_must(s.pg, "BEGIN; INSERT INTO orders VALUES (%d)", i);
        must_answer(HF_OK, publish(&s, &receipt));
        must_hold(receipt.position > 0 && receipt.duplicate == 0);
        must_equal((i + 1) / 2, events_of(&s));
        side_must(s.pg, commits ? "COMMIT" : "ROLLBACK");
        must_equal(i / 2 + 1, events_of(&s));
        must_equal(i / 2 + 1, orders_of(&s));
    }
    scene_end(&s);
}

static void row_and_event_of_a_transaction_of_the_bus_exist_both_or_neither(void **state)
{
    struct scene s = scene_of(*state);
    for (int i = 0; i < 4; i++) {
        must_answer(HF_OK, hf_postgres_begin(s.bus, s.pg));
        must_answer(HF_MISUSE, hf_postgres_begin(s.bus, s.pg));
        side_must(s.pg, "INSERT INTO orders VALUES (%d)", i);
        must_answer(HF_OK, publish(&s, NULL));
        must_answer(HF_OK,
                    i % 2 ? hf_postgres_rollback(s.bus, s.pg) : hf_postgres_commit(s.bus, s.pg));
        must_answer(HF_MISUSE, hf_postgres_commit(s.bus, s.pg));
        must_answer(HF_MISUSE, hf_postgres_rollback(s.bus, s.pg));
        must_equal(i / 2 + 1, events_of(&s));
        must_equal(i / 2 + 1, orders_of(&s));
    }
    scene_end(&s);
}

static void many_events_are_published_all_or_none(void **state)
{
    struct scene s = scene_of(*state);
    hf_new_event events[50];
    hf_receipt receipts[50];
    for (int i = 0; i < 50; i++) {
        events[i] = order();
    }
    side_must(s.pg, "BEGIN");
    must_answer(HF_OK, hf_postgres_publish_many(s.bus, s.pg, events, 50, receipts));
    for (int i = 1; i < 50; i++) {
        must_hold(receipts[i].position > receipts[i - 1].position);
    }
    events[30].key = "k";
    events[30].expected_version = 7;
    must_answer(HF_CONFLICT, hf_postgres_publish_many(s.bus, s.pg, events, 50, receipts));
    must_hold(strncmp(hf_errmsg(), "event 30: ", 10) == 0);
    events[30].type = "";
    must_answer(HF_INVALID, hf_postgres_publish_many(s.bus, s.pg, events, 50, receipts));
    side_must(s.pg, "COMMIT");
    must_equal(50, events_of(&s));
    scene_end(&s);
}

static void an_event_that_a_savepoint_undoes_does_not_exist(void **state)
{
    struct scene s = scene_of(*state);
    hf_receipt kept;
    hf_receipt undone;
    hf_receipt last;
    side_must(s.pg, "BEGIN");
    must_answer(HF_OK, publish(&s, &kept));
    side_must(s.pg, "SAVEPOINT mine; INSERT INTO orders VALUES (1)");
    must_answer(HF_OK, publish(&s, &undone));
    side_must(s.pg, "ROLLBACK TO mine");
    must_answer(HF_OK, publish(&s, &last));
    side_must(s.pg, "RELEASE mine; COMMIT");
    must_hold(kept.position < undone.position && undone.position < last.position);
    must_equal(2, events_of(&s));
    must_equal(0,
               side_number(s.side, "SELECT count(*) FROM holdfast_private.events WHERE id = '%s'",
                           undone.id));
    scene_end(&s);
}

static void after_a_failed_statement_nothing_is_published_until_it_is_undone(void **state)
{
    struct scene s = scene_of(*state);
    side_must(s.pg, "BEGIN; INSERT INTO orders VALUES (1); SAVEPOINT mine");
    PQclear(PQexec(s.pg, "SELECT nonsense"));
    must_answer(HF_MISUSE, publish(&s, NULL));
    must_answer(HF_MISUSE, hf_postgres_commit(s.bus, s.pg));
    side_must(s.pg, "ROLLBACK TO mine");
    must_answer(HF_OK, publish(&s, NULL));
    must_answer(HF_OK, hf_postgres_commit(s.bus, s.pg));
    must_equal(1, events_of(&s));
    must_equal(1, orders_of(&s));
    scene_end(&s);
}

static void a_commit_that_a_constraint_refuses_keeps_nothing(void **state)
{
    struct scene s = scene_of(*state);
    side_must(s.side, "ALTER TABLE orders ADD UNIQUE (number) DEFERRABLE INITIALLY DEFERRED");
    must_answer(HF_OK, hf_postgres_begin(s.bus, s.pg));
    side_must(s.pg, "INSERT INTO orders VALUES (1), (1)");
    must_answer(HF_OK, publish(&s, NULL));
    must_answer(HF_CONFLICT, hf_postgres_commit(s.bus, s.pg));
    must_equal(PQTRANS_IDLE, PQtransactionStatus(s.pg));
    must_equal(0, events_of(&s));
    scene_end(&s);
}

/* Whatever the isolation, and however the connection waits. */
static void any_kind_of_transaction_will_do(void **state)
{
    static const char *const kinds[] = {"BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ",
                                        "BEGIN ISOLATION LEVEL SERIALIZABLE"};
    struct scene s = scene_of(*state);
    for (int i = 0; i < 6; i++) {
        side_must(s.pg, "%s", kinds[i / 2]);
        PQsetnonblocking(s.pg, i % 2);
        must_answer(HF_OK, publish(&s, NULL));
        must_equal(i % 2, PQisnonblocking(s.pg));
        PQsetnonblocking(s.pg, 0);
        side_must(s.pg, "COMMIT");
    }
    must_equal(6, events_of(&s));
    scene_end(&s);
}

/* ---- Lost connections ------------------------------------------------------------------------ */

static void end_backend(struct scene *s, int pid)
{
    side_number(s->side, "SELECT pg_terminate_backend(%d)::int", pid);
    int64_t until_ms = mono_ms() + DEADLINE_MS;
    while (side_number(s->side, "SELECT count(*) FROM pg_stat_activity WHERE pid = %d", pid) > 0) {
        must_hold(mono_ms() < until_ms);
        sched_yield();
    }
}

static void a_connection_that_is_lost_before_the_commit_leaves_nothing(void **state)
{
    struct scene s = scene_of(*state);
    for (int i = 0; i < 3; i++) {
        must_answer(HF_OK, hf_postgres_begin(s.bus, s.pg));
        side_must(s.pg, "INSERT INTO orders VALUES (1)");
        must_answer(HF_OK, publish(&s, NULL));
        end_backend(&s, PQbackendPID(s.pg));
        hf_status status = i == 0   ? publish(&s, NULL)
                           : i == 1 ? hf_postgres_commit(s.bus, s.pg)
                                    : hf_postgres_rollback(s.bus, s.pg);
        must_hold(status == HF_UNAVAILABLE || (i == 1 && status == HF_UNKNOWN));
        must_answer(HF_UNAVAILABLE, publish(&s, NULL));
        PQreset(s.pg);
        must_equal(0, events_of(&s));
        must_equal(0, orders_of(&s));
    }
    scene_end(&s);
}

/* A number that no other session locks. */
#define COMMIT_LOCK "4711"

/* The commit waits for a lock that is given up when the connection is cut. */
static void cut_while_it_commits(int index, void *ctx)
{
    (void)index;
    struct scene *s = ctx;
    int64_t until_ms = mono_ms() + DEADLINE_MS;
    while (side_number(s->side,
                       "SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND "
                       "wait_event = 'advisory'",
                       PQbackendPID(s->pg)) == 0) {
        must_hold(mono_ms() < until_ms);
        sched_yield();
    }
    shutdown(PQsocket(s->pg), SHUT_RDWR);
    side_must(s->side, "SELECT pg_advisory_unlock(" COMMIT_LOCK ")");
}

/* The server commits and its answer is lost. Publishing the same id again tells. */
static void a_commit_whose_answer_is_lost_is_unknown_and_the_id_tells(void **state)
{
    struct scene s = scene_of(*state);
    hf_new_event event = order();
    hf_receipt first;
    hf_receipt again;
    event.id = "7f4df1b8-7c1c-4c0c-8a54-0a7b3d0c1a11";
    side_must(s.side,
              "CREATE OR REPLACE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS "
              "$$ BEGIN PERFORM pg_advisory_xact_lock(" COMMIT_LOCK "); RETURN NULL; END $$;"
              "CREATE CONSTRAINT TRIGGER linger AFTER INSERT ON orders DEFERRABLE "
              "INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION linger()");
    side_must(s.side, "SELECT pg_advisory_lock(" COMMIT_LOCK ")");
    must_answer(HF_OK, hf_postgres_begin(s.bus, s.pg));
    side_must(s.pg, "INSERT INTO orders VALUES (1)");
    must_answer(HF_OK, hf_postgres_publish(s.bus, s.pg, &event, &first));
    struct crowd crowd;
    crowd_start(&crowd, 1, cut_while_it_commits, &s);
    must_answer(HF_UNKNOWN, hf_postgres_commit(s.bus, s.pg));
    crowd_join(&crowd);
    PQreset(s.pg);
    must_answer(HF_OK, hf_postgres_begin(s.bus, s.pg));
    must_answer(HF_OK, hf_postgres_publish(s.bus, s.pg, &event, &again)); /* waits for the first */
    must_answer(HF_OK, hf_postgres_commit(s.bus, s.pg));
    must_equal(1, again.duplicate);
    must_equal(first.position, again.position);
    must_equal(1, events_of(&s));
    must_equal(1, orders_of(&s));
    scene_end(&s);
}

/* ---- A process that dies --------------------------------------------------------------------- */

/* Places an order and is killed at the point that is its argument. */
static int place_and_die(struct fixture *f, const char *point)
{
    struct scene s = {.f = f, .bus = open_bus(f), .pg = side_open(f)};
    point_arm(point, 1, POINT_KILL);
    must_answer(HF_OK, hf_postgres_begin(s.bus, s.pg));
    side_must(s.pg, "INSERT INTO orders VALUES (1)");
    must_answer(HF_OK, publish(&s, NULL));
    return hf_postgres_commit(s.bus, s.pg) == HF_OK ? 0 : 1;
}

static void a_process_that_is_killed_leaves_row_and_event_or_neither(void **state)
{
    static const char *const points[] = {"join_before_commit", "join_after_commit"};
    struct scene s = scene_of(*state);
    for (int i = 0; i < 2; i++) {
        struct child *child = fixture_child(*state, "place_and_die", points[i]);
        int status;
        must_equal(child->pid, waitpid(child->pid, &status, 0));
        child->pid = 0;
        must_hold(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        must_equal(i, events_of(&s));
        must_equal(i, orders_of(&s));
    }
    scene_end(&s);
}

/* ---- Two-phase commit, and who is told ------------------------------------------------------- */

struct ear {
    atomic_int heard;
};

static hf_verdict hear(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)event;
    (void)delivery;
    atomic_fetch_add(&((struct ear *)ctx)->heard, 1);
    return HF_ACK;
}

static void await_heard(struct ear *ear, int count)
{
    int64_t until_ms = mono_ms() + DEADLINE_MS;
    while (atomic_load(&ear->heard) < count) {
        must_hold(mono_ms() < until_ms);
        poll(NULL, 0, 1);
    }
}

/* A store that waits for events, in another process as it were, and sleeps. */
static hf_bus *listener(struct scene *s, struct ear *ear)
{
    hf_bus *bus = open_bus(s->f);
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.from.kind = HF_PLACE_START;
    must_answer(HF_OK, hf_subscribe(bus, "ear", "*", hear, ear, &options, NULL));
    must_answer(HF_OK, hf_start(bus));
    int64_t until_ms = mono_ms() + DEADLINE_MS;
    while (side_number(s->side,
                       "SELECT (coalesce(pg_sequence_last_value(sleep), 0) > "
                       "extract(epoch FROM clock_timestamp()) * 1000000)::int "
                       "FROM holdfast_private.namespaces WHERE name = '%s'",
                       s->f->namespace_name) == 0) {
        must_hold(mono_ms() < until_ms);
        poll(NULL, 0, 5);
    }
    return bus;
}

static void a_commit_of_a_joined_transaction_wakes_sleepers(void **state)
{
    struct scene s = scene_of(*state);
    struct ear ear = {0};
    hf_bus *bus = listener(&s, &ear);
    int prompt = 0;
    for (int i = 0; i < TOLD_TRIES_MAX && prompt < TOLD_WANTED; i++) {
        int64_t begun_ms = mono_ms();
        if (i % 2) {
            must_answer(HF_OK, hf_postgres_begin(s.bus, s.pg));
        } else {
            side_must(s.pg, "BEGIN");
        }
        must_answer(HF_OK, publish(&s, NULL));
        side_must(s.pg, "COMMIT");
        await_heard(&ear, i + 1);
        prompt += mono_ms() - begun_ms < 5000; /* without being told it would take up to 10 s */
    }
    must_equal(TOLD_WANTED, prompt);
    must_answer(HF_OK, hf_close(&bus));
    scene_end(&s);
}

static void a_prepared_transaction_without_notify_wakes_sleepers_in_the_end(void **state)
{
    struct scene s = scene_of(*state);
    if (side_number(s.side, "SHOW max_prepared_transactions") == 0) {
        scene_end(&s);
        skip();
    }
    struct ear ear = {0};
    hf_bus *bus = listener(&s, &ear);
    for (int i = 0; i < 6; i++) {
        const char *how = i < 3 ? "COMMIT" : "ROLLBACK";
        if (i % 3 == 0) {
            must_answer(HF_OK, hf_postgres_begin(s.bus, s.pg));
        } else {
            side_must(s.pg, "BEGIN; SET LOCAL holdfast.notify = off");
        }
        side_must(s.pg, "INSERT INTO orders VALUES (%d)", i);
        if (i % 3 == 2) {
            side_publish(s.pg, s.f, "order.placed", NULL); /* its end will not be watched for */
        } else {
            must_answer(HF_OK, publish(&s, NULL));
        }
        side_must(s.pg, "PREPARE TRANSACTION 'order-%d'", i);
        must_equal(i < 3 ? i : 3, events_of(&s));
        side_must(s.pg, "%s PREPARED 'order-%d'", how, i);
        must_equal(i < 3 ? i + 1 : 3, events_of(&s));
        must_equal(i < 3 ? i + 1 : 3, orders_of(&s));
        await_heard(&ear, i < 3 ? i + 1 : 3);
    }
    must_equal(3, atomic_load(&ear.heard));
    must_answer(HF_OK, hf_close(&bus));
    scene_end(&s);
}

/* ---- The wrong connection -------------------------------------------------------------------- */

static void a_connection_of_the_other_engine_is_not_looked_at(void **state)
{
    struct scene s = scene_of(*state);
    hf_new_event event = order();
    hf_bus *file = NULL;
    struct sqlite3 *db = (struct sqlite3 *)(void *)s.pg; /* would crash if it were touched */
    struct pg_conn *pg = (struct pg_conn *)(void *)&event;
    must_answer(HF_OK, hf_open(temp_file(s.f->dir, "file.db"), NULL, &file));
    must_answer(HF_MISUSE, hf_sqlite_begin(s.bus, db));
    must_answer(HF_MISUSE, hf_sqlite_publish(s.bus, db, &event, NULL));
    must_answer(HF_MISUSE, hf_sqlite_publish_many(s.bus, db, &event, 1, NULL));
    must_answer(HF_MISUSE, hf_sqlite_commit(s.bus, db));
    must_answer(HF_MISUSE, hf_sqlite_rollback(s.bus, db));
    must_answer(HF_MISUSE, hf_postgres_begin(file, pg));
    must_answer(HF_MISUSE, hf_postgres_publish(file, pg, &event, NULL));
    must_answer(HF_MISUSE, hf_postgres_publish_many(file, pg, &event, 1, NULL));
    must_answer(HF_MISUSE, hf_postgres_commit(file, pg));
    must_answer(HF_MISUSE, hf_postgres_rollback(file, pg));
    must_answer(HF_INVALID, hf_postgres_publish(s.bus, NULL, &event, NULL));
    must_answer(HF_OK, hf_close(&file));
    scene_end(&s);
}

static void a_connection_to_another_database_is_refused_and_goes_on(void **state)
{
    struct scene s = scene_of(*state);
    char name[64];
    snprintf(name, sizeof name, "elsewhere_%d", (int)getpid());
    side_must(s.side, "CREATE DATABASE %s", name);
    PGconn *mine = s.pg;
    s.pg = PQsetdbLogin(PQhost(mine), PQport(mine), NULL, NULL, name, PQuser(mine), NULL);
    must_equal(CONNECTION_OK, PQstatus(s.pg));
    side_must(s.pg, "BEGIN; CREATE TABLE orders (number integer)");
    hf_status bare = publish(&s, NULL); /* there is not even a schema */
    must_hold(bare == HF_SCHEMA || bare == HF_MISUSE);
    side_must(s.pg, "INSERT INTO orders VALUES (1); COMMIT");
    PQfinish(s.pg);
    s.pg = mine;
    side_must(s.side, "DROP DATABASE %s WITH (FORCE)", name);
    must_equal(0, events_of(&s));
    scene_end(&s);
}

static void a_connection_that_is_in_use_is_refused(void **state)
{
    struct scene s = scene_of(*state);
    side_must(s.pg, "BEGIN");
    must_equal(1, PQenterPipelineMode(s.pg));
    must_answer(HF_MISUSE, publish(&s, NULL));
    must_equal(1, PQexitPipelineMode(s.pg));
    must_equal(1, PQsendQuery(s.pg, "SELECT 1"));
    must_answer(HF_MISUSE, publish(&s, NULL));
    for (PGresult *result = PQgetResult(s.pg); result; result = PQgetResult(s.pg)) {
        PQclear(result);
    }
    must_answer(HF_OK, publish(&s, NULL));
    side_must(s.pg, "COMMIT");
    must_answer(HF_MISUSE, publish(&s, NULL));
    must_equal(1, events_of(&s));
    scene_end(&s);
}

static const struct CMUnitTest claims[] = {
    CLAIM(row_and_event_exist_both_or_neither),
    CLAIM(row_and_event_of_a_transaction_of_the_bus_exist_both_or_neither),
    CLAIM(many_events_are_published_all_or_none),
    CLAIM(an_event_that_a_savepoint_undoes_does_not_exist),
    CLAIM(after_a_failed_statement_nothing_is_published_until_it_is_undone),
    CLAIM(a_commit_that_a_constraint_refuses_keeps_nothing),
    CLAIM(any_kind_of_transaction_will_do),
    CLAIM(a_connection_that_is_lost_before_the_commit_leaves_nothing),
    CLAIM(a_commit_whose_answer_is_lost_is_unknown_and_the_id_tells),
    CLAIM(a_process_that_is_killed_leaves_row_and_event_or_neither),
    CLAIM(a_commit_of_a_joined_transaction_wakes_sleepers),
    CLAIM(a_prepared_transaction_without_notify_wakes_sleepers_in_the_end),
    CLAIM(a_connection_of_the_other_engine_is_not_looked_at),
    CLAIM(a_connection_to_another_database_is_refused_and_goes_on),
    CLAIM(a_connection_that_is_in_use_is_refused),
};

static const struct role roles[] = {{"place_and_die", place_and_die}, {NULL, NULL}};

FIXTURE_MAIN("join", claims, roles)
