/*
 * group.h - group commit: the changes of all threads that wait at one moment share one commit.
 *
 * There is no writer thread. The first thread that finds no leader becomes the leader: it takes
 * everything that waits, applies it, answers those whose changes it carried, and hands leadership
 * to the first thread that has come meanwhile. The answers come first, so that the answered threads
 * can be back in time for the next commit, and its leader waits a moment for them: with fifty
 * threads that nearly doubles what a commit carries. One thread alone pays nothing for the group
 * and does not wait. The commit itself is the clock: the slower it is, the more it carries.
 */
#ifndef HF_STORE_GROUP_H
#define HF_STORE_GROUP_H

#include <pthread.h>

#include "base/timing.h"
#include "store/engine.h"

#define GROUP_BELLS 3

struct group {
    struct engine *engine;
    pthread_mutex_t mutex; /* guards everything below */
    struct change *first;  /* the queue */
    struct change *last;
    bool led;       /* there is a leader, or a thread has been told to lead */
    int64_t count;  /* weight of the queue in changes */
    int64_t events; /* weight of the queue in events */
    int64_t bytes;  /* weight of the queue in bytes */
    int64_t events_max;
    int64_t bytes_max;
    int64_t rooms_wanted; /* threads waiting for the queue to shrink */
    pthread_cond_t room;
    int64_t shares;   /* parts of the queue that were taken so far */
    int64_t expected; /* changes of the next one, if all come again */
    int64_t wanted;   /* a leader waits until there are so many; 0: none waits */
    int64_t vain;     /* how many leaders do not wait, because one did so in vain */
    int64_t apply_us; /* what the last one took */
    pthread_cond_t gathered;
    struct timing commits;               /* not guarded: what each one took that worked */
    _Atomic uint32_t bells[GROUP_BELLS]; /* not guarded: where threads sleep, see group.c */
};

hf_status group_init(struct group *group, struct engine *engine, int64_t events_max,
                     int64_t bytes_max);
void group_release(struct group *group);

/* Contract: store_run in store.h. */
hf_status group_run(struct group *group, struct change *change, struct deadline deadline);

#define GROUP_TOGETHER_MAX 250 /* changes that one thread hands over together */

/* Hands several changes over at once, so that one commit may carry them, and waits for the answers,
 * which are in the changes. Answers how many were handed over: at least the first, and fewer than
 * all if there was no room for more. */
size_t group_run_together(struct group *group, struct change *const *changes, size_t count,
                          struct deadline deadline);

#endif
