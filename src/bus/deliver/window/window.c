/*
 * window.c - slots, lanes, and which delivery may run next. See window.h.
 *
 * A slot's state is changed only here, in set_state, which also keeps the counts.
 *
 * The slots of a queue are one array, so that nothing is allocated while it works, in two chains:
 * those in use, in the order in which they were put, and the free ones. A slot that is over goes
 * from the one to the other from wherever it is, in constant time, and workers keep their pointers
 * to the others. `look` lets the taker of the next one skip those that have begun.
 */
#include "bus/deliver/window/window.h"

#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"

/* ---- Queues ---------------------------------------------------------------------------------- */

static void chain_append(struct chain *chain, struct slot *slot)
{
    slot->next = NULL;
    slot->previous = chain->last;
    if (chain->last) {
        chain->last->next = slot;
    } else {
        chain->first = slot;
    }
    chain->last = slot;
}

static void chain_remove(struct chain *chain, struct slot *slot)
{
    if (slot->previous) {
        slot->previous->next = slot->next;
    } else {
        chain->first = slot->next;
    }
    if (slot->next) {
        slot->next->previous = slot->previous;
    } else {
        chain->last = slot->previous;
    }
}

static hf_status queue_prepare(struct queue *queue)
{
    if (!queue->slots) {
        queue->slots = mem_alloc(queue->capacity * sizeof *queue->slots);
    }
    return queue->slots
               ? HF_OK
               : fail(HF_NOMEM, "out of memory for %zu deliveries in hand", queue->capacity);
}

size_t queue_room(const struct queue *queue)
{
    return queue->capacity - queue->count;
}

size_t queue_ready(const struct queue *queue)
{
    size_t ready = 0;
    for (const struct slot *slot = queue->used.first; slot; slot = slot->next) {
        ready += slot->state == SLOT_READY;
    }
    return ready;
}

/* The queue that a slot is in. */
static struct queue *queue_of(struct window *window, const struct slot *slot)
{
    const struct queue *retries = &window->retries;
    bool here = slot >= retries->slots && slot < retries->slots + retries->capacity;
    return here ? &window->retries : &window->log;
}

/* A place at the end: the one that has been free for longest, else the next that was never in use,
 * so that those in use are one behind the other in memory, too. */
static struct slot *queue_append(struct queue *queue)
{
    assert(queue_room(queue) > 0);
    struct slot *slot = queue->free.first;
    if (slot) {
        chain_remove(&queue->free, slot);
    } else {
        slot = &queue->slots[queue->begun++];
    }
    *slot = (struct slot){0};
    chain_append(&queue->used, slot);
    queue->look = queue->look ? queue->look : slot;
    queue->count++;
    return slot;
}

static void queue_remove(struct queue *queue, struct slot *slot)
{
    queue->look = queue->look == slot ? slot->next : queue->look;
    chain_remove(&queue->used, slot);
    *slot = (struct slot){.state = SLOT_FREE};
    chain_append(&queue->free, slot);
    queue->count--;
}

size_t window_list_retries(const struct window *window, int64_t *positions)
{
    size_t count = 0;
    for (const struct slot *slot = window->retries.used.first; slot; slot = slot->next) {
        if (slot->state != SLOT_SETTLED) {
            positions[count++] = slot->entry->event.position;
        }
    }
    return count;
}

/* ---- The window ------------------------------------------------------------------------------ */

hf_status window_init(struct window *window, int32_t log_slots, int32_t retry_slots, bool lanes,
                      int32_t partitions)
{
    *window = (struct window){
        .log = {.capacity = (size_t)log_slots},
        .retries = {.capacity = (size_t)retry_slots},
        .lanes = lanes,
        .partitions = partitions,
    };
    set64_init(&window->failing, WINDOW_LANES_MAX);
    set64_init(&window->running, WINDOW_LANES_MAX);
    set64_init(&window->owners, WINDOW_LANES_MAX);
    window->shares = mem_calloc((size_t)partitions, sizeof *window->shares);
    return window->shares ? HF_OK : fail(HF_NOMEM, "out of memory for %d partitions", partitions);
}

hf_status window_prepare(struct window *window)
{
    hf_status status = queue_prepare(&window->log);
    return status ? status : queue_prepare(&window->retries);
}

/* How it ended was said before and does not change while it is ENDED. */
static void count_ended(struct window *window, const struct slot *slot, int32_t by)
{
    struct window_share *share = &window->shares[slot->partition];
    int32_t held = slot->ending == ENDED_HELD ? by : 0;
    window->ended += by;
    window->held += held;
    window->ended_prerecorded += slot_is(slot, TRAIT_PRERECORD) ? by : 0;
    share->ended += by;
    share->held += held;
    window->passed = window->held == 0 ? 0 : window->passed;
}

static void set_state(struct window *window, struct slot *slot, enum slot_state state)
{
    struct window_share *share = &window->shares[slot->partition];
    switch (slot->state) {
    case SLOT_READY:
        window->ready--;
        break;
    case SLOT_RUNNING:
        window->busy--;
        share->busy--;
        if (window->lanes) {
            set64_add(&window->running, slot->lane, -1);
            if (!set64_get(&window->running, slot->lane, NULL)) {
                set64_remove(&window->owners, slot->lane);
            }
        }
        break;
    case SLOT_ENDED:
        count_ended(window, slot, -1);
        break;
    case SLOT_FREE:
    case SLOT_SETTLED:
        break;
    }
    switch (state) {
    case SLOT_READY:
        window->ready++;
        break;
    case SLOT_RUNNING:
        window->busy++;
        share->busy++;
        slot_set(slot, TRAIT_FOLLOWED, false);
        break;
    case SLOT_ENDED:
        count_ended(window, slot, 1);
        break;
    case SLOT_SETTLED:
        window->settled++;
        break;
    case SLOT_FREE:
        break;
    }
    slot->state = state;
}

static int64_t entry_bytes(const struct entry *entry)
{
    const hf_event *event = &entry->event;
    size_t texts = event->payload_bytes + (event->metadata ? strlen(event->metadata) : 0) +
                   (event->key ? strlen(event->key) : 0) +
                   (event->tenant ? strlen(event->tenant) : 0);
    return (int64_t)(sizeof *entry + texts);
}

bool window_heavy(const struct window *window)
{
    return window->bytes >= WINDOW_BYTES_MAX;
}

size_t window_retry_room(const struct window *window)
{
    bool heavy = window_heavy(window) && !window->lanes_full;
    return heavy ? 0 : queue_room(&window->retries);
}

bool window_knows_lanes(const struct window *window)
{
    return window->lanes_full && set64_count(&window->failing) < window->failing.count_max / 2;
}

bool window_crowded(const struct window *window)
{
    int64_t capacity = (int64_t)window->log.capacity;
    return window->passed >= capacity || window->held > capacity / 4 || window_heavy(window);
}

struct unit_mark window_mark(const struct window *window, const struct entry *entry)
{
    return window->whole ? entry->unit : (struct unit_mark){0};
}

struct slot *window_put(struct window *window, struct queue *queue, struct event_batch *event_batch,
                        const struct entry *entry)
{
    struct slot *slot = queue_append(queue);
    slot->event_batch = event_batch;
    slot->entry = entry;
    slot_set(slot, TRAIT_WAITED, entry->waited);
    slot_set(slot, TRAIT_ALONE, entry->cause == CAUSE_DIED);
    slot->mark = window_mark(window, entry);
    slot->deliveries = entry->handed < 0 ? -1 : entry->handed + 1;
    slot->lane = entry->lane;
    slot->partition = hash_slice(entry->hash, window->partitions);
    atomic_fetch_add(&event_batch->references, 1);
    window->bytes += entry_bytes(entry);
    set_state(window, slot, SLOT_READY);
    return slot;
}

/* Forgets a slot that was not settled. */
static void slot_forget(struct window *window, struct slot *slot)
{
    struct window_share *share = &window->shares[slot->partition];
    int64_t position = slot->entry->event.position;
    slot_set(slot, TRAIT_FORGOTTEN, true);
    if (slot_is(slot, TRAIT_FROM_LOG) && position < share->forgotten) {
        share->forgotten = position;
    }
    set_state(window, slot, SLOT_SETTLED);
}

/* Asked for every event that begins. */
static bool is_failing(const struct window *window, uint64_t lane)
{
    return (window->failing_bits >> (lane % 64) & 1) && set64_get(&window->failing, lane, NULL);
}

static void forget_failing_bits(struct window *window)
{
    window->failing_bits = set64_count(&window->failing) > 0 ? window->failing_bits : 0;
}

/* Is a retry of the lane before this one in hand and neither over nor running? */
static bool waits_behind(struct window *window, const struct slot *slot)
{
    if (queue_of(window, slot) != &window->retries) {
        return false;
    }
    for (const struct slot *other = slot->previous; other; other = other->previous) {
        if (other->lane == slot->lane &&
            (other->state == SLOT_ENDED || other->state == SLOT_READY) &&
            other->entry->event.position < slot->entry->event.position) {
            return true;
        }
    }
    return false;
}

/* It is the turn of a damaged event whose lane is to wait behind its dead letter. */
static void block_lane(struct window *window, struct slot *slot)
{
    slot->ending = ENDED_DAMAGED;
    window_end(window, slot);
    window->lanes_full |= !window_fail_lane(window, slot->lane, slot->partition);
}

/* Does another process have the lane of the slot now, or does a damaged event wait in it for those
 * before it? */
static bool is_taken(struct window *window, const struct slot *slot, const void *owner)
{
    int64_t whose = 0;
    if (set64_count(&window->running) == 0 || !set64_get(&window->running, slot->lane, NULL)) {
        return false;
    }
    if (slot->entry->damaged) {
        set64_put(&window->owners, slot->lane, 0); /* so that nothing behind it passes it */
        return true;
    }
    set64_get(&window->owners, slot->lane, &whose);
    return !owner || whose != (int64_t)(intptr_t)owner;
}

/* Looks at a READY slot: may it run? One whose lane is failing ends as held, unless it is the one
 * that the lane waits for. A damaged one never may: if it is READY its lane waits behind it
 * from its turn on (runner_sort_out). */
static bool may_run(struct window *window, struct slot *slot, const void *owner)
{
    if (!window->lanes) {
        return true;
    }
    if (window->shares[slot->partition].closed) {
        slot_forget(window, slot); /* it was not run, and another process has it now */
        return false;
    }
    uint64_t lane = slot->lane;
    if (is_taken(window, slot, owner)) {
        return false;
    }
    if (!slot_is(slot, TRAIT_WAITED) && window->lanes_full) {
        return false; /* it is not known which lanes fail */
    }
    if (!slot_is(slot, TRAIT_WAITED) && is_failing(window, lane)) {
        slot->ending = ENDED_HELD;
        window_end(window, slot);
        return false;
    }
    if (slot->entry->damaged) {
        block_lane(window, slot);
        return false;
    }
    if (slot_is(slot, TRAIT_WAITED) && waits_behind(window, slot)) {
        return false;
    }
    /* The lane is entered before the slot runs; without memory for that it does not run yet. */
    if (set64_put(&window->owners, lane, (int64_t)(intptr_t)owner)) {
        return false;
    }
    return set64_add(&window->running, lane, 1) == HF_OK;
}

bool window_take_this(struct window *window, struct slot *slot, const void *owner)
{
    if (!may_run(window, slot, owner)) {
        return false;
    }
    set_state(window, slot, SLOT_RUNNING);
    return true;
}

static struct slot *queue_take(struct window *window, struct queue *queue, const void *owner)
{
    bool skipped = false;
    for (struct slot *slot = queue->look; slot; slot = slot->next) {
        if (slot->state != SLOT_READY) {
            continue;
        }
        if (may_run(window, slot, owner)) {
            set_state(window, slot, SLOT_RUNNING);
            queue->look = skipped ? queue->look : slot->next;
            return slot;
        }
        if (slot->state == SLOT_READY && !skipped) {
            skipped = true;
            queue->look = slot;
        }
    }
    queue->look = skipped ? queue->look : NULL;
    return NULL;
}

struct slot *window_take(struct window *window, const void *owner)
{
    if (window->ready == 0) {
        return NULL;
    }
    struct slot *slot = queue_take(window, &window->retries, owner);
    return slot ? slot : queue_take(window, &window->log, owner);
}

struct slot *window_take_behind(struct window *window, const struct slot *slot, const void *owner)
{
    for (struct slot *other = slot->next; other; other = other->next) {
        if (other->state == SLOT_READY && other->mark.first != slot->mark.first &&
            window_take_this(window, other, owner)) {
            return other;
        }
    }
    return queue_take(window, &window->log, owner);
}

void window_end(struct window *window, struct slot *slot)
{
    assert(slot->state == SLOT_RUNNING || slot->state == SLOT_READY);
    set_state(window, slot, SLOT_ENDED);
}

void window_untake(struct window *window, struct slot *slot)
{
    assert(slot->state == SLOT_RUNNING);
    set_state(window, slot, SLOT_READY);
    window->log.look = window->log.used.first;
    window->retries.look = window->retries.used.first;
}

void window_revive(struct window *window, struct slot *slot)
{
    assert(slot->state == SLOT_ENDED);
    set_state(window, slot, SLOT_READY);
    window->log.look = window->log.used.first;
    window->retries.look = window->retries.used.first;
}

void window_settle(struct window *window, struct slot *slot)
{
    assert(slot->state == SLOT_RUNNING || slot->state == SLOT_ENDED);
    set_state(window, slot, SLOT_SETTLED);
}

static void queue_follow(struct queue *queue, uint64_t lane)
{
    for (struct slot *slot = queue->used.first; slot; slot = slot->next) {
        if (slot->state == SLOT_RUNNING && slot->lane == lane) {
            slot_set(slot, TRAIT_FOLLOWED, true);
        }
    }
}

bool window_fail_lane(struct window *window, uint64_t lane, int32_t partition)
{
    hf_status status = set64_put(&window->failing, lane, partition);
    window->failing_bits |= 1ULL << (lane % 64);
    if (set64_get(&window->running, lane, NULL)) {
        queue_follow(&window->retries, lane);
        queue_follow(&window->log, lane);
    }
    window->lanes_full |= status == HF_INVALID;
    return !status || window->lanes_full;
}

void window_free_lane(struct window *window, uint64_t lane)
{
    struct queue *queue = &window->log;
    bool storing = false;
    for (const struct slot *slot = queue->used.first; slot; slot = slot->next) {
        bool held = slot->state == SLOT_ENDED && slot->ending == ENDED_HELD && slot->lane == lane;
        storing |= held && slot_is(slot, TRAIT_SETTLING);
    }
    if (storing) {
        return;
    }
    for (struct slot *slot = queue->used.first; slot; slot = slot->next) {
        if (slot->state == SLOT_ENDED && slot->ending == ENDED_HELD && slot->lane == lane) {
            set_state(window, slot, SLOT_READY);
        }
    }
    queue->look = queue->used.first;
    set64_remove(&window->failing, lane);
    forget_failing_bits(window);
}

static void slot_release(struct window *window, struct slot *slot, struct batch_pool *batch_pool)
{
    window->bytes -= entry_bytes(slot->entry);
    batch_pool_return(batch_pool, slot->event_batch);
    mem_free(slot->error);
    queue_remove(queue_of(window, slot), slot);
}

bool slot_is_done(const struct slot *slot)
{
    return slot->state == SLOT_SETTLED && !slot_is(slot, TRAIT_FORGOTTEN) &&
           slot_is(slot, TRAIT_FROM_LOG) && !slot_is(slot, TRAIT_IN_TX) &&
           slot->ending == ENDED_VERDICT && slot->verdict == HF_ACK;
}

/* What is kept of an event of the log that leaves the window. */
static void note_reaped(struct window *window, const struct slot *slot)
{
    int64_t position = slot->entry->event.position;
    struct window_share *share = &window->shares[slot->partition];
    if (window->lanes && position > share->checkpoint && slot_is_done(slot)) {
        done_ahead_add(&window->done_ahead, position, slot->partition);
    }
    window->passed += share->held > 0 ? 1 : 0;
    if (slot_is(slot, TRAIT_FROM_LOG) && !slot_is(slot, TRAIT_FORGOTTEN) &&
        position > share->reaped) {
        share->reaped = position;
        memcpy(share->reaped_id, slot->entry->id, sizeof share->reaped_id);
    }
}

/* Moves the event of a held one to an event_batch for such: that on which it came would not be
 * free for its sake alone. Without memory it stays there. */
static void set_aside(struct window *window, struct slot *slot, struct batch_pool *batch_pool)
{
    if (window->aside && window->aside->batch.arena.used_bytes >= WINDOW_ASIDE_BYTES) {
        batch_pool_return(batch_pool, window->aside);
        window->aside = NULL;
    }
    window->aside = window->aside ? window->aside : batch_pool_take(batch_pool);
    const struct entry *entry =
        window->aside ? batch_keep(&window->aside->batch, slot->entry) : NULL;
    if (!entry) {
        batch_pool_return(batch_pool, window->aside);
        window->aside = NULL;
        return;
    }
    batch_pool_return(batch_pool, slot->event_batch);
    slot->event_batch = window->aside;
    slot->entry = entry;
    slot_set(slot, TRAIT_ASIDE, true);
    atomic_fetch_add(&slot->event_batch->references, 1);
}

static void reap_log(struct window *window, struct batch_pool *batch_pool)
{
    struct slot *next;
    for (struct slot *slot = window->log.used.first; slot; slot = next) {
        next = slot->next;
        bool held = slot->state == SLOT_ENDED && slot->ending == ENDED_HELD;
        if (slot->state == SLOT_SETTLED) {
            note_reaped(window, slot);
            slot_release(window, slot, batch_pool);
        } else if (held && !window->whole) {
            if (!slot_is(slot, TRAIT_ASIDE)) {
                set_aside(window, slot, batch_pool);
            }
        } else if (window->lanes) {
            return;
        }
    }
}

static void reap_retries(struct window *window, struct batch_pool *batch_pool)
{
    struct slot *next;
    for (struct slot *slot = window->retries.used.first; slot; slot = next) {
        next = slot->next;
        if (slot->state == SLOT_SETTLED) {
            slot_release(window, slot, batch_pool);
        }
    }
}

void window_reap(struct window *window, struct batch_pool *batch_pool)
{
    reap_log(window, batch_pool);
    reap_retries(window, batch_pool);
}

static bool is_above_checkpoint(const struct done_ahead_event *event, void *ctx)
{
    const struct window *window = ctx;
    return event->position > window->shares[event->partition].checkpoint;
}

static bool is_of_another(const struct done_ahead_event *event, void *ctx)
{
    return event->partition != *(const int32_t *)ctx;
}

void window_checkpoint(struct window *window, int32_t partition, int64_t checkpoint)
{
    window->shares[partition].checkpoint = checkpoint;
    if (done_ahead_is_long(&window->done_ahead)) {
        done_ahead_sift(&window->done_ahead, is_above_checkpoint, window);
    }
}

static void queue_put_away(struct queue *queue)
{
    mem_free(queue->slots);
    *queue = (struct queue){.capacity = queue->capacity};
}

bool window_put_away(struct window *window, struct batch_pool *batch_pool)
{
    done_ahead_sift(&window->done_ahead, is_above_checkpoint, window);
    if (window->log.count + window->retries.count + window->done_ahead.count > 0) {
        return false;
    }
    queue_put_away(&window->log);
    queue_put_away(&window->retries);
    done_ahead_release(&window->done_ahead);
    set64_release(&window->running);
    set64_release(&window->owners);
    batch_pool_return(batch_pool, window->aside);
    window->aside = NULL;
    return true;
}

static bool is_open(const struct slot *slot)
{
    return slot_is(slot, TRAIT_FROM_LOG) && slot->state != SLOT_SETTLED &&
           !slot_is(slot, TRAIT_SETTLING);
}

void window_survey(struct window *window)
{
    const struct slot *first = window->log.used.first;
    for (int32_t i = 0; i < window->partitions; i++) {
        struct window_share *share = &window->shares[i];
        share->lowest = share->closed ? share->forgotten : INT64_MAX;
        share->last = share->reaped;
        memcpy(share->last_id, share->reaped_id, sizeof share->last_id);
    }
    for (const struct slot *slot = first; slot; slot = slot->next) {
        struct window_share *share = &window->shares[slot->partition];
        if (is_open(slot) && slot->entry->event.position < share->lowest) {
            share->lowest = slot->entry->event.position;
        }
    }
    for (const struct slot *slot = first; slot; slot = slot->next) {
        struct window_share *share = &window->shares[slot->partition];
        int64_t position = slot->entry->event.position;
        if (!slot_is(slot, TRAIT_FORGOTTEN) && position < share->lowest && position > share->last) {
            share->last = position;
            memcpy(share->last_id, slot->entry->id, sizeof share->last_id);
        }
    }
}

/* Forgets the slots of a partition that are READY, or with `all` those that have ended too. */
static void queue_forget(struct window *window, struct queue *queue, int32_t partition, bool all)
{
    for (struct slot *slot = queue->used.first; slot; slot = slot->next) {
        if (slot->partition == partition &&
            (slot->state == SLOT_READY || (all && slot->state == SLOT_ENDED))) {
            slot_forget(window, slot);
        } else if (slot->partition == partition && all) {
            /* If it comes back, it is not known what is done of it. */
            slot_set(slot, TRAIT_FORGOTTEN, true);
        }
    }
}

void window_drop_behind(struct window *window, uint64_t lane, int64_t position)
{
    for (struct slot *slot = window->retries.used.first; slot; slot = slot->next) {
        if (slot->state == SLOT_READY && slot->lane == lane &&
            slot->entry->event.position > position) {
            slot_forget(window, slot);
        }
    }
}

void window_close(struct window *window, int32_t partition)
{
    struct window_share *share = &window->shares[partition];
    share->forgotten = share->closed ? share->forgotten : INT64_MAX;
    window->closed += share->closed ? 0 : 1;
    share->closed = true;
    queue_forget(window, &window->log, partition, false);
    queue_forget(window, &window->retries, partition, false);
}

void window_forget(struct window *window, int32_t partition)
{
    assert(window->shares[partition].busy == 0);
    queue_forget(window, &window->log, partition, true);
    queue_forget(window, &window->retries, partition, true);
    set64_remove_value(&window->failing, partition);
    forget_failing_bits(window);
    done_ahead_sift(&window->done_ahead, is_of_another, &partition);
    window->closed -= window->shares[partition].closed ? 1 : 0;
    window->shares[partition].closed = false;
    window->shares[partition].reaped = 0;
}

static void queue_clear(struct window *window, struct queue *queue, struct batch_pool *batch_pool)
{
    while (queue->used.first) {
        slot_release(window, queue->used.first, batch_pool);
    }
}

void window_clear(struct window *window, struct batch_pool *batch_pool)
{
    queue_clear(window, &window->log, batch_pool);
    queue_clear(window, &window->retries, batch_pool);
    set64_clear(&window->failing);
    window->failing_bits = 0;
    set64_clear(&window->running);
    set64_clear(&window->owners);
    done_ahead_clear(&window->done_ahead);
    window->ready = 0;
    window->busy = 0;
    window->ended = 0;
    window->held = 0;
    window->passed = 0;
    window->ended_prerecorded = 0;
    window->settled = 0;
    window->lanes_full = false;
    window->closed = 0;
    memset(window->shares, 0, (size_t)window->partitions * sizeof *window->shares);
}

hf_status window_repartition(struct window *window, struct batch_pool *batch_pool,
                             int32_t partitions)
{
    struct window_share *shares = mem_calloc((size_t)partitions, sizeof *shares);
    if (!shares) {
        return fail(HF_NOMEM, "out of memory for %d partitions", partitions);
    }
    window_clear(window, batch_pool);
    mem_free(window->shares);
    window->shares = shares;
    window->partitions = partitions;
    return HF_OK;
}

void window_release(struct window *window, struct batch_pool *batch_pool)
{
    queue_clear(window, &window->log, batch_pool);
    queue_clear(window, &window->retries, batch_pool);
    batch_pool_return(batch_pool, window->aside);
    mem_free(window->log.slots);
    mem_free(window->retries.slots);
    mem_free(window->shares);
    set64_release(&window->failing);
    set64_release(&window->running);
    set64_release(&window->owners);
    done_ahead_release(&window->done_ahead);
}
