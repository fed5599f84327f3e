/*
 * hosts.h - how many requests run to a host at a time, in this process.
 *
 * Several subscriptions may post to one host, each with many handlers. A host that is slow would
 * get all of them at once. The count is kept by "name:port" as the URLs have it.
 */
#ifndef HF_SERVER_WEBHOOK_HOSTS_H
#define HF_SERVER_WEBHOOK_HOSTS_H

#include <holdfast.h>
#include <stdbool.h>
#include <stdint.h>

struct host;

/* The entry of a host; made if it is missing. NULL: no memory. host_put gives it back. */
struct host *host_get(const char *name);
void host_put(struct host *host);

/* Waits until fewer than `max` requests run, at most until `until_us` (monotonic) or until
 * `cancelled` says so, and counts one more. False: it did not. */
bool host_enter(struct host *host, int max, int64_t until_us, bool (*cancelled)(void *ctx),
                void *ctx);
void host_leave(struct host *host);

#endif
