/*
 * handlers.h - the handlers of one subscription in this process: an unchanging, counted list.
 *
 * Registering or removing a handler makes a new list; a worker that runs handlers keeps the list it
 * began with. So handlers run without a lock, and removal can wait until no worker uses the old
 * list.
 */
#ifndef HF_BUS_DELIVER_WORK_HANDLERS_H
#define HF_BUS_DELIVER_WORK_HANDLERS_H

#include <holdfast.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/text/text.h"

struct handler {
    hf_handler_id id;
    struct text pattern; /* owned */
    hf_handler_fn run;
    hf_batch_handler_fn run_batch; /* one of the two is NULL */
    void *ctx;
};

/* Which functions handlers are, as they were registered. A subscription has those of one kind in a
 * process. */
enum handler_kind {
    HANDLERS_SINGLE, /* for one event */
    HANDLERS_BATCH,  /* for a unit of several events */
};

struct handlers {
    atomic_int references;
    enum handler_kind kind; /* of all of them, and of those that an empty list had */
    size_t count;
    struct handler items[]; /* in the order of registration */
};

enum handler_kind handler_kind(const struct handler *handler);
/* The kind in words, in the plural. */
const char *handler_kind_name(enum handler_kind kind);

/* A copy of `old` (NULL: empty) with one more; NULL without memory. */
struct handlers *handlers_with(const struct handlers *old, const struct handler *more);
/* A copy without this one. HF_NOTFOUND is told by *ret_found. */
struct handlers *handlers_without(const struct handlers *old, hf_handler_id id, bool *ret_found);
struct handlers *handlers_reference(struct handlers *handlers);
void handlers_unreference(struct handlers *handlers);

/* Is every one of these patterns covered by one handler's? If not, ret_first_missing (may be NULL)
 * is the first that is not. */
bool handlers_cover(const struct handlers *handlers, const struct text *patterns, size_t count,
                    struct text *ret_first_missing);

#endif
