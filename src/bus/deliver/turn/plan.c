/*
 * plan.c - what the dispatcher does next. See plan.h, whose table this is.
 *
 * No step is planned twice in a turn, because performing it takes it out of `steps`. What is
 * planned by a need alone (REFRESH, DROP, CHECK, ADMIT, RESET) clears the need, or what keeps it
 * from that stops the plan too: a failure of the store sets refresh_us or store_us, a definition
 * that has changed NEED_DEFINITION. So every turn ends.
 */
#include "bus/deliver/turn/plan.h"

#include <stdbool.h>

static int64_t earlier(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

/* A monotonic time as one of the wall clock. */
static int64_t wall_us(const struct situation *s, int64_t mono_us)
{
    return s->now_us + (mono_us - s->mono_us);
}

static bool is_paused(const struct situation *s)
{
    return s->mono_us < s->store_us;
}

static bool may_get(const struct situation *s)
{
    return (s->hand & HAND_OWNED) && plan_admits(s->needs, s->bars);
}

/* When to look again if nothing happens. */
static int64_t wake_at(const struct situation *s)
{
    int64_t at_us = s->wake_us;
    if (s->needs & (NEED_DEFINITION | NEED_STANDING)) {
        at_us = earlier(at_us, wall_us(s, s->refresh_us));
    }
    return is_paused(s) ? earlier(at_us, wall_us(s, s->store_us)) : at_us;
}

/* When what was not taken in this turn, because it was not due, will be. */
static int64_t due_at(const struct situation *s)
{
    int64_t retry_us = s->steps & STEP(ACTION_RETRIES) ? s->retry_us : INT64_MAX;
    int64_t claim_us = s->steps & STEP(ACTION_LOG) ? s->claim_us : INT64_MAX;
    return may_get(s) ? earlier(retry_us, claim_us) : INT64_MAX;
}

/* Nothing but the breaker is left to be done in this turn; later is something due. */
static struct plan rest(const struct situation *s, int64_t due_us)
{
    if ((s->steps & STEP(ACTION_BREAKER)) &&
        ((s->hand & HAND_BREAKS) || (s->needs & NEED_BREAKER))) {
        return (struct plan){.action = ACTION_BREAKER};
    }
    if (s->needs & NEED_TURN) {
        return (struct plan){.action = ACTION_TURN};
    }
    return (struct plan){.action = ACTION_WAIT, .wake_us = earlier(wake_at(s), due_us)};
}

/* The steps that move deliveries, in their order. */
static struct plan next_step(const struct situation *s)
{
    bool log = (s->needs & (NEED_LOG | NEED_LOG_REST | NEED_READ_ON)) || s->now_us >= s->claim_us;
    bool retries = (s->needs & NEED_RETRIES) || s->now_us >= s->retry_us;
    if ((s->steps & STEP(ACTION_SETTLE)) && (s->hand & HAND_OWNED)) {
        return (struct plan){.action = ACTION_SETTLE};
    }
    if ((s->steps & STEP(ACTION_RETRIES)) && retries && may_get(s)) {
        return (struct plan){.action = ACTION_RETRIES};
    }
    if ((s->steps & STEP(ACTION_LOG)) && log && may_get(s)) {
        return (struct plan){.action = ACTION_LOG};
    }
    return rest(s, due_at(s));
}

/* What is in hand: is it ours, may it be worked on, is it to be given back? */
static struct plan next_of_hand(const struct situation *s)
{
    bool fresh = !(s->needs & NEED_DEFINITION);
    bool owned = s->hand & HAND_OWNED;
    bool reset = (s->needs & NEED_RESET) && owned && fresh;
    if ((s->needs & NEED_OWNERSHIP) && owned && fresh && !reset) {
        return (struct plan){.action = ACTION_CHECK};
    }
    if ((s->needs & NEED_ADMISSION) && fresh) {
        return (struct plan){.action = ACTION_ADMIT};
    }
    if (s->steps & STEP(ACTION_TEND)) {
        return (struct plan){.action = ACTION_TEND};
    }
    if (reset && (s->hand & HAND_BUSY)) {
        return rest(s, INT64_MAX); /* the report of the worker that runs comes */
    }
    return reset ? (struct plan){.action = ACTION_RESET} : next_step(s);
}

static struct plan plan_drain(const struct situation *s)
{
    bool works = !(s->bars & (BAR_STOPPING | BAR_RETIRING));
    bool workers = s->hand & HAND_WORKERS;
    if (!workers && (works || !(s->hand & HAND_BUSY))) {
        return (struct plan){.action = ACTION_FINISH};
    }
    return works ? (struct plan){.action = ACTION_RESUME}
                 : (struct plan){.action = ACTION_WAIT, .wake_us = INT64_MAX};
}

static struct plan plan_pause(const struct situation *s)
{
    bool kept = s->hand & (HAND_OWING | HAND_STRAYS);
    if (kept && (s->bars & BAR_RETIRING) && s->mono_us < s->pause_us) {
        return (struct plan){.action = ACTION_WAIT, .wake_us = wall_us(s, s->pause_us)};
    }
    return (struct plan){.action = ACTION_FINISH};
}

static struct plan plan_halt(const struct situation *s)
{
    return s->hand & HAND_ABORTING ? (struct plan){.action = ACTION_WAIT, .wake_us = INT64_MAX}
                                   : (struct plan){.action = ACTION_LEAVE};
}

static struct plan plan_work(const struct situation *s)
{
    bool busy = s->hand & HAND_BUSY;
    if ((s->bars & BAR_STOPPING) || ((s->bars & BAR_RETIRING) && !busy)) {
        return (struct plan){.action = ACTION_END};
    }
    if (s->bars & BAR_REMOVED) {
        return (struct plan){
            .action = s->needs & NEED_TURN ? ACTION_TURN : ACTION_WAIT,
            .wake_us = INT64_MAX,
        };
    }
    if ((s->needs & (NEED_DEFINITION | NEED_STANDING)) && s->mono_us >= s->refresh_us) {
        return (struct plan){.action = ACTION_REFRESH};
    }
    if (is_paused(s)) {
        return rest(s, INT64_MAX);
    }
    if ((s->steps & STEP(ACTION_PAUSE)) && (s->hand & HAND_STUCK) &&
        !(s->needs & NEED_DEFINITION)) {
        return (struct plan){.action = ACTION_PAUSE};
    }
    if (s->bars & BAR_LOST) {
        return busy ? rest(s, INT64_MAX) : (struct plan){.action = ACTION_DROP};
    }
    return next_of_hand(s);
}

struct plan plan(const struct situation *s)
{
    switch (s->phase) {
    case PHASE_WORK:
        return plan_work(s);
    case PHASE_DRAIN:
        return plan_drain(s);
    case PHASE_RETIRE:
        return (struct plan){.action = ACTION_RETIRE};
    case PHASE_PAUSE:
        return plan_pause(s);
    case PHASE_HALT:
        return plan_halt(s);
    case PHASE_OVER:
        break;
    }
    return (struct plan){.action = ACTION_LEAVE};
}
