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
#include "store/batch.h"
#include "store/filter.h"

#define TAIL_PAGES 16
#define TAIL_PAGE_EVENTS 512
#define TAIL_PAGE_BYTES 262144
#define TAIL_READ_EVENTS 512 /* at once */
#define TAIL_FRESH_US 20000  /* without news it is not read again before */
#define TAIL_BEHIND_MAX 8192 /* positions; a tail that is further behind is begun anew */
#define FOLLOWER_ABOVE_MAX 1024

/* Some events, numbered from `first` on. */
struct page {
    struct batch batch;
    uint64_t first;
    int64_t top; /* the highest position */
};

struct tail {
    struct store *store;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t read_on;
    bool reading; /* a thread reads, without the mutex; `reader` and `fresh` are its own */
    int32_t followers;

    struct reader *reader;   /* NULL: it has not begun */
    uint64_t run;            /* rises when it begins anew */
    uint64_t stale_run;      /* what runs up to this one have brought may be untrue */
    struct reader_life life; /* that it has read in */
    struct batch fresh;      /* what was read last */

    struct page pages[TAIL_PAGES]; /* page_count of them from page_first on, cyclic */
    size_t page_first;
    size_t page_count;
    uint64_t next;     /* number of the next event */
    uint64_t disorder; /* number of the last event that came below one before it */
    int64_t low;
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
};

/* ---- Pages ----------------------------------------------------------------------------------- */

static struct page *page_at(struct tail *tail, size_t i)
{
    return &tail->pages[(tail->page_first + i) % TAIL_PAGES];
}

/* The number of the oldest event that is kept. */
static uint64_t first_of(struct tail *tail)
{
    return tail->page_count > 0 ? page_at(tail, 0)->first : tail->next;
}

/* The event with this number, which is kept. */
static const struct entry *event_at(struct tail *tail, uint64_t number)
{
    size_t i = tail->page_count - 1;
    while (page_at(tail, i)->first > number) {
        i--;
    }
    const struct page *page = page_at(tail, i);
    return &page->batch.entries[number - page->first];
}

static void page_drop_first(struct tail *tail)
{
    struct page *page = page_at(tail, 0);
    tail->low = page->top > tail->low ? page->top : tail->low;
    if (page->batch.arena.used_bytes > 2 * TAIL_PAGE_BYTES) {
        batch_release(&page->batch); /* one that was unusually large */
        batch_init(&page->batch);
    }
    batch_clear(&page->batch);
    tail->page_first = (tail->page_first + 1) % TAIL_PAGES;
    tail->page_count--;
}

/* The page that the next event is put on. */
static struct page *page_for_next(struct tail *tail)
{
    if (tail->page_count > 0) {
        struct page *last = page_at(tail, tail->page_count - 1);
        if (last->batch.count < TAIL_PAGE_EVENTS &&
            last->batch.arena.used_bytes < TAIL_PAGE_BYTES) {
            return last;
        }
    }
    if (tail->page_count == TAIL_PAGES) {
        page_drop_first(tail);
    }
    struct page *page = page_at(tail, tail->page_count++);
    page->first = tail->next;
    page->top = 0;
    return page;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* Ends the run: nothing is kept, and those that follow go on alone. No thread reads. */
static void end_run(struct tail *tail)
{
    store_reader_close(tail->reader);
    tail->reader = NULL;
    tail->run++;
    for (size_t i = 0; i < TAIL_PAGES; i++) {
        batch_release(&tail->pages[i].batch);
        batch_init(&tail->pages[i].batch);
    }
    batch_release(&tail->fresh);
    batch_init(&tail->fresh);
    tail->page_count = 0;
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
    tail->low = after;
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
        struct page *page = page_for_next(tail);
        if (!batch_copy(&page->batch, entry)) {
            return fail(HF_NOMEM, "no memory for the newest events");
        }
        int64_t position = entry->event.position;
        tail->disorder = position < tail->top ? tail->next : tail->disorder;
        tail->top = position > tail->top ? position : tail->top;
        page->top = position > page->top ? position : page->top;
        tail->next++;
    }
    return HF_OK;
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
    if (!status) {
        status = keep_fresh(tail);
        tail->floor = floor;
        tail->more = more;
        tail->news = news;
        tail->life = store_reader_life(tail->reader);
        tail->read_us = now_us;
    } else if (status == HF_STALE) {
        tail->stale_run = tail->run;
    }
    /* What was read and not kept is missing; what follows no more needs no memory. */
    if (status == HF_NOMEM || status == HF_STALE || tail->followers < TAIL_FOLLOWERS_MIN) {
        end_run(tail);
    }
    return status;
}

static bool has_news(const struct tail *tail)
{
    return tail->more || tail->news != store_news(tail->store);
}

/* Is it time to read on? */
static bool is_old(const struct tail *tail)
{
    return has_news(tail) || clock_mono_us() - tail->read_us >= TAIL_FRESH_US;
}

/* ---- A follower's place ---------------------------------------------------------------------- */

static bool is_taken(const struct follower *follower, int64_t position)
{
    return position <= follower->floor || (set64_count(&follower->above) > 0 &&
                                           set64_get(&follower->above, (uint64_t)position, NULL));
}

static void note_taken(struct follower *follower, int64_t position)
{
    if (!follower->above_short) {
        follower->above_short = set64_put(&follower->above, (uint64_t)position, 1) != HF_OK;
    }
    follower->above_top = position > follower->above_top ? position : follower->above_top;
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
    while (follower->cursor < tail->next &&
           is_taken(follower, event_at(tail, follower->cursor)->event.position)) {
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
    if (!usable || follower->above_short || follower->floor < tail->low ||
        !is_same_life(follower->life, tail->life)) {
        return;
    }
    follower->cursor = first_of(tail);
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
    if (follower->run != tail->run || follower->cursor < first_of(tail) ||
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
    for (uint64_t number = follower->cursor; number < tail->next; number++) {
        int64_t position = event_at(tail, number)->event.position;
        if (position <= floor && !is_taken(follower, position)) {
            floor = position - 1;
        }
    }
    return floor;
}

/* Is the event for the follower, and if so, matched by its patterns? */
static bool is_wanted(const struct filter *filter, const struct entry *entry, bool *ret_matches)
{
    *ret_matches = filter_matches(filter, text_of(entry->event.type));
    return filter_owns(filter, entry->hash) && (*ret_matches || filter->unhandled_too);
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
    return follower->cursor < tail->next &&
           (!follower->strict || event_at(tail, follower->cursor)->event.position <= tail->floor);
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
        const struct entry *entry = event_at(tail, follower->cursor);
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

/* ---- The contract ---------------------------------------------------------------------------- */

hf_status follower_next(struct follower *follower, const struct filter *filter, int32_t max,
                        struct batch *batch, int64_t *ret_floor, bool *ret_more)
{
    struct tail *tail = follower->tail;
    hf_status status = HF_OK;
    pthread_mutex_lock(&tail->mutex);
    if (follower->place == ALONE && may_follow(follower, filter)) {
        try_tail(follower, false);
    }
    if (follower->place == AT_TAIL) {
        status = next_at_tail(follower, filter, max, batch, ret_more);
    }
    pthread_mutex_unlock(&tail->mutex);
    if (follower->place == ALONE && !status) {
        status = next_alone(follower, filter, max, batch, ret_more);
        pthread_mutex_lock(&tail->mutex);
        if (!status && !*ret_more && may_follow(follower, filter)) {
            try_tail(follower, true);
        }
        pthread_mutex_unlock(&tail->mutex);
    }
    *ret_floor = follower->floor;
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

void follower_close(struct follower *follower)
{
    if (!follower) {
        return;
    }
    struct tail *tail = follower->tail;
    pthread_mutex_lock(&tail->mutex);
    tail->followers--;
    if (tail->followers < TAIL_FOLLOWERS_MIN && tail->reader && !tail->reading) {
        end_run(tail);
    }
    pthread_mutex_unlock(&tail->mutex);
    store_reader_close(follower->reader);
    set64_release(&follower->above);
    mem_free(follower);
}

bool follower_is_at_tail(const struct follower *follower)
{
    return follower->place == AT_TAIL;
}

hf_status tail_new(struct store *store, struct tail **ret_tail)
{
    struct tail *tail = mem_calloc(1, sizeof *tail);
    if (!tail) {
        return fail(HF_NOMEM, "out of memory");
    }
    tail->store = store;
    batch_init(&tail->fresh);
    for (size_t i = 0; i < TAIL_PAGES; i++) {
        batch_init(&tail->pages[i].batch);
    }
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
