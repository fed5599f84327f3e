/*
 * ordered.h - the ordered mode as its files see it: ordered.c is the mode, membership.c shares the
 * partitions out and owns ours, fill.c fills the window, settle.c settles. All of
 * it runs on the dispatcher.
 */
#ifndef HF_BUS_DELIVER_ORDERED_ORDERED_H
#define HF_BUS_DELIVER_ORDERED_ORDERED_H

#include "base/ranges.h"
#include "bus/deliver/runner.h"
#include "bus/deliver/settlement.h"
#include "bus/deliver/tail/tail.h"

#define STRICT_LANE 1 /* strict order makes all events one lane */

enum part_state {
    PART_OURS,
    PART_LEAVING, /* to be given back when nothing of it runs */
    PART_LOST     /* another process has it: to be dropped when nothing of it runs */
};

/* A partition that we own, or have not quite let go of. */
struct part {
    int32_t number;
    _Atomic enum part_state state; /* written under the mutex, also by workers */
    int64_t epoch;
    int64_t checkpoint;    /* as stored */
    int64_t floor;         /* of its events all up to here have been put into the window, or have a
                           row; those above that have been are in ordered->handed */
    bool unclean;          /* a process died with it: see prerecord.h */
    bool confirmed;        /* membership_check: the store says that it is ours */
    int64_t doubt_through; /* up to here it is not known how often events were handed out */
};

/* Do we take part in the sharing, as of the last refresh? */
enum membership {
    MEMBERSHIP_NONE,
    MEMBERSHIP_SHARED,
    MEMBERSHIP_ALONE /* there is nothing more that we would take from others */
};

struct ordered {
    int32_t room;       /* numbers of partitions: as many as there were when it was made */
    struct part *parts; /* changed under the runner's mutex */
    int32_t part_count;
    int16_t *places;                       /* of each number in `parts`; -1: it is not there */
    uint64_t bits[HF_PARTITIONS_MAX / 64]; /* those that are OURS, for the filter */

    int64_t *owing; /* of each number: the epoch, if it could not be given back; 0: it was */
    enum membership membership;
    bool drained;            /* another number of partitions can be had: all are to be given back */
    int64_t barrier;         /* while another number is requested, nothing is handed out beyond
                             this; as of the last refresh of the members */
    int64_t members_version; /* as of the last refresh */
    int64_t members_refreshed_us; /* monotonic: the last one */
    uint64_t assigned;            /* the version of the assignments that the last refresh went by */
    int64_t assigned_generation;  /* the generation of the definition that it went by */
    struct ranges wanted;         /* what we were assigned then, if `fixed` */
    bool fixed;                   /* partitions were assigned to us */
    struct ranges waits;          /* what of that another process had when we last said so */
    bool owned_before;            /* since the runner started: single mode takes over only once */

    int64_t seen_us;    /* the wall clock at the last step */
    int64_t generation; /* of the definition that what is in hand was read by */

    struct follower *follower; /* of the log */
    int64_t floor;             /* it has handed up everything up to here */
    struct set64 handed;       /* what it has handed up above the floor: position -> partition */
    int64_t handed_top;        /* the highest of them */
    bool handed_short;         /* not all of them: there was no room to remember the others */
    struct set64 ahead; /* positions above their partition's floor that are not to be put again:
                            position -> partition */
    int64_t ahead_end;  /* up to here they are known: nothing is read beyond it before it is all
                            done, and they are loaded again; INT64_MAX: all are known */

    int64_t passed_us;    /* since when events that do not match were passed over and checkpoints
                             were not stored; 0: none were */
    int64_t unflushed_us; /* since when there is something to store; 0: nothing */
    int64_t stored_us;    /* when checkpoints were stored last */
    int64_t storing_us;   /* how long that took */
    int64_t held_us;      /* since when a delivery is held and not stored; 0: none is */
    int64_t retry_at_us;  /* when the next retry is due; INT64_MAX: none known */
    struct set64 passed;  /* retries that are due and were read, but are not put before runner->torn
                             is whole: position -> 1 */
    struct set64 passed_lanes; /* the lanes of these */
    int64_t prerecord;     /* events still to be run one at a time, each attempt recorded first */
    int64_t prerecord_end; /* the position up to which these lie */

    struct mark *marks; /* room for one of each number */
};

/* ---- membership.c ---------------------------------------------------------------------------- */

/* Takes part in the sharing: refreshes the members if it is time, takes what is free of our
 * share, gives back what is more than that, drops what was lost. If the handlers do not cover
 * the patterns we let go of all. */
void membership_tend(struct runner *runner, struct turn *turn);
/* Asks the store whether all that is in hand is still ours, and the definition of this generation
 * is still the stored one; the only place that does. What is not ours any more is lost. False: not
 * all is so, or the store could not be asked: the definition is to be read again. */
bool membership_check(struct runner *runner, int64_t generation);
/* Logs that a partition was lost: to another process if the stored definition is of the generation
 * that the log was read by, else to a seek or another change of the subscription. */
void membership_say_lost(struct runner *runner, int64_t generation);
/* Reading goes back to the lowest floor; what is in hand or done is not put again. */
void membership_read_again(struct runner *runner);
/* Gives back all partitions; nothing runs any more and everything is settled that can be. False:
 * not all could be, and are owed. */
bool membership_give_back(struct runner *runner, int64_t now_us);
/* Gives back what is owed. False: not all. */
bool membership_give_back_pending(struct runner *runner, int64_t now_us);
/* Is no member any more. */
hf_status membership_leave(struct runner *runner, int64_t now_us);
/* Nothing is in hand: makes room for as many partitions as the subscription has now. False: there
 * is no memory. */
bool membership_make_room(struct runner *runner);
/* Drops all that is in hand; no handler may be running. */
void membership_drop(struct runner *runner);
/* The partition of this number, if it is (still) in hand; else NULL. */
struct part *ordered_part(struct ordered *ordered, int32_t partition);

/* ---- ordered.c ------------------------------------------------------------------------------- */

/* Are all events one lane? That cannot be changed. */
bool ordered_is_strict(const struct runner *runner);
/* Nothing is in hand: room for so many partitions. What is owed of other numbers is forgotten: it
 * cannot be ours any more. Without memory nothing has happened. */
hf_status ordered_make_room(struct ordered *ordered, int32_t partitions);

/* ---- settle.c -------------------------------------------------------------------------------- */

/* Stores what ended and, when it is time and if they may move, the checkpoints. False: it failed,
 * or work was lost. *ret_again: there is more to store, or to try again, at once. */
bool ordered_flush(struct runner *runner, struct turn *turn, bool move, bool *ret_again);
/* Events that are not for us were passed: the turn is followed by another one when checkpoints are
 * to be stored for that, since no worker reports. */
void ordered_floor_moved(struct runner *runner, struct turn *turn);
/* Stores what ended of one partition with its checkpoint, if that may move. *ret_all: that was
 * everything. */
hf_status ordered_flush_part(struct runner *runner, struct part *part, int64_t now_us, bool move,
                             bool *ret_all);
/* Before what is in hand of a partition is dropped: what is done above the checkpoint is
 * remembered, so that it is not delivered again. Nothing of it runs any more. */
hf_status ordered_remember(struct runner *runner, const struct part *part, int64_t now_us);
/* What a refused settle means: the work is lost, the definition is stale, or the store failed.
 * `part` NULL: it was about all of them. */
void ordered_not_settled(struct runner *runner, struct part *part, hf_status status);
/* Was a change refused for a reason that the next step deals with at once? */
bool ordered_is_answered(hf_status status);

/* ---- load.c ---------------------------------------------------------------------------------- */

/* Loads what the store knows of a partition that was taken, beyond its checkpoint. */
hf_status ordered_load(struct runner *runner, const struct part *part);

/* ---- fill.c ---------------------------------------------------------------------------------- */

/* Get work into the window: retries that are due, and the log. */
void ordered_fill_from_retries(struct runner *runner, struct turn *turn);
void ordered_fill_from_log(struct runner *runner, struct turn *turn);

#endif
