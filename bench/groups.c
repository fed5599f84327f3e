/*
 * groups.c - benchmarks of many workers for one subscription, on both engines.
 *
 *     groups claim URL BATCH WORKERS [N]   workers, each with a connection of its own, claim and
 *                                          acknowledge a backlog of N events (200 000)
 *     groups share URL [SECONDS]           4 processes share 16 partitions and run handlers that
 *                                          sleep 1 ms, 4 at once each: their rate against that of
 *                                          as many threads that only sleep
 *     groups join URL                      one more process joins three that work: how long until
 *                                          it has its share of the partitions
 *     groups takeover URL                  one of four processes that work is killed with SIGKILL:
 *                                          how long until the others have its partitions, and until
 *                                          they have handled an event of each key that was its own
 *     groups poison URL [ROUNDS [MS]]      1000 keys, alone and beside one that always fails and is
 *                                          tried every MS (else as subscriptions do by default)
 *
 * Each prints one JSON object. The database is empty and private. Two things that are compared are
 * measured in turns: "ratio" is the median of the rounds' ratios.
 */
#include <holdfast.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BENCH "groups"
#include "common.h"

#define SUBSCRIPTION "group"
#define MANY 1000
#define KEYS 1000
#define WORKERS_MAX 64
#define ROUNDS_MAX 100
#define PROCESSES 4
#define PARTITIONS 16
#define CONCURRENCY 4
#define PAYLOAD                                                                                    \
    "{\"n\":1,\"name\":\"somebody\",\"mail\":\"somebody@example.invalid\",\"pad\":\"xxxx\"}"

/* What processes see of each other. */
struct board {
    atomic_llong handled;
    atomic_int shares[PROCESSES + 1]; /* partitions of each process, by its number */
    atomic_int hands[KEYS];           /* process that handled the last event of a key; 0: none */
};

static struct board *board;

/* ---- Small things ---------------------------------------------------------------------------- */

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof values[0], compare);
    return values[count / 2];
}

/* Publishes a multiple of a thousand; `with_key`: each of the keys in turn. */
static void publish(hf_bus *bus, long long count, bool with_key)
{
    static hf_new_event events[MANY];
    static char keys[KEYS][8];
    for (int i = 0; i < MANY; i++) {
        hf_new_event event = HF_NEW_EVENT_INIT;
        snprintf(keys[i % KEYS], sizeof keys[0], "k%d", i % KEYS);
        event.type = "bench.event";
        event.key = with_key ? keys[i % KEYS] : NULL;
        event.payload = PAYLOAD;
        events[i] = event;
    }
    for (long long done = 0; done < count; done += MANY) {
        check(hf_publish_many(bus, events, MANY, NULL), "hf_publish_many");
    }
}

/* ---- Claiming -------------------------------------------------------------------------------- */

struct claimer {
    const char *url;
    int batch;
    pthread_barrier_t *ready;
    atomic_llong *left;
};

static void *claim_all(void *ctx)
{
    struct claimer *claimer = ctx;
    hf_bus *bus = open_as(claimer->url, "claimer");
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    options.max = claimer->batch;
    pthread_barrier_wait(claimer->ready);
    while (atomic_load(claimer->left) > 0) {
        hf_batch *batch = NULL;
        check(hf_claim(bus, SUBSCRIPTION, &options, &batch), "hf_claim");
        size_t count = hf_batch_count(batch);
        if (count > 0) {
            check(hf_ack(bus, SUBSCRIPTION, hf_batch_lease(batch), NULL, 0), "hf_ack");
            atomic_fetch_sub(claimer->left, (long long)count);
        }
        hf_batch_free(batch);
    }
    check(hf_close(&bus), "hf_close");
    return NULL;
}

static void bench_claim(const char *url, int batch, int workers, long long count)
{
    pthread_t threads[WORKERS_MAX];
    pthread_barrier_t ready;
    atomic_llong left = count;
    struct claimer claimer = {.url = url, .batch = batch, .ready = &ready, .left = &left};
    hf_bus *bus = open_as(url, "bench");
    const char *pattern = "*";
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.from.kind = HF_PLACE_START;
    options.mode = HF_MODE_SHARED;
    check(hf_subscription_create(bus, SUBSCRIPTION, &pattern, 1, &options, NULL), "create");
    publish(bus, count, true);
    check(hf_close(&bus), "hf_close");
    pthread_barrier_init(&ready, NULL, (unsigned)workers + 1);
    for (int i = 0; i < workers; i++) {
        if (pthread_create(&threads[i], NULL, claim_all, &claimer) != 0) {
            exit(1);
        }
    }
    pthread_barrier_wait(&ready);
    double began = seconds();
    for (int i = 0; i < workers; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("{\"bench\":\"claim\",\"batch\":%d,\"workers\":%d,\"events\":%lld,\"rate\":%.0f}\n",
           batch, workers, count, (double)count / (seconds() - began));
}

/* ---- Partitions ------------------------------------------------------------------------------ */

static void sleep_1ms(void)
{
    struct timespec length = {.tv_nsec = 1000000};
    nanosleep(&length, NULL);
}

/* ctx: the number of this process. */
static hf_verdict handle_slowly(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)delivery;
    sleep_1ms();
    atomic_store(&board->hands[strtol(event->key + 1, NULL, 10) % KEYS], *(const int *)ctx);
    atomic_fetch_add(&board->handled, 1);
    return HF_ACK;
}

/* Fails for the key k0, if ctx says so. */
static hf_verdict handle_poison(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)delivery;
    if (*(const bool *)ctx && strcmp(event->key, "k0") == 0) {
        return HF_RETRY;
    }
    atomic_fetch_add(&board->handled, 1);
    return HF_ACK;
}

/* "processing 4 of 16 partitions". ctx: the number of this process. */
static void see_share(const hf_log_record *record, void *ctx)
{
    int ours = 0;
    const char *at = strstr(record->message, "processing ");
    if (at && sscanf(at, "processing %d of", &ours) == 1) {
        atomic_store(&board->shares[*(const int *)ctx], ours);
    }
}

static hf_subscription_options partition_options(void)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.from.kind = HF_PLACE_START;
    options.partitions = PARTITIONS;
    options.concurrency = CONCURRENCY;
    return options;
}

/* A process that works until it is killed, numbered from 1. */
static pid_t start_member(const char *url, int number)
{
    pid_t pid = fork();
    if (pid != 0) {
        return pid;
    }
    hf_bus *bus = NULL;
    hf_options options = HF_OPTIONS_INIT;
    hf_subscription_options partitioned = partition_options();
    options.node_name = "member";
    options.log = see_share;
    options.log_ctx = &number;
    options.log_level = HF_LOG_INFO;
    check(hf_open(url, &options, &bus), "hf_open");
    check(hf_subscribe(bus, SUBSCRIPTION, "*", handle_slowly, &number, &partitioned, NULL),
          "hf_subscribe");
    check(hf_start(bus), "hf_start");
    for (;;) {
        pause();
    }
}

static void end_members(const pid_t *pids, int count)
{
    for (int i = 0; i < count; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
}

/* Publishes a backlog in a child: the members are forked from a process without an open bus. */
static void fill(const char *url, long long count)
{
    pid_t pid = fork();
    if (pid == 0) {
        hf_bus *bus = open_as(url, "bench");
        publish(bus, count, true);
        check(hf_close(&bus), "hf_close");
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) {
        exit(1);
    }
}

static void *only_sleep(void *ctx)
{
    const double *until = ctx;
    while (seconds() < *until) {
        sleep_1ms();
        atomic_fetch_add(&board->handled, 1);
    }
    return NULL;
}

/* As many threads as handlers run at once, that only sleep: what this machine can do now. */
static double ideal_rate(double length)
{
    pthread_t threads[PROCESSES * CONCURRENCY];
    double until = seconds() + length;
    long long before = atomic_load(&board->handled);
    for (int i = 0; i < PROCESSES * CONCURRENCY; i++) {
        if (pthread_create(&threads[i], NULL, only_sleep, &until) != 0) {
            exit(1);
        }
    }
    for (int i = 0; i < PROCESSES * CONCURRENCY; i++) {
        pthread_join(threads[i], NULL);
    }
    return (double)(atomic_load(&board->handled) - before) / length;
}

static void bench_share(const char *url, unsigned length)
{
    pid_t pids[PROCESSES];
    double ideal = ideal_rate(2);
    fill(url, (long long)(length + 4) * PROCESSES * CONCURRENCY * 1000);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = start_member(url, i + 1);
    }
    sleep(2); /* until all have their shares */
    long long before = atomic_load(&board->handled);
    double began = seconds();
    sleep(length);
    double rate = (double)(atomic_load(&board->handled) - before) / (seconds() - began);
    end_members(pids, PROCESSES);
    double later = ideal_rate(2);
    ideal = later > ideal ? later : ideal; /* what the machine can do when others let it */
    printf("{\"bench\":\"share\",\"processes\":%d,\"partitions\":%d,\"concurrency\":%d,"
           "\"rate\":%.0f,\"ideal\":%.0f,\"ratio\":%.3f}\n",
           PROCESSES, PARTITIONS, CONCURRENCY, rate, ideal, rate / ideal);
}

static void bench_join(const char *url)
{
    pid_t pids[PROCESSES];
    fill(url, 100000);
    for (int i = 0; i < PROCESSES - 1; i++) {
        pids[i] = start_member(url, i + 1);
    }
    sleep(2);
    double began = seconds();
    pids[PROCESSES - 1] = start_member(url, PROCESSES);
    while (atomic_load(&board->shares[PROCESSES]) < PARTITIONS / PROCESSES &&
           seconds() < began + 60) {
        usleep(1000);
    }
    double took = seconds() - began;
    end_members(pids, PROCESSES);
    printf("{\"bench\":\"join\",\"seconds\":%.3f}\n", took);
}

/* How many keys are in the hands of that one. */
static int keys_of(int number)
{
    int count = 0;
    for (int i = 0; i < KEYS; i++) {
        count += atomic_load(&board->hands[i]) == number;
    }
    return count;
}

/* The partitions of all processes with a lower number. */
static int shares_before(int number)
{
    int count = 0;
    for (int i = 1; i < number; i++) {
        count += atomic_load(&board->shares[i]);
    }
    return count;
}

static void bench_takeover(const char *url)
{
    pid_t pids[PROCESSES];
    fill(url, 200000);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = start_member(url, i + 1);
    }
    sleep(2); /* until all have their shares */
    for (int i = 1; i < PROCESSES; i++) {
        atomic_store(&board->shares[i], PARTITIONS / PROCESSES); /* giving back is not told */
    }
    double began = seconds();
    end_members(&pids[PROCESSES - 1], 1);
    int keys = keys_of(PROCESSES);
    double owned = 0;
    while ((owned == 0 || keys_of(PROCESSES) > 0) && seconds() < began + 60) {
        if (owned == 0 && shares_before(PROCESSES) >= PARTITIONS) {
            owned = seconds() - began;
        }
        usleep(1000);
    }
    double took = seconds() - began;
    end_members(pids, PROCESSES - 1);
    if (keys == 0) {
        fprintf(stderr, "groups: the process that was killed had done nothing\n");
        exit(1);
    }
    printf("{\"bench\":\"takeover\",\"keys\":%d,\"owned_seconds\":%.3f,\"keys_seconds\":%.3f}\n",
           keys, owned > 0 ? owned : 60, took);
}

/* ---- Poison ---------------------------------------------------------------------------------- */

static void await_handled(long long count)
{
    while (atomic_load(&board->handled) < count) {
        usleep(200);
    }
}

/* Events of healthy keys per second while a backlog of all keys is worked off, from the first. */
static double drain(hf_bus *bus, const char *name, bool poison, long long count, int64_t retry_ms)
{
    static bool fails;
    hf_subscription_options options = partition_options();
    if (retry_ms > 0) {
        options.retry_base_ms = retry_ms;
        options.retry_max_ms = retry_ms;
        options.attempts_max = 100;
    }
    fails = poison;
    atomic_store(&board->handled, 0);
    check(hf_subscribe(bus, name, "*", handle_poison, &fails, &options, NULL), "hf_subscribe");
    long long healthy = count / KEYS * (KEYS - 1);
    check(hf_start(bus), "hf_start");
    await_handled(1);
    double began = seconds();
    await_handled(healthy);
    double rate = (double)healthy / (seconds() - began);
    check(hf_stop(bus, 60000), "hf_stop");
    check(hf_subscription_remove(bus, name), "remove");
    return rate;
}

static void bench_poison(const char *url, int rounds, int64_t retry_ms)
{
    enum { EVENTS = 300000 };
    double with[ROUNDS_MAX];
    double without[ROUNDS_MAX];
    double ratios[ROUNDS_MAX];
    fill(url, EVENTS);
    for (int i = 0; i < rounds; i++) {
        for (int turn = 0; turn < 2; turn++) {
            bool poison = turn != i % 2; /* the second has the warmer or the fuller database */
            hf_bus *bus = open_as(url, "bench");
            double rate = drain(bus, poison ? "with" : "without", poison, EVENTS, retry_ms);
            (poison ? with : without)[i] = rate;
            check(hf_close(&bus), "hf_close");
        }
        ratios[i] = with[i] / without[i];
    }
    printf("{\"bench\":\"poison\",\"keys\":%d,\"with\":%.0f,\"without\":%.0f,\"ratio\":%.3f}\n",
           KEYS, median(with, rounds), median(without, rounds), median(ratios, rounds));
}

/* ---- Which one ------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    const char *name = argc > 2 ? argv[1] : "";
    const char *url = argc > 2 ? argv[2] : "";
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) {
        return 1;
    }
    if (strcmp(name, "claim") == 0 && argc > 4) {
        bench_claim(url, (int)number(argc, argv, 3, 100, 10000),
                    (int)number(argc, argv, 4, 1, WORKERS_MAX),
                    number(argc, argv, 5, 200000, 1000000000));
    } else if (strcmp(name, "share") == 0) {
        bench_share(url, (unsigned)number(argc, argv, 3, 6, 3600));
    } else if (strcmp(name, "join") == 0) {
        bench_join(url);
    } else if (strcmp(name, "takeover") == 0) {
        bench_takeover(url);
    } else if (strcmp(name, "poison") == 0) {
        bench_poison(url, (int)number(argc, argv, 3, 15, ROUNDS_MAX),
                     argc > 4 ? number(argc, argv, 4, 0, 60000) : 0);
    } else {
        fprintf(stderr, "usage: groups claim|share|join|takeover|poison URL ...\n");
        return 2;
    }
    return 0;
}
