/*
 * bell.c - wake-ups across processes. See bell.h.
 *
 * The file <db>-bell is one page that every process maps; its first word counts rings. Ringing adds
 * one and wakes every thread that waits on that word. A waiter compares before it sleeps (the
 * kernel does it for us), so a ring between "I saw 7" and "I sleep while it is 7" is not lost.
 *
 * The page is mapped only to name its words to the kernel. The file may be truncated, and then
 * every access to the mapped page by this program would be a SIGBUS. So the words are read by pread
 * and raised by FUTEX_WAKE_OP, which adds and wakes in one system call and answers EFAULT where the
 * page is gone; the file is then made whole again, and its counts begin anew.
 *
 * A waiter must also hear bell_wake of its own store, without waking other processes. So it sleeps
 * on two words at once (futex_waitv, Linux 5.16); older kernels get short naps on the shared word.
 *
 * What can go wrong: the file is deleted and a new process makes another one; or a program
 * that is not ours writes events. Then no process rings this bell. So every LOOK_MS one waiter of
 * the store asks SQLite whether there was any write at all, which costs a look at shared memory and
 * no I/O. SQLite cannot say who wrote, so a waiter may wake up for a commit that made no news. That
 * is harmless; but to keep it rare the file also counts the commits of our own kind, and a thread
 * that is about to look at the store anyway (it asks bell_news first) takes those off the account.
 */
#include "store/sqlite/file/bell.h"

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

#include "base/err.h"
#include "base/time/clock.h"
#include "store/sqlite/sqlite.h"

#define BELL_BYTES 4096
#define LOOK_MS 100    /* between two looks of the one waiter that looks */
#define RELIEF_MS 1000 /* after which another one takes over if that one has gone */
#define NAP_MS 5       /* where futex_waitv is missing */

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

struct bell_words {
    uint32_t rings;
    uint32_t commits;
    uint32_t others; /* rings that are about more than new events */
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

/* Gives the file its page, also again after it was truncated. 0, or an errno. Allocated, not
 * only extended: a full disk is to be found here. */
static int bell_mend(const struct bell *bell)
{
    return posix_fallocate(bell->fd, 0, BELL_BYTES);
}

hf_status bell_open(struct bell *bell, const struct files *files)
{
    memset(bell, 0, sizeof *bell);
    bell->fd = -1;
    hf_status status = files_open(files, files->bell, FILES_REPLACE, &bell->fd);
    if (status) {
        return status;
    }
    int code = bell_mend(bell);
    if (code == 0) {
        bell->page = mmap(NULL, BELL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, bell->fd, 0);
        code = bell->page == MAP_FAILED ? errno : 0;
    }
    if (code != 0) {
        close(bell->fd);
        bell->fd = -1;
        bell->page = NULL;
        return fail(files_status(code), "cannot map %s: %s", files->bell, strerror(code));
    }
    return HF_OK;
}

void bell_close(struct bell *bell)
{
    if (bell->page) {
        munmap(bell->page, BELL_BYTES);
        bell->page = NULL;
    }
    if (bell->fd >= 0) {
        close(bell->fd);
        bell->fd = -1;
    }
}

/* All zero if the file was truncated. */
static struct bell_words bell_read(const struct bell *bell)
{
    struct bell_words words;
    if (pread(bell->fd, &words, sizeof words, 0) == (ssize_t)sizeof words) {
        return words;
    }
    bell_mend(bell);
    return (struct bell_words){0};
}

/* Adds one to a word of the page and wakes up to `sleepers` threads that wait on it. */
static void bell_raise(const struct bell *bell, uint32_t *word, long sleepers)
{
    int add_one = FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, 0);
    for (int i = 0; i < 2; i++) {
        if (syscall(SYS_futex, word, FUTEX_WAKE_OP, sleepers, 0L, word, add_one) >= 0 ||
            errno != EFAULT || bell_mend(bell) != 0) {
            return; /* what cannot be rung is found by looking */
        }
    }
}

void bell_commit(struct bell *bell, enum ring ring)
{
    bell_raise(bell, &bell->page->commits, 0);
    if (ring == RING_ALL) {
        bell_raise(bell, &bell->page->others, 0); /* before the ring: see bell_other_news */
    }
    if (ring != RING_NONE) {
        bell_raise(bell, &bell->page->rings, INT_MAX);
    }
}

void bell_wake(struct bell *bell)
{
    atomic_fetch_add(&bell->own, 1);
    syscall(SYS_futex, &bell->own, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static uint64_t bell_number(struct bell *bell, struct bell_words words)
{
    return ((uint64_t)atomic_load(&bell->own) << 32) | words.rings;
}

uint64_t bell_news(struct sqlite_engine *engine)
{
    struct bell *bell = &engine->bell;
    struct bell_words words = bell_read(bell);
    if (words.commits != atomic_load(&bell->looked_commits) && atomic_load(&bell->waiters) == 0) {
        atomic_store(&bell->looked_commits, words.commits);
        pool_changed(engine);
        words = bell_read(bell);
    }
    return bell_number(bell, words);
}

uint64_t bell_other_news(struct sqlite_engine *engine)
{
    struct bell *bell = &engine->bell;
    return ((uint64_t)atomic_load(&bell->foreign) << 32) | bell_read(bell).others;
}

/* Sleeps until one of the words is not as seen, at most until the deadline. */
static void bell_sleep(struct bell *bell, uint64_t seen, struct deadline deadline)
{
    static atomic_bool waitv_missing;
    if (!atomic_load(&waitv_missing)) {
        struct bell_waiter words[2] = {
            {(uint32_t)seen, (uintptr_t)&bell->page->rings, BELL_FUTEX_32, 0},
            {(uint32_t)(seen >> 32), (uintptr_t)&bell->own, BELL_FUTEX_32 | BELL_FUTEX_PRIVATE, 0},
        };
        struct timespec until = deadline_timespec(deadline);
        long code = syscall(SYS_futex_waitv, words, 2, 0, &until, CLOCK_MONOTONIC);
        if (code >= 0 || (errno != ENOSYS && errno != EFAULT)) {
            return;
        }
        atomic_store(&waitv_missing, errno == ENOSYS);
    }
    int64_t left_ms = deadline_left_ms(deadline);
    int64_t nap_ms = left_ms < 0 || left_ms > NAP_MS ? NAP_MS : left_ms;
    struct timespec nap = {.tv_nsec = nap_ms * 1000000};
    if (syscall(SYS_futex, &bell->page->rings, FUTEX_WAIT, (uint32_t)seen, &nap, NULL, 0) != 0 &&
        errno == EFAULT) {
        bell_mend(bell);
        nanosleep(&nap, NULL);
    }
}

/* Wakes all threads of the store if another connection has written. Looks once per LOOK_MS. */
static void bell_look(struct sqlite_engine *engine)
{
    struct bell *bell = &engine->bell;
    int64_t now_us = clock_mono_us();
    if (now_us - atomic_load(&bell->looked_us) < LOOK_MS * INT64_C(1000)) {
        return;
    }
    atomic_store(&bell->looked_us, now_us);
    uint32_t commits = bell_read(bell).commits;
    bool counted = atomic_exchange(&bell->looked_commits, commits) != commits;
    if (pool_changed(engine)) {
        atomic_fetch_add(&bell->foreign, counted ? 0 : 1);
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
    while ((news = bell_number(bell, bell_read(bell))) == seen && !deadline_passed(deadline)) {
        looks = looks || !atomic_exchange(&bell->looker, true);
        struct deadline slice = deadline_after_ms(looks ? LOOK_MS : RELIEF_MS);
        bell_sleep(bell, seen, deadline_earlier(deadline, slice));
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
