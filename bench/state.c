/*
 * state.c - benchmarks of a bus that has much on its mind: dead letters, a crash with many
 * deliveries in flight, a long backlog, and nothing at all.
 *
 *     state dead DB [N]       first page of the dead letters when there are N (100 000)
 *     state groups DB [N [K]] groups of N dead letters (1 000 000) with K errors (100), and the
 *                             same with a condition for which all letters are read
 *     state recover DB [N]    a process dies with N deliveries in flight (100 000): how long until
 *                             the next one handles the first of them
 *     state memory DB [N]     resident memory while a backlog of N events (5 000 000) is drained
 *     state stats DB [N]      the numbers of a namespace with N events (10 000 000), as the command
 *                             `stats` asks for them
 *     state idle DB [S]       CPU time and writes while a started bus has nothing to do, S seconds
 *
 * Each prints one JSON object. DB is a file that does not exist yet; of `stats` and `groups` also
 * the URL of an empty database.
 */
#include <fcntl.h>
#include <holdfast.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BENCH "state"
#include "common.h"

#define SUBSCRIPTION "bench"
#define CLAIM_MAX 10000
#define PAGES 21
#define ASKS 201
#define ORDERED 8       /* subscriptions beside the shared one, whose events all wait */
#define DEAD 2000       /* of the shared one: dead letters, */
#define RETRYING 1000   /* to be tried again in an hour, */
#define IN_FLIGHT 10000 /* and claimed, a hundred at a time */

static atomic_llong handled;
static _Atomic double first_at;

static hf_bus *open_bus(const char *path)
{
    hf_bus *bus = NULL;
    check(hf_open(path, NULL, &bus), "hf_open");
    return bus;
}

static void publish(hf_bus *bus, long long count)
{
    enum { STEP = 1000 };
    hf_new_event events[STEP];
    for (int i = 0; i < STEP; i++) {
        hf_new_event event = HF_NEW_EVENT_INIT;
        event.type = "bench.event";
        event.payload = "{\"n\":1,\"name\":\"somebody\",\"mail\":\"somebody@example.invalid\"}";
        events[i] = event;
    }
    for (long long done = 0; done < count; done += STEP) {
        check(hf_publish_many(bus, events, STEP, NULL), "hf_publish_many");
    }
}

static hf_subscription_options shared_options(void)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.from.kind = HF_PLACE_START;
    options.mode = HF_MODE_SHARED;
    return options;
}

static void create_shared(hf_bus *bus)
{
    const char *pattern = "*";
    hf_subscription_options options = shared_options();
    check(hf_subscription_create(bus, SUBSCRIPTION, &pattern, 1, &options, NULL), "create");
}

/* Claims `count` events, `max` at a time; buries them, or keeps them in flight. */
static void claim(hf_bus *bus, long long count, int32_t max, int bury)
{
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    options.max = max;
    for (long long left = count; left > 0;) {
        hf_batch *batch;
        check(hf_claim(bus, SUBSCRIPTION, &options, &batch), "hf_claim");
        if (bury) {
            check(hf_bury(bus, SUBSCRIPTION, hf_batch_lease(batch), NULL, 0, "as told"), "hf_bury");
        }
        left -= (long long)hf_batch_count(batch);
        hf_batch_free(batch);
    }
}

static hf_verdict handle(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)event;
    (void)delivery;
    (void)ctx;
    if (atomic_fetch_add(&handled, 1) == 0) {
        atomic_store(&first_at, seconds());
    }
    return HF_ACK;
}

static int count_letter(const hf_dead_letter *letter, void *ctx)
{
    (void)letter;
    ++*(int *)ctx;
    return 0;
}

static void bench_dead(const char *path, long long count)
{
    hf_bus *bus = open_bus(path);
    publish(bus, count);
    create_shared(bus);
    claim(bus, count, CLAIM_MAX, 1);
    double took[PAGES];
    int letters = 0;
    for (int i = 0; i < PAGES; i++) {
        letters = 0;
        double began = seconds();
        check(hf_dead_list(bus, NULL, count_letter, &letters), "hf_dead_list");
        took[i] = (seconds() - began) * 1e3;
    }
    qsort(took, PAGES, sizeof took[0], compare);
    printf("{\"bench\":\"dead\",\"dead\":%lld,\"page\":%d,\"median_ms\":%.3f,\"max_ms\":%.3f}\n",
           count, letters, took[PAGES / 2], took[PAGES - 1]);
    check(hf_close(&bus), "hf_close");
}

/* Claims and buries `count` events, a thousand with one of `kinds` errors and then a thousand with
 * the next; with more kinds than that each event has its own. */
static void bury_by_error(hf_bus *bus, long long count, long long kinds)
{
    enum { STEP = 1000 };
    long long step = kinds > count / STEP ? 1 : STEP;
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    options.max = CLAIM_MAX;
    for (long long done = 0; done < count;) {
        hf_batch *batch;
        check(hf_claim(bus, SUBSCRIPTION, &options, &batch), "hf_claim");
        long long claimed = (long long)hf_batch_count(batch);
        for (long long at = 0; at < claimed; at += step) {
            char error[64];
            int64_t positions[STEP];
            size_t some = (size_t)(claimed - at < step ? claimed - at : step);
            for (size_t i = 0; i < some; i++) {
                positions[i] = hf_batch_event(batch, (size_t)at + i)->position;
            }
            snprintf(error, sizeof error, "mail server %lld refused the connection",
                     (done + at) / step % kinds);
            check(hf_bury(bus, SUBSCRIPTION, hf_batch_lease(batch), positions, some, error),
                  "hf_bury");
        }
        done += claimed;
        hf_batch_free(batch);
    }
}

static int see_group(const hf_dead_group *group, void *ctx)
{
    (void)group;
    ++*(int *)ctx;
    return 0;
}

/* The median of `asks` answers, in milliseconds. */
static double time_groups(hf_bus *bus, hf_dead_by by, const hf_dead_filter *filter, int asks,
                          hf_dead_totals *totals)
{
    double took[PAGES];
    for (int i = 0; i < asks; i++) {
        int groups = 0;
        double began = seconds();
        check(hf_dead_groups(bus, by, filter, see_group, &groups, totals), "hf_dead_groups");
        took[i] = (seconds() - began) * 1e3;
    }
    qsort(took, (size_t)asks, sizeof took[0], compare);
    return took[asks / 2];
}

static void bench_groups(const char *path, long long count, long long kinds)
{
    hf_bus *bus = open_bus(path);
    hf_dead_totals totals = {.size = sizeof totals};
    hf_dead_filter one = HF_DEAD_FILTER_INIT;
    hf_dead_filter late = HF_DEAD_FILTER_INIT;
    publish(bus, count);
    create_shared(bus);
    double began = seconds();
    bury_by_error(bus, count, kinds);
    double buried = seconds() - began;
    one.subscription = SUBSCRIPTION;
    late.failed_after_us = 0;
    double by_error = time_groups(bus, HF_DEAD_BY_ERROR, NULL, PAGES, &totals);
    double by_type = time_groups(bus, HF_DEAD_BY_TYPE, &one, PAGES, &totals);
    double read = time_groups(bus, HF_DEAD_BY_ERROR, &late, 3, &totals);
    printf("{\"bench\":\"groups\",\"dead\":%lld,\"errors\":%lld,\"groups\":%lld,"
           "\"by_error_ms\":%.3f,\"by_type_of_one_ms\":%.3f,\"read_all_ms\":%.3f,"
           "\"buried_per_second\":%.0f}\n",
           count, kinds, (long long)totals.groups, by_error, by_type, read, (double)count / buried);
    check(hf_close(&bus), "hf_close");
}

static void bench_recover(const char *path, long long count)
{
    pid_t child = fork();
    if (child == 0) {
        hf_bus *bus = open_bus(path);
        publish(bus, count + 1000);
        create_shared(bus);
        claim(bus, count, CLAIM_MAX, 0);
        raise(SIGKILL);
    }
    int status;
    waitpid(child, &status, 0);
    if (!WIFSIGNALED(status)) {
        fprintf(stderr, "state: the child did not die as planned\n");
        exit(1);
    }
    double began = seconds();
    hf_bus *bus = open_bus(path);
    hf_subscription_options options = shared_options();
    check(hf_subscribe(bus, SUBSCRIPTION, "*", handle, NULL, &options, NULL), "hf_subscribe");
    check(hf_start(bus), "hf_start");
    check(hf_wait(bus, SUBSCRIPTION, -1, 120000), "hf_wait");
    printf("{\"bench\":\"recover\",\"in_flight\":%lld,\"first_ms\":%.1f,\"all_ms\":%.1f,"
           "\"handled\":%lld}\n",
           count, (atomic_load(&first_at) - began) * 1e3, (seconds() - began) * 1e3,
           (long long)atomic_load(&handled));
    check(hf_close(&bus), "hf_close");
}

/* Claims `count` events, which fail and are to be tried again much later. */
static void fail_some(hf_bus *bus, int32_t count)
{
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    hf_batch *batch;
    options.max = count;
    check(hf_claim(bus, SUBSCRIPTION, &options, &batch), "hf_claim");
    check(hf_nack(bus, SUBSCRIPTION, hf_batch_lease(batch), NULL, 0, 3600000, "not yet"),
          "hf_nack");
    hf_batch_free(batch);
}

static int count_subscription(const hf_subscription_info *info, void *ctx)
{
    (void)info;
    ++*(int *)ctx;
    return 0;
}

static void bench_stats(const char *path, long long count)
{
    const char *pattern = "*";
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    hf_bus *bus = open_bus(path);
    publish(bus, count);
    options.from.kind = HF_PLACE_START;
    for (int i = 0; i < ORDERED; i++) {
        char name[32];
        snprintf(name, sizeof name, "ordered %d", i);
        check(hf_subscription_create(bus, name, &pattern, 1, &options, NULL), "create");
    }
    create_shared(bus);
    claim(bus, DEAD, DEAD, 1);
    fail_some(bus, RETRYING);
    claim(bus, IN_FLIGHT, 100, 0);
    double numbers[ASKS];
    double all[ASKS];
    hf_stats stats = {.size = sizeof stats};
    for (int i = 0; i < ASKS; i++) {
        int subscriptions = 0;
        double began = seconds();
        check(hf_stats_get(bus, &stats), "hf_stats_get");
        numbers[i] = (seconds() - began) * 1e3;
        check(hf_subscription_list(bus, count_subscription, &subscriptions), "list");
        all[i] = (seconds() - began) * 1e3;
    }
    qsort(numbers, ASKS, sizeof numbers[0], compare);
    qsort(all, ASKS, sizeof all[0], compare);
    printf("{\"bench\":\"stats\",\"events\":%lld,\"dead\":%lld,\"retrying\":%lld,"
           "\"in_flight\":%lld,\"median_ms\":%.3f,\"max_ms\":%.3f,\"with_subscriptions_ms\":%.3f,"
           "\"with_subscriptions_max_ms\":%.3f}\n",
           (long long)stats.head, (long long)stats.dead, (long long)stats.retrying,
           (long long)stats.in_flight, numbers[ASKS / 2], numbers[ASKS - 1], all[ASKS / 2],
           all[ASKS - 1]);
    check(hf_close(&bus), "hf_close");
}

/* The publisher is another process, so that only the consumer's memory is looked at. */
static void bench_memory(const char *path, long long count)
{
    pid_t child = fork();
    if (child == 0) {
        hf_bus *bus = open_bus(path);
        publish(bus, count);
        check(hf_close(&bus), "hf_close");
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    hf_bus *bus = open_bus(path);
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.from.kind = HF_PLACE_START;
    check(hf_subscribe(bus, SUBSCRIPTION, "*", handle, NULL, &options, NULL), "hf_subscribe");
    double began = seconds();
    check(hf_start(bus), "hf_start");
    double at[4] = {0};
    double most = 0;
    while (atomic_load(&handled) < count) {
        double now = resident_mib();
        most = now > most ? now : most;
        at[atomic_load(&handled) * 4 / count & 3] = now;
        usleep(5000);
    }
    double took = seconds() - began;
    printf("{\"bench\":\"memory\",\"events\":%lld,\"rate\":%.0f,\"rss_mib\":[%.1f,%.1f,%.1f,%.1f],"
           "\"max_mib\":%.1f}\n",
           count, (double)count / took, at[0], at[1], at[2], at[3], most);
    check(hf_close(&bus), "hf_close");
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* When the database or its log was last written; stat() alone, the files are SQLite's. */
static struct timespec written(const char *path)
{
    char wal[4096];
    struct stat db_stat;
    struct stat wal_stat;
    snprintf(wal, sizeof wal, "%s-wal", path);
    if (stat(path, &db_stat) || stat(wal, &wal_stat)) {
        return (struct timespec){0};
    }
    return db_stat.st_mtim.tv_sec > wal_stat.st_mtim.tv_sec ? db_stat.st_mtim : wal_stat.st_mtim;
}

static void bench_idle(const char *path, long long length)
{
    hf_bus *bus = open_bus(path);
    publish(bus, 1000);
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.from.kind = HF_PLACE_START;
    check(hf_subscribe(bus, "ordered", "*", handle, NULL, &options, NULL), "hf_subscribe");
    options = shared_options();
    check(hf_subscribe(bus, SUBSCRIPTION, "*", handle, NULL, &options, NULL), "hf_subscribe");
    check(hf_start(bus), "hf_start");
    check(hf_wait(bus, NULL, -1, 60000), "hf_wait");
    sleep(2);
    struct timespec before = written(path);
    double cpu = cpu_seconds();
    sleep((unsigned)length);
    cpu = cpu_seconds() - cpu;
    struct timespec after = written(path);
    int same = before.tv_sec == after.tv_sec && before.tv_nsec == after.tv_nsec;
    printf("{\"bench\":\"idle\",\"seconds\":%lld,\"cpu_percent\":%.3f,\"written\":%s}\n", length,
           cpu * 100 / (double)length, same ? "false" : "true");
    check(hf_close(&bus), "hf_close");
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: state dead|groups|recover|memory|stats|idle DB [N]\n");
        return 2;
    }
    const char *name = argv[1];
    const char *path = argv[2];
    long long number = argc > 3 ? strtoll(argv[3], NULL, 10) : 0;
    if (strcmp(name, "dead") == 0) {
        bench_dead(path, number ? number : 100000);
    } else if (strcmp(name, "groups") == 0) {
        bench_groups(path, number ? number : 1000000, argc > 4 ? strtoll(argv[4], NULL, 10) : 100);
    } else if (strcmp(name, "recover") == 0) {
        bench_recover(path, number ? number : 100000);
    } else if (strcmp(name, "memory") == 0) {
        bench_memory(path, number ? number : 5000000);
    } else if (strcmp(name, "stats") == 0) {
        bench_stats(path, number ? number : 10000000);
    } else if (strcmp(name, "idle") == 0) {
        bench_idle(path, number ? number : 5);
    } else {
        fprintf(stderr, "state: no benchmark is called %s\n", name);
        return 2;
    }
    return 0;
}
