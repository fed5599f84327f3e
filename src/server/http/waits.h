/*
 * waits.h - requests that wait for the same thing, of which only one has a thread.
 *
 * A thousand clients may claim from one subscription and wait for events. The first of them
 * *watches*: its worker waits in a call of the library. Each of the others tries once, and is
 * *parked*: it is kept in a list and its worker goes on with other requests. When the one that
 * watches is answered, the next is woken, which means that a worker runs its route again; one that
 * has found events wakes two, so that many events wake many.
 *
 *     route runs --(waits_watch: true)--> watches ----(answered)----> waits_end
 *        |  ^
 *        |  +-- woken --+
 *        +--(parks)--> parked --(until_us, waits_stop)--> run_out
 *
 * What is awaited is a word in a namespace: the name of a subscription. If requests wait for more
 * of them than may watch, those of the others that are first in their lists are woken every
 * WAITS_LOOK_MS to look for themselves.
 */
#ifndef HF_SERVER_HTTP_WAITS_H
#define HF_SERVER_HTTP_WAITS_H

#include "server/http/exchange.h"

#define WAITS_LOOK_MS 500

struct waits;

struct waits_options {
    size_t watchers_max;                        /* threads that may wait */
    bool (*again)(struct exchange *exchange);   /* runs the route; false: there is no room for it */
    void (*run_out)(struct exchange *exchange); /* answers: what it waited for has not come */
};

/* NULL: no memory or thread (err). */
struct waits *waits_start(const struct waits_options *options);

/* For a route: is this request to wait on its thread? Such a request does not park. */
bool waits_watch(struct waits *waits, struct exchange *exchange, const char *awaited);

/* For the server, behind the route. Keeps a request that parks; it is not the caller's any more. */
void waits_park(struct waits *waits, struct exchange *exchange);
/* One that does not is about to be answered. */
void waits_end(struct waits *waits, struct exchange *exchange);

/* Answers what is parked, and parks nothing more. */
void waits_stop(struct waits *waits);
/* After that, when no request is left. NULL is allowed. */
void waits_free(struct waits *waits);

#endif
