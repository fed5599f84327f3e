/*
 * later.c - benchmarks of what is kept for later: how late schedules fire, and delayed events come.
 *
 *     later fire DB [N] [S]    N schedules (1 000), each once a minute, spread over its seconds
 *     later burst DB [N]       N schedules that are all due in the same second
 *     later delay DB [N]       N delayed events (1 000), one every 5 ms
 *
 * Late is the time from the planned moment until a handler has the event. Each prints one JSON
 * object: p50, p99 and max of it in ms, and how many there were. DB is a file that does not exist
 * yet, or the URL of an empty database.
 */
#include <holdfast.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define BENCH "later"
#include "common.h"

#define LATE_MAX 100000
#define DELAY_STEP_US 5000
#define SECOND_US INT64_C(1000000)
#define DEADLINE_S 120

static double late_ms[LATE_MAX];
static atomic_int late_count;

static int64_t wall_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * SECOND_US + now.tv_nsec / 1000;
}

/* The planned moment is that of a schedule, or stands in the payload. */
static hf_verdict note(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    int64_t planned_us =
        event->schedule_id ? event->emitted_at_us : strtoll(event->payload, NULL, 10);
    int at = atomic_fetch_add(&late_count, 1);
    (void)delivery;
    (void)ctx;
    if (at < LATE_MAX) {
        late_ms[at] = (double)(wall_us() - planned_us) / 1000;
    }
    return HF_ACK;
}

static hf_bus *open_bus(const char *path)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    hf_bus *bus = NULL;
    options.from.kind = HF_PLACE_START;
    check(hf_open(path, NULL, &bus), "hf_open");
    check(hf_subscribe(bus, "bench", "*", note, NULL, &options, NULL), "hf_subscribe");
    return bus;
}

static void put(hf_bus *bus, int number, const char *expression)
{
    hf_schedule schedule = HF_SCHEDULE_INIT;
    char name[32];
    snprintf(name, sizeof name, "schedule %d", number);
    schedule.name = name;
    schedule.expression = expression;
    schedule.type = "bench";
    check(hf_schedule_put(bus, &schedule, NULL), "hf_schedule_put");
}

/* Waits until so many have come, at most DEADLINE_S. */
static void wait_for(int count)
{
    double until = seconds() + DEADLINE_S;
    while (atomic_load(&late_count) < count && seconds() < until) {
        usleep(10000);
    }
}

static void report(const char *what)
{
    int count = atomic_load(&late_count);
    if (count > LATE_MAX) {
        count = LATE_MAX;
    }
    if (count == 0) {
        fprintf(stderr, BENCH ": nothing came\n");
        exit(1);
    }
    qsort(late_ms, (size_t)count, sizeof late_ms[0], compare);
    printf("{\"bench\":\"%s\",\"count\":%d,\"p50_ms\":%.2f,\"p99_ms\":%.2f,\"max_ms\":%.2f}\n",
           what, count, late_ms[count / 2], late_ms[(count * 99) / 100], late_ms[count - 1]);
}

static void fire(const char *path, int count, int for_s)
{
    hf_bus *bus = open_bus(path);
    for (int i = 0; i < count; i++) {
        char expression[32];
        snprintf(expression, sizeof expression, "%d * * * * *", i % 60);
        put(bus, i, expression);
    }
    check(hf_start(bus), "hf_start");
    usleep(1000000); /* times that passed while the schedules were put are not measured */
    atomic_store(&late_count, 0);
    sleep((unsigned)for_s);
    report("fire");
    check(hf_close(&bus), "hf_close");
}

static void burst(const char *path, int count)
{
    hf_bus *bus = open_bus(path);
    char expression[32];
    int64_t room_s = 5 + count / 100;
    snprintf(expression, sizeof expression, "%d %d * * * *",
             (int)((wall_us() / SECOND_US + room_s) % 60),
             (int)((wall_us() / SECOND_US + room_s) / 60 % 60));
    for (int i = 0; i < count; i++) {
        put(bus, i, expression);
    }
    check(hf_start(bus), "hf_start");
    wait_for(count);
    report("burst");
    check(hf_close(&bus), "hf_close");
}

static void delay(const char *path, int count)
{
    hf_bus *bus = open_bus(path);
    check(hf_start(bus), "hf_start");
    int64_t begin_us = wall_us() + (5 + count / 100) * SECOND_US;
    for (int i = 0; i < count; i++) {
        hf_new_event event = HF_NEW_EVENT_INIT;
        char payload[32];
        event.type = "bench";
        event.deliver_at_us = begin_us + (int64_t)i * DELAY_STEP_US;
        snprintf(payload, sizeof payload, "%" PRId64, event.deliver_at_us);
        event.payload = payload;
        check(hf_publish(bus, &event, NULL), "hf_publish");
    }
    wait_for(count);
    report("delay");
    check(hf_close(&bus), "hf_close");
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    int count = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 1000;
    if (strcmp(what, "fire") == 0) {
        fire(argv[2], count, argc > 4 ? (int)strtol(argv[4], NULL, 10) : 20);
    } else if (strcmp(what, "burst") == 0) {
        burst(argv[2], count);
    } else if (strcmp(what, "delay") == 0) {
        delay(argv[2], count);
    } else {
        fprintf(stderr, "usage: later fire|burst|delay DB [N] [SECONDS]\n");
        return 2;
    }
    return 0;
}
