/*
 * progress.h - the part of the store's contract (store.h) about the progress of subscriptions, and
 * where one event is in one of them.
 *
 * Every number is arithmetic or an index range, never a scan of the log; what is pending is counted
 * in a bounded part of it. A caller that needs
 * several subscriptions names all of them in one call: then it is one query to a server.
 */
#ifndef HF_STORE_PROGRESS_H
#define HF_STORE_PROGRESS_H

#include <holdfast.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/text/text.h"
#include "store/cause.h"
#include "store/event.h"

/* Over all partitions: checkpoint is the lowest. */
struct progress {
    int64_t checkpoint;              /* shared: below the cursor, every lease and every retry */
    int64_t checkpoint_at_us;        /* -1: never stored */
    uint8_t checkpoint_event_id[16]; /* the last event at or below it that was settled */
    bool has_event_id;               /* whether that event is known: not of several partitions */
    int64_t cursor;                  /* shared; -1 for ordered */
    int64_t head;
    int64_t in_flight;      /* shared: in leases that have not ended; ordered: handlers run */
    int64_t lease_ended;    /* shared: in leases that have ended, or that no process holds */
    int64_t lease_ended_us; /* since when the first of those is free; -1 if there is none */
    int64_t claimed_at_us;  /* shared: when events were last handed out; -1: never */
    int64_t retrying;
    int64_t next_attempt_us; /* when the first of those is due; -1 if there is none */
    int64_t held;
    int64_t blocked;
    int64_t dead;
    int64_t oldest_open_us; /* entered_at of the first unsettled event that has a row of its own
                               (a retry that is not given up, a lease); -1 if none */
    double rate;            /* as in hf_subscription_info */
    int32_t unowned;        /* ordered: partitions whose owner is dead, or that have none */
    bool owned;             /* a partition has an owner; that of the first that has */
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

/* Rows of the log that are always looked at for pending events, if they are there: so a
 * subscription that every event matches is counted exactly up to HF_PENDING_MAX. */
#define STORE_PENDING_ROWS_MIN 10001
#define STORE_PENDING_ROWS_MAX 100000 /* rows that are looked at in STORE_PENDING_MS at most */
#define STORE_PENDING_MS 2
#define STORE_PENDING_BRIEF_ROWS 100 /* of a brief look */

struct pending_query {
    int64_t subscription_id;
    struct filter filter; /* of the stored definition; an engine may read that by itself. Its
                             `owned` is not looked at */
    int64_t max;          /* counts up to so many */
    bool brief;           /* look at STORE_PENDING_BRIEF_ROWS of the log at most, or at none, and
                             say `more`: for callers that ask about thousands */
};

/* Events of the log that are for a subscription and that no process has begun with: behind the
 * checkpoint of their partition (shared: the cursor), not settled ahead, and without a row in
 * retries. Those of ended leases are not among them (struct progress). */
struct pending {
    int64_t count;
    bool more;           /* at least so many: it stopped at `max`, or at a bound of the look */
    int64_t first_at_us; /* entered_at of the oldest that was counted; -1 if there is none */
};

/* HF_NOTFOUND. */
hf_status store_pending(struct store *store, const struct pending_query *query,
                        struct pending *ret_pending);

/* A lease that a claim holds; of one that has ended, until the next claim takes what is left. */
struct lease_row {
    const uint8_t *token;  /* STORE_TOKEN_BYTES */
    struct text node;      /* who claimed it; absent: not known */
    int64_t claimed_at_us; /* -1: not known */
    int64_t expires_at_us;
    bool kept;
    bool ended;
    const int64_t *positions; /* ascending */
    size_t count;
};

typedef int (*lease_row_fn)(const struct lease_row *row, void *ctx);

/* The leases of a shared subscription, by the time at which they end. HF_NOTFOUND. */
hf_status store_lease_list(struct store *store, int64_t subscription_id, int64_t now_us,
                           lease_row_fn found, void *ctx);

/* Who has an event that is leased. */
struct lease_holder {
    char node[HF_PRODUCER_BYTES_MAX + 1]; /* "": not known */
    int64_t since_us;                     /* -1: not known */
    bool ended; /* it had it, in a lease that has ended: the event is not leased any more, but free
                   for the next claim */
};

/* Where one event is in one subscription. */
struct delivery_facts {
    int64_t start;
    int64_t checkpoint; /* of the event's partition; shared: -1 */
    int64_t cursor;     /* shared; ordered: -1 */
    bool settled;       /* has a row in `settled` */
    bool leased;        /* in a lease that has not ended (shared), or noted as running now */
    struct lease_holder holder;
    bool waiting; /* has a retries row of that kind */
    bool held;    /* has one of that kind, or one with next_attempt_us 0 */
    bool blocked;
    int32_t attempts;
    int32_t deliveries; /* how often it was handed out; -1: not known */
    enum cause cause;   /* why the last attempt failed */
    int64_t next_attempt_us;
    int64_t dead_id;           /* -1 */
    int64_t cancel_asked_us;   /* since when there is a request to cancel it (cancel.h); -1 */
    int64_t cancelled_at_us;   /* -1: it is not cancelled */
    struct text cancelled_by;  /* may be absent */
    struct text cancel_reason; /* may be absent */
};

/* Which event, and when it is asked. */
struct delivery_query {
    const uint8_t *id; /* 16 bytes */
    int64_t position;
    int64_t hash;
    int64_t now_us;
};

/* `story` (of retry, dead letter or outcome) and the texts of the facts last until it returns. */
typedef int (*delivery_facts_fn)(int64_t subscription_id, const struct delivery_facts *facts,
                                 struct text story, void *ctx);

/* Where an event is in these subscriptions, in any order; what is none (any more) is left out. The
 * facts of one are of one moment. A callback that answers not 0 ends it; it may not use the
 * store. */
hf_status store_delivery_facts_each(struct store *store, const struct delivery_query *query,
                                    const int64_t *ids, size_t count, delivery_facts_fn found,
                                    void *ctx);
/* Where it is in one; all texts are appended to the arena. HF_NOTFOUND. */
hf_status store_delivery_facts(struct store *store, int64_t subscription_id,
                               const struct delivery_query *query, struct arena *arena,
                               struct delivery_facts *ret_facts, struct text *ret_attempts_json);

#endif
