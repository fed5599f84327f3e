/*
 * store.h - the contract between the bus and a database engine.
 *
 * Everything above this header speaks of events, subscriptions, leases and dead letters and never
 * knows which engine keeps them; everything below knows SQL and never decides a policy. One suite
 * (tests/store) runs against this header on every engine.
 *
 * A store is one namespace of one database, opened by one process. What it offers comes in five
 * kinds:
 *
 *   changes    values that say what is to be written: `struct append`, `struct settle`, `struct
 *              claim` ... Each is atomic, has its contract above it and carries its own status.
 *              store_run() hands one over; changes of all threads that wait at the same moment are
 *              applied together and share one commit (group.h). That is group commit, once, for
 *              every engine.
 *   queries    reads of a consistent snapshot; any thread, any time.
 *   reader     the one way to read the log forward, for catch-up and live alike.
 *   tx         a transaction that a handler runs in, with the delivery settled inside it.
 *   signs      wake-ups, and signs of life of the processes that share the database.
 *
 * Rules for all of them
 *   - A verb that answers anything but HF_OK has changed nothing, except HF_UNKNOWN: it may have.
 *   - Time is passed in (`now_us`, wall clock of the caller); engines do not look at clocks, except
 *     to wait, and to notice that the wall clock was set back.
 *   - Texts in arguments belong to the caller until the verb returns. Texts handed to a callback
 *     are valid until it returns. Texts in a batch live until the batch is cleared.
 *   - Positions grow in the order of the log from 1. 0 is "before everything".
 *   - Nothing here retries, backs off or dies of old age: what an attempt's failure means is the
 *     bus's business. The engine records.
 */
#ifndef HF_STORE_STORE_H
#define HF_STORE_STORE_H

#include <holdfast.h>
#include <stdbool.h>

#include "base/log.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "base/time/deadline.h"
#include "base/timing.h"
#include "store/claimants.h"
#include "store/dead.h"
#include "store/event.h"
#include "store/node.h"
#include "store/progress.h"
#include "store/reader.h"
#include "store/tx.h"

struct store;

#define STORE_MESSAGE_BYTES 512       /* what a failed change says */
#define STORE_HOLDERS_BYTES_MAX 512   /* who may fill a gap, told for people */
#define STORE_NOTES_MAX 1024          /* handlers running at once in one process */
#define STORE_OUTCOMES_MAX 10000      /* outcomes in one settle, as many as one claim */
#define STORE_DEAD_STEP_MAX 500       /* dead letters retried or purged in one change */
#define STORE_BATCH_BYTES_MAX 4194304 /* a batch stops here (but holds at least one event) */
#define STORE_CLAIM_ROWS_MAX 10000    /* rows of the log that one claim looks at */
#define STORE_LEASE_MS_MAX 604800000  /* a week: leases may be held by people */
#define STORE_CALLS_MAX 4             /* store_calls_max, where an engine does not say */

/* ---- Opening --------------------------------------------------------------------------------- */

struct store_options {
    struct text namespace_name; /* absent: none; then only verbs about namespaces may be used */
    struct text node_name;      /* shown to others as owner of leases */
    struct node_facts node;     /* not looked at without a namespace */
    hf_open_mode open_mode;     /* never DEFAULT */
    hf_durability durability;   /* never DEFAULT */
    bool brief;         /* the process may end soon: others need not know of it before it works */
    int64_t timeout_ms; /* waiting for the database while opening */
    int64_t queue_events_max; /* bounds of the group's queue */
    int64_t queue_bytes_max;
    struct log *log; /* never NULL; outlives the store */
};

/* Whether a database, a schema and a namespace that are missing are made. */
static inline bool open_mode_creates(hf_open_mode mode)
{
    return mode == HF_OPEN_CREATE || mode == HF_OPEN_MIGRATE;
}

/* Opens the store that `url` names. What becomes of an older schema is open_mode's to say
 * (holdfast/bus.h). HF_SCHEMA: it may not be used by this program, or not without a migration. */
hf_status store_open(const char *url, const struct store_options *options,
                     struct store **ret_store);

/* Appends the SQL that makes the schema of the engine that `url` names, or brings it up to date.
 * HF_MISUSE: the engine has no such script. */
hf_status store_schema_script(const char *url, struct buf *out);

/* Tells what a migration of the database that `url` names would do, and changes nothing. The
 * answers are those of hf_schema_plan. */
hf_status store_schema_plan(const char *url, const struct store_options *options,
                            hf_migration_fn found, void *ctx);

/* Gives back what this process still owns, and closes. No other call may be running. NULL is
 * allowed. In a forked child it frees memory and touches nothing else. */
void store_close(struct store *store);

/* "sqlite" or "postgres". */
const char *store_engine_name(const struct store *store);
/* True in a forked child of the process that opened it: every verb there answers HF_MISUSE. */
bool store_poisoned(struct store *store);

/* ---- Changes --------------------------------------------------------------------------------- */

#define CHANGE(KIND, name) CHANGE_##KIND,
enum change_kind {
#include "store/changes.def"
    CHANGE_KINDS
};

/* The head of every change. The caller sets kind, now_us and relaxed; group.c uses the rest. */
struct change {
    enum change_kind kind;
    bool relaxed; /* losing it in a power failure only means doing the work again, so it need not
                        wait for the disk. Only settles, claims, releases and takes of a rate may
                        say so. */
    int64_t now_us;
    hf_status status;
    bool again;      /* the engine's: nothing happened, another transaction is in the way;
                   store_run tries again until the deadline */
    bool doubtful;   /* the engine's: it was sent, the answer was lost, and sending it again has not
                      told yet: no failure that follows means that nothing happened */
    hf_status draft; /* the engine's: the answer if the common commit succeeds */
    const struct way *way;             /* the engine's: how it travels */
    char message[STORE_MESSAGE_BYTES]; /* why not HF_OK */
    struct change *next;               /* group.c's queue */
    void *waiter;
};

/* Hands a change over and waits for its answer: the status, also in change->status; the message is
 * the thread's last. HF_TIMEOUT: it was not begun before the deadline. HF_BUSY: the queue was full
 * until the deadline. HF_MISUSE: this thread is inside a transaction of this store. */
hf_status store_run(struct store *store, struct change *change, struct deadline deadline);

/*
 * Appends `count` events in order: all or none. Their positions rise in that order, above all that
 * was visible before; an engine with gaps (store_has_gaps) may leave numbers out, and others' may
 * lie between them. An event whose id is in the log already is not
 * stored again: it answers the first one's position and key_version, duplicate = true, and its
 * expected_version is not looked at. An expected version that is not the key's (0: never versioned)
 * answers HF_CONFLICT, failed_index says whose, the message the version found; otherwise the key's
 * version becomes expected + 1. Two equal ids in one append: the second is a duplicate of the
 * first. When it answers HF_OK the events are as durable as the store was opened for. Rings.
 *
 * An event with a unique key whose id is not in the log: if another one with that key was stored
 * less than unique_us ago (by its own unique_us), or waits for its time (struct delay), nothing is
 * stored. The answer is that one's position (0: it waits) and first_id, duplicate and is_second. If
 * that one is gone before its time has come (struct later_cancel), the key is free. A transaction
 * that is rolled back has not taken the key. Keys whose time is over go with struct retain, or
 * earlier.
 */
struct append {
    struct change change;
    struct new_event *events;
    size_t count;
    size_t failed_index; /* on failure: the event at fault; SIZE_MAX: none (the caller sets that) */
};

/*
 * Creates a subscription or changes it.
 *   absent:  created with patterns, options_json, mode, partitions; its start and every partition's
 *            checkpoint (and a shared one's cursor) are `start`; created = true.
 *   present: patterns and options_json replace the stored ones if not absent; the mode must be
 *            equal, and of a shared one the partitions (HF_CONFLICT names the field); created =
 *            false. With `expect_generation` >= 0 it must be the stored one, else HF_CONFLICT.
 *            Another number of partitions is a request, in place of an earlier one; struct
 *            repartition fulfils it. The present number cancels a request.
 * patterns_json is a JSON array of strings, options_json an object that the engine does not read.
 * Every change of a subscription's row raises its generation by one. Rings.
 */
struct subscription_put {
    struct change change;
    struct text name;
    struct text patterns_json;
    struct text options_json;
    hf_mode mode;
    int32_t partitions;
    int64_t start;
    int64_t expect_generation; /* -1: any; 0: there is none yet */
    int64_t ret_id;
    bool ret_created;
};

/* Removes the subscription and all it has but its dead letters. HF_NOTFOUND. Rings. */
struct subscription_remove {
    struct change change;
    struct text name;
};

/* Pauses (`paused`) or resumes a subscription. Pausing what is paused keeps the first pause
 * (HF_OK). Resuming also clears the stored breaker. HF_NOTFOUND. Rings. */
struct pause {
    struct change change;
    int64_t subscription_id;
    bool paused;
    struct text by;
    struct text reason;
};

/* Stores the breaker's state (absent: none). Does not ring. HF_NOTFOUND. */
struct breaker_put {
    struct change change;
    int64_t subscription_id;
    struct text state_json;
};

/*
 * Moves a subscription so that the next event is the first after `position`: start, checkpoints and
 * cursor become it; epochs of all partitions rise by one, so that the present owner's settles are
 * refused (its ownership remains; it acquires again); leases, retries of every kind and settled
 * rows go; dead letters stay. Requests to cancel go, and marks (cancel.h) of what is passed once
 * more: above `position`, but without a row in `settled`. Those that have one stay, with that row,
 * if they are above `position`. HF_INVALID if position is beyond the head. HF_NOTFOUND. Rings.
 */
struct seek {
    struct change change;
    int64_t subscription_id;
    int64_t position;
};

/*
 * Refreshes the members of those who work for an ordered subscription. This store becomes a member,
 * or with `leaves` is none any more (its partitions stay its own); members that are dead, or whose
 * signs of life have not changed for lease_ms (judged as in acquire), are struck off. Answers, as
 * of one moment, who the members are and whose each partition is, so that each of them works out
 * the same shares from it; the engine decides nothing. A membership also ends when its store is
 * closed. A member may say which partitions it wants, and no others; one that says something else
 * than before is a new member, the newest. Rings if the members have changed and there are others.
 * HF_NOTFOUND; HF_MISUSE for a shared subscription; HF_BUSY if there are STORE_MEMBERS_MAX already.
 */
struct members_refresh {
    struct change change;
    int64_t subscription_id;
    int64_t lease_ms;
    bool leaves;
    struct text assigned; /* the only partitions that it wants (ranges.h); absent: any */
    int32_t ret_members;  /* number of members */
    int32_t ret_self;     /* which of them, in the order of joining, is this store; -1: none */
    int64_t ret_members_version; /* see struct standing */
    int64_t ret_lowest;          /* of all checkpoints; set only while the partitions change */
    int64_t ret_highest;         /* of all checkpoints; set only while the partitions change */
    /* of the first partition that another live process owns; "" if there is none */
    char ret_other_name[HF_PRODUCER_BYTES_MAX + 1];
    int32_t ret_partitions;
    int32_t ret_owners[HF_PARTITIONS_MAX]; /* of each partition: a member's number, or one of the
                                              MEMBERS_REFRESH_... below */
    struct claimants ret_claimants;
};

#define MEMBERS_REFRESH_FREE (-1)  /* it has no owner, or one that is dead or frozen */
#define MEMBERS_REFRESH_OTHER (-2) /* its owner is alive, but no member */
#define MEMBERS_REFRESH_SELF (-3)  /* this store owns it, but is no member (any more) */

/*
 * Fulfils the request for another number of partitions, in one transaction: the partitions become
 * that many, unowned, each with the common checkpoint and an epoch above all former ones; retries
 * and what is settled ahead go where their events belong now; generation and version of the members
 * rise; members stay. Rings. Without a request nothing happens. HF_BUSY, and the message says what
 * for: the partitions are not equally far, or a living process (this one, too) owns one. What a
 * dead owner was doing is recorded, or handed on to the next owner, as in acquire. HF_NOTFOUND.
 */
struct repartition {
    struct change change;
    int64_t subscription_id;
    int64_t lease_ms;
    int32_t attempts_max; /* see acquire */
    bool ret_changed;
};

/*
 * Makes this store the owner of a partition of an ordered subscription, if it has no other owner,
 * if the owner is dead, if its signs of life have not changed for lease_ms of our monotonic clock
 * (the engine remembers when it first saw them), or if `force`. Otherwise HF_BUSY, and the message
 * names the owner. If this store is the owner already it stays so with a new epoch.
 *
 * Answers the new epoch, the checkpoint and the subscription's generation. What the former owner
 * had in its hands when it died:
 *   - where the engine knows exactly which handlers ran (notes, see below) each of them is recorded
 *     in `retries` (unless the store shows that it was settled) as one more failed attempt, error
 *     "the process died during this attempt", due at now_us, in the same transaction: ret_crashed
 *     counts them. Where several handlers ran in the process it is not known which of them killed
 *     it: then the attempt does not count if it would be the last of attempts_max (0: it always
 *     counts);
 *   - where it cannot know, ret_unclean is true, and the bus runs the first events one at a time.
 * A retry that was stored while the clock was ahead does not wait for that time: afterwards none of
 * the partition is due later than retry_max_ms from now on, or the engine keeps times by a clock
 * that it minds itself. HF_NOTFOUND: no such subscription.
 */
struct acquire {
    struct change change;
    int64_t subscription_id;
    int32_t partition;
    int64_t lease_ms;
    uint64_t lane; /* of what is recorded about log events; 0: each its own (hash_lane) */
    int32_t attempts_max;
    int64_t retry_max_ms; /* -1: not known, leave retries alone */
    bool force;
    int64_t ret_epoch;
    int64_t ret_checkpoint;
    int64_t ret_generation;
    int32_t ret_crashed;
    bool ret_unclean;
    int64_t ret_doubt_through; /* a former owner did not give it back: how often events up to here
                                  were handed out is not known, unless their rows say so */
};

/* Gives a partition back. HF_STALE if it is not ours with this epoch. Rings. */
struct give_back {
    struct change change;
    int64_t subscription_id;
    int32_t partition;
    int64_t epoch;
};

/* Gives back all partitions of some ordered subscriptions that are ours, whatever their epochs, and
 * leaves the members of these: what give_back and members_refresh do for one of them, for many at
 * once. A subscription that is gone, or of which we have nothing, is passed over. `ret_left` of
 * them stay as they are, because another transaction keeps them locked: they may be tried again.
 * Rings. */
#define STORE_DEPART_MAX 1000

struct depart {
    struct change change;
    const int64_t *subscription_ids;
    size_t count; /* at most STORE_DEPART_MAX */
    int64_t ret_left;
};

/* A pause that is stored together with a settle: a subscription that has to halt when an event dies
 * does so in the same transaction. An absent reason: none. */
struct pause_request {
    struct text by;
    struct text reason;
};

/* What became of one delivery. */
enum outcome_kind {
    OUTCOME_DONE,  /* handled: its retry row goes; if it had failed its story is kept as an outcome,
                      with the last HF_OUTCOMES_MAX of the subscription, until its event goes */
    OUTCOME_RETRY, /* waits in `retries` for next_attempt_us with this story */
    OUTCOME_HELD,  /* waits in `retries` behind an earlier event of its lane */
    OUTCOME_DEAD,  /* becomes a dead letter; its retry row goes */
    OUTCOME_BLOCK, /* becomes a dead letter, and its retry row stays as `blocked`: the lane waits */
    OUTCOME_RELEASE, /* leases only: free for the next claim, with the story it had */
    OUTCOME_BEGUN /* leases only, and only where no notes are taken: it stays in the lease, and this
                     story and attempts stay with it whatever becomes of the lease */
};

struct outcome {
    enum outcome_kind kind;
    int64_t position;
    uint64_t lane;
    int32_t attempts;          /* RETRY, DEAD, BLOCK, BEGUN: recorded attempts, this one included;
                                  DONE: those that failed before; -1: all that are recorded */
    int32_t uncounted;         /* RETRY, BEGUN: of those that did not count */
    struct text attempts_json; /* RETRY, DEAD, BLOCK, BEGUN: the whole story */
    enum cause cause;          /* RETRY, DEAD, BLOCK, BEGUN: why the last attempt failed */
    struct unit_mark unit;     /* RETRY, BLOCK, BEGUN: what failed together in that attempt */
    int64_t next_attempt_us;   /* RETRY; 0: as soon as all that waits before it in its lane is over,
                                  and together with what follows it and says so, too */
    struct text reason;        /* DEAD, BLOCK */
    struct text error;         /* DEAD, BLOCK: the last one; may be absent */
    bool waited;               /* it has a row in retries */
    /* answer, for DONE and DEAD of a delivery that waited: does its lane still have rows in
     * retries? If a held one was first in line it is waiting now, due at now_us. */
    bool ret_lane_busy;
    /* answer, for HELD: nothing was before it any more, so the first of its lane is waiting now,
     * due at now_us */
    bool ret_due;
    uint64_t left_lane; /* the engine's own: the lane that its row left */
    int32_t times;      /* the engine's own: how often its lease and those before handed it out */
};

/*
 * Settles deliveries of a partition that we own, and moves its checkpoint. HF_STALE unless we are
 * the owner with this epoch; HF_NOTFOUND if the subscription is gone; HF_CONFLICT if a generation
 * is given and it is not the stored one: what was read by older patterns must not move the
 * checkpoint.
 *   - checkpoint >= 0 must be at least the stored one (HF_MISUSE) and becomes the stored one, with
 *     last_event_id (NULL: unchanged) and now_us.
 *   - All outcomes happen. DEAD and BLOCK copy the event (from its retry row if that has a copy,
 *     else from the log) with reason, error and story into dead_letters, replacing an open letter
 *     of the same subscription and event; a resolved one stays.
 *   - A DONE or DEAD position above the new checkpoint is remembered in `settled`, so that it is
 *     not delivered again after a takeover; settled rows at or below the checkpoint go.
 *   - HELD and RETRY replace a row of the same position. A HELD one whose lane has no other row
 *     (an operator has just freed the lane) becomes waiting instead, due at now_us. When a DONE or
 *     DEAD row that waited leaves a lane, the lane's lowest held row becomes waiting, due at
 *     now_us.
 * Answers the subscription's present generation, so that a busy owner notices changes.
 */
struct settle {
    struct change change;
    int64_t subscription_id;
    int32_t partition;
    int64_t epoch;
    int64_t generation;           /* of the definition that the log was read by; 0: any */
    int64_t checkpoint;           /* -1: unchanged */
    const uint8_t *last_event_id; /* 16 bytes or NULL */
    struct outcome *outcomes;
    size_t count;
    struct pause_request pause;
    int64_t ret_generation;
};

/* Moves the checkpoints of several partitions that we own, as settles with no outcomes but HELD
 * ones do. A mark whose partition is not ours with its epoch is left out and says so; the others
 * happen. HF_NOTFOUND, HF_CONFLICT (generation) and HF_MISUSE (a checkpoint goes back) as there. */
struct mark {
    int32_t partition;
    int64_t epoch;
    int64_t checkpoint;
    const uint8_t *last_event_id; /* 16 bytes or NULL: unchanged */
    struct outcome *held;         /* of the partition; may be NULL if there are none */
    size_t held_count;
    bool ret_stale;
};

struct checkpoints {
    struct change change;
    int64_t subscription_id;
    int64_t generation; /* of the definition that the log was read by; 0: any */
    struct mark *marks;
    size_t count; /* 1 .. HF_PARTITIONS_MAX */
    int64_t ret_generation;
};

/*
 * Claims events of a shared subscription under a new lease. In this order, up to `max` events and
 * STORE_BATCH_BYTES_MAX: retries that are due, the earliest due first; what expired or orphaned
 * leases held; the log after the cursor, moving the cursor past what was looked at. Never past the
 * head. The batch itself is in the order of the log. An empty batch makes no lease and moves at
 * most the cursor. A paused subscription gives an empty batch. HF_CONFLICT if a generation is given
 * and it is not the stored one: the filter may be of older patterns.
 *
 *   lease:   a random token, made by the caller if it wants to be able to renounce the lease when
 *            the answer is lost; until expires_at = now_us + lease_ms no other claim gets these
 *            events. `bound`: also ends at once when this process is dead. `kept`: does not expire
 *            while this process shows signs of life, judged as in acquire.
 *   orphans: an expired lease of several events is handed out again in halves, one half per claim,
 *            so that a poison event ends up alone; where notes tell which handlers ran, those
 *            events are recorded as failed attempts ("the process died during this attempt") and
 *            the others are handed out as they were. A lease of one event that expires is recorded
 *            as a failed attempt ("the lease expired without an answer").
 *            Recorded ones wait in retries, due at now_us.
 *            Where no notes are taken, a `kept` lease whose owner is dead or stands still goes as a
 *            whole to the next `kept` claim, which gets nothing else and ret_prerecord: it has
 *            to record every attempt (OUTCOME_BEGUN) before it runs.
 * Entries come with the story so far (attempts, attempts_json). Whether one has had enough attempts
 * is for the bus to see.
 * ret_wake_us: when the next retry or lease is due (-1: none known, or ret_more: look at once).
 */
struct claim {
    struct change change;
    int64_t subscription_id;
    int64_t generation; /* of the definition that the filter is of; 0: any */
    struct filter filter;
    int32_t max;
    int64_t lease_ms;
    int32_t attempts_max; /* see acquire */
    int64_t retry_max_ms; /* the same, but that a longer delay that was asked for is kept */
    bool bound;
    bool kept;
    uint8_t lease[STORE_TOKEN_BYTES];     /* the token to use; all zero: the engine makes one */
    struct batch *batch;                  /* to be filled; the caller has cleared it */
    uint8_t ret_lease[STORE_TOKEN_BYTES]; /* all zero: an empty batch; undefined after a failure */
    int64_t ret_expires_at_us;
    int64_t ret_wake_us;
    bool ret_paused;
    bool ret_more; /* the claim stopped at a limit: there may be more now */
    bool ret_prerecord;
};

/*
 * Settles events of a lease. HF_STALE unless the lease exists, has not passed to another one and
 * holds every position named. (A lease that expired but was not yet handed out again is still
 * good.) `all`: everything left in the lease is DONE, and outcomes are not looked at;
 * `release_all`: everything left is RELEASEd. extend_us > 0: the lease now expires then. A lease
 * with nothing left goes. RELEASE rings, as does RETRY that is due; where the store looks by itself
 * (store_look_ms) also RETRY of a lease that is not `kept`: its claimer may be gone by then, and
 * the others have to know when it is due.
 */
struct settle_lease {
    struct change change;
    int64_t subscription_id;
    uint8_t lease[STORE_TOKEN_BYTES];
    bool kept; /* it was claimed so: a server's crash must not bring it back */
    bool all;
    bool release_all;
    struct outcome *outcomes;
    size_t count;
    struct pause_request pause;
    int64_t extend_us;
};

/*
 * Delivers open dead letters again: each becomes a waiting retry with a copy of its event (payload
 * replaced if `payload` is not absent, for count 1), attempts 0, due at now_us, and goes from
 * dead_letters. A blocked row of the same position is replaced by it. One that is resolved or does
 * not exist, or whose subscription is gone, is left and not counted. Rings.
 */
struct dead_retry {
    struct change change;
    const int64_t *dead_ids;
    size_t count; /* <= STORE_DEAD_STEP_MAX */
    struct text payload;
    int64_t ret_count, ret_resolved; /* delivered again; left because they are resolved */
};

/* Marks a dead letter as resolved. A lane that it blocked is freed. HF_NOTFOUND; HF_CONFLICT if it
 * is resolved already. Rings. */
struct dead_resolve {
    struct change change;
    int64_t dead_id;
    struct text by;
    struct text note;
};

/* Deletes dead letters; lanes that they blocked are freed. Missing ones are not counted. Rings. */
struct dead_purge {
    struct change change;
    const int64_t *dead_ids;
    size_t count; /* <= STORE_DEAD_STEP_MAX */
    int64_t ret_count;
};

/* ---- Queries --------------------------------------------------------------------------------- */

/* A subscription as stored. */
struct subscription_row {
    int64_t id;
    struct text name;
    struct text patterns_json;
    struct text options_json;
    hf_mode mode;
    int32_t partitions;
    int32_t wanted; /* another number of them is requested; 0: none is */
    int64_t generation;
    int64_t created_at_us;
    int64_t start;
    int64_t paused_at_us; /* -1: not paused */
    struct text paused_by;
    struct text paused_reason;
    struct text breaker_json;
    int64_t dropped_through, dropped; /* retention.h; -1, 0: nothing was */
};

typedef int (*subscription_row_fn)(const struct subscription_row *row, void *ctx);

/* By name, or by id; calls back once. HF_NOTFOUND. */
hf_status store_subscription_get(struct store *store, struct text name, subscription_row_fn found,
                                 void *ctx);
hf_status store_subscription_by_id(struct store *store, int64_t id, subscription_row_fn found,
                                   void *ctx);
/* All of the namespace, by name. */
hf_status store_subscription_list(struct store *store, subscription_row_fn found, void *ctx);

/* What tells that something about a subscription has changed. */
struct standing {
    int64_t generation;      /* rises with every change of its row */
    int64_t members_version; /* rises when its members change, or a partition is given back */
};

/* Its standing, and every partition that this store owns, by number, with its epoch: has anything
 * changed, has another process taken over? Cheap enough to ask for every batch. HF_NOTFOUND. */
typedef int (*epoch_fn)(int32_t partition, int64_t epoch, void *ctx);
hf_status store_standing(struct store *store, int64_t id, struct standing *ret_standing,
                         epoch_fn found, void *ctx);

/* Appends the event with this id to the batch. HF_NOTFOUND. */
hf_status store_event_find(struct store *store, const uint8_t id[16], struct batch *batch);

/* Newest position ever given, and one that no event is below which the log has, or may still get
 * from a publisher that is under way: the oldest one's (head + 1 if there is none), or less. */
hf_status store_head(struct store *store, int64_t *ret_head, int64_t *ret_first);

/* The newest position that can be seen; 0 if the log is empty. Positions above it, up to the head,
 * were given to publishers that have not committed, or never will. */
hf_status store_last(struct store *store, int64_t *ret_position);

#define STORE_GAPS_MAX 4096 /* that a reader, or a shared subscription, keeps open */

/* What keeps a checkpoint below positions that can be seen. Where positions become visible in their
 * order there is nothing of the kind. */
struct gap_facts {
    int64_t missing; /* the lowest position that may still come; 0: none */
    int64_t count;   /* gaps above the checkpoint that were seen, not counted beyond the maximum */
    int64_t pid;     /* process of the server that may fill it: the one that is longest at it; -1: a
                        prepared transaction; 0: none, so it is about to be passed */
    int64_t held_ms; /* how long that one has been in its transaction; -1: not known */
    char holders[STORE_HOLDERS_BYTES_MAX]; /* all who may fill it, told for people */
};

/* HF_NOTFOUND: there is no such subscription. */
hf_status store_gaps(struct store *store, int64_t subscription_id, struct gap_facts *ret_facts);

/* A position that every event acknowledged before the call is at or below, and every event whose
 * publishing begins after it is above: where "from now on" begins. An engine whose positions become
 * visible out of order may have to wait for publishers that are under way, up to the deadline. */
hf_status store_now(struct store *store, struct deadline deadline, int64_t *ret_position);

/* More positions than the publishers that wait at a time can fill. */
#define STORE_DISORDER 20000

/* The position before the first event that entered the log at `at_us` or later: reading after it
 * skips none of them, though publishes that wait bring earlier times behind later ones, by up to
 * `disorder` positions. An estimate will do with 0, which is much cheaper. */
hf_status store_position_before(struct store *store, int64_t at_us, int64_t disorder,
                                int64_t *ret_position);

/* What is asked of store_retries_due. */
struct due_query {
    int64_t subscription_id;
    const int32_t *partitions;
    size_t partition_count;
    int64_t now_us;
    int32_t max;            /* at most so many, and until the batch is full */
    const int64_t *in_hand; /* positions that are not asked for, in ascending order */
    size_t in_hand_count;
};

/* Waiting retries of some partitions that are due, and not in hand, appended to the batch: of each
 * partition by due time, but none behind the first row of its lane if that is due later than the
 * row itself or blocked; which partition comes first changes, so that none starves another.
 * ret_next_us: when the next one that is not due yet will be (-1: none). */
hf_status store_retries_due(struct store *store, const struct due_query *query, struct batch *batch,
                            int64_t *ret_next_us);

/* Every lane of a partition that has rows in retries, with their number. */
typedef int (*lane_fn)(uint64_t lane, int64_t rows, void *ctx);
hf_status store_lanes(struct store *store, int64_t subscription_id, int32_t partition,
                      lane_fn found, void *ctx);

/* Positions above the checkpoint that are not to be read from the log again: in `settled`, or in
 * `retries`. */
typedef int (*position_fn)(int64_t position, void *ctx);
hf_status store_ahead(struct store *store, int64_t subscription_id, int32_t partition,
                      int64_t checkpoint, position_fn found, void *ctx);

/* Appends what is left in a lease to the batch, by position, with the stories, as claim does.
 * HF_STALE if the subscription has no such lease (any more). */
hf_status store_lease_read(struct store *store, int64_t subscription_id,
                           const uint8_t lease[STORE_TOKEN_BYTES], struct batch *batch);

struct store_sizes {
    int64_t store_bytes; /* -1: not known */
    int64_t wal_bytes;
    int64_t commits; /* by this store since it was opened */
};
hf_status store_sizes_get(struct store *store, struct store_sizes *ret_sizes);

/* How long the commits have taken that carried changes of store_run: one for each, with all that
 * waited for it at the same time. */
const struct timing *store_commits(const struct store *store);

/* Settings and conditions of the engine that matter to its user. */
hf_status store_doctor(struct store *store, hf_finding_fn found, void *ctx);

/* ---- Signs ----------------------------------------------------------------------------------- */

/* A number that changes when any process has rung: read it, look at the store, then wait for it to
 * change. Costs no I/O. */
uint64_t store_news(struct store *store);
/* Missing positions that readers of this store have given up by their gap_timeout so far. */
int64_t store_gap_timeouts(struct store *store);
/* A number that has changed if news may be about more than new events in the log. It changes before
 * store_news does. Costs no I/O. */
uint64_t store_other_news(struct store *store);
/* A number that has changed, and made news, if relaxed changes that were answered with HF_OK may be
 * gone: the database was away for a moment, and may have crashed. */
uint64_t store_losses(struct store *store);
/* A number that has changed if what was read of the log before may not be true any more (struct
 * reader_life). Costs no I/O. */
uint64_t store_era(struct store *store);
/* How many dispatchers that call the store at the same time get on side by side, and leave room for
 * the other threads of the bus; more of them wait for each other. Costs no I/O. */
int32_t store_calls_max(struct store *store);
/* Does some call wait for a database that is not there? Costs no I/O. */
bool store_is_away(struct store *store);
/* The store is about to be closed, and no caller waits for an answer but publishers: from now on a
 * database that is away, or silent for a second, is not waited for. There is no way back. */
void store_leave(struct store *store);
bool store_is_replaced(struct store *store); /* another file has its name: nothing works */
/* Waits until store_news() differs from `seen`, some foreign program wrote, store_wake was called,
 * or the time is over; answers the present number. Never misses a ring after `seen` was read. */
uint64_t store_wait(struct store *store, uint64_t seen, int64_t timeout_ms);
/* How often the store itself looks for changes that ring no bell (a lost wake-up, a process that
 * died) on behalf of all threads, and makes news of them: a thread that waits for news need not
 * look that often by itself. 0: it does not look. Costs nothing. */
int64_t store_look_ms(const struct store *store);
/* Ends the store_wait of this store's own threads. */
void store_wake(struct store *store);

/* What a worker is about to run. */
struct handler_note {
    int64_t subscription_id;
    int64_t position;
    int32_t attempt; /* the number of the attempt that begins */
    int64_t now_us;
};

/*
 * Notes: before a handler runs its worker writes down what it does, no sync. `slot` is the worker's
 * own, 0 .. STORE_NOTES_MAX-1. Others see by them what runs (struct progress, delivery_facts).
 * Where they are kept (store_takes_notes), the next process finds them if this one dies; an engine
 * that cannot do that (see acquire) shows them for as long as the process lives.
 */
void store_note(struct store *store, int32_t slot, const struct handler_note *note);
void store_note_clear(struct store *store, int32_t slot);
/* Whether notes outlive the process. Costs nothing. */
bool store_takes_notes(const struct store *store);
/* A sign of life: at least every lease_ms / 4 of the bus's shortest lease, and every heartbeat. */
void store_alive(struct store *store);
#endif
