/*
 * companion.h - a thread that its owner can wait for with a deadline, and leave behind.
 *
 *     owner:   companion_start ... (asks it to stop) ... companion_join: it has ended, or
 *              companion_leave: it goes on by itself
 *     thread:  works ... companion_end, and if it was left, releases what it used
 *
 * The caller that leaves a thread behind makes sure that the memory it uses stays until the thread
 * releases it, the companion included: by a reference that is counted for it.
 */
#ifndef HF_BASE_COMPANION_H
#define HF_BASE_COMPANION_H

#include "base/thread.h"

struct companion {
    pthread_t thread;
    bool present;          /* started, and neither joined nor left; the owner's */
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    bool ended; /* the thread has said so: joining it takes no time */
    bool left;  /* no thread joins it */
};

hf_status companion_init(struct companion *companion);
/* The caller has joined the thread, or is the thread itself, which was left. */
void companion_release(struct companion *companion);

/* Starts run(ctx), as thread_start does. Again after it was joined is allowed. */
hf_status companion_start(struct companion *companion, const char *name, void *(*run)(void *ctx),
                          void *ctx);
/* By the thread: it uses nothing of its owner's any more. True: it was left behind. */
bool companion_end(struct companion *companion);

/* By the owner. Waits until it has ended; true also if none was started. */
bool companion_join(struct companion *companion, struct deadline deadline);
/* By the owner. True: the thread still works, and is on its own from now on. */
bool companion_leave(struct companion *companion);

#endif
