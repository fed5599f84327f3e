/*
 * window.c - slots, lanes, and which delivery may run next. See window.h.
 *
 * A slot's state is changed only here, in set_state, which also keeps the counts.
 */
#include "bus/window.h"

#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "store/story.h"

static hf_status ring_init(struct ring *ring, int32_t slots)
{
    *ring = (struct ring){.capacity = (uint64_t)slots};
    ring->slots = mem_calloc((size_t)slots, sizeof *ring->slots);
    return ring->slots ? HF_OK : fail(HF_NOMEM, "out of memory for %d deliveries in hand", slots);
}

hf_status window_init(struct window *window, int32_t log_slots, int32_t retry_slots, bool lanes,
                      int32_t partitions)
{
    *window = (struct window){.lanes = lanes, .partitions = partitions};
    set64_init(&window->failing, WINDOW_LANES_MAX);
    set64_init(&window->running, WINDOW_LANES_MAX);
    set64_init(&window->owners, WINDOW_LANES_MAX);
    set64_init(&window->positions, WINDOW_LANES_MAX);
    set64_init(&window->early, WINDOW_EARLY_MAX);
    window->shares = mem_calloc((size_t)partitions, sizeof *window->shares);
    hf_status status = window->shares
                           ? ring_init(&window->log, log_slots)
                           : fail(HF_NOMEM, "out of memory for %d partitions", partitions);
    if (!status) {
        status = ring_init(&window->retries, retry_slots);
    }
    if (status) {
        mem_free(window->log.slots);
        mem_free(window->shares);
        window->log.slots = NULL;
        window->shares = NULL;
    }
    return status;
}

size_t ring_count(const struct ring *ring)
{
    return (size_t)(ring->back - ring->front);
}

size_t ring_room(const struct ring *ring)
{
    return (size_t)(ring->capacity - (ring->back - ring->front));
}

struct slot *ring_at(struct ring *ring, uint64_t index)
{
    return &ring->slots[index % ring->capacity];
}

/* How it ended was said before and does not change while it is ENDED. */
static void count_ended(struct window *window, const struct slot *slot, int32_t by)
{
    struct window_share *share = &window->shares[slot->partition];
    int32_t held = slot->ending == ENDED_HELD ? by : 0;
    window->ended += by;
    window->held += held;
    window->ended_careful += slot->careful ? by : 0;
    share->ended += by;
    share->held += held;
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
        slot->followed = false;
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

struct slot *window_put(struct window *window, struct ring *ring, struct shelf *shelf,
                        const struct entry *entry)
{
    assert(ring_room(ring) > 0);
    struct slot *slot = ring_at(ring, ring->back++);
    *slot = (struct slot){.shelf = shelf, .entry = entry, .waited = entry->waited};
    slot->alone = story_ends_in_death(entry->attempts_json);
    slot->mark = story_last_unit(entry->attempts_json);
    slot->lane = entry->lane;
    slot->partition = hash_slice(entry->hash, window->partitions);
    atomic_fetch_add(&shelf->references, 1);
    window->bytes += entry_bytes(entry);
    set_state(window, slot, SLOT_READY);
    return slot;
}

/* Forgets a slot that was not settled. */
static void slot_forget(struct window *window, struct slot *slot)
{
    struct window_share *share = &window->shares[slot->partition];
    int64_t position = slot->entry->event.position;
    slot->forgotten = true;
    if (!slot->from_log) {
        set64_remove(&window->positions, (uint64_t)position);
    } else if (position < share->forgotten) {
        share->forgotten = position;
    }
    set_state(window, slot, SLOT_SETTLED);
}

/* Is a retry of the lane before this one in hand and not over? */
static bool waits_behind(struct window *window, const struct slot *slot)
{
    struct ring *ring = &window->retries;
    if (ring_of(window, slot) != ring) {
        return false;
    }
    uint64_t index = ring_index(ring, slot);
    for (uint64_t i = ring->front; i < index; i++) {
        const struct slot *other = ring_at(ring, i);
        if (other->lane == slot->lane && other->state == SLOT_ENDED &&
            other->entry->event.position < slot->entry->event.position) {
            return true;
        }
    }
    return false;
}

/* Looks at a READY slot: may it run? One whose lane is failing ends as held, unless it is the one
 * that the lane waits for. */
static bool may_run(struct window *window, struct slot *slot, const void *owner)
{
    if (!window->lanes) {
        return true;
    }
    if (window->shares[slot->partition].closed) {
        slot_forget(window, slot); /* it was not run, and is somebody else's now */
        return false;
    }
    uint64_t lane = slot->lane;
    int64_t whose = 0;
    bool running = set64_count(&window->running) > 0 && set64_get(&window->running, lane, NULL);
    if (running) {
        set64_get(&window->owners, lane, &whose);
    }
    if (running && (!owner || whose != (int64_t)(intptr_t)owner)) {
        return false;
    }
    if (!slot->waited && window->lanes_full) {
        return false; /* nobody knows which lanes fail */
    }
    if (!slot->waited && set64_count(&window->failing) > 0 &&
        set64_get(&window->failing, lane, NULL)) {
        slot->ending = ENDED_HELD;
        window_end(window, slot);
        return false;
    }
    if (slot->waited && waits_behind(window, slot)) {
        return false;
    }
    /* The lane is entered before the slot runs; without memory for that it does not run yet. */
    if (set64_put(&window->owners, lane, (int64_t)(intptr_t)owner)) {
        return false;
    }
    return set64_add(&window->running, lane, 1) == HF_OK;
}

struct ring *ring_of(struct window *window, const struct slot *slot)
{
    const struct ring *retries = &window->retries;
    bool here = slot >= retries->slots && slot < retries->slots + retries->capacity;
    return here ? &window->retries : &window->log;
}

uint64_t ring_index(const struct ring *ring, const struct slot *slot)
{
    uint64_t place = (uint64_t)(slot - ring->slots);
    uint64_t front = ring->front % ring->capacity;
    return ring->front + (place + ring->capacity - front) % ring->capacity;
}

bool window_take_this(struct window *window, struct slot *slot, const void *owner)
{
    if (!may_run(window, slot, owner)) {
        return false;
    }
    set_state(window, slot, SLOT_RUNNING);
    return true;
}

static struct slot *ring_take(struct window *window, struct ring *ring, const void *owner)
{
    uint64_t index = ring->look > ring->front ? ring->look : ring->front;
    bool skipped = false;
    for (; index < ring->back; index++) {
        struct slot *slot = ring_at(ring, index);
        if (slot->state == SLOT_READY) {
            if (may_run(window, slot, owner)) {
                set_state(window, slot, SLOT_RUNNING);
                ring->look = skipped ? ring->look : index + 1;
                return slot;
            }
            if (slot->state == SLOT_READY && !skipped) {
                skipped = true;
                ring->look = index;
            }
        }
    }
    if (!skipped) {
        ring->look = ring->back;
    }
    return NULL;
}

struct slot *window_take(struct window *window, const void *owner)
{
    if (window->ready == 0) {
        return NULL;
    }
    struct slot *slot = ring_take(window, &window->retries, owner);
    return slot ? slot : ring_take(window, &window->log, owner);
}

struct slot *window_take_log(struct window *window, const void *owner)
{
    return window->ready == 0 ? NULL : ring_take(window, &window->log, owner);
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
    window->log.look = window->log.front;
    window->retries.look = window->retries.front;
}

void window_settle(struct window *window, struct slot *slot)
{
    assert(slot->state == SLOT_RUNNING || slot->state == SLOT_ENDED);
    set_state(window, slot, SLOT_SETTLED);
}

static void ring_follow(struct ring *ring, uint64_t lane)
{
    for (uint64_t index = ring->front; index < ring->back; index++) {
        struct slot *slot = ring_at(ring, index);
        slot->followed |= slot->state == SLOT_RUNNING && slot->lane == lane;
    }
}

bool window_fail_lane(struct window *window, uint64_t lane, int32_t partition)
{
    hf_status status = set64_put(&window->failing, lane, partition);
    if (set64_get(&window->running, lane, NULL)) {
        ring_follow(&window->retries, lane);
        ring_follow(&window->log, lane);
    }
    window->lanes_full |= status == HF_INVALID;
    return status == HF_OK || window->lanes_full;
}

void window_free_lane(struct window *window, uint64_t lane)
{
    struct ring *ring = &window->log;
    bool storing = false;
    for (uint64_t index = ring->front; index < ring->back; index++) {
        struct slot *slot = ring_at(ring, index);
        bool held = slot->state == SLOT_ENDED && slot->ending == ENDED_HELD && slot->lane == lane;
        storing |= held && slot->settling;
    }
    if (storing) {
        return;
    }
    for (uint64_t index = ring->front; index < ring->back; index++) {
        struct slot *slot = ring_at(ring, index);
        if (slot->state == SLOT_ENDED && slot->ending == ENDED_HELD && slot->lane == lane) {
            set_state(window, slot, SLOT_READY);
        }
    }
    ring->look = ring->front;
    set64_remove(&window->failing, lane);
}

static void slot_release(struct window *window, struct slot *slot, struct rack *rack)
{
    window->bytes -= entry_bytes(slot->entry);
    rack_return(rack, slot->shelf);
    mem_free(slot->error);
    *slot = (struct slot){.state = SLOT_FREE};
}

bool slot_is_done(const struct slot *slot)
{
    return slot->state == SLOT_SETTLED && !slot->forgotten && slot->from_log && !slot->in_tx &&
           slot->ending == ENDED_VERDICT && slot->verdict == HF_ACK;
}

/* Will no checkpoint tell that the event at this position is done: because the log is not decided
 * so far, or because something below it went without being run? */
static bool is_early(const struct window_share *share, int64_t position)
{
    return position > share->floor || (share->closed && position > share->forgotten);
}

static void ring_reap(struct window *window, struct ring *ring, struct rack *rack)
{
    while (ring->front < ring->back && ring_at(ring, ring->front)->state == SLOT_SETTLED) {
        struct slot *slot = ring_at(ring, ring->front);
        int64_t position = slot->entry->event.position;
        struct window_share *share = &window->shares[slot->partition];
        if (window->lanes && is_early(share, position) && slot_is_done(slot)) {
            hf_status status = set64_put(&window->early, (uint64_t)position, slot->partition);
            (void)status; /* too many: it will come again */
        }
        if (slot->from_log && !slot->forgotten && position > share->reaped) {
            share->reaped = position;
            memcpy(share->reaped_id, slot->entry->id, sizeof share->reaped_id);
        }
        slot_release(window, slot, rack);
        ring->front++;
    }
}

/* A retry that is settled may be due again before the slots in front of its own are free. */
static void part_with_settled(struct window *window)
{
    struct ring *ring = &window->retries;
    for (uint64_t index = ring->front; index < ring->back; index++) {
        struct slot *slot = ring_at(ring, index);
        if (slot->state == SLOT_SETTLED && !slot->forgotten) {
            set64_remove(&window->positions, (uint64_t)slot->entry->event.position);
            slot->forgotten = true;
        }
    }
}

void window_reap(struct window *window, struct rack *rack)
{
    part_with_settled(window);
    ring_reap(window, &window->log, rack);
    ring_reap(window, &window->retries, rack);
}

/* Forgets what was done early and has been decided since, or is of the partition `gone`. */
static void forget_early(struct window *window, int32_t gone)
{
    struct set64 kept;
    uint64_t position;
    int64_t partition;
    size_t cursor = 0;
    hf_status status = HF_OK;
    set64_init(&kept, WINDOW_EARLY_MAX);
    while (!status && set64_next(&window->early, &cursor, &position, &partition)) {
        if (partition != gone && is_early(&window->shares[partition], (int64_t)position)) {
            status = set64_put(&kept, position, partition);
        }
    }
    if (status) {
        set64_release(&kept); /* no memory: later */
        return;
    }
    set64_release(&window->early);
    window->early = kept;
}

void window_floor(struct window *window, int32_t partition, int64_t floor)
{
    struct window_share *share = &window->shares[partition];
    bool moved = floor != share->floor;
    share->floor = floor;
    if (moved && set64_count(&window->early) >= WINDOW_EARLY_MAX / 2) {
        forget_early(window, -1);
    }
}

static bool is_open(const struct slot *slot)
{
    return slot->from_log && slot->state != SLOT_SETTLED && !slot->settling;
}

void window_survey(struct window *window)
{
    struct ring *ring = &window->log;
    for (int32_t i = 0; i < window->partitions; i++) {
        struct window_share *share = &window->shares[i];
        share->lowest = share->closed ? share->forgotten : INT64_MAX;
        share->last = share->reaped;
        memcpy(share->last_id, share->reaped_id, sizeof share->last_id);
    }
    for (uint64_t index = ring->front; index < ring->back; index++) {
        const struct slot *slot = ring_at(ring, index);
        struct window_share *share = &window->shares[slot->partition];
        if (is_open(slot) && slot->entry->event.position < share->lowest) {
            share->lowest = slot->entry->event.position;
        }
    }
    for (uint64_t index = ring->front; index < ring->back; index++) {
        const struct slot *slot = ring_at(ring, index);
        struct window_share *share = &window->shares[slot->partition];
        int64_t position = slot->entry->event.position;
        if (position < share->lowest && position > share->last) {
            share->last = position;
            memcpy(share->last_id, slot->entry->id, sizeof share->last_id);
        }
    }
}

/* Forgets the slots of a partition that are READY, or with `all` those that have ended too. */
static void ring_forget(struct window *window, struct ring *ring, int32_t partition, bool all)
{
    for (uint64_t index = ring->front; index < ring->back; index++) {
        struct slot *slot = ring_at(ring, index);
        if (slot->partition == partition &&
            (slot->state == SLOT_READY || (all && slot->state == SLOT_ENDED))) {
            slot_forget(window, slot);
        }
    }
}

void window_drop_behind(struct window *window, uint64_t lane, int64_t position)
{
    struct ring *ring = &window->retries;
    for (uint64_t index = ring->front; index < ring->back; index++) {
        struct slot *slot = ring_at(ring, index);
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
    ring_forget(window, &window->log, partition, false);
    ring_forget(window, &window->retries, partition, false);
}

void window_forget(struct window *window, int32_t partition)
{
    assert(window->shares[partition].busy == 0);
    ring_forget(window, &window->log, partition, true);
    ring_forget(window, &window->retries, partition, true);
    set64_remove_value(&window->failing, partition);
    if (set64_count(&window->early) > 0) {
        forget_early(window, partition);
    }
    window->closed -= window->shares[partition].closed ? 1 : 0;
    window->shares[partition].closed = false;
    window->shares[partition].reaped = 0;
}

static void ring_clear(struct window *window, struct ring *ring, struct rack *rack)
{
    while (ring->front < ring->back) {
        slot_release(window, ring_at(ring, ring->front++), rack);
    }
    ring->look = ring->front;
}

void window_clear(struct window *window, struct rack *rack)
{
    ring_clear(window, &window->log, rack);
    ring_clear(window, &window->retries, rack);
    set64_clear(&window->failing);
    set64_clear(&window->running);
    set64_clear(&window->owners);
    set64_clear(&window->positions);
    set64_clear(&window->early);
    window->ready = 0;
    window->busy = 0;
    window->ended = 0;
    window->held = 0;
    window->ended_careful = 0;
    window->settled = 0;
    window->lanes_full = false;
    window->closed = 0;
    memset(window->shares, 0, (size_t)window->partitions * sizeof *window->shares);
}

hf_status window_repartition(struct window *window, struct rack *rack, int32_t partitions)
{
    struct window_share *shares = mem_calloc((size_t)partitions, sizeof *shares);
    if (!shares) {
        return fail(HF_NOMEM, "out of memory for %d partitions", partitions);
    }
    window_clear(window, rack);
    mem_free(window->shares);
    window->shares = shares;
    window->partitions = partitions;
    return HF_OK;
}

void window_release(struct window *window, struct rack *rack)
{
    ring_clear(window, &window->log, rack);
    ring_clear(window, &window->retries, rack);
    mem_free(window->log.slots);
    mem_free(window->retries.slots);
    mem_free(window->shares);
    set64_release(&window->failing);
    set64_release(&window->running);
    set64_release(&window->owners);
    set64_release(&window->positions);
    set64_release(&window->early);
}
