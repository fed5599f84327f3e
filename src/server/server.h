/*
 * server.h - the HTTP server: a listener, workers, and the buses that routes work with.
 */
#ifndef HF_SERVER_SERVER_H
#define HF_SERVER_SERVER_H

#include "server/access/access.h"
#include "server/buses.h"
#include "server/http/listener.h"
#include "server/http/stream.h"
#include "server/http/workers.h"
#include "server/live/sampler.h"

#include <stdatomic.h>

struct server_options {
    const char *url; /* of the database */
    hf_options bus;
    const char *listen;      /* "127.0.0.1:7070" */
    const char *tokens;      /* path of the file; NULL: none */
    const char *certificate; /* PEM texts; NULL: no TLS */
    const char *key;
    const char *const *hosts;
    size_t host_count;
    int threads; /* that run routes */
    size_t body_bytes_max;
    unsigned connections_max;
    unsigned per_address_max;
    unsigned streams_max;             /* answers that do not end, in all ... */
    unsigned streams_per_address_max; /* ... and of one address; 0: as many */
    int64_t request_ms;
};

struct server {
    const struct server_options *options;
    struct access access;
    struct buses *buses;
    struct workers *workers;
    struct streams *streams;
    struct listener *listener;
    struct sampler *sampler;
    atomic_int waiting;             /* workers that wait for events */
    char name[LISTENER_NAME_BYTES]; /* where it listens */
};

/* Opens the database and listens. HF_DENIED: the address can be reached from elsewhere, and there
 * are no tokens. The options outlive the server. */
hf_status server_start(const struct server_options *options, struct server **ret_server);

/* Answers what is under way, and closes. NULL is allowed. */
void server_stop(struct server *server);

#endif
