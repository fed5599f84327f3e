/*
 * check.c - the command `check`: is everything as it should be? For monitoring.
 *
 * It answers what was found (findings.c) with the exit codes of Nagios. The same numbers come as
 * text for people and for Nagios (the first line says it all), as JSON, or as metrics for
 * Prometheus (exposition.c).
 *
 * Monitoring reads stdout, so a failure is an answer there, too: a database that does not answer is
 * critical, one that cannot be asked (it is not there, or refuses this program) and a mistyped
 * command line are unknown. Metrics then say that the database is not up, and no other number.
 */
#include "base/banned.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/watch/exposition.h"
#include "cli/watch/findings.h"

#include <assert.h>

#define LINE_BYTES_MAX ((size_t)1 << 30) /* some thousand subscriptions are some megabytes */

static_assert(ARGS_WORDS_MAX <= FINDINGS_NAMES_MAX, "all words may be subscriptions");

/* One check under way. */
struct checking {
    struct cli *cli;
    struct findings findings;
    struct exposition metrics;
};

static const char *namespace_of(const struct cli *cli)
{
    return cli->namespace_name ? cli->namespace_name : "default";
}

static int note_metrics(const hf_subscription_info *info, void *ctx)
{
    struct checking *checking = ctx;

    exposition_subscription(&checking->metrics, namespace_of(checking->cli), info,
                            checking->cli->started_at_us);
    return 0;
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void print_text(const struct findings *findings)
{
    const char *line = findings->lines.bytes;

    if (findings->problems == 0) {
        printf("OK: %" PRId64 " subscription%s, nothing waits for too long\n", findings->checked,
               findings->checked == 1 ? "" : "s");
        return;
    }
    printf("%s%s%s: ", out_on(findings->worst == NAGIOS_WARNING ? OUT_YELLOW : OUT_RED),
           findings_level(findings->worst), out_off());
    out_text(findings->first.bytes);
    if (findings->problems > 1) {
        printf(" (and %" PRId64 " more)\n", findings->problems - 1);
        for (int64_t i = 0; i < findings->problems; i++) {
            out_text(line);
            putchar('\n');
            line += strlen(line) + 1;
        }
    } else {
        putchar('\n');
    }
}

static void print_json(const struct findings *findings)
{
    struct show_line line;

    findings_show(show_line_begin(&line), findings);
    show_line_end(&line);
}

/* ---- The command ----------------------------------------------------------------------------- */

/* What a failure means: a database that does not answer, or is damaged, is trouble; what else keeps
 * it from being asked is not. */
static int failure_level(hf_status status)
{
    switch (status) {
    case HF_UNAVAILABLE:
    case HF_TIMEOUT:
    case HF_BUSY:
    case HF_UNKNOWN:
    case HF_IO:
    case HF_NOSPACE:
    case HF_CORRUPT:
        return FINDING_CRITICAL;
    default:
        return FINDING_UNKNOWN;
    }
}

/* The metrics as far as they were noted. The level of what was found is one of them. */
static int print_metrics(struct checking *checking)
{
    struct metric_labels labels = {.namespace_name = namespace_of(checking->cli)};
    struct buf text;
    hf_status status;

    exposition_number(&checking->metrics, METRIC_CHECK, labels, checking->findings.worst);
    buf_init(&text, LINE_BYTES_MAX);
    status = exposition_write(&checking->metrics, &text);
    if (!status) {
        fwrite(text.bytes, 1, text.length, stdout);
    }
    buf_release(&text);
    return status ? failure_level((cli_fail(status), status)) : NAGIOS_OK;
}

static void note_numbers(struct checking *checking)
{
    struct metric_labels labels = {.namespace_name = namespace_of(checking->cli)};
    struct metric_labels none = {0};
    struct metric_labels live = {labels.namespace_name, NULL, "state", "live"};
    const hf_stats *stats = &checking->findings.stats;
    struct exposition *metrics = &checking->metrics;
    hf_status up = hf_ping(checking->cli->bus, -1);

    exposition_number(metrics, METRIC_UP, none, up == HF_DENIED ? -1 : up == HF_OK);
    exposition_stats(metrics, labels.namespace_name, stats, checking->cli->started_at_us);
    exposition_store(metrics, stats);
    exposition_number(metrics, METRIC_NODES, live, stats->nodes);
}

/* What cannot be asked has no numbers: those of half a look are left out. */
static void note_failure(struct checking *checking, hf_status status)
{
    const char *message = hf_errmsg();

    message = message[0] ? message : hf_status_text(status);
    if (args_given(&checking->cli->args, "prometheus")) {
        out_complain("%s", message);
    }
    findings_fail(&checking->findings, failure_level(status), "database", message);
    exposition_release(&checking->metrics);
    exposition_init(&checking->metrics);
    exposition_number(&checking->metrics, METRIC_UP, (struct metric_labels){0}, 0);
}

static int answer(struct checking *checking)
{
    const struct findings *findings = &checking->findings;

    if (args_given(&checking->cli->args, "prometheus")) {
        return print_metrics(checking);
    }
    (checking->cli->json ? print_json : print_text)(findings);
    return findings->worst;
}

static int run_check(struct cli *cli)
{
    static struct checking checking;
    struct findings *findings = &checking.findings;
    const struct args *args = &cli->args;
    hf_options options = cli_options(cli, HF_OPEN_NOMIGRATE);
    hf_status status;
    int code;

    options.brief = 1;
    checking.cli = cli;
    findings_init(findings, cli->started_at_us);
    findings->limits = (struct check_limits){
        .max_wait_ms = args_number(args, "max-wait", FINDINGS_MAX_WAIT_MS),
        .max_dead = args_number(args, "max-dead", 0),
        .max_lag = args_number(args, "max-lag", -1),
        .nodes = args_number(args, "nodes", 0),
    };
    findings->names = args->words;
    findings->name_count = args->word_count;
    findings->see = note_metrics;
    findings->ctx = &checking;
    exposition_init(&checking.metrics);
    status = hf_open(cli->url, &options, &cli->bus);
    status = status ? status : findings_look(findings, cli->bus);
    if (status) {
        note_failure(&checking, status);
    } else if (args_given(args, "prometheus")) {
        note_numbers(&checking);
    }
    code = answer(&checking);
    findings_release(findings);
    exposition_release(&checking.metrics);
    return code;
}

/* Answers that the command line cannot be followed. No metrics are printed: they could not name the
 * database that they are of. */
static int mistaken(const char *message, char **words)
{
    static struct findings findings;
    bool json = false;
    bool prometheus = false;

    for (; *words; words++) {
        json |= strcmp(*words, "--json") == 0;
        prometheus |= strcmp(*words, "--prometheus") == 0;
    }
    if (!prometheus) {
        findings_init(&findings, 0);
        findings_fail(&findings, FINDING_UNKNOWN, "usage", message);
        (json ? print_json : print_text)(&findings);
        findings_release(&findings);
    }
    return NAGIOS_UNKNOWN;
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
               "or the database does not answer, 3 it is not there or the command line is\n"
               "wrong; the line on stdout begins with that word. --prometheus exits with 0\n"
               "also then, with holdfast_store_up 0. Events for later and schedules are\n"
               "overdue when no process has brought them for a minute.\n",
    .options = check_options,
    .words_max = ARGS_WORDS_MAX,
    .mistaken = mistaken,
    .run = run_check,
};
