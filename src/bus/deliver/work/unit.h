/*
 * unit.h - what handlers get in one call: one event, or for batch handlers several.
 *
 * A unit has one call, one verdict and, if it is transactional, is settled in one transaction. A
 * worker's chunk is a run of them (chunk.h). What units of a subscription are like is said by their
 * limits, and by nothing else: a handler of one event has units of one. A unit is put together from
 * what is READY in the window when a worker takes it; when one of several events has failed they
 * carry its mark (cause.h), by which they are known again and come again as the same unit, also
 * after a restart.
 *
 *     take ----> run ----> acknowledged: all its events are settled
 *      ^                   failed: all of them wait, with the mark
 *      |                   failed for the last time: all of them die, or, with on_batch_failure
 *      +------------------ split, its halves are units of their own, with one attempt each
 */
#ifndef HF_BUS_DELIVER_WORK_UNIT_H
#define HF_BUS_DELIVER_WORK_UNIT_H

#include "bus/deliver/window/window.h"
#include "bus/deliver/work/handlers.h"

struct runner;
struct chunk_result;

#define UNIT_EXCUSES_MAX 100 /* HF_RETRY_UNCOUNTED answers of a part that is alone */
#define UNIT_EVENTS_MAX 2500 /* so that all that is in hand can be settled in one change */

/* What the units of a subscription in this process are like: from its options and the kind of its
 * handlers. */
struct unit_limits {
    int32_t events;     /* a unit has at most so many events ... */
    int32_t events_max; /* ... or so many, to keep a run of one key together */
    size_t per_chunk;   /* a worker takes at most so many units at once */
    bool by_key;        /* a unit is a run of consecutive events of one key */
    bool whole;         /* units come again whole: the events of one that failed carry its mark, and
                           what is held behind it is stored at once, as retries, which are not due
                           before the unit is over; held ones would follow one at a time */
};

struct unit {
    struct slot **slots;       /* in the order of positions; as all arrays here, in the cargo */
    struct tx_member *members; /* each as its transaction sees it, with the proof */
    bool *settled;             /* each: it was settled before, so the handler does not get it */
    size_t count;
    size_t entered; /* transactional: the one that was entered */
};

/* The memory of a chunk's units, one behind the other, and what the one that runs needs. */
struct cargo {
    struct slot **slots;
    struct tx_member *members;
    bool *settled;
    const char *namespace_name; /* of all events */
    hf_event *views;            /* the events as the handler sees them: those of the event batches
                                   are the same for all subscriptions, and say less */
    const hf_event **events;    /* what the handler gets; and room for those of one pattern */
    const hf_event **picked;
    size_t event_count;
    int32_t *notes; /* where what runs is noted, beside the worker's own */
    size_t note_count;
    struct event_batch **event_batches; /* stuck: what the handler may still look at; counted */
    size_t event_batch_count;
    size_t used; /* by units */
    size_t capacity;
};

void cargo_release(struct cargo *cargo);

struct unit_limits unit_limits(const hf_subscription_options *options, enum handler_kind kind);

/* Takes the next unit. False: there is none that may run now. The mutex is held. */
bool unit_take(struct runner *runner, const void *owner, struct cargo *cargo, struct unit *unit);
/* All of it ended so; the error is handed over. The mutex is held. */
void unit_ended(struct runner *runner, struct unit *unit, struct chunk_result *result, bool in_tx);
/* It was not run, or its run was undone. The mutex is held. */
void unit_untaken(struct runner *runner, struct unit *unit);
/* Its worker is stuck: keeps alive what the handler looks at. The mutex is held. */
void unit_keep(const struct unit *unit, struct cargo *cargo);

/* Begins its first delivery in the transaction. HF_CONFLICT: all were settled before. */
hf_status unit_enter(struct unit *unit, struct cargo *cargo, struct tx *tx, int64_t now_us);
/* Settles all of it and commits; as tx_finish, ends the tx in every case. *ret_again: one of them
 * was settled before, so nothing is kept and it has to run again without that one. */
hf_status unit_finish(struct unit *unit, struct tx *tx, int64_t now_us, bool *ret_again);
/* Without a transaction: all of its events are for the handler. */
void unit_expose(const struct unit *unit, struct cargo *cargo);
/* The highest number of recorded attempts in it. */
int32_t unit_attempts(const struct unit *unit);

#endif
