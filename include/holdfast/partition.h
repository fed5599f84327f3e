/*
 * holdfast/partition.h - the partitions of an ordered subscription: who has them, and who shall.
 */
#ifndef HOLDFAST_PARTITION_H
#define HOLDFAST_PARTITION_H

#include <holdfast/subscription.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Fixes which partitions of a subscription this handle works for: exactly these, and no others
 * even if no process works for them. Without it processes share all partitions out by themselves.
 * Processes that share leave what others are assigned to them, and give it back if they have it. Of
 * two that are assigned the same partition the second stands by and takes over when the first is
 * gone.
 *
 * `total` says how many partitions the numbers are of; -1: as many as the subscription has. If it
 * has another number later, nothing is worked for, and the log says so, until hf_assign is called
 * again. Call it before hf_start (or hf_subscribe), else the process shares until then. It is of
 * this handle and is not stored. partitions NULL with count 0: it shares (again).
 *
 * HF_NOTFOUND: there is no such subscription. HF_INVALID: a partition is not in 0..total-1.
 * HF_CONFLICT: the subscription has another number of partitions, and does not change to `total`.
 * HF_MISUSE: it is shared, or its instance_mode is single.
 */
HF_API hf_status hf_assign(hf_bus *bus, const char *subscription, const int32_t *partitions,
                           size_t count, int32_t total);

typedef enum hf_partition_state {
    HF_PARTITION_UNOWNED = 0, /* it has no owner, and no process that runs may take it */
    HF_PARTITION_OWNED = 1,
    HF_PARTITION_MOVING = 2 /* it is about to be taken, or to be given to whom it is assigned */
} hf_partition_state;

/* "unowned", "owned", "moving". */
HF_API const char *hf_partition_state_name(hf_partition_state state);

typedef struct hf_partition_info {
    int32_t partition; /* from 0 */
    hf_partition_state state;
    const char *owner;        /* node that has it, "HOST:PID" unless it has a name; NULL: none */
    int32_t owner_alive;      /* 1, 0 */
    int32_t assigned;         /* 1: a process was assigned it, else it is shared out */
    int32_t standby;          /* other processes that may take it if its owner goes */
    int64_t epoch;            /* rises with every change of owner */
    int64_t checkpoint;       /* everything of it up to here is settled */
    int64_t checkpoint_at_us; /* -1: never stored */
    int64_t lag;              /* positions from there to the end of the log */
    int64_t retrying;
    int64_t held;
    int64_t blocked; /* keys parked by on_poison=block_key */
} hf_partition_info;

typedef int (*hf_partition_fn)(const hf_partition_info *info, void *ctx);

/* Its partitions by number; none of a shared one. HF_NOTFOUND. */
HF_API hf_status hf_partition_list(hf_bus *bus, const char *subscription, hf_partition_fn found,
                                   void *ctx);

/* A key that waits (on_poison=block_key) until its dead letter is retried or resolved. */
typedef struct hf_blocked_key {
    const char *tenant; /* NULL: none */
    const char *key;    /* NULL: none */
    int32_t partition;
    int64_t position;     /* of the event that died */
    const char *event_id; /* of the event that died; NULL: the log has deleted it */
    const char *type;
    int64_t dead_id; /* retry or resolve this one; -1: not known */
    int64_t since_us;
    int64_t held; /* events that wait behind it */
} hf_blocked_key;

typedef int (*hf_blocked_fn)(const hf_blocked_key *blocked, void *ctx);

/* By position: up to `limit` (at most HF_BLOCKED_LIST_MAX) after position `after`, which is 0 at
 * first. HF_NOTFOUND. */
HF_API hf_status hf_blocked_list(hf_bus *bus, const char *subscription, int64_t after, size_t limit,
                                 hf_blocked_fn found, void *ctx);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_PARTITION_H */
