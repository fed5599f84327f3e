/*
 * work.c - the command `work`: subscriptions whose handlers are shell commands.
 *
 * The main thread waits for the end (wait.c); the bus's threads run the commands (deliver.c). The
 * first signal, or a closed stdout, stops taking events and lets running commands finish; a second
 * signal ends this process, and whenever this process dies, the guard ends its commands.
 */
#include "cli/work/work.h"
#include "base/banned.h"
#include "base/time/clock.h"
#include "cli/config/suboptions.h"
#include "cli/config/webhook_options.h"
#include "cli/config/work_options.h"
#include "cli/core/args_value.h"
#include "cli/core/commands.h"
#include "cli/core/guard.h"
#include "cli/core/url.h"
#include "cli/terminal/out.h"
#include "cli/terminal/stop.h"

/* ---- Stopping -------------------------------------------------------------------------------- */

static int stop_working(struct work *work)
{
    hf_stats stats = {.size = sizeof stats};
    int64_t until_us = clock_mono_us() + (work->drain_ms - work->margin_ms) * 1000;
    hf_status status;

    work_drain(work, until_us);
    status = hf_shutdown(work->cli->bus, work->drain_ms);
    if (status != HF_TIMEOUT && hf_stats_get(work->cli->bus, &stats) == HF_OK) {
        for (size_t i = 0; i < work->count; i++) {
            stats.failed -= atomic_load(&work->items[i]->deliver.uncounted);
        }
        work_log_say(NULL, "%" PRId64 " done, %" PRId64 " failed attempt%s.", stats.delivered,
                     stats.failed, stats.failed == 1 ? "" : "s");
    }
    return cli_fail(status);
}

/* The file was replaced: what runs may finish, although what it answers cannot be stored. The
 * supervisor starts a process that opens the file which is there now. */
static int give_up(struct work *work)
{
    int code = cli_fail(hf_check(work->cli->bus));

    hf_stop(work->cli->bus, work->drain_ms);
    hf_shutdown(work->cli->bus, 0);
    work_wait_end(work);
    return code;
}

/* The first line names the database: what is worked for may be somewhere else than expected. */
static void say_begin(const struct work *work)
{
    const struct cli *cli = work->cli;
    char url[URL_SHOWN_BYTES];
    char what[HF_NAME_BYTES_MAX + 512];

    if (work->count == 1) {
        snprintf(what, sizeof what, "%s", work->items[0]->name);
    } else {
        snprintf(what, sizeof what, "%zu subscriptions of %s", work->count, work->file);
    }
    work_log_say(NULL, "Working for %s on %s%s%s. Ctrl-C stops.", what, url_shown(cli->url, url),
                 cli->namespace_name ? ", namespace " : "",
                 cli->namespace_name ? cli->namespace_name : "");
}

static void say_end(enum work_end end)
{
    if (end == WORK_END_SIGNAL) {
        work_log_say(NULL, "Stopping: running commands may finish. Ctrl-C again kills them.");
    } else if (end == WORK_END_OUTPUT) {
        work_log_say(NULL, "Stopping: no program reads the output any more.");
    }
}

static int work_until_end(struct work *work)
{
    say_begin(work); /* before the threads that start now say anything */
    int code = cli_fail(hf_start(work->cli->bus));
    if (code) {
        return code;
    }
    code = work_wait_begin(work);
    if (code) {
        hf_shutdown(work->cli->bus, 0);
        work_wait_end(work);
        return code;
    }
    enum work_end end = work_wait(work);
    if (end == WORK_END_STORE) {
        return give_up(work);
    }
    say_end(end);
    code = stop_working(work);
    work_wait_end(work);
    return code ? code : work_exit_code(work, end);
}

/* If events are to be posted: this program can, or becomes the one that can, before it has begun
 * anything. False after a complaint. */
static bool find_client(struct work *work)
{
    for (size_t i = 0; i < work->count; i++) {
        if (work->items[i]->webhook.url) {
            return webhook_client(work->cli) != NULL;
        }
    }
    return true;
}

static int run_planned(struct work *work, hf_options *options)
{
    struct cli *cli = work->cli;
    int code;

    if (!find_client(work)) {
        return EXIT_UNAVAILABLE;
    }
    if (!guard_start()) {
        return EXIT_ERROR;
    }
    code = work_prepare(work);
    if (!code) {
        work_log_options(options, work->log);
        options->shutdown_ms = work->drain_ms;
        code = cli_open_with(cli, options);
    }
    code = code ? code : work_join(work);
    if (!code) {
        stop_catch();
        code = work_until_end(work);
    }
    return code;
}

static int run_work(struct cli *cli)
{
    static struct work work; /* threads that are left behind may use it until the exit */
    static struct work_log log;
    hf_options options = cli_options(cli, HF_OPEN_CREATE);
    int code;

    work.cli = cli;
    work.log = &log;
    log.says_pauses = args_given(&cli->args, "until-empty");
    code = work_plan(&work, &options);
    if (!code) {
        code = run_planned(&work, &options);
    }
    if (work.abandoned || (cli->bus && hf_close(&cli->bus) != HF_OK)) {
        return code; /* a handler or the waiter still uses all of it */
    }
    work_release(&work);
    return code;
}

static const struct option_row options_rows[] = {
    WORK_OPTION_EXEC,
    WORK_OPTION_OUTPUT,
    WEBHOOK_OPTIONS,
    WORK_OPTION_CONFIG,
    SUBOPTIONS_PATTERNS,
    WORK_OPTION_PARTITION,
    WORK_OPTION_TOTAL,
    {"until-empty", 0, OPTION_FLAG, NULL, NULL, 0, 0, "end when everything published is settled"},
    {"max-time", 0, OPTION_DURATION, "TIME", NULL, 0, 0, "end after this time"},
    WORK_OPTION_DRAIN,
    WORK_OPTIONS_NODE,
    OPTION_END,
};

const struct command command_work = {
    .name = "work",
    .usage = "[SUB ...] --exec CMD | --http URL | --config FILE",
    .word_names = "subscriptions",
    .summary = "runs a command, or posts a webhook, for each event",
    .examples = "  holdfast work mailer --on 'user.*' --from start --exec './send-mail'\n"
                "  holdfast work mailer --exec 'jq -r .payload.email | xargs ./welcome'\n"
                "  holdfast work ledger --on 'order.**' --from now --mode shared \\\n"
                "      --concurrency 8 --timeout 1m --retries 5 --exec ./book\n"
                "  holdfast work report --on '*' --from 24h --exec ./count --until-empty\n"
                "  holdfast work ledger --partition 0-3 --total-partitions 8 --exec ./book\n"
                "  holdfast work totals --on 'order.**' --from now --batch-by key --exec ./add\n"
                "  holdfast work audit --on '*' --from now --http https://example.com/in \\\n"
                "      --secret-file /etc/holdfast/audit.secret\n"
                "  holdfast work --config shop.yaml\n"
                "  holdfast work mailer ledger --config shop.yaml --concurrency 2\n",
    .details = "The command gets the event as one JSON object on stdin and its fields in the\n"
               "environment: HOLDFAST_ID, _TYPE, _POSITION, _KEY, _TENANT, _SUBSCRIPTION,\n"
               "_ATTEMPT, _DELIVERIES, _NAMESPACE ... Exit status 0: done. 65: dead letter now.\n"
               "75 and any other: failed, tried again by the retry policy, then dead letter. The\n"
               "end of its stderr is kept as the attempt's error. A small payload is also in\n"
               "HOLDFAST_PAYLOAD. What it prints on stdout is the stdout of `work`, which prints\n"
               "nothing else there; with --json the lines on stderr are objects.\n"
               "A command may run as long as it needs; its event stays leased meanwhile. With\n"
               "--timeout its whole process group gets SIGTERM just before that time, and a\n"
               "second later SIGKILL.\n"
               "With --output what a run prints is kept in files SUB-POSITION-ATTEMPT.out and\n"
               ".err below DIR, up to 64 MiB each, besides being passed on. A run that prints\n"
               "nothing leaves no file; removing old ones is up to you.\n"
               "With --batch-by it gets several events, one JSON object per line;\n"
               "$HOLDFAST_EVENTS says how many, and the exit status is that of all of them.\n"
               "With --http the event is posted as a CloudEvent. A 2xx answer: done; 410: the\n"
               "subscription is paused; 400, 413, 415 and 422: dead letter; others, and no\n"
               "complete answer: failed, tried again, after Retry-After at the earliest.\n"
               "Redirects are not followed; private addresses are refused unless allowed.\n"
               "Processes that work for one subscription share its partitions out. With\n"
               "--partition a process takes exactly those, and the others leave them to it.\n"
               "A subscription that does not exist is created and needs --on and --from.\n"
               "Exit status: 0, also after a signal; 1 if no program reads the output any more;\n"
               "3 if the subscription was removed. With --until-empty also: 1 after a signal,\n"
               "7 if an event became a dead letter, else 5 if it is paused or the time is over.\n"
               "With --config the file says what to work for: all its subscriptions, or those\n"
               "that are named. Options of the command line win over the file. Without SUB and\n"
               "--config the file is holdfast.yaml; `holdfast config keys` lists what may be in\n"
               "it.\n",
    .options = options_rows,
    .more = suboptions_rows,
    .words_max = CONFIG_SUBSCRIPTIONS_MAX,
    .json_messages = true,
    .run = run_work,
};
