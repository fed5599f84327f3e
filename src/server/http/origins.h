/*
 * origins.h - how many connections each address has.
 *
 * A host of IPv6 has a network of its own to choose addresses from, so those of one network (/64)
 * count as one.
 */
#ifndef HF_SERVER_HTTP_ORIGINS_H
#define HF_SERVER_HTTP_ORIGINS_H

#include "server/http/peer.h"

#define ORIGINS_BUCKETS 1024 /* a power of two */

struct origin;

/* All zero: no connections. Not safe for threads: the caller has a lock. */
struct origins {
    struct origin *buckets[ORIGINS_BUCKETS];
};

size_t origins_count(const struct origins *origins, const struct peer *peer);
/* One more; false: no memory, and it is not counted. */
bool origins_add(struct origins *origins, const struct peer *peer);
/* One less of an address that has some (asserted). */
void origins_remove(struct origins *origins, const struct peer *peer);

#endif
