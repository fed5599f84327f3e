/*
 * event_batch.c - counted batches and their recycling. See event_batch.h.
 */
#include "bus/deliver/window/event_batch.h"

#include "base/mem.h"

struct event_batch *batch_pool_take(struct batch_pool *batch_pool)
{
    struct event_batch *event_batch = batch_pool->spare;
    if (event_batch) {
        batch_pool->spare = event_batch->next;
        batch_pool->count--;
        batch_clear(&event_batch->batch);
    } else {
        event_batch = mem_calloc(1, sizeof *event_batch);
        if (!event_batch) {
            return NULL;
        }
        batch_init(&event_batch->batch);
    }
    atomic_store(&event_batch->references, 1);
    return event_batch;
}

static void event_batch_free(struct event_batch *event_batch)
{
    batch_release(&event_batch->batch);
    mem_free(event_batch);
}

void batch_pool_return(struct batch_pool *batch_pool, struct event_batch *event_batch)
{
    if (!event_batch || atomic_fetch_sub(&event_batch->references, 1) > 1) {
        return;
    }
    /* One oversized event must not keep its memory for ever. */
    bool large = event_batch->batch.arena.used_bytes > STORE_BATCH_BYTES_MAX;
    if (!batch_pool || batch_pool->count == BATCH_POOL_MAX || large) {
        event_batch_free(event_batch);
        return;
    }
    event_batch->next = batch_pool->spare;
    batch_pool->spare = event_batch;
    batch_pool->count++;
}

void batch_pool_release(struct batch_pool *batch_pool)
{
    while (batch_pool->spare) {
        struct event_batch *event_batch = batch_pool->spare;
        batch_pool->spare = event_batch->next;
        event_batch_free(event_batch);
    }
    batch_pool->count = 0;
}
