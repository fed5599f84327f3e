/*
 * cancel.h - the part of the store's contract (store.h) about deliveries that are cancelled:
 * settled for one subscription without a handler. docs/adr/0032 says why it is as it is.
 *
 * A row of `cancels` is one of two things:
 *
 *   a mark       the delivery is cancelled: when, by whom, why. It is over like one that is done:
 *                no row in retries, in no lease; above the checkpoint (shared: above the cursor, or
 *                in a hole below it) it has a row in `settled`, which readers of the log obey.
 *   a request    a living process may have the event in hand, so only that process can tell whether
 *                a handler runs. It is asked: the generation of the subscription rises, the process
 *                lists the requests (store_cancels) and answers each with a change of its own.
 *
 * So a handler never runs after its event was said to be cancelled, and an event that is said to be
 * cancelled is not in a handler.
 */
#ifndef HF_STORE_CANCEL_H
#define HF_STORE_CANCEL_H

#include "store/store.h"

enum cancel_state {
    CANCEL_NONE,   /* there is neither a mark nor a request (any more) */
    CANCEL_ASKED,  /* a request is stored: the process that has the event in hand decides */
    CANCEL_MARKED, /* it is cancelled now */
    CANCEL_BEFORE, /* it was cancelled before, and what was stored then stays */
    CANCEL_SETTLED /* it is settled, or a dead letter that blocks its lane: nothing is cancelled */
};

/* Who cancels. */
enum cancel_part {
    CANCEL_REQUEST,  /* a caller that has nothing in hand */
    CANCEL_WITHDRAW, /* the same one takes its request back: CANCEL_NONE, or CANCEL_BEFORE */
    CANCEL_UNREAD,   /* ordered: the owner, which has not read the event from the log yet */
    CANCEL_IN_HAND,  /* the owner, or the holder of the lease: it has the event, no handler has
                        begun with it, and none will */
    CANCEL_WAITING /* ordered: the owner has read it and has it no more, so it is cancelled only if
                        it waits in retries */
};

/*
 * Cancels one delivery. What becomes of it, by where it is:
 *
 *   not read yet, in a hole               marked; ordered with a living owner: CANCEL_ASKED
 *   waits in retries, held                marked, its story is kept as an outcome, the next one of
 *                                         its lane goes on; ordered with a living owner: ASKED
 *   in a lease that is not `kept`, or     marked, and taken out of the lease: a settle of it
 *     of a dead process                   answers HF_STALE
 *   in a `kept` lease of a living         CANCEL_ASKED
 *     process
 *   settled, or blocked by its open       CANCEL_SETTLED, and a request goes
 *     dead letter
 *   cancelled                             CANCEL_BEFORE
 *
 * A partition whose owner is dead gets a new epoch, so that nothing which is still on its way from
 * that process settles the event. UNREAD, IN_HAND and WAITING answer a request: CANCEL_NONE if
 * there is none (it was withdrawn); HF_STALE if the hold is not ours any more. HF_NOTFOUND: no such
 * subscription. The caller has found the event in the log, and that it is for the subscription.
 * Rings if something changed.
 */
struct cancel {
    struct change change;
    int64_t subscription_id;
    int64_t position;
    int64_t hash; /* the event's */
    enum cancel_part part;
    struct hold hold; /* UNREAD, IN_HAND, WAITING */
    struct text by;   /* REQUEST */
    struct text reason;
    enum cancel_state ret_state;
    bool ret_waited;    /* MARKED: it had a row in retries */
    bool ret_lane_busy; /* MARKED, ordered, ret_waited: its lane still has rows there */
};

/* The requests of a subscription, by position, at most `max`. */
typedef int (*cancel_fn)(int64_t position, int64_t hash, void *ctx);
hf_status store_cancels(struct store *store, int64_t subscription_id, int32_t max, cancel_fn found,
                        void *ctx);

#endif
