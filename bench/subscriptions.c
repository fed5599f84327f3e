/*
 * subscriptions.c - what many subscriptions of one process cost, on both engines.
 *
 *     subscriptions URL COUNT [ordered|shared [one|all [SECONDS [PUBLISHES]]]]
 *
 * Subscribes COUNT times, by default each to a type of event of its own, so that an event is for
 * `one` of them; with `all`, each to all events. From hf_start until all have processed what they
 * are for, and for 8 seconds and 5 ms for each of them more, the threads are counted, handlers'
 * workers included: the most of them. Then nothing happens for SECONDS (5): the CPU time of the
 * process in it, as a percentage of one core, and its threads and its memory at the end. Then
 * events are published one by one, PUBLISHES (300) of them, with a pause of 5 ms after each: how
 * long hf_publish takes, and how long after its begin the handler runs, the first of them if there
 * are several. At last the bus is closed: how long that takes. Prints one JSON object. The database
 * is empty and private.
 */
#include <dirent.h>
#include <holdfast.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define BENCH "subscriptions"
#include "common.h"

#define PUBLISHES_MAX 100000
#define AWAIT_SECONDS 600

static atomic_llong handled;
static _Atomic double handled_at;

static hf_verdict handle(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)event;
    (void)delivery;
    (void)ctx;
    double none = 0;
    atomic_compare_exchange_strong(&handled_at, &none, seconds());
    atomic_fetch_add(&handled, 1);
    return HF_ACK;
}

static void rest(double for_seconds)
{
    struct timespec time = {.tv_sec = (time_t)for_seconds};
    time.tv_nsec = (long)((for_seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

/* Until handlers have run so often. */
static void await(long long count)
{
    double begun = seconds();
    while (atomic_load(&handled) < count) {
        if (seconds() - begun > AWAIT_SECONDS) {
            fprintf(stderr, BENCH ": %lld of %lld events were handled\n",
                    (long long)atomic_load(&handled), count);
            exit(1);
        }
        rest(0.0002);
    }
}

static int threads_now(void)
{
    int count = -2; /* . and .. */
    DIR *tasks = opendir("/proc/self/task");
    while (tasks && readdir(tasks)) {
        count++;
    }
    closedir(tasks);
    return count;
}

/* The most threads that there are until handlers have run so often, and so much longer. */
static int count_threads(long long count, double longer)
{
    int most = 0;
    double done = 0;
    while (done == 0 || seconds() - done < longer) {
        int threads = threads_now();
        most = threads > most ? threads : most;
        done = done == 0 && atomic_load(&handled) >= count ? seconds() : done;
        rest(0.002);
    }
    return most;
}

static double cpu_seconds(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

static void publish(hf_bus *bus, const char *type)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    event.type = type;
    event.payload = "{\"n\":1}";
    event.payload_bytes = strlen(event.payload);
    check(hf_publish(bus, &event, NULL), "publish");
}

static void subscribe(hf_bus *bus, long long count, hf_mode mode, bool all)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.mode = mode;
    options.from.kind = HF_PLACE_START;
    for (long long i = 0; i < count; i++) {
        char name[32];
        char type[32];
        snprintf(name, sizeof name, "s%lld", i);
        snprintf(type, sizeof type, "t%lld", i);
        check(hf_subscribe(bus, name, all ? "*" : type, handle, NULL, &options, NULL), "subscribe");
    }
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fputs("usage: subscriptions URL COUNT [ordered|shared [one|all [SECONDS [N]]]]\n", stderr);
        return 2;
    }
    long long count = number(argc, argv, 2, 1, 100000);
    hf_mode mode = argc > 3 && strcmp(argv[3], "shared") == 0 ? HF_MODE_SHARED : HF_MODE_ORDERED;
    bool all = argc > 4 && strcmp(argv[4], "all") == 0;
    long long idle = number(argc, argv, 5, 5, 600);
    long long publishes = number(argc, argv, 6, 300, PUBLISHES_MAX);
    double *took = calloc((size_t)publishes, sizeof *took);
    double *late = calloc((size_t)publishes, sizeof *late);
    hf_bus *bus;
    check(hf_open(argv[1], NULL, &bus), "open");
    double begun = seconds();
    subscribe(bus, count, mode, all);
    double subscribed = seconds() - begun;
    begun = seconds();
    check(hf_start(bus), "start");
    publish(bus, "t0");
    int starting = count_threads(all ? count : 1, 0);
    double started = seconds() - begun;
    /* Checkpoints over events that are for others are stored after 5 s, and of many subscriptions
     * 5 ms apart. */
    int after = count_threads(0, 8 + 0.005 * (double)count);
    starting = after > starting ? after : starting;
    double cpu = cpu_seconds();
    begun = seconds();
    rest((double)idle);
    double percent = 100 * (cpu_seconds() - cpu) / (seconds() - begun);
    int threads = threads_now();
    double mib = resident_mib();
    cpu = cpu_seconds();
    for (long long i = 0; i < publishes; i++) {
        atomic_store(&handled_at, 0);
        begun = seconds();
        publish(bus, "t0");
        took[i] = seconds() - begun;
        await((i + 2) * (all ? count : 1));
        late[i] = atomic_load(&handled_at) - begun;
        rest(0.005);
    }
    cpu = cpu_seconds() - cpu;
    qsort(took, (size_t)publishes, sizeof *took, compare);
    qsort(late, (size_t)publishes, sizeof *late, compare);
    begun = seconds();
    check(hf_close(&bus), "close");
    double closed = seconds() - begun;
    printf("{\"subscriptions\":%lld,\"subscribe_seconds\":%.3f,\"start_seconds\":%.3f,"
           "\"threads_starting\":%d,\"threads\":%d,\"resident_mib\":%.1f,\"idle_percent\":%.3f,"
           "\"p50_us\":%.0f,\"p99_us\":%.0f,\"handler_p50_us\":%.0f,\"handler_p99_us\":%.0f,"
           "\"cpu_us_per_event\":%.0f,\"close_seconds\":%.3f}\n",
           count, subscribed, started, starting, threads, mib, percent, 1e6 * took[publishes / 2],
           1e6 * took[publishes * 99 / 100], 1e6 * late[publishes / 2],
           1e6 * late[publishes * 99 / 100], 1e6 * cpu / (double)publishes, closed);
    free(took);
    free(late);
    return 0;
}
