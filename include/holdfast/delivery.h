/*
 * holdfast/delivery.h - deliveries that are not over: which wait for their next attempt, and why;
 * which events of an ordered subscription are held behind them; which run, and where.
 */
#ifndef HOLDFAST_DELIVERY_H
#define HOLDFAST_DELIVERY_H

#include <holdfast/inspect.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A delivery that failed and will be tried again, or one that is held behind such a delivery. */
typedef struct hf_retry_info {
    int64_t position;
    const char *event_id; /* NULL: the event is nowhere any more */
    const char *type;     /* NULL: as event_id */
    const char *tenant;   /* NULL: none */
    const char *key;      /* NULL: none */
    int32_t partition;    /* of a shared subscription: 0 */
    hf_state state;       /* HF_STATE_RETRYING; HF_STATE_HELD: an earlier event of its key comes
                             first; HF_STATE_PROCESSING: its next attempt runs; HF_STATE_DEAD: its
                             dead letter blocks the key, and comes up here only as one of those
                             behind another */
    int32_t attempts;     /* recorded attempts that failed */
    const char *cause;    /* why the last one failed, as in hf_dead_letter; NULL if none did */
    const char *error;    /* its text; NULL: none */
    int64_t failed_at_us; /* when it was recorded; -1: none was */
    int64_t next_attempt_at_us; /* -1 unless retrying. In the past: it is due, and the next worker
                                   takes it */
    int64_t behind;    /* ordered: the first event of its key that is not settled; -1: it is that */
    int64_t held;      /* ordered: events of its key that wait behind it */
    int32_t held_more; /* 1: at least so many: they are counted up to HF_RETRY_HELD_MAX */
    const char *cursor; /* what hf_retry_filter takes as `after` for the next page */
} hf_retry_info;

/* Which of them. NULL and -1: no condition. */
typedef struct hf_retry_filter {
    size_t size;
    int64_t behind;    /* ordered: those that are held behind the event at this position, by
                          position */
    const char *after; /* keyset paging: the cursor of the last one of the page before */
    int32_t limit;     /* 100; up to HF_RETRY_LIST_MAX */
} hf_retry_filter;

#define HF_RETRY_FILTER_INIT                                                                       \
    {                                                                                              \
        sizeof(hf_retry_filter), -1, NULL, -1                                                      \
    }

typedef int (*hf_retry_fn)(const hf_retry_info *info, void *ctx);

/*
 * The events of a subscription that are retrying (hf_subscription_info counts them), those that are
 * due first first; filter may be NULL. Those that are held behind one of them are counted with it,
 * and listed with `behind`. A page is of one moment, and takes as long for a million of them as for
 * ten. HF_NOTFOUND: there is no such subscription. HF_INVALID: `after` is no cursor.
 */
HF_API hf_status hf_retry_list(hf_bus *bus, const char *subscription, const hf_retry_filter *filter,
                               hf_retry_fn found, void *ctx);

/* An event of an ordered subscription whose handler runs. */
typedef struct hf_running_info {
    int64_t position;
    const char *event_id; /* NULL: the event is nowhere any more */
    const char *type;     /* NULL: as event_id */
    const char *tenant;   /* NULL: none */
    const char *key;      /* NULL: none */
    int32_t partition;    /* -1: not known */
    const char *node;     /* that has it */
    const char *host;     /* its machine; NULL: not known */
    int64_t pid;          /* its process there; -1: not known */
    int64_t since_us;     /* since when its handler runs; -1: not known */
} hf_running_info;

typedef int (*hf_running_fn)(const hf_running_info *info, void *ctx);

/* The events that are in flight for an ordered subscription, as hf_subscription_info counts them,
 * by position: up to `limit` (at most HF_RUNNING_LIST_MAX) after position `after`, which is 0 at
 * first. None of a shared one, whose leases are listed (hf_lease_list). HF_NOTFOUND. */
HF_API hf_status hf_running_list(hf_bus *bus, const char *subscription, int64_t after, size_t limit,
                                 hf_running_fn found, void *ctx);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_DELIVERY_H */
