/*
 * outcome.h - what becomes of one delivery, in rows: what settle, settle_lease, transactions and
 * the recovery after a crash have in common.
 *
 *                    log
 *                     | RETRY, a crash            HELD
 *                     v                            v
 *     retries:    1 waiting <---- promotion ---- 2 held        4 leased (shared)
 *                     |  BLOCK \                   |
 *                DONE |         v                  | (when its lane is free)
 *                DEAD |       3 blocked -----------+
 *                     v             resolved, purged: the row goes; retried: waiting
 *                    gone
 *
 * A lane's row never waits for one behind it: whenever a row leaves a lane and the first that is
 * left is held, that one becomes waiting.
 */
#ifndef HF_STORE_SQLITE_WRITE_OUTCOME_H
#define HF_STORE_SQLITE_WRITE_OUTCOME_H

#include "store/retry.h"
#include "store/store.h"

struct sqlite_engine;
struct conn;

/*
 * How many open dead letters of each kind there are is counted along: letters of one kind agree in
 * subscription, type, reason and error (hash_kind in base/hash.h). A change that adds or takes
 * letters notes their kinds, and stores the sums as its last step (dead.c): a hundred events that
 * are buried for one reason write one row. If the change fails, what it noted is dropped with it.
 */
#define DEAD_KINDS_NOTED 16 /* then they are stored, and others can be noted */

/* All zero: nothing is noted. */
struct dead_kinds {
    int64_t kinds[DEAD_KINDS_NOTED];
    int64_t letters[DEAD_KINDS_NOTED]; /* so many more; negative: fewer */
    int count;
};

/* Notes that there are `letters` more open letters of a kind. */
hf_status dead_kinds_note(struct sqlite_engine *engine, struct conn *conn, int64_t kind,
                          int64_t letters, struct dead_kinds *noted);
/* Stores what is noted; then nothing is. */
hf_status dead_kinds_store(struct sqlite_engine *engine, struct conn *conn,
                           struct dead_kinds *noted);

/* Where the deliveries belong that are being settled. */
struct outcome_scope {
    int64_t subscription_id;
    int32_t partition; /* shared: 0 */
    bool ordered;
    int64_t checkpoint; /* ordered: done and dead ones above it are remembered in `settled` */
    int64_t now_us;
    uint64_t lane;            /* of deliveries that have no row yet; 0: their own */
    int32_t attempts_max;     /* a doubtful attempt is never the last of these; 0: no such rule */
    int64_t doubt_through;    /* ordered: of these events it is not known how often they were handed
                              out, unless their rows say so */
    struct dead_kinds *kinds; /* of letters that are made; never NULL where outcomes are applied */
};

/* Does what outcome->kind says, but for promoting. ret_left: a row left its lane (left_lane), so
 * outcome_promote must follow, when all outcomes of the change are applied. HF_MISUSE for a kind
 * that does not fit the scope. */
hf_status outcome_apply(struct sqlite_engine *engine, struct conn *conn,
                        const struct outcome_scope *scope, struct outcome *outcome, bool *ret_left);

/* Makes the lane's first row waiting, due now, if it is held. ret_busy: the lane has rows. */
hf_status outcome_promote(struct conn *conn, const struct outcome_scope *scope, uint64_t lane,
                          bool *ret_busy);

/* After a row was held: if nothing but held rows is in its lane (an operator has just freed it),
 * the first of them becomes waiting, due now. */
hf_status outcome_check_held(struct conn *conn, const struct outcome_scope *scope, uint64_t lane,
                             bool *ret_due);

/* Takes a delivery that is done out of retries, with its copy; if it had failed, its story is kept
 * as an outcome. attempts: how many had failed before the last one; -1: all that are recorded.
 * ret_left: there was a row, of this lane. */
hf_status outcome_finish(struct conn *conn, const struct outcome_scope *scope, int64_t position,
                         int32_t attempts, bool *ret_left, uint64_t *ret_lane);

/* An attempt that ended without a result. */
struct lost_attempt {
    int64_t position;
    int32_t attempt;    /* its number if it is known: recorded once only; else 0 */
    enum cause cause;   /* CAUSE_DIED or CAUSE_EXPIRED */
    struct text node;   /* who ran it; may be absent */
    bool doubtful;      /* others ran in the same process: it is not known which one killed it */
    int32_t deliveries; /* shared, and without a row: how often it was handed out; -1: not known */
};

/* Records it: one more failed attempt, waiting, due now; a doubtful one that would be the last does
 * not count. If it is shared and the number of the attempt is not known, it is a guess that this
 * event was the reason, so it will be handed out alone. ret_recorded is false, and nothing was
 * written, if that attempt was recorded before, the event is given up, or it is nowhere any
 * more. */
hf_status outcome_record(struct sqlite_engine *engine, struct conn *conn,
                         const struct outcome_scope *scope, const struct lost_attempt *lost,
                         bool *ret_recorded);

#endif
