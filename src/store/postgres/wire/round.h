/*
 * round.h - one round trip on the writer's session, for all changes of a list that are open.
 *
 * A change is open until it has its answer. A round gives most their answers; one that failed for a
 * reason that another round may not meet stays open. Which rounds follow each other, and what to do
 * when the connection is lost, is for apply.c to say.
 */
#ifndef HF_STORE_POSTGRES_WIRE_ROUND_H
#define HF_STORE_POSTGRES_WIRE_ROUND_H

#include "store/postgres/wire/session.h"
#include "store/store.h"

/* While a change is open its status is one of these. */
#define NOT_BEGUN ((hf_status)-2) /* nothing has happened, for sure */
#define SENT ((hf_status)-1)      /* on its way: it may have happened */

static inline bool change_is_open(const struct change *change)
{
    return change->status == NOT_BEGUN || change->status == SENT;
}

/* How much may fail together: less from round to round. Changes other than appends and firings
 * always have a transaction of their own. */
enum portion {
    PORTION_BUNDLE,   /* all of a kind that fit into one statement */
    PORTION_TOGETHER, /* all appends in one transaction, a statement each */
    PORTION_SINGLE    /* every change for itself */
};

struct round {
    struct postgres_engine *engine;
    struct session *session; /* connected */
    struct change *changes;
    enum portion portion;
    int64_t now_us;    /* our wall clock */
    bool ring_appends; /* set: events were appended */
    bool ring;         /* set: something else happened that others should hear of */
};

/* Sends what has not begun and reads what comes; then nothing is SENT any more. Anything but HF_OK:
 * the connection is lost, or it was closed because what was to be sent could not be put together,
 * or nothing could be sent. */
hf_status round_run(struct round *round);

/* Remembers that others should hear of a change. */
void round_ring(struct round *round, const struct change *change);

/* After a loss: only appends stay SENT, and doubtful. They can be sent again, because their ids
 * tell what happened. For others that is not known, and they are answered HF_UNKNOWN. */
void round_lost(struct round *round);

#endif
