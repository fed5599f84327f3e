/*
 * timekeeper.h - ends handlers whose time is up.
 *
 * Every time limit of a handler (handler_timeout_ms, tx_max_ms, the deadline of a stop) is noticed
 * here, for all runners and on both engines, by the supervisor of the bus (dispatchers.h). It takes
 * only mutexes that are never held while the store is called, and calls nothing that waits for the
 * store: dispatchers do wait for it, and what they wait for may be a lock that their own handler
 * holds. timekeeper.c tells how.
 */
#ifndef HF_BUS_DELIVER_TURN_TIMEKEEPER_H
#define HF_BUS_DELIVER_TURN_TIMEKEEPER_H

#include "base/thread.h"

struct runner;

struct timekeeper {
    pthread_mutex_t mutex;  /* guards the list. Held while runners are looked at: before theirs */
    struct runner *runners; /* those that have a seat among the dispatchers */
};

hf_status timekeeper_init(struct timekeeper *timekeeper);
void timekeeper_release(struct timekeeper *timekeeper);

/* From add to remove the handlers of the runner are timed: all the time that it has a seat. Without
 * the runner's mutex. */
void timekeeper_add(struct timekeeper *timekeeper, struct runner *runner);
void timekeeper_remove(struct timekeeper *timekeeper, struct runner *runner);

/* Ends what is over its time; answers when to look again (monotonic; INT64_MAX: not before the next
 * dispatchers_expect). */
int64_t timekeeper_look(struct timekeeper *timekeeper);

#endif
