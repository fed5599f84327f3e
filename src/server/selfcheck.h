/*
 * selfcheck.h - does the server answer? A request of the server's own, through all that requests of
 * others go through: the thread of the sockets, TLS, the queue, a worker, a route.
 *
 * The connection is one of the listener's, made without the address that it listens on, kept for
 * all requests, and not counted: the server that is full of connections of others still answers.
 *
 *     every few seconds:   selfcheck_ask(check)
 *     whenever the descriptor is readable, and a moment later:
 *                          if (selfcheck_look(check)) the server answers
 *
 * Nothing here waits, so one thread can do it beside other things.
 */
#ifndef HF_SERVER_SELFCHECK_H
#define HF_SERVER_SELFCHECK_H

#include "server/http/listener.h"

struct selfcheck;

/* NULL: no memory (err). */
struct selfcheck *selfcheck_new(struct listener *listener, bool tls);
void selfcheck_free(struct selfcheck *check); /* NULL is allowed */

/* Sends a request, unless one waits for its answer. */
void selfcheck_ask(struct selfcheck *check);
/* Whether the answer has come since the last call. */
bool selfcheck_look(struct selfcheck *check);
/* Readable when the answer comes; -1: there is no connection. */
int selfcheck_fd(const struct selfcheck *check);

#endif
