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
 * A portion is collected page by page: what a page of the store holds is bounded, and so is what a
 * turn keeps of it. Every turn begins with the first that is due. So whatever is changed between
 * two pages, nothing is lost by it: what has moved before the place where we are is found by the
 * next turn, and what was seen twice, because others have fired it meanwhile, is fired by us at
 * most once, because a firing names the time that was read.
 *
 * What fails is said in the log and tried again after a pause; what is due stays due. A schedule
 * that this process cannot read, because its machine does not know the time zone, stays first in
 * the line of what is due: the turn goes on behind it, so that no schedule waits there, and the
 * scheduler logs it once in COMPLAIN_MS.
 *
 * A stop does not wait for a store that does not answer. The thread is then found by the next
 * start or stop, or left behind by the close: it ends when its call returns.
 */
#include "bus/timers/schedule.h"

#include <time.h>

#include "base/companion.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/time/clock.h"
#include "bus/watch.h"

#define LOOK_MS 30
#define SLEEP_MS 10000
#define SLEEP_REMOTE_MS 60000
#define FAILED_MS 1000 /* the pause after a failure */
#define BEATEN_MS 5    /* something is due, but another process does it; doubled each time */
#define COMPLAIN_MS 60000
#define SCHEDULES_MAX 1000    /* that are fired in one turn */
#define REFUSED_MAX 100000    /* that cannot be read in one turn: more of them are in the way */
#define TURN_BYTES (16 << 20) /* of schedules in one turn; the rest comes with the next */
#define TURN_BYTES_MAX ((size_t)1 << 30) /* one of them may be larger */

struct scheduler {
    hf_bus *bus;
    struct companion companion;
    atomic_bool stopping;
    bool refused;          /* in the last turn there were schedules that cannot be read */
    int64_t beaten_ms;     /* the pause after the last turn that could do nothing; 0: it could */
    int64_t complained_us; /* of them, when (monotonic); 0: never */
};

/* One turn. */
struct turn {
    struct scheduler *scheduler;
    hf_bus *bus;
    int64_t now_us;
    int64_t at_us;   /* by the store's clock */
    int64_t next_us; /* likewise: something is due then that is not yet; INT64_MAX: not known */
    int64_t done;    /* how much was due */
    bool failed;
    bool ahead; /* next_us is known for FAILED_MS from now */
    int32_t refused;
    struct due_page page; /* the next one */
    bool enough;          /* pages */
    struct arena arena;   /* of what is due */
    struct due *due[SCHEDULES_MAX];
    size_t due_count;
};

static void complain(struct turn *turn)
{
    turn->failed = true;
    log_about(&turn->bus->log, HF_LOG_WARN, NULL, "%s", err_message());
}

/* After the turn: of those that cannot be read only the first is named, and not every time. */
static void complain_of_refused(struct turn *turn, const char *why)
{
    struct scheduler *scheduler = turn->scheduler;
    int64_t mono_us = clock_mono_us();
    if (scheduler->complained_us &&
        mono_us - scheduler->complained_us < COMPLAIN_MS * INT64_C(1000)) {
        return;
    }
    scheduler->complained_us = mono_us;
    log_about(&turn->bus->log, HF_LOG_WARN, NULL, "%s", why);
}

static void expect(struct turn *turn, int64_t next_us)
{
    if (next_us > turn->at_us && next_us < turn->next_us) {
        turn->next_us = next_us;
    }
}

static int plan_row(const struct schedule_row *row, void *ctx)
{
    struct turn *turn = ctx;
    struct due *due = NULL;
    turn->page.after_us = row->next_us;
    memcpy(turn->page.after_id, row->id, sizeof turn->page.after_id);
    if (row->next_us > turn->at_us) {
        expect(turn, row->next_us);
        return turn->enough = true; /* they come in the order of their times */
    }
    if (schedule_due(turn->bus, row, turn->now_us, turn->at_us, &turn->arena, &due) != HF_OK) {
        turn->failed = true;
        turn->refused++;
        complain_of_refused(turn, err_message());
    } else if (due) {
        turn->due[turn->due_count++] = due;
    }
    return turn->enough = turn->due_count == SCHEDULES_MAX || turn->refused == REFUSED_MAX ||
                          turn->arena.used_bytes >= TURN_BYTES;
}

static void collect(struct turn *turn)
{
    struct scheduler *scheduler = turn->scheduler;
    turn->ahead = scheduler->refused || scheduler->beaten_ms > 0;
    turn->page = (struct due_page){
        .now_us = turn->now_us + (turn->ahead ? FAILED_MS * INT64_C(1000) : 0),
        .max = STORE_SCHEDULES_MAX,
        .after_us = STORE_NEVER,
    };
    bool more = true;
    while (more && !turn->enough && !atomic_load(&scheduler->stopping)) {
        if (store_schedules_due(turn->bus->store, &turn->page, &more, plan_row, turn) != HF_OK) {
            complain(turn);
            break;
        }
    }
    scheduler->refused = turn->refused > 0;
}

/* Together, so that one commit carries many of them: a thousand may be due in the same second. */
static void fire_all(struct turn *turn)
{
    struct change *changes[SCHEDULES_MAX];
    for (size_t i = 0; i < turn->due_count; i++) {
        changes[i] = &turn->due[i]->fire.change;
    }
    store_run_together(turn->bus->store, changes, turn->due_count, bus_deadline(turn->bus));
    for (size_t i = 0; i < turn->due_count; i++) {
        if (!changes[i]->status || changes[i]->status == HF_STALE) {
            turn->done += changes[i]->status == HF_OK; /* else somebody else is at it */
            continue;
        }
        turn->failed = true;
        log_about(&turn->bus->log, HF_LOG_WARN, NULL, "schedule %" TEXT_PRI ": %s",
                  TEXT_ARG(turn->due[i]->name), changes[i]->message);
    }
}

static void do_what_is_due(struct turn *turn)
{
    struct release release = {
        .change = {.kind = CHANGE_RELEASE, .now_us = turn->now_us},
        .max = STORE_RELEASE_MAX,
    };
    if (bus_run(turn->bus, &release.change) != HF_OK) {
        complain(turn);
    }
    turn->done += release.ret_count;
    expect(turn, release.ret_next_us);
    arena_init(&turn->arena, TURN_BYTES_MAX);
    collect(turn);
    if (!atomic_load(&turn->scheduler->stopping)) {
        fire_all(turn);
    }
    arena_release(&turn->arena);
}

/* After a turn in which something was due: when to look again, in ms. */
static int64_t pause_after(const struct turn *turn)
{
    struct scheduler *scheduler = turn->scheduler;
    if (turn->done > 0) {
        return scheduler->beaten_ms = 0;
    }
    if (turn->refused > 0 && !turn->ahead) {
        return 0; /* the first of them: what comes behind them is not known yet */
    }
    int64_t pause_ms = FAILED_MS;
    if (!turn->failed) {
        int64_t twice_ms = scheduler->beaten_ms > 0 ? 2 * scheduler->beaten_ms : BEATEN_MS;
        pause_ms = scheduler->beaten_ms = twice_ms < FAILED_MS ? twice_ms : FAILED_MS;
    }
    bool sooner = turn->next_us - turn->at_us < pause_ms * 1000;
    return sooner ? (turn->next_us - turn->at_us + 999) / 1000 : pause_ms;
}

/* Does what is due; how long nothing else will be, in ms. */
static int64_t take_turn(struct scheduler *scheduler)
{
    hf_bus *bus = scheduler->bus;
    struct turn turn = {
        .scheduler = scheduler, .bus = bus, .now_us = clock_wall_us(), .next_us = INT64_MAX};
    int64_t due_us;
    turn.at_us = store_time(bus->store, turn.now_us);
    if (store_timers_due(bus->store, &due_us) != HF_OK) {
        complain(&turn);
        return FAILED_MS;
    }
    int64_t longest_ms = store_look_ms(bus->store) > 0 ? SLEEP_REMOTE_MS : SLEEP_MS;
    if (due_us == STORE_NEVER || due_us > turn.at_us) {
        scheduler->beaten_ms = 0;
    }
    if (due_us == STORE_NEVER || due_us - turn.at_us > longest_ms * 1000) {
        return longest_ms;
    }
    if (due_us > turn.at_us) {
        return (due_us - turn.at_us + 999) / 1000;
    }
    if (atomic_load(&scheduler->stopping)) {
        return 0; /* each call may take as long as the store does not answer: no further one */
    }
    do_what_is_due(&turn);
    return pause_after(&turn);
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
        struct deadline due = deadline_after_ms(take_turn(scheduler));
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
    return HF_OK;
}

void scheduler_stop_begin(hf_bus *bus)
{
    if (bus->scheduler) {
        atomic_store(&bus->scheduler->stopping, true);
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
