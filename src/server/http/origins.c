/*
 * origins.c - see origins.h.
 *
 * A table of chains. An address is in it while it has connections.
 */
#include "server/http/origins.h"

#include "base/banned.h"
#include "base/mem.h"

#include <assert.h>

#define NETWORK_BYTES 8 /* of an IPv6 address that count */

struct origin {
    struct origin *next;
    struct peer network;
    size_t count;
};

/* IPv4 addresses are in the last four bytes and the others of them are 0. */
static struct peer network_of(const struct peer *peer)
{
    static const unsigned char zeros[12];
    struct peer network = *peer;

    if (memcmp(peer->bytes, zeros, sizeof zeros) != 0) {
        memset(network.bytes + NETWORK_BYTES, 0, sizeof network.bytes - NETWORK_BYTES);
    }
    return network;
}

/* FNV-1a: who can choose among addresses can make a chain longer, up to its own connections. */
static size_t bucket_of(const struct peer *network)
{
    uint32_t hash = 2166136261U;

    for (size_t i = 0; i < sizeof network->bytes; i++) {
        hash = (hash ^ network->bytes[i]) * 16777619U;
    }
    return hash % ORIGINS_BUCKETS;
}

static struct origin *find(const struct origins *origins, const struct peer *network)
{
    struct origin *origin = origins->buckets[bucket_of(network)];

    while (origin && memcmp(&origin->network, network, sizeof *network) != 0) {
        origin = origin->next;
    }
    return origin;
}

size_t origins_count(const struct origins *origins, const struct peer *peer)
{
    struct peer network = network_of(peer);
    const struct origin *origin = find(origins, &network);

    return origin ? origin->count : 0;
}

bool origins_add(struct origins *origins, const struct peer *peer)
{
    struct peer network = network_of(peer);
    struct origin *origin = find(origins, &network);

    if (!origin) {
        struct origin **bucket = &origins->buckets[bucket_of(&network)];
        origin = mem_calloc(1, sizeof *origin);
        if (!origin) {
            return false;
        }
        origin->network = network;
        origin->next = *bucket;
        *bucket = origin;
    }
    origin->count++;
    return true;
}

void origins_remove(struct origins *origins, const struct peer *peer)
{
    struct peer network = network_of(peer);
    struct origin *origin = find(origins, &network);

    assert(origin);
    if (--origin->count == 0) {
        struct origin **at = &origins->buckets[bucket_of(&network)];
        while (*at != origin) {
            at = &(*at)->next;
        }
        *at = origin->next;
        mem_free(origin);
    }
}
