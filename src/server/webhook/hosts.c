/*
 * hosts.c - see hosts.h. One mutex for all hosts: it is held for a few instructions.
 */
#include "server/webhook/hosts.h"

#include "base/banned.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time/clock.h"

#include <strings.h>

#define LOOK_MS 100 /* between two looks whether the wait was cancelled */

struct host {
    struct host *next;
    int users;
    int running;
    char name[];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* protects all hosts */
static struct host *hosts;
static pthread_cond_t left;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init_left(void)
{
    if (cond_init(&left)) {
        abort(); /* a condition variable needs no memory of ours; this cannot be */
    }
}

struct host *host_get(const char *name)
{
    struct host *host;

    pthread_once(&once, init_left);
    pthread_mutex_lock(&mutex);
    for (host = hosts; host && strcasecmp(host->name, name) != 0; host = host->next) {
    }
    if (!host) {
        size_t bytes = strlen(name) + 1;
        host = mem_calloc(1, sizeof *host + bytes);
        if (host) {
            memcpy(host->name, name, bytes);
            host->next = hosts;
            hosts = host;
        }
    }
    if (host) {
        host->users++;
    }
    pthread_mutex_unlock(&mutex);
    return host;
}

void host_put(struct host *host)
{
    if (!host) {
        return;
    }
    pthread_mutex_lock(&mutex);
    if (--host->users == 0) {
        struct host **at = &hosts;
        while (*at != host) {
            at = &(*at)->next;
        }
        *at = host->next;
        mem_free(host);
    }
    pthread_mutex_unlock(&mutex);
}

bool host_enter(struct host *host, int max, int64_t until_us, bool (*cancelled)(void *ctx),
                void *ctx)
{
    bool entered = true;

    pthread_mutex_lock(&mutex);
    while (host->running >= max && entered) {
        cond_wait_until(&left, &mutex, deadline_after_ms(LOOK_MS));
        pthread_mutex_unlock(&mutex);
        entered = clock_mono_us() < until_us && !cancelled(ctx);
        pthread_mutex_lock(&mutex);
    }
    host->running += entered;
    pthread_mutex_unlock(&mutex);
    return entered;
}

void host_leave(struct host *host)
{
    pthread_mutex_lock(&mutex);
    host->running--;
    pthread_cond_broadcast(&left);
    pthread_mutex_unlock(&mutex);
}
