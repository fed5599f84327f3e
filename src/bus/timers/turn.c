/*
 * turn.c - one turn: delayed events that are due enter the log, then due schedules fire.
 *
 * A portion is collected page by page: what a page of the store holds is bounded, and so is what a
 * turn keeps of it. Every turn begins with the first that is due. So whatever is changed between
 * two pages, nothing is lost by it: what has moved before the place where we are is found by the
 * next turn, and what was seen twice, because others have fired it meanwhile, is fired by us at
 * most once, because a firing names the time that was read.
 *
 * A schedule that this process cannot read, because its machine does not know the time zone, stays
 * first in the line of what is due: the turn goes on behind it, so that no schedule waits there.
 *
 * A role of the server that may only consume may neither append events nor see schedules. For it
 * the database does the whole portion (struct bring), from what is stored, by its own clock and
 * zones.
 */
#include "bus/timers/turn.h"

#include "bus/timers/schedule.h"

#define REFUSED_MAX 100000    /* that cannot be read in one turn: more of them are in the way */
#define TURN_BYTES (16 << 20) /* of schedules in one turn; the rest comes with the next */
#define TURN_BYTES_MAX ((size_t)1 << 30) /* one of them may be larger */

static void note_failure(struct turn *turn, hf_status status, const char *message)
{
    if (!turn->status) {
        turn->status = status;
        snprintf(turn->message, sizeof turn->message, "%s", message);
    }
    /* A schema that does not let this program write stays so for a while: once is enough. */
    if (status != HF_SCHEMA || !atomic_exchange(&turn->bus->timers.refused, true)) {
        log_about(&turn->bus->log, HF_LOG_WARN, NULL, "%s", message);
    }
}

static bool is_stopping(const struct turn *turn)
{
    return turn->stopping && atomic_load(turn->stopping);
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
        if (turn->refused++ == 0) {
            snprintf(turn->refusal, sizeof turn->refusal, "%s", err_message());
        }
    } else if (due) {
        turn->due[turn->due_count++] = due;
    }
    return turn->enough = turn->due_count == TURN_SCHEDULES_MAX || turn->refused == REFUSED_MAX ||
                          turn->arena.used_bytes >= TURN_BYTES;
}

static void collect(struct turn *turn)
{
    turn->page = (struct due_page){
        .now_us = turn->now_us + (turn->ahead ? TURN_AHEAD_MS * INT64_C(1000) : 0),
        .max = STORE_SCHEDULES_MAX,
        .after_us = STORE_NEVER,
    };
    bool more = true;
    while (more && !turn->enough && !is_stopping(turn)) {
        hf_status status =
            store_schedules_due(turn->bus->store, &turn->page, &more, plan_row, turn);
        if (status) {
            note_failure(turn, status, err_message());
            break;
        }
    }
}

static void count_fired(struct turn *turn, const struct fire *fire)
{
    struct meters *meters = &turn->bus->meters;
    meter_count(&meters->schedules_fired, (int64_t)fire->count);
    for (size_t i = 0; i < fire->count; i++) {
        timing_add(&meters->schedule_late, turn->at_us - fire->planned_us[i]);
    }
}

/* Together, so that one commit carries many of them: a thousand may be due in the same second. */
static void fire_all(struct turn *turn)
{
    struct change *changes[TURN_SCHEDULES_MAX];
    for (size_t i = 0; i < turn->due_count; i++) {
        changes[i] = &turn->due[i]->fire.change;
    }
    store_run_together(turn->bus->store, changes, turn->due_count, bus_deadline(turn->bus));
    for (size_t i = 0; i < turn->due_count; i++) {
        const struct due *due = turn->due[i];
        if (!changes[i]->status) {
            turn->done++;
            turn->fired += (int64_t)due->fire.count;
            count_fired(turn, &due->fire);
        } else if (changes[i]->status != HF_STALE) { /* then another process is at it */
            char message[sizeof turn->message];
            snprintf(message, sizeof message, "schedule %" TEXT_PRI ": %s", TEXT_ARG(due->name),
                     changes[i]->message);
            note_failure(turn, changes[i]->status, message);
        }
    }
}

static hf_status release(struct turn *turn)
{
    struct release release = {
        .change = {.kind = CHANGE_RELEASE, .now_us = turn->now_us},
        .max = STORE_RELEASE_MAX,
    };
    hf_status status = bus_run(turn->bus, &release.change);
    if (!status) {
        turn->done += release.ret_count;
        turn->released += release.ret_count;
        expect(turn, release.ret_next_us);
    }
    return status;
}

/* The database does it, for a role that may not. */
static void bring(struct turn *turn)
{
    struct bring bring = {
        .change = {.kind = CHANGE_BRING, .now_us = turn->now_us},
        .max = TURN_SCHEDULES_MAX,
    };
    hf_status status = bus_run(turn->bus, &bring.change);
    if (status) {
        note_failure(turn, status, err_message());
        return;
    }
    turn->fired += bring.ret_fired;
    meter_count(&turn->bus->meters.schedules_fired, bring.ret_fired);
    turn->released += bring.ret_released;
    turn->done += bring.ret_fired + bring.ret_released;
    expect(turn, bring.ret_next_us);
}

void turn_take(struct turn *turn)
{
    turn->at_us = store_time(turn->bus->store, turn->now_us);
    turn->next_us = INT64_MAX;
    atomic_bool *delegated = &turn->bus->timers.delegated;
    hf_status status = atomic_load(delegated) ? HF_DENIED : release(turn);
    if (status == HF_DENIED) {
        atomic_store(delegated, true); /* every refusal would be an error in the server's log */
        bring(turn);
        return;
    }
    if (status) {
        note_failure(turn, status, err_message());
    } else {
        atomic_store(&turn->bus->timers.refused, false);
    }
    arena_init(&turn->arena, TURN_BYTES_MAX);
    collect(turn);
    if (!is_stopping(turn)) {
        fire_all(turn);
    }
    arena_release(&turn->arena);
}
