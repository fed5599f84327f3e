/*
 * holdfast/inspect.h - looking at events, subscriptions and the namespace.
 */
#ifndef HOLDFAST_INSPECT_H
#define HOLDFAST_INSPECT_H

#include <holdfast/event.h>
#include <holdfast/subscription.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hf_state {
    HF_STATE_NOT_FOR_IT = 0, /* the patterns do not match, or it is before the start */
    HF_STATE_PENDING = 1,    /* not handed out, or its lease has ended: the next claim gets it */
    HF_STATE_PROCESSING = 2, /* handed out, or in a handler now (as in_flight below) */
    HF_STATE_RETRYING = 3,   /* waits for its next attempt */
    HF_STATE_HELD = 4,       /* waits behind an earlier event of its key */
    HF_STATE_DONE = 5,
    HF_STATE_DEAD = 6,
    HF_STATE_CANCELLED = 7 /* settled without a handler (holdfast/cancel.h) */
} hf_state;

/* "not_for_it", "pending", "processing", "retrying", "held", "done", "dead", "cancelled". */
HF_API const char *hf_state_name(hf_state state);

/* Where an event is in one subscription. */
typedef struct hf_event_state {
    const char *subscription;
    hf_state state;
    int32_t attempts;           /* recorded attempts that failed. Of an event that is done they stay
                                   with the last HF_OUTCOMES_MAX that had failed first, until
                                   retention deletes the event */
    const char *attempts_json;  /* [{"attempt","at","error","node"}, ...]; NULL if none */
    int64_t next_attempt_at_us; /* -1 unless retrying */
    int64_t dead_id;            /* -1 unless dead */
    const char *cause;  /* why the last attempt failed, as in hf_dead_letter; NULL if none did */
    int32_t deliveries; /* how often it was handed out to this subscription; -1: not known */
    const char *node;   /* processing: the node that has it; NULL: not known */
    int64_t since_us;   /* processing: since when it has it (shared: claimed, ordered: its handler
                          runs); -1: not known */
    int64_t cancelled_at_us;   /* -1 unless cancelled */
    const char *cancelled_by;  /* cancelled, or requested to be: by whom; NULL: not known */
    const char *cancel_reason; /* the same: why; NULL: no reason was given */
    int32_t cancel_requested;  /* 1: it is to be cancelled, and the process that has it in hand has
                                  not decided yet (SQL: holdfast.cancel_event) */
} hf_event_state;

typedef int (*hf_event_fn)(const hf_event *event, void *ctx);
typedef int (*hf_event_state_fn)(const hf_event_state *state, void *ctx);

/* Finds an event by id and calls back once. HF_NOTFOUND; HF_CORRUPT: it is damaged (hf_verify). */
HF_API hf_status hf_event_get(hf_bus *bus, const char *id, hf_event_fn found, void *ctx);
/* The state of an event in every subscription of the namespace, by name. HF_NOTFOUND. */
HF_API hf_status hf_event_states(hf_bus *bus, const char *id, hf_event_state_fn found, void *ctx);

/*
 * Reads the log in the order of positions without moving any checkpoint: up to `limit` events after
 * position *cursor that match the pattern (NULL: all). *cursor becomes the position up to which
 * everything has been seen, so that the next call goes on. With nothing to read it waits up to
 * wait_ms (0: it only reads), and brings what is due meanwhile (holdfast/later.h). HF_CORRUPT: the
 * next event is damaged, and *cursor is the position before it; to read on behind it, add 1.
 */
HF_API hf_status hf_read(hf_bus *bus, const char *pattern, size_t limit, int64_t wait_ms,
                         int64_t *cursor, hf_event_fn found, void *ctx);
/* The position after which reading from a place begins. */
HF_API hf_status hf_locate(hf_bus *bus, hf_place place, int64_t *ret_position);

#define HF_PENDING_MAX 10000 /* pending events are counted up to here */

/* Everything about a subscription. Numbers that are not known are -1. */
typedef struct hf_subscription_info {
    const char *name;
    const char *const *patterns;
    size_t pattern_count;
    hf_subscription_options options; /* complete: no "not given" in it, but `from` */
    int64_t created_at_us;
    int64_t start_position; /* it began (or was last sought) after this position */
    int64_t checkpoint;     /* everything up to here is settled */
    int64_t checkpoint_at_us;
    const char *checkpoint_event_id; /* the last event settled; NULL if none, or if it has several
                                        partitions, each of which has its own */
    int64_t cursor;                  /* shared: everything up to here has been handed out */
    int64_t head;                    /* the log's newest position */
    int64_t lag;                     /* head - checkpoint: positions, whatever is there */
    int64_t pending;                 /* events that its patterns match and that have not been
                                        handed out (ordered: that are not settled as far as is
                                        stored, and do not retry); exact if pending_more is 0 */
    int32_t pending_more;            /* 1: at least so many. There are more than HF_PENDING_MAX,
                                        or the log behind the checkpoint (shared: cursor) is so
                                        long that not all of it was looked at */
    int64_t in_flight;               /* shared: leased and unsettled, without leases that ended;
                                        ordered: events whose handlers run. On PostgreSQL those
                                        that have run for half a second, as their process said
                                        within the last two */
    int64_t lease_ended;             /* shared: events whose lease ended without an answer, or
                                        that were given back; they are pending, too */
    int64_t claimed_at_us;           /* shared: when events were last handed out, since it was
                                        created or last sought; -1: never */
    int64_t retrying;
    int64_t held;
    int64_t blocked;           /* keys parked by on_poison=block_key */
    int64_t dead;              /* unresolved dead letters */
    int64_t oldest_waiting_us; /* when the oldest of its events (those that match) that is not
                                   settled entered the log; -1: none, or, if pending_more is 1,
                                   none was found. Then one that was not looked at may be older */
    double rate;               /* positions of the log per second that its checkpoint (shared: its
                                   cursor) has passed, events that are not for it included, over the
                                   last 30 to 60 seconds, or since it was created; -1 for so long
                                   after a seek, a change of its partitions, or a clock that was
                                   set back */
    int64_t dropped_through;   /* retention deleted unfinished events up to here; -1: none */
    int64_t dropped;           /* how many positions were dropped in this way; 0: none */
    int64_t paused_at_us;      /* -1: not paused */
    const char *paused_by;
    const char *paused_reason;
    const char *breaker;      /* "closed", "open", "half_open"; NULL: off */
    int64_t breaker_until_us; /* when the probe may run; -1 */
    const char *owner;        /* node that processes it (ordered); NULL: none */
    int32_t owner_alive;      /* 1, 0 */
    const char *not_moving;   /* a sentence: why it is not moving; NULL if it is, or is done */
    int64_t holes;            /* PostgreSQL: missing positions above its checkpoint that were seen,
                                 and that a transaction may still fill; -1: not looked for, because
                                 it does not move for another reason */
} hf_subscription_info;

typedef int (*hf_subscription_fn)(const hf_subscription_info *info, void *ctx);

/* All subscriptions of the namespace by name. If more than 200 of them are behind, those beyond are
 * looked at briefly: their pending_more is 1 sooner. */
HF_API hf_status hf_subscription_list(hf_bus *bus, hf_subscription_fn found, void *ctx);
/* One. HF_NOTFOUND. */
HF_API hf_status hf_subscription_get(hf_bus *bus, const char *name, hf_subscription_fn found,
                                     void *ctx);

/* Numbers of the namespace. -1: not known, or not for the role of the server that asks. */
typedef struct hf_stats {
    size_t size;   /* in: sizeof(hf_stats) */
    int64_t head;  /* newest position */
    int64_t first; /* oldest position that the log still has; head + 1 if empty */
    int64_t subscriptions;
    int64_t retrying;
    int64_t held;
    int64_t in_flight;
    int64_t dead;
    int64_t oldest_waiting_us; /* of all subscriptions, as in hf_subscription_info */
    int64_t store_bytes;
    int64_t wal_bytes;
    int64_t published;         /* events published by this handle since it was opened */
    int64_t commits;           /* commits that those events took */
    int64_t delivered;         /* deliveries that handlers of this handle finished */
    int64_t failed;            /* failed attempts of handlers of this handle */
    double rate;               /* events that entered the log per second, over the last minute */
    int64_t later;             /* events that wait for their time (holdfast/later.h) */
    int64_t later_next_us;     /* when the first of them is due; -1 also if there is none */
    int64_t later_due;         /* how many of them are due, and have not been brought */
    int64_t schedules_due;     /* schedules that are due and have not fired */
    int64_t schedules_next_us; /* when the first schedule is due; -1 also if there is none */
    int64_t nodes;             /* other processes that have the namespace open and are alive */
    int64_t lease_ended;       /* of all subscriptions, as in hf_subscription_info */
} hf_stats;

/* Takes as long for ten million events as for ten: only what is exceptional is counted, that is
 * leases, retries, open dead letters and events for later, and of the log a bounded part is looked
 * at for the oldest event that waits. After hf_shutdown the database is not
 * asked any more: only published, delivered and failed are known. */
HF_API hf_status hf_stats_get(hf_bus *bus, hf_stats *ret_stats);

/* What the engine says about itself, for `doctor`: name ("journal_mode"), value ("wal"), level and
 * advice (NULL if all is well). Of a bus without a namespace it says what concerns the database;
 * else also whether events for later and schedules ("later", "schedules") are overdue by more than
 * a minute. */
typedef int (*hf_finding_fn)(const char *name, const char *value, hf_log_level level,
                             const char *advice, void *ctx);
HF_API hf_status hf_doctor(hf_bus *bus, hf_finding_fn found, void *ctx);

/*
 * Examines everything that is stored, in all namespaces of the database, for damage: positions,
 * checkpoints, deliveries that have lost their event, rows that belong to nothing, JSON, UTF-8 and
 * hashes, and whether tables, indexes, triggers ... are those that this program makes; on SQLite
 * also every page and index of the file. Reads the whole log. Writes nothing, and publishers and
 * consumers go on meanwhile. `found` is called for each finding, of level HF_LOG_ERROR, with what
 * to do; never, if all is well. `progress` (may be NULL) is called from time to time with the
 * number of rows that have been examined. Non-zero of either ends it with HF_OK. HF_OK also if
 * there were findings; any other status: not all was examined.
 */
typedef int (*hf_verify_progress_fn)(int64_t rows, void *ctx);
HF_API hf_status hf_verify(hf_bus *bus, hf_finding_fn found, hf_verify_progress_fn progress,
                           void *ctx);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_INSPECT_H */
