/*
 * ordered.c - the ordered mode: own a partition, read the log, move the checkpoint.
 *
 * The checkpoint says: everything up to here is settled. It moves over events that are done, over
 * events that do not match, and over those that have a row in the store (waiting, held, dead).
 * Reading is ahead of it by what is in the window.
 *
 *          settled            in the window              not read yet
 *     ---------------|------------------------------|-------------------->  positions
 *                checkpoint                       floor                  head
 *
 * A failing event does not stop the others: its failure is stored as a retry, and later events of
 * its lane are stored as held. Both are rows, so the checkpoint passes them. When the retry has
 * succeeded or died the store makes the lane's next held event due.
 *
 * Owning: exactly one process owns the partition; every settle carries the epoch of the ownership
 * and is refused when somebody else has taken over. Then what is in hand is dropped once no handler
 * runs on it, and the runner stands by, trying to become the owner again.
 *
 * After a crash: positions above the checkpoint that already have a row (`ahead`) are skipped when
 * the log is read again. If the store could not tell which handlers ran when the last owner died,
 * the first events are run in careful mode: one at a time, each recorded as a failed attempt before
 * it runs, so that an event that kills the process every time still comes to an end.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "bus/options.h"
#include "bus/runner.h"
#include "bus/verdict.h"
#include "bus/watch.h"
#include "store/story.h"

#define FLUSH_MAX 512              /* outcomes in one settle */
#define ACQUIRE_AGAIN_US 200000    /* standing by: try to become the owner this often */
#define IDLE_CHECKPOINT_US 5000000 /* over events that do not match: at most this often */
#define PARTITION 0

struct ordered {
    bool owned;
    int64_t epoch;
    int64_t generation;      /* of the definition that what is in hand was read by */
    int64_t acquire_at_us;   /* not before; wall clock */
    struct reader *reader;
    int64_t floor;           /* read up to here */
    bool more;               /* the last read stopped at a limit */
    int64_t checkpoint;      /* as stored */
    int64_t flushed_us;      /* when it was stored */
    int64_t unflushed_us;    /* since when there is something to store; 0: nothing */
    struct set64 ahead;      /* positions above the checkpoint that have a row already */
    int64_t retry_at_us;     /* when the next retry is due; INT64_MAX: none known */
    int64_t careful;         /* events still to be run in careful mode */
    int64_t careful_end;     /* ... up to this position */

    /* one flush */
    struct slot *slots[FLUSH_MAX];
    struct outcome outcomes[FLUSH_MAX];
    struct buf stories[FLUSH_MAX];
    size_t count;
    int64_t settled_before;  /* done and not stored when the flush began */
};

hf_status ordered_new(struct ordered **ret_ordered)
{
    struct ordered *ordered = mem_calloc(1, sizeof *ordered);
    if (!ordered) {
        return fail(HF_NOMEM, "out of memory for a subscription");
    }
    set64_init(&ordered->ahead, WINDOW_LANES_MAX);
    for (size_t i = 0; i < FLUSH_MAX; i++) {
        buf_init(&ordered->stories[i], STORY_BYTES_MAX);
    }
    *ret_ordered = ordered;
    return HF_OK;
}

void ordered_free(struct ordered *ordered)
{
    if (!ordered) {
        return;
    }
    store_reader_close(ordered->reader);
    set64_release(&ordered->ahead);
    for (size_t i = 0; i < FLUSH_MAX; i++) {
        buf_release(&ordered->stories[i]);
    }
    mem_free(ordered);
}

/* ---- Owning ---------------------------------------------------------------------------------- */

struct lane_loading {
    struct window *window;
    hf_status status;
};

static int load_lane(uint64_t lane, int64_t rows, void *ctx)
{
    struct lane_loading *loading = ctx;
    loading->status = set64_put(&loading->window->failing, lane, rows);
    return loading->status != HF_OK;
}

static int load_ahead(int64_t position, void *ctx)
{
    struct ordered *ordered = ctx;
    return set64_put(&ordered->ahead, (uint64_t)position, 1) != HF_OK;
}

/* Drops what is in hand; no handler may be running. */
static void drop(struct runner *runner)
{
    struct ordered *ordered = runner->ordered;
    pthread_mutex_lock(&runner->mutex);
    window_clear(&runner->window, &runner->rack);
    runner->lost = false;
    pthread_mutex_unlock(&runner->mutex);
    store_reader_close(ordered->reader);
    ordered->reader = NULL;
    set64_clear(&ordered->ahead);
    ordered->owned = false;
    ordered->more = false;
    ordered->unflushed_us = 0;
    ordered->count = 0;
}

/* Loads what the store knows beyond the checkpoint. */
static hf_status load(struct runner *runner)
{
    struct ordered *ordered = runner->ordered;
    struct store *store = runner->bus->store;
    int64_t id = runner->definition.id;
    struct lane_loading lanes = {.window = &runner->window};
    pthread_mutex_lock(&runner->mutex);
    hf_status status = store_lanes(store, id, PARTITION, load_lane, &lanes);
    pthread_mutex_unlock(&runner->mutex);
    status = status ? status : lanes.status;
    if (!status) {
        status = store_ahead(store, id, PARTITION, ordered->checkpoint, load_ahead, ordered);
    }
    if (!status) {
        bool strict = runner->definition.options.order == HF_ORDER_STRICT;
        status = store_reader_open(store, ordered->checkpoint, strict, &ordered->reader);
    }
    if (!status && ordered->careful > 0) {
        int64_t first;
        status = store_head(store, &ordered->careful_end, &first);
    }
    return status;
}

static void acquired(struct runner *runner, const struct acquire *acquire, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    ordered->epoch = acquire->ret_epoch;
    ordered->checkpoint = acquire->ret_checkpoint;
    ordered->floor = acquire->ret_checkpoint;
    ordered->flushed_us = now_us;
    ordered->retry_at_us = now_us;
    ordered->careful = acquire->ret_unclean ? runner->definition.options.inflight_max : 0;
    hf_status status = load(runner);
    if (status) {
        runner_store_failed(runner, status, "loading the subscription's state");
        drop(runner);
        return;
    }
    runner_store_worked(runner);
    pthread_mutex_lock(&runner->mutex);
    runner->ownership = (struct hold){.partition = PARTITION, .epoch = ordered->epoch};
    runner->window.strict = runner->definition.options.order == HF_ORDER_STRICT;
    pthread_mutex_unlock(&runner->mutex);
    ordered->owned = true;
    ordered->more = true;
    ordered->generation = runner->definition.generation;
    runner->reread = false;
    runner->stale |= acquire->ret_generation != runner->definition.generation;
    runner_say(runner, HF_LOG_INFO, "processing from position %lld (epoch %lld)",
               (long long)ordered->checkpoint, (long long)ordered->epoch);
    if (acquire->ret_crashed > 0 || acquire->ret_unclean) {
        log_about(&runner->bus->log, HF_LOG_WARN, runner->name,
                  "the last owner died: %d attempts recorded%s", acquire->ret_crashed,
                  acquire->ret_unclean ? "; going on carefully, one event at a time" : "");
    }
}

static void try_acquire(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    if (now_us < ordered->acquire_at_us) {
        return;
    }
    ordered->acquire_at_us = now_us + ACQUIRE_AGAIN_US;
    const hf_subscription_options *options = &runner->definition.options;
    struct acquire acquire = {
        .change = {.kind = CHANGE_ACQUIRE, .now_us = now_us},
        .subscription_id = runner->definition.id,
        .partition = PARTITION,
        .lease_ms = options->lease_ms,
        .attempts_max = options->attempts_max,
        .force = options->instance_mode == HF_INSTANCE_SINGLE,
    };
    hf_status status = bus_run(runner->bus, &acquire.change);
    if (status == HF_OK) {
        acquired(runner, &acquire, now_us);
    } else if (status == HF_BUSY) {
        runner_say(runner, HF_LOG_INFO, "stands by: %s", err_message());
    } else if (status == HF_NOTFOUND) {
        runner->stale = true;
    } else {
        runner_store_failed(runner, status, "taking over the subscription");
    }
}

static void give_back(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    if (ordered->owned) {
        struct give_back give_back = {
            .change = {.kind = CHANGE_GIVE_BACK, .now_us = now_us},
            .subscription_id = runner->definition.id,
            .partition = PARTITION,
            .epoch = ordered->epoch,
        };
        hf_status status = bus_run(runner->bus, &give_back.change);
        if (status && status != HF_STALE && status != HF_NOTFOUND) {
            log_about(&runner->bus->log, HF_LOG_WARN, runner->name,
                      "cannot give the subscription back: %s", err_message());
        }
    }
    drop(runner);
}

/* ---- Settling -------------------------------------------------------------------------------- */

static void collect_ring(struct ordered *ordered, struct ring *ring)
{
    for (uint64_t i = ring->front; i < ring->back && ordered->count < FLUSH_MAX; i++) {
        struct slot *slot = ring_at(ring, i);
        if (slot->state == SLOT_ENDED) {
            slot->settling = true;
            ordered->slots[ordered->count++] = slot;
        }
    }
}

/* Up to where everything is settled if what was collected is; the id of the last event there. */
static int64_t next_checkpoint(struct runner *runner, const uint8_t **ret_last_id)
{
    struct ordered *ordered = runner->ordered;
    struct ring *ring = &runner->window.log;
    int64_t lowest = window_lowest(&runner->window);
    int64_t checkpoint = lowest == INT64_MAX ? ordered->floor : lowest - 1;
    checkpoint = checkpoint < ordered->floor ? checkpoint : ordered->floor;
    int64_t last = runner->window.reaped;
    *ret_last_id = last > ordered->checkpoint && last <= checkpoint ? runner->window.reaped_id : NULL;
    for (uint64_t i = ring->front; i < ring->back; i++) {
        const struct entry *entry = ring_at(ring, i)->entry;
        if (entry->event.position <= checkpoint && entry->event.position > last) {
            last = entry->event.position;
            *ret_last_id = entry->id;
        }
    }
    return checkpoint > ordered->checkpoint ? checkpoint : -1;
}

/* Is it time to store a checkpoint on its own? */
static bool checkpoint_due(struct runner *runner, int64_t checkpoint, int64_t now_us,
                           int64_t *ret_at_us)
{
    struct ordered *ordered = runner->ordered;
    const hf_subscription_options *options = &runner->definition.options;
    struct window *window = &runner->window;
    if (checkpoint < 0) {
        return false;
    }
    if (window->settled == 0) {
        /* Only events that do not match: no hurry. */
        *ret_at_us = ordered->flushed_us + IDLE_CHECKPOINT_US;
        return now_us >= *ret_at_us || atomic_load(&runner->bus->waiters) > 0 || runner->stopping;
    }
    if (ordered->unflushed_us == 0) {
        ordered->unflushed_us = now_us;
    }
    *ret_at_us = ordered->unflushed_us + options->checkpoint_ms * 1000;
    bool idle = window->ready == 0 && window->busy == 0;
    return window->settled >= options->checkpoint_events || now_us >= *ret_at_us ||
           now_us < ordered->unflushed_us || runner->stopping ||
           (idle && atomic_load(&runner->bus->waiters) > 0);
}

/* What the stored outcomes mean for lanes and retries. The mutex is held. */
static void note_outcome(struct runner *runner, const struct outcome *outcome, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    struct window *window = &runner->window;
    switch (outcome->kind) {
    case OUTCOME_RETRY:
        if (outcome->next_attempt_us < ordered->retry_at_us) {
            ordered->retry_at_us = outcome->next_attempt_us;
        }
        break;
    case OUTCOME_DONE:
    case OUTCOME_DEAD:
        if (outcome->ret_lane_busy) {
            ordered->retry_at_us = now_us;
        } else {
            set64_remove(&window->failing, outcome->lane);
        }
        break;
    case OUTCOME_HELD:
        /* Usually somebody is before it; if that one has just died or been freed, it is due now. */
        runner->lost |= set64_put(&window->failing, outcome->lane, 1) != HF_OK;
        ordered->retry_at_us = now_us;
        break;
    case OUTCOME_BLOCK:
    case OUTCOME_RELEASE:
        break;
    }
}

static void settled(struct runner *runner, const struct settle *settle, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    pthread_mutex_lock(&runner->mutex);
    for (size_t i = 0; i < ordered->count; i++) {
        note_outcome(runner, &ordered->outcomes[i], now_us);
        window_settle(&runner->window, ordered->slots[i]);
    }
    /* What ended while the store was busy is for the next flush. */
    runner->window.settled -= ordered->settled_before + (int64_t)ordered->count;
    window_reap(&runner->window, &runner->rack);
    pthread_mutex_unlock(&runner->mutex);
    if (settle->checkpoint >= 0) {
        ordered->checkpoint = settle->checkpoint;
        ordered->flushed_us = now_us;
        ordered->unflushed_us = 0;
    }
    runner->stale |= settle->ret_generation != runner->definition.generation;
    runner_store_worked(runner);
    runner_after_outcomes(runner, ordered->outcomes, ordered->count);
    if (atomic_load(&runner->bus->waiters) > 0) {
        watch_poke(runner->bus);
    }
}

static void not_settled(struct runner *runner, hf_status status)
{
    struct ordered *ordered = runner->ordered;
    pthread_mutex_lock(&runner->mutex);
    for (size_t i = 0; i < ordered->count; i++) {
        ordered->slots[i]->settling = false;
    }
    runner->lost |= status == HF_STALE || status == HF_NOTFOUND;
    pthread_mutex_unlock(&runner->mutex);
    if (status == HF_STALE) {
        runner_say(runner, HF_LOG_WARN, "lost the subscription: %s", err_message());
    } else if (status == HF_NOTFOUND || status == HF_CONFLICT) {
        runner->stale = true; /* removed, or changed: read the definition again */
    } else {
        runner_store_failed(runner, status, "storing progress");
    }
}

/* The outcomes of what was collected. */
static hf_status make_outcomes(struct runner *runner, int64_t now_us, bool *ret_relaxed)
{
    struct ordered *ordered = runner->ordered;
    for (size_t i = 0; i < ordered->count; i++) {
        buf_clear(&ordered->stories[i]);
        hf_status status = runner_outcome(runner, ordered->slots[i], now_us, &ordered->stories[i],
                                          &ordered->outcomes[i]);
        if (status) {
            return status;
        }
        if (ordered->outcomes[i].kind == OUTCOME_DEAD || ordered->outcomes[i].kind == OUTCOME_BLOCK) {
            *ret_relaxed = false;
        }
    }
    return HF_OK;
}

/* Stores what ended and, when it is time and if it may move, the checkpoint. False: it failed, or the
 * work is lost. */
static bool flush(struct runner *runner, int64_t now_us, struct step *step, bool move)
{
    struct ordered *ordered = runner->ordered;
    int64_t checkpoint_at_us = INT64_MAX;
    const uint8_t *last_id = NULL;
    pthread_mutex_lock(&runner->mutex);
    window_reap(&runner->window, &runner->rack);
    ordered->count = 0;
    if (runner->window.ended > 0) {
        collect_ring(ordered, &runner->window.retries);
        collect_ring(ordered, &runner->window.log);
    }
    bool everything = (int64_t)ordered->count == runner->window.ended;
    ordered->settled_before = runner->window.settled;
    int64_t checkpoint = move ? next_checkpoint(runner, &last_id) : -1;
    bool due = checkpoint_due(runner, checkpoint, now_us, &checkpoint_at_us);
    pthread_mutex_unlock(&runner->mutex);
    if (checkpoint >= 0 && !due && checkpoint_at_us < step->at_us) {
        step->at_us = checkpoint_at_us;
    }
    if (ordered->count == 0 && !due) {
        return true;
    }
    struct settle settle = {
        .change = {.kind = CHANGE_SETTLE, .relaxed = true, .now_us = now_us},
        .subscription_id = runner->definition.id,
        .partition = PARTITION,
        .epoch = ordered->epoch,
        .generation = move ? ordered->generation : 0,
        .checkpoint = checkpoint,
        .last_event_id = last_id,
        .outcomes = ordered->outcomes,
        .count = ordered->count,
    };
    hf_status status = make_outcomes(runner, now_us, &settle.change.relaxed);
    if (!status) {
        HF_POINT("before_settle");
        status = bus_run(runner->bus, &settle.change);
        HF_POINT("after_settle");
    }
    if (status) {
        not_settled(runner, status);
        step->again |= status == HF_CONFLICT;
        return false;
    }
    settled(runner, &settle, now_us);
    step->again |= !everything;
    return true;
}

/* ---- Filling --------------------------------------------------------------------------------- */

/* Records the attempt that is about to be made, so that it counts even if it kills the process. */
static hf_status record_before_run(struct runner *runner, const struct entry *entry, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    struct buf story;
    buf_init(&story, STORY_BYTES_MAX);
    hf_status status = story_add(&story, entry->attempts_json, entry->attempts + 1, now_us,
                                 text_of(STORY_ERROR_DIED), text_of(runner->bus->node_name), true);
    if (!status) {
        struct outcome outcome = {
            .kind = OUTCOME_RETRY,
            .position = entry->event.position,
            .lane = runner->window.strict ? WINDOW_STRICT_LANE : entry->lane,
            .attempts = entry->attempts + 1,
            .uncounted = entry->uncounted,
            .attempts_json = buf_text(&story),
            .next_attempt_us = now_us,
            .waited = entry->waited,
        };
        struct settle settle = {
            .change = {.kind = CHANGE_SETTLE, .now_us = now_us},
            .subscription_id = runner->definition.id,
            .partition = PARTITION,
            .epoch = ordered->epoch,
            .checkpoint = -1,
            .outcomes = &outcome,
            .count = 1,
        };
        status = bus_run(runner->bus, &settle.change);
    }
    buf_release(&story);
    return status;
}

/* Has the definition changed since what is in hand was read, or has somebody taken over? Asked after
 * reading and before handing out, so that nothing published after a pause, a seek or a new pattern
 * slips through, and a process that was frozen does not run what others have. */
static bool definition_changed(struct runner *runner)
{
    struct ordered *ordered = runner->ordered;
    int64_t generation;
    int64_t epoch;
    hf_status status = store_generation(runner->bus->store, runner->definition.id, PARTITION,
                                        &generation, &epoch);
    if (!status && generation == ordered->generation && epoch == ordered->epoch) {
        return false;
    }
    runner->stale = true;
    if (!status && epoch != ordered->epoch) {
        runner_say(runner, HF_LOG_WARN, "lost the subscription: somebody has taken over");
        pthread_mutex_lock(&runner->mutex);
        runner->lost = true;
        pthread_mutex_unlock(&runner->mutex);
    }
    return true;
}

/* Puts one entry into the window. The mutex is held. */
static void put(struct runner *runner, struct ring *ring, struct shelf *shelf,
                const struct entry *entry)
{
    struct window *window = &runner->window;
    struct slot *slot = window_put(window, ring, shelf, entry);
    slot->from_log = ring == &window->log;
    if (ring == &window->retries) {
        /* Without memory to keep its lane back or to know it again, all is dropped and read anew. */
        runner->lost |= set64_put(&window->positions, (uint64_t)entry->event.position, 1) != HF_OK;
        runner->lost |= set64_put(&window->failing, slot->lane, 1) != HF_OK;
        slot->waited = true;
    }
    if (entry->unhandled) {
        slot->ending = ENDED_UNHANDLED;
        window_end(window, slot);
    } else if (verdict_is_spent(&runner->definition.options, entry)) {
        slot->ending = ENDED_SPENT;
        window_end(window, slot);
    }
}

/* Careful mode: one event, recorded, then run as a retry. True if an event was put. */
static bool put_carefully(struct runner *runner, struct shelf *shelf, const struct entry *entry,
                          int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    if (!verdict_is_spent(&runner->definition.options, entry) && !entry->unhandled) {
        hf_status status = record_before_run(runner, entry, now_us);
        if (status) {
            not_settled(runner, status);
            pthread_mutex_lock(&runner->mutex);
            runner->lost = true; /* the reader is past it: begin again at the checkpoint */
            pthread_mutex_unlock(&runner->mutex);
            return false;
        }
        ordered->careful--;
    }
    pthread_mutex_lock(&runner->mutex);
    bool record = !entry->unhandled;
    put(runner, record ? &runner->window.retries : &runner->window.log, shelf, entry);
    pthread_mutex_unlock(&runner->mutex);
    return true;
}

static bool in_hand(const struct window *window)
{
    return window->ready > 0 || window->busy > 0 || window->ended > 0;
}

/* Reads the log into the window. */
static void fill_from_log(struct runner *runner, int64_t now_us, struct step *step)
{
    struct ordered *ordered = runner->ordered;
    const hf_subscription_options *options = &runner->definition.options;
    pthread_mutex_lock(&runner->mutex);
    size_t room = ring_room(&runner->window.log);
    size_t retry_room = ring_room(&runner->window.retries);
    bool busy = in_hand(&runner->window);
    ordered->more |= runner->news;
    runner->news = false;
    pthread_mutex_unlock(&runner->mutex);
    bool careful = ordered->careful > 0 && ordered->floor < ordered->careful_end;
    size_t wanted = (size_t)options->inflight_max / 2;
    wanted = wanted < (size_t)options->batch ? (size_t)options->batch : wanted;
    wanted = wanted < runner->window.log.capacity / 2 ? wanted : runner->window.log.capacity / 2;
    wanted = careful || wanted < 1 ? 1 : wanted;
    if (!ordered->more || room < wanted || (careful && (busy || retry_room == 0))) {
        return;
    }
    struct shelf *shelf = rack_take(&runner->rack);
    if (!shelf) {
        runner_store_failed(runner, fail(HF_NOMEM, "out of memory for events"), "reading the log");
        return;
    }
    struct filter filter = definition_filter(&runner->definition);
    int64_t floor = ordered->floor;
    bool more = false;
    hf_status status = store_reader_next(ordered->reader, &filter, (int32_t)(careful ? 1 : room),
                                         &shelf->batch, &floor, &more);
    if (status) {
        runner_store_failed(runner, status, "reading the log");
        rack_return(&runner->rack, shelf);
        return;
    }
    bool put_all = true;
    if (careful && shelf->batch.count == 1) {
        const struct entry *entry = &shelf->batch.entries[0];
        if (!set64_remove(&ordered->ahead, (uint64_t)entry->event.position)) {
            put_all = put_carefully(runner, shelf, entry, now_us);
        }
    } else {
        bool changed = shelf->batch.count > 0 && definition_changed(runner);
        step->again |= changed;
        pthread_mutex_lock(&runner->mutex);
        runner->hold_back |= changed;
        for (size_t i = 0; i < shelf->batch.count; i++) {
            const struct entry *entry = &shelf->batch.entries[i];
            if (set64_count(&ordered->ahead) > 0 &&
                set64_remove(&ordered->ahead, (uint64_t)entry->event.position)) {
                continue;
            }
            put(runner, &runner->window.log, shelf, entry);
        }
        runner_signal_work(runner);
        pthread_mutex_unlock(&runner->mutex);
    }
    rack_return(&runner->rack, shelf);
    if (put_all) {
        ordered->floor = floor;
        ordered->more = more;
        step->again |= more;
    }
}

/* Fetches retries that are due. */
static void fill_from_retries(struct runner *runner, int64_t now_us, struct step *step)
{
    struct ordered *ordered = runner->ordered;
    bool careful = ordered->careful > 0;
    pthread_mutex_lock(&runner->mutex);
    size_t room = ring_room(&runner->window.retries);
    size_t present = ring_count(&runner->window.retries);
    bool busy = in_hand(&runner->window);
    bool look = now_us >= ordered->retry_at_us || runner->news;
    pthread_mutex_unlock(&runner->mutex);
    if (!look || room == 0 || present > room || (careful && busy)) {
        step->at_us = ordered->retry_at_us < step->at_us && room > 0 ? ordered->retry_at_us
                                                                     : step->at_us;
        return;
    }
    struct shelf *shelf = rack_take(&runner->rack);
    if (!shelf) {
        return;
    }
    int64_t next_us = -1;
    int32_t max = careful ? 1 : (int32_t)(present + room);
    hf_status status = store_retries_due(runner->bus->store, runner->definition.id, PARTITION,
                                         now_us, max, &shelf->batch, &next_us);
    if (status) {
        runner_store_failed(runner, status, "reading the retries");
        rack_return(&runner->rack, shelf);
        return;
    }
    ordered->retry_at_us = next_us < 0 ? INT64_MAX : next_us;
    if (careful && shelf->batch.count == 1) {
        put_carefully(runner, shelf, &shelf->batch.entries[0], now_us);
    } else {
        bool changed = shelf->batch.count > 0 && definition_changed(runner);
        step->again |= changed;
        pthread_mutex_lock(&runner->mutex);
        runner->hold_back |= changed;
        for (size_t i = 0; i < shelf->batch.count; i++) {
            const struct entry *entry = &shelf->batch.entries[i];
            bool here = set64_get(&runner->window.positions, (uint64_t)entry->event.position, NULL);
            if (!here && ring_room(&runner->window.retries) > 0) {
                put(runner, &runner->window.retries, shelf, entry);
            }
        }
        runner_signal_work(runner);
        pthread_mutex_unlock(&runner->mutex);
    }
    if (shelf->batch.count == (size_t)max) {
        ordered->retry_at_us = now_us; /* there are more; when there is room again */
    } else {
        step->at_us = ordered->retry_at_us < step->at_us ? ordered->retry_at_us : step->at_us;
    }
    rack_return(&runner->rack, shelf);
}

/* ---- The mode -------------------------------------------------------------------------------- */

/* Before what is in hand is dropped: what is done above the checkpoint is remembered, so that it is
 * not delivered again. Nothing runs any more. */
static hf_status remember_ahead(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    struct ring *ring = &runner->window.log;
    hf_status status = HF_OK;
    for (uint64_t i = ring->front; i < ring->back && !status;) {
        ordered->count = 0;
        for (; i < ring->back && ordered->count < FLUSH_MAX; i++) {
            const struct slot *slot = ring_at(ring, i);
            if (slot->state == SLOT_SETTLED && slot->from_log && !slot->in_tx &&
                slot->ending == ENDED_VERDICT && slot->verdict == HF_ACK) {
                ordered->outcomes[ordered->count++] = (struct outcome){
                    .kind = OUTCOME_DONE,
                    .position = slot->entry->event.position,
                    .lane = slot->lane,
                };
            }
        }
        struct settle settle = {
            .change = {.kind = CHANGE_SETTLE, .relaxed = true, .now_us = now_us},
            .subscription_id = runner->definition.id,
            .partition = PARTITION,
            .epoch = ordered->epoch,
            .checkpoint = -1,
            .outcomes = ordered->outcomes,
            .count = ordered->count,
        };
        status = ordered->count > 0 ? bus_run(runner->bus, &settle.change) : HF_OK;
    }
    return status;
}

/* The log would be read differently now: nothing that was read by the old patterns may move the
 * checkpoint. When no handler runs any more, what is done is remembered, the rest is dropped, and
 * reading begins again at the checkpoint. */
static struct step reread(struct runner *runner, int64_t now_us)
{
    struct step step = {.at_us = INT64_MAX};
    pthread_mutex_lock(&runner->mutex);
    runner->hold_back = true;
    bool busy = runner->window.busy > 0;
    pthread_mutex_unlock(&runner->mutex);
    if (busy) {
        return step; /* the worker's report comes */
    }
    do {
        step.again = false;
        if (!flush(runner, now_us, &step, false)) {
            return step;
        }
    } while (step.again);
    hf_status status = remember_ahead(runner, now_us);
    if (status) {
        not_settled(runner, status);
        return step;
    }
    give_back(runner, now_us); /* so that somebody whose handlers cover may have it */
    runner->ordered->acquire_at_us = 0;
    step.again = true;
    return step;
}

/* The definition has changed, but not the reading: is the partition still ours, or was it sought? */
static bool verify(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    struct settle settle = {
        .change = {.kind = CHANGE_SETTLE, .relaxed = true, .now_us = now_us},
        .subscription_id = runner->definition.id,
        .partition = PARTITION,
        .epoch = ordered->epoch,
        .generation = runner->definition.generation,
        .checkpoint = -1,
    };
    hf_status status = bus_run(runner->bus, &settle.change);
    ordered->count = 0;
    if (status) {
        not_settled(runner, status);
        return false;
    }
    ordered->generation = runner->definition.generation;
    return true;
}

static struct step ordered_step(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    struct step step = {.at_us = INT64_MAX};
    pthread_mutex_lock(&runner->mutex);
    bool lost = runner->lost;
    bool busy = runner->window.busy > 0;
    pthread_mutex_unlock(&runner->mutex);
    if (lost) {
        if (busy) {
            return step; /* the worker's report comes */
        }
        drop(runner);
    }
    bool may = runner_may_work(runner);
    if (!ordered->owned) {
        if (may) {
            try_acquire(runner, now_us);
        }
        if (!ordered->owned) {
            step.at_us = may ? ordered->acquire_at_us : INT64_MAX;
            return step;
        }
    }
    if (ordered->generation != runner->definition.generation && !runner->stale) {
        if (runner->reread) {
            return reread(runner, now_us);
        }
        if (!verify(runner, now_us)) {
            step.again = true;
            return step;
        }
    }
    if (!flush(runner, now_us, &step, true)) {
        return step;
    }
    if (may) {
        fill_from_retries(runner, now_us, &step);
        fill_from_log(runner, now_us, &step);
    } else if (runner->definition.paused_at_us < 0 && !runner->stale && !busy) {
        give_back(runner, now_us); /* handlers that do not cover: somebody else may */
    }
    return step;
}

static void ordered_finish(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    struct step step = {.again = true};
    bool ok = true;
    while (ordered->owned && !runner->lost && ok && step.again) {
        step.again = false;
        ok = flush(runner, now_us, &step, true);
    }
    if (ordered->owned && ok && !runner->lost) {
        remember_ahead(runner, now_us);
    }
    give_back(runner, now_us);
}

const struct runner_mode ordered_mode = {.step = ordered_step, .finish = ordered_finish};
