/*
 * e2e.c - the command `bench e2e`: from the moment an event should be published until its
 * handler runs.
 *
 * Open loop: event i is due at start + i / rate, whatever happened to the ones before it, and its
 * latency counts from then. A system that stalls for a second and then catches up shows that second
 * in thousands of latencies instead of one (no coordinated omission). The due time travels in the
 * payload as CLOCK_MONOTONIC, which is one clock for all processes of a machine; so the consumer
 * can be a second process: this same command with --consumer, which prints its report when it has
 * received everything.
 */
#include "base/banned.h"
#include "base/time/deadline.h"
#include "cli/bench/bench.h"
#include "cli/bench/child.h"
#include "cli/core/args_value.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/stop.h"

#include <stdatomic.h>
#include <time.h>

#define WARM_UP_EVENTS 100
#define LATE_MS 30000 /* after the last one was due, the rest has so long to arrive */
#define PAYLOAD_BYTES 100

struct e2e {
    struct bench bench;
    double rate;
    int64_t events; /* that are measured */
    int64_t batch;
    int64_t concurrency;
    pthread_mutex_t lock;
    struct histogram latency;
    atomic_int_fast64_t received; /* warm-up included */
    atomic_int failed;            /* status of the first publish that failed */
};

/* ---- Consuming ------------------------------------------------------------------------------- */

static hf_verdict receive(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    struct e2e *e2e = ctx;
    int64_t due_ns = bench_payload_number(event->payload, event->payload_bytes);
    int64_t now_ns = bench_now_ns();

    (void)delivery;
    if (due_ns > 0) {
        pthread_mutex_lock(&e2e->lock);
        histogram_add(&e2e->latency, now_ns - due_ns);
        pthread_mutex_unlock(&e2e->lock);
    }
    atomic_fetch_add(&e2e->received, 1);
    return HF_ACK;
}

static hf_status start_consumer(struct e2e *e2e, hf_bus *bus)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    hf_status status;

    options.from = (hf_place){HF_PLACE_START, -1};
    options.batch = (int32_t)e2e->batch;
    options.concurrency = (int32_t)e2e->concurrency;
    status = hf_subscribe(bus, "bench", "*", receive, e2e, &options, NULL);
    return status ? status : hf_start(bus);
}

/* Until `count` events have come, `ms` have passed, or Ctrl-C. */
static bool wait_received(struct e2e *e2e, int64_t count, int64_t ms)
{
    struct deadline deadline = deadline_after_ms(ms);

    while (atomic_load(&e2e->received) < count && !deadline_passed(deadline) && !stop_requested()) {
        stop_wait(-1, 5);
    }
    return atomic_load(&e2e->received) >= count;
}

/* ---- Publishing ------------------------------------------------------------------------------ */

static void published(hf_status status, const hf_receipt *receipt, const char *message, void *ctx)
{
    struct e2e *e2e = ctx;
    int none = HF_OK;

    (void)receipt;
    if (status && atomic_compare_exchange_strong(&e2e->failed, &none, (int)status)) {
        out_complain("%s", message);
    }
}

static hf_status publish_async(struct e2e *e2e, hf_bus *bus, int64_t due_ns)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    char payload[PAYLOAD_BYTES];

    bench_payload(payload, sizeof payload, due_ns);
    event.type = "bench.event";
    event.payload = payload;
    event.payload_bytes = sizeof payload;
    return hf_publish_async(bus, &event, published, e2e);
}

static void sleep_until(int64_t due_ns)
{
    struct timespec due = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) != 0 && !stop_requested()) {
        ;
    }
}

static hf_status publish_all(struct e2e *e2e, hf_bus *bus, double *ret_seconds)
{
    int64_t start_ns = bench_now_ns() + 10000000;
    hf_status status = HF_OK;

    for (int64_t i = 0; i < e2e->events && !status && !stop_requested(); i++) {
        int64_t due_ns = start_ns + (int64_t)((double)i * 1e9 / e2e->rate);
        if (bench_now_ns() < due_ns) {
            sleep_until(due_ns);
        }
        status = publish_async(e2e, bus, due_ns);
        if (!status) {
            status = (hf_status)atomic_load(&e2e->failed);
        }
    }
    if (!status) {
        status = hf_flush(bus, -1);
    }
    *ret_seconds = (double)(bench_now_ns() - start_ns) / 1e9;
    return status;
}

static hf_status warm_up(struct e2e *e2e, hf_bus *bus)
{
    hf_status status = HF_OK;

    for (int i = 0; i < WARM_UP_EVENTS && !status; i++) {
        status = publish_async(e2e, bus, 0);
    }
    return status ? status : hf_flush(bus, -1);
}

/* ---- The ways to run ------------------------------------------------------------------------- */

static void print_report(struct e2e *e2e, double seconds, int64_t processes)
{
    struct bench_report report = BENCH_REPORT_INIT;

    report.name = "e2e";
    report.events = (int64_t)e2e->latency.count;
    report.threads = e2e->concurrency;
    report.batch = e2e->batch;
    report.size = PAYLOAD_BYTES;
    report.rate = seconds > 0 ? (double)e2e->latency.count / seconds : 0;
    report.wanted_rate = e2e->rate;
    report.processes = processes;
    report.latency_is = "from due to handled";
    report.latency = &e2e->latency;
    bench_print(&e2e->bench, &report);
}

static int run_one_process(struct e2e *e2e, hf_bus *bus)
{
    double seconds = 0;
    hf_status status = start_consumer(e2e, bus);

    if (!status) {
        status = warm_up(e2e, bus);
    }
    if (!status && !wait_received(e2e, WARM_UP_EVENTS, LATE_MS)) {
        out_complain("the consumer does not receive anything");
        return EXIT_TIMEOUT;
    }
    if (!status) {
        status = publish_all(e2e, bus, &seconds);
    }
    if (status) {
        return cli_fail(status);
    }
    if (!wait_received(e2e, e2e->events + WARM_UP_EVENTS, LATE_MS)) {
        out_complain("%" PRId64 " of %" PRId64 " events arrived",
                     (int64_t)atomic_load(&e2e->received) - WARM_UP_EVENTS, e2e->events);
        return EXIT_TIMEOUT;
    }
    print_report(e2e, seconds, 1);
    return EXIT_OK;
}

/* The second process: says when it is ready, and reports when all has come. */
static int run_consumer(struct e2e *e2e, struct cli *cli)
{
    int64_t first_ns;
    int64_t lasting_ms = (int64_t)((double)e2e->events * 1000 / e2e->rate);
    int code = cli_open(cli, HF_OPEN_EXISTING);

    if (!code) {
        code = cli_fail(start_consumer(e2e, cli->bus));
    }
    if (code) {
        return code;
    }
    snprintf(e2e->bench.url, sizeof e2e->bench.url, "%s", cli->url);
    if (!wait_received(e2e, WARM_UP_EVENTS, LATE_MS)) {
        out_complain("the consumer does not receive anything");
        return EXIT_TIMEOUT;
    }
    puts(BENCH_CHILD_READY);
    fflush(stdout);
    first_ns = bench_now_ns();
    if (!wait_received(e2e, e2e->events + WARM_UP_EVENTS, lasting_ms + LATE_MS)) {
        out_complain("%" PRId64 " of %" PRId64 " events arrived",
                     (int64_t)atomic_load(&e2e->received) - WARM_UP_EVENTS, e2e->events);
        return EXIT_TIMEOUT;
    }
    print_report(e2e, (double)(bench_now_ns() - first_ns) / 1e9, 2);
    return EXIT_OK;
}

static int run_two_processes(struct e2e *e2e, hf_bus *bus)
{
    struct bench_child child;
    double seconds;
    hf_status status;
    int code = bench_child_start(&child, &e2e->bench, e2e->rate, e2e->events);

    if (code) {
        return code;
    }
    status = warm_up(e2e, bus);
    code = cli_fail(status);
    if (!code) {
        code = bench_child_ready(&child);
    }
    if (!code) {
        code = cli_fail(publish_all(e2e, bus, &seconds));
    }
    return bench_child_end(&child, code);
}

static int run_bench_e2e(struct cli *cli)
{
    static struct e2e e2e = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const struct args *args = &cli->args;
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    const char *pattern = "*";
    hf_bus *bus = NULL;
    int code;

    e2e.rate = args_decimal(args, "rate", 1000);
    e2e.events = (int64_t)(e2e.rate * (double)args_number(args, "seconds", 5));
    e2e.batch = args_number(args, "batch", 100);
    e2e.concurrency = args_number(args, "concurrency", 1);
    e2e.bench.cli = cli;
    e2e.bench.durability = (hf_durability)args_number(args, "durability", HF_DURABILITY_POWER);
    if (e2e.events < 1) {
        return args_usage(args, "--rate times --seconds is less than one event");
    }
    stop_catch();
    if (args_given(args, "consumer")) {
        return run_consumer(&e2e, cli);
    }
    code = bench_begin(&e2e.bench, cli);
    if (code) {
        return code;
    }
    code = bench_open(&e2e.bench, &bus);
    if (!code) {
        options.from = (hf_place){HF_PLACE_START, -1};
        code = cli_fail(hf_subscription_create(bus, "bench", &pattern, 1, &options, NULL));
        if (!code) {
            code = args_number(args, "processes", 1) == 2 ? run_two_processes(&e2e, bus)
                                                          : run_one_process(&e2e, bus);
        }
        bench_close(&e2e.bench, &bus);
    }
    bench_end(&e2e.bench);
    return code;
}

static const struct option_row options_rows[] = {
    {"rate", 0, OPTION_RATE, "N/s", NULL, 0, 0, "events per second (1000/s)"},
    {"seconds", 0, OPTION_NUMBER, "N", NULL, 1, 86400, "for how long (5)"},
    {"processes", 0, OPTION_NUMBER, "N", NULL, 1, 2, "2: the consumer is a second process (1)"},
    {"batch", 0, OPTION_NUMBER, "N", NULL, 1, 10000, "events read at once (100)"},
    {"concurrency", 0, OPTION_NUMBER, "N", NULL, 1, 256, "handlers at once (1)"},
    {"consumer", 0, OPTION_FLAG, NULL, NULL, 0, 0,
     "be the consumer only, as --processes 2 starts one"},
    BENCH_ROWS,
    OPTION_END,
};

const struct command command_bench_e2e = {
    .name = "bench e2e",
    .usage = "",
    .summary = "measures the time from publishing to handling",
    .examples = "  holdfast bench e2e\n"
                "  holdfast bench e2e --rate 5000/s --seconds 10 --processes 2 --json\n",
    .details = "Latency counts from the moment an event should have been published (open loop).\n",
    .options = options_rows,
    .places_itself = true,
    .run = run_bench_e2e,
};
