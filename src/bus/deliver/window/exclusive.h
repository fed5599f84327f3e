/*
 * exclusive.h - letting a crash suspect run alone.
 *
 * An event whose last attempt ended with the death of the process may be what killed it. It runs
 * without any other handler of the bus beside it, so that if the process dies again it is known
 * whose fault it was, and its neighbours do not die with it.
 *
 * Handlers enter before they run and leave afterwards. A crash suspect waits until the others have
 * left, and while it waits no other enters; but it waits only EXCLUSIVE_WAIT_MS, for a slow handler
 * must not hold up everything. For a handler that is given up (past its timeout) the thread that
 * gives it up leaves.
 */
#ifndef HF_BUS_DELIVER_WINDOW_EXCLUSIVE_H
#define HF_BUS_DELIVER_WINDOW_EXCLUSIVE_H

#include <holdfast.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define EXCLUSIVE_WAIT_MS 1000

struct exclusive {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int32_t running;        /* who has entered and not left */
    int32_t crash_suspects; /* crash suspects that run or wait to */
    bool taken;             /* a crash suspect runs */
};

hf_status exclusive_init(struct exclusive *exclusive);
void exclusive_release(struct exclusive *exclusive);

/* Enters; false, without having entered, if *cancelled becomes true while it waits. */
bool exclusive_enter(struct exclusive *exclusive, bool crash_suspect, const atomic_bool *cancelled);
void exclusive_leave(struct exclusive *exclusive, bool crash_suspect);

#endif
