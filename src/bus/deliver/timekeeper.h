/*
 * timekeeper.h - one thread per bus that ends handlers whose time is up.
 *
 * Every time limit of a handler (handler_timeout_ms, tx_max_ms, the deadline of a stop) is noticed
 * here, for all runners and on both engines. The thread takes only mutexes that are never held
 * while the store is called, and it calls nothing that waits for the store: dispatchers do wait for
 * it, and what they wait for may be a lock that their own handler holds. timekeeper.c tells how.
 */
#ifndef HF_BUS_DELIVER_TIMEKEEPER_H
#define HF_BUS_DELIVER_TIMEKEEPER_H

#include <holdfast.h>
#include <stdatomic.h>

#include "base/companion.h"

struct runner;

struct timekeeper {
    hf_bus *bus;
    struct companion companion;

    pthread_mutex_t list;   /* guards the list. Held while runners are looked at: before theirs */
    struct runner *runners; /* those whose dispatcher runs */

    pthread_mutex_t mutex; /* guards what follows; taken after a runner's mutex */
    pthread_cond_t changed;
    int32_t count;                /* of the list */
    bool stopping;                /* the thread ends when there are none */
    int64_t alarm_us;             /* monotonic: look at the runners then; INT64_MAX: nothing runs */
    _Atomic int64_t next_look_us; /* the same, for those who have no mutex */
};

hf_status timekeeper_init(struct timekeeper *timekeeper, hf_bus *bus);
void timekeeper_release(struct timekeeper *timekeeper);

/* Starts the thread, unless it runs. bus->life is held. */
hf_status timekeeper_start(struct timekeeper *timekeeper);
/* Ends the thread, unless a dispatcher was left behind that still waits for the store: its handlers
 * need the thread. bus->life is held. */
void timekeeper_stop(struct timekeeper *timekeeper);
/* The bus is closed: a thread that still runs ends with its last runner, and keeps a reference to
 * the bus until then. */
void timekeeper_leave(struct timekeeper *timekeeper);

/* From add to remove the handlers of the runner are timed. Without the runner's mutex. */
void timekeeper_add(struct timekeeper *timekeeper, struct runner *runner);
void timekeeper_remove(struct timekeeper *timekeeper, struct runner *runner);

/* Something may be over its time at due_us, and not before. Costs one load if the thread looks by
 * then anyway. The mutex of the runner that this is about is held. */
void timekeeper_expect(struct timekeeper *timekeeper, int64_t due_us);

#endif
