/*
 * test_sqlite_store.c - what is true of a SQLite database and of no other: its files, its settings,
 * and what others may do to them while it is in use.
 */
#include "base/point.h"
#include "store/namespace.h"
#include "store/sqlite/file/conn.h"
#include "support/make.h"
#include "support/sqlite.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOREIGN_WAIT_MS 5000    /* so long a store waits that has something to give back */
#define WAL_BYTES_MAX (8 << 20) /* of steady publishing without a long reader */
#define LARGE_BYTES 100000
#define LARGE_EVENTS 12 /* more than a MiB, and fewer than a thousand pages */

static const char *beside(struct fixture *f, const char *suffix)
{
    static char path[2 * TEMP_PATH_BYTES];
    snprintf(path, sizeof path, "%s%s", fixture_path(f), suffix);
    return path;
}

/* Another program at the same file: runs SQL on a connection of its own. */
static void foreign_run(struct fixture *f, const char *sql)
{
    sqlite3 *db;
    must_equal(SQLITE_OK, sqlite3_open(fixture_path(f), &db));
    sqlite3_busy_timeout(db, DEADLINE_MS);
    sqlite3_wal_autocheckpoint(db, 0);
    must_equal(SQLITE_OK, sqlite3_exec(db, sql, NULL, NULL, NULL));
    must_equal(SQLITE_OK, sqlite3_close(db));
}

static int64_t foreign_ask(struct fixture *f, const char *sql)
{
    return sqlite_number_in(fixture_path(f), sql);
}

/* ---- Settings -------------------------------------------------------------------------------- */

static void a_new_database_file_is_set_up(void **state)
{
    struct fixture *f = *state;
    fixture_open(f, "n");
    must_equal(2, foreign_ask(f, "PRAGMA auto_vacuum"));
    must_equal(1, foreign_ask(f, "SELECT journal_mode = 'wal' FROM pragma_journal_mode"));
    must_equal(0, foreign_ask(f, "PRAGMA user_version"));
    must_equal(0, foreign_ask(f, "PRAGMA application_id"));
    must_equal(0, foreign_ask(f, "SELECT count(*) FROM sqlite_schema "
                                 "WHERE name NOT LIKE 'holdfast!_%' ESCAPE '!' "
                                 "AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"));
}

static void a_file_of_the_application_keeps_its_settings(void **state)
{
    struct fixture *f = *state;
    foreign_run(f, "PRAGMA user_version = 7; PRAGMA application_id = 9; CREATE TABLE own (x)");
    fixture_open(f, "n");
    must_equal(7, foreign_ask(f, "PRAGMA user_version"));
    must_equal(9, foreign_ask(f, "PRAGMA application_id"));
    must_equal(0, foreign_ask(f, "PRAGMA auto_vacuum"));
    must_equal(1, foreign_ask(f, "SELECT count(*) FROM sqlite_schema WHERE name = 'own'"));
}

static void a_file_in_utf16_is_refused(void **state)
{
    struct fixture *f = *state;
    foreign_run(f, "PRAGMA encoding = 'UTF-16'; CREATE TABLE own (x)");
    struct store_options options = fixture_options(f, "n");
    struct store *store = NULL;
    must_answer(HF_INVALID, store_open(f->url, &options, &store));
    must_say("UTF-16");
}

static void files_beside_the_database_have_its_permissions(void **state)
{
    struct fixture *f = *state;
    int fd = open(fixture_path(f), O_CREAT | O_RDWR, 0600);
    must_hold(fd >= 0);
    must_equal(0, fchmod(fd, 0660));
    close(fd);
    mode_t mask = umask(077);
    fixture_open(f, "n");
    umask(mask);
    const char *suffixes[] = {"-gate", "-bell", "-spare"};
    for (size_t i = 0; i < 3; i++) {
        struct stat found;
        must_equal(0, stat(beside(f, suffixes[i]), &found));
        must_equal(0660, found.st_mode & 0777);
    }
}

/* ---- The log and its write-ahead log --------------------------------------------------------- */

static void positions_go_on_when_the_log_has_been_emptied(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "n");
    append_count(store, "t", 5);
    foreign_run(f, "DELETE FROM holdfast_events");
    must_equal(5, head_of(store));
    must_equal(6, append_one(store, "t", NULL));
    foreign_run(f, "DELETE FROM holdfast_events");
    fixture_close(f, store);
    store = fixture_open(f, "n");
    must_equal(7, append_one(store, "t", NULL));
    struct reader *reader = fixture_reader(f, store, 0);
    struct batch *batch = fixture_batch(f);
    int64_t floor;
    bool more;
    must_answer(HF_OK, store_reader_next(reader, &filter_all, 10, batch, &floor, &more));
    must_read("7", list_batch(batch));
    must_equal(7, floor);
}

static void the_floor_reaches_the_head_of_an_emptied_log(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "n");
    append_count(store, "t", 5);
    foreign_run(f, "DELETE FROM holdfast_events");
    struct reader *reader = fixture_reader(f, store, 0);
    struct batch *batch = fixture_batch(f);
    int64_t floor;
    bool more;
    must_answer(HF_OK, store_reader_next(reader, &filter_all, 10, batch, &floor, &more));
    must_equal(0, batch->count);
    must_equal(5, floor);
    must_hold(!more);
}

static void the_write_ahead_log_is_reused(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "n");
    for (int i = 0; i < 200; i++) {
        append_count(store, "t", 500); /* 100,000 events: more than twice as much, were it kept */
    }
    struct store_sizes sizes;
    must_answer(HF_OK, store_sizes_get(store, &sizes));
    must_hold(sizes.wal_bytes < WAL_BYTES_MAX);
    must_equal(200, sizes.commits);
}

/* Large events make a checkpoint last: it comes before the WAL has many of them. */
static void a_mebibyte_of_events_is_moved_into_the_database(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "n");
    static char payload[LARGE_BYTES];
    memset(payload, 'x', sizeof payload);
    payload[0] = payload[sizeof payload - 1] = '"';
    for (int i = 0; i < LARGE_EVENTS; i++) {
        struct new_event event = event_of("t", NULL);
        event.payload = (struct text){payload, sizeof payload};
        struct append append = append_of(&event, 1);
        must_answer(HF_OK, RUN(store, &append));
    }
    struct stat found;
    must_equal(0, stat(fixture_path(f), &found));
    must_hold(found.st_size >= 1 << 20);
}

static void closing_leaves_one_whole_file(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "n");
    append_count(store, "t", 10);
    fixture_close(f, store);
    struct stat found;
    must_equal(0, stat(beside(f, "-wal"), &found));
    must_equal(0, found.st_size);
}

/* ---- Others at the same files ---------------------------------------------------------------- */

static void a_replaced_file_is_noticed_before_anything_is_acknowledged(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "n");
    append_one(store, "t", NULL);
    must_equal(0, rename(fixture_path(f), beside(f, ".moved")));
    close(open(fixture_path(f), O_CREAT | O_RDWR, 0600));
    struct new_event event = event_of("t", NULL);
    must_answer(HF_UNKNOWN, append_event(store, &event));
    must_say("replaced");
    must_answer(HF_UNAVAILABLE, append_event(store, &event));
    int64_t head;
    int64_t first;
    must_answer(HF_UNAVAILABLE, store_head(store, &head, &first));
}

static void a_deleted_write_ahead_log_is_noticed(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "n");
    append_one(store, "t", NULL);
    must_equal(0, unlink(beside(f, "-wal")));
    struct new_event event = event_of("t", NULL);
    must_answer(HF_UNKNOWN, append_event(store, &event));
}

static void a_write_of_a_foreign_program_ends_a_wait(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "n");
    uint64_t seen = store_news(store);
    foreign_run(f, "CREATE TABLE own (x)");
    int64_t begun_ms = mono_ms();
    must_hold(store_wait(store, seen, DEADLINE_MS) != seen);
    must_hold(mono_ms() - begun_ms < DEADLINE_MS / 2);
}

static void a_lost_bell_only_makes_waits_longer(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "n");
    must_equal(0, unlink(beside(f, "-bell")));
    struct store *other = fixture_open(f, "o");
    uint64_t seen = store_news(store);
    append_one(other, "t", NULL);
    int64_t begun_ms = mono_ms();
    must_hold(store_wait(store, seen, DEADLINE_MS) != seen);
    must_hold(mono_ms() - begun_ms < DEADLINE_MS / 2);
}

static void a_foreign_lock_is_a_timeout_and_never_a_raw_error(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "n");
    sqlite3 *db;
    must_equal(SQLITE_OK, sqlite3_open(fixture_path(f), &db));
    must_equal(SQLITE_OK, sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL));
    struct new_event event = event_of("t", NULL);
    struct append append = append_of(&event, 1);
    must_answer(HF_TIMEOUT, store_run(store, &append.change, deadline_after_ms(50)));
    must_say("another program");
    must_equal(SQLITE_OK, sqlite3_exec(db, "COMMIT", NULL, NULL, NULL));
    must_equal(SQLITE_OK, sqlite3_close(db));
    must_answer(HF_OK, append_event(store, &event));
}

/* The write transaction of another connection. */
static sqlite3 *foreign_begin(struct fixture *f)
{
    sqlite3 *db;
    must_equal(SQLITE_OK, sqlite3_open(fixture_path(f), &db));
    must_equal(SQLITE_OK, sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL));
    return db;
}

static void a_store_that_only_reads_waits_for_no_foreign_writer(void **state)
{
    struct fixture *f = *state;
    append_one(fixture_open(f, "n"), "t", NULL);
    sqlite3 *db = foreign_begin(f);
    int64_t begun_ms = mono_ms();
    struct store *reader = fixture_open(f, "reader");
    must_equal(1, head_of(reader));
    fixture_close(f, reader);
    must_hold(mono_ms() - begun_ms < FOREIGN_WAIT_MS);
    must_equal(SQLITE_OK, sqlite3_close(db));
}

static void a_store_that_only_reads_opens_beside_a_long_transaction_of_ours(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "n");
    append_one(store, "t", NULL);
    struct tx *tx = NULL;
    must_answer(HF_OK, store_tx_begin(store, deadline_after_ms(DEADLINE_MS), &tx));
    struct store_options options = fixture_options(f, "reader");
    options.timeout_ms = 500;
    struct store *reader = fixture_open_with(f, &options);
    must_equal(1, head_of(reader));
    tx_rollback(tx);
    must_equal(2, append_one(reader, "t", NULL));
    fixture_close(f, reader);
}

/* ---- Live files ------------------------------------------------------------------------------ */

static int count_live(struct fixture *f)
{
    DIR *directory = opendir(f->dir);
    struct dirent *found;
    int count = 0;
    while ((found = readdir(directory))) {
        count += strstr(found->d_name, "-live-") != NULL;
    }
    closedir(directory);
    return count;
}

static int be_an_owner(struct fixture *f, const char *argument)
{
    struct store *store = fixture_open(f, "owner");
    if (argument[0] == 'o') {
        own(store, subscribe_ordered(store, "s", 1), 0);
    }
    role_report("ready", 1);
    char line[CHILD_LINE_BYTES];
    while (role_listen(line)) {
    }
    return 0;
}

static void a_closed_store_leaves_no_live_file(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "n");
    must_equal(1, count_live(f));
    fixture_close(f, store);
    must_equal(0, count_live(f));
}

static void live_files_of_the_dead_go_when_nothing_names_them(void **state)
{
    struct fixture *f = *state;
    struct child *idle = fixture_child(f, "owner", "idle");
    child_hear(idle, "ready");
    struct child *owner = fixture_child(f, "owner", "owner");
    child_hear(owner, "ready");
    must_equal(2, count_live(f));
    child_kill(idle);
    child_kill(owner);
    struct store *store = fixture_open(f, "n");
    must_equal(2, count_live(f)); /* ours, and the owner's: its notes are still needed */
    struct subscription_put put = put_of("s", HF_MODE_ORDERED, 1);
    must_answer(HF_OK, RUN(store, &put));
    own(store, put.ret_id, 0);
    append_one(store, "t", NULL);
    must_equal(1, count_live(f));
}

/* ---- Deadlines ------------------------------------------------------------------------------- */

static void a_read_that_never_ends_is_ended_at_its_limit(void **state)
{
    struct fixture *f = *state;
    append_one(fixture_open(f, "n"), "t", NULL);
    struct conn conn;
    sqlite3_stmt *endless;
    bool row = true;
    must_answer(HF_OK, conn_open(&conn, fixture_path(f), CONN_READER, false,
                                 deadline_after_ms(DEADLINE_MS)));
    must_equal(SQLITE_OK, sqlite3_prepare_v2(conn.db,
                                             "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL "
                                             "SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0",
                                             -1, &endless, NULL));
    conn.step_ms = 20;
    must_answer(HF_TIMEOUT, conn_row(&conn, endless, &row));
    must_equal(false, row);
    conn.step_ms = INT64_MAX;
    conn.limit = deadline_after_ms(20);
    must_answer(HF_TIMEOUT, conn_row(&conn, endless, &row));
    sqlite3_finalize(endless);
    conn_close(&conn);
}

#ifdef HF_FAULTS

/* ---- Opening beside the gate ----------------------------------------------------------------- */

struct remover {
    struct store *store;
    struct namespace_remove remove;
    hf_status status;
};

static void *remove_namespace(void *ctx)
{
    struct remover *remover = ctx;
    remover->status = RUN(remover->store, &remover->remove);
    return NULL;
}

struct opener {
    struct fixture *f;
    const char *name; /* of the namespace */
    hf_status status;
};

static void *open_namespace(void *ctx)
{
    struct opener *opener = ctx;
    struct store_options options = fixture_options(opener->f, "late");
    struct store *store = NULL;
    options.namespace_name = text_of(opener->name);
    options.open_mode = HF_OPEN_EXISTING;
    opener->status = store_open(opener->f->url, &options, &store);
    store_close(store);
    return NULL;
}

/* The removing process has counted who has the namespace open, and keeps the gate. */
static void a_namespace_that_is_being_removed_cannot_be_opened_beside_the_gate(void **state)
{
    struct fixture *f = *state;
    char name[HF_NAMESPACE_BYTES_MAX + 1];
    pthread_t removing;
    pthread_t opening;
    snprintf(name, sizeof name, "%.100s-other", f->namespace_name);
    fixture_close(f, fixture_open_other(f, "b"));
    struct remover remover = {.store = fixture_open(f, "a"),
                              .remove = {.change = {.kind = CHANGE_NAMESPACE_REMOVE, .now_us = T0},
                                         .name = text_of(name)}};
    struct opener opener = {.f = f, .name = name};
    point_arm("namespace_counted", 1, POINT_STOP_THREAD);
    point_arm("opened_beside", 1, POINT_STOP_THREAD);
    must_equal(0, pthread_create(&removing, NULL, remove_namespace, &remover));
    must_hold(point_wait_blocked("namespace_counted", DEADLINE_MS));
    must_equal(0, pthread_create(&opening, NULL, open_namespace, &opener));
    must_hold(point_wait_blocked("opened_beside", DEADLINE_MS));
    point_arm("door_is_locked", 1, POINT_STOP_THREAD);
    point_release("opened_beside");
    bool waits = point_wait_blocked("door_is_locked", DEADLINE_MS);
    point_release("namespace_counted");
    must_equal(0, pthread_join(removing, NULL));
    point_release("door_is_locked");
    must_equal(0, pthread_join(opening, NULL));
    must_answer(HF_OK, remover.status);
    must_hold(waits);
    must_hold(opener.status != HF_OK);
}

#endif

static const struct CMUnitTest claims[] = {
    CLAIM(a_read_that_never_ends_is_ended_at_its_limit),
    CLAIM(a_new_database_file_is_set_up),
    CLAIM(a_file_of_the_application_keeps_its_settings),
    CLAIM(a_file_in_utf16_is_refused),
    CLAIM(files_beside_the_database_have_its_permissions),
    CLAIM(positions_go_on_when_the_log_has_been_emptied),
    CLAIM(the_floor_reaches_the_head_of_an_emptied_log),
    CLAIM(the_write_ahead_log_is_reused),
    CLAIM(a_mebibyte_of_events_is_moved_into_the_database),
    CLAIM(closing_leaves_one_whole_file),
    CLAIM(a_replaced_file_is_noticed_before_anything_is_acknowledged),
    CLAIM(a_deleted_write_ahead_log_is_noticed),
    CLAIM(a_write_of_a_foreign_program_ends_a_wait),
    CLAIM(a_lost_bell_only_makes_waits_longer),
    CLAIM(a_foreign_lock_is_a_timeout_and_never_a_raw_error),
    CLAIM(a_store_that_only_reads_waits_for_no_foreign_writer),
    CLAIM(a_store_that_only_reads_opens_beside_a_long_transaction_of_ours),
#ifdef HF_FAULTS
    CLAIM(a_namespace_that_is_being_removed_cannot_be_opened_beside_the_gate),
#endif
    CLAIM(a_closed_store_leaves_no_live_file),
    CLAIM(live_files_of_the_dead_go_when_nothing_names_them),
};

static const struct role roles[] = {{"owner", be_an_owner}, {NULL, NULL}};

FIXTURE_MAIN("sqlite_store", claims, roles)
