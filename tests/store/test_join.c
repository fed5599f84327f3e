/*
 * test_join.c - events published in the application's own SQLite transaction: they exist if and
 * only if that transaction commits.
 */
#include "support/crowd.h"
#include "support/make.h"
#include "support/sqlite.h"

struct scene {
    struct fixture *f;
    struct store *store;
    sqlite3 *db; /* the application's own connection */
};

static sqlite3 *application(const char *path)
{
    sqlite3 *db = NULL;
    must_equal(SQLITE_OK,
               sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL));
    sqlite3_busy_timeout(db, DEADLINE_MS);
    return db;
}

static int sql(sqlite3 *db, const char *text)
{
    return sqlite3_exec(db, text, NULL, NULL, NULL);
}

static struct scene scene_of(struct fixture *f)
{
    fixture_sqlite_only(f);
    struct scene scene = {.f = f, .store = fixture_open(f, "a")};
    scene.db = application(fixture_path(f));
    must_equal(SQLITE_OK, sql(scene.db, "CREATE TABLE orders (number INTEGER)"));
    return scene;
}

static struct deadline soon(void)
{
    return deadline_after_ms(DEADLINE_MS);
}

static hf_status join_append(struct scene *s, struct new_event *event)
{
    struct append append = append_of(event, 1);
    return store_join_append(s->store, s->db, &append);
}

/* ---- Together -------------------------------------------------------------------------------- */

static void a_commit_keeps_the_applications_rows_and_the_events(void **state)
{
    struct scene s = scene_of(*state);
    must_answer(HF_OK, store_join_begin(s.store, s.db, soon()));
    must_equal(SQLITE_OK, sql(s.db, "INSERT INTO orders VALUES (1)"));
    struct new_event event = event_of("order.placed", "k");
    must_answer(HF_OK, join_append(&s, &event));
    must_equal(1, event.position);
    must_equal(false, event.duplicate);
    must_equal(0, head_of(s.store)); /* it cannot be seen yet */
    must_answer(HF_OK, store_join_commit(s.store, s.db));
    must_equal(1, head_of(s.store));
    must_read("order.placed", entry_at(*state, s.store, 1)->event.type);
    must_equal(1, sqlite_number(s.db, "SELECT count(*) FROM orders"));
    must_hold(sqlite3_get_autocommit(s.db));
    must_equal(2, append_one(s.store, "t", NULL));
    sqlite3_close(s.db);
}

static void a_rollback_keeps_neither_the_applications_rows_nor_the_events(void **state)
{
    struct scene s = scene_of(*state);
    must_answer(HF_OK, store_join_begin(s.store, s.db, soon()));
    must_equal(SQLITE_OK, sql(s.db, "INSERT INTO orders VALUES (1)"));
    struct new_event event = event_of("t", NULL);
    must_answer(HF_OK, join_append(&s, &event));
    must_answer(HF_OK, store_join_rollback(s.store, s.db));
    must_equal(0, head_of(s.store));
    must_equal(0, sqlite_number(s.db, "SELECT count(*) FROM orders"));
    must_hold(sqlite3_get_autocommit(s.db));
    must_equal(1, append_one(s.store, "t", NULL));
    sqlite3_close(s.db);
}

static void one_connection_can_join_again_and_again(void **state)
{
    struct scene s = scene_of(*state);
    for (int i = 1; i <= 20; i++) {
        must_answer(HF_OK, store_join_begin(s.store, s.db, soon()));
        struct new_event events[2] = {event_of("t", NULL), event_of("t", NULL)};
        struct append append = append_of(events, 2);
        must_answer(HF_OK, store_join_append(s.store, s.db, &append));
        if (i % 2) {
            must_answer(HF_OK, store_join_commit(s.store, s.db));
        } else {
            must_answer(HF_OK, store_join_rollback(s.store, s.db));
        }
    }
    must_equal(20, head_of(s.store));
    sqlite3_close(s.db);
}

static void the_contract_of_append_holds_in_a_joined_transaction(void **state)
{
    struct scene s = scene_of(*state);
    struct new_event known = event_of("t", NULL);
    must_answer(HF_OK, append_event(s.store, &known));
    must_answer(HF_OK, store_join_begin(s.store, s.db, soon()));
    struct new_event events[2] = {event_of("t", "k"), event_of("t", NULL)};
    events[0].expected_version = 0;
    memcpy(events[1].id, known.id, 16);
    struct append append = append_of(events, 2);
    must_answer(HF_OK, store_join_append(s.store, s.db, &append));
    must_equal(2, events[0].position);
    must_equal(1, events[0].key_version);
    must_equal(true, events[1].duplicate);
    must_equal(1, events[1].position);

    struct new_event wrong[2] = {event_of("t", NULL), event_of("t", "k")};
    wrong[1].expected_version = 9;
    append = append_of(wrong, 2);
    must_answer(HF_CONFLICT, store_join_append(s.store, s.db, &append));
    must_equal(1, append.failed_index);
    must_equal(SQLITE_OK, sql(s.db, "INSERT INTO orders VALUES (1)")); /* it goes on */
    must_answer(HF_OK, store_join_commit(s.store, s.db));
    must_equal(2, head_of(s.store));
    must_equal(1, sqlite_number(s.db, "SELECT count(*) FROM orders"));
    sqlite3_close(s.db);
}

static void the_commit_of_a_joined_transaction_rings(void **state)
{
    struct scene s = scene_of(*state);
    struct store *other = fixture_open(*state, "b");
    must_answer(HF_OK, store_join_begin(s.store, s.db, soon()));
    struct new_event event = event_of("t", NULL);
    must_answer(HF_OK, join_append(&s, &event));
    uint64_t seen = store_news(other);
    must_answer(HF_OK, store_join_commit(s.store, s.db));
    must_hold(store_wait(other, seen, DEADLINE_MS) != seen);
    sqlite3_close(s.db);
}

/* ---- Savepoints of the application ----------------------------------------------------------- */

static void the_application_may_use_savepoints(void **state)
{
    struct scene s = scene_of(*state);
    must_answer(HF_OK, store_join_begin(s.store, s.db, soon()));
    struct new_event kept = event_of("kept", NULL);
    must_answer(HF_OK, join_append(&s, &kept));
    must_equal(SQLITE_OK, sql(s.db, "SAVEPOINT mine"));
    struct new_event undone = event_of("undone", NULL);
    must_answer(HF_OK, join_append(&s, &undone));
    must_equal(SQLITE_OK, sql(s.db, "ROLLBACK TO mine"));
    must_equal(SQLITE_OK, sql(s.db, "RELEASE mine"));
    struct new_event last = event_of("last", NULL);
    must_answer(HF_OK, join_append(&s, &last));
    must_answer(HF_OK, store_join_commit(s.store, s.db));
    must_equal(2, head_of(s.store));
    must_read("last", entry_at(*state, s.store, 2)->event.type);
    sqlite3_close(s.db);
}

/* ---- Misuse ---------------------------------------------------------------------------------- */

static void a_connection_that_was_not_begun_is_misuse(void **state)
{
    struct scene s = scene_of(*state);
    struct new_event event = event_of("t", NULL);
    must_answer(HF_MISUSE, join_append(&s, &event));
    must_answer(HF_MISUSE, store_join_commit(s.store, s.db));
    must_answer(HF_MISUSE, store_join_rollback(s.store, s.db));
    must_equal(SQLITE_OK, sql(s.db, "BEGIN IMMEDIATE"));
    must_answer(HF_MISUSE, join_append(&s, &event));
    must_equal(SQLITE_OK, sql(s.db, "ROLLBACK"));
    must_equal(0, head_of(s.store));
    sqlite3_close(s.db);
}

static void another_connection_than_the_begun_one_is_misuse(void **state)
{
    struct scene s = scene_of(*state);
    sqlite3 *foreign = application(fixture_path(*state));
    must_answer(HF_OK, store_join_begin(s.store, s.db, soon()));
    struct new_event event = event_of("t", NULL);
    struct append append = append_of(&event, 1);
    must_answer(HF_MISUSE, store_join_append(s.store, foreign, &append));
    must_answer(HF_MISUSE, store_join_commit(s.store, foreign));
    must_answer(HF_OK, join_append(&s, &event));
    must_answer(HF_OK, store_join_commit(s.store, s.db));
    must_equal(1, head_of(s.store));
    sqlite3_close(foreign);
    sqlite3_close(s.db);
}

static void a_connection_inside_a_transaction_is_misuse(void **state)
{
    struct scene s = scene_of(*state);
    must_equal(SQLITE_OK, sql(s.db, "BEGIN"));
    must_answer(HF_MISUSE, store_join_begin(s.store, s.db, soon()));
    must_equal(SQLITE_OK, sql(s.db, "ROLLBACK"));
    must_answer(HF_OK, store_join_begin(s.store, s.db, soon()));
    must_answer(HF_OK, store_join_rollback(s.store, s.db));
    sqlite3_close(s.db);
}

static void beginning_twice_is_misuse(void **state)
{
    struct scene s = scene_of(*state);
    must_answer(HF_OK, store_join_begin(s.store, s.db, soon()));
    must_answer(HF_MISUSE, store_join_begin(s.store, s.db, deadline_after_ms(1000)));
    struct new_event event = event_of("t", NULL);
    must_answer(HF_OK, join_append(&s, &event));
    must_answer(HF_OK, store_join_commit(s.store, s.db));
    must_equal(1, head_of(s.store));
    sqlite3_close(s.db);
}

static void a_connection_to_another_file_is_misuse(void **state)
{
    struct fixture *f = *state;
    struct scene s = scene_of(f);
    sqlite3 *other = application(temp_file(f->dir, "other.db"));
    must_equal(SQLITE_OK, sql(other, "PRAGMA journal_mode=WAL"));
    must_answer(HF_MISUSE, store_join_begin(s.store, other, soon()));
    must_hold(sqlite3_get_autocommit(other));
    sqlite3_close(other);
    other = application(":memory:");
    must_answer(HF_MISUSE, store_join_begin(s.store, other, soon()));
    sqlite3_close(other);
    sqlite3_close(s.db);
}

static void the_same_file_by_another_name_is_the_same_file(void **state)
{
    struct fixture *f = *state;
    struct scene s = scene_of(f);
    const char *alias = temp_file(f->dir, "alias.db");
    must_equal(0, symlink(fixture_path(f), alias));
    sqlite3 *other = application(alias);
    must_answer(HF_OK, store_join_begin(s.store, other, soon()));
    struct new_event event = event_of("t", NULL);
    struct append append = append_of(&event, 1);
    must_answer(HF_OK, store_join_append(s.store, other, &append));
    must_answer(HF_OK, store_join_commit(s.store, other));
    must_equal(1, head_of(s.store));
    sqlite3_close(other);
    sqlite3_close(s.db);
}

static void changes_of_the_thread_that_joined_are_misuse(void **state)
{
    struct scene s = scene_of(*state);
    must_answer(HF_OK, store_join_begin(s.store, s.db, soon()));
    struct new_event event = event_of("t", NULL);
    struct append append = append_of(&event, 1);
    must_answer(HF_MISUSE, store_run(s.store, &append.change, soon()));
    must_answer(HF_OK, store_join_rollback(s.store, s.db));
    must_answer(HF_OK, append_event(s.store, &event));
    sqlite3_close(s.db);
}

/* The application ends the transaction behind our back. Whatever it did, nothing may hang, nothing
 * may be acknowledged that is not there, and the store must go on. */
static void an_application_that_commits_itself_does_not_stop_the_others(void **state)
{
    struct scene s = scene_of(*state);
    must_answer(HF_OK, store_join_begin(s.store, s.db, soon()));
    struct new_event event = event_of("t", NULL);
    must_answer(HF_OK, join_append(&s, &event));
    bool committed = sql(s.db, "COMMIT") == SQLITE_OK;
    hf_status status = store_join_commit(s.store, s.db);
    if (!committed) {
        must_equal(HF_OK, status);
    } else {
        must_hold(status == HF_MISUSE || status == HF_OK || status == HF_UNKNOWN);
    }
    must_equal(1, head_of(s.store));
    must_equal(2, append_one(s.store, "t", NULL));
    must_answer(HF_OK, store_join_begin(s.store, s.db, soon()));
    must_answer(HF_OK, store_join_rollback(s.store, s.db));
    sqlite3_close(s.db);
}

static void an_end_after_the_application_rolled_back_does_not_report_a_commit(void **state)
{
    struct scene s = scene_of(*state);
    must_answer(HF_OK, store_join_begin(s.store, s.db, soon()));
    struct new_event event = event_of("t", NULL);
    must_answer(HF_OK, join_append(&s, &event));
    bool undone = sql(s.db, "ROLLBACK") == SQLITE_OK;
    hf_status status = store_join_commit(s.store, s.db);
    must_equal(undone ? 0 : 1, head_of(s.store));
    must_hold(undone ? status != HF_OK : status == HF_OK);
    append_one(s.store, "t", NULL);
    sqlite3_close(s.db);
}

static void a_begin_that_cannot_have_the_database_times_out(void **state)
{
    struct scene s = scene_of(*state);
    struct store *other = fixture_open(*state, "b");
    struct tx *tx = NULL;
    must_answer(HF_OK, store_tx_begin(other, soon(), &tx));
    int64_t begun_ms = mono_ms();
    hf_status status = store_join_begin(s.store, s.db, deadline_after_ms(60));
    int64_t spent_ms = mono_ms() - begun_ms;
    tx_rollback(tx);
    must_equal(HF_TIMEOUT, status);
    must_hold(spent_ms >= 59 && spent_ms < DEADLINE_MS / 2);
    must_hold(sqlite3_get_autocommit(s.db));
    must_answer(HF_OK, store_join_begin(s.store, s.db, soon()));
    must_answer(HF_OK, store_join_rollback(s.store, s.db));
    sqlite3_close(s.db);
}

/* ---- Many ------------------------------------------------------------------------------------ */

#define JOINERS 4

struct joiners {
    struct scene scenes[JOINERS];
    struct store *stores[2];
};

static void join_repeatedly(int index, void *ctx)
{
    struct joiners *joiners = ctx;
    if (index >= JOINERS) {
        for (int i = 0; i < 50; i++) {
            append_one(joiners->stores[index % 2], "direct", NULL);
        }
        return;
    }
    struct scene *s = &joiners->scenes[index];
    for (int i = 0; i < 25; i++) {
        must_answer(HF_OK, store_join_begin(s->store, s->db, soon()));
        must_equal(SQLITE_OK, sql(s->db, "INSERT INTO orders VALUES (1)"));
        struct new_event event = event_of("joined", NULL);
        must_answer(HF_OK, join_append(s, &event));
        if (i % 5 == 4) {
            must_answer(HF_OK, store_join_rollback(s->store, s->db));
        } else {
            must_answer(HF_OK, store_join_commit(s->store, s->db));
        }
    }
}

static void many_join_while_others_publish(void **state)
{
    struct scene s = scene_of(*state);
    struct joiners joiners = {.stores = {s.store, fixture_open(*state, "b")}};
    for (int i = 0; i < JOINERS; i++) {
        joiners.scenes[i] = (struct scene){
            .f = *state, .store = joiners.stores[i % 2], .db = application(fixture_path(*state))};
    }
    crowd_run(JOINERS + 4, join_repeatedly, &joiners);
    must_equal(JOINERS * 20, sqlite_number(s.db, "SELECT count(*) FROM orders"));
    must_equal(JOINERS * 20 + 4 * 50, head_of(s.store));
    for (int i = 0; i < JOINERS; i++) {
        sqlite3_close(joiners.scenes[i].db);
    }
    sqlite3_close(s.db);
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_commit_keeps_the_applications_rows_and_the_events),
    CLAIM(a_rollback_keeps_neither_the_applications_rows_nor_the_events),
    CLAIM(one_connection_can_join_again_and_again),
    CLAIM(the_contract_of_append_holds_in_a_joined_transaction),
    CLAIM(the_commit_of_a_joined_transaction_rings),
    CLAIM(the_application_may_use_savepoints),
    CLAIM(a_connection_that_was_not_begun_is_misuse),
    CLAIM(another_connection_than_the_begun_one_is_misuse),
    CLAIM(a_connection_inside_a_transaction_is_misuse),
    CLAIM(beginning_twice_is_misuse),
    CLAIM(a_connection_to_another_file_is_misuse),
    CLAIM(the_same_file_by_another_name_is_the_same_file),
    CLAIM(changes_of_the_thread_that_joined_are_misuse),
    CLAIM(an_application_that_commits_itself_does_not_stop_the_others),
    CLAIM(an_end_after_the_application_rolled_back_does_not_report_a_commit),
    CLAIM(a_begin_that_cannot_have_the_database_times_out),
    CLAIM(many_join_while_others_publish),
};

FIXTURE_MAIN("join", claims, NULL)
