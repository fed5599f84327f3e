/*
 * follower.c - where a follower is, and what it takes.
 *
 * Where a follower is, is told by its own floor and by the positions above it that it has handed up
 * (`above`; there are none unless positions became visible out of order), and by the life of the
 * server that all this is known from. From this it can go on with any reader:
 *
 *     ALONE ---- its floor is not below `low` ------------------------------> AT_TAIL
 *     ALONE <--- its next event was given up, or the tail was begun anew ---- AT_TAIL
 *
 * In strict order a follower hands up what is at or below the floor of the tail, and only while
 * what it has not taken came in the order of positions; if not, it reads alone for a while.
 *
 * One that claims marks where the tail is, claims, and rests if nothing for it has come since. What
 * the tail had brought before was visible to the claim; what it brings afterwards is matched. If it
 * cannot rest it is called for news as if there were no tail, and tries again after its next claim.
 */
#include "bus/deliver/tail/inside.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/time/clock.h"

#define TAIL_BEHIND_MAX 8192 /* positions; a tail that is further behind is begun anew */
#define FOLLOWER_ABOVE_MAX 1024

/* ---- Its place ------------------------------------------------------------------------------- */

bool follower_has_taken(const struct follower *follower, int64_t position)
{
    return position <= follower->floor || (set64_count(&follower->above) > 0 &&
                                           set64_get(&follower->above, (uint64_t)position, NULL));
}

void follower_note_floor(struct follower *follower, int64_t floor)
{
    follower->floor = floor > follower->floor ? floor : follower->floor;
    if (follower->floor >= follower->above_top && follower->above_top > 0) {
        set64_clear(&follower->above);
        follower->above_top = 0;
        follower->above_short = false;
    }
}

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
    while (
        follower->cursor < tail->pages.next &&
        follower_has_taken(follower, pages_event(&tail->pages, follower->cursor)->event.position)) {
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
        usable = tail_begin_run(tail, follower->floor, follower->life) ==
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
        if (position <= floor && !follower_has_taken(follower, position)) {
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
    follower_note_floor(follower, floor);
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
        if (rest_is_wanted(filter, entry, &matches)) {
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
        if (read || (!doubtful && (has_more(follower) || !tail_is_old(tail)))) {
            break;
        }
        if (tail->reading) {
            pthread_cond_wait(&tail->read_on, &tail->mutex);
            continue;
        }
        hf_status status = tail_read_on(tail);
        if (status) {
            return status;
        }
        read = true;
    }
    hf_status status = take(follower, filter, max, batch);
    *ret_more = has_more(follower) || tail_has_news(tail);
    return status;
}

/* ---- Reading alone --------------------------------------------------------------------------- */

/* Takes out of the batch what was handed up before. */
static void pick_new(struct follower *follower, struct batch *batch, size_t first)
{
    size_t count = first;
    for (size_t i = first; i < batch->count; i++) {
        if (!follower_has_taken(follower, batch->entries[i].event.position)) {
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

/* The same for one that has taken everything. */
static void try_rest(struct follower *follower, const struct filter *filter)
{
    struct tail *tail = follower->tail;
    if (follower->owner.seat && follower->place == AT_TAIL && !has_fallen(follower, filter) &&
        follower->cursor == tail->pages.next && !tail_has_news(tail)) {
        rest_begin(follower, filter);
    }
}

/* ---- Those that claim ------------------------------------------------------------------------ */

void follower_mark(struct follower *follower)
{
    struct tail *tail = follower->tail;
    pthread_mutex_lock(&tail->mutex);
    if (follower->rests) {
        rest_end(follower, tail->pages.next, tail->floor);
    }
    follower->run = tail->run;
    follower->cursor = tail->pages.next;
    follower->floor = 0; /* it has taken nothing: only the mark counts */
    pthread_mutex_unlock(&tail->mutex);
}

/* Has something that is for it come since the mark, or may something have that is not known? */
static bool has_missed(const struct follower *follower, const struct filter *filter)
{
    const struct tail *tail = follower->tail;
    bool missed = !tail->reader || follower->run != tail->run || tail_has_news(tail) ||
                  follower->cursor < pages_first(&tail->pages);
    for (uint64_t number = follower->cursor; !missed && number < tail->pages.next; number++) {
        bool matches;
        missed = rest_is_wanted(filter, pages_event(&tail->pages, number), &matches);
    }
    return missed;
}

void follower_rest(struct follower *follower, const struct filter *filter)
{
    struct tail *tail = follower->tail;
    pthread_mutex_lock(&tail->mutex);
    while (tail->reading) {
        pthread_cond_wait(&tail->read_on, &tail->mutex);
    }
    bool follows = follower->owner.seat && tail->followers >= TAIL_FOLLOWERS_MIN;
    if (follows && !tail->reader) {
        tail_begin_now(tail);
    } else if (follows && tail_has_news(tail)) {
        (void)tail_read_on(tail); /* if that fails it is called for news, as before */
    }
    if (follows && !has_missed(follower, filter)) {
        rest_begin(follower, filter);
    }
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
        rest_end(follower, tail->pages.next, tail->floor);
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
        rest_end(follower, tail->pages.next, tail->floor);
    }
    if (tail->followers < TAIL_FOLLOWERS_MIN && tail->reader && !tail->reading) {
        tail_end_run(tail);
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
