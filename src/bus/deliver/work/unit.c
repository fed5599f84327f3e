/*
 * unit.c - putting units together, and what becomes of their events. See unit.h.
 *
 * What goes into a unit
 *   The first event is what the window hands out next. Until the unit is complete (is_complete;
 *   for handlers of one event it is already), others are added: those behind it in the same queue
 *   that may run now and belong to it:
 *     - a unit that has failed: those with its mark, and no others;
 *     - batch_by key: those of the same (tenant, key);
 *     - batch_by none: all, of the same partition, or (shared) of the same lease.
 *   There are at most `batch` of them. With batch_by key a run is not cut there, but at batch +
 *   batch_extend_max, and the log says so. It is a run if nothing that we were handed lies between:
 *   numbers without an event, and events of other patterns or partitions, do not end it. What has
 *   not been read yet may belong to it: if it reaches the end of what is in hand and there is more
 *   to be read, the unit waits for the dispatcher to read on. An event that may have killed its
 *   process is a unit of its own.
 *
 * What remains of a unit when the process dies
 *   while the handler runs: each event is noted as running, so each of them is recorded as one
 *       failed attempt (or, where no notes are taken, run in careful mode). The events come again
 *       one by one, because it is not known which of them killed the process.
 *   after the handler, before the commit: the transaction is rolled back; the rest is as above.
 *   after the commit: all events are settled.
 *   while the unit is being split: events that were not settled come again as they were stored, as
 *       the whole unit with one attempt left.
 *
 * In a transaction the first event is entered before the handler runs, which proves that the work
 * is ours; the others are settled after it, so that no lock on the subscription is held while it
 * runs. If one of them turns out to be settled already, all is undone and the unit runs again
 * without it.
 *
 * Splitting happens in the window only. The halves stay in hand, the first one before the second,
 * so that the order of a key is kept, and each has one attempt; what is alone and fails dies.
 */
#include "bus/deliver/work/unit.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/time/clock.h"
#include "bus/deliver/runner.h"
#include "bus/deliver/work/chunk.h"

#define CARGO_CAPACITY_FIRST 128 /* more than the units of a chunk */
#define UNIT_REST_US 100000      /* before what was not the event's fault is tried again */

struct unit_limits unit_limits(const hf_subscription_options *options, enum handler_kind kind)
{
    if (kind == HANDLERS_SINGLE) {
        return (struct unit_limits){.events = 1, .events_max = 1, .per_chunk = CHUNK_MAX};
    }
    bool extended = options->batch_by == HF_BATCH_KEY && options->mode == HF_MODE_ORDERED;
    int64_t events = options->batch;
    int64_t most = events + (extended ? options->batch_extend_max : 0);
    return (struct unit_limits){
        .events = events < UNIT_EVENTS_MAX ? (int32_t)events : UNIT_EVENTS_MAX,
        .events_max = most < UNIT_EVENTS_MAX ? (int32_t)most : UNIT_EVENTS_MAX,
        .per_chunk = 1,
        .by_key = options->batch_by == HF_BATCH_KEY,
        .whole = true,
    };
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static bool grow_array(void *array, size_t count, size_t capacity, size_t item)
{
    void *old;
    memcpy(&old, array, sizeof old);
    void *bigger = mem_calloc(capacity, item);
    if (!bigger) {
        return false;
    }
    if (count > 0) {
        memcpy(bigger, old, count * item);
    }
    mem_free(old);
    memcpy(array, &bigger, sizeof bigger);
    return true;
}

/* Makes room for more; the unit, which has all that is in use, moves along. */
static bool cargo_grow(struct cargo *cargo, struct unit *unit)
{
    size_t capacity = cargo->capacity ? 2 * cargo->capacity : CARGO_CAPACITY_FIRST;
    size_t count = cargo->used;
    assert(count == unit->count); /* several units have few events: the first room does */
    if (!grow_array(&cargo->slots, count, capacity, sizeof *cargo->slots) ||
        !grow_array(&cargo->members, count, capacity, sizeof *cargo->members) ||
        !grow_array(&cargo->settled, count, capacity, sizeof *cargo->settled) ||
        !grow_array(&cargo->views, 0, capacity, sizeof *cargo->views) ||
        !grow_array(&cargo->events, 0, capacity, sizeof *cargo->events) ||
        !grow_array(&cargo->picked, 0, capacity, sizeof *cargo->picked) ||
        !grow_array(&cargo->notes, 0, capacity, sizeof *cargo->notes) ||
        !grow_array(&cargo->event_batches, 0, capacity, sizeof *cargo->event_batches)) {
        unit->slots = cargo->slots; /* those that could grow have moved */
        unit->members = cargo->members;
        unit->settled = cargo->settled;
        return false;
    }
    cargo->capacity = capacity;
    unit->slots = cargo->slots;
    unit->members = cargo->members;
    unit->settled = cargo->settled;
    return true;
}

static bool unit_push(struct runner *runner, struct cargo *cargo, struct unit *unit,
                      struct slot *slot)
{
    if (cargo->used == cargo->capacity && !cargo_grow(cargo, unit)) {
        return false;
    }
    slot_set(slot, TRAIT_FOLLOWS, unit->count > 0);
    unit->slots[unit->count] = slot;
    unit->members[unit->count] =
        (struct tx_member){.hold = runner_hold(runner, slot), .entry = slot->entry};
    unit->settled[unit->count] = false;
    unit->count++;
    cargo->used++;
    return true;
}

void cargo_release(struct cargo *cargo)
{
    for (size_t i = 0; i < cargo->event_batch_count; i++) {
        batch_pool_return(NULL, cargo->event_batches[i]);
    }
    mem_free(cargo->slots);
    mem_free(cargo->members);
    mem_free(cargo->settled);
    mem_free(cargo->views);
    mem_free(cargo->events);
    mem_free(cargo->picked);
    mem_free(cargo->notes);
    mem_free(cargo->event_batches);
    *cargo = (struct cargo){0};
}

void unit_keep(const struct unit *unit, struct cargo *cargo)
{
    for (size_t i = 0; i < unit->count; i++) {
        struct event_batch *event_batch = unit->slots[i]->event_batch;
        if (cargo->event_batch_count == 0 ||
            cargo->event_batches[cargo->event_batch_count - 1] != event_batch) {
            atomic_fetch_add(&event_batch->references, 1);
            cargo->event_batches[cargo->event_batch_count++] = event_batch;
        }
    }
}

/* ---- Putting together ------------------------------------------------------------------------ */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_key(const struct slot *a, const struct slot *b)
{
    const hf_event *x = &a->entry->event;
    const hf_event *y = &b->entry->event;
    return a->lane == b->lane && same_text(x->key, y->key) && same_text(x->tenant, y->tenant);
}

/* Is the slot to be handed over together with the unit's first? */
static bool belongs(const struct runner *runner, const struct slot *first, const struct slot *slot)
{
    if (slot->lease != first->lease || slot->partition != first->partition ||
        slot_is(slot, TRAIT_SPLITTING) != slot_is(first, TRAIT_SPLITTING) ||
        slot_is(slot, TRAIT_WAITED) != slot_is(first, TRAIT_WAITED)) {
        return false;
    }
    if (slot_is(first, TRAIT_SPLITTING) || first->mark.events > 1 || slot->mark.events > 1) {
        return slot->mark.events == first->mark.events && slot->mark.first == first->mark.first;
    }
    return !runner->limits.by_key || same_key(first, slot);
}

/* May the unit, which is not one that failed, have one more? *ret_capped: not even to keep a run
 * together. */
static bool has_room(const struct runner *runner, const struct unit *unit, const struct slot *slot,
                     bool *ret_capped)
{
    const struct unit_limits *limits = &runner->limits;
    if (unit->count < (size_t)limits->events) {
        return true;
    }
    const struct slot *last = unit->slots[unit->count - 1];
    if (!limits->by_key || last->next != slot || !slot_is(slot, TRAIT_FROM_LOG)) {
        return false;
    }
    *ret_capped = unit->count >= (size_t)limits->events_max;
    return !*ret_capped;
}

/* Can nothing be added to the unit, whatever is in hand? Of a run that is as long as it may be it
 * is still to be seen whether it is cut. */
static bool is_complete(const struct runner *runner, const struct unit *unit)
{
    const struct slot *first = unit->slots[0];
    if (slot_is(first, TRAIT_ALONE) || slot_is(first, TRAIT_PRERECORD)) {
        return true;
    }
    if (first->mark.events > 1) {
        return unit->count >= (size_t)first->mark.events;
    }
    return !runner->limits.by_key && unit->count >= (size_t)runner->limits.events;
}

/* Adds what belongs to the first. True: it reaches the end of what is in hand. */
static bool gather(struct runner *runner, const void *owner, struct cargo *cargo, struct unit *unit,
                   bool *ret_capped)
{
    struct window *window = &runner->window;
    struct slot *first = unit->slots[0];
    bool strict = runner->definition.options.order == HF_ORDER_STRICT;
    bool at_end = true;
    for (struct slot *slot = first->next; slot && !is_complete(runner, unit); slot = slot->next) {
        at_end = false;
        if (slot->state != SLOT_READY) {
            continue;
        }
        if (!belongs(runner, first, slot)) {
            if (strict) {
                break; /* nothing may be passed over */
            }
            continue;
        }
        if (slot_is(slot, TRAIT_ALONE) || slot_is(slot, TRAIT_PRERECORD) ||
            (first->mark.events <= 1 && !has_room(runner, unit, slot, ret_capped))) {
            break;
        }
        if (!window_take_this(window, slot, owner)) {
            continue;
        }
        if (!unit_push(runner, cargo, unit, slot)) {
            window_untake(window, slot); /* no memory: a smaller one */
            break;
        }
        at_end = true;
    }
    return at_end;
}

/* Can retries be read now? */
static bool is_room(const struct window *window)
{
    return window_retry_room(window) > 0;
}

/* Will there be room for retries without the unit: is another one over, or does it run? If there
 * are too many bytes, that may be anything in hand; what is READY in the log can be run instead. */
static bool others_make_room(const struct window *window, const struct unit *unit)
{
    const struct queue *retries = &window->retries;
    size_t waiting = queue_ready(retries);
    if (window_heavy(window) && !window->lanes_full) {
        int64_t in_hand = window->ready + window->busy + window->ended;
        return in_hand - (int64_t)waiting > (int64_t)unit->count;
    }
    return retries->count - waiting > unit->count;
}

/* Would the rest of a unit that has failed come if it waited? (See fill.c.) */
static bool waits_for_retries(const struct runner *runner, const struct unit *unit)
{
    const struct window *window = &runner->window;
    struct unit_mark mark = unit->slots[0]->mark;
    return runner->torn.events > 0 && runner->torn.first == mark.first &&
           unit->count < (size_t)mark.events && (is_room(window) || others_make_room(window, unit));
}

/* Can the log be read now? Places in front that are over are free as soon as the dispatcher looks;
 * those behind one that runs are not. */
static bool is_log_room(const struct window *window)
{
    const struct queue *log = &window->log;
    bool room = queue_room(log) > 0 || log->used.first->state == SLOT_SETTLED;
    return room && !window_heavy(window);
}

/* Would the rest of a run, which may not have been read yet, come if the unit waited? */
static bool waits_for_log(const struct runner *runner, const struct unit *unit)
{
    const struct unit_limits *limits = &runner->limits;
    return slot_is(unit->slots[0], TRAIT_FROM_LOG) && limits->by_key &&
           runner_needs(runner, NEED_LOG_REST) &&
           unit->count <= (size_t)limits->events_max && /* then: is it cut? */
           is_log_room(&runner->window);
}

static bool should_wait(const struct runner *runner, const struct unit *unit, bool at_end)
{
    const struct slot *first = unit->slots[0];
    if (slot_is(first, TRAIT_SPLITTING) || !runner->ordered) {
        return false;
    }
    return first->mark.events > 1 ? waits_for_retries(runner, unit)
                                  : at_end && waits_for_log(runner, unit);
}

static void say_capped(struct runner *runner, const struct unit *unit)
{
    const struct slot *last = unit->slots[unit->count - 1];
    runner_note(
        runner,
        "a run of consecutive events of one key was cut after %zu events, at position %lld: "
        "batch is %d, batch_extend_max %d, and a unit has at most %d",
        unit->count, (long long)last->entry->event.position, runner->definition.options.batch,
        runner->definition.options.batch_extend_max, UNIT_EVENTS_MAX);
}

enum taken {
    TAKEN_NOTHING, /* or the unit waits for its rest, which the dispatcher is told to read */
    TAKEN_UNIT,
    TAKEN_NO_ROOM, /* it is a retry and waits for its rest, for which others make room */
};

/* Tells the dispatcher that a unit waits for it to read on. Once: if it cannot now, because the
 * store is away, it will when it can, and asking again only keeps it busy. */
static void ask_for_more(struct runner *runner)
{
    if (!runner_needs(runner, NEED_READ_ON)) {
        runner_call(runner, NEED_READ_ON);
    }
}

/* Takes the unit that this slot, which is taken, is the first of. */
static enum taken take_with(struct runner *runner, const void *owner, struct slot *first,
                            struct cargo *cargo, struct unit *unit)
{
    struct window *window = &runner->window;
    if (!unit_push(runner, cargo, unit, first)) {
        window_untake(window, first);
        return TAKEN_NOTHING;
    }
    if (is_complete(runner, unit)) {
        return TAKEN_UNIT;
    }
    bool capped = false;
    bool at_end = gather(runner, owner, cargo, unit, &capped);
    if (should_wait(runner, unit, at_end)) {
        bool retry = !slot_is(first, TRAIT_FROM_LOG);
        unit_untaken(runner, unit);
        cargo->used = 0; /* it was the only one */
        if (retry && !is_room(window)) {
            return TAKEN_NO_ROOM;
        }
        ask_for_more(runner);
        return TAKEN_NOTHING;
    }
    if (capped) {
        say_capped(runner, unit);
    }
    return TAKEN_UNIT;
}

bool unit_take(struct runner *runner, const void *owner, struct cargo *cargo, struct unit *unit)
{
    *unit = (struct unit){
        .slots = cargo->used ? cargo->slots + cargo->used : cargo->slots,
        .members = cargo->used ? cargo->members + cargo->used : cargo->members,
        .settled = cargo->used ? cargo->settled + cargo->used : cargo->settled,
    };
    struct slot *first = window_take(&runner->window, owner);
    enum taken taken = first ? take_with(runner, owner, first, cargo, unit) : TAKEN_NOTHING;
    while (taken == TAKEN_NO_ROOM) { /* a worker that makes room reports; others need not wait */
        first = window_take_behind(&runner->window, first, owner);
        taken = first ? take_with(runner, owner, first, cargo, unit) : TAKEN_NOTHING;
    }
    return taken == TAKEN_UNIT;
}

/* ---- What becomes of it ---------------------------------------------------------------------- */

static void end_settled(struct runner *runner, struct unit *unit);

void unit_untaken(struct runner *runner, struct unit *unit)
{
    end_settled(runner, unit);
    for (size_t i = 0; i < unit->count; i++) {
        slot_set(unit->slots[i], TRAIT_FOLLOWS, false);
        runner_slot_untaken(runner, unit->slots[i]);
    }
    unit->count = 0;
}

int32_t unit_attempts(const struct unit *unit)
{
    int32_t most = 0;
    for (size_t i = 0; i < unit->count; i++) {
        int32_t attempts = unit->slots[i]->entry->attempts;
        most = attempts > most ? attempts : most;
    }
    return most;
}

/* Is the unit to be halved because it failed so? */
static bool splits(const struct runner *runner, const struct unit *unit, hf_verdict verdict)
{
    const hf_subscription_options *options = &runner->definition.options;
    if (options->on_batch_failure != HF_BATCH_SPLIT || unit->count < 2) {
        return false;
    }
    bool last = verdict == HF_DEAD || verdict == HF_UNDECODABLE ||
                (verdict == HF_RETRY && unit_attempts(unit) + 1 >= options->attempts_max);
    return last || slot_is(unit->slots[0], TRAIT_SPLITTING);
}

static struct unit_mark mark_of(struct slot *const *slots, size_t count)
{
    return (struct unit_mark){slots[0]->entry->event.position, (int32_t)count};
}

static void split(struct runner *runner, struct unit *unit, const char *error)
{
    size_t half = unit->count / 2;
    struct unit_mark marks[2] = {mark_of(unit->slots, half),
                                 mark_of(unit->slots + half, unit->count - half)};
    runner_note(runner, "a unit of %zu events from position %lld on failed (%s): it is split",
                unit->count, (long long)marks[0].first, error ? error : "");
    for (size_t i = 0; i < unit->count; i++) {
        slot_set(unit->slots[i], TRAIT_SPLITTING, true);
        unit->slots[i]->mark = marks[i >= half];
    }
    unit_untaken(runner, unit);
}

/* Takes out what was settled before: it is done, whatever became of the others. */
static void end_settled(struct runner *runner, struct unit *unit)
{
    size_t kept = 0;
    for (size_t i = 0; i < unit->count; i++) {
        if (unit->settled[i]) {
            struct chunk_result done = {.verdict = HF_ACK, .before = true};
            runner_slot_ended(runner, unit->slots[i], &done, true);
            continue;
        }
        unit->members[kept] = unit->members[i];
        unit->settled[kept] = false;
        unit->slots[kept++] = unit->slots[i];
    }
    unit->count = kept;
}

void unit_ended(struct runner *runner, struct unit *unit, struct chunk_result *result, bool in_tx)
{
    end_settled(runner, unit);
    bool splitting = unit->count > 0 && slot_is(unit->slots[0], TRAIT_SPLITTING);
    if (result->verdict != HF_ACK && splits(runner, unit, result->verdict)) {
        split(runner, unit, result->error);
        mem_free(result->error);
        return;
    }
    if (splitting && result->verdict == HF_RETRY_UNCOUNTED &&
        unit->slots[0]->excused++ < UNIT_EXCUSES_MAX) {
        unit_untaken(runner, unit);
        runner->rest_until_us = clock_mono_us() + UNIT_REST_US;
        runner_need(runner, NEED_TURN); /* so that it wakes workers afterwards */
        mem_free(result->error);
        return;
    }
    struct unit_mark mark = {0};
    if (unit->count > 1) {
        mark = mark_of(unit->slots, unit->count);
    }
    for (size_t i = 0; i < unit->count; i++) {
        struct chunk_result own = *result;
        own.lane_busy |= unit->members[i].ret_lane_busy;
        own.before = false; /* those went with end_settled */
        if (i > 0 && result->error) {
            own.error = mem_dup(result->error, strlen(result->error));
        }
        unit->slots[i]->mark = mark;
        runner_slot_ended(runner, unit->slots[i], &own, in_tx);
    }
    if (unit->count == 0) {
        mem_free(result->error);
    }
    unit->count = 0;
}

/* ---- In its transaction ---------------------------------------------------------------------- */

/* One more event for the handler. */
static void expose(struct cargo *cargo, const struct slot *slot)
{
    hf_event *view = &cargo->views[cargo->event_count];
    *view = slot->entry->event;
    view->namespace_name = cargo->namespace_name;
    view->deliveries = slot->deliveries;
    cargo->events[cargo->event_count++] = view;
}

void unit_expose(const struct unit *unit, struct cargo *cargo)
{
    cargo->event_count = 0;
    for (size_t i = 0; i < unit->count; i++) {
        expose(cargo, unit->slots[i]);
    }
}

hf_status unit_enter(struct unit *unit, struct cargo *cargo, struct tx *tx, int64_t now_us)
{
    cargo->event_count = 0;
    size_t i = 0;
    hf_status status = HF_CONFLICT;
    for (; i < unit->count && status == HF_CONFLICT; i++) {
        status = tx_enter(tx, &unit->members[i].hold, unit->members[i].entry, now_us);
        unit->settled[i] = status == HF_CONFLICT;
    }
    if (status) {
        return status;
    }
    unit->entered = i - 1;
    for (i = unit->entered; i < unit->count; i++) {
        expose(cargo, unit->slots[i]);
    }
    return HF_OK;
}

/* Have all that are left the same proof? */
static bool is_of_one_hold(const struct tx_member *members, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const struct hold *a = &members[0].hold;
        const struct hold *b = &members[i].hold;
        if (a->subscription_id != b->subscription_id || a->partition != b->partition ||
            a->epoch != b->epoch || a->leased != b->leased ||
            memcmp(a->lease, b->lease, sizeof a->lease) != 0) {
            return false;
        }
    }
    return true;
}

hf_status unit_finish(struct unit *unit, struct tx *tx, int64_t now_us, bool *ret_again)
{
    struct tx_member *first = &unit->members[unit->entered];
    size_t count = unit->count - unit->entered;
    size_t settled;
    *ret_again = false;
    if (count == 1) {
        return tx_finish(tx, &first->ret_lane_busy);
    }
    hf_status status = tx_finish_unit(tx, first + 1, count - 1, is_of_one_hold(first, count),
                                      now_us, &first->ret_lane_busy, &settled);
    *ret_again = status && settled != SIZE_MAX;
    if (*ret_again) {
        unit->settled[unit->entered + settled] = true;
        status = HF_CONFLICT;
    }
    return status;
}
