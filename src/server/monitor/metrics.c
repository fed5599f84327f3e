/*
 * metrics.c - see metrics.h.
 */
#include "server/monitor/metrics.h"

#include "base/banned.h"
#include "base/time/clock.h"
#include "cli/watch/exposition.h"
#include "server/http/router.h"

#include <microhttpd.h>
#include <sys/resource.h>
#include <unistd.h>

#define PATH "/metrics"
#define CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define SECOND_US INT64_C(1000000)

/* ---- The request ----------------------------------------------------------------------------- */

bool metrics_wanted(const struct exchange *exchange)
{
    return strcmp(exchange->path, PATH) == 0;
}

bool metrics_namespace(struct exchange *exchange, const char **name)
{
    const char *given =
        MHD_lookup_connection_value(exchange->connection, MHD_GET_ARGUMENT_KIND, "namespace");

    if (!exchange_is_get(exchange) || !router_check_query(exchange, "namespace")) {
        return false;
    }
    *name = given ? given : *name;
    return true;
}

/* ---- What the database says ------------------------------------------------------------------ */

/* An answer that is being made. */
struct scrape {
    struct exposition exposition;
    const char *namespace_name;
    int64_t now_us;
    int64_t subscriptions; /* that were seen */
    int64_t heartbeat_us;  /* the oldest of the last ones; -1: none */
    int64_t live;
    int64_t stale;
};

static int add_subscription(const hf_subscription_info *info, void *ctx)
{
    struct scrape *scrape = ctx;

    if (scrape->subscriptions++ < METRICS_SUBSCRIPTIONS_MAX) {
        exposition_subscription(&scrape->exposition, scrape->namespace_name, info, scrape->now_us);
    }
    return 0;
}

static int see_node(const hf_node_info *info, void *ctx)
{
    struct scrape *scrape = ctx;

    if (info->state == HF_NODE_GONE) {
        return 0;
    }
    scrape->live += info->state == HF_NODE_LIVE;
    scrape->stale += info->state == HF_NODE_STALE;
    if (info->seen_at_us >= 0 &&
        (scrape->heartbeat_us < 0 || info->seen_at_us < scrape->heartbeat_us)) {
        scrape->heartbeat_us = info->seen_at_us;
    }
    return 0;
}

static void add_nodes(struct scrape *scrape, hf_bus *bus)
{
    struct metric_labels labels = {scrape->namespace_name, NULL, NULL, NULL};
    struct metric_labels state = {scrape->namespace_name, NULL, "state", "live"};

    if (hf_node_list(bus, see_node, scrape)) {
        return;
    }
    exposition_number(&scrape->exposition, METRIC_NODES, state, scrape->live);
    state.value = "stale";
    exposition_number(&scrape->exposition, METRIC_NODES, state, scrape->stale);
    exposition_seconds(&scrape->exposition, METRIC_HEARTBEAT, labels, scrape->heartbeat_us);
}

/* What cannot be had is left out. */
static void add_stored(struct scrape *scrape, hf_bus *bus)
{
    struct metric_labels labels = {scrape->namespace_name, NULL, NULL, NULL};
    hf_stats stats = {.size = sizeof stats};

    if (hf_stats_get(bus, &stats)) {
        return;
    }
    exposition_store(&scrape->exposition, &stats);
    exposition_stats(&scrape->exposition, scrape->namespace_name, &stats, scrape->now_us);
    add_nodes(scrape, bus);
    if (!hf_subscription_list(bus, add_subscription, scrape)) {
        int64_t more = scrape->subscriptions - METRICS_SUBSCRIPTIONS_MAX;
        exposition_number(&scrape->exposition, METRIC_LEFT_OUT, labels, more > 0 ? more : 0);
    }
}

/* ---- What this process has done -------------------------------------------------------------- */

static int add_done(const hf_subscription_metrics *metrics, void *ctx)
{
    struct scrape *scrape = ctx;
    struct exposition *exposition = &scrape->exposition;
    struct metric_labels labels = {scrape->namespace_name, metrics->name, NULL, NULL};
    struct metric_labels result = {scrape->namespace_name, metrics->name, "result", "done"};

    exposition_number(exposition, METRIC_DELIVERED, result, metrics->delivered);
    result.value = "failed";
    exposition_number(exposition, METRIC_DELIVERED, result, metrics->failed);
    result.value = "dead";
    exposition_number(exposition, METRIC_DELIVERED, result, metrics->dead);
    exposition_number(exposition, METRIC_RETRIES, labels, metrics->retries);
    exposition_number(exposition, METRIC_LEASE_LOST, labels, metrics->leases_lost);
    exposition_histogram(exposition, METRIC_HANDLER_TIME, labels, &metrics->handler);
    exposition_histogram(exposition, METRIC_END_TO_END, labels, &metrics->end_to_end);
    return ++scrape->subscriptions >= METRICS_SUBSCRIPTIONS_MAX;
}

static void add_dead(struct scrape *scrape, const hf_metrics *metrics)
{
    const struct {
        const char *reason;
        int64_t count;
    } dead[] = {
        {"attempts", metrics->dead_attempts}, {"rejected", metrics->dead_rejected},
        {"decode", metrics->dead_decode},     {"no_handler", metrics->dead_no_handler},
        {"corrupt", metrics->dead_corrupt},   {"lease", metrics->dead_lease},
    };

    for (size_t i = 0; i < sizeof dead / sizeof dead[0]; i++) {
        struct metric_labels labels = {scrape->namespace_name, NULL, "reason", dead[i].reason};
        exposition_number(&scrape->exposition, METRIC_DEAD_TOTAL, labels, dead[i].count);
    }
}

static void add_handle(struct scrape *scrape, hf_bus *bus)
{
    struct exposition *exposition = &scrape->exposition;
    struct metric_labels labels = {scrape->namespace_name, NULL, NULL, NULL};
    hf_metrics metrics = {.size = sizeof metrics};

    if (hf_metrics_get(bus, &metrics)) {
        return;
    }
    exposition_histogram(exposition, METRIC_PUBLISH_TIME, labels, &metrics.publish);
    exposition_number(exposition, METRIC_PUBLISH_FAILURES, labels, metrics.publish_failures);
    exposition_histogram(exposition, METRIC_COMMIT_TIME, labels, &metrics.commit);
    exposition_number(exposition, METRIC_GAP_TIMEOUTS, labels, metrics.gap_timeouts);
    exposition_number(exposition, METRIC_FIRED, labels, metrics.schedules_fired);
    exposition_histogram(exposition, METRIC_FIRED_LATE, labels, &metrics.schedule_late);
    add_dead(scrape, &metrics);
    scrape->subscriptions = 0;
    (void)hf_subscription_metrics_list(bus, add_done, scrape);
}

static int64_t resident_bytes(void)
{
    long pages = -1;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file) {
        if (fscanf(file, "%*d %ld", &pages) != 1) {
            pages = -1;
        }
        fclose(file);
    }
    return pages < 0 ? -1 : (int64_t)pages * sysconf(_SC_PAGESIZE);
}

static void add_process(struct scrape *scrape, const struct metrics_source *source)
{
    static const char *const digits[METRICS_DIGITS] = {NULL, "1xx", "2xx", "3xx", "4xx", "5xx"};
    struct metric_labels none = {0};
    struct rusage used;

    exposition_seconds(&scrape->exposition, METRIC_PROCESS_START, none, source->started_at_us);
    exposition_number(&scrape->exposition, METRIC_PROCESS_MEMORY, none, resident_bytes());
    if (getrusage(RUSAGE_SELF, &used) == 0) {
        int64_t cpu_us = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * SECOND_US +
                         used.ru_utime.tv_usec + used.ru_stime.tv_usec;
        exposition_seconds(&scrape->exposition, METRIC_PROCESS_CPU, none, cpu_us);
    }
    for (size_t i = 2; i < METRICS_DIGITS; i++) {
        struct metric_labels code = {NULL, NULL, "code", digits[i]};
        exposition_number(&scrape->exposition, METRIC_REQUESTS, code,
                          atomic_load_explicit(&source->requests[i], memory_order_relaxed));
    }
}

void metrics_answer(struct exchange *exchange, const struct metrics_source *source)
{
    struct metric_labels none = {0};
    struct scrape scrape = {
        .namespace_name = exchange->namespace_name,
        .now_us = clock_wall_us(),
        .heartbeat_us = -1,
    };
    bool up = probes_ready(source->probes, exchange->bus);
    hf_status status;

    exposition_init(&scrape.exposition);
    exposition_build(&scrape.exposition, hf_version(), source->url);
    exposition_number(&scrape.exposition, METRIC_UP, none, up);
    if (up) {
        add_stored(&scrape, exchange->bus);
    }
    add_handle(&scrape, exchange->bus);
    add_process(&scrape, source);
    answer_static(exchange, CONTENT_TYPE, (struct text)TEXT_LITERAL(""));
    answer_header(exchange, "Cache-Control", "no-store");
    status = exposition_write(&scrape.exposition, &exchange->answer);
    if (status) {
        answer_failure(exchange, status);
    }
    exposition_release(&scrape.exposition);
}
