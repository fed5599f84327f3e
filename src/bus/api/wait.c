/*
 * wait.c - hf_wait: until an event is settled, or everything is.
 *
 * The store is asked again and again, and only its answers decide. Between two questions the thread
 * waits for news (publishes and operators ring, runners of this process poke when a checkpoint
 * moved) but never longer than WAIT_POLL_MS, because progress of other processes makes no sound. A
 * look costs the store something, and runners poke for every batch, so each look is followed by a
 * rest several times as long: waiting must not slow down what is waited for. While a thread waits
 * (bus->waiters) runners store their checkpoints at once instead of once in a while.
 *
 * An event is settled in a subscription when its state there (inspect.c) is done, dead, cancelled
 * or not for it. "Everything published before the call" is settled when the checkpoint has reached
 * the last position that could be seen at the call, and nothing waits for a retry or is held.
 *
 * Where no bus is started, this brings what is due (timers/bring.c), so that a position that an
 * event for later is to get can be waited for.
 *
 * With subscription NULL the subscriptions of the namespace are listed once, at the call; each is
 * dropped from the list when it is settled. One that is removed meanwhile waits for nothing.
 */
#include <time.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "bus/api/inspect.h"
#include "bus/timers/bring.h"
#include "bus/watch.h"

#define WAIT_POLL_MS 50
#define REST_TIMES 8      /* a rest is so many times as long as the look took */
#define REST_US_MAX 20000 /* the longest rest */
#define WAIT_FACTS_BYTES_MAX ((size_t)4 << 20)

/* One hf_wait under way. */
struct wait {
    int64_t position; /* -1: everything up to last */
    int64_t last;     /* the newest position that could be seen at the call */
    int64_t first;    /* nothing is below it that the log has, or may still get */
    bool has_event;   /* the event at `position` was found in the log */
    struct batch batch;
    struct definition definition;
    struct arena arena;
};

static void wait_init(struct wait *wait, int64_t position)
{
    *wait = (struct wait){.position = position};
    batch_init(&wait->batch);
    definition_init(&wait->definition);
    arena_init(&wait->arena, WAIT_FACTS_BYTES_MAX);
}

static void wait_release(struct wait *wait)
{
    arena_release(&wait->arena);
    definition_release(&wait->definition);
    batch_release(&wait->batch);
}

/* Reads the event at the position, for its id, type and hash. It may not be there: not published
 * yet, or gone with retention. */
static hf_status find_event(hf_bus *bus, struct wait *wait)
{
    if (wait->has_event) {
        return HF_OK;
    }
    struct text all = TEXT_LITERAL("*");
    struct filter filter = {.patterns = &all, .count = 1};
    struct reader *reader;
    hf_status status = store_reader_open(bus->store, wait->position - 1, false, &reader);
    if (status) {
        return status;
    }
    int64_t floor;
    bool more;
    batch_clear(&wait->batch);
    status = store_reader_next(reader, &filter, 1, &wait->batch, &floor, &more);
    store_reader_close(reader);
    wait->has_event = !status && wait->batch.count == 1 &&
                      wait->batch.entries[0].event.position == wait->position;
    return status;
}

/* Is the one event settled in this subscription? */
static hf_status event_settled(hf_bus *bus, int64_t subscription_id, struct wait *wait,
                               bool *ret_settled)
{
    static const uint8_t no_event[16];
    const struct entry *entry = wait->has_event ? &wait->batch.entries[0] : NULL;
    struct delivery_facts facts;
    struct text story;
    arena_clear(&wait->arena);
    hf_status status = definition_load_id(bus, subscription_id, &wait->definition);
    if (!status) {
        struct delivery_query query = {
            .id = entry ? entry->id : no_event,
            .position = wait->position,
            .hash = entry ? entry->hash : 0,
            .now_us = clock_wall_us(),
        };
        status =
            store_delivery_facts(bus->store, subscription_id, &query, &wait->arena, &facts, &story);
    }
    if (status) {
        return status;
    }
    switch (inspect_state(&wait->definition, wait->position,
                          entry ? text_of(entry->event.type) : TEXT_ABSENT, &facts)) {
    case HF_STATE_NOT_FOR_IT:
    case HF_STATE_DONE:
    case HF_STATE_DEAD:
    case HF_STATE_CANCELLED:
        *ret_settled = true;
        break;
    case HF_STATE_PENDING:
        /* What the log has deleted is not delivered any more. Other positions that are not there
         * may still come, until the checkpoint has passed them. */
        *ret_settled = !entry && wait->position < wait->first;
        break;
    case HF_STATE_PROCESSING:
    case HF_STATE_RETRYING:
    case HF_STATE_HELD:
        *ret_settled = false;
        break;
    }
    return HF_OK;
}

/* Is everything that could be seen at the call settled in this subscription? */
static hf_status all_settled(hf_bus *bus, int64_t subscription_id, const struct wait *wait,
                             bool *ret_settled)
{
    struct progress progress;
    hf_status status = store_progress(bus->store, subscription_id, clock_wall_us(), &progress);
    if (!status) {
        *ret_settled =
            progress.checkpoint >= wait->last && progress.retrying == 0 && progress.held == 0;
    }
    return status;
}

/* Drops the settled ones from the list. `named`: the caller named the one that is in it. */
static hf_status look(hf_bus *bus, struct wait *wait, bool named, struct subscription_ids *ids)
{
    hf_status status = wait->position < 0 ? HF_OK : find_event(bus, wait);
    size_t kept = 0;
    for (size_t i = 0; i < ids->count; i++) {
        bool settled = false;
        if (!status) {
            status = wait->position < 0 ? all_settled(bus, ids->ids[i], wait, &settled)
                                        : event_settled(bus, ids->ids[i], wait, &settled);
        }
        if (status == HF_NOTFOUND && !named) {
            status = HF_OK;
            settled = true;
        }
        if (!settled) {
            ids->ids[kept++] = ids->ids[i];
        }
    }
    ids->count = kept;
    return status;
}

/* After a look that took so long. What happens meanwhile is seen by the next one. */
static void rest(int64_t took_us, struct deadline deadline)
{
    int64_t us = took_us * REST_TIMES < REST_US_MAX ? took_us * REST_TIMES : REST_US_MAX;
    int64_t left_ms = deadline_left_ms(deadline);
    us = left_ms >= 0 && left_ms * 1000 < us ? left_ms * 1000 : us;
    struct timespec time = {.tv_nsec = us * 1000};
    nanosleep(&time, NULL);
}

static hf_status wait_loop(hf_bus *bus, struct wait *wait, bool named, int64_t timeout_ms,
                           struct subscription_ids *ids)
{
    struct deadline deadline = deadline_after_ms(timeout_ms);
    for (;;) {
        uint64_t seen = watch_seen(bus);
        int64_t began_us = clock_mono_us();
        hf_status status = look(bus, wait, named, ids);
        if (status || ids->count == 0) {
            return status;
        }
        status = bus_check_open(bus);
        if (status) {
            return status;
        }
        if (deadline_passed(deadline)) {
            return fail(HF_TIMEOUT, "%zu subscription%s not got that far after %" PRId64 " ms",
                        ids->count, ids->count == 1 ? " has" : "s have", timeout_ms);
        }
        timers_bring(bus, BRING_WAITING);
        rest(clock_mono_us() - began_us, deadline);
        watch_wait(bus, seen, deadline_earlier(deadline, deadline_after_ms(WAIT_POLL_MS)));
    }
}

/* Whom to wait for. */
static hf_status list_targets(hf_bus *bus, const char *subscription, struct wait *wait,
                              struct subscription_ids *ids)
{
    if (!subscription) {
        return subscription_ids_load(bus, ids);
    }
    hf_status status = definition_load(bus, subscription, &wait->definition);
    return status ? status : subscription_ids_add(ids, wait->definition.id);
}

hf_status hf_wait(hf_bus *bus, const char *subscription, int64_t position, int64_t timeout_ms)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    if (position < -1 || position == 0) {
        return fail(HF_INVALID, "position is %" PRId64 "; it must be 1 or more, or -1: everything",
                    position);
    }
    watch_want(bus);
    struct wait wait;
    struct subscription_ids ids;
    int64_t head;
    wait_init(&wait, position);
    subscription_ids_init(&ids);
    atomic_fetch_add(&bus->waiters, 1);
    subscriptions_nudge(bus, NEWS_OTHER); /* a runner at rest may have a checkpoint to store */
    status = store_head(bus->store, &head, &wait.first);
    if (!status) {
        status = store_last(bus->store, &wait.last);
    }
    if (!status) {
        status = list_targets(bus, subscription, &wait, &ids);
    }
    if (!status) {
        status = wait_loop(bus, &wait, subscription != NULL, timeout_ms, &ids);
    }
    atomic_fetch_sub(&bus->waiters, 1);
    subscription_ids_release(&ids);
    wait_release(&wait);
    return status;
}
