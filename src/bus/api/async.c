/*
 * async.c - publishing without waiting. See async.h.
 *
 * hf_publish_async checks the event, copies it into a job and puts the job into a queue. One thread
 * takes what waits, appends it and runs the callbacks:
 *
 *     queued -> taken -> answered (callback)
 *
 * Each job is an atomic change of its own with an answer of its own, but a thousand of them must
 * not cost a thousand commits. So the thread tries one append that holds the whole share. If that
 * fails and the store names the event at fault (an expected version that is not the key's), the
 * share is cut there: what is before it goes as one, the culprit alone, the rest as one again. If
 * no event is at fault (no space, no database) all of the share get that answer.
 *
 * Order: the queue is first in, first out and there is one thread, so events of one thread enter
 * the log in the order of its calls.
 *
 * Bounds: jobs count from the moment they are queued until they are answered. An empty queue takes
 * an event of any size, so that no limit can make an event unpublishable. A thread that finds the
 * queue full waits, except a callback: it runs on the one thread that could make room, so it is
 * refused at once. A job's own weight is given back before its callback runs, so publishing one
 * event in answer to another always has room, unless another thread took it in that moment.
 *
 * The end: async_drain sets the deadline; handlers that still run go on publishing. When they have
 * ended, async_stop lets the thread empty the queue and end. Whatever has not been tried at the
 * deadline is answered HF_CLOSED, and async_stop waits for the rest, which is one append that may
 * last as long as a call does: so every callback runs exactly once in every case, and none after
 * the bus was closed.
 */
#include "bus/api/async.h"

#include <assert.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "base/uuid.h"
#include "bus/api/publish.h"
#include "bus/deliver/work/attempt.h"
#include "bus/intake.h"

#define SHARE_EVENTS_MAX 1000   /* events in one append */
#define SHARE_BYTES_MAX 4194304 /* bytes in one append, but at least one event */

/* One event that waits, with its texts behind it. */
struct job {
    struct job *next;
    hf_published_fn done; /* may be NULL */
    void *ctx;
    int64_t bytes;
    int64_t accepted_us; /* monotonic */
    struct new_event event;
    char texts[];
};

struct async {
    hf_bus *bus;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t work;   /* the thread waits here for jobs */
    pthread_cond_t room;   /* publishers wait here for room */
    pthread_cond_t answer; /* hf_flush and async_stop wait here */
    struct job *first;
    struct job *last;
    int64_t events; /* weight of all that is not answered */
    int64_t bytes;
    int64_t accepted;              /* jobs ever queued */
    int64_t answered;              /* jobs ever answered; they are answered in order */
    int32_t rooms_wanted;          /* publishers waiting for room */
    bool waiting;                  /* the thread waits */
    bool stopping;                 /* nothing new; empty the queue */
    bool ended;                    /* the thread has answered everything */
    struct deadline stop_deadline; /* never, until the bus ends */

    /* the thread's own */
    size_t count;
    struct job *share[SHARE_EVENTS_MAX];
    struct new_event events_of_share[SHARE_EVENTS_MAX];
};

static _Thread_local const struct async *inside; /* whose callbacks this thread runs */

/* ---- Jobs ------------------------------------------------------------------------------------ */

static struct text copy_text(struct text from, char **at)
{
    if (text_is_absent(from)) {
        return TEXT_ABSENT;
    }
    struct text to = {*at, from.length};
    memcpy(*at, from.bytes, from.length);
    *at += from.length;
    return to;
}

static struct job *job_new(const struct new_event *event, hf_published_fn done, void *ctx)
{
    size_t texts = event->type.length + event->payload.length + event->key.length +
                   event->tenant.length + event->metadata.length + event->producer.length +
                   event->unique.length;
    struct job *job = mem_alloc(sizeof *job + texts);
    if (!job) {
        return NULL;
    }
    *job = (struct job){.done = done, .ctx = ctx, .accepted_us = clock_mono_us(), .event = *event};
    job->bytes = (int64_t)(sizeof *job + texts);
    char *at = job->texts;
    job->event.type = copy_text(event->type, &at);
    job->event.payload = copy_text(event->payload, &at);
    job->event.key = copy_text(event->key, &at);
    job->event.tenant = copy_text(event->tenant, &at);
    job->event.metadata = copy_text(event->metadata, &at);
    job->event.producer = copy_text(event->producer, &at);
    job->event.unique = copy_text(event->unique, &at);
    return job;
}

/* ---- The queue ------------------------------------------------------------------------------- */

static bool has_room(const struct async *async, const struct job *job)
{
    return async->events == 0 || (async->events < async->bus->queue_events_max &&
                                  async->bytes + job->bytes <= async->bus->queue_bytes_max);
}

static hf_status wait_for_room(struct async *async, const struct job *job)
{
    if (!has_room(async, job) && inside != async) {
        struct deadline deadline = bus_deadline(async->bus);
        async->rooms_wanted++;
        HF_POINT("async_full");
        bool in_time = true;
        while (in_time && !async->stopping && bus_admits(async->bus) && !has_room(async, job)) {
            in_time = cond_wait_until(&async->room, &async->mutex, deadline);
        }
        async->rooms_wanted--;
    }
    if (async->stopping || !bus_admits(async->bus)) {
        return bus_refuse(async->bus);
    }
    if (has_room(async, job)) {
        return HF_OK;
    }
    return fail(HF_BUSY,
                "the queue is full: %" PRId64 " events and %" PRId64
                " bytes wait; the limits are %" PRId64 " and %" PRId64,
                async->events, async->bytes, async->bus->queue_events_max,
                async->bus->queue_bytes_max);
}

static hf_status enqueue(struct async *async, struct job *job)
{
    pthread_mutex_lock(&async->mutex);
    hf_status status = wait_for_room(async, job);
    if (!status) {
        if (async->last) {
            async->last->next = job;
        } else {
            async->first = job;
        }
        async->last = job;
        async->events++;
        async->bytes += job->bytes;
        async->accepted++;
        if (async->waiting) {
            pthread_cond_signal(&async->work);
        }
    }
    pthread_mutex_unlock(&async->mutex);
    return status;
}

/* Moves the front of the queue into the share. The mutex is held. */
static void take_share(struct async *async)
{
    int64_t bytes = 0;
    async->count = 0;
    while (async->first && async->count < SHARE_EVENTS_MAX) {
        struct job *job = async->first;
        bytes += job->bytes;
        if (async->count > 0 && bytes > SHARE_BYTES_MAX) {
            break;
        }
        async->first = job->next;
        async->share[async->count++] = job;
    }
    if (!async->first) {
        async->last = NULL;
    }
}

/* ---- Answering ------------------------------------------------------------------------------- */

static void tell(struct async *async, const struct job *job, const struct new_event *event,
                 hf_status status, const char *message)
{
    hf_receipt receipt = {.position = -1, .key_version = -1};
    if (status) {
        uuid_format(event->id, receipt.id);
    } else {
        receipt_fill(event, &receipt);
    }
    if (job->done) {
        job->done(status, &receipt, message, job->ctx);
    } else if (status) {
        log_about(&async->bus->log, HF_LOG_ERROR, NULL,
                  "event %s was published asynchronously without a callback and is not stored: "
                  "%s: %s",
                  receipt.id, status_name(status), message);
    }
}

/* Answers jobs [from, to) of the share. The one place where a job ends. */
static void answer(struct async *async, size_t from, size_t to, hf_status status,
                   const char *message)
{
    int64_t now_us = clock_mono_us();
    for (size_t i = from; i < to; i++) {
        struct job *job = async->share[i];
        pthread_mutex_lock(&async->mutex);
        async->events--;
        async->bytes -= job->bytes;
        if (async->rooms_wanted > 0) {
            pthread_cond_broadcast(&async->room);
        }
        pthread_mutex_unlock(&async->mutex);

        meters_publish(&async->bus->meters, status, now_us - job->accepted_us);
        tell(async, job, &async->events_of_share[i], status, message);
        mem_free(job);

        pthread_mutex_lock(&async->mutex);
        async->answered++;
        pthread_cond_broadcast(&async->answer);
        pthread_mutex_unlock(&async->mutex);
    }
}

static hf_status append_part(struct async *async, size_t from, size_t to, struct deadline deadline,
                             size_t *ret_failed)
{
    struct append append = {
        .change = {.kind = CHANGE_APPEND, .now_us = clock_wall_us()},
        .events = &async->events_of_share[from],
        .count = to - from,
        .failed_index = SIZE_MAX,
    };
    hf_status status = store_run(async->bus->store, &append.change, deadline);
    if (status) {
        *ret_failed = append.failed_index;
        return status;
    }
    int64_t stored = 0;
    for (size_t i = from; i < to; i++) {
        stored += !async->events_of_share[i].duplicate;
    }
    atomic_fetch_add_explicit(&async->bus->published, stored, memory_order_relaxed);
    return HF_OK;
}

/* When the next part must be done. Each has the time of a call: how often the share was cut before
 * it is not its fault. False: the bus is shut down, and there is no time any more. */
static bool has_time(struct async *async, struct deadline *ret_deadline)
{
    pthread_mutex_lock(&async->mutex);
    struct deadline stop_deadline = async->stop_deadline;
    pthread_mutex_unlock(&async->mutex);
    *ret_deadline = deadline_earlier(bus_deadline(async->bus), stop_deadline);
    return !deadline_passed(stop_deadline);
}

/* Appends the share in as few parts as the faults in it allow. `to` moves towards `from` until the
 * part is good, or is one event, or has failed without an event at fault. */
static void append_share(struct async *async)
{
    for (size_t i = 0; i < async->count; i++) {
        async->events_of_share[i] = async->share[i]->event;
    }
    size_t from = 0;
    size_t to = async->count;
    struct deadline deadline;
    while (from < to && has_time(async, &deadline)) {
        size_t failed = SIZE_MAX;
        hf_status status = append_part(async, from, to, deadline, &failed);
        if (status && failed < to - from && to - from > 1) {
            to = from + (failed > 0 ? failed : 1);
            continue;
        }
        char message[HF_ERR_BYTES_MAX] = "";
        if (status) {
            snprintf(message, sizeof message, "%s", err_message());
        }
        answer(async, from, to, status, message);
        from = to;
        to = async->count;
    }
    answer(async, from, async->count, HF_CLOSED,
           "the bus was shut down before the event could be stored");
}

static void *async_main(void *ctx)
{
    struct async *async = ctx;
    inside = async;
    pthread_mutex_lock(&async->mutex);
    for (;;) {
        while (!async->first && !async->stopping) {
            async->waiting = true;
            pthread_cond_wait(&async->work, &async->mutex);
            async->waiting = false;
        }
        if (!async->first) {
            break;
        }
        take_share(async);
        pthread_mutex_unlock(&async->mutex);

        HF_POINT("async_taken");
        append_share(async);
        pthread_mutex_lock(&async->mutex);
    }
    async->ended = true;
    pthread_cond_broadcast(&async->answer);
    pthread_mutex_unlock(&async->mutex);
    return NULL;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static hf_status locks_init(struct async *async)
{
    hf_status status = mutex_init(&async->mutex);
    if (!status) {
        status = cond_init(&async->work);
    }
    if (!status) {
        status = cond_init(&async->room);
    }
    return status ? status : cond_init(&async->answer);
}

/* The first asynchronous publish makes the thread. bus->mutex is held. */
static hf_status async_start(hf_bus *bus)
{
    if (!bus_admits(bus)) {
        return bus_refuse(bus);
    }
    struct async *async = mem_calloc(1, sizeof *async);
    if (!async) {
        return fail(HF_NOMEM, "out of memory for the queue of asynchronous publishes");
    }
    async->bus = bus;
    async->stop_deadline = DEADLINE_NEVER;
    hf_status status = locks_init(async);
    if (!status) {
        status = thread_start(&async->thread, "hf-async", async_main, async);
    }
    if (status) {
        mem_free(async);
        return status;
    }
    __atomic_store_n(&bus->async, async, __ATOMIC_RELEASE);
    return HF_OK;
}

static struct async *async_find(const hf_bus *bus)
{
    return __atomic_load_n(&bus->async, __ATOMIC_ACQUIRE);
}

static hf_status async_ensure(hf_bus *bus, struct async **ret_async)
{
    if (!async_find(bus)) {
        pthread_mutex_lock(&bus->mutex);
        hf_status status = async_find(bus) ? HF_OK : async_start(bus);
        pthread_mutex_unlock(&bus->mutex);
        if (status) {
            return status;
        }
    }
    *ret_async = async_find(bus);
    return HF_OK;
}

void async_drain(hf_bus *bus, struct deadline deadline)
{
    pthread_mutex_lock(&bus->mutex);
    struct async *async = async_find(bus);
    pthread_mutex_unlock(&bus->mutex);
    if (!async) {
        return; /* a handler may still make one; async_stop sets its deadline */
    }
    assert(inside != async);
    pthread_mutex_lock(&async->mutex);
    async->stop_deadline = deadline_earlier(async->stop_deadline, deadline);
    pthread_cond_broadcast(&async->room);
    pthread_mutex_unlock(&async->mutex);
}

void async_stop(hf_bus *bus, struct deadline deadline)
{
    async_drain(bus, deadline); /* no thread makes one after its lock: the bus is closed */
    struct async *async = async_find(bus);
    if (!async) {
        return;
    }
    pthread_mutex_lock(&async->mutex);
    async->stopping = true;
    pthread_cond_signal(&async->work);
    HF_POINT("async_stopping");
    while (!async->ended) {
        pthread_cond_wait(&async->answer, &async->mutex);
    }
    pthread_mutex_unlock(&async->mutex);
}

void async_free(hf_bus *bus)
{
    struct async *async = async_find(bus);
    if (!async) {
        return;
    }
    bus->async = NULL;
    if (store_poisoned(bus->store)) {
        /* The thread and the locks' owners are in the parent. */
        for (struct job *job = async->first, *next; job; job = next) {
            next = job->next;
            mem_free(job);
        }
        mem_free(async);
        return;
    }
    assert(async->ended && !async->first);
    pthread_join(async->thread, NULL);
    pthread_cond_destroy(&async->answer);
    pthread_cond_destroy(&async->room);
    pthread_cond_destroy(&async->work);
    pthread_mutex_destroy(&async->mutex);
    mem_free(async);
}

bool async_inside_callback(const hf_bus *bus)
{
    return inside && inside == async_find(bus);
}

/* ---- The public calls ------------------------------------------------------------------------ */

hf_status hf_publish_async(hf_bus *bus, const hf_new_event *event, hf_published_fn done, void *ctx)
{
    hf_status status = bus_check_open(bus);
    if (status) {
        return status;
    }
    if (!event) {
        return fail(HF_INVALID, "event is NULL");
    }
    struct new_event checked;
    status = intake_check(bus, event, clock_wall_us(), &checked);
    if (status) {
        return status;
    }
    struct async *async;
    status = async_ensure(bus, &async);
    if (status) {
        return status;
    }
    struct job *job = job_new(&checked, done, ctx);
    if (!job) {
        return fail(HF_NOMEM, "out of memory for an event of %zu bytes", checked.payload.length);
    }
    status = enqueue(async, job);
    if (status) {
        mem_free(job);
    }
    return status;
}

hf_status hf_flush(hf_bus *bus, int64_t timeout_ms)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    if (async_inside_callback(bus)) {
        return fail(HF_MISUSE, "hf_flush in a completion callback would wait for itself");
    }
    if (attempt_tx(bus)) {
        return fail(HF_MISUSE, "hf_flush in a transactional handler would wait for the handler's "
                               "own transaction");
    }
    struct async *async = async_find(bus);
    if (!async) {
        return HF_OK;
    }
    struct deadline deadline = deadline_after_ms(timeout_ms);
    pthread_mutex_lock(&async->mutex);
    int64_t target = async->accepted;
    bool in_time = true;
    while (in_time && async->answered < target) {
        in_time = cond_wait_until(&async->answer, &async->mutex, deadline);
    }
    int64_t left = target - async->answered;
    pthread_mutex_unlock(&async->mutex);
    if (left <= 0) {
        return HF_OK;
    }
    return fail(HF_TIMEOUT,
                "%" PRId64 " asynchronous publishes are not answered after %" PRId64 " ms", left,
                timeout_ms);
}
