/*
 * partition.h - the row of a partition, and the check that it is ours.
 */
#ifndef HF_STORE_SQLITE_WRITE_PARTITION_H
#define HF_STORE_SQLITE_WRITE_PARTITION_H

#include "store/sqlite/write/span.h"
#include "store/store.h"

struct sqlite_engine;
struct conn;

/* A partition with what its subscription says. Of a shared one partition 0 holds the cursor. */
struct partition {
    hf_mode mode;
    int64_t generation;
    bool paused;
    int32_t partitions;
    bool exists; /* there is such a partition; else the rest is 0 */
    int64_t epoch;
    int64_t checkpoint;    /* shared: the cursor */
    struct span span;      /* how fast that moves */
    int64_t doubt_through; /* of these events it is not known how often they were handed out */
    bool turn;             /* shared: the last claim was for a retry that is handed out alone */
    bool owned;
    uint8_t owner[STORE_TOKEN_BYTES];
    char owner_name[HF_PRODUCER_BYTES_MAX + 1];
};

/* HF_NOTFOUND: no such subscription in this namespace. */
hf_status partition_load(struct sqlite_engine *engine, struct conn *conn, int64_t subscription_id,
                         int32_t partition, struct partition *ret_partition);

/* HF_STALE unless this store is the owner with this epoch. */
hf_status partition_check(struct sqlite_engine *engine, const struct partition *partition,
                          int32_t number, int64_t epoch);

/* HF_CONFLICT if a generation is given (not 0) and it is not the subscription's. */
hf_status partition_check_generation(const struct partition *partition, int64_t generation);

/* Moves the checkpoint to that of the mark; `stored` is the row as it is. */
hf_status partition_move(struct conn *conn, int64_t subscription_id, const struct mark *mark,
                         const struct partition *stored, int64_t now_us);
/* The same for the cursor of a shared subscription, with its turn. `claimed`: events were handed
 * out at now_us. */
hf_status partition_move_cursor(struct conn *conn, int64_t subscription_id, int64_t cursor,
                                bool turn, bool claimed, const struct partition *stored,
                                int64_t now_us);

#endif
