/*
 * holdfast/node.h - the nodes of a namespace: who has it open, and who had it until lately.
 *
 * Every open bus is a node of its namespace, for as long as it is open: hf_open registers it, with
 * what hf_options says about it, and hf_close says that it stopped. In between it shows a heartbeat
 * every heartbeat_ms; publishing and delivering write nothing about nodes. That a process died is
 * seen without waiting for a heartbeat, and what it had in hand goes on elsewhere.
 */
#ifndef HOLDFAST_NODE_H
#define HOLDFAST_NODE_H

#include <holdfast/bus.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hf_node_state {
    HF_NODE_LIVE = 1,  /* it was heard of within three of its heartbeats */
    HF_NODE_STALE = 2, /* it was not, but nothing says that it ended: stopped, hung, or cut off */
    HF_NODE_GONE = 3   /* it stopped, or its process died */
} hf_node_state;

typedef struct hf_node_info {
    const char *node_id;
    const char *name;          /* node_name of hf_options */
    const char *description;   /* NULL: none */
    const char *metadata_json; /* NULL: none */
    const char *host;          /* NULL: not known */
    const char *version;       /* of the library; NULL: not known */
    int64_t pid;               /* on its host; -1: not known */
    hf_node_state state;
    int32_t self; /* 1: it is the bus that asks */
    int64_t heartbeat_ms;
    int64_t started_at_us;
    int64_t seen_at_us;    /* its last heartbeat */
    int64_t stopped_at_us; /* when it said that it stops; -1: it did not say so */
} hf_node_info;

typedef int (*hf_node_fn)(const hf_node_info *info, void *ctx);

/*
 * All nodes of the bus's namespace by id. One that is gone is kept for a day, at most
 * HF_NODES_GONE_MAX of them, unless a node of the same id has come since; one with a generated id
 * that closed within its first heartbeat is not kept at all.
 */
HF_API hf_status hf_node_list(hf_bus *bus, hf_node_fn found, void *ctx);
/* One, or of several that have the id (see node_id of hf_options) each. The id is as it was given
 * or as it is listed. NULL: the bus itself. HF_NOTFOUND. */
HF_API hf_status hf_node_get(hf_bus *bus, const char *node_id, hf_node_fn found, void *ctx);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_NODE_H */
