/*
 * holdfast/later.h - events that wait for their time, and bringing what is due without a started
 * bus.
 *
 * Every process whose bus is started fires schedules and brings events for later into the log when
 * their time has come. So does every call that looks for work, as far as its role may: hf_claim,
 * hf_wait, and hf_read while it waits. hf_tick is for programs that do neither, such as a job of
 * cron.
 */
#ifndef HOLDFAST_LATER_H
#define HOLDFAST_LATER_H

#include <holdfast/bus.h>
#include <holdfast/event.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What hf_tick did. */
typedef struct hf_tick_info {
    size_t size;            /* in: sizeof(hf_tick_info) */
    int64_t fired;          /* events that schedules published */
    int64_t released;       /* events for later that entered the log */
    int64_t refused;        /* schedules that are due and could not be read here, because the
                               machine does not have their time zone; the log names the first */
    int64_t next_due_at_us; /* when the next schedule or event for later is due; in the past: it is
                               due, and another process is at it or it was refused; -1: nothing
                               waits */
} hf_tick_info;

/* Fires the schedules that are due and brings events for later whose time has come into the log,
 * all that were due at the call, and returns when that is durable. Many processes may do so at the
 * same time: each planned time and each event is published once. The bus need not be started.
 * ret_info may be NULL. HF_DENIED: a role of the server that may only look (viewer). After a
 * failure a part may have been done; what is due stays due. */
HF_API hf_status hf_tick(hf_bus *bus, hf_tick_info *ret_info);

#define HF_LATER_MAX 1000 /* of one call of hf_later_list */

/* An event that waits for its time. */
typedef struct hf_later_info {
    size_t size;
    hf_event event;    /* position 0, and no time of entering the log (-1). In a list the payload is
                          NULL, payload_bytes says how large it is */
    int64_t due_at_us; /* when it enters the log, by the server's clock on PostgreSQL */
    int64_t number;    /* the order of publishing, of those that are due at the same time */
} hf_later_info;

/* Which of them. NULL and -1: no condition. */
typedef struct hf_later_filter {
    size_t size;
    const char *type; /* a pattern */
    const char *key;
    int64_t due_before_us;   /* due_at < this */
    int64_t after_due_at_us; /* keyset paging: after the one with this time and after_number */
    int64_t after_number;    /* its number */
    int32_t limit;           /* 100; up to HF_LATER_MAX */
} hf_later_filter;

#define HF_LATER_FILTER_INIT                                                                       \
    {                                                                                              \
        sizeof(hf_later_filter), NULL, NULL, -1, -1, -1, -1                                        \
    }

typedef int (*hf_later_fn)(const hf_later_info *info, void *ctx);

/* Events that wait for their time, in the order in which they will enter the log. filter may be
 * NULL. What is kept, moved or brought meanwhile is shown as it was or as it is. HF_DENIED: on
 * PostgreSQL they are for roles that may publish. */
HF_API hf_status hf_later_list(hf_bus *bus, const hf_later_filter *filter, hf_later_fn found,
                               void *ctx);
/* One of them by its id, with its payload; calls back once. HF_NOTFOUND: no such event waits; it
 * may be in the log (hf_event_get). */
HF_API hf_status hf_later_get(hf_bus *bus, const char *id, hf_later_fn found, void *ctx);
/* Takes one away, durably: it never enters the log, and its id may be published again.
 * *ret_position is 0 then. If it has entered the log already nothing is changed, and *ret_position
 * is where it is. Exactly one of the two is true, also if a process brings it at this moment.
 * HF_NOTFOUND: neither. */
HF_API hf_status hf_later_cancel(hf_bus *bus, const char *id, int64_t *ret_position);
/* Gives one another time, by this machine's clock as deliver_at_us of hf_new_event; a time that is
 * past is now. The answer is that of hf_later_cancel. */
HF_API hf_status hf_later_move(hf_bus *bus, const char *id, int64_t deliver_at_us,
                               int64_t *ret_position);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_LATER_H */
