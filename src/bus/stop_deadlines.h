/*
 * stop_deadlines.h - how long a stop waits, and for what.
 *
 * It is made once for a stop, so that no wait is added to another's. Even a stop without time has a
 * moment to store how far it got.
 */
#ifndef HF_BUS_STOP_DEADLINES_H
#define HF_BUS_STOP_DEADLINES_H

#include "base/time/deadline.h"

struct stop_deadlines {
    struct deadline handlers; /* the caller's; then those that still run are given up */
    struct deadline store;    /* then nothing more is stored, nor given back */
    struct deadline threads;  /* then a thread that waits for the store is left behind */
    struct deadline idle;     /* the same, for one that has nothing to store, while the database
                                 cannot be reached (store_is_away) */
};

#define STOP_IDLE_MS 1000 /* for giving back, if nothing else is to be stored */

/* Of a caller who wants it to be over by the deadline. */
struct stop_deadlines stop_deadlines_until(struct deadline deadline);

#endif
