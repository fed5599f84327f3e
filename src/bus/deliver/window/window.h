/*
 * window.h - what a runner has in hand: slots, one per delivery, and the lanes that must wait.
 *
 *            put            take               end              settle
 *     (free) ----> READY ----------> RUNNING ----------> ENDED ----------> SETTLED ----> (free)
 *                  ^   |                | |                ^                  ^
 *                  |   +- lane waits ---|-|----------------+                  |
 *                  +---- not run -------+ +------- done, nothing to write ----+
 *
 * Two queues of slots: what comes from the log (or a claim) in its order, and retries that are due,
 * which go first. A slot's address is good while its delivery is in hand, and one that is over
 * leaves the queue from wherever it is, so none waits for a place behind a slow handler. Only the
 * log of an ordered subscription is left from its front: up to where all is settled is what its
 * checkpoint says. Those that are held and wait to be stored together are not in the way there:
 * they are set aside, and `passed` says how many they have let by, which the checkpoint cannot tell
 * before they are stored.
 *
 * Lanes: while deliveries of a lane wait in the store it is in `failing`, and later events of the
 * lane may not run: they end as HELD. `running` keeps two workers from running events
 * of one lane at once. A shared subscription promises no order and uses neither.
 *
 * Partitions: each slot is of one, and `shares` says how much of each is in hand. One that is given
 * up is closed: what is READY of it goes, what runs may end, nothing more begins.
 *
 * All of this is guarded by the runner's mutex.
 */
#ifndef HF_BUS_DELIVER_WINDOW_WINDOW_H
#define HF_BUS_DELIVER_WINDOW_WINDOW_H

#include "base/set64.h"
#include "bus/deliver/window/done_ahead.h"
#include "bus/deliver/window/event_batch.h"
#include "store/cause.h"

struct lease; /* shared.c */

enum slot_state { SLOT_FREE, SLOT_READY, SLOT_RUNNING, SLOT_ENDED, SLOT_SETTLED };

/* How a slot ended. */
enum slot_ending {
    ENDED_VERDICT,   /* its handlers answered `verdict` (or timed out: a failure) */
    ENDED_HELD,      /* an earlier event of its lane is waiting */
    ENDED_SPENT,     /* its recorded attempts were used up before it ran */
    ENDED_DAMAGED,   /* it is not the event that was published */
    ENDED_UNHANDLED, /* outside the patterns; only where that makes a dead letter */
    ENDED_SKIPPED,   /* shared: outside the patterns, which have changed since it was claimed */
    ENDED_RELEASED,  /* shared: given back without having run */
    ENDED_CANCELLED, /* to be cancelled, which is stored on its own (cancels.c) */
};

/* What is so of a slot. Changed under the runner's mutex. */
enum slot_trait {
    TRAIT_FROM_LOG = 1 << 0,  /* the checkpoint waits for it */
    TRAIT_WAITED = 1 << 1,    /* it has a row in retries */
    TRAIT_PROBE = 1 << 2,     /* the breaker's one probe */
    TRAIT_IN_TX = 1 << 3,     /* settled together with its handler's writes */
    TRAIT_ALONE = 1 << 4,     /* its last attempt ended with the process: no other handler beside */
    TRAIT_PRERECORD = 1 << 5, /* its attempt is recorded before it runs */
    TRAIT_ASIDE = 1 << 6,     /* its event is on an event_batch for held ones */
    TRAIT_SETTLING = 1 << 7,  /* the dispatcher is storing what became of it */
    TRAIT_FORGOTTEN = 1 << 8, /* it was dropped, or its partition given up: it may come again */
    TRAIT_SPLITTING = 1 << 9, /* the unit of its mark is being halved */
    TRAIT_FOLLOWS = 1 << 10,  /* it is in hand behind the first of its unit */
    TRAIT_FOLLOWED = 1 << 11, /* since it began to run its lane was found failing */
    TRAIT_RATED = 1 << 12,    /* it has begun, or is about to, and the rate was charged for it */
};

struct slot {
    struct slot *next; /* in its queue, or among the free ones; NULL: it is the last */
    struct slot *previous;
    enum slot_state state;
    enum slot_ending ending;
    hf_verdict verdict;
    enum cause cause;                /* of a failed attempt, if it is not the handler's answer */
    char *error;                     /* of a failed attempt; mem_free */
    int64_t wait_ms;                 /* of a failed attempt: the least wait before the next one */
    struct event_batch *event_batch; /* counted */
    const struct entry *entry;       /* on the event_batch */
    uint64_t lane;                   /* the entry's */
    int32_t partition;               /* the entry's; 0 if shared */
    struct lease *lease;             /* shared only */
    uint16_t traits;                 /* enum slot_trait: slot_is, slot_set */
    int32_t deliveries;              /* how often it was handed out, now included; -1: not known */
    uint8_t excused;       /* how often a part of a unit that is being halved was given back */
    struct unit_mark mark; /* the unit that it failed in, and comes again with; see unit.h */
};

static inline bool slot_is(const struct slot *slot, enum slot_trait trait)
{
    return (slot->traits & trait) != 0;
}

static inline void slot_set(struct slot *slot, enum slot_trait trait, bool on)
{
    slot->traits = (uint16_t)(on ? slot->traits | trait : slot->traits & ~trait);
}

/* Slots one behind the other. */
struct chain {
    struct slot *first; /* NULL: it is empty */
    struct slot *last;
};

struct queue {
    struct slot *slots; /* the memory of all: those in use are in `used`, in the order of put. NULL:
                           it is not prepared */
    size_t capacity;
    size_t count; /* in use */
    size_t begun; /* slots that have ever been in use. Those behind them are free, too, and in no
                     chain: a process with thousands of subscriptions that have little to do should
                     not touch their memory */
    struct chain used;
    struct chain free;
    struct slot *look; /* no slot before it is READY; NULL: none at all */
};

/* What is in hand of one partition. */
struct window_share {
    bool closed;           /* nothing of it may begin */
    int32_t busy;          /* RUNNING */
    int32_t ended;         /* ENDED */
    int32_t held;          /* of these, as HELD */
    int64_t checkpoint;    /* as stored: see `done_ahead` */
    int64_t forgotten;     /* closed: the lowest position in the log that was not settled and
                              has gone; INT64_MAX: none */
    int64_t lowest;        /* window_survey: the lowest position in the log that is neither
                              settled nor being settled; INT64_MAX: none */
    int64_t last;          /* window_survey: the highest settled position below it; 0: none ... */
    uint8_t last_id[16];   /* the id of its event */
    int64_t reaped;        /* the last event that left the log ... */
    uint8_t reaped_id[16]; /* the id of its event */
};

struct window {
    struct queue log;
    struct queue retries;
    struct set64 failing;  /* lanes with deliveries that wait in the store or are about to -> their
                               partition ... */
    uint64_t failing_bits; /* Bloom filter over `failing`: a clear bit means not failing */
    struct set64 running;  /* lane -> how many of it are RUNNING */
    struct set64 owners;   /* lane -> who runs them */
    bool lanes;            /* ordered: lanes count */
    bool whole;            /* of units, see unit_limits: slots have the marks of their events. Else
                              held ones may wait for each other before they are stored */
    bool lanes_full;       /* more lanes fail than can be known: the log is not read */
    int64_t bytes;         /* of the events in hand */
    int64_t ready;
    int64_t busy; /* RUNNING */
    int64_t ended;
    int64_t held;                 /* of these, as HELD ... */
    int64_t passed;               /* events of those partitions that have left the log meanwhile */
    struct event_batch *aside;    /* for the events of held ones; NULL: none yet */
    int64_t ended_prerecorded;    /* of these, recorded before they ran */
    int64_t settled;              /* settled by being done, since last asked */
    struct done_ahead done_ahead; /* done above the checkpoint, and gone */
    struct window_share *shares;  /* of each partition */
    int32_t partitions;
    int32_t closed; /* of these: they go as soon as nothing of them runs */
};

#define WINDOW_BYTES_MAX 16777216 /* in hand; what is read at once comes on top */
#define WINDOW_LANES_MAX 1000000  /* failing lanes that are known; beyond, reading waits */
#define WINDOW_ASIDE_BYTES 65536  /* on one event_batch for held ones */

hf_status window_init(struct window *window, int32_t log_slots, int32_t retry_slots, bool lanes,
                      int32_t partitions);
/* Memory for its slots; before something is put. HF_NOMEM: it may be asked again. */
hf_status window_prepare(struct window *window);
/* Frees that memory, until it is prepared again. False: something is in hand, or done ahead. */
bool window_put_away(struct window *window, struct batch_pool *batch_pool);
/* Frees everything; nothing may be RUNNING. */
void window_release(struct window *window, struct batch_pool *batch_pool);
/* Empties it; nothing may be RUNNING. */
void window_clear(struct window *window, struct batch_pool *batch_pool);

/* The same for another number of partitions. Without memory nothing has happened. */
hf_status window_repartition(struct window *window, struct batch_pool *batch_pool,
                             int32_t partitions);

/* Are the events in hand so large that no more should be read? (One may always be in hand.) */
bool window_heavy(const struct window *window);
/* How many retries may be read now. If the log waits for lanes to be known, what is in hand of it
 * must not keep them out. */
size_t window_retry_room(const struct window *window);
/* Were more lanes failing than can be known, and are so few by now that all can be? */
bool window_knows_lanes(const struct window *window);
/* Have the held ones let so much pass, or become so many, that they should be stored? */
bool window_crowded(const struct window *window);

/* Remembers that deliveries of the lane wait in the store. False without memory: then nothing may
 * be run that could be behind them. At WINDOW_LANES_MAX it sets lanes_full and answers true. What
 * runs in the lane is `followed` from then on: its transaction may not have seen those that wait,
 * so that what it says of the lane does not count. */
bool window_fail_lane(struct window *window, uint64_t lane, int32_t partition);

size_t queue_room(const struct queue *queue);
/* How many of it are READY. */
size_t queue_ready(const struct queue *queue);

/* The positions of retries that are in hand, at most one for each slot of their queue; answers how
 * many. Not of those that are over: they may be due again. */
size_t window_list_retries(const struct window *window, int64_t *positions);

/* The unit that the event comes again with; none where units do not come again whole. */
struct unit_mark window_mark(const struct window *window, const struct entry *entry);
/* A new READY slot; the window is prepared, and the queue has room. The event_batch gets one more
 * reference. */
struct slot *window_put(struct window *window, struct queue *queue, struct event_batch *event_batch,
                        const struct entry *entry);
/* The next slot that may run, now RUNNING; NULL if there is none. Slots whose lane is failing end
 * as HELD on the way. `owner`: a worker that runs all that it takes one after another, and from
 * which no other takes over, may take several of one lane; NULL for the others. */
struct slot *window_take(struct window *window, const void *owner);
/* The same of the retries behind this one, which is READY, and not of its unit, and of the log. */
struct slot *window_take_behind(struct window *window, const struct slot *slot, const void *owner);
/* The same for this READY slot. False: it may not run now. */
bool window_take_this(struct window *window, struct slot *slot, const void *owner);
/* An event of the lane waits again: retries of the lane behind it, in hand but not begun, go, and
 * will be due when it is over. */
void window_drop_behind(struct window *window, uint64_t lane, int64_t position);
/* RUNNING (or READY) -> ENDED with what the caller has set in the slot. */
void window_end(struct window *window, struct slot *slot);
/* RUNNING -> READY: it was not run, or its run was undone. */
void window_untake(struct window *window, struct slot *slot);
/* ENDED -> READY: what it ended for could not be stored. */
void window_revive(struct window *window, struct slot *slot);
/* RUNNING or ENDED -> SETTLED: nothing is left to be written. */
void window_settle(struct window *window, struct slot *slot);
/* Nothing of the lane waits in the store any more: later events may run. Those that ended as HELD
 * and are not stored yet come first: they are READY again. If some are being stored at this moment
 * the lane goes on failing, for they will wait in the store. */
void window_free_lane(struct window *window, uint64_t lane);
/* Frees settled slots: of an ordered subscription's log those at the front. */
void window_reap(struct window *window, struct batch_pool *batch_pool);
/* The partition's checkpoint, which is stored: what is done above it is remembered
 * (`done_ahead`) until another one tells it. */
void window_checkpoint(struct window *window, int32_t partition, int64_t checkpoint);
/* Settled, and only the checkpoint will tell: it left no row. */
bool slot_is_done(const struct slot *slot);
/* Sets `lowest`, `last` and `last_id` of every share. */
void window_survey(struct window *window);
/* Nothing more of the partition begins; what is READY of it goes. */
void window_close(struct window *window, int32_t partition);
/* Nothing of the closed partition runs any more: whatever is left of it goes, and it is open for
 * another time. */
void window_forget(struct window *window, int32_t partition);

#endif
