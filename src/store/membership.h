/*
 * membership.h - more of the store's contract (store.h), about what processes share: for people who
 * look, whose each partition is and which keys are blocked, each answer of one moment; and for all
 * who begin deliveries, the rate of a subscription.
 */
#ifndef HF_STORE_MEMBERSHIP_H
#define HF_STORE_MEMBERSHIP_H

#include "store/store.h"

/* A partition of a subscription, and who has it. */
struct partition_row {
    int32_t partition;
    int64_t epoch;
    int64_t checkpoint;
    int64_t checkpoint_at_us; /* -1: never stored */
    bool owned;
    bool owner_alive;
    int32_t member; /* the owner's place among the members that were handed up; -1: it is none */
    struct text owner_name;
    int64_t retrying;
    int64_t held;
    int64_t blocked;
};

/* `assigned`: what the member wants; see struct members_refresh. */
typedef int (*member_row_fn)(struct text assigned, void *ctx);
typedef int (*partition_row_fn)(const struct partition_row *row, void *ctx);

/* As of one moment: the members that live, in the order of their joining, then the partitions by
 * number. A callback that answers not 0 ends it. HF_NOTFOUND. */
hf_status store_partitions(struct store *store, int64_t subscription_id, member_row_fn member,
                           partition_row_fn partition, void *ctx);

/* A key that waits for its dead letter. What the store cannot tell, because it has neither the
 * event nor the dead letter any more, is absent or -1. */
struct blocked_row {
    int64_t position; /* of the event that died */
    int32_t partition;
    int64_t since_us;
    int64_t held; /* events that wait behind it */
    int64_t dead_id;
    bool has_event;
    uint8_t event_id[16];
    struct text type;
    struct text tenant;
    struct text key;
};

typedef int (*blocked_row_fn)(const struct blocked_row *row, void *ctx);

/* By position: at most `max` after `after`. A callback that answers not 0 ends it. HF_NOTFOUND. */
hf_status store_blocked(struct store *store, int64_t subscription_id, int64_t after, int32_t max,
                        blocked_row_fn found, void *ctx);

/*
 * Takes up to `want` of the deliveries that may begin now, if at most `events` may in period_us,
 * whichever processes begin them (base/limiter.h: one bucket for the subscription, by the store's
 * clock). A negative number gives back what was not used. What a process takes and does not use is
 * lost, so it takes little at a time. ret_wait_us: when there is more; 0: all was granted. May be
 * relaxed. HF_NOTFOUND: there is no such subscription.
 */
struct rate_take {
    struct change change;
    int64_t subscription_id;
    int64_t events;
    int64_t period_us;
    int64_t want;
    int64_t ret_granted;
    int64_t ret_wait_us;
};

#endif
