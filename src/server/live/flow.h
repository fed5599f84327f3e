/*
 * flow.h - which types of events enter a log, and how many of each a second.
 *
 * The newest events are read, at most FLOW_READ_MAX at a time; if more have come than that, each
 * that was read stands for several. Counts are kept for FLOW_SECONDS, of FLOW_TYPES types; a
 * further type takes the place of one that has not come meanwhile, or is counted with the others.
 * If more have come than are read after the log was not read for FLOW_GAP_SECONDS, it is not known
 * when, so counting begins anew with the newest.
 *
 * Counts only say which part of the events is of a type. How many there were in the last minute is
 * known exactly (hf_stats).
 */
#ifndef HF_SERVER_LIVE_FLOW_H
#define HF_SERVER_LIVE_FLOW_H

#include <holdfast.h>
#include <stdbool.h>

#define FLOW_TYPES 32 /* at most 64: a set of them is the bits of a number */
#define FLOW_SECONDS 60
#define FLOW_GAP_SECONDS 10
#define FLOW_READ_MAX 300
#define FLOW_READ_BYTES_MAX 4194304 /* of payloads, in one reading */

struct flow_type {
    char name[HF_TYPE_BYTES_MAX + 1]; /* "": free */
    float counts[FLOW_SECONDS];       /* by second, modulo */
    double total;                     /* of them */
};

struct flow {
    int64_t cursor; /* read up to here; -1: nothing yet */
    int64_t newest; /* the second that counts end with */
    double rate; /* events a second that entered the log in the last minute; negative: not known */
    int64_t read_us;               /* when the log was read last */
    int64_t cursors[FLOW_SECONDS]; /* where each second began, modulo */
    uint64_t renamed; /* bits: entries that have another type since the caller cleared this */
    struct flow_type types[FLOW_TYPES];
    struct flow_type others;
};

void flow_init(struct flow *flow);

/* Reads what has come up to the head. */
hf_status flow_read(struct flow *flow, hf_bus *bus, const hf_stats *stats, int64_t now_us);

/* Events a second of a type (of the others: FLOW_TYPES) in the last minute; negative: not known. */
double flow_rate(const struct flow *flow, size_t type);

/* Which types the patterns match, as bits: those of `known` are taken from `before`. */
uint64_t flow_match(const struct flow *flow, const char *const *patterns, size_t count,
                    uint64_t known, uint64_t before);
/* Which part of the events behind this position are of these types; negative: not known, because
 * counts begin later, or nothing has come. */
double flow_share(const struct flow *flow, uint64_t types, int64_t position);

#endif
