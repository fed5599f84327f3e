/*
 * fill.c - getting deliveries into the window: the log, and retries that are due.
 *
 * What was read is handed out only after the store has been asked whether anything has changed
 * since: a pause, a seek, a new pattern or a new owner takes effect before the next event.
 *
 * Retries are read by their due time, as many as there is room for and a batch may hold; there may
 * be more (`cut`), for the next look. The store is told which retries are in hand: their rows are
 * due like any others, and what runs slowly must not keep from sight what is due after it. So a
 * look brings only what is new.
 *
 * A unit that failed comes again whole. Where a look was cut, the last unit of it usually is in
 * hand in part only (`torn`): no worker takes it before the next looks have brought its rest. There
 * is never more than one such unit, or several could fill the room that each of them needs. If more
 * of them are cut, as when units are due at the very same time and their events are mixed, the
 * first one is put, and those of the others are passed over, which is as good as in hand to the
 * next look: so that one comes to its rest. What is behind one of those in its lane is passed over
 * with it. All of them are read again when the first unit is whole, or it turns out that the rest
 * of it is not there.
 *
 * Careful mode: if the store could not tell which handlers ran when the previous owner died, the
 * first events are run one at a time, each recorded as a failed attempt before it runs
 * (prerecord.h), so that an event that kills the process every time still comes to an end. Such an
 * event is a retry from then on.
 */
#include "bus/deliver/ordered/ordered.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "bus/deliver/work/verdict.h"

/* Gives an event of the log a row of its own: it is a retry from now on, and what is recorded of
 * its attempts finds it there. */
static hf_status make_row(struct runner *runner, struct part *part, const struct entry *entry,
                          int64_t now_us)
{
    struct outcome outcome = {
        .kind = OUTCOME_RETRY,
        .position = entry->event.position,
        .lane = entry->lane,
        .next_attempt_us = now_us,
    };
    struct settle settle = {
        .change = {.kind = CHANGE_SETTLE, .relaxed = true, .now_us = now_us},
        .subscription_id = runner->definition.id,
        .partition = part->number,
        .epoch = part->epoch,
        .checkpoint = -1,
        .outcomes = &outcome,
        .count = 1,
    };
    hf_status status = runner_run(runner, &settle.change);
    if (status) {
        ordered_not_settled(runner, part, status);
    }
    return status;
}

/* May what was read be handed out? Asked after reading, so that nothing published after a pause, a
 * seek or a new pattern slips through, and a process that was frozen does not run what others
 * have. If not, the next turn follows at once. */
static bool may_hand_out(struct runner *runner, const struct batch *batch)
{
    bool may = batch->count == 0 || membership_check(runner, runner->ordered->generation);
    runner_need(runner, may ? 0 : NEED_TURN);
    return may;
}

/* In strict order all events are of one lane, whatever their keys. */
static void join_lanes(const struct runner *runner, struct batch *batch)
{
    bool strict = ordered_is_strict(runner);
    for (size_t i = 0; strict && i < batch->count; i++) {
        batch->entries[i].lane = STRICT_LANE;
    }
}

/* Puts one entry into the window. The mutex is held. */
static void put(struct runner *runner, struct queue *queue, struct event_batch *event_batch,
                const struct entry *entry, bool doubtful)
{
    struct window *window = &runner->window;
    struct slot *slot = window_put(window, queue, event_batch, entry);
    slot_set(slot, TRAIT_FROM_LOG, queue == &window->log);
    const struct part *part = ordered_part(runner->ordered, slot->partition);
    if (!entry->certain && part && entry->event.position <= part->doubt_through) {
        slot->deliveries = -1;
    }
    if (queue == &window->retries) {
        if (!window_fail_lane(window, slot->lane, slot->partition)) {
            runner_raise(runner, BAR_LOST); /* it cannot be kept back: all is read anew */
        }
        slot_set(slot, TRAIT_WAITED, true);
        runner_mark_prerecord(runner, slot, doubtful);
    }
    runner_sort_out(runner, slot);
}

/* Careful mode: one event of a partition that is ours, with a row, run as a retry. True if an event
 * was put. */
static bool put_prerecorded(struct runner *runner, struct event_batch *event_batch,
                            struct entry *entry, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    struct window *window = &runner->window;
    struct part *part = ordered_part(ordered, hash_slice(entry->hash, window->partitions));
    pthread_mutex_lock(&runner->mutex);
    /* One that will not run, must wait behind its lane, or is of a partition with which no process
     * died, needs no record. */
    bool plain = !part->unclean || entry->unhandled || entry->damaged ||
                 verdict_is_spent(&runner->definition.options, entry) ||
                 (!entry->waited && set64_get(&window->failing, entry->lane, NULL));
    if (plain) {
        put(runner, entry->waited ? &window->retries : &window->log, event_batch, entry, false);
    }
    pthread_mutex_unlock(&runner->mutex);
    if (plain) {
        return true;
    }
    hf_status status = entry->waited ? HF_OK : make_row(runner, part, entry, now_us);
    if (status) {
        return false;
    }
    ordered->prerecord--;
    entry->waited = true; /* it has a row now */
    pthread_mutex_lock(&runner->mutex);
    put(runner, &window->retries, event_batch, entry, true);
    pthread_mutex_unlock(&runner->mutex);
    return true;
}

static bool in_hand(const struct window *window)
{
    return window->ready > 0 || window->busy > 0 || window->ended > 0;
}

static bool is_ours(struct ordered *ordered, int32_t partitions, const struct entry *entry)
{
    const struct part *part = ordered_part(ordered, hash_slice(entry->hash, partitions));
    return part && part->state == PART_OURS;
}

/* Is the entry to be put: of a partition that is ours, and not put before? */
static bool is_new(struct ordered *ordered, int32_t partitions, const struct entry *entry)
{
    const struct part *part = ordered_part(ordered, hash_slice(entry->hash, partitions));
    if (!is_ours(ordered, partitions, entry) || entry->event.position <= part->floor) {
        return false;
    }
    return set64_count(&ordered->ahead) == 0 ||
           !set64_remove(&ordered->ahead, (uint64_t)entry->event.position);
}

/* Everything up to the floor, and what is in the batch, has been handed up. That of partitions
 * which are not ours any more was not put: their floors, up to which their checkpoints may move,
 * stay. What there is no room to remember is missed only if reading has to go back. The mutex is
 * held. */
static void note_read(struct runner *runner, const struct batch *batch, int64_t floor)
{
    struct ordered *ordered = runner->ordered;
    ordered->floor = floor;
    for (int32_t i = 0; i < ordered->part_count; i++) {
        struct part *part = &ordered->parts[i];
        if (part->state == PART_OURS && part->floor < floor) {
            part->floor = floor;
        }
    }
    if (floor >= ordered->handed_top && ordered->handed_top > 0) {
        set64_clear(&ordered->handed);
        ordered->handed_top = 0;
        ordered->handed_short = false;
    }
    for (size_t i = 0; i < batch->count; i++) {
        int64_t position = batch->entries[i].event.position;
        if (position <= floor) {
            continue;
        }
        int64_t partition = hash_slice(batch->entries[i].hash, runner->window.partitions);
        ordered->handed_short |=
            set64_put(&ordered->handed, (uint64_t)position, partition) != HF_OK;
        ordered->handed_top = position > ordered->handed_top ? position : ordered->handed_top;
    }
}

/* With less room than this it is not worth while to read. */
static size_t room_wanted(const struct runner *runner, bool any)
{
    const hf_subscription_options *options = &runner->definition.options;
    size_t half = (size_t)runner->window.log.capacity / 2;
    size_t wanted = (size_t)options->inflight_max / 4;
    wanted = wanted < (size_t)options->batch ? (size_t)options->batch : wanted;
    wanted = wanted < half ? wanted : half;
    return any || wanted < 1 ? 1 : wanted;
}

/* What is to be read: of these partitions, up to the barrier. */
static struct filter filter_of(const struct definition *definition,
                               const struct partition_set *owned, int64_t barrier)
{
    struct filter filter = definition_filter(definition);
    filter.owned = owned->total > 1 ? owned : NULL;
    filter.through = barrier < INT64_MAX ? barrier : 0;
    return filter;
}

/* In strict order nothing may run behind what fails, so nothing is read that would only have to be
 * stored as held and fetched again, one by one. The mutex is held. */
static bool reading_waits(const struct runner *runner)
{
    return runner->window.lanes_full ||
           (ordered_is_strict(runner) && set64_get(&runner->window.failing, STRICT_LANE, NULL));
}

/* Memory for what was read, if anything was. */
static hf_status prepare(struct runner *runner, const struct batch *batch)
{
    return batch->count > 0 ? runner_prepare(runner) : HF_OK;
}

/* The log could not be read; `again`: and is to be read from the checkpoints on. */
static void reading_failed(struct runner *runner, hf_status status, bool again,
                           struct event_batch *event_batch)
{
    if (again) {
        pthread_mutex_lock(&runner->mutex);
        runner_raise(runner, BAR_LOST);
        pthread_mutex_unlock(&runner->mutex);
    }
    runner_need(runner, NEED_LOG);
    runner_store_failed(runner, status, "reading the log");
    batch_pool_return(&runner->batch_pool, event_batch);
}

/* Nothing more will be read for now: no unit waits for the rest of its run. */
static void stop_waiting(struct runner *runner)
{
    if (runner_take(runner, NEED_LOG_REST)) {
        runner_need(runner, NEED_LOG);
    }
}

/* Notes whether there is more of the log behind what was read. */
static void note_rest(struct runner *runner, bool more)
{
    if (more) {
        runner_need(runner, NEED_LOG_REST);
    } else {
        runner_take(runner, NEED_LOG_REST);
    }
}

/* Puts the only event that was read, if it is new. False: it is not put, and must be read again. */
static bool fill_prerecorded(struct runner *runner, struct event_batch *event_batch, int64_t now_us,
                             bool *ret_any)
{
    struct ordered *ordered = runner->ordered;
    struct entry *entry = &event_batch->batch.entries[0];
    if (!may_hand_out(runner, &event_batch->batch)) {
        return false;
    }
    *ret_any = is_new(ordered, runner->window.partitions, entry);
    return !*ret_any || put_prerecorded(runner, event_batch, entry, now_us);
}

/* Puts what was read and is new. False: nothing is. The mutex is held. */
static bool put_read(struct runner *runner, struct event_batch *event_batch)
{
    bool any = false;
    for (size_t i = 0; i < event_batch->batch.count; i++) {
        const struct entry *entry = &event_batch->batch.entries[i];
        if (is_new(runner->ordered, runner->window.partitions, entry)) {
            put(runner, &runner->window.log, event_batch, entry, false);
            any = true;
        }
    }
    return any;
}

/* One read of the log. */
struct reading {
    size_t room;                           /* for events */
    bool prerecord;                        /* only one event, and nothing else is in hand */
    uint64_t bits[HF_PARTITIONS_MAX / 64]; /* of these partitions; workers lose some meanwhile */
    int64_t barrier;                       /* up to here */
    int64_t floor;                         /* everything up to here was read */
    bool more;                             /* there is more above it */
};

/* Looks whether the log can be read now, and is worth it. */
static bool wants_log(struct runner *runner, struct reading *reading)
{
    struct ordered *ordered = runner->ordered;
    pthread_mutex_lock(&runner->mutex);
    size_t room = window_heavy(&runner->window) ? 0 : queue_room(&runner->window.log);
    bool clear = queue_room(&runner->window.retries) > 0 && !in_hand(&runner->window);
    bool waits = reading_waits(runner);
    bool read_on = runner_take(runner, NEED_READ_ON) && room > 0;
    memcpy(reading->bits, ordered->bits, sizeof reading->bits);
    pthread_mutex_unlock(&runner->mutex);
    int64_t barrier = runner->definition.wanted > 0 ? ordered->barrier : INT64_MAX;
    bool prerecord = ordered->prerecord > 0 && ordered->floor < ordered->prerecord_end;
    reading->room = room;
    reading->prerecord = prerecord;
    reading->barrier = barrier < ordered->ahead_end ? barrier : ordered->ahead_end;
    reading->floor = ordered->floor;
    bool at_barrier = ordered->floor >= reading->barrier;
    if (at_barrier || prerecord) {
        stop_waiting(runner);
    }
    return !waits && !at_barrier && (clear || !prerecord) &&
           runner_needs(runner, NEED_LOG | NEED_LOG_REST) &&
           room >= room_wanted(runner, prerecord || read_on);
}

/* Reads onto a new event_batch. NULL: it failed. */
static struct event_batch *read_log(struct runner *runner, struct reading *reading)
{
    struct event_batch *event_batch = batch_pool_take(&runner->batch_pool);
    if (!event_batch) {
        runner_store_failed(runner, fail(HF_NOMEM, "out of memory for events"), "reading the log");
        return NULL;
    }
    struct partition_set owned = {.total = runner->window.partitions, .bits = reading->bits};
    struct filter filter = filter_of(&runner->definition, &owned, reading->barrier);
    int32_t max = (int32_t)(reading->prerecord ? 1 : reading->room);
    runner_take(runner, NEED_LOG); /* what comes from now on is for the next time */
    hf_status status = follower_next(runner->ordered->follower, &filter, max, &event_batch->batch,
                                     &reading->floor, &reading->more);
    bool again = status == HF_STALE; /* it has lost its connection */
    if (!status) {
        status = prepare(runner, &event_batch->batch);
        again = status != HF_OK; /* what was handed up cannot be put */
    }
    if (status) {
        reading_failed(runner, status, again, event_batch);
        return NULL;
    }
    if (reading->floor >= reading->barrier) {
        reading->floor = reading->barrier;
    }
    join_lanes(runner, &event_batch->batch);
    return event_batch;
}

/* Hands out what was read. *ret_any: something was new. False: it is to be read again. */
static bool hand_out_log(struct runner *runner, const struct reading *reading,
                         struct event_batch *event_batch, int64_t now_us, bool *ret_any)
{
    if (reading->prerecord && event_batch->batch.count == 1) {
        return fill_prerecorded(runner, event_batch, now_us, ret_any);
    }
    bool changed = !may_hand_out(runner, &event_batch->batch);
    pthread_mutex_lock(&runner->mutex);
    runner_raise(runner, changed ? BAR_HELD_BACK : 0);
    /* Before a worker sees what is put. */
    note_rest(runner, reading->more && reading->floor < reading->barrier);
    *ret_any = put_read(runner, event_batch);
    runner_signal_work(runner);
    pthread_mutex_unlock(&runner->mutex);
    return true;
}

void ordered_fill_from_log(struct runner *runner, struct turn *turn)
{
    struct ordered *ordered = runner->ordered;
    struct reading reading = {0};
    struct event_batch *event_batch =
        wants_log(runner, &reading) ? read_log(runner, &reading) : NULL;
    if (!event_batch) {
        return;
    }
    bool any = false;
    if (hand_out_log(runner, &reading, event_batch, turn->now_us, &any)) {
        bool at_barrier = reading.floor >= reading.barrier;
        /* Where nothing runs no worker reports that checkpoints may move. */
        bool moves = !any && reading.floor > ordered->floor;
        pthread_mutex_lock(&runner->mutex);
        note_read(runner, &event_batch->batch, reading.floor);
        pthread_mutex_unlock(&runner->mutex);
        if (reading.more || at_barrier) {
            runner_need(runner, NEED_LOG); /* there is more, perhaps when the barrier moves */
        }
        if (reading.more && !at_barrier) {
            runner_need(runner, NEED_TURN);
        } else if (moves) {
            ordered_floor_moved(runner, turn);
        }
    } else {
        membership_read_again(runner);
    }
    batch_pool_return(&runner->batch_pool, event_batch);
}

/* The numbers of the partitions that are ours. */
static size_t list_ours(const struct ordered *ordered, int32_t *numbers)
{
    size_t count = 0;
    for (int32_t i = 0; i < ordered->part_count; i++) {
        if (ordered->parts[i].state == PART_OURS) {
            numbers[count++] = ordered->parts[i].number;
        }
    }
    return count;
}

/* How much of each unit is in hand, or has just been read: first position -> events. One that has
 * begun, and will not be more than it is, counts as whole. Mutex held. */
static hf_status count_units(const struct runner *runner, const struct batch *batch,
                             struct set64 *counts)
{
    hf_status status = HF_OK;
    const struct slot *slot = runner->window.retries.used.first;
    for (; slot && !status; slot = slot->next) {
        if (slot->state != SLOT_SETTLED && slot->mark.events > 1) {
            int64_t events = slot->state == SLOT_READY ? 1 : UNIT_EVENTS_MAX;
            status = set64_add(counts, (uint64_t)slot->mark.first, events);
        }
    }
    for (size_t i = 0; i < batch->count && !status; i++) {
        struct unit_mark mark = window_mark(&runner->window, &batch->entries[i]);
        if (mark.events > 1) {
            status = set64_add(counts, (uint64_t)mark.first, 1);
        }
    }
    return status;
}

static bool is_torn(const struct set64 *counts, struct unit_mark mark)
{
    int64_t count = 0;
    return mark.events > 1 && set64_get(counts, (uint64_t)mark.first, &count) &&
           count < mark.events;
}

static void forget_passed(struct ordered *ordered)
{
    set64_clear(&ordered->passed);
    set64_clear(&ordered->passed_lanes);
}

/* Is the retry to be passed over: because of another unit that is torn, or because it is behind
 * one that was? Else, if its own is torn, that is the one. */
static bool must_pass(struct ordered *ordered, const struct set64 *counts,
                      const struct entry *entry, struct unit_mark *torn)
{
    struct unit_mark mark = entry->unit;
    if (set64_get(&ordered->passed_lanes, entry->lane, NULL)) {
        return true;
    }
    if (!is_torn(counts, mark)) {
        return false;
    }
    if (torn->events == 0) {
        *torn = mark;
    }
    return torn->first != mark.first;
}

/* Puts those that were read so that at most one unit is torn; `cut`: there are more to be read.
 * False: nothing waits for them. The mutex is held. */
static bool put_whole(struct runner *runner, struct event_batch *event_batch, bool cut)
{
    struct ordered *ordered = runner->ordered;
    struct window *window = &runner->window;
    struct unit_mark torn = runner->torn;
    struct set64 counts;
    set64_init(&counts, WINDOW_LANES_MAX);
    hf_status status = count_units(runner, &event_batch->batch, &counts);
    if (!is_torn(&counts, torn) && set64_count(&ordered->passed) == 0) {
        torn.events = 0; /* it is whole now, or has begun as it is: another one may be */
    }
    for (size_t i = 0; i < event_batch->batch.count && !status; i++) {
        const struct entry *entry = &event_batch->batch.entries[i];
        if (!is_ours(ordered, window->partitions, entry)) {
            continue;
        }
        if (must_pass(ordered, &counts, entry, &torn)) {
            status = set64_put(&ordered->passed, (uint64_t)entry->event.position, 1);
            status = status ? status : set64_put(&ordered->passed_lanes, entry->lane, 1);
        } else {
            put(runner, &window->retries, event_batch, entry, false);
        }
    }
    bool waits = !status && cut && is_torn(&counts, torn); /* with memory for what it takes */
    set64_release(&counts);
    runner->torn = torn;
    return waits;
}

/* Puts those that are due; there is room for them. `cut`: there are more. True: there are more,
 * those that were passed over among them. The mutex is held. */
static bool put_due(struct runner *runner, struct event_batch *event_batch, bool cut)
{
    struct ordered *ordered = runner->ordered;
    struct window *window = &runner->window;
    bool passed = set64_count(&ordered->passed) > 0;
    if (cut || passed) {
        bool waits = put_whole(runner, event_batch, cut);
        passed |= set64_count(&ordered->passed) > 0;
        if (waits) {
            return true;
        }
    } else {
        for (size_t i = 0; i < event_batch->batch.count && !passed; i++) {
            const struct entry *entry = &event_batch->batch.entries[i];
            if (is_ours(ordered, window->partitions, entry)) {
                put(runner, &window->retries, event_batch, entry, false);
            }
        }
    }
    runner->torn.events = 0; /* it is whole, or that was all that there is of it */
    forget_passed(ordered);
    return cut || passed;
}

static int compare_positions(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Reads what is due, and neither in hand nor passed over, at most `max`, onto a new event_batch.
 * NULL: it failed. */
static struct event_batch *read_due(struct runner *runner, int64_t now_us, int32_t max,
                                    int64_t *ret_next_us)
{
    struct event_batch *event_batch = batch_pool_take(&runner->batch_pool);
    const struct set64 *passed = &runner->ordered->passed;
    int64_t *in_hand =
        mem_calloc(runner->window.retries.capacity + set64_count(passed), sizeof *in_hand);
    int32_t numbers[HF_PARTITIONS_MAX];
    struct due_query query = {
        .subscription_id = runner->definition.id,
        .partitions = numbers,
        .partition_count = list_ours(runner->ordered, numbers),
        .now_us = now_us,
        .max = max,
        .in_hand = in_hand,
    };
    hf_status status = event_batch && in_hand ? HF_OK : fail(HF_NOMEM, "out of memory for events");
    if (!status) {
        pthread_mutex_lock(&runner->mutex);
        query.in_hand_count = window_list_retries(&runner->window, in_hand);
        pthread_mutex_unlock(&runner->mutex);
        uint64_t position;
        int64_t one;
        for (size_t cursor = 0; set64_next(passed, &cursor, &position, &one);) {
            in_hand[query.in_hand_count++] = (int64_t)position;
        }
        qsort(in_hand, query.in_hand_count, sizeof *in_hand, compare_positions);
        status = store_retries_due(runner->bus->store, &query, &event_batch->batch, ret_next_us);
    }
    status = status ? status : prepare(runner, &event_batch->batch);
    mem_free(in_hand);
    if (status) {
        runner_store_failed(runner, status, "reading the retries");
        batch_pool_return(&runner->batch_pool, event_batch);
        return NULL;
    }
    return event_batch;
}

/* How many retries are to be read; 0: none, and a worker's report comes. */
static int32_t retries_wanted(struct runner *runner, bool prerecord)
{
    pthread_mutex_lock(&runner->mutex);
    size_t room = window_retry_room(&runner->window);
    bool read_on = runner_needs(runner, NEED_READ_ON); /* a unit waits for it */
    bool full = room == 0 || (queue_ready(&runner->window.retries) > room && !read_on);
    bool busy = prerecord && in_hand(&runner->window);
    if (prerecord) {
        runner->torn.events = 0; /* none waits for what comes singly */
        forget_passed(runner->ordered);
    }
    pthread_mutex_unlock(&runner->mutex);
    return full || busy ? 0 : prerecord ? 1 : (int32_t)room;
}

/* Hands out what was read; `cut`: there may be more. True: there is more. */
static bool hand_out_retries(struct runner *runner, struct event_batch *event_batch, bool prerecord,
                             bool cut, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    bool may = may_hand_out(runner, &event_batch->batch);
    if (prerecord && event_batch->batch.count == 1) {
        struct entry *entry = &event_batch->batch.entries[0];
        if (may && is_ours(ordered, runner->window.partitions, entry)) {
            put_prerecorded(runner, event_batch, entry, now_us);
        }
        return cut;
    }
    pthread_mutex_lock(&runner->mutex);
    runner_raise(runner, may ? 0 : BAR_HELD_BACK);
    cut = put_due(runner, event_batch, cut);
    runner_need(runner, cut && !in_hand(&runner->window) ? NEED_TURN : 0); /* none reports */
    runner_signal_work(runner);
    pthread_mutex_unlock(&runner->mutex);
    return cut;
}

void ordered_fill_from_retries(struct runner *runner, struct turn *turn)
{
    struct ordered *ordered = runner->ordered;
    bool prerecord = ordered->prerecord > 0;
    int32_t max = retries_wanted(runner, prerecord);
    if (max == 0) {
        return;
    }
    int64_t next_us = -1;
    uint32_t news = runner_take(runner, NEED_RETRIES);
    struct event_batch *event_batch = read_due(runner, turn->now_us, max, &next_us);
    if (!event_batch) {
        runner_need(runner, news);
        return;
    }
    ordered->retry_at_us = next_us < 0 ? INT64_MAX : next_us;
    join_lanes(runner, &event_batch->batch);
    bool cut = event_batch->batch.count == (size_t)max || batch_full(&event_batch->batch);
    if (hand_out_retries(runner, event_batch, prerecord, cut, turn->now_us)) {
        ordered->retry_at_us = turn->now_us; /* there are more; when there is room again */
    } else {
        turn_wake(turn, ordered->retry_at_us);
    }
    batch_pool_return(&runner->batch_pool, event_batch);
}
