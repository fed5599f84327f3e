/*
 * sample.h - a namespace at one time: what the library says of it, and what follows from that and
 * from the sample before.
 *
 * Rates are how far a subscription has come since the sample before, in positions, times the part
 * of the newest minute's events that are for it. So they begin with the second sample, and of a
 * subscription that passes over older events there is none, unless all events are for it.
 */
#ifndef HF_SERVER_LIVE_SAMPLE_H
#define HF_SERVER_LIVE_SAMPLE_H

#include "server/live/flow.h"
#include "server/live/history.h"

#include <holdfast.h>

#define DEAD_GROUPS_MAX 64 /* of dead letters with one error, for the list of trouble */
#define DEAD_ERROR_BYTES 512
#define STALE_NODES_MAX 8
#define TROUBLE_MAX 50 /* that is shown; all of it is counted */

/* What a subscription does, and if it does not move, why not. The order is that of attention. */
enum live_state {
    LIVE_NO_WORKER,  /* ordered: no process has it; shared: no worker claims */
    LIVE_OWNER_DEAD, /* its owner is dead, and no other process has taken over */
    LIVE_BREAKER,    /* its circuit breaker is open */
    LIVE_BLOCKED,    /* all that is left waits behind a dead letter */
    LIVE_RETRYING,   /* all that is left waits for its next attempt */
    LIVE_HELD_BACK,  /* another reason, which the library's sentence says */
    LIVE_CATCHING_UP,
    LIVE_MOVING,
    LIVE_PAUSED,
    LIVE_UP_TO_DATE,
};

/* "no_worker", "owner_dead", ... */
const char *live_state_name(enum live_state state);
/* From what the library says. */
enum live_state live_state_of(const hf_subscription_info *info, int64_t now_us);

struct live_subscription {
    hf_subscription_info info; /* its texts are in `texts` */
    char *texts;
    enum live_state state;
    double rate;             /* events a second; negative: not known */
    bool moves_unseen;       /* it moves, and the rate is not known */
    double nearer;           /* positions a second that it comes nearer to the end; 0: none */
    int64_t still_since_us;  /* since when it was seen not to move; -1: it moves */
    uint64_t types;          /* bits: those of the flow that are for it */
    struct buckets *history; /* NULL: there is none, because there are too many */
};

/* Open dead letters of one subscription with one error, among the newest. Those that died without
 * an error have one reason. */
struct dead_group {
    char subscription[HF_NAME_BYTES_MAX + 1];
    char error[DEAD_ERROR_BYTES]; /* cut; of those without one: the reason */
    bool is_reason;
    int64_t count;
    int64_t first_us;
    int64_t last_us;
    int32_t attempts_min;
    int32_t attempts_max;
    int64_t dead_id; /* of the newest */
};

struct dead_groups {
    struct dead_group groups[DEAD_GROUPS_MAX];
    size_t count;
    int64_t newest;    /* the number of the newest dead letter; 0: there is none */
    int64_t died;      /* dead letters that have come since the sample before */
    int64_t looked_at; /* so many of the newest, if there are more; -1: all */
};

struct stale_node {
    char id[HF_NODE_ID_BYTES_MAX + 1];
    int64_t seen_us;
};

struct live_nodes {
    int64_t live;
    int64_t stale;
    struct stale_node stale_nodes[STALE_NODES_MAX];
};

enum trouble_kind {
    TROUBLE_STILL,     /* a subscription does not move */
    TROUBLE_DEAD,      /* dead letters with one error */
    TROUBLE_BLOCKED,   /* keys that wait behind dead letters, none of which is among the newest */
    TROUBLE_HELD_BACK, /* a transaction that has published and not ended, or the like */
    TROUBLE_BEHIND,    /* it moves, and is far behind */
    TROUBLE_LATER,     /* events for later are overdue */
    TROUBLE_SCHEDULES, /* schedules are overdue */
    TROUBLE_NODE,      /* a process shows no sign of life and has not ended */
};

struct trouble {
    enum trouble_kind kind;
    bool bad;                                     /* it needs a person now */
    const struct live_subscription *subscription; /* of several: one of them; NULL: of none */
    const struct dead_group *dead;                /* TROUBLE_DEAD */
    const struct stale_node *node;                /* TROUBLE_NODE */
    int64_t count;                                /* subscriptions that are in the same state, dead
                                                     letters, events for later, schedules */
    int64_t since_us;
};

struct sample {
    int64_t at_us;
    hf_stats stats;
    double published; /* events a second; negative: not known */
    double delivered;
    bool delivered_more; /* there are subscriptions that move at a rate that is not known */
    double died;
    const struct live_subscription *oldest;  /* whose oldest event waits longest, of those that are
                                               not paused; NULL: nothing waits */
    struct live_subscription *subscriptions; /* by name */
    size_t count;
    int64_t paused;
    struct dead_groups dead;
    struct live_nodes nodes;
    struct trouble troubles[TROUBLE_MAX];
    size_t trouble_count; /* of them */
    size_t trouble_total; /* also those that are not among them */
    size_t bad_total;
};

/* What the library says, and the dead letters and nodes of `before` (NULL: none) if it need not be
 * asked again. */
hf_status sample_take(hf_bus *bus, const struct sample *before, int64_t now_us,
                      struct sample **ret_sample);

/* What follows from the sample before, whose histories it takes; NULL: there is none. */
void sample_follow(struct sample *sample, struct sample *before, struct flow *flow);

/* The list of trouble (trouble.c). */
void sample_find_trouble(struct sample *sample);

/* NULL is allowed. */
void sample_free(struct sample *sample);

#endif
