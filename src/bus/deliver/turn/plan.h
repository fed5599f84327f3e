/*
 * plan.h - what the dispatcher of a subscription does next: a pure function of its phase, two
 * words, the steps of its turn, and the clocks.
 *
 * `needs` has one bit for everything that is to be done or looked into. A bit is set when something
 * has happened (runner_need), by the thread that learns of it, and cleared when the dispatcher
 * begins to deal with it (runner_take); if that fails it is set again. What happens in the middle
 * of a look therefore is for the next look.
 *
 * `bars` has one bit for every reason why workers may begin nothing; what runs goes on. A bar is
 * raised (runner_raise) by the thread that learns of the reason, worker or dispatcher, and lowered
 * (runner_lower) by the dispatcher alone, when the reason is gone.
 *
 * Threads: the dispatcher is the thread that takes the runner's turn (dispatchers.h). `needs` is
 * atomic; `bars` is guarded by the runner's mutex.
 *
 * A turn begins when the runner is called, because of a need, or by its clock. It has steps, each
 * of which is taken at most once in a turn, if there is reason to. The dispatcher asks plan() for
 * the next action, performs it (dispatcher.c, the only part that talks to the store), and asks
 * again, until nothing is left that can be done now. So an action that cannot get on does not keep
 * the others from being done, and is not tried again before the next turn.
 *
 * Phases
 *     A runner is in one phase at a time (enum phase; runner_life.c changes it and draws how they
 *     follow each other). A turn ends where a phase does.
 *
 *     WORK     the table below
 *     DRAIN    FINISH when no worker is left and nothing runs; RESUME if it is to work again and
 *              workers are left; else WAIT for their reports
 *     RETIRE   RETIRE
 *     PAUSE    FINISH when its time has come, when the runner is not to retire any more, or when
 *              nothing keeps it from that; else WAIT
 *     HALT     LEAVE when no transaction is left that is to be rolled back; else WAIT
 *     OVER     LEAVE
 *
 *     WORK: first that applies      unless
 *     ---------------------------   ------------------------------------------------------------
 *     END      stopping, retiring   it retires, and something still runs
 *     WAIT     removed
 *     REFRESH  DEFINITION,          its last try failed and is too recent
 *              STANDING
 *     ..................................... only BREAKER while the store is given time ...........
 *     PAUSE    too many stuck       the definition is to be read first
 *     DROP     lost                 something runs; then only BREAKER
 *     CHECK    OWNERSHIP            nothing is owned, the definition is to be read first, or all is
 *                                   given back anyway
 *     ADMIT    ADMISSION            the definition is to be read first
 *     TEND     its step
 *     RESET    RESET                nothing is owned, the definition is to be read first; something
 *                                   runs; then only BREAKER
 *     SETTLE   its step             nothing is owned
 *     RETRIES  its step             nothing is owned or may begin; none is due, and no news
 *     LOG      its step             the same
 *     BREAKER  its step             there is no breaker and no rate
 *     TURN     TURN                 a new turn begins at once
 *     WAIT                          until the earliest of: the time that an action of this turn has
 *                                   named; when the store or the definition may be asked again;
 *                                   when what was not due is
 *
 * Nothing here blocks, and waiting is an answer: a thread serves many subscriptions.
 */
#ifndef HF_BUS_DELIVER_TURN_PLAN_H
#define HF_BUS_DELIVER_TURN_PLAN_H

#include <stdint.h>

enum need {
    NEED_TURN = 1 << 0,         /* look at everything once more before waiting */
    NEED_DEFINITION = 1 << 1,   /* read the definition again */
    NEED_STANDING = 1 << 2,     /* there was news: ask whether the definition has changed */
    NEED_ADMISSION = 1 << 3,    /* find out whether the definition and the handlers allow work */
    NEED_OWNERSHIP = 1 << 4,    /* ordered: ask whether what is in hand is still ours */
    NEED_RESET = 1 << 5,        /* ordered: the log would be read differently, or more can be known
                                 of the store: give all back and begin again. A bar, too */
    NEED_MEMBERS = 1 << 6,      /* ordered: something has happened to what is ours: refresh the
                                 members */
    NEED_MEMBERS_SOON = 1 << 7, /* ordered: there was news, perhaps of a death: refresh the members
                                   soon */
    NEED_RETRIES = 1 << 8,      /* ordered: retries may have become due */
    NEED_LOG = 1 << 9,          /* there may be something in the log, or to claim */
    NEED_LOG_REST = 1 << 10,    /* ordered: the last read stopped at a limit, so there is more */
    NEED_READ_ON = 1 << 11,     /* ordered: a unit waits for that, as a worker has told */
    NEED_CHECKPOINT = 1 << 12,  /* ordered: something was done above a gap: when that ends there is
                                   something to store, although nothing more is done */
    NEED_BREAKER = 1 << 13,     /* store the breaker */
};

/* What news in the store may be about. */
#define NEEDS_OF_NEWS (NEED_STANDING | NEED_MEMBERS_SOON | NEED_RETRIES | NEED_LOG)

enum bar {
    BAR_STOPPING = 1 << 0,  /* the runner is to halt: see enum course */
    BAR_RETIRING = 1 << 1,  /* the runner is to end when nothing runs any more */
    BAR_REMOVED = 1 << 2,   /* the subscription was removed: until the next start */
    BAR_LOST = 1 << 3,      /* what is in hand is not ours any more: until it is dropped */
    BAR_RESET = 1 << 4,     /* NEED_RESET: until all is given back */
    BAR_HELD_BACK = 1 << 5, /* paused, changed, or without a handler: until that is looked into */
    BAR_HALTING = 1 << 6,   /* an event dies and the policy is to halt: until that is stored */
    BAR_BREAKER = 1 << 7,   /* the breaker is open: until its pause is over, or its probe ended */
    BAR_AWAY = 1 << 8,      /* the store does not take what ends: until it does (runner_away) */
};

enum phase {
    PHASE_WORK,   /* it gets deliveries and stores what becomes of them */
    PHASE_DRAIN,  /* it begins nothing more, and waits until nothing runs */
    PHASE_RETIRE, /* it has given back what it had, or could not: what becomes of it? */
    PHASE_PAUSE,  /* it retires, but cannot yet, and tries again later */
    PHASE_HALT,   /* a stop waits for it */
    PHASE_OVER,   /* it takes no more turns */
};

/* What the dispatcher can do. The steps of a turn are among these: see STEP. */
enum action {
    ACTION_WAIT, /* until the plan's time, or a need */
    ACTION_TURN, /* begin a new turn */
    /* These end the turn, too: they are about the phase. */
    ACTION_END,    /* WORK is over: DRAIN */
    ACTION_RESUME, /* DRAIN is over: WORK, with the workers that are left */
    ACTION_FINISH, /* store the rest and give back what is ours: RETIRE */
    ACTION_RETIRE, /* find out what becomes of it: WORK, PAUSE, HALT or OVER */
    ACTION_LEAVE,  /* OVER */
    /* The actions of WORK. */
    ACTION_REFRESH, /* read the definition, if it has changed */
    ACTION_PAUSE,   /* pause the subscription: too many handlers are stuck */
    ACTION_DROP,    /* drop what is in hand */
    ACTION_CHECK,   /* ask whether what is in hand is still ours */
    ACTION_ADMIT,   /* decide whether work may begin */
    ACTION_TEND,    /* ordered: let partitions go, refresh the members; shared: look after leases */
    ACTION_RESET,   /* give all back */
    ACTION_SETTLE,  /* store what ended */
    ACTION_RETRIES, /* get retries that are due */
    ACTION_LOG,     /* read the log, or claim */
    ACTION_BREAKER, /* store the breaker, and ask it; take a share of the rate */
};

#define STEP(action) (UINT32_C(1) << (action))

/* What is in hand. */
enum hand {
    HAND_BUSY = 1 << 0,     /* something runs */
    HAND_OWNED = 1 << 1,    /* ordered: a partition, also one that is about to go; shared: always */
    HAND_STUCK = 1 << 2,    /* too many handlers are past their time, and it is not paused */
    HAND_BREAKS = 1 << 3,   /* there is a breaker, or a rate */
    HAND_WORKERS = 1 << 4,  /* it has workers */
    HAND_STRAYS = 1 << 5,   /* handlers that were given up have not returned */
    HAND_ABORTING = 1 << 6, /* a transaction of one of them is still to be rolled back */
    HAND_OWING = 1 << 7,    /* the last FINISH could not store or give back everything */
};

/* All that the plan depends on. Times are in microseconds; INT64_MAX: never. */
struct situation {
    enum phase phase;
    uint32_t needs;
    uint32_t bars;
    uint32_t hand;
    uint32_t steps;     /* of the turn, still to be taken */
    int64_t now_us;     /* wall clock, when the turn began */
    int64_t mono_us;    /* the same, monotonic */
    int64_t refresh_us; /* monotonic; the definition is not read before */
    int64_t store_us;   /* monotonic; nothing else is asked of the store before */
    int64_t retry_us;   /* wall clock; when a retry is due */
    int64_t claim_us;   /* wall clock; shared: when something to claim is due */
    int64_t wake_us;    /* wall clock; what was done in this turn wants to be looked at then */
    int64_t pause_us;   /* monotonic; PHASE_PAUSE: until then */
};

struct plan {
    enum action action;
    int64_t wake_us; /* ACTION_WAIT: wall clock */
};

struct plan plan(const struct situation *situation);

/* Do the definition and the handlers allow work, as far as is known? */
static inline int plan_admits(uint32_t needs, uint32_t bars)
{
    return !(bars & BAR_HELD_BACK) && !(needs & NEED_DEFINITION);
}

#endif
