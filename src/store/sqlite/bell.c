/*
 * bell.c - wake-ups across processes. See bell.h.
 *
 * The file <db>-bell is one page that every process maps; its first word counts rings. Ringing adds
 * one and wakes whoever waits on that word. A waiter compares before it sleeps (the kernel does it
 * for us), so a ring between "I saw 7" and "I sleep while it is 7" is not lost. Sleepers are
 * counted before they compare and rings are counted before anybody asks for sleepers, so no
 * sleeper is overlooked; a process that was killed in its sleep only costs later rings a system
 * call.
 *
 * A waiter must also hear bell_wake of its own store, without waking other processes. So it sleeps
 * on two words at once (futex_waitv, Linux 5.16); older kernels get short naps on the shared word.
 *
 * What can go wrong: somebody deletes the file and a new process makes another one; or a program
 * that is not ours writes events. Then nobody rings our bell. So every LOOK_MS one waiter of the
 * store asks SQLite whether anybody wrote at all, which costs a look at shared memory and no I/O.
 * SQLite cannot say who wrote, so a waiter may wake up for a commit that made no news. That is
 * harmless; but to keep it rare the file also counts the commits of our own kind, and a thread that
 * is about to look at the store anyway (it asks bell_news first) takes those off the account.
 */
#include "store/sqlite/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "store/sqlite/sqlite.h"

#define BELL_BYTES 4096
#define LOOK_MS 100    /* between two looks of the one waiter that looks */
#define RELIEF_MS 1000 /* after which another one takes over if that one has gone */
#define NAP_MS 5       /* where futex_waitv is missing */

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

struct bell_file {
    atomic_uint_least32_t rings;
    atomic_uint_least32_t sleepers; /* at least so many wait on rings; the killed stay counted */
    atomic_uint_least64_t commits;
};

/* The layout of futex_waitv, which older headers lack. */
struct bell_waiter {
    uint64_t value;
    uint64_t address;
    uint32_t flags;
    uint32_t reserved;
};

#define BELL_FUTEX_32 2
#define BELL_FUTEX_PRIVATE 128

hf_status bell_open(struct bell *bell, const struct files *files)
{
    memset(bell, 0, sizeof *bell);
    bell->fd = files_open(files, files->bell, false);
    if (bell->fd < 0) {
        return fail(files_status(errno), "cannot open %s: %s", files->bell, strerror(errno));
    }
    /* Allocated, not only extended: writing to a hole of a full disk would be a SIGBUS. */
    int code = posix_fallocate(bell->fd, 0, BELL_BYTES);
    if (code == 0) {
        bell->file = mmap(NULL, BELL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, bell->fd, 0);
        code = bell->file == MAP_FAILED ? errno : 0;
    }
    if (code != 0) {
        close(bell->fd);
        bell->fd = -1;
        bell->file = NULL;
        return fail(files_status(code), "cannot map %s: %s", files->bell, strerror(code));
    }
    return HF_OK;
}

void bell_close(struct bell *bell)
{
    if (bell->file) {
        munmap(bell->file, BELL_BYTES);
        bell->file = NULL;
    }
    if (bell->fd >= 0) {
        close(bell->fd);
        bell->fd = -1;
    }
}

void bell_commit(struct bell *bell, bool ring)
{
    atomic_fetch_add(&bell->file->commits, 1);
    if (ring) {
        atomic_fetch_add(&bell->file->rings, 1);
        if (atomic_load(&bell->file->sleepers) > 0) {
            syscall(SYS_futex, &bell->file->rings, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        }
    }
}

void bell_wake(struct bell *bell)
{
    atomic_fetch_add(&bell->own, 1);
    syscall(SYS_futex, &bell->own, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static uint64_t bell_number(struct bell *bell)
{
    uint64_t own = atomic_load(&bell->own);
    return own << 32 | atomic_load(&bell->file->rings);
}

uint64_t bell_news(struct sqlite_engine *engine)
{
    struct bell *bell = &engine->bell;
    uint64_t commits = atomic_load(&bell->file->commits);
    if (commits != atomic_load(&bell->looked_commits) && atomic_load(&bell->waiters) == 0) {
        atomic_store(&bell->looked_commits, commits);
        pool_changed(engine);
    }
    return bell_number(bell);
}

/* Sleeps until one of the words is not as seen, at most until the deadline. */
static void bell_sleep(struct bell *bell, uint64_t seen, struct deadline deadline)
{
    static atomic_bool waitv_missing;
    if (!atomic_load(&waitv_missing)) {
        struct bell_waiter words[2] = {
            {(uint32_t)seen, (uintptr_t)&bell->file->rings, BELL_FUTEX_32, 0},
            {(uint32_t)(seen >> 32), (uintptr_t)&bell->own, BELL_FUTEX_32 | BELL_FUTEX_PRIVATE, 0},
        };
        struct timespec until = deadline_timespec(deadline);
        long code = syscall(SYS_futex_waitv, words, 2, 0, &until, CLOCK_MONOTONIC);
        if (code >= 0 || errno != ENOSYS) {
            return;
        }
        atomic_store(&waitv_missing, true);
    }
    int64_t left_ms = deadline_left_ms(deadline);
    int64_t nap_ms = left_ms < 0 || left_ms > NAP_MS ? NAP_MS : left_ms;
    struct timespec nap = {.tv_nsec = nap_ms * 1000000};
    syscall(SYS_futex, &bell->file->rings, FUTEX_WAIT, (uint32_t)seen, &nap, NULL, 0);
}

/* Did anybody write? Then all threads of the store shall look. Asks once per LOOK_MS. */
static void bell_look(struct sqlite_engine *engine)
{
    struct bell *bell = &engine->bell;
    int64_t now_us = clock_mono_us();
    if (now_us - atomic_load(&bell->looked_us) < LOOK_MS * INT64_C(1000)) {
        return;
    }
    atomic_store(&bell->looked_us, now_us);
    atomic_store(&bell->looked_commits, atomic_load(&bell->file->commits));
    if (pool_changed(engine)) {
        bell_wake(bell);
    }
}

uint64_t bell_wait(struct sqlite_engine *engine, uint64_t seen, int64_t timeout_ms)
{
    struct deadline deadline = deadline_after_ms(timeout_ms);
    struct bell *bell = &engine->bell;
    bool looks = false;
    uint64_t news;
    atomic_fetch_add(&bell->waiters, 1);
    while ((news = bell_number(bell)) == seen && !deadline_passed(deadline)) {
        looks = looks || !atomic_exchange(&bell->looker, true);
        struct deadline slice = deadline_after_ms(looks ? LOOK_MS : RELIEF_MS);
        atomic_fetch_add(&bell->file->sleepers, 1);
        bell_sleep(bell, seen, deadline_earlier(deadline, slice));
        atomic_fetch_sub(&bell->file->sleepers, 1);
        if (looks) {
            bell_look(engine);
        }
    }
    if (looks) {
        atomic_store(&bell->looker, false);
    }
    atomic_fetch_sub(&bell->waiters, 1);
    return news;
}
