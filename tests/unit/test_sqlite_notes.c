/*
 * test_sqlite_notes.c - notes of running handlers: they outlive the process, nothing that happens
 * to the live file harms them, and nothing of them is left behind.
 */
#include "support/make.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/point.h"
#include "base/text/hex.h"
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

/* A thread that makes a segment is stopped when it has the number of it, until another one that
 * sweeps is about to attach it; and that one until the segment is made. */
enum stage { STAGE_NONE, STAGE_BEGUN, STAGE_HAS_NUMBER, STAGE_IS_SWEPT, STAGE_MADE };

static pthread_mutex_t stage_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stage_changed = PTHREAD_COND_INITIALIZER;
static enum stage stage;
static int made_id;

static void enter_stage(enum stage next)
{
    pthread_mutex_lock(&stage_mutex);
    stage = next;
    pthread_cond_broadcast(&stage_changed);
    pthread_mutex_unlock(&stage_mutex);
}

static void await_stage(enum stage wanted)
{
    pthread_mutex_lock(&stage_mutex);
    while (stage < wanted) {
        pthread_cond_wait(&stage_changed, &stage_mutex);
    }
    pthread_mutex_unlock(&stage_mutex);
}

static bool is_at_stage(enum stage wanted)
{
    pthread_mutex_lock(&stage_mutex);
    bool is_it = stage == wanted;
    pthread_mutex_unlock(&stage_mutex);
    return is_it;
}

__attribute__((visibility("default"))) void *shmat(int id, const void *address, int flags)
{
    if (is_at_stage(STAGE_BEGUN) && !(flags & SHM_RDONLY)) {
        made_id = id;
        enter_stage(STAGE_HAS_NUMBER);
        await_stage(STAGE_IS_SWEPT);
    } else if (is_at_stage(STAGE_HAS_NUMBER) && id == made_id) {
        enter_stage(STAGE_IS_SWEPT);
        await_stage(STAGE_MADE);
    }
    return (void *)syscall(SYS_shmat, id, address, flags); /* NOLINT: that is what it returns */
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

/* A segment of a process that is dead, with this path; its number. */
static int64_t segment_of_the_dead(const char *path)
{
    int channel[2];
    must_equal(0, pipe2(channel, O_CLOEXEC));
    pid_t child = fork();
    if (child == 0) {
        struct notes notes = {0};
        int64_t id = notes_open(&notes, token, path, &files) ? notes.segment_id : NOTES_NO_SEGMENT;
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
    return id;
}

/* ---- The segment ----------------------------------------------------------------------------- */

static void a_segment_outlives_its_process_until_it_is_removed(void **state)
{
    (void)state;
    int64_t id = segment_of_the_dead("");
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
    must_hold(notes_open(&notes, token, "", &files));
    int64_t id = notes.segment_id;
    must_equal(0, read_first(id, token));
    notes_close(&notes);
    must_equal(-1, read_first(id, token));
}

static void shared_memory_that_holds_no_notes_is_neither_read_nor_removed(void **state)
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

/* ---- Segments whose live file is gone -------------------------------------------------------- */

/* How many segments of notes this process has made that are still there. */
static int segments_of(pid_t pid)
{
    char line[512];
    int count = 0;
    FILE *table = fopen("/proc/sysvipc/shm", "re");
    must_hold(table);
    while (fgets(line, sizeof line, table)) {
        long size;
        long creator;
        count += sscanf(line, "%*s %*s %*s %ld %ld", &size, &creator) == 2 && creator == pid &&
                 size == 4096 + STORE_NOTES_MAX * (long)sizeof(struct live_note);
    }
    (void)fclose(table);
    return count;
}

static const char *live_name(struct fixture *f)
{
    static char path[2 * TEMP_PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/x.db-live-", f->dir);
    for (size_t i = 0; i < STORE_TOKEN_BYTES; i++) {
        length += snprintf(path + length, sizeof path - (size_t)length, "%02x", token[i]);
    }
    return path;
}

static void a_segment_of_the_dead_stays_as_long_as_its_live_file(void **state)
{
    const char *path = live_name(*state);
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    must_hold(fd >= 0);
    close(fd);
    int64_t id = segment_of_the_dead(path);
    notes_sweep();
    must_equal(42, read_first(id, token));
    must_equal(0, unlink(path));
    notes_sweep();
    must_equal(-1, read_first(id, token));
}

static void a_segment_of_a_living_process_is_not_swept(void **state)
{
    struct notes notes = {0};
    must_hold(notes_open(&notes, token, live_name(*state), &files));
    notes_sweep();
    must_equal(0, read_first(notes.segment_id, token));
    notes_close(&notes);
}

static void a_segment_whose_path_is_no_live_files_is_not_swept(void **state)
{
    struct fixture *f = *state;
    static char too_long[2 * 4096];
    char other[2 * TEMP_PATH_BYTES];
    memset(too_long, '/', sizeof too_long - 1);
    snprintf(other, sizeof other, "%s0", live_name(f));
    const char *paths[] = {"", "/", "x.db-live-0102030000", other, live_name(f) + 1, too_long};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        int64_t id = segment_of_the_dead(paths[i]);
        notes_sweep();
        must_equal(42, read_first(id, token));
        notes_remove(id, token);
    }
    int64_t id = segment_of_the_dead(live_name(f)); /* without an end */
    char *bytes = shmat((int)id, NULL, 0);
    must_hold(bytes != (char *)-1);
    memset(bytes + 8 + STORE_TOKEN_BYTES, '/', 4096 - 8 - STORE_TOKEN_BYTES);
    must_equal(0, shmdt(bytes));
    notes_sweep();
    must_equal(42, read_first(id, token));
    notes_remove(id, token);
}

/* Removes what is in the directory whose name has this part; how many there were. */
static int remove_files(struct fixture *f, const char *part)
{
    DIR *directory = opendir(f->dir);
    struct dirent *entry;
    int count = 0;
    while ((entry = readdir(directory))) {
        if (entry->d_name[0] != '.' && strstr(entry->d_name, part)) {
            must_equal(0, unlinkat(dirfd(directory), entry->d_name, 0));
            count++;
        }
    }
    closedir(directory);
    return count;
}

static int count_files(struct fixture *f, const char *part)
{
    DIR *directory = opendir(f->dir);
    struct dirent *entry;
    int count = 0;
    while ((entry = readdir(directory))) {
        count += strstr(entry->d_name, part) != NULL;
    }
    closedir(directory);
    return count;
}

static void the_segment_of_a_database_that_was_deleted_goes_when_another_is_opened(void **state)
{
    struct fixture *f = *state;
    struct child *puppet = puppet_start(f, "mortal");
    pid_t pid = puppet->pid;
    must_equal(1, segments_of(pid));
    child_kill(puppet);
    must_equal(1, segments_of(pid));
    must_hold(remove_files(f, "") > 0);
    fixture_open(f, "a");
    must_equal(0, segments_of(pid));
}

#ifdef HF_FAULTS

/* ---- Files without their name ---------------------------------------------------------------- */

static void a_process_killed_while_it_made_its_live_file_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    static const char *const points[] = {"live_file_unlocked", "live_file_unnamed"};
    for (size_t i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            point_arm(points[i], 1, POINT_KILL);
            fixture_open(f, "mortal");
            _exit(1);
        }
        int exit_status = 0;
        must_equal(child, waitpid(child, &exit_status, 0));
        must_hold(WIFSIGNALED(exit_status));
        must_equal(1, count_files(f, ".new")); /* any process of this user may take its segment */
        for (int k = 0; k < 2; k++) {          /* the second finds the segment of an empty file */
            struct store *store = fixture_open(f, "a");
            must_equal(0, count_files(f, ".new"));
            fixture_close(f, store);
        }
        must_equal(0, segments_of(child));
    }
}

static void *show_life(void *ctx)
{
    store_alive(ctx);
    return NULL;
}

static void *open_another(void *ctx)
{
    fixture_open(ctx, "b");
    return NULL;
}

static void the_file_that_a_living_store_is_making_is_not_swept(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "a");
    pthread_t thread;
    must_equal(1, remove_files(f, "-live-"));
    point_arm("live_file_unlocked", 1, POINT_STOP_THREAD);
    must_equal(0, pthread_create(&thread, NULL, show_life, store));
    must_hold(point_wait_blocked("live_file_unlocked", 60000));
    fixture_open(f, "b");
    must_equal(1, count_files(f, ".new"));
    point_release("live_file_unlocked");
    must_equal(0, pthread_join(thread, NULL));
    must_equal(0, count_files(f, ".new"));
    must_equal(2, count_files(f, "-live-"));
}

/* Another program has put a copy in the place of a living store's file. While another process
 * looks at the copy, the store makes its file again. */
static void a_file_that_is_swapped_while_it_is_looked_at_is_not_removed(void **state)
{
    struct fixture *f = *state;
    char command[4 * TEMP_PATH_BYTES];
    pthread_t thread;
    struct child *mortal = puppet_start(f, "mortal");
    child_kill(mortal); /* so that there is a dead process to bury */
    struct store *store = fixture_open(f, "a");
    mortal = puppet_start(f, "mortal");
    child_kill(mortal);
    must_equal(2, count_files(f, "-live-"));
    snprintf(command, sizeof command,
             "cd '%s' && for i in *-live-*; do cp \"$i\" copy && mv copy \"$i\"; done", f->dir);
    must_equal(0, system(command)); /* NOLINT: a fixed command */
    point_arm("bury_one", 2, POINT_STOP_THREAD);
    must_equal(0, pthread_create(&thread, NULL, open_another, f));
    must_hold(point_wait_blocked("bury_one", 60000));
    store_alive(store);
    point_release("bury_one");
    must_equal(0, pthread_join(thread, NULL));
    must_equal(2, count_files(f, "-live-")); /* a and b */
    must_equal(2, segments_of(getpid()));
}

#endif

/* ---- While it is made ------------------------------------------------------------------------ */

static void *make_segment(void *ctx)
{
    char path[128] = "/nowhere/db-live-";

    *hex_write(path + strlen(path), token, STORE_TOKEN_BYTES) = '\0';
    must_hold(notes_open(ctx, token, path, &files));
    enter_stage(STAGE_MADE);
    return NULL;
}

static void a_segment_that_is_made_while_another_sweeps_is_not_swept(void **state)
{
    struct notes notes = {0};
    struct shmid_ds about;
    pthread_t thread;

    (void)state;
    enter_stage(STAGE_BEGUN);
    must_equal(0, pthread_create(&thread, NULL, make_segment, &notes));
    await_stage(STAGE_HAS_NUMBER);
    notes_sweep();
    must_equal(0, pthread_join(thread, NULL));
    must_equal(0, shmctl((int)notes.segment_id, IPC_STAT, &about));
    must_equal(0, about.shm_perm.mode & SHM_DEST);
    notes_close(&notes);
    stage = STAGE_NONE;
}

/* Two threads that nothing orders but the kernel, which gives the address that one has let go of to
 * the other. */
static atomic_int read_by_one;

static void *read_segment(void *ctx)
{
    must_equal(42, read_first(*(const int64_t *)ctx, token));
    atomic_store_explicit(&read_by_one, 1, memory_order_relaxed);
    return NULL;
}

static void *make_segment_then(void *ctx)
{
    while (!atomic_load_explicit(&read_by_one, memory_order_relaxed)) {
        sched_yield();
    }
    must_hold(notes_open(ctx, token, "", &files));
    return NULL;
}

/* What ThreadSanitizer says of this is the claim. */
static void an_address_that_was_let_go_of_may_be_used_by_another_thread(void **state)
{
    struct notes notes = {0};
    pthread_t threads[2];
    int64_t id = segment_of_the_dead("");

    (void)state;
    must_equal(0, pthread_create(&threads[0], NULL, make_segment_then, &notes));
    must_equal(0, pthread_create(&threads[1], NULL, read_segment, &id));
    must_equal(0, pthread_join(threads[0], NULL));
    must_equal(0, pthread_join(threads[1], NULL));
    notes_close(&notes);
    notes_remove(id, token);
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_segment_outlives_its_process_until_it_is_removed),
    CLAIM(a_closed_store_leaves_no_segment),
    CLAIM(shared_memory_that_holds_no_notes_is_neither_read_nor_removed),
    CLAIM(notes_survive_the_truncation_of_the_live_file),
    CLAIM(without_segments_notes_are_in_the_live_file),
    CLAIM(a_segment_of_the_dead_stays_as_long_as_its_live_file),
    CLAIM(a_segment_of_a_living_process_is_not_swept),
    CLAIM(a_segment_that_is_made_while_another_sweeps_is_not_swept),
    CLAIM(an_address_that_was_let_go_of_may_be_used_by_another_thread),
    CLAIM(a_segment_whose_path_is_no_live_files_is_not_swept),
    CLAIM(the_segment_of_a_database_that_was_deleted_goes_when_another_is_opened),
#ifdef HF_FAULTS
    CLAIM(a_process_killed_while_it_made_its_live_file_leaves_nothing),
    CLAIM(the_file_that_a_living_store_is_making_is_not_swept),
    CLAIM(a_file_that_is_swapped_while_it_is_looked_at_is_not_removed),
#endif
};

static const struct role roles[] = {{NULL, NULL}};

FIXTURE_MAIN("sqlite_notes", claims, roles)
