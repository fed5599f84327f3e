/*
 * types.c - a benchmark of the index on types: what finding a rare type costs with and without it,
 * how long it takes to be built, and what publishing pays for it.
 *
 *     types DB [N]    N events (1 000 000) of 100 types, and one of another in the middle
 *
 * Prints one JSON object. find_..._ms: reading the log for the rare event, from its beginning.
 * DB is a file that does not exist yet, or the URL of an empty database.
 */
#include <holdfast.h>
#include <inttypes.h>
#include <string.h>

#define BENCH "types"
#include "common.h"

#define BATCH 10000
#define TYPES 100

/* Publishes `count` events after `done` others; the one at `rare` is of the rare type. Answers how
 * many per second. */
static double publish(hf_bus *bus, int64_t done, int64_t count, int64_t rare)
{
    static char names[TYPES][16];
    static hf_new_event events[BATCH];
    static hf_receipt receipts[BATCH];
    double began = seconds();

    for (int i = 0; i < TYPES; i++) {
        snprintf(names[i], sizeof names[i], "common.t%d", i);
    }
    for (int64_t at = 0; at < count; at += BATCH) {
        size_t part = count - at < BATCH ? (size_t)(count - at) : BATCH;
        for (size_t i = 0; i < part; i++) {
            int64_t number = done + at + (int64_t)i;
            events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
            events[i].type = number == rare ? "rare.one" : names[number % TYPES];
            events[i].payload = "{\"total\":12.5}";
        }
        check(hf_publish_many(bus, events, part, receipts), "hf_publish_many");
    }
    return (double)count / (seconds() - began);
}

static int count_one(const hf_event *event, void *ctx)
{
    (void)event;
    ++*(int *)ctx;
    return 1;
}

/* How many ms it takes to find the rare event. */
static double find(hf_bus *bus)
{
    int64_t cursor = 0;
    int found = 0;
    double began = seconds();

    for (int64_t before = -1; !found && cursor != before;) {
        before = cursor;
        check(hf_read(bus, "rare.*", 1, 0, &cursor, count_one, &found), "hf_read");
    }
    if (!found) {
        fprintf(stderr, BENCH ": the rare event was not found\n");
        exit(1);
    }
    return (seconds() - began) * 1000;
}

int main(int argc, char **argv)
{
    hf_namespace_options options = HF_NAMESPACE_OPTIONS_INIT;
    int64_t count = argc > 2 ? strtoll(argv[2], NULL, 10) : 1000000;
    hf_bus *bus = NULL;
    double off, on, find_off, find_on, build_s;

    if (argc < 2) {
        fprintf(stderr, "usage: types DB [N]\n");
        return 2;
    }
    check(hf_open(argv[1], NULL, &bus), "hf_open");
    off = publish(bus, 0, count, count / 2);
    find_off = find(bus);
    options.type_index = HF_ON;
    build_s = seconds();
    check(hf_namespace_set(bus, "default", &options), "hf_namespace_set");
    build_s = seconds() - build_s;
    find(bus);
    find_on = find(bus);
    on = publish(bus, count, count / 10, -1);
    printf("{\"events\":%" PRId64 ",\"publish_off_per_s\":%.0f,\"publish_on_per_s\":%.0f,"
           "\"build_s\":%.1f,\"find_off_ms\":%.1f,\"find_on_ms\":%.2f}\n",
           count, off, on, build_s, find_off, find_on);
    check(hf_close(&bus), "hf_close");
    return 0;
}
