/*
 * ahead.h - the next fetch of a reader that is behind, made while its caller works on the last one.
 *
 * A reader that got as many rows as it may ask for will ask for those after them. Without this the
 * server would rest while the events are handed up, and the caller while the server reads. So the
 * reader asks at once, and a thread of the engine makes the fetch, on a session that it borrows for
 * it: no session, transaction or snapshot is kept for a caller that does not come back soon.
 *
 * What comes of it is what the reader would have got if it had asked itself at that moment: rows of
 * one snapshot after the highest position that it has seen. It takes them only if nothing has
 * changed for it since: no hole is open, it wants the same types and partitions, and the era
 * (wire/era.h) is the one that it reads in. Else it drops them and asks anew. So the gap proof does
 * not know of reading ahead; it only sees rows that came a little later.
 */
#ifndef HF_STORE_POSTGRES_READ_AHEAD_H
#define HF_STORE_POSTGRES_READ_AHEAD_H

#include "store/postgres/postgres.h"
#include "store/postgres/read/fetch.h"

#define AHEAD_MAX 4            /* fetches that wait to be taken: bounds their memory */
#define AHEAD_IDLE_MS 1000     /* after so long without work the thread ends */
#define AHEAD_SESSIONS_LEAST 2 /* of the pool: one for it, and one for all others */
#define AHEAD_PACE_US 1000000  /* a reader that takes longer from fetch to fetch is slow */

enum ahead_state {
    AHEAD_NONE,
    AHEAD_ASKED,   /* in the list of what is to be fetched */
    AHEAD_RUNNING, /* the thread has it */
    AHEAD_DONE,
};

/* What a reader has asked for ahead. Zero: nothing, ever. As long as it is asked what its fetch
 * points to stays as it is. */
struct ahead_fetch {
    struct fetch fetch;     /* its limit is 0: nothing is asked */
    uint64_t era;           /* in which it is to be made */
    int64_t taken_us;       /* when the reader had its last answer, ahead or not */
    int64_t pace_us;        /* from the answer before until then */
    hf_status status;       /* of the fetch that is done */
    enum ahead_state state; /* under the mutex of the engine's `ahead` */
    struct ahead_fetch *next;
};

static inline bool ahead_is_asked(const struct ahead_fetch *ahead)
{
    return ahead->fetch.limit > 0;
}

/* Asks for this, unless something is asked already, there is no room or thread for it, or the
 * reader is so slow that it would lie there. */
void ahead_ask(struct ahead *ahead, struct ahead_fetch *fetch, const struct fetch *what,
               uint64_t era);
/* The reader is about to ask. True: it need not, these are the answers. */
bool ahead_take(struct ahead *ahead, struct ahead_fetch *fetch, struct fetch *what);
/* The reader is about to want something else, or nothing. */
void ahead_drop(struct ahead *ahead, struct ahead_fetch *fetch);

#endif
