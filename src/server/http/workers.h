/*
 * workers.h - the threads that run routes.
 *
 * The library's calls wait for the database, so routes do not run on the thread that reads and
 * writes sockets. Publishers that wait at the same time share one commit: the number of threads is
 * how many requests can share one.
 */
#ifndef HF_SERVER_HTTP_WORKERS_H
#define HF_SERVER_HTTP_WORKERS_H

#include "server/http/exchange.h"

struct workers;

/* `run` is called with each exchange, on any of the threads. NULL after a failure (err). */
struct workers *workers_start(int threads, size_t queue_max, void (*run)(struct exchange *));

/* Queues an exchange. False: the queue is full, or the workers are being stopped. */
bool workers_give(struct workers *workers, struct exchange *exchange);

/* Takes nothing more, runs what is queued, and waits up to wait_ms for its end. True: nothing runs.
 * NULL is allowed. */
bool workers_drain(struct workers *workers, int64_t wait_ms);
/* The same without a limit; then ends the threads and frees. NULL is allowed. */
void workers_stop(struct workers *workers);

#endif
