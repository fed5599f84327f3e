/*
 * watch.c - the one thread that waits for news of the store. See watch.h.
 *
 * Runners, hf_read, hf_claim, hf_wait and the descriptor of hf_fd all want to know when something
 * may have happened. The watch waits on the store's bell once for all of them and passes the word
 * on. Between rings it wakes up to show a sign of life, often enough for the shortest lease.
 *
 * Until a thread wants news it does not wait on the bell, which costs publishers and idle processes
 * a little: it sleeps, and shows the signs of life that are the node's heartbeat.
 *
 * Where the store does not look by itself (store_look_ms) every return from its wait is passed on,
 * also one by time: a foreign program may have written, and a look too many costs a query, one too
 * few a delay. Most news is of new events and nothing else (store_other_news): then runners read
 * the log, and do not ask for everything else that may have changed.
 */
#include "bus/watch.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "bus/deliver/tail/tail.h"
#include "bus/subscription.h"

#define WATCH_MS_MAX 1000

struct watch {
    hf_bus *bus;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    uint64_t serial;   /* rises with every piece of news */
    int64_t period_ms; /* between signs of life */
    uint64_t leases;   /* rises with every watch_lease */
    int fd;            /* eventfd; -1: none was asked for */
    bool wanted;       /* a thread waits for news, or has done so */
    bool stopping;
};

static void pass_on(struct watch *watch)
{
    pthread_mutex_lock(&watch->mutex);
    watch->serial++;
    pthread_cond_broadcast(&watch->changed);
    int fd = watch->fd;
    pthread_mutex_unlock(&watch->mutex);
    if (fd >= 0) {
        uint64_t one = 1;
        ssize_t written = write(fd, &one, sizeof one);
        (void)written; /* a full counter is readable already */
    }
}

/* Sleeps from heartbeat to heartbeat until there is something to do. The second one comes early: it
 * is the first by which others learn of a brief bus. */
static void only_live(struct watch *watch)
{
    int64_t pause_ms = WATCH_MS_MAX;
    pthread_mutex_lock(&watch->mutex);
    while (!watch->wanted && !watch->stopping) {
        pthread_mutex_unlock(&watch->mutex);
        store_alive(watch->bus->store);
        struct deadline next = deadline_after_ms(pause_ms);
        pause_ms = watch->bus->heartbeat_ms;
        pthread_mutex_lock(&watch->mutex);
        while (!watch->wanted && !watch->stopping &&
               cond_wait_until(&watch->changed, &watch->mutex, next)) {
        }
    }
    pthread_mutex_unlock(&watch->mutex);
}

static void *watch_main(void *ctx)
{
    struct watch *watch = ctx;
    struct store *store = watch->bus->store;
    only_live(watch);
    uint64_t others = store_other_news(store);
    uint64_t seen = store_news(store);
    pass_on(watch); /* a thread that looked before that must look again */
    subscriptions_nudge(watch->bus, NEWS_OTHER);
    for (;;) {
        pthread_mutex_lock(&watch->mutex);
        bool stopping = watch->stopping;
        int64_t period_ms = watch->period_ms;
        pthread_mutex_unlock(&watch->mutex);
        if (stopping) {
            return NULL;
        }
        store_alive(store);
        bool soon = tail_sweep(watch->bus->tail);
        uint64_t news = store_wait(store, seen, soon ? TAIL_SWEEP_US / 1000 : period_ms);
        uint64_t now_others = store_other_news(store);
        if (news != seen || (store_look_ms(store) == 0 && !soon)) {
            pass_on(watch);
            subscriptions_nudge(watch->bus, news == seen           ? NEWS_NONE
                                            : now_others != others ? NEWS_OTHER
                                                                   : NEWS_EVENTS);
        }
        seen = news;
        others = now_others;
    }
}

static hf_status watch_new(hf_bus *bus, struct watch **ret_watch)
{
    struct watch *watch = mem_calloc(1, sizeof *watch);
    if (!watch) {
        return fail(HF_NOMEM, "out of memory");
    }
    watch->bus = bus;
    watch->fd = -1;
    watch->period_ms = WATCH_MS_MAX;
    hf_status status = mutex_init(&watch->mutex);
    if (!status) {
        status = cond_init(&watch->changed);
    }
    if (!status) {
        status = thread_start(&watch->thread, "hf-watch", watch_main, watch);
    }
    if (status) {
        mem_free(watch);
        return status;
    }
    *ret_watch = watch;
    return HF_OK;
}

hf_status watch_begin(hf_bus *bus)
{
    return watch_new(bus, &bus->watch);
}

void watch_want(hf_bus *bus)
{
    struct watch *watch = bus->watch;
    pthread_mutex_lock(&watch->mutex);
    if (!watch->wanted) {
        watch->wanted = true;
        pthread_cond_broadcast(&watch->changed);
    }
    pthread_mutex_unlock(&watch->mutex);
}

uint64_t watch_seen(hf_bus *bus)
{
    pthread_mutex_lock(&bus->watch->mutex);
    uint64_t serial = bus->watch->serial;
    pthread_mutex_unlock(&bus->watch->mutex);
    return serial;
}

bool watch_wait(hf_bus *bus, uint64_t seen, struct deadline deadline)
{
    struct watch *watch = bus->watch;
    pthread_mutex_lock(&watch->mutex);
    bool in_time = true;
    while (watch->serial == seen && in_time && !watch->stopping) {
        in_time = cond_wait_until(&watch->changed, &watch->mutex, deadline);
    }
    bool changed = watch->serial != seen;
    pthread_mutex_unlock(&watch->mutex);
    return changed;
}

void watch_poke(hf_bus *bus)
{
    struct watch *watch = bus->watch;
    if (watch) {
        pthread_mutex_lock(&watch->mutex);
        watch->serial++;
        pthread_cond_broadcast(&watch->changed);
        pthread_mutex_unlock(&watch->mutex);
    }
}

static int64_t lease_period_ms(int64_t lease_ms)
{
    return lease_ms / 4 > 0 ? lease_ms / 4 : 1;
}

void watch_lease(hf_bus *bus, int64_t lease_ms)
{
    struct watch *watch = bus->watch;
    if (!watch) {
        return;
    }
    int64_t period_ms = lease_period_ms(lease_ms);
    pthread_mutex_lock(&watch->mutex);
    watch->leases++;
    bool shorter = period_ms < watch->period_ms;
    if (shorter) {
        watch->period_ms = period_ms;
    }
    pthread_mutex_unlock(&watch->mutex);
    if (shorter) {
        store_wake(bus->store);
    }
}

uint64_t watch_leases_seen(hf_bus *bus)
{
    pthread_mutex_lock(&bus->watch->mutex);
    uint64_t leases = bus->watch->leases;
    pthread_mutex_unlock(&bus->watch->mutex);
    return leases;
}

void watch_leases(hf_bus *bus, uint64_t seen, int64_t lease_ms)
{
    struct watch *watch = bus->watch;
    int64_t period_ms = lease_period_ms(lease_ms);
    pthread_mutex_lock(&watch->mutex);
    bool shorter = period_ms < watch->period_ms;
    if (shorter || watch->leases == seen) {
        watch->period_ms = period_ms < WATCH_MS_MAX ? period_ms : WATCH_MS_MAX;
    }
    pthread_mutex_unlock(&watch->mutex);
    if (shorter) {
        store_wake(bus->store);
    }
}

int64_t watch_period_ms(hf_bus *bus)
{
    pthread_mutex_lock(&bus->watch->mutex);
    int64_t period_ms = bus->watch->period_ms;
    pthread_mutex_unlock(&bus->watch->mutex);
    return period_ms;
}

hf_status watch_fd(hf_bus *bus, int *ret_fd)
{
    struct watch *watch = bus->watch;
    watch_want(bus);
    pthread_mutex_lock(&watch->mutex);
    if (watch->fd < 0) {
        watch->fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    }
    int fd = watch->fd;
    pthread_mutex_unlock(&watch->mutex);
    if (fd < 0) {
        return fail(HF_IO, "cannot make a descriptor: %m");
    }
    *ret_fd = fd;
    return HF_OK;
}

void watch_stop(hf_bus *bus)
{
    struct watch *watch = bus->watch;
    if (!watch) {
        return;
    }
    pthread_mutex_lock(&watch->mutex);
    bool first = !watch->stopping;
    watch->stopping = true;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
    if (first) {
        store_wake(bus->store);
        pthread_join(watch->thread, NULL);
    }
}

void watch_free(hf_bus *bus)
{
    struct watch *watch = bus->watch;
    if (!watch) {
        return;
    }
    if (watch->fd >= 0) {
        close(watch->fd);
    }
    if (!store_poisoned(bus->store)) {
        pthread_mutex_destroy(&watch->mutex);
        pthread_cond_destroy(&watch->changed);
    }
    mem_free(watch);
    bus->watch = NULL;
}
