/*
 * departures.h - giving back, many subscriptions at once.
 *
 * A bus that stops gives back what its ordered subscriptions own, and leaves their members. By each
 * runner for itself these are two transactions, and on a server two round trips: with thousands of
 * subscriptions longer than a stop may take. So if there are many, a runner that has stored all
 * that it has to store only says that it departs, and the thread that stops the bus gives back for
 * all that have done so: every now and then while it waits, so that a handler that takes its time
 * keeps no partition of other subscriptions from other processes, and at the end.
 *
 * What could not be given back stays in the list for the next stop. A start empties it: the runners
 * take what is theirs anyway. If the process dies, others see that, and take over.
 */
#ifndef HF_BUS_DELIVER_DEPARTURES_H
#define HF_BUS_DELIVER_DEPARTURES_H

#include "base/time/deadline.h"

#include <holdfast.h>
#include <pthread.h>
#include <stdbool.h>

struct runner;

struct departures {
    pthread_mutex_t mutex;
    struct runner *first; /* counted */
};

hf_status departures_init(struct departures *departures);
/* It is empty. */
void departures_release(struct departures *departures);

/* By the dispatcher of a runner that ends for a stop, and has stored everything: from now on the
 * thread that stops the bus gives back for it. False: the runner is to do so itself, because there
 * are few. */
bool departures_add(struct runner *runner);
/* By the thread that stops the bus. Gives back for those that are in the list now. HF_BUSY: others
 * keep some of them locked. */
hf_status departures_send(hf_bus *bus, struct deadline deadline);
/* The same until the list is empty, or the deadline. */
hf_status departures_end(hf_bus *bus, struct deadline deadline);
/* Empties the list. No runner has turns. */
void departures_forget(hf_bus *bus);

#endif
