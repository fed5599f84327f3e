/*
 * gate.h - the lock that every writer of the file takes before it asks SQLite for anything.
 *
 * It makes writers wait in a fair order, keeps every write and every checkpoint of all processes
 * apart (see gate.c for why that matters), and has a deadline.
 */
#ifndef HF_STORE_SQLITE_FILE_GATE_H
#define HF_STORE_SQLITE_FILE_GATE_H

#include <holdfast.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/time/deadline.h"

struct files;
struct gate_waiter;

struct gate {
    const struct files *files; /* for its path, <db>-gate */
    int fd;
    bool door_locked; /* by the thread that has the gate, until it gives it */

    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool held;       /* by a thread of this process, or being handed to one */
    bool owned;      /* `owner` is valid */
    pthread_t owner; /* who took it */
    struct gate_waiter *first, *last;
};

/* files must outlive the gate. */
hf_status gate_open(struct gate *gate, const struct files *files);
void gate_close(struct gate *gate);
/* In a forked child: closes the descriptor, touches no lock. */
void gate_abandon(struct gate *gate);

/* HF_TIMEOUT at the deadline. */
hf_status gate_take(struct gate *gate, struct deadline deadline);
/* By the thread that has the gate, before it counts the stores that are there: until gate_give no
 * store opens beside the gate unseen (gate.c). HF_IO. */
hf_status gate_lock_door(struct gate *gate);
/* By a store that opens beside the gate, after it has made its live file. False: it cannot be known
 * whether the door is locked, or it was until the deadline. */
bool gate_await_door(struct gate *gate, struct deadline deadline);
/* Called by the thread that has it, or on behalf of the thread that took it. */
void gate_give(struct gate *gate);
bool gate_held_by_caller(struct gate *gate);

#endif
