/*
 * gap.h - which numbers of a sequence are still to come, and which never will.
 *
 * Numbers are drawn one after the other, but what was drawn becomes visible when its transaction
 * commits: in any order, or never. A reader that sees 7 and 9 has to know about 8: is it under way,
 * or was it rolled back? A transaction that draws a number takes a lock before and keeps it to its
 * end, and its commit is visible before the lock goes. So the lock's holders answer it:
 *
 *     read the log: 8 is missing         the drawer of 8 has ended, or holds the lock now
 *     look at the holders: A and B       it has ended, or it is A or B
 *     look again: A and B are gone       it has ended
 *     read 8 again: still missing        it was rolled back: 8 is dead
 *
 * What is kept here
 *   struct gap        one reader's: the highest number seen and the holes below it, as ranges. The
 *                     floor is the number below the lowest hole: everything up to it is decided.
 *   struct gap_watch  the holders, each with the number of the look that first saw it. One watch
 *                     serves all readers of the same log: a hole remembers only the number of the
 *                     first look after it was seen, and its holders are gone when none is left
 *                     that this look, or an earlier one, has seen.
 *
 * Everything is a pure function of its arguments; the caller keeps to this order, which is what
 * the proof rests on (docs/ordering.md):
 *   1. A look gets its number before it begins. The `begun` of gap_tail is the number of the last
 *      look that had begun when the result of the reading was there.
 *   2. The look given to gap_reread was complete before the reading that is told with it began.
 */
#ifndef HF_BASE_GAP_H
#define HF_BASE_GAP_H

#include <holdfast.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/set64.h"

#define GAP_HOLES_MAX 4096      /* ranges of one reader */
#define GAP_HOLDERS_MAX 1000000 /* transactions that hold the lock at one time */

/* ---- Holders --------------------------------------------------------------------------------- */

/* A transaction that holds the lock. */
struct gap_holder {
    uint64_t id;   /* no two transactions of a server's life have the same */
    bool prepared; /* for two-phase commit: its session is gone, and it may have a new id since */
};

/* What a look has shown. */
struct gap_look {
    uint64_t number; /* 1, 2, 3 ...; 0: there was no look yet */
    uint64_t oldest; /* the look that first saw the oldest holder; UINT64_MAX: there is no holder */
};

struct gap_watch {
    struct set64 since[2]; /* id -> the look that first saw it (gap.c); [0] is the present one */
    struct gap_look look;  /* the last one */
};

void gap_watch_init(struct gap_watch *watch);
void gap_watch_release(struct gap_watch *watch);

/*
 * Tells the holders that look `number` has found; numbers rise. A holder that was there before
 * keeps the look that first saw it. One that is prepared and was not there before, or only in the
 * look before, may be one of those that are missing now, under a new id: it takes the lowest of
 * their numbers. A holder may be named twice. HF_NOMEM, HF_INVALID (more than GAP_HOLDERS_MAX): it
 * is as if there had been no look.
 */
hf_status gap_watch_look(struct gap_watch *watch, uint64_t number, const struct gap_holder *holders,
                         size_t count);

/* ---- Holes ----------------------------------------------------------------------------------- */

/* Numbers that were read without interruption. */
struct gap_run {
    int64_t first;
    int64_t last;
};

/* Numbers that were missing below a visible one. */
struct gap_hole {
    int64_t first;
    int64_t last;
    uint64_t begun;   /* the last look that had begun when they were found missing */
    uint64_t witness; /* the look whose holders must be gone; 0: there was none after `begun` yet */
    int64_t since_us; /* when they were found missing */
};

struct gap {
    struct gap_hole *holes; /* in order, disjoint */
    size_t count;
    int64_t high;    /* the highest number seen */
    int64_t dead;    /* numbers proven dead so far */
    int64_t skipped; /* numbers given up by the timeout so far: a guess, not a proof */
};

/* Everything up to `after` is decided. Allocates nothing yet. */
void gap_init(struct gap *gap, int64_t after);
void gap_release(struct gap *gap);

/* The highest number that everything up to is decided: seen, dead or skipped. Never sinks. */
int64_t gap_floor(const struct gap *gap);
/* The highest number that may be handed on: in strict order nothing passes a hole; else everything
 * that was seen may go, and what fills a hole goes when it comes. */
int64_t gap_ready(const struct gap *gap, bool strict);
/* Is the number in a hole? */
bool gap_is_open(const struct gap *gap, int64_t number);

/*
 * Tells what a reading after gap->high has shown: runs, in order, all of them above it. What is
 * between them becomes holes. If there are too many, only the runs that fit are taken: those whose
 * numbers are at or below gap->high afterwards. The others are to be read again later. HF_NOMEM:
 * nothing was taken.
 */
hf_status gap_tail(struct gap *gap, const struct gap_run *runs, size_t count, uint64_t begun,
                   int64_t now_us);

/* Everything up to `through`, which is not below gap->high, is decided in another way. There are no
 * holes. */
void gap_pass(struct gap *gap, int64_t through);

/*
 * Tells what reading the holes again has shown: the numbers that were there, in order, each of them
 * in a hole. `through`: the reading was complete up to there (INT64_MAX: altogether). What is still
 * missing is dead if the look proves it, and is skipped if it has been missing for timeout_us or
 * more (0: never; without a proof this loses what a slow transaction commits later).
 *
 * Numbers found in the middle of a hole split it. If there are too many holes, only the first
 * numbers are taken. ret_through: found numbers up to there were taken (INT64_MAX: all were); the
 * others remain in their holes and are to be read again later. HF_NOMEM: nothing was taken, and
 * nothing decided.
 */
hf_status gap_reread(struct gap *gap, const int64_t *found, size_t count, int64_t through,
                     struct gap_look look, int64_t now_us, int64_t timeout_us,
                     int64_t *ret_through);

#endif
