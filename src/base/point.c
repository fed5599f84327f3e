/*
 * point.c - fault points; empty unless HF_FAULTS is defined.
 *
 * Points live in a fixed table hashed by name. A name is published once, with release, and never
 * removed, so looking it up needs no lock; only adding, arming and stopping do. A hit of a point
 * that is not armed costs hashing its name and two atomic operations.
 *
 * All waiting uses the real monotonic clock: a test that fakes the clock still wants its timeout.
 */
#include "base/point.h"

#ifdef HF_FAULTS

#include "base/banned.h"
#include "base/hash.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct point {
    _Atomic(const char *) name; /* NULL: unused; else the caller's literal, for ever */
    _Atomic int64_t hits;
    _Atomic bool armed;

    /* Under the mutex: */
    int64_t hits_left; /* the action happens when this reaches 0 */
    enum point_action action;
    int32_t threads_stopped;
    uint64_t releases; /* a stopped thread waits for this to change */
};

static struct point points[POINT_COUNT_MAX];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_once_t changed_once = PTHREAD_ONCE_INIT;

static void changed_init(void)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attr);
    pthread_condattr_destroy(&attr);
}

static void lock(void)
{
    pthread_once(&changed_once, changed_init);
    pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

static size_t home_of(const char *name)
{
    uint64_t hash = 0;

    for (; *name; name++) {
        hash = (hash + (unsigned char)*name) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return (size_t)hash_mix(hash) % POINT_COUNT_MAX;
}

/* The point of this name, or the unused slot where the probing ended. */
static struct point *probe(const char *name)
{
    size_t at = home_of(name);

    for (int i = 0; i < POINT_COUNT_MAX; i++, at = (at + 1) % POINT_COUNT_MAX) {
        const char *known = atomic_load_explicit(&points[at].name, memory_order_acquire);

        if (!known || strcmp(known, name) == 0) {
            return &points[at];
        }
    }
    abort(); /* more names than POINT_COUNT_MAX */
}

static struct point *find_or_add(const char *name)
{
    struct point *point = probe(name);

    if (atomic_load_explicit(&point->name, memory_order_acquire)) {
        return point;
    }
    lock();
    point = probe(name); /* another thread may have added it, or taken the slot */
    if (!atomic_load_explicit(&point->name, memory_order_relaxed)) {
        atomic_store_explicit(&point->name, name, memory_order_release);
    }
    unlock();
    return point;
}

/* Under the mutex. */
static void stop_thread(struct point *point)
{
    uint64_t releases = point->releases;

    point->threads_stopped++;
    pthread_cond_broadcast(&changed);
    while (point->releases == releases) {
        pthread_cond_wait(&changed, &mutex);
    }
    point->threads_stopped--;
}

/* Under the mutex. */
static void act(struct point *point)
{
    switch (point->action) {
    case POINT_COUNT:
        return;
    case POINT_KILL:
        raise(SIGKILL);
        return;
    case POINT_STOP_THREAD:
        stop_thread(point);
        return;
    }
}

void point_hit(const char *name)
{
    struct point *point = find_or_add(name);

    atomic_fetch_add_explicit(&point->hits, 1, memory_order_relaxed);
    if (!atomic_load_explicit(&point->armed, memory_order_acquire)) {
        return;
    }
    lock();
    if (atomic_load(&point->armed) && --point->hits_left == 0) {
        atomic_store(&point->armed, false);
        act(point);
    }
    unlock();
}

void point_arm(const char *name, int64_t nth, enum point_action action)
{
    struct point *point = find_or_add(name);

    lock();
    point->hits_left = nth;
    point->action = action;
    atomic_store(&point->armed, nth > 0);
    unlock();
}

int64_t point_hits(const char *name)
{
    struct point *point = probe(name);

    return atomic_load(&point->hits);
}

bool point_wait_blocked(const char *name, int64_t timeout_ms)
{
    struct point *point = find_or_add(name);
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }

    lock();
    while (point->threads_stopped == 0 && pthread_cond_timedwait(&changed, &mutex, &until) == 0) {
        continue;
    }

    bool stopped = point->threads_stopped > 0;

    unlock();
    return stopped;
}

/* Under the mutex. */
static void release(struct point *point)
{
    atomic_store(&point->armed, false);
    point->releases++;
    pthread_cond_broadcast(&changed);
}

void point_release(const char *name)
{
    struct point *point = find_or_add(name);

    lock();
    release(point);
    unlock();
}

void point_reset(void)
{
    lock();
    for (int i = 0; i < POINT_COUNT_MAX; i++) {
        release(&points[i]);
        atomic_store(&points[i].hits, 0);
    }
    unlock();
}

size_t point_list(const char **ret_names, size_t names_max)
{
    size_t count = 0;

    for (int i = 0; i < POINT_COUNT_MAX; i++) {
        const char *name = atomic_load_explicit(&points[i].name, memory_order_acquire);

        if (!name) {
            continue;
        }
        if (ret_names && count < names_max) {
            ret_names[count] = name;
        }
        count++;
    }
    return count;
}

#endif
