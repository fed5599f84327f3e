/*
 * sampler.c - see sampler.h.
 *
 * One mutex protects everything but what a sample is being made of. The thread takes samples
 * without it, and holds it while a new sample takes the place of the last one and while views are
 * written, which asks no database. A stream is forgotten when something could not be sent to it.
 */
#include "server/live/sampler.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "server/http/stream.h"

#include <math.h>
#include <microhttpd.h>

#define MS_US INT64_C(1000)
#define IDLE_PERIOD_MS 5000       /* of the server's own namespace while no page shows it */
#define LOOKING_MS 15000          /* a client that has asked for one view counts as a page */
#define KEPT_MS 60000             /* then a namespace that no page shows is forgotten */
#define FIRST_MS 5000             /* how long an answer waits for the first sample */
#define STREAM_BEHIND_BYTES 65536 /* a page with so much before it skips a sample */
#define VIEW_BYTES_MAX 16777216
/* Samples take at most one part in so many of the time: while a page shows the namespace, and while
 * none does. */
#define BUSY_PART 10
#define IDLE_PART 500

/* A namespace of which samples are taken. */
struct watch {
    char name[HF_NAMESPACE_BYTES_MAX + 1]; /* "": free */
    bool own;                              /* sampled also while no page shows it */
    int64_t looked_us;                     /* when a client asked for a view last */
    int64_t next_us;                       /* when the next sample is to be taken */
    int64_t period_ms;                     /* between the last ones */
    int viewers;
    struct sample *sample; /* NULL: there is none yet */
    struct points points;
    struct flow flow;
    struct live_failure failure;
};

/* A page that waits for samples. */
struct viewer {
    struct viewer *next;
    struct watch *watch;
    struct stream *stream;
    struct live_view view;
    int64_t bucket; /* of the histories that it has been sent */
};

struct sampler {
    struct buses *buses;
    pthread_t thread;
    pthread_mutex_t mutex; /* protects what follows */
    pthread_cond_t changed;
    bool stopping;
    struct watch *watches[SAMPLER_NAMESPACES_MAX]; /* NULL: free */
    struct viewer *viewers;
};

/* ---- Watches --------------------------------------------------------------------------------- */

static void watch_free(struct watch *watch)
{
    sample_free(watch->sample);
    mem_free(watch);
}

static bool is_looked_at(const struct watch *watch, int64_t now_us)
{
    return watch->viewers > 0 || now_us - watch->looked_us < LOOKING_MS * MS_US;
}

static bool is_kept(const struct watch *watch, int64_t now_us)
{
    return watch->own || watch->viewers > 0 || now_us - watch->looked_us < KEPT_MS * MS_US;
}

static struct watch *watch_new(const char *name, bool own)
{
    struct watch *watch = mem_calloc(1, sizeof *watch);

    if (watch) {
        snprintf(watch->name, sizeof watch->name, "%s", name);
        watch->own = own;
        watch->looked_us = own ? INT64_MIN / 2 : clock_mono_us();
        watch->next_us = clock_mono_us();
        watch->period_ms = SAMPLER_PERIOD_MS;
        flow_init(&watch->flow);
    }
    return watch;
}

/* That of a namespace, made if there is none. The mutex is held. NULL: no room or memory (err). */
static struct watch *find_watch(struct sampler *sampler, const char *name)
{
    struct watch **free_place = NULL;

    for (size_t i = 0; i < SAMPLER_NAMESPACES_MAX; i++) {
        struct watch *watch = sampler->watches[i];
        if (watch && strcmp(watch->name, name) == 0) {
            return watch;
        }
        if (!watch && !free_place) {
            free_place = &sampler->watches[i];
        }
    }
    if (!free_place) {
        fail(HF_BUSY, "%d namespaces are looked at already; try again later",
             SAMPLER_NAMESPACES_MAX);
        return NULL;
    }
    *free_place = watch_new(name, false);
    if (!*free_place) {
        fail(HF_NOMEM, "out of memory");
    }
    return *free_place;
}

/* A client has asked for a view: the next sample comes soon. The mutex is held. */
static void look(struct sampler *sampler, struct watch *watch)
{
    int64_t now_us = clock_mono_us();
    bool slept = !is_looked_at(watch, now_us);

    watch->looked_us = now_us;
    if (slept && watch->next_us > now_us) {
        watch->next_us = now_us;
    }
    pthread_cond_broadcast(&sampler->changed);
}

/* ---- Views ----------------------------------------------------------------------------------- */

static struct live_source source_of(const struct watch *watch)
{
    return (struct live_source){
        .sample = watch->sample,
        .points = &watch->points,
        .flow = &watch->flow,
        .failure = &watch->failure,
        .period_ms = watch->period_ms,
        .now_us = clock_wall_us(),
    };
}

static void write_view(const struct watch *watch, const struct live_view *view, bool whole,
                       struct json_out *json)
{
    struct live_source source = source_of(watch);

    live_write(&source, view, whole, json);
}

/* Whether there is something to show. */
static bool is_ready(const struct watch *watch)
{
    return watch->sample || watch->failure.message[0];
}

static int64_t bucket_of(const struct watch *watch)
{
    return watch->sample ? watch->sample->at_us / 1000 / HISTORY_BUCKET_MS : 0;
}

/* Sends the last sample to a page. The mutex is held. False: the page is gone. */
static bool send_view(struct viewer *viewer)
{
    struct buf text;
    struct json_out json;
    struct message *message;
    int64_t bucket = bucket_of(viewer->watch);
    bool sent;

    if (stream_queued(viewer->stream) > STREAM_BEHIND_BYTES) {
        return true;
    }
    buf_init(&text, VIEW_BYTES_MAX);
    json_out_init(&json, &text);
    write_view(viewer->watch, &viewer->view, bucket != viewer->bucket, &json);
    viewer->bucket = bucket;
    message = buf_status(&text) ? NULL : message_new(NULL, "live", buf_text(&text));
    sent = message && stream_send(viewer->stream, message);
    message_put(message);
    buf_release(&text);
    return sent;
}

static void viewer_free(struct viewer *viewer)
{
    viewer->watch->viewers--;
    stream_put(viewer->stream);
    mem_free(viewer);
}

/* Sends the new sample to all pages that wait for it. The mutex is held. */
static void send_views(struct sampler *sampler, const struct watch *watch)
{
    struct viewer **at = &sampler->viewers;

    while (*at) {
        struct viewer *viewer = *at;
        if (viewer->watch == watch && !send_view(viewer)) {
            *at = viewer->next;
            viewer_free(viewer);
        } else {
            at = &viewer->next;
        }
    }
}

/* Ends the streams of a namespace that is not there any more, so that browsers connect again and
 * get the answer that says so. The mutex is held. */
static void end_views(struct sampler *sampler, const struct watch *watch)
{
    struct viewer **at = &sampler->viewers;

    while (*at) {
        struct viewer *viewer = *at;
        if (viewer->watch == watch) {
            *at = viewer->next;
            stream_end(viewer->stream);
            viewer_free(viewer);
        } else {
            at = &viewer->next;
        }
    }
}

/* ---- The thread ------------------------------------------------------------------------------ */

static hf_status take(struct sampler *sampler, struct watch *watch, struct sample **ret_sample)
{
    hf_bus *bus;
    struct sample *sample = NULL;
    hf_status status = buses_get(sampler->buses, watch->name, &bus);

    if (status) {
        return status;
    }
    status = sample_take(bus, watch->sample, clock_wall_us(), &sample);
    if (!status) {
        status = flow_read(&watch->flow, bus, &sample->stats, sample->at_us);
    }
    buses_put(sampler->buses, bus);
    if (status) {
        sample_free(sample);
        return status;
    }
    *ret_sample = sample;
    return HF_OK;
}

static struct point point_of(const struct sample *sample)
{
    const struct live_subscription *oldest = sample->oldest;

    return (struct point){
        .at_ms = sample->at_us / 1000,
        .published = sample->published < 0 ? NAN : (float)sample->published,
        .delivered = sample->delivered < 0 ? NAN : (float)sample->delivered,
        .oldest_s =
            oldest ? (float)((double)(sample->at_us - oldest->info.oldest_waiting_us) / 1e6) : 0,
        .dead = sample->stats.dead < 0 ? NAN : (float)sample->stats.dead,
        .died = sample->died < 0 ? NAN : (float)sample->died,
    };
}

/* A sample takes the place of the last one, which is returned. The mutex is held. */
static struct sample *replace(struct watch *watch, struct sample *sample)
{
    struct sample *before = watch->sample;

    sample_follow(sample, before, &watch->flow);
    sample_find_trouble(sample);
    points_add(&watch->points, point_of(sample));
    watch->sample = sample;
    watch->failure.message[0] = '\0';
    return before;
}

static void note_failure(struct watch *watch)
{
    if (!watch->failure.message[0]) {
        watch->failure.since_us = clock_wall_us();
    }
    snprintf(watch->failure.message, sizeof watch->failure.message, "%s", err_message());
}

/* When the next sample is to be taken, after one that took so long. The mutex is held. */
static void plan(struct watch *watch, int64_t begun_us)
{
    int64_t now_us = clock_mono_us();
    bool looked_at = is_looked_at(watch, now_us);
    int64_t least_us = (looked_at ? SAMPLER_PERIOD_MS : IDLE_PERIOD_MS) * MS_US;
    int64_t share_us = (now_us - begun_us) * (looked_at ? BUSY_PART : IDLE_PART);
    int64_t period_us = share_us > least_us ? share_us : least_us;

    watch->period_ms = period_us / MS_US;
    watch->next_us = begun_us + period_us;
}

/* Takes a sample and sends it. The mutex is held, and let go of meanwhile; the watch stays, because
 * only this thread removes one. */
static void sample_watch(struct sampler *sampler, struct watch *watch)
{
    int64_t begun_us = clock_mono_us();
    struct sample *sample = NULL;
    struct sample *before = NULL;
    hf_status status;

    pthread_mutex_unlock(&sampler->mutex);
    status = take(sampler, watch, &sample);
    pthread_mutex_lock(&sampler->mutex);
    if (status) {
        note_failure(watch);
    } else {
        before = replace(watch, sample);
    }
    plan(watch, begun_us);
    if (status == HF_NOTFOUND) {
        end_views(sampler, watch);
    } else {
        send_views(sampler, watch);
    }
    pthread_cond_broadcast(&sampler->changed);
    sample_free(before);
}

/* The watch that is due first; those that no page shows are removed. The mutex is held. */
static struct watch *next_watch(struct sampler *sampler)
{
    struct watch *next = NULL;
    int64_t now_us = clock_mono_us();

    for (size_t i = 0; i < SAMPLER_NAMESPACES_MAX; i++) {
        struct watch *watch = sampler->watches[i];
        if (watch && !is_kept(watch, now_us)) {
            watch_free(watch);
            sampler->watches[i] = NULL;
        } else if (watch && (!next || watch->next_us < next->next_us)) {
            next = watch;
        }
    }
    return next;
}

static void *take_samples(void *ctx)
{
    struct sampler *sampler = ctx;

    pthread_mutex_lock(&sampler->mutex);
    while (!sampler->stopping) {
        struct watch *watch = next_watch(sampler);
        int64_t wait_us = watch ? watch->next_us - clock_mono_us() : KEPT_MS * MS_US;
        if (wait_us <= 0) {
            sample_watch(sampler, watch);
        } else {
            cond_wait_until(&sampler->changed, &sampler->mutex,
                            deadline_after_ms(wait_us / MS_US + 1));
        }
    }
    pthread_mutex_unlock(&sampler->mutex);
    return NULL;
}

struct sampler *sampler_open(struct buses *buses)
{
    struct sampler *sampler = mem_calloc(1, sizeof *sampler);

    if (!sampler) {
        fail(HF_NOMEM, "out of memory");
        return NULL;
    }
    sampler->buses = buses;
    sampler->watches[0] = watch_new(buses_own_name(buses), true);
    if (!sampler->watches[0] || mutex_init(&sampler->mutex) || cond_init(&sampler->changed) ||
        thread_start(&sampler->thread, "hf-live", take_samples, sampler)) {
        mem_free(sampler->watches[0]);
        mem_free(sampler);
        return NULL;
    }
    return sampler;
}

void sampler_close(struct sampler *sampler)
{
    if (!sampler) {
        return;
    }
    pthread_mutex_lock(&sampler->mutex);
    sampler->stopping = true;
    pthread_cond_broadcast(&sampler->changed);
    pthread_mutex_unlock(&sampler->mutex);
    pthread_join(sampler->thread, NULL);
    while (sampler->viewers) {
        struct viewer *viewer = sampler->viewers;
        sampler->viewers = viewer->next;
        stream_end(viewer->stream);
        viewer_free(viewer);
    }
    for (size_t i = 0; i < SAMPLER_NAMESPACES_MAX; i++) {
        if (sampler->watches[i]) {
            watch_free(sampler->watches[i]);
        }
    }
    pthread_cond_destroy(&sampler->changed);
    pthread_mutex_destroy(&sampler->mutex);
    mem_free(sampler);
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* Waits for the first sample of a namespace. The mutex is held. */
static void wait_for_first(struct sampler *sampler, struct watch *watch)
{
    struct deadline deadline = deadline_after_ms(FIRST_MS);

    while (!is_ready(watch) && !sampler->stopping &&
           cond_wait_until(&sampler->changed, &sampler->mutex, deadline)) {
    }
}

static void answer_once(struct sampler *sampler, struct watch *watch, struct exchange *exchange,
                        const struct live_view *view)
{
    struct json_out json;

    wait_for_first(sampler, watch);
    json = answer_json(exchange, MHD_HTTP_OK);
    write_view(watch, view, true, &json);
}

/* A page whose stream has begun gets the last sample at once, and then each. */
static void answer_stream(struct sampler *sampler, struct watch *watch, struct exchange *exchange,
                          const struct live_view *view)
{
    const struct stream_hooks hooks = {.ctx = NULL};
    struct viewer *viewer = mem_calloc(1, sizeof *viewer);

    if (!viewer) {
        answer_problem(exchange, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
        return;
    }
    viewer->stream = stream_begin(exchange, &hooks);
    if (!viewer->stream) {
        mem_free(viewer);
        return;
    }
    viewer->view = *view;
    viewer->watch = watch;
    viewer->bucket = -1;
    viewer->next = sampler->viewers;
    sampler->viewers = viewer;
    watch->viewers++;
    if (is_ready(watch)) {
        send_view(viewer); /* if it is gone, the next sample finds that out */
    }
}

static bool wants_stream(const struct exchange *exchange)
{
    return exchange_accepts(exchange, "text/event-stream");
}

void sampler_answer(struct sampler *sampler, struct exchange *exchange,
                    const struct live_view *view)
{
    struct watch *watch;

    pthread_mutex_lock(&sampler->mutex);
    watch = find_watch(sampler, exchange->namespace_name);
    if (watch) {
        look(sampler, watch);
        (wants_stream(exchange) ? answer_stream : answer_once)(sampler, watch, exchange, view);
    }
    pthread_mutex_unlock(&sampler->mutex);
    if (!watch) {
        answer_failure(exchange, HF_BUSY);
    }
}

void sampler_show_own(struct sampler *sampler, const struct live_view *view, struct json_out *json,
                      struct headline *ret_headline)
{
    struct watch *own = sampler->watches[0];
    struct live_source source;

    pthread_mutex_lock(&sampler->mutex);
    look(sampler, own);
    source = source_of(own);
    live_headline(&source, ret_headline);
    if (is_ready(own)) {
        live_write(&source, view, true, json);
    } else {
        json_null(json);
    }
    pthread_mutex_unlock(&sampler->mutex);
}
