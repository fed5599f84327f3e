/*
 * deliveries.h - more of the store's contract (store.h), for people who look: what waits for its
 * next attempt, what is held behind it, and what runs.
 *
 * A page costs what is on it, however many rows there are. Each answer is of one moment; only
 * whether a process lives, and what its handlers are at, is looked at beside it.
 */
#ifndef HF_STORE_DELIVERIES_H
#define HF_STORE_DELIVERIES_H

#include "store/retry.h"
#include "store/store.h"

/* An event as lists name it. What is nowhere any more has no id and no texts. */
struct event_label {
    bool known;
    uint8_t id[16];
    struct text type;
    struct text tenant; /* may be absent */
    struct text key;    /* may be absent */
};

/* Which rows of retries. */
struct retry_query {
    int64_t subscription_id;
    int64_t behind;    /* -1: those that wait for their next attempt, by when they are due, then by
                          position. Else all of its lane that are behind this position, by position:
                          none if it has no row, or the subscription is shared */
    int64_t after_due; /* the next page: `due` of the last row before it; not looked at if `behind`
                          is given */
    int64_t after;     /* the next page: the position of that row; -1: this is the first page */
    int32_t max;
    int64_t held_max; /* counts held ones up to so many, and one more */
};

struct waiting_row {
    int64_t position;
    int32_t partition;
    enum retry_kind kind;
    int32_t attempts;
    enum cause cause;
    struct text story;       /* may be absent */
    int64_t failed_at_us;    /* -1: no attempt of it was recorded */
    int64_t due;             /* next_attempt_us as it is stored, which may be by another clock */
    int64_t next_attempt_us; /* 0: when all that waits before it in its lane is over */
    int64_t first;           /* ordered: the first position of its lane that has a row; shared: its
                                own */
    int64_t held;            /* ordered: rows behind it in its lane */
    struct event_label event;
};

typedef int (*waiting_row_fn)(const struct waiting_row *row, void *ctx);

/* A callback that answers not 0 ends it. HF_NOTFOUND. */
hf_status store_retry_list(struct store *store, const struct retry_query *query,
                           waiting_row_fn found, void *ctx);

/* An event whose handler runs for an ordered subscription. */
struct handler_row {
    int64_t position;
    int32_t partition; /* -1: not known, because the event is nowhere any more */
    int64_t since_us;  /* -1: not known */
    struct text node;
    struct text host; /* may be absent */
    int64_t pid;      /* -1: not known */
    struct event_label event;
};

typedef int (*handler_row_fn)(const struct handler_row *row, void *ctx);

/* By position: at most `max` after `after`. These are what progress counts as in flight. A callback
 * that answers not 0 ends it. None of a shared subscription. HF_NOTFOUND. */
hf_status store_running_list(struct store *store, int64_t subscription_id, int64_t after,
                             int32_t max, handler_row_fn found, void *ctx);

#endif
