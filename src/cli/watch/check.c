/*
 * check.c - the command `check`: is everything as it should be? For monitoring.
 *
 * It compares the numbers of a namespace with limits and answers with the exit codes of Nagios. The
 * same numbers come as text for people and for Nagios (the first line says it all), as JSON, or as
 * metrics for Prometheus (check_metrics.c).
 *
 * That something waits is no problem as long as it does not wait for long; so a subscription that
 * does not move is reported when its oldest event is older than the limit, with the reason why it
 * does not. What waits for its time is overdue when no process has brought it for a minute.
 */
#include "cli/watch/check.h"

#include "base/banned.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/core/out.h"
#include "cli/core/show.h"

#include <stdarg.h>

#define LINE_BYTES_MAX ((size_t)1 << 30) /* some thousand subscriptions are some megabytes */
#define MAX_WAIT_MS INT64_C(300000)
#define OVERDUE_US INT64_C(60000000)
#define SENTENCE_BYTES 4096

static const char *const level_names[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};
static const char *const level_keys[] = {"ok", "warning", "critical", "unknown"};
/* What is not known must not hide what is known to be bad. */
static const int gravity[] = {0, 1, 3, 2};

/* ---- Problems -------------------------------------------------------------------------------- */

/* One check under way. */
struct checking {
    struct cli *cli;
    struct check_limits limits;
    hf_stats stats;
    int worst;                  /* NAGIOS_... */
    int64_t problems;           /* how many */
    struct buf lines;           /* for people, each with its NUL */
    struct buf first;           /* the first of the worst ones */
    struct buf objects;         /* for programs, separated by commas */
    struct buf metrics;         /* of subscriptions */
    int64_t checked;            /* subscriptions */
    bool named[ARGS_WORDS_MAX]; /* words that are subscriptions */
};

static void add_object(struct checking *checking, int level, const char *check,
                       const char *subscription, const char *sentence)
{
    struct json_out json;

    if (checking->objects.length > 0) {
        buf_char(&checking->objects, ',');
    }
    json_out_init(&json, &checking->objects);
    json_object_begin(&json);
    show_string(&json, "level", level_keys[level]);
    show_string(&json, "check", check);
    show_string(&json, "subscription", subscription);
    show_string(&json, "message", sentence);
    json_object_end(&json);
}

__attribute__((format(printf, 5, 6))) static void report(struct checking *checking, int level,
                                                         const char *check,
                                                         const char *subscription,
                                                         const char *format, ...)
{
    char sentence[SENTENCE_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    checking->problems++;
    add_object(checking, level, check, subscription, sentence);
    buf_printf(&checking->lines, "%s: %s%s%s%c", level_names[level],
               subscription ? subscription : "", subscription ? ": " : "", sentence, '\0');
    if (gravity[level] > gravity[checking->worst]) {
        checking->worst = level;
        buf_clear(&checking->first);
        buf_printf(&checking->first, "%s%s%s", subscription ? subscription : "",
                   subscription ? ": " : "", sentence);
    }
}

/* ---- What is looked at ----------------------------------------------------------------------- */

static void check_wait(struct checking *checking, const hf_subscription_info *info)
{
    char waited[OUT_WORDS_BYTES];
    char limit[OUT_WORDS_BYTES];
    int64_t now_us = checking->cli->started_at_us;
    int64_t wait_ms = info->oldest_waiting_us < 0 ? -1 : (now_us - info->oldest_waiting_us) / 1000;

    if (wait_ms > checking->limits.max_wait_ms) {
        wait_ms -= wait_ms % 1000;
        report(checking, NAGIOS_CRITICAL, "wait", info->name,
               "the oldest event has waited for %s, the limit is %s%s%s",
               out_duration(wait_ms, waited), out_duration(checking->limits.max_wait_ms, limit),
               info->not_moving ? "; " : "", info->not_moving ? info->not_moving : "");
    } else if (wait_ms == -1 && info->pending_more == 1) {
        report(checking, NAGIOS_WARNING, "wait", info->name,
               "it is not known how long its events wait: none was found in the part of the log "
               "that was looked at, and it is %" PRId64 " positions behind",
               info->lag);
    }
}

/* Is it one of those that were asked for? */
static bool is_wanted(struct checking *checking, const char *name)
{
    const struct args *args = &checking->cli->args;
    bool wanted = args->word_count == 0;

    for (size_t i = 0; i < args->word_count; i++) {
        if (strcmp(args->words[i], name) == 0) {
            checking->named[i] = true;
            wanted = true;
        }
    }
    return wanted;
}

static int check_subscription(const hf_subscription_info *info, void *ctx)
{
    struct checking *checking = ctx;
    const struct check_limits *limits = &checking->limits;

    if (!is_wanted(checking, info->name)) {
        return 0;
    }
    checking->checked++;
    check_metrics_subscription(&checking->metrics, checking->cli, info);
    check_wait(checking, info);
    if (info->dead > limits->max_dead) {
        report(checking, NAGIOS_CRITICAL, "dead", info->name,
               "%" PRId64 " dead letter%s, the limit is %" PRId64, info->dead,
               info->dead == 1 ? "" : "s", limits->max_dead);
    }
    if (limits->max_lag >= 0 && info->lag > limits->max_lag) {
        report(checking, NAGIOS_CRITICAL, "lag", info->name,
               "it is %" PRId64 " positions behind, the limit is %" PRId64, info->lag,
               limits->max_lag);
    }
    if (info->breaker && strcmp(info->breaker, "open") == 0) {
        report(checking, NAGIOS_WARNING, "breaker", info->name,
               "its circuit breaker is open: too many first attempts failed");
    }
    return 0;
}

/* What should have entered the log and did not; and whether a process is there to bring it. */
static void check_overdue(struct checking *checking, const char *check, const char *what,
                          int64_t due, int64_t next_us)
{
    char ago[OUT_WORDS_BYTES];
    int64_t now_us = checking->cli->started_at_us;
    int64_t nodes = checking->stats.nodes;

    if (due <= 0 || next_us < 0 || now_us - next_us <= OVERDUE_US) {
        return;
    }
    report(checking, NAGIOS_CRITICAL, check, NULL, "%" PRId64 " %s%s overdue, the first %s; %s",
           due, what, due == 1 ? " is" : "s are", out_ago(next_us, now_us, ago),
           nodes == 0 ? "no process has the namespace open that could bring what is due "
                        "(holdfast work, or holdfast tick from cron)"
                      : "processes have the namespace open, and none brings it "
                        "(holdfast tick brings what is due)");
}

static void check_namespace(struct checking *checking)
{
    const hf_stats *stats = &checking->stats;

    if (stats->nodes < checking->limits.nodes) {
        report(checking, NAGIOS_CRITICAL, "nodes", NULL,
               "%" PRId64 " live node%s, at least %" PRId64 " should be there", stats->nodes,
               stats->nodes == 1 ? "" : "s", checking->limits.nodes);
    }
    check_overdue(checking, "later", "event for later", stats->later_due, stats->later_next_us);
    check_overdue(checking, "schedules", "schedule", stats->schedules_due,
                  stats->schedules_next_us);
}

/* A name that is no subscription may be one that was removed by mistake. */
static void check_names(struct checking *checking)
{
    const struct args *args = &checking->cli->args;

    for (size_t i = 0; i < args->word_count; i++) {
        if (!checking->named[i]) {
            report(checking, NAGIOS_UNKNOWN, "subscription", args->words[i],
                   "there is no such subscription");
        }
    }
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void print_text(struct checking *checking)
{
    const char *line = checking->lines.bytes;

    if (checking->problems == 0) {
        printf("OK: %" PRId64 " subscription%s, nothing waits for too long\n", checking->checked,
               checking->checked == 1 ? "" : "s");
        return;
    }
    printf("%s%s%s: ", out_on(checking->worst == NAGIOS_WARNING ? OUT_YELLOW : OUT_RED),
           level_names[checking->worst], out_off());
    out_text(buf_terminate(&checking->first));
    if (checking->problems > 1) {
        printf(" (and %" PRId64 " more)\n", checking->problems - 1);
        for (int64_t i = 0; i < checking->problems; i++) {
            out_text(line);
            putchar('\n');
            line += strlen(line) + 1;
        }
    } else {
        putchar('\n');
    }
}

static void print_json(struct checking *checking)
{
    struct buf line;
    struct json_out json;
    const hf_stats *stats = &checking->stats;

    buf_init(&line, LINE_BYTES_MAX);
    json_out_init(&json, &line);
    json_object_begin(&json);
    show_string(&json, "status", level_keys[checking->worst]);
    show_int(&json, "subscriptions", checking->checked);
    show_time(&json, "oldest_waiting", stats->oldest_waiting_us);
    show_int(&json, "dead", stats->dead);
    show_int(&json, "nodes", stats->nodes);
    show_int(&json, "later_due", stats->later_due);
    show_int(&json, "schedules_due", stats->schedules_due);
    json_key(&json, "problems");
    json_array_begin(&json);
    if (checking->objects.length > 0) {
        json_raw(&json, (struct text){checking->objects.bytes, checking->objects.length});
    }
    json_array_end(&json);
    json_object_end(&json);
    out_json_line(&line);
    buf_release(&line);
}

/* ---- The command ----------------------------------------------------------------------------- */

/* What a failure means: a database that does not answer is trouble, the rest is not known. */
static int failure(int code)
{
    return code == EXIT_UNAVAILABLE || code == EXIT_TIMEOUT ? NAGIOS_CRITICAL : NAGIOS_UNKNOWN;
}

/* Whether all that is to be said found room. */
static bool is_whole(const struct checking *checking)
{
    return !buf_status(&checking->lines) && !buf_status(&checking->first) &&
           !buf_status(&checking->objects) && !buf_status(&checking->metrics);
}

static int look(struct checking *checking)
{
    hf_status status = hf_stats_get(checking->cli->bus, &checking->stats);

    if (!status) {
        status = hf_subscription_list(checking->cli->bus, check_subscription, checking);
    }
    if (status) {
        return failure(cli_fail(status));
    }
    check_namespace(checking);
    check_names(checking);
    return is_whole(checking) ? NAGIOS_OK : failure(cli_fail(HF_NOMEM));
}

static int answer(struct checking *checking)
{
    if (args_given(&checking->cli->args, "prometheus")) {
        check_metrics_print(&checking->metrics, checking->cli, &checking->stats, checking->worst);
        return NAGIOS_OK; /* the status is one of the metrics */
    }
    if (checking->cli->json) {
        print_json(checking);
    } else {
        print_text(checking);
    }
    return checking->worst;
}

static int run_check(struct cli *cli)
{
    static struct checking checking;
    const struct args *args = &cli->args;
    int code = cli_open(cli, HF_OPEN_NOMIGRATE);

    if (code) {
        return failure(code);
    }
    checking = (struct checking){
        .cli = cli,
        .stats = {.size = sizeof checking.stats},
        .limits = {.max_wait_ms = args_number(args, "max-wait", MAX_WAIT_MS),
                   .max_dead = args_number(args, "max-dead", 0),
                   .max_lag = args_number(args, "max-lag", -1),
                   .nodes = args_number(args, "nodes", 0)},
    };
    buf_init(&checking.lines, LINE_BYTES_MAX);
    buf_init(&checking.first, LINE_BYTES_MAX);
    buf_init(&checking.objects, LINE_BYTES_MAX);
    buf_init(&checking.metrics, LINE_BYTES_MAX);
    code = look(&checking);
    if (!code) {
        code = answer(&checking);
    }
    buf_release(&checking.lines);
    buf_release(&checking.first);
    buf_release(&checking.objects);
    buf_release(&checking.metrics);
    return code;
}

static const struct option_row check_options[] = {
    {"max-wait", 0, OPTION_DURATION, "TIME", NULL, 0, 0,
     "how long the oldest event of a subscription may wait (5m)"},
    {"max-dead", 0, OPTION_NUMBER, "N", NULL, 0, INT64_MAX,
     "how many dead letters a subscription may have (0)"},
    {"max-lag", 0, OPTION_NUMBER, "N", NULL, 0, INT64_MAX,
     "how many positions a subscription may be behind (any number)"},
    {"nodes", 0, OPTION_NUMBER, "N", NULL, 0, INT64_MAX,
     "how many other processes must have the namespace open (0)"},
    {"prometheus", 0, OPTION_FLAG, NULL, NULL, 0, 0, "print metrics, exit with 0"},
    OPTION_END,
};

const struct command command_check = {
    .name = "check",
    .usage = "[SUB...]",
    .word_names = "subscriptions",
    .summary = "says whether something waits for too long; for monitoring",
    .examples = "  holdfast check --max-wait 5m --max-dead 0 --nodes 1\n"
                "  holdfast check mailer --max-lag 10000 --json\n"
                "  holdfast check --prometheus > /var/lib/node_exporter/holdfast.prom\n",
    .details = "Exits as plugins of Nagios do: 0 all is well, 1 a warning, 2 a limit is passed\n"
               "or the database does not answer, 3 it could not be checked. Events for later\n"
               "and schedules are overdue when no process has brought them for a minute.\n",
    .options = check_options,
    .words_max = ARGS_WORDS_MAX,
    .nagios = true,
    .run = run_check,
};
