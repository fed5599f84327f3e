/*
 * bell.h - wake-ups across processes: a counter in a shared file, and a futex on it.
 *
 * The number that bell_news answers has two halves: the shared counter, which every process raises
 * after a commit that made news, and a counter of this store alone, for bell_wake.
 */
#ifndef HF_STORE_SQLITE_FILE_BELL_H
#define HF_STORE_SQLITE_FILE_BELL_H

#include <holdfast.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sqlite_engine;
struct files;
struct bell_words;

struct bell {
    int fd;                  /* -1: none */
    struct bell_words *page; /* mapped, to name its words to the kernel; never accessed: bell.c */
    atomic_uint_least32_t own;
    atomic_uint_least32_t foreign;        /* looks that found a commit of a foreign program */
    atomic_int waiters;                   /* threads of this store inside bell_wait */
    atomic_bool looker;                   /* one of them looks now and then for writes of others */
    atomic_int_least64_t looked_us;       /* when it did last, monotonic */
    atomic_uint_least32_t looked_commits; /* commits of ours when a thread last asked */
};

hf_status bell_open(struct bell *bell, const struct files *files);
void bell_close(struct bell *bell);

/* What a commit has made known. */
enum ring {
    RING_NONE,
    RING_EVENTS, /* new events, and nothing else */
    RING_ALL,
};

/* After each commit, under the gate. */
void bell_commit(struct bell *bell, enum ring ring);
/* Ends bell_wait of this store's threads. */
void bell_wake(struct bell *bell);

uint64_t bell_news(struct sqlite_engine *engine);
/* Changes before bell_news does if that is about more than new events. A foreign program's commit
 * is not told from one of ours that comes within the same LOOK_MS. */
uint64_t bell_other_news(struct sqlite_engine *engine);
/* Until bell_news differs from `seen`, or a foreign program wrote, or the time is over. */
uint64_t bell_wait(struct sqlite_engine *engine, uint64_t seen, int64_t timeout_ms);

#endif
