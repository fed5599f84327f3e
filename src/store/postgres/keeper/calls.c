/*
 * calls.c - what other threads want of the keeper's thread. See keeper.h.
 *
 * They only leave a request and wake it, or wait for news. In a store that is brief they also make
 * it begin.
 */
#include <unistd.h>

#include "base/err.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "store/postgres/postgres.h"

#define MS INT64_C(1000)
#define GUARD_FOR_MS 30000 /* a thread that stands by must say so again within this time */
#define BRIEF_MS 900       /* what lives longer than this is not brief */

void keeper_poke(struct keeper *keeper)
{
    uint64_t one = 1;
    ssize_t written = write(keeper->wake_fd, &one, sizeof one);
    (void)written; /* a full counter is readable already */
}

/* The caller holds the mutex. Answers whether the keeper's thread must be woken for it. */
static bool add_request(struct keeper *keeper, enum request request)
{
    bool pending = keeper->requests & request;
    keeper->requests |= request;
    return !pending;
}

static void ring(struct keeper *keeper, enum request request)
{
    pthread_mutex_lock(&keeper->mutex);
    bool added = add_request(keeper, request);
    atomic_fetch_add(&keeper->news, 1);
    pthread_cond_broadcast(&keeper->cond);
    pthread_mutex_unlock(&keeper->mutex);
    if (added) {
        keeper_poke(keeper);
    }
}

void keeper_ring(struct postgres_engine *engine)
{
    atomic_fetch_add(&engine->keeper.timers_news, 1);
    atomic_fetch_add(&engine->keeper.other_news, 1);
    ring(&engine->keeper, REQUEST_RING);
}

void keeper_ring_appends(struct postgres_engine *engine)
{
    ring(&engine->keeper, REQUEST_RING_APPENDS);
}

void keeper_expect(struct postgres_engine *engine)
{
    struct keeper *keeper = &engine->keeper;
    pthread_mutex_lock(&keeper->mutex);
    bool added = add_request(keeper, REQUEST_EXPECT);
    pthread_mutex_unlock(&keeper->mutex);
    if (added) {
        keeper_poke(keeper);
    }
}

void keeper_lease(struct postgres_engine *engine, int64_t lease_ms)
{
    struct keeper *keeper = &engine->keeper;
    if (lease_ms > 0 && lease_ms < atomic_load(&keeper->lease_ms)) {
        atomic_store(&keeper->lease_ms, lease_ms);
        keeper_poke(keeper);
    }
}

void keeper_guard(struct postgres_engine *engine)
{
    struct keeper *keeper = &engine->keeper;
    int64_t now_us = clock_mono_us();
    bool guarded = atomic_exchange(&keeper->guard_until_us, now_us + GUARD_FOR_MS * MS) > now_us;
    if (!guarded) {
        keeper_poke(keeper);
    }
}

uint64_t keeper_news(struct postgres_engine *engine)
{
    return atomic_load(&engine->keeper.news);
}

/* If the store is brief, its keeper begins now; if that fails, with a later call. */
static void begin(struct postgres_engine *engine)
{
    (void)keeper_start(engine, deadline_after_ms(KEEPER_CONNECT_MS));
}

uint64_t keeper_wait(struct postgres_engine *engine, uint64_t seen, int64_t timeout_ms)
{
    struct keeper *keeper = &engine->keeper;
    struct deadline deadline = deadline_after_ms(timeout_ms);
    begin(engine);
    pthread_mutex_lock(&keeper->mutex);
    bool first = keeper->waiters++ == 0;
    if (first && atomic_load(&keeper->news) == seen) {
        keeper_poke(keeper); /* it may have to declare that a consumer sleeps */
    }
    while (atomic_load(&keeper->news) == seen && !deadline_passed(deadline)) {
        cond_wait_until(&keeper->cond, &keeper->mutex, deadline);
    }
    keeper->waiters--;
    uint64_t news = atomic_load(&keeper->news);
    pthread_mutex_unlock(&keeper->mutex);
    return news;
}

void keeper_wake(struct postgres_engine *engine)
{
    struct keeper *keeper = &engine->keeper;
    pthread_mutex_lock(&keeper->mutex);
    atomic_fetch_add(&keeper->news, 1);
    pthread_cond_broadcast(&keeper->cond);
    pthread_mutex_unlock(&keeper->mutex);
}

void keeper_alive(struct postgres_engine *engine)
{
    struct keeper *keeper = &engine->keeper;
    if (clock_real_us() - keeper->open_us >= BRIEF_MS * MS) {
        begin(engine);
    }
    if (!atomic_exchange(&keeper->alive, true)) {
        keeper_poke(keeper);
    }
}
