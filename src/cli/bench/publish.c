/*
 * publish.c - the command `bench publish`: how fast events become durable.
 *
 * Each thread publishes its share, one event or one batch per call, and measures every call. With
 * --raw each round is preceded by the same INSERTs on the bare engine, in a file of its own, so
 * that both see the same disk at the same time; the report is the median of each.
 */
#include "base/banned.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cli/bench/bench.h"
#include "cli/core/args_value.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/stop.h"

#define THREADS_MAX 256
#define WARM_UP_EVENTS 100
#define ROUNDS_WITH_RAW 3

struct publisher {
    hf_bus *bus;
    int64_t events;
    int64_t batch;
    int64_t size;
    char *payloads;           /* batch * size */
    hf_new_event *new_events; /* batch */
    struct histogram latency;
    hf_status status;
    char message[512];
    pthread_t thread;
};

struct publish_bench {
    struct bench bench;
    int64_t threads;
    int64_t batch;
    int64_t events;
    int64_t size;
    int64_t rounds;
    struct publisher *publishers; /* threads */
    struct histogram latency;     /* of all rounds */
    int64_t commits;
    double rates[BENCH_ROUNDS_MAX];
    double raw_rates[BENCH_ROUNDS_MAX];
};

static hf_status publish_step(struct publisher *publisher, int64_t count, int64_t number)
{
    for (int64_t i = 0; i < count; i++) {
        bench_payload(publisher->payloads + i * publisher->size, (size_t)publisher->size,
                      number + i);
    }
    if (count == 1) {
        return hf_publish(publisher->bus, publisher->new_events, NULL);
    }
    return hf_publish_many(publisher->bus, publisher->new_events, (size_t)count, NULL);
}

static void *run_publisher(void *ctx)
{
    struct publisher *publisher = ctx;

    publisher->status = HF_OK;
    for (int64_t done = 0; done < publisher->events && !stop_requested();) {
        int64_t left = publisher->events - done;
        int64_t count = left < publisher->batch ? left : publisher->batch;
        int64_t before_ns = bench_now_ns();
        publisher->status = publish_step(publisher, count, done);
        if (publisher->status) {
            snprintf(publisher->message, sizeof publisher->message, "%s", hf_errmsg());
            return NULL;
        }
        histogram_add(&publisher->latency, bench_now_ns() - before_ns);
        done += count;
    }
    return NULL;
}

static bool publisher_init(struct publisher *publisher, const struct publish_bench *publish)
{
    static const hf_new_event blank = HF_NEW_EVENT_INIT;

    publisher->batch = publish->batch;
    publisher->size = publish->size;
    publisher->payloads = mem_alloc((size_t)(publish->batch * publish->size));
    publisher->new_events = mem_calloc((size_t)publish->batch, sizeof(hf_new_event));
    if (!publisher->payloads || !publisher->new_events) {
        return false;
    }
    for (int64_t i = 0; i < publish->batch; i++) {
        publisher->new_events[i] = blank;
        publisher->new_events[i].type = "bench.event";
        publisher->new_events[i].key = "bench";
        publisher->new_events[i].payload = publisher->payloads + i * publish->size;
        publisher->new_events[i].payload_bytes = (size_t)publish->size;
    }
    return true;
}

/* ---- A round --------------------------------------------------------------------------------- */

static int measure_threads(struct publish_bench *publish, hf_bus *bus, double *ret_rate)
{
    int64_t before_ns;
    int64_t started = 0;
    int code = 0;

    for (int64_t i = 0; i < publish->threads; i++) {
        struct publisher *publisher = &publish->publishers[i];
        publisher->bus = bus;
        publisher->events =
            publish->events / publish->threads + (i < publish->events % publish->threads);
    }
    before_ns = bench_now_ns();
    for (; started < publish->threads && !code; started++) {
        code = cli_fail(thread_start(&publish->publishers[started].thread, "bench", run_publisher,
                                     &publish->publishers[started]));
    }
    started -= code != 0;
    for (int64_t i = 0; i < started; i++) {
        struct publisher *publisher = &publish->publishers[i];
        pthread_join(publisher->thread, NULL);
        if (publisher->status && !code) {
            out_complain("%s", publisher->message);
            code = cli_exit_code(publisher->status);
        }
    }
    *ret_rate = (double)publish->events * 1e9 / (double)(bench_now_ns() - before_ns);
    return code;
}

static int bus_round(struct publish_bench *publish, double *ret_rate)
{
    hf_bus *bus = NULL;
    hf_stats stats = {.size = sizeof stats};
    int64_t before = 0;
    int code = bench_open(&publish->bench, &bus);

    if (code) {
        return code;
    }
    publish->publishers[0].bus = bus;
    for (int64_t i = 0; i < WARM_UP_EVENTS && !code; i++) {
        code = cli_fail(publish_step(&publish->publishers[0], 1, i));
    }
    if (!code && hf_stats_get(bus, &stats) == HF_OK) {
        before = stats.commits;
    }
    if (!code) {
        code = measure_threads(publish, bus, ret_rate);
    }
    if (!code && hf_stats_get(bus, &stats) == HF_OK && stats.commits >= 0) {
        publish->commits += stats.commits - before;
    }
    bench_close(&publish->bench, &bus);
    return code;
}

static int raw_round(struct publish_bench *publish, double *ret_rate)
{
    hf_bus *bus = NULL;
    const char *name = publish->bench.cli->namespace_name;
    struct bench_raw raw = {.namespace_name = name ? name : "default",
                            .events = publish->events,
                            .batch = publish->batch,
                            .size = publish->size,
                            .durability = publish->bench.durability};
    int code = bench_open(&publish->bench, &bus);

    if (code) {
        return code;
    }
    code = cli_fail(hf_close(&bus)); /* it has made the table; now it is out of the way */
    if (!code) {
        raw.path = strchr(publish->bench.url, ':') + 1;
        *ret_rate = bench_raw_publish(&raw);
        code = *ret_rate < 0 ? EXIT_ERROR : 0;
    }
    bench_close(&publish->bench, &bus);
    return code;
}

/* ---- The command ----------------------------------------------------------------------------- */

static int run_rounds(struct publish_bench *publish, bool raw)
{
    struct bench_report report = BENCH_REPORT_INIT;
    int code = 0;

    for (int64_t round = 0; round < publish->rounds && !code && !stop_requested(); round++) {
        if (raw) {
            code = raw_round(publish, &publish->raw_rates[round]);
        }
        if (!code && !stop_requested()) {
            code = bus_round(publish, &publish->rates[round]);
        }
    }
    if (code) {
        return code;
    }
    if (stop_requested()) {
        out_complain("interrupted");
        return EXIT_ERROR;
    }
    for (int64_t i = 0; i < publish->threads; i++) {
        histogram_merge(&publish->latency, &publish->publishers[i].latency);
    }
    report.name = "publish";
    report.events = publish->events;
    report.threads = publish->threads;
    report.batch = publish->batch;
    report.size = publish->size;
    report.rounds = publish->rounds;
    report.rate = bench_median(publish->rates, (size_t)publish->rounds);
    report.commits = publish->commits;
    report.latency_is = publish->batch == 1 ? "per event" : "per batch";
    report.latency = &publish->latency;
    if (raw) {
        report.raw_rate = bench_median(publish->raw_rates, (size_t)publish->rounds);
    }
    bench_print(&publish->bench, &report);
    return EXIT_OK;
}

static int run_bench_publish(struct cli *cli)
{
    static struct publish_bench publish; /* too large for a stack */
    const struct args *args = &cli->args;
    bool raw = args_given(args, "raw");
    bool ready = true;
    int code;

    publish.threads = args_number(args, "threads", 1);
    publish.batch = args_number(args, "batch", 1);
    publish.events = args_number(args, "events", 10000);
    publish.size = args_number(args, "size", 100);
    publish.rounds = args_number(args, "rounds", raw ? ROUNDS_WITH_RAW : 1);
    if (args_given(args, "db") && (raw || publish.rounds > 1)) {
        return args_usage(args, "--raw and --rounds need databases of their own: use --dir instead "
                                "of --db");
    }
    publish.publishers = mem_calloc((size_t)publish.threads, sizeof *publish.publishers);
    for (int64_t i = 0; publish.publishers && i < publish.threads; i++) {
        ready = publisher_init(&publish.publishers[i], &publish) && ready;
    }
    if (!publish.publishers || !ready) {
        out_complain("out of memory");
        return EXIT_ERROR;
    }
    stop_catch();
    code = bench_begin(&publish.bench, cli);
    if (!code) {
        code = run_rounds(&publish, raw);
        bench_end(&publish.bench);
    }
    for (int64_t i = 0; i < publish.threads; i++) {
        mem_free(publish.publishers[i].payloads);
        mem_free(publish.publishers[i].new_events);
    }
    mem_free(publish.publishers);
    return code;
}

static const struct option_row options[] = {
    {"threads", 0, OPTION_NUMBER, "N", NULL, 1, THREADS_MAX, "publishing threads (1)"},
    {"batch", 0, OPTION_NUMBER, "N", NULL, 1, 10000, "events in one transaction (1)"},
    {"events", 0, OPTION_NUMBER, "N", NULL, 1, 100000000, "events of a round (10000)"},
    BENCH_SIZE_ROW,
    {"raw", 0, OPTION_FLAG, NULL, NULL, 0, 0, "also measure the bare engine, in turns"},
    {"rounds", 0, OPTION_NUMBER, "N", NULL, 1, BENCH_ROUNDS_MAX,
     "rounds, of which the median is reported (1; 3 with --raw)"},
    BENCH_ROWS,
    OPTION_END,
};

const struct command command_bench_publish = {
    .name = "bench publish",
    .usage = "",
    .summary = "measures how fast events become durable",
    .examples = "  holdfast bench publish\n"
                "  holdfast bench publish --threads 50 --events 100000\n"
                "  holdfast bench publish --batch 1000 --events 200000 --raw --json\n",
    .options = options,
    .places_itself = true,
    .run = run_bench_publish,
};
