/*
 * server.h - the HTTP server: a listener, workers, and the buses that routes work with.
 */
#ifndef HF_SERVER_SERVER_H
#define HF_SERVER_SERVER_H

#include "server/access/access.h"
#include "server/audit.h"
#include "server/buses/buses.h"
#include "server/follow/follow.h"
#include "server/http/listener.h"
#include "server/http/stream.h"
#include "server/http/waits.h"
#include "server/http/workers.h"
#include "server/live/sampler.h"
#include "server/monitor/metrics.h"
#include "server/monitor/probes.h"
#include "server/socket.h"

#include <stdatomic.h>

struct server_options {
    const char *url; /* of the database */
    hf_options bus;
    const char *listen;      /* "127.0.0.1:7070"; not looked at if systemd has passed a socket */
    const char *tokens;      /* path of the file; NULL: none */
    const char *certificate; /* PEM texts; NULL: no TLS */
    const char *key;
    const char *audit; /* where records of changes go (audit.h) */
    const char *const *hosts;
    size_t host_count;
    int threads; /* that run routes */
    size_t body_bytes_max;
    unsigned connections_max;
    unsigned per_address_max;
    unsigned streams_max;             /* answers that do not end, of all addresses together */
    unsigned streams_per_address_max; /* streams of one address; 0: no limit */
    int64_t request_ms;
};

/* When it was looked at last whether streams may go on. */
struct access_look {
    uint64_t version; /* of what is granted (access.h) */
    int64_t next_us;  /* when to do so again, even if that stays as it is; monotonic */
};

struct server {
    const struct server_options *options;
    struct server_socket socket;
    struct access access;
    struct access_look look; /* at the streams that were begun with tokens */
    struct audit *audit;
    struct buses *buses;
    struct workers *workers;
    struct streams *streams;
    struct listener *listener;
    struct sampler *sampler;
    struct followers *followers;
    struct probes probes;
    int64_t started_at_us;
    _Atomic int64_t requests[METRICS_DIGITS]; /* answered, by the first digit of the status */
    atomic_int at_once;                       /* publishes that the bus answers */
    struct waits *waits;                      /* requests that wait for events */
    atomic_int long_ones;                     /* workers that work at a rate */
    atomic_bool stopping;                     /* they and those that wait go on no longer */
};

/* Takes the address, and reads the tokens. HF_DENIED: the address can be reached from elsewhere,
 * and there are no tokens. The options outlive the server. */
hf_status server_open(const struct server_options *options, struct server **ret_server);

/* Answers requests from now on. `bus` is that of the server's own namespace; it is the caller's and
 * outlives the server. */
hf_status server_start(struct server *server, hf_bus *bus);

/* Takes no new connections and no new requests, ends streams and waits for events. Requests that
 * are under way go on. */
void server_quiesce(struct server *server);
/* Waits up to wait_ms for their end, after server_quiesce. False: some have not ended; the server
 * cannot be closed then. */
bool server_drain(struct server *server, int64_t wait_ms);
/* Answers what is under way, and closes. NULL is allowed. */
void server_close(struct server *server);

#endif
