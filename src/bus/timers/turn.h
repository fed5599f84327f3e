/*
 * turn.h - what is due now is done once: schedules fire, delayed events enter the log.
 *
 * The scheduler takes a turn whenever something is due, and so does every call that looks for work
 * in a process whose bus is not started (bring.h).
 */
#ifndef HF_BUS_TIMERS_TURN_H
#define HF_BUS_TIMERS_TURN_H

#include "base/arena.h"
#include "base/err.h"
#include "bus/bus.h"
#include "store/timers.h"

struct due;

#define TURN_SCHEDULES_MAX 1000 /* that are fired in one turn */
#define TURN_AHEAD_MS 1000

/* One turn. The caller sets the first four; the others begin with 0 or NULL. */
struct turn {
    hf_bus *bus;
    int64_t now_us;
    const atomic_bool *stopping; /* true: no further call of the store; NULL: never */
    bool ahead;                  /* next_us is wanted for TURN_AHEAD_MS from now */

    int64_t at_us;    /* now by the store's clock */
    int64_t next_us;  /* likewise: something is due then that is not yet; INT64_MAX: not known */
    int64_t done;     /* how much of what was due could be done: firings and events */
    int64_t fired;    /* events of schedules */
    int64_t released; /* delayed events */
    int32_t refused;  /* schedules that this process cannot read */
    hf_status status; /* of the first failure */
    char message[HF_ERR_BYTES_MAX]; /* of the first failure */
    char refusal[HF_ERR_BYTES_MAX]; /* why the first one was refused */

    struct due_page page; /* the next one */
    bool enough;          /* pages */
    struct arena arena;   /* of what is due */
    struct due *due[TURN_SCHEDULES_MAX];
    size_t due_count;
};

/* Does what is due, a portion of it: up to TURN_SCHEDULES_MAX schedules and STORE_RELEASE_MAX
 * events. Failures are logged; a schedule that was refused is not, because it is so every time. */
void turn_take(struct turn *turn);

#endif
