/*
 * queue.c - rows that wait to be handed up. See queue.h.
 */
#include "store/postgres/read/queue.h"

#include <assert.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"

hf_status fetched_new(PGresult *result, struct fetched **ret_fetched)
{
    struct fetched *fetched = mem_alloc(sizeof *fetched);
    if (!fetched) {
        PQclear(result);
        return fail(HF_NOMEM, "no memory to read the log");
    }
    *fetched = (struct fetched){.result = result, .uses = 1};
    *ret_fetched = fetched;
    return HF_OK;
}

void fetched_done(struct fetched *fetched)
{
    if (fetched && --fetched->uses == 0) {
        PQclear(fetched->result);
        mem_free(fetched);
    }
}

static void queue_clear(struct queue *queue)
{
    queue_drop(queue, queue_count(queue));
}

void queue_release(struct queue *queue)
{
    queue_clear(queue);
    mem_free(queue->items);
    *queue = (struct queue){0};
}

hf_status queue_reserve(struct queue *queue, size_t count)
{
    size_t present = queue_count(queue);
    if (queue->first > 0) {
        memmove(queue->items, queue->items + queue->first, present * sizeof *queue->items);
        queue->first = 0;
        queue->end = present;
    }
    if (present + count <= queue->capacity) {
        return HF_OK;
    }
    struct queued *items = mem_realloc(queue->items, (present + count) * sizeof *items);
    if (!items) {
        return fail(HF_NOMEM, "no memory to read %zu events", count);
    }
    queue->items = items;
    queue->capacity = present + count;
    return HF_OK;
}

void queue_put(struct queue *queue, struct fetched *from, int row, int64_t position, int64_t bytes)
{
    assert(queue->end < queue->capacity);
    from->uses++;
    queue->items[queue->end++] =
        (struct queued){.position = position, .bytes = bytes, .from = from, .row = row};
}

static int compare(const void *a, const void *b)
{
    const struct queued *x = a;
    const struct queued *y = b;
    return x->position < y->position ? -1 : x->position > y->position;
}

void queue_sort(struct queue *queue)
{
    if (queue_count(queue) > 1) {
        qsort(queue->items + queue->first, queue_count(queue), sizeof *queue->items, compare);
    }
}

void queue_move(struct queued *queued, struct fetched *from, int row)
{
    from->uses++;
    fetched_done(queued->from);
    queued->from = from;
    queued->row = row;
}

void queue_drop(struct queue *queue, size_t count)
{
    assert(count <= queue_count(queue));
    for (size_t i = 0; i < count; i++) {
        fetched_done(queue_at(queue, i)->from);
    }
    queue->first += count;
    if (queue->first == queue->end) {
        queue->first = queue->end = 0;
    }
}

struct queued *queue_find(struct queue *queue, size_t count, int64_t position)
{
    for (size_t i = 0; i < count; i++) {
        if (queue_at(queue, i)->position == position) {
            return queue_at(queue, i);
        }
    }
    return NULL;
}
