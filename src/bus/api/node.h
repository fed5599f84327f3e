/*
 * node.h - what this bus says about itself as a node.
 */
#ifndef HF_BUS_API_NODE_H
#define HF_BUS_API_NODE_H

#include "bus/bus.h"

/* The facts, and what some of their texts are kept in; the others are those of the options. */
struct node_self {
    struct node_facts facts;
    char id[HF_NODE_ID_BYTES_MAX + 1];
    char host[STORE_HOST_BYTES_MAX + 1];
};

/* Are the options about the node as they may be? HF_INVALID. */
hf_status node_check(const hf_options *options);
/* What checked options and this process say. Do not move `ret_self` while its facts are in use. */
void node_describe(const hf_options *options, struct node_self *ret_self);
/* The name, or HOST:PID; the caller frees it. NULL: no memory. */
char *node_make_name(const char *given);

#endif
