/*
 * inside.h - the tail as its files see it: tail.c reads the log, rest.c has those that rest,
 * follower.c takes from the tail. The mutex of the tail is held, unless it says otherwise.
 */
#ifndef HF_BUS_DELIVER_TAIL_INSIDE_H
#define HF_BUS_DELIVER_TAIL_INSIDE_H

#include <pthread.h>

#include "base/set64.h"
#include "bus/deliver/tail/tail.h"
#include "store/common/batch.h"
#include "store/common/filter.h"
#include "store/common/pages.h"

struct tail {
    struct store *store;
    struct dispatchers *dispatchers;
    atomic_bool wanted;          /* one that rests was called to read on */
    _Atomic int32_t resting;     /* how many rest; changed under the mutex */
    pthread_mutex_t mutex;       /* guards what follows. Before those of runners */
    struct follower *rest_first; /* those that rest; the first has done so for longest */
    struct follower *rest_last;
    uint64_t swept_next; /* when none was left for tail_sweep: `next` ... */
    int64_t swept_floor; /* and `floor` */
    int64_t swept_us;    /* those that it called have had the time until then; monotonic */
    pthread_cond_t read_on;
    bool reading; /* a thread reads, without the mutex; `reader` and `fresh` are its own */
    int32_t followers;

    struct reader *reader;   /* NULL: it has not begun */
    uint64_t run;            /* rises when it begins anew */
    uint64_t stale_run;      /* what runs up to this one have brought may be untrue */
    struct reader_life life; /* that it has read in */
    struct batch fresh;      /* what was read last */

    struct pages pages; /* the last events */
    uint64_t disorder;  /* number of the last event that came below one before it */
    int64_t floor;
    int64_t top; /* the highest position that has come */

    bool more;        /* there may be more to read right now */
    uint64_t news;    /* store_news before it was read */
    int64_t read_us;  /* when it was read; monotonic */
    int64_t begin_us; /* begin_now does not try again before; monotonic */
};

enum place { ALONE, AT_TAIL };

struct follower {
    struct tail *tail;
    bool strict;
    int64_t gap_timeout_ms;
    enum place place;
    struct reader *reader; /* ALONE: its own, NULL before the first look */
    uint64_t run;          /* AT_TAIL: of the tail */
    uint64_t cursor;       /* AT_TAIL: all events before this one are taken */
    int64_t floor;
    struct reader_life life; /* in which all that is known was read */
    struct set64 above;      /* position -> 1 */
    int64_t above_top;       /* the highest of them */
    bool above_short;        /* there are more of them than are remembered */

    struct follower_owner owner; /* seat NULL: none */
    bool rests;
    struct follower *rest_next; /* in the list of those that rest, or of those that are called */
    struct follower *rest_previous;
    int64_t rest_us;      /* since when; monotonic */
    uint64_t rest_number; /* `next` then ... */
    int64_t rest_floor;   /* and `floor` */
    struct filter_copy wants;
};

/* ---- tail.c ---------------------------------------------------------------------------------- */

/* Ends the run: nothing is kept, and those that follow go on alone. No thread reads. */
void tail_end_run(struct tail *tail);
/* Begins after this position, which is known from what was read in this life. No thread reads. */
hf_status tail_begin_run(struct tail *tail, int64_t after, struct reader_life life);
/* The same for one that claims. The mutex is not held meanwhile. */
void tail_begin_now(struct tail *tail);
bool tail_has_news(const struct tail *tail);
/* Is it time to read on? */
bool tail_is_old(const struct tail *tail);
/* Reads on. The mutex is not held meanwhile; no other thread reads. */
hf_status tail_read_on(struct tail *tail);

/* ---- rest.c ---------------------------------------------------------------------------------- */

/* Is the event for the follower, and if so, matched by its patterns? */
bool rest_is_wanted(const struct filter *filter, const struct entry *entry, bool *ret_matches);
/* The follower is behind everything: from now on it is called only for what it wants. */
void rest_begin(struct follower *follower, const struct filter *filter);
/* It rests no more: it has passed all before this number, and everything up to the floor. */
void rest_end(struct follower *follower, uint64_t number, int64_t floor);
/* Ends the rest of all, and calls them. */
void rest_end_all(struct tail *tail);
/* What has just been read has the numbers from `first` on; before it the floor was `floor`. Calls
 * those that it is for. */
void rest_tell(struct tail *tail, uint64_t first, int64_t floor);

/* ---- follower.c ------------------------------------------------------------------------------ */

bool follower_has_taken(const struct follower *follower, int64_t position);
void follower_note_floor(struct follower *follower, int64_t floor);

#endif
