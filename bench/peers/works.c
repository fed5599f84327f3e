/*
 * works.c - the works that every peer is measured at, done through its links.
 *
 * Publishing and consuming are closed loops: a link gets its next request when the last one is
 * done. Latency is an open loop: event i is due at start + i / rate, whatever became of the ones
 * before it, and its latency counts from then until a consumer has it; an event that finds all
 * links busy waits for one. So a stall shows in every event that was due meanwhile.
 */
#include "peer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>

#define FILL_BATCH 1000
#define READY_MAX 256
#define LATE_SECONDS 20 /* after the last event was due, the rest has so long to arrive */
#define WARM_UP 20

/* The links of a measurement. */
struct crowd {
    const struct peer *peer;
    const struct task *task;
    struct link *links[LINKS_MAX];
    int count;
    int epoll;
};

static void crowd_open(struct crowd *crowd, const struct peer *peer, const struct task *task,
                       int count)
{
    *crowd = (struct crowd){.peer = peer, .task = task, .count = count};
    crowd->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (crowd->epoll < 0) {
        die("epoll", strerror(errno));
    }
    for (int i = 0; i < count; i++) {
        struct link *link = crowd->links[i] = peer->open(task);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};
        if (link->fd >= 0 && epoll_ctl(crowd->epoll, EPOLL_CTL_ADD, link->fd, &event) != 0) {
            die("epoll", strerror(errno));
        }
    }
}

static void crowd_close(struct crowd *crowd)
{
    for (int i = 0; i < crowd->count; i++) {
        crowd->peer->close(crowd->links[i]);
    }
    close(crowd->epoll);
}

/* Waits until links may go on, at most so long; -1: for ever. */
static int crowd_wait(struct crowd *crowd, struct epoll_event ready[READY_MAX], int timeout_ms)
{
    int count = epoll_wait(crowd->epoll, ready, READY_MAX, timeout_ms);
    if (count < 0 && errno != EINTR) {
        die("epoll", strerror(errno));
    }
    return count < 0 ? 0 : count;
}

/* What links do in a closed loop: begins the next request of a link; false: there is none. */
typedef bool (*next_fn)(struct crowd *crowd, struct link *link, void *ctx);

static void crowd_loop(struct crowd *crowd, next_fn next, void *ctx)
{
    struct epoll_event ready[READY_MAX];
    int active = 0;
    for (int i = 0; i < crowd->count; i++) {
        bool more = next(crowd, crowd->links[i], ctx);
        while (more && crowd->links[i]->fd < 0) {
            more = next(crowd, crowd->links[i], ctx);
        }
        active += more;
    }
    while (active > 0) {
        int count = crowd_wait(crowd, ready, -1);
        for (int i = 0; i < count; i++) {
            struct link *link = ready[i].data.ptr;
            if (crowd->peer->proceed(link) && !next(crowd, link, ctx)) {
                active--;
            }
        }
    }
}

/* ---- Publishing ------------------------------------------------------------------------------ */

struct publishing {
    double until;
    long long begun;
    long long limit; /* events at most; 0: as many as there is time for */
};

static bool publish_next(struct crowd *crowd, struct link *link, void *ctx)
{
    struct publishing *publishing = ctx;
    bool more = publishing->limit > 0 ? publishing->begun < publishing->limit
                                      : seconds() < publishing->until;
    if (more) {
        crowd->peer->publish(link, crowd->task->batch, publishing->begun);
        publishing->begun += crowd->task->batch;
    }
    return more;
}

void work_publish(const struct peer *peer, const struct task *task, struct result *ret_result)
{
    struct crowd crowd;
    struct publishing warm_up = {.limit = (long long)task->links * task->batch};
    struct publishing publishing = {0};
    if (peer->prepare) {
        peer->prepare(task);
    }
    crowd_open(&crowd, peer, task, task->links);
    crowd_loop(&crowd, publish_next, &warm_up);
    struct cost before = cost_now(task->server);
    double began = seconds();
    publishing.until = began + task->seconds;
    crowd_loop(&crowd, publish_next, &publishing);
    ret_result->seconds = seconds() - began;
    ret_result->events = publishing.begun;
    cost_add(ret_result, &before, task->server);
    crowd_close(&crowd);
}

/* ---- Consuming and failing ------------------------------------------------------------------- */

static void fill(const struct peer *peer, const struct task *task)
{
    struct crowd crowd;
    struct task filling = *task;
    struct publishing publishing = {.limit = task->events};
    filling.batch = FILL_BATCH;
    filling.waits = false;
    if (peer->prepare) {
        peer->prepare(task);
    }
    crowd_open(&crowd, peer, &filling, 1);
    crowd_loop(&crowd, publish_next, &publishing);
    crowd_close(&crowd);
}

struct consuming {
    void (*begin)(struct link *link, int count);
    long long got;
};

/* A link is done when a request has brought nothing; then all is acknowledged, too. */
static bool consume_next(struct crowd *crowd, struct link *link, void *ctx)
{
    struct consuming *consuming = ctx;
    bool more = link->got != 0;
    consuming->got += link->got > 0 ? link->got : 0;
    if (more) {
        link->got = 0;
        consuming->begin(link, crowd->task->batch);
    }
    return more;
}

/* Works off a backlog; every event of it is to be got so many times. */
static void drain(const struct peer *peer, const struct task *task, struct consuming *consuming,
                  int times, struct result *ret_result)
{
    struct crowd crowd;
    crowd_open(&crowd, peer, task, task->links);
    for (int i = 0; i < crowd.count; i++) {
        crowd.links[i]->got = -1; /* there was no request yet */
    }
    struct cost before = cost_now(task->server);
    double began = seconds();
    crowd_loop(&crowd, consume_next, consuming);
    ret_result->seconds = seconds() - began;
    ret_result->events = consuming->got;
    cost_add(ret_result, &before, task->server);
    crowd_close(&crowd);
    if (consuming->got != task->events * times) {
        fprintf(stderr, BENCH ": %s delivered %lld of %lld events\n", peer->name, consuming->got,
                task->events * times);
        exit(1);
    }
}

void work_consume(const struct peer *peer, const struct task *task, struct result *ret_result)
{
    struct consuming consuming = {.begin = peer->consume};
    fill(peer, task);
    drain(peer, task, &consuming, 1, ret_result);
}

void work_fail(const struct peer *peer, const struct task *task, struct result *ret_result)
{
    struct consuming consuming = {.begin = peer->fail};
    fill(peer, task);
    drain(peer, task, &consuming, 3, ret_result);
}

/* ---- Links of another thread ----------------------------------------------------------------- */

/* A thread whose links follow or consume while this one publishes. */
struct reader {
    struct crowd crowd;
    pthread_t thread;
    void (*begin)(struct link *link, int count);
    atomic_bool over;
    atomic_llong got;
    struct latencies latencies; /* of this thread until it ends */
};

static void note_latency(const char *payload, void *ctx)
{
    struct reader *reader = ctx;
    int64_t due_ns = payload_number(payload);
    if (due_ns > 0) {
        latencies_add(&reader->latencies, (double)(now_ns() - due_ns) / 1e6);
    }
}

static void *read_on(void *ctx)
{
    struct reader *reader = ctx;
    struct crowd *crowd = &reader->crowd;
    struct epoll_event ready[READY_MAX];
    for (int i = 0; i < crowd->count; i++) {
        reader->begin(crowd->links[i], crowd->task->batch);
    }
    while (!atomic_load(&reader->over)) {
        int count = crowd_wait(crowd, ready, 50);
        for (int i = 0; i < count; i++) {
            struct link *link = ready[i].data.ptr;
            if (crowd->peer->proceed(link)) {
                atomic_fetch_add(&reader->got, link->got);
                link->got = 0;
                reader->begin(link, crowd->task->batch);
            }
        }
    }
    return NULL;
}

static void reader_start(struct reader *reader, const struct peer *peer, const struct task *task,
                         int links)
{
    crowd_open(&reader->crowd, peer, task, links);
    for (int i = 0; i < links; i++) {
        reader->crowd.links[i]->received = note_latency;
        reader->crowd.links[i]->ctx = reader;
    }
    if (pthread_create(&reader->thread, NULL, read_on, reader) != 0) {
        die("a thread", "cannot be started");
    }
}

static void reader_await(struct reader *reader, long long count)
{
    double since = seconds();
    while (atomic_load(&reader->got) < count) {
        if (seconds() - since > LATE_SECONDS) {
            fprintf(stderr, BENCH ": %lld of %lld events arrived\n",
                    (long long)atomic_load(&reader->got), count);
            exit(1);
        }
        usleep(1000);
    }
}

static void reader_stop(struct reader *reader)
{
    atomic_store(&reader->over, true);
    pthread_join(reader->thread, NULL);
    crowd_close(&reader->crowd);
}

/* ---- Publishing while others follow ---------------------------------------------------------- */

/* Publishes one event and waits until it is stored; how many milliseconds that took. */
static double publish_one(struct crowd *crowd, int64_t number)
{
    struct epoll_event ready[READY_MAX];
    struct link *link = crowd->links[0];
    double began = seconds();
    crowd->peer->publish(link, 1, number);
    while (link->fd >= 0) {
        if (crowd_wait(crowd, ready, -1) > 0 && crowd->peer->proceed(link)) {
            break;
        }
    }
    return (seconds() - began) * 1e3;
}

void work_follow(const struct peer *peer, const struct task *task, struct result *ret_result)
{
    struct crowd crowd;
    struct reader reader = {.begin = peer->follow};
    struct latencies took = {0};
    long long begun = 0;
    if (peer->prepare) {
        peer->prepare(task);
    }
    crowd_open(&crowd, peer, task, 1);
    reader_start(&reader, peer, task, task->subscriptions);
    for (; begun < WARM_UP; begun++) {
        publish_one(&crowd, 0);
    }
    struct cost before = cost_now(task->server);
    double began = seconds();
    while (seconds() - began < task->seconds) {
        latencies_add(&took, publish_one(&crowd, 0));
        begun++;
    }
    ret_result->seconds = seconds() - began;
    ret_result->events = begun - WARM_UP;
    reader_await(&reader, begun * task->subscriptions);
    cost_add(ret_result, &before, task->server);
    reader_stop(&reader);
    crowd_close(&crowd);
    latencies_end(&took, ret_result);
}

/* ---- Latency --------------------------------------------------------------------------------- */

/* Until a link may go on, or until then. (The timeouts of epoll are in milliseconds.) */
static void wait_until(struct crowd *crowd, int64_t until_ns)
{
    struct pollfd poll = {.fd = crowd->epoll, .events = POLLIN};
    int64_t left_ns = until_ns - now_ns();
    left_ns = left_ns > 0 ? left_ns : 0;
    struct timespec left = {.tv_sec = left_ns / 1000000000, .tv_nsec = left_ns % 1000000000};
    ppoll(&poll, 1, &left, NULL);
}

/* Publishes events as they are due, each by a link that is free. */
static void publish_due(struct crowd *crowd, long long events, double rate)
{
    struct epoll_event ready[READY_MAX];
    struct link *idle[LINKS_MAX];
    int idle_count = crowd->count;
    long long begun = 0;
    int64_t start_ns = now_ns() + 1000000;
    memcpy(idle, crowd->links, sizeof(struct link *) * (size_t)crowd->count);
    while (begun < events || idle_count < crowd->count) {
        int64_t due_ns = start_ns + (int64_t)((double)begun * 1e9 / rate);
        bool is_due = begun < events && due_ns <= now_ns();
        if (is_due && idle_count > 0) {
            crowd->peer->publish(idle[--idle_count], 1, due_ns);
            begun++;
        }
        if (idle_count == crowd->count && begun < events) {
            sleep_until_ns(due_ns);
            continue;
        }
        if (begun < events && idle_count > 0) {
            wait_until(crowd, due_ns);
        } else {
            wait_until(crowd, now_ns() + 10000000);
        }
        int count = crowd_wait(crowd, ready, 0);
        for (int i = 0; i < count; i++) {
            if (crowd->peer->proceed(ready[i].data.ptr)) {
                idle[idle_count++] = ready[i].data.ptr;
            }
        }
    }
}

void work_due(const struct peer *peer, const struct task *task, struct result *ret_result)
{
    struct crowd crowd;
    crowd_open(&crowd, peer, task, task->links);
    double began = seconds();
    ret_result->events = (long long)(task->rate * task->seconds);
    publish_due(&crowd, ret_result->events, task->rate);
    ret_result->seconds = seconds() - began;
    crowd_close(&crowd);
}

void work_latency(const struct peer *peer, const struct task *task, struct result *ret_result)
{
    struct crowd crowd;
    struct reader reader = {.begin = peer->consume};
    struct task waiting = *task;
    long long events = (long long)(task->rate * task->seconds);
    waiting.waits = true;
    if (peer->prepare) {
        peer->prepare(task);
    }
    crowd_open(&crowd, peer, task, task->links);
    reader_start(&reader, peer, &waiting, 1);
    for (int i = 0; i < WARM_UP; i++) {
        publish_one(&crowd, 0);
    }
    reader_await(&reader, WARM_UP);
    struct cost before = cost_now(task->server);
    double began = seconds();
    publish_due(&crowd, events, task->rate);
    ret_result->seconds = seconds() - began;
    reader_await(&reader, events + WARM_UP);
    cost_add(ret_result, &before, task->server);
    ret_result->events = events;
    reader_stop(&reader);
    crowd_close(&crowd);
    latencies_end(&reader.latencies, ret_result);
}
