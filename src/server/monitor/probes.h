/*
 * probes.h - /healthz and /readyz: is the process there, and may requests be sent to it?
 *
 * They are for load balancers and supervisors, which have no token, so they say nothing but yes or
 * no, and take every name of a host.
 *
 *   /healthz   200 if the process answers at all. The thread that reads sockets answers it, so a
 *              database that is away, for which all workers may wait, makes no supervisor restart
 *              the server.
 *   /readyz    200 if the database takes changes of this program (hf_ping), and the server does
 *              not stop; else 503. Many may ask at the same time: one of them asks the database,
 *              and its answer is good for all for PROBE_FRESH_MS.
 */
#ifndef HF_SERVER_MONITOR_PROBES_H
#define HF_SERVER_MONITOR_PROBES_H

#include "server/http/exchange.h"

#include <pthread.h>
#include <stdatomic.h>

#define PROBE_FRESH_MS 1000
#define PROBE_WAIT_MS 2000 /* for the database */

/* What is known of the database. Zeroed memory, and then probes_init. */
struct probes {
    atomic_bool draining;  /* the server stops */
    pthread_mutex_t mutex; /* protects what follows */
    pthread_cond_t answered;
    bool asking;         /* a thread asks the database */
    int64_t answered_us; /* monotonic; when it was last answered; 0: never */
    bool ready;          /* the answer */
};

hf_status probes_init(struct probes *probes);
void probes_release(struct probes *probes);

/* Answers /healthz. False: it is another request. */
bool probes_answer_health(struct exchange *exchange);
/* Whether the database takes changes, and the server does not stop. Waits for PROBE_WAIT_MS. */
bool probes_ready(struct probes *probes, hf_bus *bus);
/* Answers /readyz, asking this bus. False: it is another request. */
bool probes_answer_ready(struct probes *probes, hf_bus *bus, struct exchange *exchange);

#endif
