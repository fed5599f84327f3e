/*
 * consume.c - the command `bench consume`: how fast a backlog is worked off.
 *
 * A backlog is published, then a subscription with a handler that does nothing starts at the
 * beginning. The rate counts from the start of delivery until everything is settled. The latencies
 * are the times between two deliveries, so `max` is the longest pause.
 */
#include "base/banned.h"
#include "base/mem.h"
#include "cli/bench/bench.h"
#include "cli/core/args_value.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/stop.h"

#include <stdatomic.h>

#define FILL_BATCH 1000
#define WAIT_STEP_MS 200

struct consume_bench {
    struct bench bench;
    int64_t events;
    int64_t size;
    atomic_int_fast64_t delivered;
    _Atomic int64_t last_ns; /* of the delivery before */
    pthread_mutex_t lock;    /* of the histogram */
    struct histogram gaps;
};

static int fill(struct consume_bench *consume, hf_bus *bus)
{
    static hf_new_event events[FILL_BATCH];
    static const hf_new_event blank = HF_NEW_EVENT_INIT;
    char *payloads = mem_alloc((size_t)(FILL_BATCH * consume->size));
    struct progress progress;
    int code = 0;

    if (!payloads) {
        out_complain("out of memory");
        return EXIT_ERROR;
    }
    progress_begin(&progress, "events published");
    for (int64_t done = 0; done < consume->events && !code && !stop_requested();) {
        int64_t left = consume->events - done;
        int64_t count = left < FILL_BATCH ? left : FILL_BATCH;
        char keys[FILL_BATCH][16];
        for (int64_t i = 0; i < count; i++) {
            char *payload = payloads + i * consume->size;
            bench_payload(payload, (size_t)consume->size, done + i);
            snprintf(keys[i], sizeof keys[i], "key-%d", (int)((done + i) % 1000));
            events[i] = blank;
            events[i].type = "bench.event";
            events[i].key = keys[i];
            events[i].payload = payload;
            events[i].payload_bytes = (size_t)consume->size;
        }
        code = cli_fail(hf_publish_many(bus, events, (size_t)count, NULL));
        done += count;
        progress_update(&progress, done, done, consume->events);
    }
    progress_end(&progress);
    mem_free(payloads);
    return code;
}

static hf_verdict count_event(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    struct consume_bench *consume = ctx;
    int64_t now_ns = bench_now_ns();
    int64_t before_ns = atomic_exchange(&consume->last_ns, now_ns);

    (void)event;
    (void)delivery;
    pthread_mutex_lock(&consume->lock);
    histogram_add(&consume->gaps, now_ns - before_ns);
    pthread_mutex_unlock(&consume->lock);
    atomic_fetch_add(&consume->delivered, 1);
    return HF_ACK;
}

/* Starts delivery and waits until all is settled. */
static int drain(struct consume_bench *consume, hf_bus *bus, double *ret_rate)
{
    int64_t before_ns = bench_now_ns();
    hf_status status;

    atomic_store(&consume->last_ns, before_ns);
    status = hf_start(bus);
    while (!status && atomic_load(&consume->delivered) < consume->events) {
        status = hf_wait(bus, "bench", -1, WAIT_STEP_MS);
        if (stop_requested()) {
            return EXIT_ERROR;
        }
        status = status == HF_TIMEOUT ? HF_OK : status;
    }
    if (!status) {
        status = hf_wait(bus, "bench", -1, -1);
    }
    *ret_rate = (double)consume->events * 1e9 / (double)(bench_now_ns() - before_ns);
    return cli_fail(status);
}

static int measure(struct consume_bench *consume, const hf_subscription_options *options,
                   double *ret_rate)
{
    hf_bus *bus = NULL;
    int code = bench_open(&consume->bench, &bus);

    if (code) {
        return code;
    }
    code = fill(consume, bus);
    if (!code) {
        code = cli_fail(hf_subscribe(bus, "bench", "*", count_event, consume, options, NULL));
    }
    if (!code) {
        code = drain(consume, bus, ret_rate);
    }
    if (stop_requested()) {
        out_complain("interrupted");
        code = EXIT_ERROR;
    }
    bench_close(&consume->bench, &bus);
    return code;
}

static int run_bench_consume(struct cli *cli)
{
    static struct consume_bench consume = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const struct args *args = &cli->args;
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    struct bench_report report = BENCH_REPORT_INIT;
    int code;

    consume.events = args_number(args, "events", 100000);
    consume.size = args_number(args, "size", 100);
    options.from = (hf_place){HF_PLACE_START, -1};
    options.mode = (hf_mode)args_number(args, "mode", HF_MODE_ORDERED);
    options.batch = (int32_t)args_number(args, "batch", 100);
    options.concurrency = (int32_t)args_number(args, "concurrency", 1);
    options.inflight_max = options.batch * 10 < 100000 ? options.batch * 10 : 100000;
    stop_catch();
    code = bench_begin(&consume.bench, cli);
    if (code) {
        return code;
    }
    code = measure(&consume, &options, &report.rate);
    if (!code) {
        report.name = "consume";
        report.events = consume.events;
        report.threads = options.concurrency;
        report.batch = options.batch;
        report.size = consume.size;
        report.mode = options.mode == HF_MODE_SHARED ? "shared" : "ordered";
        report.latency_is = "between two deliveries";
        report.latency = &consume.gaps;
        bench_print(&consume.bench, &report);
    }
    bench_end(&consume.bench);
    return code;
}

static const struct option_row options_rows[] = {
    {"mode", 0, OPTION_CHOICE, "MODE", "ordered|shared", 0, 0, "of the subscription (ordered)"},
    {"batch", 0, OPTION_NUMBER, "N", NULL, 1, 10000, "events read or claimed at once (100)"},
    {"concurrency", 0, OPTION_NUMBER, "N", NULL, 1, 256, "handlers at once (1)"},
    {"events", 0, OPTION_NUMBER, "N", NULL, 1, 100000000, "events of the backlog (100000)"},
    BENCH_SIZE_ROW,
    BENCH_ROWS,
    OPTION_END,
};

const struct command command_bench_consume = {
    .name = "bench consume",
    .usage = "",
    .summary = "measures how fast a backlog is worked off",
    .examples = "  holdfast bench consume\n"
                "  holdfast bench consume --mode shared --concurrency 4 --batch 500\n",
    .options = options_rows,
    .places_itself = true,
    .run = run_bench_consume,
};
