/*
 * node.h - the part of the store's contract (store.h) that is about nodes: what an opened store
 * says about itself, and how it is seen by others.
 *
 * A node is an opened store that has a namespace. Opening registers it and closing says that it
 * stopped. Between the two store_alive is its heartbeat, which no other verb writes.
 */
#ifndef HF_STORE_NODE_H
#define HF_STORE_NODE_H

#include <holdfast.h>
#include <stdbool.h>

#include "base/text/text.h"

#define STORE_HOST_BYTES_MAX 64
#define STORE_VERSION_BYTES_MAX 31
#define STORE_NODE_STALE_BEATS 3             /* so many heartbeats are missing: it is stale */
#define STORE_NODE_KEEP_MS INT64_C(86400000) /* how long one that is gone is listed */

/* What a store says about itself when it is opened. Within the limits of hf_options. */
struct node_facts {
    struct text id;            /* 1 .. HF_NODE_ID_BYTES_MAX bytes */
    struct text description;   /* absent: none */
    struct text metadata_json; /* an object; absent: none */
    struct text host;
    int64_t pid;
    int64_t heartbeat_ms; /* how often store_alive will be called, at least */
    bool given;           /* the id was chosen, so it may come back: opening answers HF_CONFLICT
                             while another node of the namespace has it and is live, and says who */
};

/* A node as it is seen. */
struct node_row {
    struct text id;
    struct text name;
    struct text description;
    struct text metadata_json;
    struct text host; /* absent: not known, as are: */
    struct text version;
    int64_t pid; /* -1: not known */
    int64_t heartbeat_ms;
    int64_t started_at_us;
    int64_t seen_at_us;
    int64_t stopped_at_us; /* -1: it did not say so */
    hf_node_state state;
    bool self;
};

typedef int (*node_row_fn)(const struct node_row *row, void *ctx);

struct store;

/*
 * The nodes of the store's namespace by id, or those of this id (absent: all), as of one moment, or
 * about one. Live and stale: judged by now and the node's heartbeat, and by whether its process
 * exists, where that can be known. Gone: of each id that no living process has, the last one, for
 * STORE_NODE_KEEP_MS and at most HF_NODES_GONE_MAX. One that closed within its first heartbeat and
 * whose id was not given is not kept. A callback that answers not 0 ends it.
 */
hf_status store_node_list(struct store *store, struct text id, node_row_fn found, void *ctx);

#endif
