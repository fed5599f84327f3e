/*
 * exposition.c - see exposition.h.
 */
#include "cli/watch/exposition.h"

#include "base/banned.h"

#include <inttypes.h>

#define SAMPLES_BYTES_MAX ((size_t)1 << 28) /* some thousand subscriptions are some megabytes */
#define SECOND_US INT64_C(1000000)

static const struct {
    const char *name;
    const char *type;
    const char *help;
} metrics[METRICS] = {
#define METRIC(id, name, type, help) [METRIC_##id] = {name, #type, help},
#include "cli/watch/metrics.def"
#undef METRIC
};

void exposition_init(struct exposition *exposition)
{
    for (int i = 0; i < METRICS; i++) {
        buf_init(&exposition->samples[i], SAMPLES_BYTES_MAX);
    }
}

void exposition_release(struct exposition *exposition)
{
    for (int i = 0; i < METRICS; i++) {
        buf_release(&exposition->samples[i]);
    }
}

/* ---- Samples --------------------------------------------------------------------------------- */

/* A label, if it has a value: in that, backslash, quote and newline are escaped. */
static void put_label(struct buf *out, char *separator, const char *name, const char *value)
{
    if (!value) {
        return;
    }
    buf_char(out, *separator);
    *separator = ',';
    buf_printf(out, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '\\' || *value == '"') {
            buf_char(out, '\\');
            buf_char(out, *value);
        } else if (*value == '\n') {
            buf_append(out, "\\n", 2);
        } else {
            buf_char(out, *value);
        }
    }
    buf_char(out, '"');
}

/* Everything of a sample before its value. */
static struct buf *begin(struct exposition *exposition, enum metric metric, const char *suffix,
                         struct metric_labels labels, const char *bound)
{
    struct buf *out = &exposition->samples[metric];
    char separator = '{';

    buf_printf(out, "%s%s", metrics[metric].name, suffix);
    put_label(out, &separator, "namespace", labels.namespace_name);
    put_label(out, &separator, "subscription", labels.subscription);
    put_label(out, &separator, labels.word, labels.value);
    put_label(out, &separator, "le", bound);
    if (separator == ',') {
        buf_char(out, '}');
    }
    return out;
}

void exposition_number(struct exposition *exposition, enum metric metric,
                       struct metric_labels labels, int64_t value)
{
    if (value != -1) {
        buf_printf(begin(exposition, metric, "", labels, NULL), " %" PRId64 "\n", value);
    }
}

static void put_seconds(struct buf *out, int64_t us)
{
    buf_printf(out, " %" PRId64 ".%06" PRId64 "\n", us / SECOND_US, us % SECOND_US);
}

void exposition_seconds(struct exposition *exposition, enum metric metric,
                        struct metric_labels labels, int64_t us)
{
    if (us >= 0) {
        put_seconds(begin(exposition, metric, "", labels, NULL), us);
    }
}

void exposition_histogram(struct exposition *exposition, enum metric metric,
                          struct metric_labels labels, const hf_histogram *histogram)
{
    int64_t count = 0;

    for (size_t i = 0; i < HF_HISTOGRAM_BUCKETS; i++) {
        char bound[32] = "+Inf";
        if (i + 1 < HF_HISTOGRAM_BUCKETS) {
            snprintf(bound, sizeof bound, "%g", (double)hf_histogram_bound_us(i) / 1e6);
        }
        count += histogram->counts[i];
        buf_printf(begin(exposition, metric, "_bucket", labels, bound), " %" PRId64 "\n", count);
    }
    put_seconds(begin(exposition, metric, "_sum", labels, NULL), histogram->sum_us);
    buf_printf(begin(exposition, metric, "_count", labels, NULL), " %" PRId64 "\n", count);
}

void exposition_build(struct exposition *exposition, const char *version, const char *url)
{
    struct buf *out = &exposition->samples[METRIC_BUILD];
    bool postgres = strncmp(url, "postgres", strlen("postgres")) == 0;

    buf_printf(out, "%s{version=\"%s\",engine=\"%s\"} 1\n", metrics[METRIC_BUILD].name, version,
               postgres ? "postgres" : "sqlite");
}

/* ---- What the database says ------------------------------------------------------------------ */

/* How long ago; 0 if it is to come or never was. */
static int64_t age_us(int64_t at_us, int64_t now_us)
{
    return at_us < 0 || at_us > now_us ? 0 : now_us - at_us;
}

void exposition_stats(struct exposition *exposition, const char *namespace_name,
                      const hf_stats *stats, int64_t now_us)
{
    struct metric_labels labels = {.namespace_name = namespace_name};

    exposition_number(exposition, METRIC_PUBLISHED, labels, stats->head);
    exposition_number(exposition, METRIC_SUBSCRIPTIONS, labels, stats->subscriptions);
    exposition_number(exposition, METRIC_LATER, labels, stats->later);
    exposition_number(exposition, METRIC_LATER_DUE, labels, stats->later_due);
    exposition_number(exposition, METRIC_SCHEDULES_DUE, labels, stats->schedules_due);
    if (stats->later_due != -1) {
        exposition_seconds(exposition, METRIC_LATER_LATE, labels,
                           age_us(stats->later_next_us, now_us));
    }
    if (stats->schedules_due != -1) {
        exposition_seconds(exposition, METRIC_SCHEDULES_LATE, labels,
                           age_us(stats->schedules_next_us, now_us));
    }
}

void exposition_store(struct exposition *exposition, const hf_stats *stats)
{
    struct metric_labels none = {0};

    exposition_number(exposition, METRIC_STORE, none, stats->store_bytes);
    exposition_number(exposition, METRIC_WAL, none, stats->wal_bytes);
}

void exposition_subscription(struct exposition *exposition, const char *namespace_name,
                             const hf_subscription_info *info, int64_t now_us)
{
    struct metric_labels labels = {namespace_name, info->name, NULL, NULL};
    bool known = info->oldest_waiting_us != -1 || info->pending_more == 0;
    const struct {
        enum metric metric;
        int64_t value;
    } samples[] = {
        {METRIC_PENDING, info->pending},
        {METRIC_PENDING_MORE, info->pending_more},
        {METRIC_LAG, info->lag},
        {METRIC_CHECKPOINT, info->checkpoint},
        {METRIC_INFLIGHT, info->in_flight},
        {METRIC_LEASE_ENDED, info->lease_ended},
        {METRIC_RETRYING, info->retrying},
        {METRIC_HELD, info->held},
        {METRIC_BLOCKED, info->blocked},
        {METRIC_DEAD, info->dead},
        {METRIC_DROPPED, info->dropped},
        {METRIC_HOLES, info->holes},
        {METRIC_PAUSED, info->paused_at_us != -1},
        {METRIC_NOT_MOVING, info->not_moving != NULL},
        {METRIC_BREAKER, info->breaker ? strcmp(info->breaker, "open") == 0 : -1},
    };

    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        exposition_number(exposition, samples[i].metric, labels, samples[i].value);
    }
    if (known) {
        exposition_seconds(exposition, METRIC_OLDEST, labels,
                           age_us(info->oldest_waiting_us, now_us));
    }
}

/* ---- All of it ------------------------------------------------------------------------------- */

hf_status exposition_write(const struct exposition *exposition, struct buf *out)
{
    hf_status status = HF_OK;

    for (int i = 0; i < METRICS && !status; i++) {
        const struct buf *samples = &exposition->samples[i];
        status = buf_status(samples);
        if (!status && samples->length > 0) {
            buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", metrics[i].name, metrics[i].help,
                       metrics[i].name, metrics[i].type);
            buf_append(out, samples->bytes, samples->length);
        }
    }
    return status ? status : buf_status(out);
}
