/*
 * test_sqlite_faults.c - what the SQLite engine answers when the disk says no.
 *
 * This program stands between SQLite and the kernel: its own fdatasync, pwrite64 and ftruncate64
 * are the ones that libsqlite3 calls, and its posix_fallocate is the engine's. A plan says which
 * call of which kind fails, and how. The claim is always the same: what was answered HF_OK is
 * there, what was answered with a failure is not, what was answered HF_UNKNOWN may be either, and
 * when the fault has passed the store works again.
 */
#include "support/make.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum call_kind { CALL_SYNC, CALL_WRITE, CALL_TRUNCATE, CALL_ALLOCATE, CALL_KINDS };

/* The nth call of its kind from now on fails with `error`; with `sticky` all later ones too. */
static atomic_llong calls_left[CALL_KINDS]; /* 0: no fault is planned */
static atomic_int fault_error;
static atomic_bool fault_sticky;
static atomic_bool fault_short; /* a write stores half before it fails */
static atomic_llong faults;     /* that happened */

static void faults_off(void)
{
    for (int i = 0; i < CALL_KINDS; i++) {
        atomic_store(&calls_left[i], 0);
    }
}

static void fault_plan(enum call_kind kind, long long nth, int error, bool sticky)
{
    atomic_store(&faults, 0);
    atomic_store(&fault_error, error);
    atomic_store(&fault_sticky, sticky);
    atomic_store(&fault_short, false);
    atomic_store(&calls_left[kind], nth);
}

static bool fault_now(enum call_kind kind)
{
    long long left = atomic_load(&calls_left[kind]);
    if (left == 0) {
        return false;
    }
    if (left > 1) {
        atomic_fetch_sub(&calls_left[kind], 1);
        return false;
    }
    if (!atomic_load(&fault_sticky)) {
        atomic_store(&calls_left[kind], 0);
    }
    atomic_fetch_add(&faults, 1);
    errno = atomic_load(&fault_error);
    return true;
}

#define SEEN_BY_SQLITE __attribute__((visibility("default")))

SEEN_BY_SQLITE int fdatasync(int fd)
{
    return fault_now(CALL_SYNC) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

SEEN_BY_SQLITE ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset)
{
    if (fault_now(CALL_WRITE)) {
        int error = errno;
        if (atomic_load(&fault_short)) {
            (void)!syscall(SYS_pwrite64, fd, bytes, length / 2, offset);
        }
        errno = error;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, bytes, length, offset);
}

SEEN_BY_SQLITE int ftruncate64(int fd, off64_t length)
{
    return fault_now(CALL_TRUNCATE) ? -1 : (int)syscall(SYS_ftruncate, fd, length);
}

SEEN_BY_SQLITE int posix_fallocate(int fd, off_t offset, off_t length)
{
    if (fault_now(CALL_ALLOCATE)) {
        return errno;
    }
    return syscall(SYS_fallocate, fd, 0, offset, length) == 0 ? 0 : errno;
}

/* A store that waits for the disk, whatever faults the test before has left. */
static struct store *open_store(struct fixture *f, const char *node_name)
{
    faults_off();
    struct store_options options = fixture_options(f, node_name);
    options.durability = HF_DURABILITY_POWER;
    return fixture_open_with(f, &options);
}

/* ---- A script and its ledger ----------------------------------------------------------------- */

#define SCRIPT_EVENTS 24

struct ledger {
    uint8_t ids[SCRIPT_EVENTS][16];
    hf_status answers[SCRIPT_EVENTS];
};

static bool is_stored(struct store *store, const uint8_t id[16])
{
    struct batch batch;
    batch_init(&batch);
    hf_status status = store_event_find(store, id, &batch);
    batch_release(&batch);
    must_hold(status == HF_OK || status == HF_NOTFOUND);
    return status == HF_OK;
}

/* The claim at the head of this file. */
static void check_ledger(struct fixture *f, const struct ledger *ledger)
{
    struct store *store = open_store(f, "auditor");
    for (int i = 0; i < SCRIPT_EVENTS; i++) {
        bool stored = is_stored(store, ledger->ids[i]);
        if (!ledger->answers[i]) {
            must_hold(stored);
        } else if (ledger->answers[i] != HF_UNKNOWN) {
            must_hold(!stored);
        }
    }
    int64_t head = head_of(store);
    must_equal(head + 1, append_one(store, "t", "k"));
    fixture_close(f, store);
}

/* Positions are without gaps, and the file is sound. */
static void check_file(struct fixture *f)
{
    struct sqlite3 *db;
    sqlite3_stmt *stmt;
    must_equal(SQLITE_OK, sqlite3_open_v2(fixture_path(f), &db, SQLITE_OPEN_READONLY, NULL));
    must_equal(SQLITE_OK, sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &stmt, NULL));
    must_equal(SQLITE_ROW, sqlite3_step(stmt));
    must_read("ok", (const char *)sqlite3_column_text(stmt, 0));
    sqlite3_finalize(stmt);
    sqlite3_close(db);
}

/* Plays a script once for each n: the nth call of the kind, counted from the open store, fails. */
static void fail_each(struct fixture *f, enum call_kind kind, int error, bool sticky, bool half)
{
    int nth = 1;
    bool hit = true;
    while (hit && nth < 500) {
        struct ledger ledger;
        memset(&ledger, 0, sizeof ledger);
        struct store *store = open_store(f, "publisher");
        subscription_drop(store, "s");
        struct owner owner = own(store, subscribe_ordered(store, "s", 1), 0);
        fault_plan(kind, nth, error, sticky);
        atomic_store(&fault_short, half);
        for (int i = 0; i < SCRIPT_EVENTS; i++) {
            struct new_event event = event_of("t", "k");
            memcpy(ledger.ids[i], event.id, sizeof event.id);
            struct append append = append_of(&event, 1);
            ledger.answers[i] = store_run(store, &append.change, deadline_after_ms(2000));
            struct outcome outcome = done(event.position, "k");
            (void)settle(&owner, -1, &outcome, 1);
        }
        hit = atomic_load(&faults) > 0;
        faults_off();
        /* The same store works again, at once or after it has recovered. */
        append_one(store, "t", "k");
        fixture_close(f, store);
        check_ledger(f, &ledger);
        nth += nth < 30 ? 1 : 7;
    }
    must_hold(nth > 10); /* or nothing was tested */
    check_file(f);
}

static void a_sync_that_fails_once_loses_nothing_acknowledged(void **state)
{
    fail_each(*state, CALL_SYNC, EIO, false, false);
}

static void while_syncs_fail_nothing_is_acknowledged(void **state)
{
    struct fixture *f = *state;
    struct store *store = open_store(f, "publisher");
    append_one(store, "t", "k");
    fault_plan(CALL_SYNC, 1, EIO, true);
    struct new_event event = event_of("t", "k");
    struct append append = append_of(&event, 1);
    must_answer(HF_UNKNOWN, store_run(store, &append.change, deadline_after_ms(2000)));
    for (int i = 0; i < 5; i++) {
        struct new_event other = event_of("t", "k");
        struct append more = append_of(&other, 1);
        must_hold(store_run(store, &more.change, deadline_after_ms(200)) != HF_OK);
    }
    faults_off();
    /* The id resolves what was unknown. */
    must_answer(HF_OK, store_run(store, &append.change, deadline_after_ms(DEADLINE_MS)));
    must_hold(event.position > 0);
    int64_t position = event.position;
    must_answer(HF_OK, store_run(store, &append.change, deadline_after_ms(DEADLINE_MS)));
    must_equal(position, event.position);
    must_hold(event.duplicate);
}

static void a_failed_sync_is_recovered_while_others_read(void **state)
{
    struct fixture *f = *state;
    struct store *store = open_store(f, "publisher");
    struct store *other = open_store(f, "reader");
    append_count(store, "t", 10);
    struct reader *reader = fixture_reader(f, other, 0);
    struct batch *batch = fixture_batch(f);
    int64_t floor;
    bool more;
    must_answer(HF_OK, store_reader_next(reader, &filter_all, 5, batch, &floor, &more));
    fault_plan(CALL_SYNC, 1, EIO, false);
    struct new_event event = event_of("t", "k");
    must_answer(HF_UNKNOWN, append_event(store, &event));
    must_answer(HF_OK, append_event(store, &event));
    must_answer(HF_OK, store_reader_next(reader, &filter_all, 100, batch, &floor, &more));
    must_equal(head_of(store), floor);
    must_equal(floor, batch->count);
}

static void a_write_that_fails_once_is_undone(void **state)
{
    fail_each(*state, CALL_WRITE, EIO, false, false);
}

static void a_write_that_is_cut_short_is_undone(void **state)
{
    fail_each(*state, CALL_WRITE, EIO, false, true);
}

static void writes_that_find_no_space_are_undone(void **state)
{
    fail_each(*state, CALL_WRITE, ENOSPC, false, false);
}

static void writes_that_fail_for_long_are_undone(void **state)
{
    fail_each(*state, CALL_WRITE, EIO, true, false);
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    must_equal(0, getrlimit(RLIMIT_FSIZE, &limit));
    limit.rlim_cur = bytes;
    must_equal(0, setrlimit(RLIMIT_FSIZE, &limit));
}

static void files_that_may_not_grow_stop_publishing_but_not_settling(void **state)
{
    struct fixture *f = *state;
    struct store *store = open_store(f, "publisher");
    struct owner owner = own(store, subscribe_ordered(store, "s", 1), 0);
    append_count(store, "t", 2000);
    signal(SIGXFSZ, SIG_IGN);
    limit_files(2000000);
    hf_status status = HF_OK;
    int published = 0;
    while (!status && published < 20000) {
        struct new_event event = event_of("t", "k");
        struct append append = append_of(&event, 1);
        int64_t begun_ms = mono_ms();
        status = store_run(store, &append.change, deadline_after_ms(DEADLINE_MS));
        must_hold(mono_ms() - begun_ms < DEADLINE_MS / 2); /* not at its deadline */
        published++;
    }
    int settled = 0;
    while (settled < 1000 && SETTLE(&owner, settled + 1, retry(settled + 1, "k", T0)) == HF_OK) {
        settled++;
    }
    int64_t head = head_of(store);
    limit_files(RLIM_INFINITY);
    must_equal(HF_NOSPACE, status);
    must_equal(1000, settled);
    must_equal(published - 1 + 2000, head);
    append_one(store, "t", "k");
}

/* ---- Opening on a full disk ------------------------------------------------------------------ */

static int64_t bytes_of(struct fixture *f, const char *suffix)
{
    char path[sizeof f->url + 16];
    struct stat found;
    snprintf(path, sizeof path, "%s%s", fixture_path(f), suffix);
    return stat(path, &found) == 0 ? (int64_t)found.st_size : -1;
}

static void a_namespace_that_finds_no_space_is_not_opened(void **state)
{
    struct fixture *f = *state;
    struct store *store = open_store(f, "first");
    struct store_options options = fixture_options(f, "second");
    options.namespace_name = text_of("new");
    struct store *other = NULL;
    int64_t spare = bytes_of(f, "-spare");
    fault_plan(CALL_WRITE, 1, ENOSPC, true);
    hf_status status = store_open(f->url, &options, &other);
    faults_off();
    must_equal(HF_NOSPACE, status);
    must_hold(spare > 0);
    must_equal(spare, bytes_of(f, "-spare")); /* which is for those who settle */
    must_answer(HF_OK, store_open(f->url, &options, &other));
    append_one(other, "t", "k");
    store_close(other);
    append_one(store, "t", "k");
}

static void remove_bell(struct fixture *f)
{
    char path[sizeof f->url + 16];
    snprintf(path, sizeof path, "%s-bell", fixture_path(f));
    must_equal(0, unlink(path));
}

static void a_missing_bell_is_made_of_the_spare(void **state)
{
    struct fixture *f = *state;
    fixture_close(f, open_store(f, "first"));
    remove_bell(f);
    fault_plan(CALL_ALLOCATE, 1, ENOSPC, false);
    struct store_options options = fixture_options(f, "second");
    struct store *store = fixture_open_with(f, &options);
    must_equal(1, (int64_t)atomic_load(&faults));
    uint64_t seen = store_news(store);
    append_one(store, "t", "k");
    must_hold(store_news(store) != seen);
}

static void without_a_bell_and_without_space_nothing_is_opened(void **state)
{
    struct fixture *f = *state;
    fixture_close(f, open_store(f, "first"));
    remove_bell(f);
    struct store_options options = fixture_options(f, "second");
    struct store *store = NULL;
    fault_plan(CALL_ALLOCATE, 1, ENOSPC, true);
    hf_status status = store_open(f->url, &options, &store);
    faults_off();
    must_equal(HF_NOSPACE, status);
    fixture_open_with(f, &options);
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_sync_that_fails_once_loses_nothing_acknowledged),
    CLAIM(while_syncs_fail_nothing_is_acknowledged),
    CLAIM(a_failed_sync_is_recovered_while_others_read),
    CLAIM(a_write_that_fails_once_is_undone),
    CLAIM(a_write_that_is_cut_short_is_undone),
    CLAIM(writes_that_find_no_space_are_undone),
    CLAIM(writes_that_fail_for_long_are_undone),
    CLAIM(files_that_may_not_grow_stop_publishing_but_not_settling),
    CLAIM(a_namespace_that_finds_no_space_is_not_opened),
    CLAIM(a_missing_bell_is_made_of_the_spare),
    CLAIM(without_a_bell_and_without_space_nothing_is_opened),
};

FIXTURE_MAIN("sqlite_faults", claims, NULL)
