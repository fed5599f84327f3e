/*
 * selfcheck.h - does the server answer? A request of the server's own, through all that requests of
 * others go through: the thread of the sockets, TLS, the queue, a worker, a route.
 *
 * The connection is one of the listener's, made without the address that it listens on, kept for
 * all requests, and not counted: the server that is full of connections of others still answers.
 *
 *     every few seconds:   selfcheck_ask(check)
 *     then, and whenever the descriptor is readable:
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

/* A request is to be sent, which selfcheck_look does when none waits for its answer. */
void selfcheck_ask(struct selfcheck *check);
/* Does what can be done now. Whether the answer has come since the last call. */
bool selfcheck_look(struct selfcheck *check);
/* Readable when the answer comes; -1: there is no connection. */
int selfcheck_fd(const struct selfcheck *check);

#endif
