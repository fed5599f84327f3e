/*
 * rest.c - followers that are called only for what they want.
 *
 * Of many followers most want few of the events. So one that has taken everything rests: it is in
 * a list, with a copy of its patterns, and its place is the end of the tail, wherever that is.
 * What is read is matched against those in the list; one that wants an event leaves it, with its
 * place before that event, and its owner is called. Nothing is lost:
 *
 *   news comes before it rests      it does not rest: the news is not that of the last read
 *   after that                      tail_news calls an owner in the list, whose turn begins with
 *                                   tail_serve, which reads
 *   that owner is in a turn         another one is called; if all are, then all of them: the call
 *                                   is followed by another turn
 *   a thread reads meanwhile        when it has read it looks for news, and calls one (call_one)
 *   it looks by itself              it leaves the list first
 *   reading fails, the run ends     all leave the list and are called, and look for themselves
 */
#include "bus/deliver/tail/inside.h"

#include "base/time/clock.h"

bool rest_is_wanted(const struct filter *filter, const struct entry *entry, bool *ret_matches)
{
    *ret_matches = filter_matches(filter, text_of(entry->event.type));
    return filter_owns(filter, entry->hash) && (*ret_matches || filter->unhandled_too);
}

/* Does it want the event, and has not had it? */
static bool is_for(const struct follower *follower, const struct entry *entry)
{
    bool matches;
    return rest_is_wanted(&follower->wants.filter, entry, &matches) &&
           !follower_has_taken(follower, entry->event.position);
}

void rest_begin(struct follower *follower, const struct filter *filter)
{
    struct tail *tail = follower->tail;
    if (!filter_copy(&follower->wants, filter)) {
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

void rest_end(struct follower *follower, uint64_t number, int64_t floor)
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
    follower_note_floor(follower, floor);
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

void rest_end_all(struct tail *tail)
{
    struct follower *first = NULL;
    while (tail->rest_last) {
        struct follower *follower = tail->rest_last;
        rest_end(follower, tail->pages.next, tail->floor);
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
            rest_end(at, first + i, floor);
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

void rest_tell(struct tail *tail, uint64_t first, int64_t floor)
{
    call_for_fresh(tail, first, floor);
    if (tail->rest_first && tail_has_news(tail)) {
        call_one(tail);
    }
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

static int64_t rest_us_max(const struct follower *follower)
{
    return follower->owner.claims ? TAIL_CLAIM_US : TAIL_PASSED_US;
}

/* What a turn of it takes of the time that others may have to wait. */
static int64_t turn_us(const struct follower *follower)
{
    return follower->owner.claims ? TAIL_CLAIM_TURN_US : TAIL_TURN_US;
}

/* Those that are due leave the list of those that rest, as far as there is time for their turns.
 * Answers them in a list; *ret_due: some are left. */
static struct follower *take_due(struct tail *tail, int64_t mono_us, bool *ret_due)
{
    struct follower *called = NULL;
    bool early = false; /* events have passed one that is not due yet */
    *ret_due = false;
    if (tail->swept_us < mono_us - TAIL_SWEEP_US) {
        tail->swept_us = mono_us - TAIL_SWEEP_US;
    }
    for (struct follower *at = tail->rest_first, *next; at && !*ret_due; at = next) {
        next = at->rest_next;
        bool passed = at->rest_number != tail->pages.next || at->rest_floor != tail->floor;
        bool due = passed && mono_us - at->rest_us >= rest_us_max(at);
        early |= passed && !due;
        *ret_due = due && tail->swept_us >= mono_us;
        if (due && !*ret_due) {
            tail->swept_us += turn_us(at);
            rest_end(at, tail->pages.next, tail->floor);
            at->rest_next = called;
            called = at;
        }
    }
    if (!early && !*ret_due) {
        tail->swept_next = tail->pages.next;
        tail->swept_floor = tail->floor;
    }
    return called;
}

bool tail_sweep(struct tail *tail)
{
    bool due = false;
    pthread_mutex_lock(&tail->mutex);
    if (tail->swept_next != tail->pages.next || tail->swept_floor != tail->floor) {
        call_all(tail, take_due(tail, clock_mono_us(), &due));
    }
    pthread_mutex_unlock(&tail->mutex);
    return due;
}
