/*
 * followers.c - see follow.h.
 */
#include "server/follow/follow.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "server/follow/follower.h"

#include <microhttpd.h>

/* ---- Hooks of a stream ----------------------------------------------------------------------- */

static void see_room(void *ctx)
{
    follower_queue(ctx, PLACE_WAITING);
}

static void see_gone(void *ctx)
{
    struct follower *follower = ctx;

    atomic_store(&follower->gone, true);
}

/* ---- Feeds ----------------------------------------------------------------------------------- */

static struct feed *feed_new(struct followers *followers)
{
    struct feed *feed = mem_calloc(1, sizeof *feed);

    if (!feed || mutex_init(&feed->mutex)) {
        mem_free(feed);
        fail(HF_NOMEM, "out of memory");
        return NULL;
    }
    feed->all = followers;
    return feed;
}

/* The feed of a namespace, or a place for it; NULL: there is none. The mutex is held. */
static struct feed **find_feed(struct followers *followers, const char *name)
{
    struct feed **free_place = NULL;

    for (size_t i = 0; i < FEEDS_MAX; i++) {
        struct feed **at = &followers->feeds[i];
        if (*at && (*at)->state == FEED_RUNS && strcmp((*at)->name, name) == 0) {
            return at;
        }
        if ((!*at || (*at)->state != FEED_RUNS) && !free_place) {
            free_place = at;
        }
    }
    return free_place;
}

/* A feed that runs, and goes on until the caller has added a follower. The mutex is held. */
static hf_status get_feed(struct followers *followers, const char *name, struct feed **ret_feed)
{
    struct feed **at = find_feed(followers, name);
    hf_status status = HF_OK;

    if (followers->stopping) {
        return fail(HF_CLOSED, "the server is about to stop");
    }
    if (!at) {
        return fail(HF_BUSY, "%d namespaces are followed already; try again later", FEEDS_MAX);
    }
    *at = *at ? *at : feed_new(followers);
    if (!*at) {
        return HF_NOMEM;
    }
    if ((*at)->state == FEED_ENDED) {
        feed_join(*at);
    }
    if ((*at)->state == FEED_FREE) {
        status = feed_start(*at, name);
    }
    if (!status) {
        (*at)->coming++;
        *ret_feed = *at;
    }
    return status;
}

static void feed_came(struct followers *followers, struct feed *feed)
{
    pthread_mutex_lock(&followers->mutex);
    feed->coming--;
    pthread_mutex_unlock(&followers->mutex);
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* The stream begins, and its follower is read for. */
static bool begin(struct followers *followers, struct feed *feed, struct follower *follower,
                  struct exchange *exchange)
{
    const struct stream_hooks hooks = {.room = see_room, .gone = see_gone, .ctx = follower};

    follower->feed = feed;
    follower->stream = stream_begin(exchange, &hooks);
    if (!follower->stream) {
        return false;
    }
    atomic_fetch_or(&feed->forms, 1U << follower->form);
    pthread_mutex_lock(&feed->mutex);
    follower->next = feed->first;
    feed->first = follower;
    pthread_mutex_unlock(&feed->mutex);
    backlog_push(&followers->backlog, follower);
    return true;
}

void followers_answer(struct followers *followers, struct exchange *exchange,
                      const struct follow_wish *wish)
{
    struct follower *follower = follower_new(wish);
    struct feed *feed = NULL;
    hf_status status = HF_NOMEM;

    if (follower) {
        pthread_mutex_lock(&followers->mutex);
        status = get_feed(followers, exchange->namespace_name, &feed);
        pthread_mutex_unlock(&followers->mutex);
    }
    if (!feed) {
        answer_failure(exchange, status);
    } else if (begin(followers, feed, follower, exchange)) {
        follower = NULL; /* the feed's */
    }
    if (feed) {
        feed_came(followers, feed);
    }
    follower_free(follower);
}

/* ---- Starting and stopping ------------------------------------------------------------------- */

struct followers *followers_open(struct buses *buses)
{
    struct followers *followers = mem_calloc(1, sizeof *followers);
    size_t count = sizeof followers->readers / sizeof followers->readers[0];
    hf_status status = HF_OK;

    if (!followers || mutex_init(&followers->mutex) || cond_init(&followers->changed)) {
        mem_free(followers);
        fail(HF_NOMEM, "out of memory");
        return NULL;
    }
    followers->buses = buses;
    backlog_init(&followers->backlog);
    while (!status && followers->reader_count < count) {
        status = thread_start(&followers->readers[followers->reader_count], "hf-behind",
                              backlog_run, &followers->backlog);
        followers->reader_count += status ? 0 : 1;
    }
    if (status) {
        followers_free(followers);
        return NULL;
    }
    return followers;
}

void followers_stop(struct followers *followers)
{
    pthread_mutex_lock(&followers->mutex);
    followers->stopping = true;
    pthread_cond_broadcast(&followers->changed);
    pthread_mutex_unlock(&followers->mutex);
    backlog_stop(&followers->backlog);
}

void followers_free(struct followers *followers)
{
    if (!followers) {
        return;
    }
    followers_stop(followers);
    for (size_t i = 0; i < followers->reader_count; i++) {
        pthread_join(followers->readers[i], NULL);
    }
    for (size_t i = 0; i < FEEDS_MAX; i++) {
        struct feed *feed = followers->feeds[i];
        bool begun;
        pthread_mutex_lock(&followers->mutex);
        begun = feed && feed->state != FEED_FREE;
        pthread_mutex_unlock(&followers->mutex);
        if (begun) {
            feed_join(feed);
        }
        if (feed) {
            pthread_mutex_destroy(&feed->mutex);
            mem_free(feed);
        }
    }
    backlog_release(&followers->backlog);
    pthread_cond_destroy(&followers->changed);
    pthread_mutex_destroy(&followers->mutex);
    mem_free(followers);
}
