/*
 * tail.c - see tail.h.
 *
 * The tail is a reader of the log, in relaxed order and without a filter, and the last events that
 * it has brought, numbered in the order of their coming, in pages of which the oldest is given up
 * when a new one is needed. `low` is the highest position that is not kept any more, so an event
 * above it is among those that are kept or is still to come. `floor` is the reader's.
 *
 * A follower that looks and has taken everything makes the tail read on, unless there was no news
 * since the tail was last read: of many followers that are called for the same news the first one
 * reads, and the others wait for that or find it done. News is noted before reading, so what is
 * published meanwhile is news to the next one that looks. Some news makes no sound (a lost wake-up,
 * a foreign program), so what was read long ago is read again.
 *
 * A follower that claims has no place in the log from which the tail could begin. So where none of
 * the others has begun it, the tail begins at a position at which all before it are decided
 * (store_now), for which it may have to wait for publishers; not for long, and not often.
 *
 * What the reader knows may become untrue (HF_STALE): then all that follow the tail are told so.
 */
#include "bus/deliver/tail/inside.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time/clock.h"

#define TAIL_READ_EVENTS 512  /* at once */
#define TAIL_FRESH_US 20000   /* without news it is not read again before */
#define TAIL_BEGIN_MS 20      /* so long is waited for a position to begin at ... */
#define TAIL_BEGIN_US 1000000 /* and that is tried so often at most */

void tail_end_run(struct tail *tail)
{
    rest_end_all(tail);
    store_reader_close(tail->reader);
    tail->reader = NULL;
    tail->run++;
    pages_release(&tail->pages);
    batch_release(&tail->fresh);
    batch_init(&tail->fresh);
}

hf_status tail_begin_run(struct tail *tail, int64_t after, struct reader_life life)
{
    tail_end_run(tail);
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

void tail_begin_now(struct tail *tail)
{
    int64_t mono_us = clock_mono_us();
    if (mono_us < tail->begin_us) {
        return;
    }
    tail->begin_us = mono_us + TAIL_BEGIN_US;
    tail->reading = true;
    pthread_mutex_unlock(&tail->mutex);
    struct reader_life life = {.era = store_era(tail->store)};
    int64_t position = 0;
    hf_status status = store_now(tail->store, deadline_after_ms(TAIL_BEGIN_MS), &position);
    pthread_mutex_lock(&tail->mutex);
    tail->reading = false;
    pthread_cond_broadcast(&tail->read_on);
    if (!status) {
        (void)tail_begin_run(tail, position, life); /* without a reader none rests */
    }
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

bool tail_has_news(const struct tail *tail)
{
    return tail->more || tail->news != store_news(tail->store);
}

hf_status tail_read_on(struct tail *tail)
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
        rest_end_all(tail);
    } else {
        tail->floor = floor;
        tail->more = more;
        tail->news = news;
        tail->life = store_reader_life(tail->reader);
        tail->read_us = now_us;
        rest_tell(tail, first, floor_before);
    }
    if (status == HF_STALE) {
        tail->stale_run = tail->run;
    }
    /* What was read and not kept is missing; what follows no more needs no memory. */
    if (status == HF_NOMEM || status == HF_STALE || tail->followers < TAIL_FOLLOWERS_MIN) {
        tail_end_run(tail);
    }
    return status;
}

bool tail_is_old(const struct tail *tail)
{
    return tail_has_news(tail) || clock_mono_us() - tail->read_us >= TAIL_FRESH_US;
}

void tail_serve(struct tail *tail)
{
    if (!atomic_load(&tail->wanted)) {
        return;
    }
    pthread_mutex_lock(&tail->mutex);
    atomic_store(&tail->wanted, false);
    if (tail->rest_first && !tail->reading && tail_has_news(tail)) {
        (void)tail_read_on(tail); /* those that rest are called, and find out the same */
    }
    pthread_mutex_unlock(&tail->mutex);
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
    tail_end_run(tail);
    if (!store_poisoned(tail->store)) {
        pthread_cond_destroy(&tail->read_on);
        pthread_mutex_destroy(&tail->mutex);
    }
    mem_free(tail);
}
