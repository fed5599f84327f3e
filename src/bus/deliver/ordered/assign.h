/*
 * assign.h - fixed assignments: which partitions this process was told to work for.
 */
#ifndef HF_BUS_DELIVER_ORDERED_ASSIGN_H
#define HF_BUS_DELIVER_ORDERED_ASSIGN_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/ranges.h"

struct runner;

#define ASSIGNMENTS_MAX 1024 /* subscriptions of one handle */

/* One subscription's. */
struct assignment {
    char *name;
    int32_t total;        /* how many partitions the subscription has */
    struct ranges ranges; /* those that are assigned */
    struct assignment *next;
};

/* Those of a bus. */
struct assignments {
    pthread_mutex_t mutex; /* of the list; nothing else is locked under it */
    struct assignment *first;
    _Atomic uint64_t version; /* rises with every change */
};

hf_status assignments_init(struct assignments *assignments);
void assignments_release(struct assignments *assignments);

/* For membership.c, on the dispatcher. */

/* What to say at the refresh that comes now: absent if nothing is assigned, "" if what is assigned
 * cannot be had (and the log is told why). The text is in the buffer. */
struct text assign_text(struct runner *runner, char buffer[RANGES_BYTES_MAX]);
/* Has an assignment changed since then? */
bool assign_changed(const struct runner *runner);
/* Is all that we were assigned ours? False if it was not fixed. */
bool assign_has_all(const struct runner *runner);
/* Says for which partitions we stand by, and who has them. */
void assign_say_waiting(struct runner *runner);

#endif
