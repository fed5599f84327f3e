/*
 * shelf.h - a batch of entries that several slots and handlers share; freed by the last of them.
 *
 * A handler that is stuck may look at its event long after the delivery was settled by others, so
 * the memory of events is counted. Shelves are recycled, so steady delivery allocates nothing.
 */
#ifndef HF_BUS_DELIVER_SHELF_H
#define HF_BUS_DELIVER_SHELF_H

#include <stdatomic.h>

#include "store/batch.h"

struct shelf {
    struct batch batch;
    atomic_int references;
    struct shelf *next; /* in a rack of spare ones */
};

#define RACK_MAX 4

/* Spare shelves of one runner; used by one thread. */
struct rack {
    struct shelf *spare;
    int count;
};

/* A cleared shelf with one reference; NULL without memory. */
struct shelf *rack_take(struct rack *rack);
/* Drops a reference; the last one puts the shelf back (rack NULL: frees it). */
void rack_return(struct rack *rack, struct shelf *shelf);
void rack_release(struct rack *rack);

#endif
