/*
 * event_batch.h - a batch of entries that several slots and handlers share; freed by the last of
 * them.
 *
 * A handler that is stuck may look at its event long after the delivery was settled by others, so
 * the memory of events is counted. Batches are recycled, so steady delivery allocates nothing.
 */
#ifndef HF_BUS_DELIVER_WINDOW_EVENT_BATCH_H
#define HF_BUS_DELIVER_WINDOW_EVENT_BATCH_H

#include <stdatomic.h>

#include "store/common/batch.h"

struct event_batch {
    struct batch batch;
    atomic_int references;
    struct event_batch *next; /* in a batch_pool of spare ones */
};

#define BATCH_POOL_MAX 4

/* Spare event batches of one runner; used by one thread. */
struct batch_pool {
    struct event_batch *spare;
    int count;
};

/* A cleared event_batch with one reference; NULL without memory. */
struct event_batch *batch_pool_take(struct batch_pool *batch_pool);
/* Drops a reference; the last one puts the event_batch back (batch_pool NULL: frees it). */
void batch_pool_return(struct batch_pool *batch_pool, struct event_batch *event_batch);
void batch_pool_release(struct batch_pool *batch_pool);

#endif
