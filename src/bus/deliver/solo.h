/*
 * solo.h - letting a suspect run alone.
 *
 * An event whose last attempt ended with the death of the process may be what killed it. It runs
 * without any other handler of the bus beside it, so that if the process dies again it is known
 * whose fault it was, and its neighbours do not die with it.
 *
 * Handlers enter before they run and leave afterwards. A suspect waits until the others have left,
 * and while it waits nobody new enters; but it waits only SOLO_WAIT_MS, for a slow handler must not
 * hold up everything. Whoever is given up (a handler past its timeout) leaves by the hand of the
 * one who gives it up.
 */
#ifndef HF_BUS_DELIVER_SOLO_H
#define HF_BUS_DELIVER_SOLO_H

#include <holdfast.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SOLO_WAIT_MS 1000

struct solo {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int32_t running;  /* who has entered and not left */
    int32_t suspects; /* suspects that run or wait to */
    bool taken;       /* a suspect runs */
};

hf_status solo_init(struct solo *solo);
void solo_release(struct solo *solo);

/* Enters; false, without having entered, if *cancelled becomes true while it waits. */
bool solo_enter(struct solo *solo, bool suspect, const atomic_bool *cancelled);
void solo_leave(struct solo *solo, bool suspect);

#endif
