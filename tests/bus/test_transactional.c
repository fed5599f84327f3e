/*
 * Tests of transactional handlers: what they write on the connection they are handed exists if and
 * only if the delivery is settled, once, whatever happens; and what they may not do there.
 */
#include "support_effects.h"

#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdatomic.h>

/* ---- Effects --------------------------------------------------------------------------------- */

static void each_effect_is_committed_once_with_its_delivery(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, effects_handle);
    hf_subscription_options options = effects_options();

    effects_make(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 100; i++) {
        publish(scene->bus, "x", i % 2 ? "k" : NULL, "1");
    }
    settle_all(scene->bus, "a");
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 100);
    assert_int_equal(tables_number(scene, "SELECT count(DISTINCT position) FROM effects"), 100);
}

static hf_verdict write_and_fail_once(const hf_event *event, hf_delivery *delivery,
                                      struct recorder *recorder)
{
    (void)recorder;
    if (!effects_write(delivery, event)) {
        return HF_DEAD;
    }
    return hf_delivery_attempt(delivery) == 1 ? HF_RETRY : HF_ACK;
}

static void a_failed_attempt_leaves_no_effect(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, write_and_fail_once);
    hf_subscription_options options = effects_options();

    effects_make(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 10; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 20);
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 10);
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects WHERE attempt = 2"), 10);
}

static hf_verdict write_and_reject(const hf_event *event, hf_delivery *delivery,
                                   struct recorder *recorder)
{
    (void)recorder;
    effects_write(delivery, event);
    hf_delivery_error(delivery, "rejected after writing");
    return HF_DEAD;
}

static void a_rejected_event_leaves_no_effect(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, write_and_reject);
    hf_subscription_options options = effects_options();
    struct dead dead;

    effects_make(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    assert_string_equal(dead.error, "rejected after writing");
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 0);
}

static hf_verdict reject_second(const hf_event *event, hf_delivery *delivery,
                                struct recorder *recorder)
{
    (void)event;
    (void)recorder;
    return hf_delivery_attempt(delivery) == 1 ? HF_RETRY : HF_ACK;
}

static void all_handlers_of_an_event_share_the_transaction(void **state)
{
    struct scene *scene = *state;
    struct recorder *writer = scene_recorder(scene, effects_handle);
    struct recorder *judge = scene_recorder(scene, reject_second);
    hf_subscription_options options = effects_options();

    effects_make(scene);
    subscribe(scene->bus, "a", "*", writer, &options);
    subscribe(scene->bus, "a", "*", judge, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(writer), 2);
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 1);
    assert_int_equal(tables_number(scene, "SELECT attempt FROM effects"), 2);
}

static void a_neighbour_that_fails_does_not_undo_the_others(void **state)
{
    struct scene *scene = *state;
    struct recorder *good = scene_recorder(scene, effects_handle);
    struct recorder *bad = scene_recorder(scene, write_and_reject);
    hf_subscription_options options = effects_options();

    effects_make(scene);
    subscribe(scene->bus, "a", "good", good, &options);
    subscribe(scene->bus, "a", "bad", bad, NULL);
    for (int i = 0; i < 30; i++) {
        publish(scene->bus, i % 3 == 1 ? "bad" : "good", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(info_of(scene->bus, "a").dead, 10);
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 20);
    assert_int_equal(tables_number(scene, "SELECT count(DISTINCT position) FROM effects"), 20);
}

static void shared_subscriptions_can_be_transactional(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, write_and_fail_once);
    hf_subscription_options options = effects_options();

    effects_make(scene);
    options.mode = HF_MODE_SHARED;
    options.concurrency = 3;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 30; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    settle_all(scene->bus, "a");
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 30);
    assert_int_equal(tables_number(scene, "SELECT count(DISTINCT position) FROM effects"), 30);
}

static void with_concurrency_every_effect_is_there_once(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, write_and_fail_once);
    hf_subscription_options options = effects_options();
    char key[16];

    effects_make(scene);
    options.concurrency = 4;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 60; i++) {
        snprintf(key, sizeof key, "%d", i % 5);
        publish(scene->bus, "x", key, "1");
    }
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_overlaps(recorder), 0);
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 60);
    assert_int_equal(tables_number(scene, "SELECT count(DISTINCT position) FROM effects"), 60);
}

static void effects_are_exactly_once_over_restarts(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, effects_handle);
    hf_subscription_options options = effects_options();

    effects_make(scene);
    options.checkpoint_events = 1000;
    options.checkpoint_ms = 60000;
    for (int round = 0; round < 4; round++) {
        subscribe(scene->bus, "a", "*", recorder, &options);
        for (int i = 0; i < 25; i++) {
            publish(scene->bus, "x", NULL, "1");
        }
        assert_ok(hf_start(scene->bus));
        assert_true(recorder_wait(recorder, (size_t)round * 25 + 10));
        scene_reopen(scene);
    }
    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 100);
    assert_int_equal(tables_number(scene, "SELECT count(DISTINCT position) FROM effects"), 100);
}

/* ---- Publishing inside ----------------------------------------------------------------------- */

static hf_verdict publish_then(const hf_event *event, hf_delivery *delivery,
                               struct recorder *recorder)
{
    hf_new_event next = HF_NEW_EVENT_INIT;

    if (strcmp(event->type, "cause") != 0) {
        return HF_ACK;
    }
    next.type = "effect";
    next.key = event->key;
    if (hf_publish(hf_delivery_bus(delivery), &next, NULL) != HF_OK) {
        return HF_DEAD;
    }
    if (hf_delivery_attempt(delivery) == 1) {
        return *(hf_verdict *)recorder->extra;
    }
    return HF_ACK;
}

static void events_published_by_a_handler_exist_only_if_it_succeeds(void **state)
{
    static hf_verdict first;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, publish_then);
    struct recorder *plain = scene_recorder(scene, NULL);
    hf_subscription_options options = effects_options();

    first = HF_RETRY;
    recorder->extra = &first;
    subscribe(scene->bus, "a", "cause", recorder, &options);
    subscribe(scene->bus, "b", "effect", plain, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "cause", "k", "1");
    settle_all(scene->bus, "a");
    settle_all(scene->bus, "b");
    assert_int_equal(recorder_count(recorder), 2);
    assert_int_equal(recorder_count(plain), 1);
    assert_int_equal(tables_events(scene), 2);
}

static void events_published_by_a_handler_that_answers_dead_do_not_exist(void **state)
{
    static hf_verdict first;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, publish_then);
    hf_subscription_options options = effects_options();

    first = HF_DEAD;
    recorder->extra = &first;
    subscribe(scene->bus, "a", "cause", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "cause", "k", "1");
    settle_all(scene->bus, "a");
    assert_int_equal(info_of(scene->bus, "a").dead, 1);
    assert_int_equal(tables_events(scene), 1);
}

static void positions_stay_gapless_and_unique_after_undone_publishes(void **state)
{
    static hf_verdict first;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, publish_then);
    hf_subscription_options options = effects_options();
    hf_stats stats = {.size = sizeof stats};

    first = HF_RETRY;
    recorder->extra = &first;
    subscribe(scene->bus, "a", "cause", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 20; i++) {
        publish(scene->bus, "cause", "k", "1");
        publish(scene->bus, "other", NULL, "1");
    }
    settle_all(scene->bus, "a");
    assert_ok(hf_stats_get(scene->bus, &stats));
    if (scene->path) { /* on a server numbers that were drawn in vain stay unused */
        assert_int_equal(stats.head, 60);
    }
    assert_int_equal(tables_events(scene), 60);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static const char *const FORBIDDEN[] = {
    "COMMIT",
    "END",
    "ROLLBACK",
    "ATTACH ':memory:' AS other",
    "DETACH other",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA synchronous = OFF",
    "PRAGMA wal_checkpoint",
};

static hf_verdict try_forbidden(const hf_event *event, hf_delivery *delivery,
                                struct recorder *recorder)
{
    atomic_int *allowed = recorder->extra;
    sqlite3 *db = hf_delivery_sqlite(delivery);

    if (!effects_write(delivery, event)) {
        return HF_DEAD;
    }
    for (size_t i = 0; i < COUNTED(FORBIDDEN); i++) {
        if (sqlite3_exec(db, FORBIDDEN[i], NULL, NULL, NULL) == SQLITE_OK) {
            atomic_fetch_or(allowed, 1 << i);
        }
    }
    if (sqlite3_get_autocommit(db)) {
        atomic_fetch_or(allowed, 1 << 30);
    }
    return strcmp(event->payload, "\"fail\"") == 0 ? HF_DEAD : HF_ACK;
}

static void ending_the_transaction_and_changing_the_connection_are_refused(void **state)
{
    static atomic_int allowed;
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, try_forbidden);
    hf_subscription_options options = effects_options();

    scene_sqlite(scene); /* a server cannot refuse; what it does instead comes below */
    effects_make(scene);
    atomic_store(&allowed, 0);
    recorder->extra = &allowed;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    publish(scene->bus, "x", NULL, "\"fail\"");
    settle_all(scene->bus, "a");
    assert_int_equal(atomic_load(&allowed), 0);
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 1);
    assert_int_equal(info_of(scene->bus, "a").dead, 1);
}

/* A statement of its own that ruins the transaction is the handler's failure. */
static hf_verdict roll_back(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)recorder;
    if (strcmp(event->type, "bad") == 0) {
        delivery_run(delivery, "INSERT INTO singles VALUES (1)");
        delivery_run(delivery, "INSERT %s INTO singles VALUES (1)",
                     hf_delivery_sqlite(delivery) ? "OR ROLLBACK" : "");
    } else if (!effects_write(delivery, event)) {
        return HF_DEAD;
    }
    return HF_ACK;
}

static void a_statement_that_rolls_back_is_a_failed_attempt(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, roll_back);
    hf_subscription_options options = effects_options();
    struct dead dead;

    effects_make(scene);
    tables_run(scene, "CREATE TABLE singles (a INTEGER UNIQUE)");
    options.attempts_max = 2;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "good", NULL, "1");
    publish(scene->bus, "bad", NULL, "1");
    publish(scene->bus, "good", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    assert_string_equal(dead.type, "bad");
    assert_int_equal(dead.attempts, 2);
    assert_int_not_equal(dead.error[0], 0);
    assert_string_equal(dead.cause, "transaction");
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 2);
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM singles"), 0);
}

/* A server lets the handler end the transaction. It is a failed attempt then, and the transaction
 * that it has begun instead is no place to settle in. */
static const char *const ENDINGS[] = {
    "ROLLBACK",
    "ROLLBACK; BEGIN",
    "ROLLBACK AND CHAIN",
    "ROLLBACK; BEGIN; SAVEPOINT holdfast_delivery",
    "ROLLBACK TO SAVEPOINT holdfast_delivery; RELEASE SAVEPOINT holdfast_delivery; ROLLBACK",
    "SET client_encoding = LATIN1",
};

static hf_verdict end_it(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)recorder;
    if (!effects_write(delivery, event)) {
        return HF_DEAD;
    }
    if (strcmp(event->type, "bad") == 0) {
        delivery_run(delivery, "%s", ENDINGS[strtol(event->payload, NULL, 10)]);
    }
    return HF_ACK;
}

static void a_handler_that_ends_the_transaction_has_failed(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, end_it);
    hf_subscription_options options = effects_options();
    struct dead dead[COUNTED(ENDINGS)];
    char payload[8];

    if (scene->path) {
        skip();
    }
    effects_make(scene);
    options.attempts_max = 2;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (size_t i = 0; i < COUNTED(ENDINGS); i++) {
        snprintf(payload, sizeof payload, "%zu", i);
        publish(scene->bus, "good", NULL, "1");
        publish(scene->bus, "bad", NULL, payload);
        publish(scene->bus, "good", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(dead_of(scene->bus, "a", dead, COUNTED(dead)), COUNTED(ENDINGS));
    for (size_t i = 0; i < COUNTED(dead); i++) {
        assert_string_equal(dead[i].type, "bad");
        assert_int_equal(dead[i].attempts, 2);
        assert_non_null(strstr(dead[i].error, "the handler"));
        assert_string_equal(dead[i].cause, "transaction");
    }
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 2 * COUNTED(ENDINGS));
    assert_int_equal(tables_number(scene, "SELECT count(DISTINCT position) FROM effects"),
                     2 * COUNTED(ENDINGS));
}

static hf_verdict leave_pipeline(const hf_event *event, hf_delivery *delivery,
                                 struct recorder *recorder)
{
    PGconn *pg = hf_delivery_postgres(delivery);

    (void)recorder;
    if (strcmp(event->type, "pipeline") == 0) {
        PQenterPipelineMode(pg);
    }
    if (strcmp(event->type, "running") == 0) {
        PQsendQuery(pg, "SELECT 1");
    }
    if (strcmp(event->type, "copy") == 0) {
        PQclear(PQexec(pg, "COPY effects FROM STDIN"));
    }
    return HF_ACK;
}

static void a_handler_that_leaves_the_connection_in_use_has_failed(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, leave_pipeline);
    hf_subscription_options options = effects_options();
    struct dead dead[4];

    if (scene->path) {
        skip();
    }
    effects_make(scene);
    options.attempts_max = 1;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "pipeline", NULL, "1");
    publish(scene->bus, "running", NULL, "1");
    publish(scene->bus, "copy", NULL, "1");
    publish(scene->bus, "good", NULL, "1");
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(dead_of(scene->bus, "a", dead, COUNTED(dead)), 3);
}

static hf_verdict look_at_connections(const hf_event *event, hf_delivery *delivery,
                                      struct recorder *recorder)
{
    hf_new_event next = HF_NEW_EVENT_INIT;
    hf_bus *bus = hf_delivery_bus(delivery);
    sqlite3 *db = hf_delivery_sqlite(delivery);
    PGconn *pg = hf_delivery_postgres(delivery);
    hf_status joined, ended;

    (void)event;
    next.type = "joined";
    if (!db == !pg) {
        return HF_DEAD;
    }
    joined = db ? hf_sqlite_publish(bus, db, &next, NULL)
                : hf_postgres_publish_many(bus, pg, &next, 1, NULL);
    ended = db ? hf_sqlite_commit(bus, db) : hf_postgres_commit(bus, pg);
    if (joined || ended != HF_MISUSE) {
        return HF_DEAD;
    }
    return recorder_count(recorder) == 1 ? HF_RETRY : HF_ACK;
}

static void the_handlers_connection_is_of_the_bus_and_publishing_on_it_joins(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, look_at_connections);
    hf_subscription_options options = effects_options();

    subscribe(scene->bus, "a", "x", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
    assert_int_equal(recorder_count(recorder), 2);
    assert_int_equal(tables_events(scene), 2);
}

/* ---- Trouble that passes --------------------------------------------------------------------- */

#define TROUBLES 4 /* then it has passed */

struct trouble {
    const char *sql;    /* what the handler runs while there is trouble */
    hf_verdict verdict; /* and what it answers then */
};

static hf_verdict meet_trouble(const hf_event *event, hf_delivery *delivery,
                               struct recorder *recorder)
{
    const struct trouble *trouble = recorder->extra;

    if (!effects_write(delivery, event)) {
        return HF_DEAD;
    }
    if (recorder_count(recorder) > TROUBLES) {
        return HF_ACK;
    }
    delivery_run(delivery, "%s", trouble->sql);
    return trouble->verdict;
}

/* Attempts that did not count have all the same number. */
static void expect_uncounted(struct scene *scene, struct recorder *recorder)
{
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
    assert_int_equal(recorder_count(recorder), TROUBLES + 1);
    for (size_t i = 0; i <= TROUBLES; i++) {
        assert_int_equal(recorder_get(recorder, i).attempt, 1);
    }
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 1);
}

static void pass_through(struct scene *scene, const struct trouble *trouble)
{
    static struct trouble kept;
    struct recorder *recorder = scene_recorder(scene, meet_trouble);
    hf_subscription_options options = effects_options();

    if (scene->path) {
        skip();
    }
    kept = *trouble;
    recorder->extra = &kept;
    effects_make(scene);
    options.attempts_max = 2;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", "k", "1");
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    expect_uncounted(scene, recorder);
}

#define RAISE(code) "DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '" code "'; END $$"

static void a_serialization_failure_uses_no_attempt(void **state)
{
    pass_through(*state, &(struct trouble){RAISE("40001"), HF_RETRY});
}

static void a_deadlock_uses_no_attempt(void **state)
{
    pass_through(*state, &(struct trouble){RAISE("40P01"), HF_RETRY});
}

static void a_lock_timeout_uses_no_attempt(void **state)
{
    pass_through(*state, &(struct trouble){RAISE("55P03"), HF_RETRY});
}

static void a_lock_timeout_that_the_handler_overlooks_uses_no_attempt(void **state)
{
    pass_through(*state, &(struct trouble){RAISE("40P01"), HF_ACK});
}

static void a_lost_connection_uses_no_attempt(void **state)
{
    pass_through(*state,
                 &(struct trouble){"SELECT pg_terminate_backend(pg_backend_pid())", HF_RETRY});
}

static void a_lost_connection_that_the_handler_overlooks_uses_no_attempt(void **state)
{
    pass_through(*state,
                 &(struct trouble){"SELECT pg_terminate_backend(pg_backend_pid())", HF_ACK});
}

/* A sequence is not rolled back, so it can count commits that failed. */
static void a_commit_that_fails_to_serialize_uses_no_attempt(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, effects_handle);
    hf_subscription_options options = effects_options();

    if (scene->path) {
        skip();
    }
    effects_make(scene);
    tables_run(scene, "CREATE SEQUENCE commits;"
                      "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                      "IF nextval('commits') <= 4 THEN "
                      "RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END IF; RETURN NULL; END $$;"
                      "CREATE CONSTRAINT TRIGGER refusal AFTER INSERT ON effects "
                      "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()");
    options.attempts_max = 2;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", "k", "1");
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    expect_uncounted(scene, recorder);
}

/* The same with something that does not pass: then it is the event's fault. */
static void another_failure_of_a_statement_uses_an_attempt(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, meet_trouble);
    hf_subscription_options options = effects_options();
    static struct trouble trouble = {"SELECT 1 / 0", HF_RETRY};

    if (scene->path) {
        skip();
    }
    recorder->extra = &trouble;
    effects_make(scene);
    options.attempts_max = 2;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", "k", "1");
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(info_of(scene->bus, "a").dead, 1);
    assert_int_equal(recorder_count(recorder), 2);
}

/* Two handlers that lock each other's rows: the server ends one of them, and both get through. */
static hf_verdict embrace(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    bool first = strcmp(event->type, "x") == 0;

    if (!delivery_run(delivery, "UPDATE accounts SET money = money + 1 WHERE name = '%s'",
                      first ? "a" : "b")) {
        return HF_RETRY;
    }
    door_pass(recorder->extra);
    if (!delivery_run(delivery, "UPDATE accounts SET money = money - 1 WHERE name = '%s'",
                      first ? "b" : "a")) {
        return HF_RETRY;
    }
    return HF_ACK;
}

static void handlers_that_deadlock_both_get_through(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, embrace);
    hf_subscription_options options = effects_options();
    struct door *door = scene_door(scene);

    if (scene->path) {
        skip();
    }
    tables_run(scene, "CREATE TABLE accounts (name TEXT, money INTEGER);"
                      "INSERT INTO accounts VALUES ('a', 0), ('b', 0)");
    recorder->extra = door;
    options.attempts_max = 1;
    options.concurrency = 2;
    options.tx_max_ms = DEADLINE_MS;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", "x", "1");
    publish(scene->bus, "y", "y", "1");
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(door, 2));
    door_open(door);
    settle_all(scene->bus, "a");
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
    assert_int_equal(recorder_count(recorder), 3);
    assert_int_equal(tables_number(scene, "SELECT sum(abs(money)) FROM accounts"), 0);
}

static void a_transactional_handler_sees_what_others_committed(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, effects_handle);
    hf_subscription_options options = effects_options();

    effects_make(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    tables_run(scene, "DROP TABLE effects");
    publish(scene->bus, "x", NULL, "2");
    settle_all(scene->bus, "a");
    assert_int_equal(info_of(scene->bus, "a").dead, 1);
}

static const struct CMUnitTest tests[] = {
    scene_test(each_effect_is_committed_once_with_its_delivery),
    scene_test(a_failed_attempt_leaves_no_effect),
    scene_test(a_rejected_event_leaves_no_effect),
    scene_test(all_handlers_of_an_event_share_the_transaction),
    scene_test(a_neighbour_that_fails_does_not_undo_the_others),
    scene_test(shared_subscriptions_can_be_transactional),
    scene_test(with_concurrency_every_effect_is_there_once),
    scene_test(effects_are_exactly_once_over_restarts),
    scene_test(events_published_by_a_handler_exist_only_if_it_succeeds),
    scene_test(events_published_by_a_handler_that_answers_dead_do_not_exist),
    scene_test(positions_stay_gapless_and_unique_after_undone_publishes),
    scene_test(ending_the_transaction_and_changing_the_connection_are_refused),
    scene_test(a_statement_that_rolls_back_is_a_failed_attempt),
    scene_test(a_handler_that_ends_the_transaction_has_failed),
    scene_test(a_handler_that_leaves_the_connection_in_use_has_failed),
    scene_test(the_handlers_connection_is_of_the_bus_and_publishing_on_it_joins),
    scene_test(a_serialization_failure_uses_no_attempt),
    scene_test(a_deadlock_uses_no_attempt),
    scene_test(a_lock_timeout_uses_no_attempt),
    scene_test(a_lock_timeout_that_the_handler_overlooks_uses_no_attempt),
    scene_test(a_lost_connection_uses_no_attempt),
    scene_test(a_lost_connection_that_the_handler_overlooks_uses_no_attempt),
    scene_test(a_commit_that_fails_to_serialize_uses_no_attempt),
    scene_test(another_failure_of_a_statement_uses_an_attempt),
    scene_test(handlers_that_deadlock_both_get_through),
    scene_test(a_transactional_handler_sees_what_others_committed),
};

SCENE_MAIN(tests)
