/*
 * scheduler.c - the thread that fires schedules and brings delayed events into the log.
 *
 * Every started bus has one. It knows when the earliest planned time or delayed event is due, and
 * sleeps until then or until there is news; then it does what is due, a portion at a time, and asks
 * again. Many processes do the same at the same moment: the store lets one of them do it and tells
 * the others that it is done. None of them leads, so none is missed when it dies.
 *
 * News comes with every publish. Where the store can tell that it is none of ours nothing is asked;
 * else the scheduler asks the store at most once in LOOK_MS when the next timer is due. No sleep
 * is longer than SLEEP_MS, so that a clock that was set is noticed; where asking costs a round
 * trip, and an idle process is to make few of them, SLEEP_REMOTE_MS.
 *
 * What is due may be in others' hands: another process fires it, or a long transaction holds
 * its row. Then it is looked at again after BEATEN_MS, and after twice as long each time that
 * nothing could be done, up to FAILED_MS; but nothing else that comes due meanwhile waits for that.
 *
 * A schedule that was planned while the clock was ahead would wait until that time. So a scheduler
 * that starts, or finds that the clock was set back, goes through all schedules
 * (schedules_plan_anew).
 *
 * It also says when it is time for retention (retention.h), which then has a thread of its own.
 *
 * What fails is said in the log and tried again after a pause; what is due stays due. A schedule
 * that this process cannot read is logged once in COMPLAIN_MS. What one turn does is in turn.c.
 *
 * A stop does not wait for a store that does not answer. The thread is then found by the next
 * start or stop, or left behind by the close: it ends when its call returns.
 */
#include "bus/timers/turn.h"

#include <time.h>

#include "base/companion.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/time/clock.h"
#include "bus/timers/retention.h"
#include "bus/timers/schedule.h"
#include "bus/watch.h"

#define LOOK_MS 30
#define SLEEP_MS 10000
#define SLEEP_REMOTE_MS 60000
#define FAILED_MS 1000 /* the pause after a failure */
#define BEATEN_MS 5    /* something is due, but another process does it; doubled each time */
#define COMPLAIN_MS 60000
#define CLOCK_TOLERANCE_US 1000000 /* the server's clock is known only about so well */

struct scheduler {
    hf_bus *bus;
    struct companion companion;
    atomic_bool stopping;
    bool refused;          /* in the last turn there were schedules that cannot be read */
    int64_t beaten_ms;     /* the pause after the last turn that could do nothing; 0: it could */
    int64_t complained_us; /* of them, when (monotonic); 0: never */
    int64_t seen_us;       /* what the store's clock has shown when it was last looked whether
                              schedules are to be planned anew, and since; INT64_MAX: never */
};

/* After the turn: of those that cannot be read only the first is named, and not every time. */
static void complain_of_refused(struct scheduler *scheduler, const char *why)
{
    int64_t mono_us = clock_mono_us();
    if (scheduler->complained_us &&
        mono_us - scheduler->complained_us < COMPLAIN_MS * INT64_C(1000)) {
        return;
    }
    scheduler->complained_us = mono_us;
    log_about(&scheduler->bus->log, HF_LOG_WARN, NULL, "%s", why);
}

static void do_what_is_due(struct scheduler *scheduler, struct turn *turn)
{
    turn->ahead = scheduler->refused || scheduler->beaten_ms > 0;
    turn_take(turn);
    scheduler->refused = turn->refused > 0;
    if (turn->refused > 0) {
        complain_of_refused(scheduler, turn->refusal);
    }
}

/* After a turn in which something was due: when to look again, in ms. */
static int64_t pause_after(struct scheduler *scheduler, const struct turn *turn)
{
    if (turn->done > 0) {
        return scheduler->beaten_ms = 0;
    }
    if (turn->refused > 0 && !turn->ahead) {
        return 0; /* the first of them: what comes behind them is not known yet */
    }
    int64_t pause_ms = FAILED_MS;
    if (!turn->status && turn->refused == 0) {
        int64_t twice_ms = scheduler->beaten_ms > 0 ? 2 * scheduler->beaten_ms : BEATEN_MS;
        pause_ms = scheduler->beaten_ms = twice_ms < FAILED_MS ? twice_ms : FAILED_MS;
    }
    bool sooner = turn->next_us - turn->at_us < pause_ms * 1000;
    return sooner ? (turn->next_us - turn->at_us + 999) / 1000 : pause_ms;
}

/* When it starts, and when the clock was set back: are there schedules that were planned while it
 * was ahead? */
static void mind_the_clock(struct scheduler *scheduler, int64_t now_us, int64_t at_us)
{
    hf_bus *bus = scheduler->bus;
    bool delegated = atomic_load(&bus->timers.delegated); /* we may not see schedules */
    if (at_us < scheduler->seen_us - CLOCK_TOLERANCE_US && !delegated &&
        schedules_plan_anew(bus, now_us, at_us, &scheduler->stopping)) {
        log_about(&bus->log, HF_LOG_WARN, NULL, "%s", err_message());
        return; /* again in the next turn */
    }
    scheduler->seen_us = at_us;
}

/* Does what is due; how long nothing else will be, in ms. */
static int64_t take_turn(struct scheduler *scheduler)
{
    hf_bus *bus = scheduler->bus;
    int64_t now_us = clock_wall_us();
    int64_t due_us;
    int64_t at_us = store_time(bus->store, now_us);
    if (store_timers_due(bus->store, &due_us) != HF_OK) {
        log_about(&bus->log, HF_LOG_WARN, NULL, "%s", err_message());
        return FAILED_MS;
    }
    int64_t longest_ms = store_look_ms(bus->store) > 0 ? SLEEP_REMOTE_MS : SLEEP_MS;
    if (due_us != STORE_NEVER) {
        mind_the_clock(scheduler, now_us, at_us);
    }
    if (due_us == STORE_NEVER || due_us > at_us) {
        scheduler->beaten_ms = 0;
    }
    if (due_us == STORE_NEVER || due_us - at_us > longest_ms * 1000) {
        return longest_ms;
    }
    if (due_us > at_us) {
        return (due_us - at_us + 999) / 1000;
    }
    if (atomic_load(&scheduler->stopping)) {
        return 0; /* each call may take as long as the store does not answer: no further one */
    }
    struct turn turn = {.bus = bus, .now_us = now_us, .stopping = &scheduler->stopping};
    do_what_is_due(scheduler, &turn);
    return pause_after(scheduler, &turn);
}

/* Waits until something is due. True: a timer may have changed before that. */
static bool wait_for_news(struct scheduler *scheduler, uint64_t seen, uint64_t timers,
                          struct deadline due)
{
    hf_bus *bus = scheduler->bus;
    while (watch_wait(bus, seen, due)) {
        seen = watch_seen(bus); /* before looking: what happens afterwards is news */
        if (atomic_load(&scheduler->stopping)) {
            return false;
        }
        if (store_timers_news(bus->store) != timers) {
            return true;
        }
        HF_POINT("after_timers_look");
    }
    return false;
}

static void *scheduler_main(void *ctx)
{
    struct scheduler *scheduler = ctx;
    hf_bus *bus = scheduler->bus;
    for (;;) {
        uint64_t seen = watch_seen(bus); /* before looking */
        if (atomic_load(&scheduler->stopping)) {
            break;
        }
        uint64_t timers = store_timers_news(bus->store);
        struct deadline retention = retention_look(bus);
        struct deadline due = deadline_earlier(deadline_after_ms(take_turn(scheduler)), retention);
        if (wait_for_news(scheduler, seen, timers, due)) {
            int64_t left_ms = deadline_left_ms(due);
            int64_t pause_ms = left_ms >= 0 && left_ms < LOOK_MS ? left_ms : LOOK_MS;
            nanosleep(&(struct timespec){.tv_nsec = pause_ms * 1000000}, NULL);
        }
    }
    if (companion_end(&scheduler->companion)) {
        bus_unreference(bus);
    }
    return NULL;
}

hf_status scheduler_start(hf_bus *bus)
{
    if (bus->scheduler) {
        return HF_OK;
    }
    struct scheduler *scheduler = mem_calloc(1, sizeof *scheduler);
    if (!scheduler) {
        return fail(HF_NOMEM, "out of memory");
    }
    scheduler->bus = bus;
    scheduler->seen_us = INT64_MAX;
    hf_status status = companion_init(&scheduler->companion);
    if (status) {
        mem_free(scheduler);
        return status;
    }
    status = companion_start(&scheduler->companion, "hf-scheduler", scheduler_main, scheduler);
    if (status) {
        companion_release(&scheduler->companion);
        mem_free(scheduler);
        return status;
    }
    bus->scheduler = scheduler;
    atomic_store(&bus->timers.served, true);
    return HF_OK;
}

void scheduler_stop_begin(hf_bus *bus)
{
    if (bus->scheduler) {
        atomic_store(&bus->scheduler->stopping, true);
        atomic_store(&bus->timers.served, false);
        watch_poke(bus);
    }
}

bool scheduler_stop_end(hf_bus *bus, struct deadline deadline)
{
    if (bus->scheduler && !companion_join(&bus->scheduler->companion, deadline)) {
        return false;
    }
    scheduler_free(bus);
    return true;
}

void scheduler_leave(hf_bus *bus)
{
    if (bus->scheduler) {
        bus_reference(bus); /* the thread's */
        if (!companion_leave(&bus->scheduler->companion)) {
            bus_unreference(bus);
        }
    }
}

void scheduler_free(hf_bus *bus)
{
    if (bus->scheduler && !store_poisoned(bus->store)) {
        companion_release(&bus->scheduler->companion);
    }
    mem_free(bus->scheduler);
    bus->scheduler = NULL;
}
