/*
 * queue.h - events that were read and not yet handed up: rows of results, in order of positions.
 *
 * A result lives until its last row has left. Positions are unique: the gap proof sees to it that
 * nothing is put twice.
 */
#ifndef HF_STORE_POSTGRES_READ_QUEUE_H
#define HF_STORE_POSTGRES_READ_QUEUE_H

#include <libpq-fe.h>
#include <stdbool.h>

#include "store/store.h"

/* A result that rows of the queue point into. */
struct fetched {
    PGresult *result;
    size_t uses;
};

struct queued {
    int64_t position;
    int64_t bytes; /* of its texts */
    struct fetched *from;
    int row;
};

struct queue {
    struct queued *items;
    size_t first; /* the next one to be handed up */
    size_t end;
    size_t capacity;
};

void queue_release(struct queue *queue);

static inline size_t queue_count(const struct queue *queue)
{
    return queue->end - queue->first;
}

static inline struct queued *queue_at(struct queue *queue, size_t index)
{
    return &queue->items[queue->first + index];
}

/* Makes room for so many more, so that queue_put cannot fail. */
hf_status queue_reserve(struct queue *queue, size_t count);
/* Takes the result over (also on failure), for rows that will be put; fetched_done when all are. */
hf_status fetched_new(PGresult *result, struct fetched **ret_fetched);
/* Lets the result go when no row uses it any more. NULL is allowed. */
void fetched_done(struct fetched *fetched);
/* Puts a row at the end. */
void queue_put(struct queue *queue, struct fetched *from, int row, int64_t position, int64_t bytes);
/* Restores the order after rows were put that belong before others. */
void queue_sort(struct queue *queue);
/* The one with this position among the first `count`; NULL if there is none. */
struct queued *queue_find(struct queue *queue, size_t count, int64_t position);
/* Replaces where an event is found. */
void queue_move(struct queued *queued, struct fetched *from, int row);
/* Takes the first `count` away. */
void queue_drop(struct queue *queue, size_t count);

#endif
