/*
 * progress.h - the part of the store's contract (store.h) about the progress of subscriptions.
 *
 * Every number is arithmetic or an index range, never a scan of the log. A caller that needs
 * several subscriptions names all of them in one call: then it is one query to a server.
 */
#ifndef HF_STORE_PROGRESS_H
#define HF_STORE_PROGRESS_H

#include <holdfast.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Over all partitions: checkpoint is the lowest. */
struct progress {
    int64_t checkpoint;              /* shared: below the cursor, every lease and every retry */
    int64_t checkpoint_at_us;        /* -1: never stored */
    uint8_t checkpoint_event_id[16]; /* the last event at or below it that was settled */
    bool has_event_id;               /* whether that event is known: not of several partitions */
    int64_t cursor;                  /* shared; -1 for ordered */
    int64_t head;
    int64_t in_flight; /* shared: leased and unsettled */
    int64_t retrying;
    int64_t next_attempt_us; /* when the first of those is due; -1 if there is none */
    int64_t held;
    int64_t blocked;
    int64_t dead;
    int64_t oldest_waiting_us; /* entered_at of the first unsettled event; -1 if none */
    double rate;               /* as in hf_subscription_info */
    int32_t unowned;           /* ordered: partitions whose owner is dead, or that have none */
    bool owned;                /* a partition has an owner; that of the first that has */
    bool owner_alive;
    char owner_name[HF_PRODUCER_BYTES_MAX + 1];
};

typedef int (*progress_fn)(int64_t subscription_id, const struct progress *progress, void *ctx);

struct store;

/* How far these subscriptions are, in the order of the ids; what is none (any more) is left out.
 * Each one's numbers are of one moment. A callback that answers not 0 ends it; it may use the
 * store. */
hf_status store_progress_each(struct store *store, const int64_t *ids, size_t count, int64_t now_us,
                              progress_fn found, void *ctx);
/* How far one is. HF_NOTFOUND. */
hf_status store_progress(struct store *store, int64_t subscription_id, int64_t now_us,
                         struct progress *ret_progress);

#endif
