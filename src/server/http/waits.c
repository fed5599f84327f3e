/*
 * waits.c - see waits.h.
 *
 * `active` of a place counts the requests that will wake the next one of its list when they end:
 * the one that watches, and those that were woken and are not parked again. A place whose list has
 * somebody in it has an active request, or is idle because too many watch already; the thread
 * wakes the first of an idle place from time to time. So no request is forgotten in a list.
 *
 * The thread sleeps until the first request of all has waited long enough, and without a limit if
 * none is parked.
 */
#include "server/http/waits.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time/clock.h"

#include <assert.h>

#define WOKEN_MAX 2 /* by one that has found something */

/* What requests wait for. */
struct place {
    struct place *next;
    char *namespace_name;
    char *awaited;
    bool watched;
    size_t active;
    struct exchange *first; /* that are parked */
    struct exchange **last; /* where the next one is put */
};

struct waits {
    struct waits_options options;
    pthread_t thread;
    pthread_mutex_t mutex; /* protects what follows */
    pthread_cond_t changed;
    struct place *places;
    size_t watchers;
    bool stopping;
};

/* ---- Places; the mutex is held --------------------------------------------------------------- */

static struct place *place_new(const char *namespace_name, const char *awaited)
{
    struct place *place = mem_calloc(1, sizeof *place);

    if (!place) {
        return NULL;
    }
    place->namespace_name = mem_dup(namespace_name, strlen(namespace_name));
    place->awaited = mem_dup(awaited, strlen(awaited));
    place->last = &place->first;
    if (!place->namespace_name || !place->awaited) {
        mem_free(place->namespace_name);
        mem_free(place->awaited);
        mem_free(place);
        return NULL;
    }
    return place;
}

/* The place of an exchange, made if there is none. NULL: no memory. */
static struct place *find_place(struct waits *waits, const struct exchange *exchange)
{
    const char *awaited = exchange->wait.awaited;
    struct place *place = waits->places;

    while (place && (strcmp(place->awaited, awaited) != 0 ||
                     strcmp(place->namespace_name, exchange->namespace_name) != 0)) {
        place = place->next;
    }
    if (!place) {
        place = place_new(exchange->namespace_name, awaited);
        if (place) {
            place->next = waits->places;
            waits->places = place;
        }
    }
    return place;
}

/* Frees it if no request needs it. */
static void put_place(struct waits *waits, struct place *place)
{
    struct place **at = &waits->places;

    if (place->first || place->active > 0) {
        return;
    }
    while (*at != place) {
        at = &(*at)->next;
    }
    *at = place->next;
    mem_free(place->namespace_name);
    mem_free(place->awaited);
    mem_free(place);
}

static void append(struct place *place, struct exchange *exchange)
{
    exchange->next = NULL;
    *place->last = exchange;
    place->last = &exchange->next;
}

/* Takes the exchange at *at out of the list. */
static struct exchange *take(struct place *place, struct exchange **at)
{
    struct exchange *exchange = *at;

    *at = exchange->next;
    if (!*at) {
        place->last = at;
    }
    exchange->next = NULL;
    return exchange;
}

static void wake_first(struct waits *waits, struct place *place)
{
    struct exchange *exchange = take(place, &place->first);

    exchange->wait.state = WAIT_WOKEN;
    place->active++;
    if (!waits->options.again(exchange)) {
        place->active--;
        waits->options.run_out(exchange);
    }
}

/* ---- Watching and parking -------------------------------------------------------------------- */

bool waits_watch(struct waits *waits, struct exchange *exchange, const char *awaited)
{
    struct place *place;
    bool watches;

    exchange->wait.awaited = awaited;
    pthread_mutex_lock(&waits->mutex);
    place = find_place(waits, exchange);
    watches = place && !place->watched && !waits->stopping &&
              waits->watchers < waits->options.watchers_max;
    if (watches) {
        place->watched = true;
        waits->watchers++;
        place->active += exchange->wait.state != WAIT_WOKEN;
        exchange->wait.state = WAIT_WATCHES;
    } else if (place) {
        put_place(waits, place);
    }
    pthread_mutex_unlock(&waits->mutex);
    return watches;
}

void waits_park(struct waits *waits, struct exchange *exchange)
{
    struct place *place;

    assert(exchange->wait.parks && exchange->wait.state != WAIT_WATCHES);
    pthread_mutex_lock(&waits->mutex);
    place = find_place(waits, exchange);
    if (place) {
        place->active -= exchange->wait.state == WAIT_WOKEN;
    }
    exchange->wait.state = WAIT_NONE;
    exchange->wait.parks = false;
    if (place && !waits->stopping) {
        append(place, exchange);
        /* The one that watched may have been answered since this one has looked. */
        if (place->active == 0 && waits->watchers < waits->options.watchers_max) {
            wake_first(waits, place);
        }
        pthread_cond_signal(&waits->changed); /* it may be the first whose time ends */
    } else {
        waits->options.run_out(exchange);
    }
    if (place) {
        put_place(waits, place);
    }
    pthread_mutex_unlock(&waits->mutex);
}

void waits_end(struct waits *waits, struct exchange *exchange)
{
    enum wait_state state = exchange->wait.state;
    struct place *place;
    size_t count;

    if (state != WAIT_WATCHES && state != WAIT_WOKEN) {
        return;
    }
    pthread_mutex_lock(&waits->mutex);
    place = find_place(waits, exchange);
    assert(place); /* it is active there */
    place->active--;
    if (state == WAIT_WATCHES) {
        place->watched = false;
        waits->watchers--;
    }
    count = exchange->wait.found ? WOKEN_MAX : place->active == 0;
    while (place->first && count-- > 0) {
        wake_first(waits, place);
    }
    put_place(waits, place);
    pthread_mutex_unlock(&waits->mutex);
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* Answers those whose time is over. Answers when the next one's is. */
static int64_t end_late(struct waits *waits, struct place *place, int64_t now_us)
{
    int64_t next_us = INT64_MAX;
    struct exchange **at = &place->first;

    while (*at) {
        if (waits->stopping || (*at)->wait.until_us <= now_us) {
            waits->options.run_out(take(place, at));
            continue;
        }
        next_us = (*at)->wait.until_us < next_us ? (*at)->wait.until_us : next_us;
        at = &(*at)->next;
    }
    return next_us;
}

/* Looks after all places. Answers when to do so again. */
static int64_t look(struct waits *waits)
{
    int64_t now_us = clock_mono_us();
    int64_t next_us = INT64_MAX;
    struct place *next;

    for (struct place *place = waits->places; place; place = next) {
        int64_t late_us = end_late(waits, place, now_us);
        next = place->next;
        next_us = late_us < next_us ? late_us : next_us;
        if (place->first && place->active == 0) {
            int64_t look_us = now_us + WAITS_LOOK_MS * INT64_C(1000);
            next_us = look_us < next_us ? look_us : next_us;
            wake_first(waits, place);
        }
        put_place(waits, place);
    }
    return next_us;
}

static void *run(void *ctx)
{
    struct waits *waits = ctx;

    pthread_mutex_lock(&waits->mutex);
    while (!waits->stopping) {
        cond_wait_until(&waits->changed, &waits->mutex, (struct deadline){look(waits)});
    }
    look(waits);
    pthread_mutex_unlock(&waits->mutex);
    return NULL;
}

/* ---- Starting and stopping ------------------------------------------------------------------- */

struct waits *waits_start(const struct waits_options *options)
{
    struct waits *waits = mem_calloc(1, sizeof *waits);

    if (!waits) {
        fail(HF_NOMEM, "out of memory");
        return NULL;
    }
    waits->options = *options;
    if (mutex_init(&waits->mutex) || cond_init(&waits->changed) ||
        thread_start(&waits->thread, "hf-http-waits", run, waits)) {
        mem_free(waits);
        return NULL;
    }
    return waits;
}

void waits_stop(struct waits *waits)
{
    bool stopped;

    pthread_mutex_lock(&waits->mutex);
    stopped = waits->stopping;
    waits->stopping = true;
    pthread_cond_signal(&waits->changed);
    pthread_mutex_unlock(&waits->mutex);
    if (!stopped) {
        pthread_join(waits->thread, NULL);
    }
}

void waits_free(struct waits *waits)
{
    if (!waits) {
        return;
    }
    waits_stop(waits);
    assert(!waits->places);
    pthread_cond_destroy(&waits->changed);
    pthread_mutex_destroy(&waits->mutex);
    mem_free(waits);
}
