/*
 * bench.c - the common part of the benchmarks.
 *
 * A benchmark writes into files of its own, a new one for each round, so that rounds are alike and
 * no other data is touched. With --db it runs one round in that database, which must be empty.
 */
#include "cli/bench/bench.h"

#include "base/banned.h"
#include "cli/core/url.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"

#include <time.h>

int64_t bench_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void bench_payload(char *ret_payload, size_t size, int64_t number)
{
    /* The number has a fixed width: the same size every time. */
    int head = snprintf(ret_payload, size, "{\"t\":%19" PRId64 ",\"pad\":\"", number);

    memset(ret_payload + head, 'x', size - (size_t)head - 2);
    ret_payload[size - 2] = '"';
    ret_payload[size - 1] = '}';
}

int64_t bench_payload_number(const char *payload, size_t size)
{
    int64_t number = 0;

    if (size < 25 || memcmp(payload, "{\"t\":", 5) != 0) {
        return -1;
    }
    for (size_t i = 5; i < 24; i++) {
        if (payload[i] == ' ') {
            continue;
        }
        if (payload[i] < '0' || payload[i] > '9') {
            return -1;
        }
        number = number * 10 + (payload[i] - '0');
    }
    return number;
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return left < right ? -1 : left > right;
}

double bench_median(double *values, size_t count)
{
    if (count == 0) {
        return -1;
    }
    qsort(values, count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* ---- The place ------------------------------------------------------------------------------- */

int bench_begin(struct bench *bench, struct cli *cli)
{
    const struct args *args = &cli->args;

    bench->cli = cli;
    bench->own = !args_given(args, "db");
    bench->rounds_opened = 0;
    bench->durability = (hf_durability)args_number(args, "durability", HF_DURABILITY_POWER);
    if (!bench->own) {
        snprintf(bench->url, sizeof bench->url, "%s", cli->url);
        return 0;
    }
    if (!tempdir_make(&bench->dir, args_text(args, "dir"))) {
        return EXIT_ERROR;
    }
    if (tempdir_in_memory(&bench->dir)) {
        out_say("Note: %s is in memory, where durability costs nothing. Use --dir.",
                bench->dir.path);
    }
    return 0;
}

static int refuse_used(hf_bus *bus, const char *url)
{
    hf_stats stats = {.size = sizeof stats};
    hf_status status = hf_stats_get(bus, &stats);
    char shown[URL_SHOWN_BYTES];

    if (status) {
        return cli_fail(status);
    }
    if (stats.head == 0 && stats.subscriptions == 0) {
        return 0;
    }
    out_complain("%s is not empty: a benchmark runs in an empty database, or without --db in a "
                 "temporary one",
                 url_shown(url, shown));
    return EXIT_USAGE;
}

int bench_open(struct bench *bench, hf_bus **ret_bus)
{
    hf_options options = cli_options(bench->cli, HF_OPEN_CREATE);
    char name[32];
    hf_bus *bus = NULL;
    int code;

    options.durability = bench->durability;
    if (bench->own) {
        snprintf(name, sizeof name, "round-%" PRId64 ".db", ++bench->rounds_opened);
        tempdir_database(&bench->dir, name);
        snprintf(bench->url, sizeof bench->url, "%s", bench->dir.url);
    }
    code = cli_fail(hf_open(bench->url, &options, &bus));
    if (!code && !bench->own) {
        code = refuse_used(bus, bench->url);
    }
    if (code) {
        hf_close(&bus);
        return code;
    }
    *ret_bus = bus;
    return 0;
}

void bench_close(struct bench *bench, hf_bus **bus)
{
    hf_close(bus);
    if (bench->own) {
        tempdir_clear(&bench->dir);
    }
}

void bench_end(struct bench *bench)
{
    if (bench->own) {
        tempdir_remove(&bench->dir);
    }
}

/* ---- The report ------------------------------------------------------------------------------ */

static void show_measured(struct json_out *json, const char *key, double value)
{
    if (value >= 0) {
        show_double(json, key, value);
    }
}

static void show_known(struct json_out *json, const char *key, int64_t value)
{
    if (value >= 0) {
        show_int(json, key, value);
    }
}

static void print_json(const struct bench *bench, const struct bench_report *report)
{
    const struct histogram *latency = report->latency;
    char engine[32];
    struct show_line line;
    struct json_out *json = show_line_begin(&line);

    show_string(json, "bench", report->name);
    show_string(json, "engine", url_engine(bench->url, engine, sizeof engine));
    show_string(json, "durability",
                bench->durability == HF_DURABILITY_PROCESS ? "process" : "power");
    show_int(json, "events", report->events);
    show_int(json, "threads", report->threads);
    show_int(json, "batch", report->batch);
    show_known(json, "size", report->size);
    show_known(json, "rounds", report->rounds);
    show_known(json, "processes", report->processes);
    if (report->mode) {
        show_string(json, "mode", report->mode);
    }
    show_double(json, "rate", report->rate);
    show_measured(json, "wanted_rate", report->wanted_rate);
    show_double(json, "p50_ms", histogram_ms(latency, 0.5));
    show_double(json, "p99_ms", histogram_ms(latency, 0.99));
    show_double(json, "p999_ms", histogram_ms(latency, 0.999));
    show_double(json, "max_ms", histogram_max_ms(latency));
    show_known(json, "commits", report->commits);
    show_measured(json, "raw_rate", report->raw_rate);
    if (report->raw_rate > 0) {
        show_double(json, "ratio", report->rate / report->raw_rate);
    }
    show_line_end(&line);
}

void bench_print(const struct bench *bench, const struct bench_report *report)
{
    const struct histogram *latency = report->latency;
    char engine[32];

    if (bench->cli->json) {
        print_json(bench, report);
        return;
    }
    printf("%s on %s, durability %s: %" PRId64 " events", report->name,
           url_engine(bench->url, engine, sizeof engine),
           bench->durability == HF_DURABILITY_PROCESS ? "process" : "power", report->events);
    if (report->size >= 0) {
        printf(" of %" PRId64 " bytes", report->size);
    }
    if (report->mode) {
        printf(", %s", report->mode);
    }
    printf(", %" PRId64 " thread%s, batch %" PRId64, report->threads,
           report->threads == 1 ? "" : "s", report->batch);
    if (report->processes >= 0) {
        printf(", %" PRId64 " process%s", report->processes, report->processes == 1 ? "" : "es");
    }
    printf("\n  rate      %12.0f/s", report->rate);
    if (report->wanted_rate >= 0) {
        printf("  (wanted %.0f/s)", report->wanted_rate);
    }
    if (report->commits > 0) {
        printf("  (%" PRId64 " commits)", report->commits);
    }
    printf("\n  p50       %12.3f ms   %s\n", histogram_ms(latency, 0.5), report->latency_is);
    printf("  p99       %12.3f ms\n  p99.9     %12.3f ms\n  max       %12.3f ms\n",
           histogram_ms(latency, 0.99), histogram_ms(latency, 0.999), histogram_max_ms(latency));
    if (report->raw_rate > 0) {
        printf("  raw       %12.0f/s  bare engine, one connection\n  ratio     %12.2f\n",
               report->raw_rate, report->rate / report->raw_rate);
    }
}
