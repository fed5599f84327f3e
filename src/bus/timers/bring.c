/*
 * bring.c - bringing what is due without a scheduler: hf_tick, and calls that look for work.
 *
 * Whether something is due is one look at the ends of two indexes, and nothing is written if it is
 * not. On PostgreSQL the look is a round trip, so a call that finds enough work makes one look in
 * LOOK_MS for the whole handle; a call that finds nothing makes one, and while it waits it goes by
 * the store's news. If something is due that cannot be done, because another process is at it or
 * the database refuses, it is left alone for AGAIN_MS.
 *
 * Of several threads of a handle one does what is due; the others go on without waiting for it, and
 * what it brings is news to them.
 */
#include "bus/timers/bring.h"

#include "base/err.h"
#include "base/time/clock.h"
#include "bus/timers/turn.h"

#define LOOK_MS 1000
#define LOOK_WAITING_MS 10000
#define AGAIN_MS 250

/* ---- Calls that look for work ---------------------------------------------------------------- */

/* Is it time to ask the store? */
static bool is_time(hf_bus *bus, enum bring_when when, int64_t mono_us)
{
    const struct timers_seen *seen = &bus->timers;
    int64_t looked_us = atomic_load(&seen->looked_us);
    int64_t due_us = atomic_load(&seen->due_us);
    if (looked_us == 0 || when == BRING_NOTHING) {
        return true;
    }
    int64_t longest_ms = when == BRING_WAITING ? LOOK_WAITING_MS : LOOK_MS;
    return store_timers_news(bus->store) != atomic_load(&seen->news) ||
           mono_us - looked_us >= longest_ms * 1000 ||
           (due_us != STORE_NEVER && due_us <= store_time(bus->store, clock_wall_us()));
}

/* Asks the store when something is due. False: it could not be asked. */
static bool look(hf_bus *bus, int64_t mono_us, int64_t *ret_due_us)
{
    struct timers_seen *seen = &bus->timers;
    uint64_t news = store_timers_news(bus->store); /* before asking */
    if (store_timers_due(bus->store, ret_due_us) != HF_OK) {
        return false;
    }
    atomic_store(&seen->news, news);
    atomic_store(&seen->due_us, *ret_due_us);
    atomic_store(&seen->looked_us, mono_us);
    return true;
}

/* Something is due: one thread does it. */
static int64_t take_turn(hf_bus *bus, int64_t mono_us)
{
    struct timers_seen *seen = &bus->timers;
    if (mono_us < atomic_load(&seen->again_us) || atomic_exchange(&seen->busy, true)) {
        return 0;
    }
    struct turn turn = {.bus = bus, .now_us = clock_wall_us()};
    turn_take(&turn);
    if (turn.done > 0) {
        atomic_store(&seen->looked_us, 0); /* there may be more, and what is next is not known */
    } else {
        atomic_store(&seen->again_us, mono_us + AGAIN_MS * INT64_C(1000));
    }
    atomic_store(&seen->busy, false);
    return turn.done;
}

struct brought timers_bring(hf_bus *bus, enum bring_when when)
{
    struct brought brought = {.wait_ms = INT64_MAX};
    int64_t mono_us = clock_mono_us();
    if (atomic_load(&bus->timers.served) || !bus_admits(bus)) {
        return brought;
    }
    int64_t due_us = atomic_load(&bus->timers.due_us);
    if (is_time(bus, when, mono_us)) {
        brought.looked = look(bus, mono_us, &due_us);
    }
    if ((!brought.looked && atomic_load(&bus->timers.looked_us) == 0) || due_us == STORE_NEVER) {
        return brought;
    }
    int64_t left_us = due_us - store_time(bus->store, clock_wall_us());
    if (left_us <= 0) {
        brought.count = take_turn(bus, mono_us);
        left_us = AGAIN_MS * INT64_C(1000);
    }
    brought.wait_ms = left_us / 1000 + 1;
    return brought;
}

/* ---- hf_tick --------------------------------------------------------------------------------- */

/* Nothing seems to wait: so it does for a role that may only look, which must not believe it. An
 * engine without roles knows no such change. */
static hf_status ask_database(hf_bus *bus, hf_tick_info *info)
{
    struct bring bring = {
        .change = {.kind = CHANGE_BRING, .now_us = clock_wall_us()},
        .max = TURN_SCHEDULES_MAX,
    };
    hf_status status = bus_run(bus, &bring.change);
    info->fired += bring.ret_fired;
    info->released += bring.ret_released;
    return status == HF_MISUSE ? HF_OK : status;
}

/* Turn by turn, until nothing is left of what was due at the call or nothing can be done. */
static hf_status bring_all(hf_bus *bus, hf_tick_info *info)
{
    int64_t now_us = clock_wall_us();
    int64_t due_us = STORE_NEVER;
    bool more = true;
    hf_status status = store_timers_due(bus->store, &due_us);
    if (!status && due_us == STORE_NEVER) {
        status = ask_database(bus, info);
    }
    while (!status && more && due_us != STORE_NEVER && due_us <= store_time(bus->store, now_us)) {
        struct turn turn = {.bus = bus, .now_us = now_us};
        turn_take(&turn);
        info->fired += turn.fired;
        info->released += turn.released;
        info->refused = turn.refused;
        if (turn.refused > 0 && turn.done == 0) {
            log_about(&bus->log, HF_LOG_WARN, NULL, "%s", turn.refusal);
        }
        more = turn.done > 0;
        status = turn.status ? err_set(turn.status, turn.message)
                             : store_timers_due(bus->store, &due_us);
    }
    info->next_due_at_us = due_us;
    return status;
}

hf_status hf_tick(hf_bus *bus, hf_tick_info *ret_info)
{
    hf_tick_info given = {0};
    hf_tick_info info = {.size = sizeof info};
    hf_status status = bus_check_open(bus);
    if (!status && ret_info) {
        status = bus_read_options(&given, sizeof given, sizeof given, ret_info, "hf_tick_info");
    }
    if (!status) {
        status = bring_all(bus, &info);
    }
    if (!status && ret_info) {
        size_t bytes = ret_info->size < sizeof info ? ret_info->size : sizeof info;
        info.size = ret_info->size;
        memcpy(ret_info, &info, bytes);
    }
    return status;
}
