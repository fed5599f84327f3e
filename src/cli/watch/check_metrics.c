/*
 * check_metrics.c - the numbers of `check` in the text format of Prometheus.
 *
 * The format wants all samples of a metric together, below its HELP and TYPE; they are collected a
 * subscription at a time. So each collected line begins with a letter that names its metric, and
 * printing goes through all lines once for each metric. What is not known has no sample.
 */
#include "cli/watch/check.h"

#include "base/banned.h"

/* Of a subscription, in the order of printing. */
enum metric {
    METRIC_PENDING,
    METRIC_PENDING_MORE,
    METRIC_OLDEST,
    METRIC_LAG,
    METRIC_IN_FLIGHT,
    METRIC_LEASE_ENDED,
    METRIC_RETRYING,
    METRIC_HELD,
    METRIC_BLOCKED,
    METRIC_DEAD,
    METRIC_PAUSED,
    METRIC_NOT_MOVING,
    METRICS
};

static const struct {
    const char *name;
    const char *help;
} metrics[METRICS] = {
    [METRIC_PENDING] = {"pending_events", "Events that match and have not been handed out."},
    [METRIC_PENDING_MORE] = {"pending_more", "1 if there are more pending events than that."},
    [METRIC_OLDEST] = {"oldest_waiting_seconds", "Age of the oldest event that is not settled."},
    [METRIC_LAG] = {"lag_positions", "Positions between the checkpoint and the end of the log."},
    [METRIC_IN_FLIGHT] = {"in_flight_events", "Events that workers have in hand."},
    [METRIC_LEASE_ENDED] = {"lease_ended_events", "Events whose lease ended without an answer."},
    [METRIC_RETRYING] = {"retrying_events", "Events that wait for their next attempt."},
    [METRIC_HELD] = {"held_events", "Events that wait behind an earlier one of their key."},
    [METRIC_BLOCKED] = {"blocked_keys", "Keys that wait for a dead letter."},
    [METRIC_DEAD] = {"dead_letters", "Dead letters that are not resolved."},
    [METRIC_PAUSED] = {"paused", "1 if the subscription is paused."},
    [METRIC_NOT_MOVING] = {"not_moving", "1 if the subscription does not move."},
};

/* A label's value: backslash, quote and newline are escaped. */
static void put_label(struct buf *out, const char *name, const char *value)
{
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

static const char *namespace_of(const struct cli *cli)
{
    return cli->namespace_name ? cli->namespace_name : "default";
}

static void put_sample(struct buf *out, const struct cli *cli, enum metric metric, const char *name,
                       int64_t value)
{
    if (value == -1) {
        return;
    }
    buf_char(out, (char)('a' + (int)metric));
    buf_printf(out, "holdfast_subscription_%s{", metrics[metric].name);
    put_label(out, "namespace", namespace_of(cli));
    buf_char(out, ',');
    put_label(out, "subscription", name);
    buf_printf(out, "} %" PRId64 "\n", value);
}

void check_metrics_subscription(struct buf *out, const struct cli *cli,
                                const hf_subscription_info *info)
{
    int64_t age_us = cli->started_at_us - info->oldest_waiting_us;
    bool waits = info->oldest_waiting_us != -1;
    bool known = waits || info->pending_more == 0;
    int64_t age_s = !waits || age_us < 0 ? 0 : age_us / 1000000;
    const int64_t values[METRICS] = {
        [METRIC_PENDING] = info->pending,           [METRIC_PENDING_MORE] = info->pending_more,
        [METRIC_OLDEST] = known ? age_s : -1,       [METRIC_LAG] = info->lag,
        [METRIC_IN_FLIGHT] = info->in_flight,       [METRIC_LEASE_ENDED] = info->lease_ended,
        [METRIC_RETRYING] = info->retrying,         [METRIC_HELD] = info->held,
        [METRIC_BLOCKED] = info->blocked,           [METRIC_DEAD] = info->dead,
        [METRIC_PAUSED] = info->paused_at_us != -1, [METRIC_NOT_MOVING] = info->not_moving != NULL,
    };

    for (int i = 0; i < METRICS; i++) {
        put_sample(out, cli, (enum metric)i, info->name, values[i]);
    }
}

/* The lines of one metric. */
static void print_lines(const struct buf *lines, enum metric metric)
{
    const char *line = lines->bytes;
    const char *end = lines->bytes + lines->length;

    while (line && line < end) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t length = (size_t)(newline ? newline - line : end - line);

        if (*line == (char)('a' + (int)metric)) {
            printf("%.*s\n", (int)length - 1, line + 1);
        }
        line += length + 1;
    }
}

static void print_one(const struct cli *cli, const char *name, const char *help, int64_t value)
{
    struct buf label;

    if (value == -1) {
        return;
    }
    buf_init(&label, 4096);
    put_label(&label, "namespace", namespace_of(cli));
    printf("# HELP holdfast_%s %s\n# TYPE holdfast_%s gauge\nholdfast_%s{%s} %" PRId64 "\n", name,
           help, name, name, buf_terminate(&label), value);
    buf_release(&label);
}

void check_metrics_print(struct buf *lines, const struct cli *cli, const hf_stats *stats,
                         int status)
{
    for (int i = 0; i < METRICS; i++) {
        printf("# HELP holdfast_subscription_%s %s\n# TYPE holdfast_subscription_%s gauge\n",
               metrics[i].name, metrics[i].help, metrics[i].name);
        print_lines(lines, (enum metric)i);
    }
    print_one(cli, "head_position", "Newest position of the log.", stats->head);
    print_one(cli, "later_events", "Events that wait for their time.", stats->later);
    print_one(cli, "later_due_events", "Events for later whose time has come.", stats->later_due);
    print_one(cli, "schedules_due", "Schedules that are due and have not fired.",
              stats->schedules_due);
    print_one(cli, "nodes", "Other processes that have the namespace open.", stats->nodes);
    print_one(cli, "store_bytes", "Size of the database.", stats->store_bytes);
    print_one(cli, "check_status", "0 all is well, 1 a warning, 2 a limit is passed, 3 not known.",
              status);
}
