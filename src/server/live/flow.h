/*
 * flow.h - which types of events enter a log, and how many of each a second.
 *
 * The newest events are read, at most FLOW_READ_MAX at a time; if more have come than that, each
 * that was read stands for several. Counts are kept for FLOW_SECONDS, of FLOW_TYPES types; a
 * further type takes the place of one that has not come meanwhile, or is counted with the others.
 */
#ifndef HF_SERVER_LIVE_FLOW_H
#define HF_SERVER_LIVE_FLOW_H

#include <holdfast.h>
#include <stdbool.h>

#define FLOW_TYPES 32 /* at most 64: a set of them is the bits of a number */
#define FLOW_SECONDS 60
#define FLOW_READ_MAX 300
#define FLOW_READ_BYTES_MAX 4194304 /* of payloads, in one reading */

struct flow_type {
    char name[HF_TYPE_BYTES_MAX + 1]; /* "": free */
    float counts[FLOW_SECONDS];       /* by second, modulo */
    double total;                     /* of them */
};

struct flow {
    int64_t cursor;   /* read up to here; -1: nothing yet */
    int64_t newest;   /* the second that counts end with */
    int64_t begun;    /* the second that they begin with; -1: not known yet */
    uint64_t renamed; /* bits: entries that have another type since the caller cleared this */
    struct flow_type types[FLOW_TYPES];
    struct flow_type others;
};

void flow_init(struct flow *flow);

/* Reads what has come up to position `head`. */
hf_status flow_read(struct flow *flow, hf_bus *bus, int64_t head, int64_t now_us);

/* Events a second of a type (of the others: FLOW_TYPES); of all: the mean of the last FLOW_SECONDS,
 * or of those of which the events were read. */
double flow_rate(const struct flow *flow, size_t type);
double flow_total(const struct flow *flow);

/* Which types the patterns match, as bits: those of `known` are taken from `before`. */
uint64_t flow_match(const struct flow *flow, const char *const *patterns, size_t count,
                    uint64_t known, uint64_t before);
/* Which part of the events are of these types; 1 if none has come. */
double flow_share(const struct flow *flow, uint64_t types);

#endif
