/*
 * plan.h - what the dispatcher of a subscription has to do, in two words.
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
 * Threads: `needs` is atomic; threads other than the dispatcher set bits with the runner's mutex
 * held, so that a dispatcher that is about to wait does not miss them. `bars` is guarded by that
 * mutex.
 */
#ifndef HF_BUS_PLAN_H
#define HF_BUS_PLAN_H

enum need {
    NEED_TURN = 1 << 0,         /* look at everything once more before waiting */
    NEED_DEFINITION = 1 << 1,   /* read the definition again */
    NEED_STANDING = 1 << 2,     /* there was news: ask whether the definition has changed */
    NEED_OWNERSHIP = 1 << 3,    /* ordered: ask whether what is in hand is still ours */
    NEED_RESET = 1 << 4,        /* ordered: the log would be read differently, or more can be known
                                   of the store: give all back and begin again */
    NEED_MEMBERS = 1 << 5,      /* ordered: something has happened to what is ours: muster */
    NEED_MEMBERS_SOON = 1 << 6, /* ordered: there was news, perhaps of a death: muster soon */
    NEED_RETRIES = 1 << 7,      /* ordered: retries may have become due */
    NEED_LOG = 1 << 8,          /* there may be something in the log, or to claim */
    NEED_LOG_REST = 1 << 9,     /* ordered: the last read stopped at a limit, so there is more */
    NEED_READ_ON = 1 << 10,     /* ordered: a unit waits for that, as a worker has told */
    NEED_CHECKPOINT = 1 << 11,  /* ordered: something was done above a gap: when that ends there is
                                   something to store, although nothing more is done */
    NEED_BREAKER = 1 << 12,     /* store the breaker */
};

/* What news in the store may be about. */
#define NEEDS_OF_NEWS (NEED_STANDING | NEED_MEMBERS_SOON | NEED_RETRIES | NEED_LOG)

enum bar {
    BAR_STOPPING = 1 << 0,  /* the runner ends, or retires: see enum course */
    BAR_REMOVED = 1 << 1,   /* the subscription was removed: until the next start */
    BAR_LOST = 1 << 2,      /* what is in hand is not ours any more: until it is dropped */
    BAR_HELD_BACK = 1 << 3, /* paused, changed, or without a handler: until that is looked into */
    BAR_HALTING = 1 << 4,   /* an event dies and the policy is to halt: until that is stored */
    BAR_BREAKER = 1 << 5,   /* the breaker is open: until its pause is over, or its probe ended */
    BAR_AWAY = 1 << 6,      /* the store does not take what ends: until it does (runner_away) */
};

#endif
