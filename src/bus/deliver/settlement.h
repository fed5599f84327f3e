/*
 * settlement.h - one settle of a runner: what has ended, and what is stored about it.
 *
 * The mode collects slots of its window (under the mutex), makes their outcomes, stores them in one
 * change, and then closes the slots or, if the store has refused, leaves them for the next
 * settlement. A slot whose handler's transaction has settled it is closed with the others and needs
 * no outcome.
 *
 * Its memory is as large as the largest settle; it comes and goes with that of the window's slots.
 * Only the dispatcher uses it.
 */
#ifndef HF_BUS_DELIVER_SETTLEMENT_H
#define HF_BUS_DELIVER_SETTLEMENT_H

#include "bus/deliver/window/window.h"

struct runner;

struct settlement {
    struct slot **slots; /* what was collected */
    size_t count;
    struct outcome *outcomes; /* of those that no transaction has settled, in their order */
    size_t outcome_count;
    int64_t judged_us;   /* when they were made */
    struct buf *stories; /* the outcomes': memory that is used again */
    size_t begun;        /* stories that have ever been in use */
    size_t max;          /* slots, and outcomes */
};

/* For so many at once. Allocates nothing. */
void settlement_init(struct settlement *settlement, size_t max);
/* Memory for as many; before the first one is added. HF_NOMEM: it may be asked again. */
hf_status settlement_prepare(struct settlement *settlement);
/* Frees that memory, until it is prepared again; also of one that is all zero. */
void settlement_put_away(struct settlement *settlement);

/* Forgets what was collected. */
void settlement_clear(struct settlement *settlement);
bool settlement_full(const struct settlement *settlement);
/* It is not full. */
void settlement_add(struct settlement *settlement, struct slot *slot);

/* Makes the outcomes; the pause before another attempt is counted from now. Clears *relaxed if one
 * of them must not be lost: a dead letter. The mutex is not held. */
hf_status settlement_judge(struct settlement *settlement, struct runner *runner, bool *relaxed);
/* They are stored: tells the log of every failed attempt, and counts them. */
void settlement_told(const struct settlement *settlement, const struct runner *runner);

#endif
