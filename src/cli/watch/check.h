/*
 * check.h - the parts of the command `check`: limits, and metrics for Prometheus.
 */
#ifndef HF_CLI_WATCH_CHECK_H
#define HF_CLI_WATCH_CHECK_H

#include "base/text/buf.h"
#include "cli/core/cli.h"

#include <holdfast.h>

struct check_limits {
    int64_t max_wait_ms;
    int64_t max_dead;
    int64_t max_lag; /* -1: none */
    int64_t nodes;
};

/* Adds the lines of one subscription to `out`, each with the number of its metric, by which they
 * are sorted in the end: a metric's lines must stand together. */
void check_metrics_subscription(struct buf *out, const struct cli *cli,
                                const hf_subscription_info *info);
/* Prints all of them, and those of the namespace. */
void check_metrics_print(struct buf *lines, const struct cli *cli, const hf_stats *stats,
                         int status);

#endif
