/*
 * claimed.c - see claimed.h.
 *
 * A note for each lease, in chains by the first byte of the lease, which is random, and in a list
 * by age. A note leaves when nothing is left of its lease, and when newer claims need its room. One
 * mutex protects all: a claim or a settling holds it for as long as it takes to look at two numbers
 * for each event, after it has waited for the database.
 */
#include "bus/api/claimed.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "store/timers.h"

#define CHAINS 256
#define SETTLED INT64_MIN /* in the place of the time of an event that is settled */

struct claimed_event {
    int64_t position;
    int64_t entered_at_us;
};

struct note {
    struct note *next;  /* in its chain */
    struct note *newer; /* in the list by age */
    struct note *older;
    uint8_t lease[STORE_TOKEN_BYTES];
    int64_t claimed_us; /* monotonic */
    size_t left;        /* events that are not settled */
    size_t count;
    struct claimed_event events[]; /* by position */
};

struct claimed {
    pthread_mutex_t mutex; /* protects all of it */
    struct note *chains[CHAINS];
    struct note *oldest;
    struct note *newest;
    size_t events; /* in all notes */
};

hf_status claimed_new(struct claimed **ret_claimed)
{
    struct claimed *claimed = mem_calloc(1, sizeof *claimed);
    if (!claimed) {
        return fail(HF_NOMEM, "out of memory");
    }
    hf_status status = mutex_init(&claimed->mutex);
    if (status) {
        mem_free(claimed);
        return status;
    }
    *ret_claimed = claimed;
    return HF_OK;
}

void claimed_free(struct claimed *claimed)
{
    if (!claimed) {
        return;
    }
    for (struct note *note = claimed->oldest, *newer; note; note = newer) {
        newer = note->newer;
        mem_free(note);
    }
    pthread_mutex_destroy(&claimed->mutex);
    mem_free(claimed);
}

/* What points to the note of a lease, or to NULL. */
static struct note **place_of(struct claimed *claimed, const uint8_t lease[STORE_TOKEN_BYTES])
{
    struct note **at = &claimed->chains[lease[0]];
    while (*at && memcmp((*at)->lease, lease, STORE_TOKEN_BYTES) != 0) {
        at = &(*at)->next;
    }
    return at;
}

static void forget(struct claimed *claimed, struct note *note)
{
    struct note **at = place_of(claimed, note->lease);
    *at = note->next;
    *(note->older ? &note->older->newer : &claimed->oldest) = note->newer;
    *(note->newer ? &note->newer->older : &claimed->newest) = note->older;
    claimed->events -= note->count;
    mem_free(note);
}

static void insert(struct claimed *claimed, struct note *note)
{
    struct note **at = place_of(claimed, note->lease);
    if (*at) {
        forget(claimed, *at); /* no two claims have one lease, but for an answer that was lost */
        at = place_of(claimed, note->lease);
    }
    *at = note;
    note->older = claimed->newest;
    *(claimed->newest ? &claimed->newest->newer : &claimed->oldest) = note;
    claimed->newest = note;
    claimed->events += note->count;
}

void claimed_add(hf_bus *bus, const char *subscription, const uint8_t lease[STORE_TOKEN_BYTES],
                 const struct batch *batch)
{
    struct claimed *claimed = bus->claimed;
    size_t bytes = sizeof(struct note) + batch->count * sizeof(struct claimed_event);
    struct note *note = mem_alloc(bytes);
    int64_t again = 0;
    for (size_t i = 0; i < batch->count; i++) {
        again += batch->entries[i].attempts > 0;
    }
    if (again > 0) {
        meter_count(&meters_of(&bus->meters, subscription)->retries, again);
    }
    if (!note) {
        return;
    }
    *note = (struct note){
        .claimed_us = clock_mono_us(),
        .left = batch->count,
        .count = batch->count,
    };
    memcpy(note->lease, lease, sizeof note->lease);
    for (size_t i = 0; i < batch->count; i++) {
        const hf_event *event = &batch->entries[i].event;
        note->events[i] = (struct claimed_event){event->position, event->entered_at_us};
    }
    pthread_mutex_lock(&claimed->mutex);
    while (claimed->oldest && claimed->events + note->count > CLAIMED_EVENTS_MAX) {
        forget(claimed, claimed->oldest);
    }
    insert(claimed, note);
    pthread_mutex_unlock(&claimed->mutex);
}

static struct claimed_event *event_at(struct note *note, int64_t position)
{
    size_t low = 0;
    size_t high = note->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (note->events[middle].position < position) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < note->count && note->events[low].position == position ? &note->events[low] : NULL;
}

/* The event is settled; true: it was not before. Its time is counted if it was acknowledged. */
static bool settle(struct note *note, struct claimed_event *event, struct timing *end_to_end,
                   int64_t now_us)
{
    if (!event || event->entered_at_us == SETTLED) {
        return false;
    }
    if (end_to_end) {
        timing_add(end_to_end, now_us - event->entered_at_us);
    }
    event->entered_at_us = SETTLED;
    note->left--;
    return true;
}

/* Settles part of a note; answers how many events that were. */
static int64_t settle_part(struct note *note, const struct claimed_part *part,
                           struct timing *end_to_end, int64_t now_us)
{
    int64_t settled = 0;
    size_t count = part->all ? note->count : part->count;
    for (size_t i = 0; i < count; i++) {
        struct claimed_event *event =
            part->all ? &note->events[i] : event_at(note, part->positions[i]);
        settled += settle(note, event, end_to_end, now_us);
    }
    return settled;
}

void claimed_settled(hf_bus *bus, const char *subscription, const struct claimed_part *part,
                     enum outcome_kind kind, hf_status status)
{
    if (status && status != HF_STALE) {
        return;
    }
    struct claimed *claimed = bus->claimed;
    struct meter *meter = meters_of(&bus->meters, subscription);
    bool done = kind == OUTCOME_DONE && !status;
    int64_t now_us = store_time(bus->store, clock_wall_us());
    int64_t settled = part->all ? 0 : (int64_t)part->count;
    if (status == HF_STALE) {
        meter_count(&meter->leases_lost, 1);
    }
    pthread_mutex_lock(&claimed->mutex);
    struct note *note = *place_of(claimed, part->lease);
    if (note && !status) {
        settled = settle_part(note, part, done ? &meter->end_to_end : NULL, now_us);
        if (settled > 0 && kind != OUTCOME_RELEASE) {
            timing_add(&meter->handler, clock_mono_us() - note->claimed_us);
        }
    }
    if (note && note->left == 0) {
        forget(claimed, note);
    }
    pthread_mutex_unlock(&claimed->mutex);
    if (done) {
        meter_count(&meter->delivered, settled);
    }
}
