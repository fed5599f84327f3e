/*
 * types.c - a benchmark of the index on types: what finding a rare type costs with and without it,
 * by reading and by subscriptions that have all of the log before them, what counting their pending
 * events costs, how long the index takes to be built, and what publishing pays for it.
 *
 *     types DB [N]    N events (1 000 000) of 100 types, and one of another in the middle
 *
 * Prints one JSON object. find_..._ms: reading the log for the rare event, from its beginning.
 * claim_..._ms: claims of a shared subscription until it is handed out. pending_..._ms: the median
 * of 25 hf_subscription_get of one that wants everything, or the rare type; pending_rare_...: what
 * that answers, -1: not all of the log was looked at.
 * DB is a file that does not exist yet, or the URL of an empty database.
 */
#include <holdfast.h>
#include <inttypes.h>
#include <string.h>

#define BENCH "types"
#include "common.h"

#define BATCH 10000
#define TYPES 100
#define ASKS 25

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

static void subscribe(hf_bus *bus, const char *name, const char *pattern)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;

    options.mode = HF_MODE_SHARED;
    options.from = (hf_place){HF_PLACE_START, 0};
    check(hf_subscription_create(bus, name, &pattern, 1, &options, NULL), "hf_subscription_create");
}

/* How many ms it takes until the rare event is claimed. */
static double claim(hf_bus *bus, const char *name)
{
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    double began = seconds();

    for (size_t count = 0; count == 0;) {
        hf_batch *batch = NULL;
        check(hf_claim(bus, name, &options, &batch), "hf_claim");
        count = hf_batch_count(batch);
        hf_batch_free(batch);
    }
    return (seconds() - began) * 1000;
}

static int note_pending(const hf_subscription_info *info, void *ctx)
{
    *(int64_t *)ctx = info->pending_more ? -1 : info->pending;
    return 0;
}

/* How many ms it takes to ask for a subscription, and what is pending. */
static double ask(hf_bus *bus, const char *name, int64_t *ret_pending)
{
    double took[ASKS];

    for (int i = 0; i < ASKS; i++) {
        took[i] = seconds();
        check(hf_subscription_get(bus, name, note_pending, ret_pending), "hf_subscription_get");
        took[i] = (seconds() - took[i]) * 1000;
    }
    qsort(took, ASKS, sizeof took[0], compare);
    return took[ASKS / 2];
}

int main(int argc, char **argv)
{
    hf_namespace_options options = HF_NAMESPACE_OPTIONS_INIT;
    int64_t count = argc > 2 ? strtoll(argv[2], NULL, 10) : 1000000;
    hf_bus *bus = NULL;
    double off, on, find_off, find_on, build_s, claim_off, claim_on, all_ms, off_ms, on_ms;
    int64_t all, pending_off, pending_on;

    if (argc < 2) {
        fprintf(stderr, "usage: types DB [N]\n");
        return 2;
    }
    check(hf_open(argv[1], NULL, &bus), "hf_open");
    subscribe(bus, "all", "*");
    subscribe(bus, "off", "rare.*");
    subscribe(bus, "on", "rare.*");
    off = publish(bus, 0, count, count / 2);
    find_off = find(bus);
    all_ms = ask(bus, "all", &all);
    off_ms = ask(bus, "off", &pending_off);
    claim_off = claim(bus, "off");
    options.type_index = HF_ON;
    build_s = seconds();
    check(hf_namespace_set(bus, "default", &options), "hf_namespace_set");
    build_s = seconds() - build_s;
    find(bus);
    find_on = find(bus);
    on_ms = ask(bus, "on", &pending_on);
    claim_on = claim(bus, "on");
    on = publish(bus, count, count / 10, -1);
    printf("{\"events\":%" PRId64 ",\"publish_off_per_s\":%.0f,\"publish_on_per_s\":%.0f,"
           "\"build_s\":%.1f,\"find_off_ms\":%.1f,\"find_on_ms\":%.2f,"
           "\"claim_off_ms\":%.1f,\"claim_on_ms\":%.1f,\"pending_all_ms\":%.2f,"
           "\"pending_rare_off_ms\":%.2f,\"pending_rare_off\":%" PRId64
           ",\"pending_rare_on_ms\":%.2f,\"pending_rare_on\":%" PRId64 "}\n",
           count, off, on, build_s, find_off, find_on, claim_off, claim_on, all_ms, off_ms,
           pending_off, on_ms, pending_on);
    check(hf_close(&bus), "hf_close");
    return 0;
}
