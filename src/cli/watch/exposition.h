/*
 * exposition.h - numbers in the text format of Prometheus.
 *
 * The format wants all samples of a metric together, below its HELP and TYPE; they are known a
 * subscription at a time. So each metric has a buffer of its own, and writing puts them one behind
 * the other. What is not known (-1) has no sample, and a metric without samples is not there.
 *
 * Labels are names that people chose for namespaces and subscriptions, and words of metrics.def's
 * kind; never ids, keys or types, of which there may be any number.
 */
#ifndef HF_CLI_WATCH_EXPOSITION_H
#define HF_CLI_WATCH_EXPOSITION_H

#include "base/text/buf.h"

#include <holdfast.h>

enum metric {
#define METRIC(id, name, type, help) METRIC_##id,
#include "cli/watch/metrics.def"
#undef METRIC
    METRICS
};

struct exposition {
    struct buf samples[METRICS];
};

/* Of one sample; NULL: it has none. */
struct metric_labels {
    const char *namespace_name;
    const char *subscription;
    const char *word; /* a further label ... */
    const char *value;
};

void exposition_init(struct exposition *exposition);
void exposition_release(struct exposition *exposition);

/* A sample; -1: it is not known, and there is none. */
void exposition_number(struct exposition *exposition, enum metric metric,
                       struct metric_labels labels, int64_t value);
/* The same of microseconds, written in seconds. */
void exposition_seconds(struct exposition *exposition, enum metric metric,
                        struct metric_labels labels, int64_t us);
void exposition_histogram(struct exposition *exposition, enum metric metric,
                          struct metric_labels labels, const hf_histogram *histogram);

/* The sample that says what the numbers are of: a version, and the engine of a URL. */
void exposition_build(struct exposition *exposition, const char *version, const char *url);

/* What the database says of a namespace, of the files of the database, and of a subscription. */
void exposition_stats(struct exposition *exposition, const char *namespace_name,
                      const hf_stats *stats, int64_t now_us);
void exposition_store(struct exposition *exposition, const hf_stats *stats);
void exposition_subscription(struct exposition *exposition, const char *namespace_name,
                             const hf_subscription_info *info, int64_t now_us);

/* Appends all of it. HF_NOMEM: not all found room. */
hf_status exposition_write(const struct exposition *exposition, struct buf *out);

#endif
