/*
 * dispatchers.h - a few threads that serve all runners of a bus.
 *
 * A runner (runner.h) is planned and performed in turns, and needs a thread only during a turn.
 * Between two of them it has a seat here, in one of these states, which dispatchers.c alone
 * changes:
 *
 *                     dispatchers_add
 *         AWAY ----------------------------> QUEUED <-----------------------------+
 *          ^                                  |  ^                                |
 *          |               a thread takes it  |  | dispatchers_call, or its time  |
 *          |                                  v  |                                |
 *          |   SEAT_LEAVE                  RUNNING ---- SEAT_WAIT ------> IDLE ---+
 *          +----------------------------------+  |
 *                                             |  | dispatchers_call
 *                                             |  v
 *                                             AGAIN ---- SEAT_WAIT, SEAT_AGAIN --> QUEUED
 *
 * A call that comes during a turn is remembered by AGAIN, whatever the turn decides, so none is
 * lost. A call that comes while the seat is QUEUED or AGAIN costs one load.
 *
 * dispatchers.c tells when threads are started and when they end.
 */
#ifndef HF_BUS_DELIVER_TURN_DISPATCHERS_H
#define HF_BUS_DELIVER_TURN_DISPATCHERS_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/thread.h"

#define DISPATCHERS_LATE_US 5000    /* a seat that is queued for so long gets another thread */
#define DISPATCHERS_QUICK 3         /* most threads while turns end sooner than that */
#define DISPATCHERS_BUSY 4          /* most threads while turns last: dispatchers_limit */
#define DISPATCHERS_STUCK_US 200000 /* a turn that has not got on for so long is stuck */
#define DISPATCHERS_MAX 64       /* most threads at all, those of turns that are stuck included */
#define DISPATCHERS_KEPT 1       /* threads that stay while there is nothing to do */
#define DISPATCHERS_IDLE_MS 1000 /* the other threads end after so long without a turn */

enum seat_state { SEAT_AWAY, SEAT_IDLE, SEAT_QUEUED, SEAT_RUNNING, SEAT_RUNNING_AGAIN };

struct seat {
    _Atomic enum seat_state state;
    struct seat *next;        /* QUEUED: the one behind it; RUNNING: another one that is */
    int64_t queued_us;        /* QUEUED: since when (real time) */
    _Atomic int64_t moved_us; /* RUNNING: when the turn last got on (real time) */
    size_t place;             /* IDLE: in the heap; SIZE_MAX: it has no time */
    int64_t wake_us;          /* IDLE: when it is ready by itself (monotonic); INT64_MAX: never */
    bool by_clock;            /* it is ready because that time has come */
};

/* What a turn wants to be done with the seat. */
struct seat_next {
    enum { SEAT_AGAIN, SEAT_WAIT, SEAT_LEAVE } kind;
    int64_t wake_us; /* SEAT_WAIT: until then at the latest, monotonic */
};

/* What the seats belong to. */
struct dispatchers_owner {
    /* One turn; `by_clock`: because its time has come, and not because it was called. */
    struct seat_next (*turn)(struct seat *seat, bool by_clock);
    /* The seat is AWAY since its last turn. */
    void (*left)(struct seat *seat);
    /* Ends handlers that are over their time, and answers when to look again (monotonic;
     * INT64_MAX: not before dispatchers_expect). By the supervisor, without our mutex; never waits
     * for the store. */
    int64_t (*keep_time)(void *ctx);
    /* Every thread keeps what ctx is alive, the dispatchers with it. */
    void (*reference)(void *ctx);
    void (*unreference)(void *ctx);
    void *ctx;
};

struct idler;

struct dispatchers {
    struct dispatchers_owner owner;
    pthread_mutex_t mutex; /* guards what follows. No other is taken under it */
    pthread_cond_t alarm;  /* the supervisor waits here */
    pthread_cond_t ended;  /* the last thread has ended */
    struct seat *first;    /* QUEUED, in the order in which they became ready */
    struct seat *last;
    struct seat *running; /* RUNNING, in no order */
    struct seat **heap;   /* IDLE with a time; the earliest is the first */
    size_t heap_count;
    size_t heap_room;        /* for every seat that is not AWAY */
    _Atomic int32_t seats;   /* not AWAY; changed under the mutex */
    int32_t busy_max;        /* most threads in turns that are not stuck */
    int64_t stuck_us;        /* when a turn is: DISPATCHERS_STUCK_US, unless a test sets another */
    int32_t threads;         /* that take turns */
    struct idler *idlers;    /* of these, waiting and not called; who waits shortest is first */
    int32_t idle;            /* how many idlers there are */
    int32_t calls;           /* of these, called and not come yet */
    bool supervised;         /* the supervisor's thread is there */
    int64_t alarm_us;        /* monotonic; it looks by then */
    _Atomic int64_t keep_us; /* monotonic; it calls keep_time then. Changed under the mutex */
    int64_t progress_us; /* real time; when a seat was last taken, or a thread started for one */
};

hf_status dispatchers_init(struct dispatchers *dispatchers, struct dispatchers_owner owner);
void dispatchers_release(struct dispatchers *dispatchers);
/* How many threads the store serves side by side: so many take turns at most while these get on.
 * DISPATCHERS_BUSY if it is never called. At least DISPATCHERS_QUICK. Before the first seat. */
void dispatchers_limit(struct dispatchers *dispatchers, int32_t busy_max);
/* The turn of this seat gets on: the store has answered it. From its thread. */
void dispatchers_moved(struct seat *seat);

/* A seat that is AWAY becomes QUEUED. HF_NOMEM: there is no thread for it, and it stays AWAY. */
hf_status dispatchers_add(struct dispatchers *dispatchers, struct seat *seat);
/* The seat wants a turn that begins after this. From any thread, with any lock but ours. */
void dispatchers_call(struct dispatchers *dispatchers, struct seat *seat);
/* The same for many seats at once, between dispatchers_hold and dispatchers_let_go, where no other
 * lock is taken: no turn begins meanwhile, so that the threads do not get into the way of it. */
void dispatchers_hold(struct dispatchers *dispatchers);
void dispatchers_call_held(struct dispatchers *dispatchers, struct seat *seat);
void dispatchers_let_go(struct dispatchers *dispatchers);
/* Some handler may be over its time at due_us, and not before: keep_time is called then. Costs one
 * load if that is so anyway. From any thread, with any lock but ours. */
void dispatchers_expect(struct dispatchers *dispatchers, int64_t due_us);
/* How many seats are not AWAY. */
int32_t dispatchers_seats(struct dispatchers *dispatchers);
/* Waits until all threads have ended, which they do when the last seat is AWAY. Does not wait if
 * one is not. No thread adds seats meanwhile. */
void dispatchers_join(struct dispatchers *dispatchers);

#endif
