/*
 * shelf.c - counted batches and their recycling. See shelf.h.
 */
#include "bus/deliver/shelf.h"

#include "base/mem.h"

struct shelf *rack_take(struct rack *rack)
{
    struct shelf *shelf = rack->spare;
    if (shelf) {
        rack->spare = shelf->next;
        rack->count--;
        batch_clear(&shelf->batch);
    } else {
        shelf = mem_calloc(1, sizeof *shelf);
        if (!shelf) {
            return NULL;
        }
        batch_init(&shelf->batch);
    }
    atomic_store(&shelf->references, 1);
    return shelf;
}

static void shelf_free(struct shelf *shelf)
{
    batch_release(&shelf->batch);
    mem_free(shelf);
}

void rack_return(struct rack *rack, struct shelf *shelf)
{
    if (!shelf || atomic_fetch_sub(&shelf->references, 1) > 1) {
        return;
    }
    /* One oversized event must not keep its memory for ever. */
    bool large = shelf->batch.arena.used_bytes > STORE_BATCH_BYTES_MAX;
    if (!rack || rack->count == RACK_MAX || large) {
        shelf_free(shelf);
        return;
    }
    shelf->next = rack->spare;
    rack->spare = shelf;
    rack->count++;
}

void rack_release(struct rack *rack)
{
    while (rack->spare) {
        struct shelf *shelf = rack->spare;
        rack->spare = shelf->next;
        shelf_free(shelf);
    }
    rack->count = 0;
}
