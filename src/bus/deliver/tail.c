/*
 * tail.c - see tail.h.
 *
 * The tail is a reader of the log, in relaxed order and without a filter, and the last events that
 * it has brought, numbered in the order of their coming, in pages of which the oldest is given up
 * when a new one is needed. `low` is the highest position that is not kept any more, so an event
 * above it is among those that are kept or is still to come. `floor` is the reader's.
 *
 * Where a follower is, is told by its own floor and by the positions above it that it has handed up
 * (`above`; there are none unless positions became visible out of order), and by the life of the
 * server that all this is known from. From this it can go on with any reader:
 *
 *     ALONE ---- its floor is not below `low` ------------------------------> AT_TAIL
 *     ALONE <--- its next event was given up, or the tail was begun anew ---- AT_TAIL
 *
 * A follower that looks and has taken everything makes the tail read on, unless there was no news
 * since the tail was last read: of many followers that are called for the same news the first one
 * reads, and the others wait for that or find it done. News is noted before reading, so what is
 * published meanwhile is news to the next one that looks. Some news makes no sound (a lost wake-up,
 * a foreign program), so what was read long ago is read again.
 *
 * Resting
 *   Of many followers most want few of the events. So one that has taken everything rests: it is in
 *   a list, with a copy of its patterns, and its place is the end of the tail, wherever that is.
 *   What is read is matched against those in the list; one that wants an event leaves it, with its
 *   place before that event, and its owner is called. Nothing is lost:
 *
 *     news comes before it rests      it does not rest: the news is not that of the last read
 *     after that                      tail_news calls an owner in the list, whose turn begins with
 *                                     tail_serve, which reads
 *     that owner is in a turn         another one is called; if all are, then all of them: the call
 *                                     is followed by another turn
 *     a thread reads meanwhile        when it has read it looks for news, and calls one (call_one)
 *     it looks by itself              it leaves the list first
 *     reading fails, the run ends     all leave the list and are called, and look for themselves
 *
 * In strict order a follower hands up what is at or below the floor of the tail, and only while
 * what it has not taken came in the order of positions; if not, it reads alone for a while.
 *
 * What the reader knows may become untrue (HF_STALE): then all that follow the tail are told so.
 */
#include "bus/deliver/tail.h"

#include <pthread.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/set64.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "store/common/batch.h"
#include "store/common/filter.h"
#include "store/common/pages.h"

#define TAIL_READ_EVENTS 512 /* at once */
#define TAIL_FRESH_US 20000  /* without news it is not read again before */
#define TAIL_BEHIND_MAX 8192 /* positions; a tail that is further behind is begun anew */
#define FOLLOWER_ABOVE_MAX 1024

struct tail {
    struct store *store;
    struct dispatchers *dispatchers;
    atomic_bool wanted;          /* one that rests was called to read on */
    _Atomic int32_t resting;     /* how many rest; changed under the mutex */
    pthread_mutex_t mutex;       /* guards what follows. Before those of runners */
    struct follower *rest_first; /* those that rest; the first has done so for longest */
    struct follower *rest_last;
    uint64_t swept_next; /* when none was left for tail_sweep: `next` ... */
    int64_t swept_floor; /* and `floor` */
    pthread_cond_t read_on;
    bool reading; /* a thread reads, without the mutex; `reader` and `fresh` are its own */
    int32_t followers;

    struct reader *reader;   /* NULL: it has not begun */
    uint64_t run;            /* rises when it begins anew */
    uint64_t stale_run;      /* what runs up to this one have brought may be untrue */
    struct reader_life life; /* that it has read in */
    struct batch fresh;      /* what was read last */

    struct pages pages; /* the last events */
    uint64_t disorder;  /* number of the last event that came below one before it */
    int64_t floor;
    int64_t top; /* the highest position that has come */

    bool more;       /* there may be more to read right now */
    uint64_t news;   /* store_news before it was read */
    int64_t read_us; /* when it was read; monotonic */
};

enum place { ALONE, AT_TAIL };

struct follower {
    struct tail *tail;
    bool strict;
    int64_t gap_timeout_ms;
    enum place place;
    struct reader *reader; /* ALONE: its own, NULL before the first look */
    uint64_t run;          /* AT_TAIL: of the tail */
    uint64_t cursor;       /* AT_TAIL: all events before this one are taken */
    int64_t floor;
    struct reader_life life; /* in which all that is known was read */
    struct set64 above;      /* position -> 1 */
    int64_t above_top;       /* the highest of them */
    bool above_short;        /* there are more of them than are remembered */

    struct follower_owner owner; /* seat NULL: none */
    bool rests;
    struct follower *rest_next; /* in the list of those that rest, or of those that are called */
    struct follower *rest_previous;
    int64_t rest_us;      /* since when; monotonic */
    uint64_t rest_number; /* `next` then ... */
    int64_t rest_floor;   /* and `floor` */
    struct filter_copy wants;
};

/* ---- Resting --------------------------------------------------------------------------------- */

static bool is_taken(const struct follower *follower, int64_t position)
{
    return position <= follower->floor || (set64_count(&follower->above) > 0 &&
                                           set64_get(&follower->above, (uint64_t)position, NULL));
}

static void note_floor(struct follower *follower, int64_t floor)
{
    follower->floor = floor > follower->floor ? floor : follower->floor;
    if (follower->floor >= follower->above_top && follower->above_top > 0) {
        set64_clear(&follower->above);
        follower->above_top = 0;
        follower->above_short = false;
    }
}

/* Is the event for the follower, and if so, matched by its patterns? */
static bool is_wanted(const struct filter *filter, const struct entry *entry, bool *ret_matches)
{
    *ret_matches = filter_matches(filter, text_of(entry->event.type));
    return filter_owns(filter, entry->hash) && (*ret_matches || filter->unhandled_too);
}

/* Does it want the event, and has not had it? */
static bool is_for(const struct follower *follower, const struct entry *entry)
{
    bool matches;
    return is_wanted(&follower->wants.filter, entry, &matches) &&
           !is_taken(follower, entry->event.position);
}

/* It rests no more: it has passed all before this number, and everything up to the floor. */
static void unrest(struct follower *follower, uint64_t number, int64_t floor)
{
    struct tail *tail = follower->tail;
    struct follower *next = follower->rest_next;
    struct follower *previous = follower->rest_previous;
    *(previous ? &previous->rest_next : &tail->rest_first) = next;
    *(next ? &next->rest_previous : &tail->rest_last) = previous;
    follower->rests = false;
    atomic_store(follower->owner.rests, false);
    atomic_fetch_sub(&tail->resting, 1);
    follower->cursor = number;
    follower->life = tail->life;
    note_floor(follower, floor);
}

/* Calls the owners of a list of followers that rested, all at once. */
static void call_all(struct tail *tail, struct follower *first)
{
    for (struct follower *at = first; at; at = at->rest_next) {
        at->owner.look(at->owner.ctx);
    }
    if (first) {
        dispatchers_hold(tail->dispatchers);
        for (struct follower *at = first; at; at = at->rest_next) {
            dispatchers_call_held(tail->dispatchers, at->owner.seat);
        }
        dispatchers_let_go(tail->dispatchers);
    }
}

/* Ends the rest of all. */
static void call_resting(struct tail *tail)
{
    struct follower *first = NULL;
    while (tail->rest_last) {
        struct follower *follower = tail->rest_last;
        unrest(follower, tail->pages.next, tail->floor);
        follower->rest_next = first;
        first = follower;
    }
    call_all(tail, first);
}

/* What has just been read has the numbers from `first` on; before it the floor was `floor`. Calls
 * those that it is for. */
static void call_for_fresh(struct tail *tail, uint64_t first, int64_t floor)
{
    struct follower *called = NULL;
    for (struct follower *at = tail->rest_first, *next; at; at = next) {
        next = at->rest_next;
        size_t i = 0;
        while (i < tail->fresh.count && !is_for(at, &tail->fresh.entries[i])) {
            i++;
        }
        if (i < tail->fresh.count) {
            unrest(at, first + i, floor);
            at->rest_next = called;
            called = at;
        }
    }
    call_all(tail, called);
}

/* Calls one of those that rest, to read on: one whose turn is not being taken, because that may
 * last. */
static void call_one(struct tail *tail)
{
    atomic_store(&tail->wanted, true); /* before the look at a seat: a turn that begins sees it */
    for (struct follower *at = tail->rest_last; at; at = at->rest_previous) {
        enum seat_state state = atomic_load(&at->owner.seat->state);
        if (state == SEAT_IDLE || state == SEAT_QUEUED) {
            dispatchers_call(tail->dispatchers, at->owner.seat);
            return;
        }
    }
    for (struct follower *at = tail->rest_last; at; at = at->rest_previous) {
        dispatchers_call(tail->dispatchers, at->owner.seat);
    }
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* Ends the run: nothing is kept, and those that follow go on alone. No thread reads. */
static void end_run(struct tail *tail)
{
    call_resting(tail);
    store_reader_close(tail->reader);
    tail->reader = NULL;
    tail->run++;
    pages_release(&tail->pages);
    batch_release(&tail->fresh);
    batch_init(&tail->fresh);
}

/* Begins after this position, which is known from what was read in this life. */
static hf_status begin_run(struct tail *tail, int64_t after, struct reader_life life)
{
    end_run(tail);
    hf_status status = store_reader_open(tail->store, after, false, &tail->reader);
    if (!status) {
        store_reader_continue(tail->reader, life);
    }
    tail->life = life;
    tail->pages.low = after;
    tail->floor = after;
    tail->top = after;
    tail->more = true;
    return status;
}

/* Keeps what was read. */
static hf_status keep_fresh(struct tail *tail)
{
    for (size_t i = 0; i < tail->fresh.count; i++) {
        const struct entry *entry = &tail->fresh.entries[i];
        if (!pages_put(&tail->pages, entry)) {
            return fail(HF_NOMEM, "no memory for the newest events");
        }
        int64_t position = entry->event.position;
        tail->disorder = position < tail->top ? tail->pages.next - 1 : tail->disorder;
        tail->top = position > tail->top ? position : tail->top;
    }
    return HF_OK;
}

static bool has_news(const struct tail *tail)
{
    return tail->more || tail->news != store_news(tail->store);
}

/* What was read is there for all: see Resting. */
static void tell_resting(struct tail *tail, uint64_t first, int64_t floor)
{
    call_for_fresh(tail, first, floor);
    if (tail->rest_first && has_news(tail)) {
        call_one(tail);
    }
}

/* Reads on. The mutex is held, but not meanwhile; no other thread reads. */
static hf_status read_on(struct tail *tail)
{
    const struct filter everything = {.unhandled_too = true};
    tail->reading = true;
    pthread_mutex_unlock(&tail->mutex);
    uint64_t news = store_news(tail->store);
    int64_t now_us = clock_mono_us();
    int64_t floor = 0;
    bool more = false;
    batch_clear(&tail->fresh);
    hf_status status =
        store_reader_next(tail->reader, &everything, TAIL_READ_EVENTS, &tail->fresh, &floor, &more);
    pthread_mutex_lock(&tail->mutex);
    tail->reading = false;
    pthread_cond_broadcast(&tail->read_on);
    uint64_t first = tail->pages.next;
    int64_t floor_before = tail->floor;
    if (!status) {
        status = keep_fresh(tail);
    }
    if (status) {
        call_resting(tail);
    } else {
        tail->floor = floor;
        tail->more = more;
        tail->news = news;
        tail->life = store_reader_life(tail->reader);
        tail->read_us = now_us;
        tell_resting(tail, first, floor_before);
    }
    if (status == HF_STALE) {
        tail->stale_run = tail->run;
    }
    /* What was read and not kept is missing; what follows no more needs no memory. */
    if (status == HF_NOMEM || status == HF_STALE || tail->followers < TAIL_FOLLOWERS_MIN) {
        end_run(tail);
    }
    return status;
}

/* Is it time to read on? */
static bool is_old(const struct tail *tail)
{
    return has_news(tail) || clock_mono_us() - tail->read_us >= TAIL_FRESH_US;
}

/* ---- A follower's place ---------------------------------------------------------------------- */

static void note_taken(struct follower *follower, int64_t position)
{
    if (!follower->above_short) {
        follower->above_short = set64_put(&follower->above, (uint64_t)position, 1) != HF_OK;
    }
    follower->above_top = position > follower->above_top ? position : follower->above_top;
}

/* May it follow a tail at all, for now? */
static bool may_follow(const struct follower *follower, const struct filter *filter)
{
    return follower->tail->followers >= TAIL_FOLLOWERS_MIN && follower->gap_timeout_ms == 0 &&
           filter->through == 0;
}

/* May what was read in both be put together? */
static bool is_same_life(struct reader_life a, struct reader_life b)
{
    return a.era == 0 || b.era == 0 || (a.era == b.era && a.started_us == b.started_us);
}

/* Passes what is taken already. */
static void pass_taken(struct follower *follower)
{
    struct tail *tail = follower->tail;
    while (follower->cursor < tail->pages.next &&
           is_taken(follower, pages_event(&tail->pages, follower->cursor)->event.position)) {
        follower->cursor++;
    }
}

/* Goes to the tail if all that it wants is there or to come. `caught_up`: it has read all that
 * there is, so that a tail may begin where it is. */
static void try_tail(struct follower *follower, bool caught_up)
{
    struct tail *tail = follower->tail;
    bool usable = tail->reader && follower->floor <= tail->floor + TAIL_BEHIND_MAX;
    if (!usable && caught_up && !tail->reading) {
        usable = begin_run(tail, follower->floor, follower->life) ==
                 HF_OK; /* if not, it reads alone as before */
    }
    if (!usable || follower->above_short || follower->floor < tail->pages.low ||
        !is_same_life(follower->life, tail->life)) {
        return;
    }
    follower->cursor = pages_first(&tail->pages);
    pass_taken(follower);
    if (follower->strict && tail->disorder > follower->cursor) {
        return;
    }
    store_reader_close(follower->reader);
    follower->reader = NULL;
    follower->run = tail->run;
    follower->place = AT_TAIL;
}

/* Can it go on at the tail? */
static bool has_fallen(struct follower *follower, const struct filter *filter)
{
    struct tail *tail = follower->tail;
    if (follower->run != tail->run || follower->cursor < pages_first(&tail->pages) ||
        !may_follow(follower, filter)) {
        return true;
    }
    pass_taken(follower);
    return follower->strict && tail->disorder > follower->cursor;
}

static hf_status stale(void)
{
    return fail(HF_STALE,
                "what was known of the log is not true any more: begin again at the checkpoint");
}

/* ---- Taking from the tail -------------------------------------------------------------------- */

/* The floor of a follower that has not taken everything yet. */
static int64_t floor_of(struct follower *follower)
{
    struct tail *tail = follower->tail;
    int64_t floor = tail->floor;
    for (uint64_t number = follower->cursor; number < tail->pages.next; number++) {
        int64_t position = pages_event(&tail->pages, number)->event.position;
        if (position <= floor && !is_taken(follower, position)) {
            floor = position - 1;
        }
    }
    return floor;
}

/* Notes what was handed up, from `first` in the batch on, and the floor after it. */
static void note_handed(struct follower *follower, const struct batch *batch, size_t first,
                        int64_t floor)
{
    for (size_t i = first; i < batch->count; i++) {
        int64_t position = batch->entries[i].event.position;
        if (position > floor) {
            note_taken(follower, position);
        }
    }
    note_floor(follower, floor);
}

/* Is there something for it among what is kept, as far as the order allows? */
static bool has_more(struct follower *follower)
{
    struct tail *tail = follower->tail;
    pass_taken(follower);
    return follower->cursor < tail->pages.next &&
           (!follower->strict ||
            pages_event(&tail->pages, follower->cursor)->event.position <= tail->floor);
}

/* Hands up what is there. */
static hf_status take(struct follower *follower, const struct filter *filter, int32_t max,
                      struct batch *batch)
{
    struct tail *tail = follower->tail;
    size_t first = batch->count;
    uint64_t begun = follower->cursor;
    while (has_more(follower) && batch->count - first < (size_t)max &&
           !(batch->count > first && batch_full(batch))) {
        const struct entry *entry = pages_event(&tail->pages, follower->cursor);
        bool matches;
        if (is_wanted(filter, entry, &matches)) {
            struct entry *copy = batch_copy(batch, entry);
            if (!copy) {
                batch->count = first;
                follower->cursor = begun;
                return fail(HF_NOMEM, "no memory to read an event");
            }
            copy->unhandled = !matches;
        }
        follower->cursor++;
    }
    note_handed(follower, batch, first, floor_of(follower));
    follower->life = tail->life;
    return HF_OK;
}

/* Takes from the tail, which is read on if needed. Answers with place ALONE if it can not. */
static hf_status next_at_tail(struct follower *follower, const struct filter *filter, int32_t max,
                              struct batch *batch, bool *ret_more)
{
    struct tail *tail = follower->tail;
    for (bool read = false;;) {
        if (follower->run <= tail->stale_run) {
            return stale();
        }
        if (has_fallen(follower, filter)) {
            follower->place = ALONE;
            return follower->above_short ? stale() : HF_OK;
        }
        bool doubtful = tail->life.era != 0 && tail->life.era != store_era(tail->store);
        if (read || (!doubtful && (has_more(follower) || !is_old(tail)))) {
            break;
        }
        if (tail->reading) {
            pthread_cond_wait(&tail->read_on, &tail->mutex);
            continue;
        }
        hf_status status = read_on(tail);
        if (status) {
            return status;
        }
        read = true;
    }
    hf_status status = take(follower, filter, max, batch);
    *ret_more = has_more(follower) || has_news(tail);
    return status;
}

/* ---- Reading alone --------------------------------------------------------------------------- */

/* Takes out of the batch what was handed up before. */
static void pick_new(struct follower *follower, struct batch *batch, size_t first)
{
    size_t count = first;
    for (size_t i = first; i < batch->count; i++) {
        if (!is_taken(follower, batch->entries[i].event.position)) {
            batch->entries[count++] = batch->entries[i];
        }
    }
    batch->count = count;
}

static hf_status next_alone(struct follower *follower, const struct filter *filter, int32_t max,
                            struct batch *batch, bool *ret_more)
{
    if (!follower->reader) {
        hf_status status = store_reader_open(follower->tail->store, follower->floor,
                                             follower->strict, &follower->reader);
        if (status) {
            return status;
        }
        store_reader_continue(follower->reader, follower->life);
        store_reader_gap_timeout(follower->reader, follower->gap_timeout_ms);
    }
    size_t first = batch->count;
    int64_t floor = follower->floor;
    hf_status status = store_reader_next(follower->reader, filter, max, batch, &floor, ret_more);
    if (!status) {
        follower->life = store_reader_life(follower->reader);
        pick_new(follower, batch, first);
        note_handed(follower, batch, first, floor);
    }
    return status;
}

/* It has taken everything: from now on it is called only for what it wants. */
static void try_rest(struct follower *follower, const struct filter *filter)
{
    struct tail *tail = follower->tail;
    if (!follower->owner.seat || follower->place != AT_TAIL || has_fallen(follower, filter) ||
        follower->cursor != tail->pages.next || has_news(tail) ||
        !filter_copy(&follower->wants, filter)) {
        return;
    }
    follower->rests = true;
    follower->rest_us = clock_mono_us();
    follower->rest_number = tail->pages.next;
    follower->rest_floor = tail->floor;
    follower->rest_next = NULL;
    follower->rest_previous = tail->rest_last;
    *(tail->rest_last ? &tail->rest_last->rest_next : &tail->rest_first) = follower;
    tail->rest_last = follower;
    atomic_fetch_add(&tail->resting, 1);
    atomic_store(follower->owner.rests, true);
}

void tail_news(struct tail *tail)
{
    pthread_mutex_lock(&tail->mutex);
    if (tail->rest_first) {
        call_one(tail);
    }
    pthread_mutex_unlock(&tail->mutex);
}

int32_t tail_resting(const struct tail *tail)
{
    return atomic_load(&tail->resting);
}

void tail_serve(struct tail *tail)
{
    if (!atomic_load(&tail->wanted)) {
        return;
    }
    pthread_mutex_lock(&tail->mutex);
    atomic_store(&tail->wanted, false);
    if (tail->rest_first && !tail->reading && has_news(tail)) {
        (void)read_on(tail); /* those that rest are called, and find out the same */
    }
    pthread_mutex_unlock(&tail->mutex);
}

void tail_sweep(struct tail *tail)
{
    struct follower *called = NULL;
    int32_t left = TAIL_SWEPT_MAX;
    bool all = true;
    pthread_mutex_lock(&tail->mutex);
    bool swept = tail->swept_next == tail->pages.next && tail->swept_floor == tail->floor;
    int64_t until_us = clock_mono_us() - TAIL_PASSED_US;
    for (struct follower *at = swept ? NULL : tail->rest_first, *next; at; at = next) {
        next = at->rest_next;
        bool passed = at->rest_number != tail->pages.next || at->rest_floor != tail->floor;
        if (passed && left > 0 && at->rest_us <= until_us) {
            unrest(at, tail->pages.next, tail->floor);
            at->rest_next = called;
            called = at;
            left--;
        } else {
            all = all && !passed;
        }
    }
    if (all) {
        tail->swept_next = tail->pages.next;
        tail->swept_floor = tail->floor;
    }
    call_all(tail, called);
    pthread_mutex_unlock(&tail->mutex);
}

/* ---- The contract ---------------------------------------------------------------------------- */

hf_status follower_next(struct follower *follower, const struct filter *filter, int32_t max,
                        struct batch *batch, int64_t *ret_floor, bool *ret_more)
{
    struct tail *tail = follower->tail;
    hf_status status = HF_OK;
    pthread_mutex_lock(&tail->mutex);
    if (follower->rests) {
        unrest(follower, tail->pages.next, tail->floor);
    }
    if (follower->place == ALONE && may_follow(follower, filter)) {
        try_tail(follower, false);
    }
    if (follower->place == AT_TAIL) {
        status = next_at_tail(follower, filter, max, batch, ret_more);
        *ret_floor = follower->floor; /* while it rests others may raise it */
        if (!status && !*ret_more) {
            try_rest(follower, filter);
        }
    }
    pthread_mutex_unlock(&tail->mutex);
    if (follower->place == ALONE && !status) {
        status = next_alone(follower, filter, max, batch, ret_more);
        *ret_floor = follower->floor;
        pthread_mutex_lock(&tail->mutex);
        if (!status && !*ret_more && may_follow(follower, filter)) {
            try_tail(follower, true);
            try_rest(follower, filter);
        }
        pthread_mutex_unlock(&tail->mutex);
    }
    return status;
}

hf_status follower_open(struct tail *tail, int64_t after, bool strict, int64_t gap_timeout_ms,
                        struct follower **ret_follower)
{
    struct follower *follower = mem_calloc(1, sizeof *follower);
    if (!follower) {
        return fail(HF_NOMEM, "no memory to read the log");
    }
    follower->tail = tail;
    follower->strict = strict;
    follower->gap_timeout_ms = store_has_gaps(tail->store) ? gap_timeout_ms : 0;
    follower->floor = after;
    set64_init(&follower->above, FOLLOWER_ABOVE_MAX);
    pthread_mutex_lock(&tail->mutex);
    tail->followers++;
    pthread_mutex_unlock(&tail->mutex);
    *ret_follower = follower;
    return HF_OK;
}

void follower_own(struct follower *follower, struct follower_owner owner)
{
    follower->owner = owner;
    atomic_store(owner.rests, false);
}

void follower_close(struct follower *follower)
{
    if (!follower) {
        return;
    }
    struct tail *tail = follower->tail;
    pthread_mutex_lock(&tail->mutex);
    tail->followers--;
    if (follower->rests) {
        unrest(follower, tail->pages.next, tail->floor);
    }
    if (tail->followers < TAIL_FOLLOWERS_MIN && tail->reader && !tail->reading) {
        end_run(tail);
    }
    pthread_mutex_unlock(&tail->mutex);
    store_reader_close(follower->reader);
    set64_release(&follower->above);
    filter_copy_release(&follower->wants);
    mem_free(follower);
}

bool follower_is_at_tail(const struct follower *follower)
{
    return follower->place == AT_TAIL;
}

hf_status tail_new(struct store *store, struct dispatchers *dispatchers, struct tail **ret_tail)
{
    struct tail *tail = mem_calloc(1, sizeof *tail);
    if (!tail) {
        return fail(HF_NOMEM, "out of memory");
    }
    tail->store = store;
    tail->dispatchers = dispatchers;
    batch_init(&tail->fresh);
    pages_init(&tail->pages);
    hf_status status = mutex_init(&tail->mutex);
    if (!status) {
        status = cond_init(&tail->read_on);
    }
    if (status) {
        mem_free(tail);
        return status;
    }
    *ret_tail = tail;
    return HF_OK;
}

void tail_free(struct tail *tail)
{
    if (!tail) {
        return;
    }
    end_run(tail);
    if (!store_poisoned(tail->store)) {
        pthread_cond_destroy(&tail->read_on);
        pthread_mutex_destroy(&tail->mutex);
    }
    mem_free(tail);
}
