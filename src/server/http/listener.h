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
    struct server *server;    /* that the exchanges are for */
    struct streams *streams;  /* those that exchanges begin */
    int socket;               /* bound and listening; the listener's from now on */
    const char *certificate;  /* PEM, with key: TLS; NULL: none */
    const char *key;          /* PEM */
    size_t body_bytes_max;    /* of a request */
    unsigned connections_max; /* of all addresses together */
    unsigned per_address_max; /* connections of one address; 0: no limit */
    int64_t request_ms;       /* how long a client may take for a request */
    /* Whether the caller may send a large body; sets `admitted`. False after a refusal. */
    bool (*admit)(struct exchange *exchange);
    bool (*give)(struct exchange *exchange);         /* false: no room for it now */
    void (*record)(const struct exchange *exchange); /* one that is answered without `give` */
    void (*look)(struct server *server);             /* once a second */
};

/* NULL after a failure (err). */
struct listener *listener_start(const struct listener_options *options);

/* The exchange that was given away has its answer. Any thread; the exchange is the listener's
 * again. */
void listener_answer(struct exchange *exchange);

/* Connections that begin from now on get this certificate and key (PEM); those that stand keep
 * theirs. Only of a listener that was started with TLS. After a failure (err) all stays as it was.
 * Any thread. */
hf_status listener_renew(struct listener *listener, const char *certificate, const char *key);

/* A connection to the listener itself, without an address and without limits; the caller closes the
 * descriptor, which does not block. At most two at once. -1: there is none. */
int listener_connect(struct listener *listener);

/* Takes no new connections, and ends those that there are with their next answer. */
void listener_quiesce(struct listener *listener);
/* Waits up to wait_ms until all answers are sent, after listener_quiesce. False: they are not. */
bool listener_drain(struct listener *listener, int64_t wait_ms);
/* Ends all connections and frees. All exchanges have been answered. NULL is allowed. */
void listener_stop(struct listener *listener);

#endif
