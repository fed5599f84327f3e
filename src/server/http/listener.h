/*
 * listener.h - sockets: takes requests off the wire and puts answers on it, with libmicrohttpd.
 *
 * One thread reads and writes all connections; a request that is complete waits, suspended, until a
 * worker has written its answer. Whatever a client does is bounded: bytes of headers and body,
 * connections in all and of one address, and the time from one answer to the next complete request.
 */
#ifndef HF_SERVER_HTTP_LISTENER_H
#define HF_SERVER_HTTP_LISTENER_H

#include "server/http/exchange.h"

struct listener;

struct listener_options {
    struct server *server;                   /* that the exchanges are for */
    struct streams *streams;                 /* those that exchanges begin */
    int socket;                              /* bound and listening; the listener's from now on */
    const char *certificate;                 /* PEM, with key: TLS; NULL: none */
    const char *key;                         /* PEM */
    size_t body_bytes_max;                   /* of a request */
    unsigned connections_max;                /* in all ... */
    unsigned per_address_max;                /* ... and of one address; 0: as many */
    int64_t request_ms;                      /* how long a client may take for a request */
    bool (*give)(struct exchange *exchange); /* false: no room for it now */
};

/* NULL after a failure (err). */
struct listener *listener_start(const struct listener_options *options);

/* The exchange that was given away has its answer. Any thread; the exchange is the listener's
 * again. */
void listener_answer(struct exchange *exchange);

/* Takes no new connections. */
void listener_quiesce(struct listener *listener);
/* Ends all connections and frees. All exchanges have been answered. NULL is allowed. */
void listener_stop(struct listener *listener);

/* A socket that listens on "HOST:PORT", "[IPV6]:PORT" or "unix:PATH". *ret_loopback: only this
 * machine can reach it. HF_INVALID: that is no address. HF_DENIED, HF_UNAVAILABLE. */
hf_status listener_socket(const char *address, int *ret_socket, bool *ret_loopback);

#define LISTENER_NAME_BYTES 320
/* Where a socket listens, "127.0.0.1:41233" for port 0 of it. */
const char *listener_name(int socket, const char *address, char ret_name[LISTENER_NAME_BYTES]);

#endif
