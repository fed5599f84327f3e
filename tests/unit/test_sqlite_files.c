/*
 * test_sqlite_files.c - the files beside a SQLite database, and what other programs may do to them
 * while it is in use: delete, truncate, replace, or put something there that is no file at all.
 */
#include "support/make.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHORT_LEASE_MS 200
#define LONG_LEASE_MS 60000

static const char *beside(struct fixture *f, const char *suffix)
{
    static char path[2 * TEMP_PATH_BYTES];
    snprintf(path, sizeof path, "%s%s", fixture_path(f), suffix);
    return path;
}

/* Removes the file of that name, or with a star at its end all whose name begins so. */
static void remove_beside(struct fixture *f, const char *suffix)
{
    char name[TEMP_PATH_BYTES];
    snprintf(name, sizeof name, "%s%s", strrchr(fixture_path(f), '/') + 1, suffix);
    size_t length = strlen(name);
    bool all = name[length - 1] == '*';
    DIR *directory = opendir(f->dir);
    struct dirent *entry;
    while ((entry = readdir(directory))) {
        if (all ? strncmp(entry->d_name, name, length - 1) == 0
                : strcmp(entry->d_name, name) == 0) {
            must_equal(0, unlinkat(dirfd(directory), entry->d_name, 0));
        }
    }
    closedir(directory);
}

/* This program stands between the engine and the kernel: while it is not 0, statx fails with it. */
static atomic_int statx_error;

__attribute__((visibility("default"))) int statx(int directory, const char *restrict path,
                                                 int flags, unsigned mask,
                                                 struct statx *restrict found)
{
    int error = atomic_load(&statx_error);
    if (error != 0) {
        errno = error;
        return -1;
    }
    return (int)syscall(SYS_statx, directory, path, flags, mask, found);
}

/* ---- What is there instead of a file --------------------------------------------------------- */

/* A file of another user that must stay as it is. */
static const char *victim(struct fixture *f)
{
    const char *path = temp_file(f->dir, "victim");
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    must_hold(fd >= 0);
    must_equal(5, write(fd, "alone", 5));
    close(fd);
    return path;
}

static void must_be_alone(const char *path)
{
    char text[16] = "";
    int fd = open(path, O_RDONLY);
    must_hold(fd >= 0);
    must_equal(5, read(fd, text, sizeof text));
    must_read("alone", text);
    close(fd);
}

static void must_be_regular(const char *path)
{
    struct stat found;
    must_equal(0, lstat(path, &found));
    must_hold(S_ISREG(found.st_mode));
    must_equal(1, found.st_nlink);
}

static void links_in_place_of_the_bell_and_the_spare_are_not_followed(void **state)
{
    struct fixture *f = *state;
    const char *names[] = {"-bell", "-spare"};
    for (int hard = 0; hard <= 1; hard++) {
        char path[TEMP_PATH_BYTES];
        snprintf(path, sizeof path, "%s", victim(f));
        for (size_t i = 0; i < 2; i++) {
            unlink(beside(f, names[i]));
            must_equal(0,
                       hard ? link(path, beside(f, names[i])) : symlink(path, beside(f, names[i])));
        }
        struct store *store = fixture_open(f, "n");
        append_one(store, "t", NULL);
        must_be_alone(path);
        must_be_regular(beside(f, "-bell"));
        must_be_regular(beside(f, "-spare"));
        fixture_close(f, store);
    }
}

static void a_gate_that_is_no_file_of_ours_is_refused_with_its_name(void **state)
{
    struct fixture *f = *state;
    char path[TEMP_PATH_BYTES];
    snprintf(path, sizeof path, "%s", victim(f));
    struct store_options options = fixture_options(f, "n");
    struct store *store = NULL;
    must_equal(0, symlink(path, beside(f, "-gate")));
    must_answer(HF_DENIED, store_open(f->url, &options, &store));
    must_say("-gate is a symbolic link");
    must_equal(0, unlink(beside(f, "-gate")));
    must_equal(0, mkfifo(beside(f, "-gate"), 0600));
    must_answer(HF_DENIED, store_open(f->url, &options, &store));
    must_say("-gate is not a regular file");
    must_equal(0, unlink(beside(f, "-gate")));
    append_one(fixture_open(f, "n"), "t", NULL);
    must_be_alone(path);
}

static void a_companion_of_a_stranger_is_not_used(void **state)
{
    struct fixture *f = *state;
    if (geteuid() != 0) {
        skip(); /* only root can make a file of another user */
    }
    struct store *store = fixture_open(f, "n");
    must_equal(0, chmod(fixture_path(f), 0600));
    must_equal(0, chown(beside(f, "-gate"), 12345, 12345));
    fixture_close(f, store);
    struct store_options options = fixture_options(f, "n");
    must_answer(HF_DENIED, store_open(f->url, &options, &store));
    must_say("belongs to a user who may not write the database");
    must_equal(
        0, chmod(fixture_path(f), 0666)); /* every user may write it, so its owner is no stranger */
    fixture_open(f, "n");
}

static int ignore_node(const struct node_row *row, void *ctx)
{
    (void)row;
    (void)ctx;
    return 0;
}

static void fifos_named_like_live_files_hold_up_no_call(void **state)
{
    struct fixture *f = *state;
    must_equal(0, mkfifo(beside(f, "-live-00000000000000000000000000000001"), 0600));
    struct store *store = fixture_open(f, "n");
    append_one(store, "t", NULL);
    must_answer(HF_OK, store_node_list(store, TEXT_ABSENT, ignore_node, NULL));
    own(store, subscribe_ordered(store, "s", 1), 0);
}

/* SQLite itself would wait until a process writes into the FIFO. */
static void a_fifo_in_place_of_a_file_of_sqlite_is_refused_with_its_name(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"-journal", "-wal", "-shm"};
    struct store_options options = fixture_options(f, "n");
    fixture_close(f, fixture_open(f, "n"));
    for (size_t i = 0; i < 3; i++) {
        char wanted[64];
        struct store *store = NULL;
        snprintf(wanted, sizeof wanted, "%s is not a regular file: remove it", names[i]);
        unlink(beside(f, names[i]));
        must_equal(0, mkfifo(beside(f, names[i]), 0600));
        int writer = open(beside(f, names[i]), O_RDWR); /* so that no open of it waits for ever */
        must_answer(HF_DENIED, store_open(f->url, &options, &store));
        must_say(wanted);
        close(writer);
        must_equal(0, unlink(beside(f, names[i])));
    }
    append_one(fixture_open(f, "n"), "t", NULL);
}

static void a_directory_in_place_of_the_spare_is_not_taken_for_a_full_disk(void **state)
{
    struct fixture *f = *state;
    must_equal(0, mkdir(beside(f, "-spare"), 0700));
    struct store *store = fixture_open(f, "n");
    struct new_event event = event_of("t", NULL);
    must_answer(HF_DENIED, append_event(store, &event));
    must_say("-spare is a directory: remove it, it is made again");
    must_equal(0, rmdir(beside(f, "-spare")));
    hf_status status;
    int64_t begun_ms = mono_ms();
    do {
        status = append_event(store, &event);
    } while (status == HF_DENIED && mono_ms() - begun_ms < DEADLINE_MS);
    must_answer(HF_OK, status);
}

/* ---- Truncated under running stores ---------------------------------------------------------- */

static void a_truncated_bell_kills_no_process_and_rings_again(void **state)
{
    struct fixture *f = *state;
    struct store *near = fixture_open(f, "near");
    struct store *far = fixture_open(f, "far");
    static const off_t lengths[] = {0, 2, 6};
    for (size_t i = 0; i < 3; i++) {
        append_one(near, "t", NULL);
        must_equal(0, truncate(beside(f, "-bell"), lengths[i]));
        uint64_t seen = store_news(far);
        append_one(near, "t", NULL);
        must_hold(store_wait(far, seen, DEADLINE_MS) != seen);
        must_equal(0, truncate(beside(f, "-bell"), lengths[i]));
        store_wait(far, store_news(far), 20);
        seen = store_news(far);
        append_one(near, "t", NULL);
        must_hold(store_news(far) != seen);
    }
}

/* The path of the one live file whose name is not `other`. */
static const char *live_file(struct fixture *f, const char *other)
{
    static char path[2][2 * TEMP_PATH_BYTES];
    static int turn;
    char *found = path[turn++ % 2];
    DIR *directory = opendir(f->dir);
    struct dirent *entry;
    found[0] = '\0';
    while ((entry = readdir(directory))) {
        if (strstr(entry->d_name, "-live-") && (!other || !strstr(other, entry->d_name))) {
            snprintf(found, sizeof path[0], "%s/%s", f->dir, entry->d_name);
        }
    }
    closedir(directory);
    return found;
}

/* An owner, and a process that wants what it has. */
struct rivals {
    struct store *owner;
    struct store *other;
    char path[2 * TEMP_PATH_BYTES]; /* the owner's live file */
    int64_t subscription_id;
    struct owner owned;
};

static struct rivals rivals_of(struct fixture *f)
{
    struct rivals rivals = {.owner = fixture_open(f, "owner")};
    snprintf(rivals.path, sizeof rivals.path, "%s", live_file(f, NULL));
    rivals.other = fixture_open(f, "other");
    append_count(rivals.owner, "t", 4);
    rivals.subscription_id = subscribe_ordered(rivals.owner, "s", 1);
    rivals.owned = own(rivals.owner, rivals.subscription_id, 0);
    return rivals;
}

static hf_status try_to_take(const struct rivals *rivals, int64_t lease_ms)
{
    struct acquire acquire = acquire_of(rivals->subscription_id, 0, lease_ms);
    return RUN(rivals->other, &acquire);
}

/* No process takes over from the owner, whose settles are accepted. */
static void must_still_own(struct rivals *rivals, int64_t checkpoint)
{
    must_answer(HF_BUSY, try_to_take(rivals, LONG_LEASE_MS));
    must_answer(HF_OK, settle(&rivals->owned, checkpoint, NULL, 0));
}

static void must_have_a_live_file(const struct rivals *rivals)
{
    struct stat found;
    must_equal(0, lstat(rivals->path, &found));
    must_hold(S_ISREG(found.st_mode));
    must_hold(found.st_size > 8192);
}

static void a_store_whose_live_file_is_deleted_lives_and_makes_it_again(void **state)
{
    struct rivals rivals = rivals_of(*state);
    for (int64_t i = 1; i <= 3; i++) {
        must_equal(0, unlink(rivals.path));
        must_still_own(&rivals, i);
        store_alive(rivals.owner);
        must_have_a_live_file(&rivals);
        must_still_own(&rivals, i);
    }
}

static void a_live_file_that_is_truncated_or_replaced_is_made_again(void **state)
{
    struct rivals rivals = rivals_of(*state);
    note_handler(rivals.owner, 0, rivals.subscription_id, 1, 1);
    must_equal(0, truncate(rivals.path, 0));
    must_still_own(&rivals, 1);
    note_handler(rivals.owner, 0, rivals.subscription_id, 2, 1);
    store_alive(rivals.owner);
    must_have_a_live_file(&rivals);
    must_still_own(&rivals, 1);
    must_equal(0, unlink(rivals.path));
    close(open(rivals.path, O_CREAT | O_RDWR, 0600)); /* a file that says nothing and has no lock */
    must_still_own(&rivals, 2);
    store_alive(rivals.owner);
    must_have_a_live_file(&rivals);
    must_equal(0, unlink(rivals.path));
    must_equal(0, mkfifo(rivals.path, 0600));
    must_still_own(&rivals, 3);
    store_alive(rivals.owner);
    must_have_a_live_file(&rivals);
    must_still_own(&rivals, 4);
}

static void a_frozen_store_without_a_live_file_is_succeeded_after_its_lease(void **state)
{
    struct rivals rivals = rivals_of(*state);
    must_equal(0, unlink(rivals.path));
    int64_t begun_ms = mono_ms();
    hf_status status;
    do {
        status = try_to_take(&rivals, SHORT_LEASE_MS);
    } while (status == HF_BUSY && mono_ms() - begun_ms < DEADLINE_MS);
    must_answer(HF_OK, status);
    must_hold(mono_ms() - begun_ms >= SHORT_LEASE_MS);
    must_answer(HF_STALE, settle(&rivals.owned, 1, NULL, 0));
}

static void signs_keep_a_store_without_a_live_file_from_being_taken_for_frozen(void **state)
{
    struct rivals rivals = rivals_of(*state);
    int64_t begun_ms = mono_ms();
    while (mono_ms() - begun_ms < 3 * SHORT_LEASE_MS) {
        store_alive(rivals.owner);
        unlink(rivals.path);
        must_answer(HF_BUSY, try_to_take(&rivals, SHORT_LEASE_MS));
    }
    must_answer(HF_OK, settle(&rivals.owned, 4, NULL, 0));
}

static void a_store_whose_directory_is_moved_goes_on_there(void **state)
{
    struct fixture *f = *state;
    struct rivals rivals = rivals_of(f);
    char moved[2 * TEMP_PATH_BYTES];
    snprintf(moved, sizeof moved, "%s.moved", f->dir);
    must_equal(0, rename(f->dir, moved));
    must_equal(0, mkdir(f->dir, 0700));
    store_alive(rivals.owner);
    must_answer(HF_BUSY, try_to_take(&rivals, LONG_LEASE_MS));
    must_answer(HF_OK, settle(&rivals.owned, 1, NULL, 0));
    must_read("", live_file(f, NULL)); /* nothing is made in the directory that has its name now */
    must_equal(0, rmdir(f->dir));
    must_equal(0, rename(moved, f->dir));
}

/* ---- The database itself --------------------------------------------------------------------- */

/* As consumers settle: what may be lost with the power need not be sure of the file either. */
static hf_status settle_relaxed(const struct owner *owner, int64_t checkpoint)
{
    struct settle change = {
        .change = {.kind = CHANGE_SETTLE, .now_us = owner->now_us, .relaxed = true},
        .subscription_id = owner->subscription_id,
        .epoch = owner->epoch,
        .checkpoint = checkpoint};
    return RUN(owner->store, &change);
}

static void a_file_that_cannot_be_looked_at_is_not_taken_for_replaced(void **state)
{
    struct rivals rivals = rivals_of(*state);
    static const int errors[] = {EACCES, EIO, ENOMEM};
    for (size_t i = 0; i < 3; i++) {
        struct new_event event = event_of("t", NULL);
        atomic_store(&statx_error, errors[i]);
        must_answer(HF_UNKNOWN, append_event(rivals.owner, &event));
        must_say("cannot look whether");
        must_answer(HF_OK, settle_relaxed(&rivals.owned, (int64_t)i + 1));
        store_alive(rivals.owner);
        atomic_store(&statx_error, 0);
        must_hold(!store_is_replaced(rivals.owner));
        must_answer(HF_OK, append_event(rivals.owner, &event));
        must_still_own(&rivals, (int64_t)i + 1);
    }
}

/* Puts a copy of the database in its place, as a restore does. */
static void replace_by_a_copy(struct fixture *f)
{
    char command[6 * TEMP_PATH_BYTES];
    const char *path = fixture_path(f);
    snprintf(command, sizeof command, "cp '%s' '%s.copy' && cp '%s-wal' '%s.copy-wal'", path, path,
             path, path);
    must_equal(0, system(command));
    snprintf(command, sizeof command,
             "mv '%s.copy' '%s' && mv '%s.copy-wal' '%s-wal' && rm "
             "'%s-shm'",
             path, path, path, path, path);
    must_equal(0, system(command));
}

/* A store that was opened after the file was replaced takes over at once. */
static void must_be_succeeded(struct fixture *f, const struct rivals *rivals)
{
    struct store *healthy = fixture_open(f, "healthy");
    struct acquire acquire = acquire_of(rivals->subscription_id, 0, LONG_LEASE_MS);
    must_answer(HF_OK, RUN(healthy, &acquire));
    must_equal(0, acquire.ret_crashed);
    fixture_close(f, healthy);
}

static void a_replaced_store_gives_up_what_it_owns_at_its_next_commit(void **state)
{
    struct fixture *f = *state;
    struct rivals rivals = rivals_of(f);
    note_handler(rivals.owner, 0, rivals.subscription_id, 1, 1);
    replace_by_a_copy(f);
    must_answer(HF_UNAVAILABLE, settle(&rivals.owned, 1, NULL, 0));
    must_hold(store_is_replaced(rivals.owner));
    store_alive(rivals.owner); /* shows no sign of life any more */
    store_alive(rivals.other);
    must_be_succeeded(f, &rivals);
}

static void a_replaced_store_that_is_idle_gives_up_with_its_next_sign_of_life(void **state)
{
    struct fixture *f = *state;
    struct rivals rivals = rivals_of(f);
    replace_by_a_copy(f);
    store_alive(rivals.owner);
    must_hold(store_is_replaced(rivals.owner));
    store_alive(rivals.other);
    must_be_succeeded(f, &rivals);
}

/* ---- The write-ahead log --------------------------------------------------------------------- */

/* What the log was told: how many records have the words, and the last of them. */
struct heard {
    const char *words;
    int count;
    char last[512];
};

static void hear(const hf_log_record *record, void *ctx)
{
    struct heard *heard = ctx;
    if (strstr(record->message, heard->words)) {
        heard->count++;
        snprintf(heard->last, sizeof heard->last, "%s", record->message);
    }
}

static void a_deleted_wal_is_named_when_the_database_is_opened(void **state)
{
    struct fixture *f = *state;
    struct heard heard = {.words = "-wal was missing"};
    f->log = (struct log){hear, &heard, HF_LOG_WARN};
    fixture_close(f, fixture_open(f, "n")); /* all of it is in the database now */
    struct store *store = fixture_open(f, "n");
    append_one(store, "t", NULL);
    must_equal(0, unlink(beside(f, "-wal")));
    struct store_options options = fixture_options(f, "late");
    struct store *late = NULL;
    must_answer(HF_UNAVAILABLE, store_open(f->url, &options, &late));
    must_say("-wal was deleted while processes have the database open");
    store_alive(store);
    must_hold(store_is_replaced(store));
    fixture_close(f, store);
    must_equal(0, heard.count);
    late = fixture_open(f, "late");
    must_equal(1, heard.count);
    must_equal(0, head_of(late));
    fixture_close(f, late);
    f->log = (struct log){0};
}

static void append_mebibytes(struct store *store, int count)
{
    static char payload[1 << 20];
    memset(payload, '1', sizeof payload);
    for (int i = 0; i < count; i++) {
        struct new_event event = event_of("t", NULL);
        event.payload = (struct text){payload, sizeof payload};
        must_answer(HF_OK, append_event(store, &event));
    }
}

static void a_log_that_grows_behind_a_reader_is_told_at_every_doubling(void **state)
{
    struct fixture *f = *state;
    struct heard heard = {.words = "a reader has kept a transaction open"};
    f->log = (struct log){hear, &heard, HF_LOG_WARN};
    struct store *store = fixture_open(f, "n");
    append_one(store, "t", NULL);
    sqlite3 *db;
    must_equal(SQLITE_OK, sqlite3_open(fixture_path(f), &db));
    must_equal(SQLITE_OK,
               sqlite3_exec(db, "BEGIN; SELECT count(*) FROM holdfast_events", NULL, NULL, NULL));
    append_mebibytes(store, 60);
    must_equal(0, heard.count);
    append_mebibytes(store, 12);
    must_equal(1, heard.count);
    append_mebibytes(store, 66);
    must_equal(2, heard.count);
    must_equal(SQLITE_OK, sqlite3_close(db));
    fixture_close(f, store);
    f->log = (struct log){0};
}

/* ---- The index of the write-ahead log -------------------------------------------------------- */

/* Another process: for every line it opens the database, unless it has, appends an event, and says
 * what the answer was. It closes the database when it ends. */
static int be_a_publisher(struct fixture *f, const char *argument)
{
    (void)argument;
    struct store *store = NULL;
    struct store_options options = fixture_options(f, "publisher");
    char line[CHILD_LINE_BYTES];
    while (role_listen(line)) {
        struct new_event event = event_of("t", NULL);
        hf_status status = store ? HF_OK : store_open(f->url, &options, &store);
        role_report("answer", status ? status : append_event(store, &event));
    }
    store_close(store);
    return 0;
}

static hf_status child_append(struct child *child)
{
    child_tell(child, "append");
    return (hf_status)child_hear(child, "answer");
}

/* With another index each of two processes would write over the commits of the other. */
static void a_deleted_shm_loses_nothing_that_is_acknowledged(void **state)
{
    static const char *const names[] = {"-shm", "-live-*"};
    for (size_t both = 1; both <= 2; both++) {
        struct fixture *f = *state;
        struct store *store = fixture_open(f, "n");
        struct child *child = fixture_child(f, "publisher", "");
        struct new_event event = event_of("t", NULL);
        int64_t stored = head_of(store);
        stored += append_event(store, &event) == HF_OK;
        for (size_t i = 0; i < both; i++) {
            remove_beside(f, names[i]);
        }
        for (int i = 0; i < 5; i++) {
            stored += child_append(child) == HF_OK;
            stored += append_event(store, &event) == HF_OK;
        }
        fixture_close(f, store);
        child_finish(child);
        store = fixture_open(f, "late");
        append_one(store, "t", NULL);
        must_equal(stored + 1, head_of(store));
        fixture_close(f, store);
    }
}

static void a_store_whose_shm_is_deleted_writes_nothing_more(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "n");
    append_one(store, "t", NULL);
    must_equal(0, unlink(beside(f, "-shm")));
    struct store_options options = fixture_options(f, "late");
    struct store *late = NULL;
    must_answer(HF_UNAVAILABLE, store_open(f->url, &options, &late));
    must_say("-shm was deleted while processes have the database open");
    struct new_event event = event_of("t", NULL);
    must_answer(HF_UNAVAILABLE, append_event(store, &event));
    must_say("-shm was replaced or deleted while in use");
    must_hold(store_is_replaced(store));
    fixture_close(f, store);
    must_equal(1, head_of(fixture_open(f, "late")));
}

static void an_idle_store_whose_shm_is_deleted_gives_up_with_its_next_sign_of_life(void **state)
{
    struct fixture *f = *state;
    struct rivals rivals = rivals_of(f);
    must_equal(0, unlink(beside(f, "-shm")));
    store_alive(rivals.owner);
    must_hold(store_is_replaced(rivals.owner));
    store_alive(rivals.other);
    struct store_options options = fixture_options(f, "early");
    struct store *early = NULL;
    must_answer(HF_UNAVAILABLE, store_open(f->url, &options, &early));
    must_say("-shm was deleted while this process has the database open");
    fixture_close(f, rivals.owner);
    fixture_close(f, rivals.other);
    must_be_succeeded(f, &rivals);
}

/* ---- Who was stopped ------------------------------------------------------------------------- */

/* The machine stops both: when it goes on, the observer is the first to look. */
static void a_pause_of_the_observer_is_no_freeze_of_the_owner(void **state)
{
    struct rivals rivals = rivals_of(*state);
    must_answer(HF_BUSY, try_to_take(&rivals, SHORT_LEASE_MS));
    int64_t begun_ms = mono_ms();
    while (mono_ms() - begun_ms < 2 * SHORT_LEASE_MS) {
        usleep(1000);
    }
    must_answer(HF_BUSY, try_to_take(&rivals, SHORT_LEASE_MS));
    store_alive(rivals.owner);
    must_answer(HF_BUSY, try_to_take(&rivals, SHORT_LEASE_MS));
}

static const struct CMUnitTest claims[] = {
    CLAIM(links_in_place_of_the_bell_and_the_spare_are_not_followed),
    CLAIM(a_gate_that_is_no_file_of_ours_is_refused_with_its_name),
    CLAIM(a_companion_of_a_stranger_is_not_used),
    CLAIM(fifos_named_like_live_files_hold_up_no_call),
    CLAIM(a_fifo_in_place_of_a_file_of_sqlite_is_refused_with_its_name),
    CLAIM(a_directory_in_place_of_the_spare_is_not_taken_for_a_full_disk),
    CLAIM(a_truncated_bell_kills_no_process_and_rings_again),
    CLAIM(a_store_whose_live_file_is_deleted_lives_and_makes_it_again),
    CLAIM(a_live_file_that_is_truncated_or_replaced_is_made_again),
    CLAIM(a_frozen_store_without_a_live_file_is_succeeded_after_its_lease),
    CLAIM(signs_keep_a_store_without_a_live_file_from_being_taken_for_frozen),
    CLAIM(a_store_whose_directory_is_moved_goes_on_there),
    CLAIM(a_file_that_cannot_be_looked_at_is_not_taken_for_replaced),
    CLAIM(a_replaced_store_gives_up_what_it_owns_at_its_next_commit),
    CLAIM(a_replaced_store_that_is_idle_gives_up_with_its_next_sign_of_life),
    CLAIM(a_deleted_wal_is_named_when_the_database_is_opened),
    CLAIM(a_log_that_grows_behind_a_reader_is_told_at_every_doubling),
    CLAIM(a_deleted_shm_loses_nothing_that_is_acknowledged),
    CLAIM(a_store_whose_shm_is_deleted_writes_nothing_more),
    CLAIM(an_idle_store_whose_shm_is_deleted_gives_up_with_its_next_sign_of_life),
    CLAIM(a_pause_of_the_observer_is_no_freeze_of_the_owner),
};

static const struct role roles[] = {{"publisher", be_a_publisher}, {NULL, NULL}};

FIXTURE_MAIN("sqlite_files", claims, roles)
