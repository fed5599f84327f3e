/*
 * test_sqlite_notes.c - notes of running handlers: they outlive the process, nothing that happens
 * to the live file harms them, and nothing of them is left behind.
 */
#include "support/make.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/sqlite/file/files.h"
#include "store/sqlite/file/notes.h"
#include "support/puppet.h"

/* This program and its children stand between the engine and the kernel: with this variable the
 * system gives no segments. */
#define NO_SEGMENTS "HOLDFAST_TEST_NO_SEGMENTS"

__attribute__((visibility("default"))) int shmget(key_t key, size_t size, int flags)
{
    if (getenv(NO_SEGMENTS)) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_shmget, key, size, flags);
}

static const uint8_t token[STORE_TOKEN_BYTES] = {1, 2, 3};
static const uint8_t other_token[STORE_TOKEN_BYTES] = {3, 2, 1};
static const struct files files = {.mode = 0600};

/* The position in the first note of a segment; -1 if it cannot be read. */
static int64_t read_first(int64_t segment_id, const uint8_t of[STORE_TOKEN_BYTES])
{
    struct live_note *rows = mem_calloc(STORE_NOTES_MAX, sizeof *rows);
    int64_t position =
        notes_read(segment_id, of, rows) ? (int64_t)atomic_load(&rows[0].position) : -1;
    mem_free(rows);
    return position;
}

/* ---- The segment ----------------------------------------------------------------------------- */

static void a_segment_outlives_its_process_until_it_is_removed(void **state)
{
    (void)state;
    int channel[2];
    must_equal(0, pipe2(channel, O_CLOEXEC));
    pid_t child = fork();
    if (child == 0) {
        struct notes notes = {0};
        int64_t id = notes_open(&notes, token, &files) ? notes.segment_id : NOTES_NO_SEGMENT;
        atomic_store(&notes.rows[0].position, 42);
        _exit(write(channel[1], &id, sizeof id) == sizeof id ? 0 : 1);
    }
    int64_t id = NOTES_NO_SEGMENT;
    int exit_status = 1;
    must_equal(sizeof id, (size_t)read(channel[0], &id, sizeof id));
    must_equal(child, waitpid(child, &exit_status, 0));
    must_equal(0, exit_status);
    close(channel[0]);
    close(channel[1]);
    must_hold(id != NOTES_NO_SEGMENT);
    must_equal(42, read_first(id, token));
    notes_remove(id, other_token); /* not that store's: it stays */
    must_equal(42, read_first(id, token));
    must_equal(-1, read_first(id, other_token));
    notes_remove(id, token);
    must_equal(-1, read_first(id, token));
}

static void a_closed_store_leaves_no_segment(void **state)
{
    (void)state;
    struct notes notes = {0};
    must_hold(notes_open(&notes, token, &files));
    int64_t id = notes.segment_id;
    must_equal(0, read_first(id, token));
    notes_close(&notes);
    must_equal(-1, read_first(id, token));
}

static void what_is_no_segment_of_notes_is_neither_read_nor_removed(void **state)
{
    (void)state;
    static const int64_t numbers[] = {-1, INT64_MIN, INT64_MAX, INT32_MAX, INT64_C(1) << 32};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        must_equal(-1, read_first(numbers[i], token));
        notes_remove(numbers[i], token);
    }
    static const size_t sizes[] = {1, 4096 + STORE_NOTES_MAX * sizeof(struct live_note)};
    for (size_t i = 0; i < 2; i++) {
        int foreign = shmget(IPC_PRIVATE, sizes[i], IPC_CREAT | 0600);
        must_hold(foreign >= 0);
        must_equal(-1, read_first(foreign, token));
        notes_remove(foreign, token);
        struct shmid_ds about;
        must_equal(0, shmctl(foreign, IPC_STAT, &about));
        must_equal(0, shmctl(foreign, IPC_RMID, NULL));
    }
}

/* ---- Of a store ------------------------------------------------------------------------------ */

static void truncate_live_files(struct fixture *f)
{
    DIR *directory = opendir(f->dir);
    struct dirent *entry;
    while ((entry = readdir(directory))) {
        char path[2 * TEMP_PATH_BYTES];
        snprintf(path, sizeof path, "%s/%s", f->dir, entry->d_name);
        if (strstr(entry->d_name, "-live-")) {
            must_equal(0, truncate(path, 0));
        }
    }
    closedir(directory);
}

/* A process runs a handler, its live file is truncated, it runs another one, and dies. */
static void must_know_what_ran(struct fixture *f)
{
    struct store *store = fixture_open(f, "a");
    append_count(store, "t", 4);
    int64_t id = subscribe_ordered(store, "s", 1);
    struct child *puppet = puppet_start(f, "mortal");
    puppet_do(puppet, "acquire %" PRId64 " 0", id);
    puppet_do(puppet, "note 0 %" PRId64 " 1 1", id);
    truncate_live_files(f);
    puppet_do(puppet, "note 1 %" PRId64 " 2 1", id);
    puppet_do(puppet, "alive");
    puppet_do(puppet, "note 2 %" PRId64 " 3 1", id);
    puppet_do(puppet, "clear 1");
    child_kill(puppet);
    struct acquire acquire = acquire_of(id, 0, LEASE_MS);
    must_answer(HF_OK, RUN(store, &acquire));
    must_equal(false, acquire.ret_unclean);
    must_equal(2, acquire.ret_crashed);
}

static void notes_survive_the_truncation_of_the_live_file(void **state)
{
    must_know_what_ran(*state);
}

static void without_segments_notes_are_in_the_live_file(void **state)
{
    must_equal(0, setenv(NO_SEGMENTS, "1", 1));
    must_know_what_ran(*state);
    must_equal(0, unsetenv(NO_SEGMENTS));
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_segment_outlives_its_process_until_it_is_removed),
    CLAIM(a_closed_store_leaves_no_segment),
    CLAIM(what_is_no_segment_of_notes_is_neither_read_nor_removed),
    CLAIM(notes_survive_the_truncation_of_the_live_file),
    CLAIM(without_segments_notes_are_in_the_live_file),
};

static const struct role roles[] = {{NULL, NULL}};

FIXTURE_MAIN("sqlite_notes", claims, roles)
