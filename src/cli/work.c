/*
 * work.c - the command `work`: a subscription whose handler is a shell command.
 *
 * The main thread waits for a signal, for the end of the backlog (--until-empty) or for the time
 * limit; the bus's threads run the commands (deliver.c). The first signal stops taking events and
 * lets running commands finish; a second one ends this process, and whenever this process dies, the
 * guard ends its commands.
 */
#include "base/banned.h"
#include "base/clock.h"
#include "base/deadline.h"
#include "base/glob.h"
#include "base/thread.h"
#include "cli/args_value.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/deliver.h"
#include "cli/guard.h"
#include "cli/out.h"
#include "cli/show.h"
#include "cli/stop.h"
#include "cli/suboptions.h"
#include "cli/work_log.h"

#include <errno.h>
#include <sys/eventfd.h>

#define DRAIN_MS 30000
#define DRAIN_MARGIN_MS 1500 /* the longest margin_ms */
#define JOIN_MS 5000

/* What is stored about the subscription. */
struct stored {
    bool exists;
    hf_subscription_options options;
    size_t pattern_count;
    char patterns[HF_PATTERNS_MAX][HF_TYPE_BYTES_MAX + 1];
};

struct work {
    struct cli *cli;
    const char *name;
    const char *patterns[HF_PATTERNS_MAX];
    size_t pattern_count;
    int64_t drain_ms;
    int64_t margin_ms; /* between ending the commands and the end of the drain */
    struct stored stored;
    struct deliver deliver;
};

/* ---- Subscribing ----------------------------------------------------------------------------- */

static int note_stored(const hf_subscription_info *info, void *ctx)
{
    struct stored *stored = ctx;

    stored->exists = true;
    stored->options = info->options;
    stored->pattern_count = 0;
    for (size_t i = 0; i < info->pattern_count && i < HF_PATTERNS_MAX; i++)
        snprintf(stored->patterns[stored->pattern_count++], HF_TYPE_BYTES_MAX + 1, "%s",
                 info->patterns[i]);
    return 0;
}

static bool is_covered(const struct work *work, const char *stored)
{
    for (size_t i = 0; i < work->pattern_count; i++) {
        if (glob_check_pattern(text_of(work->patterns[i])) == HF_OK &&
            glob_covers(text_of(work->patterns[i]), text_of(stored)))
            return true;
    }
    return false;
}

/* The stored subscription and the command line must fit; 0 or the exit code. */
static int check_fit(struct work *work)
{
    const struct args *args = &work->cli->args;
    struct stored *stored = &work->stored;
    hf_place place;

    if (!stored->exists && work->pattern_count == 0)
        return args_usage(args, "subscription %s does not exist yet: say which types it takes with "
                                "--on", work->name);
    if (!stored->exists && !args_place(args, "from", &place))
        return args_usage(args, "subscription %s does not exist yet: say where it starts with "
                                "--from start, now, a position or a time", work->name);
    if ((stored->exists && stored->options.transactional == HF_ON) ||
        args_number(args, "transactional", 0) == HF_ON)
        return args_usage(args, "subscription %s is transactional: its handlers run inside a "
                                "transaction of the database, which a command cannot", work->name);
    if (work->pattern_count == 0) {
        for (size_t i = 0; i < stored->pattern_count; i++)
            work->patterns[work->pattern_count++] = stored->patterns[i];
    }
    for (size_t i = 0; stored->exists && i < stored->pattern_count; i++) {
        if (!is_covered(work, stored->patterns[i]))
            return args_usage(args, "subscription %s also takes '%s', which --on does not cover, "
                                    "so nothing would be delivered; add --on '%s', or change the "
                                    "subscription with `holdfast sub create`",
                              work->name, stored->patterns[i], stored->patterns[i]);
    }
    return 0;
}

static int subscribe(struct work *work)
{
    hf_subscription_options options = suboptions_read(&work->cli->args);
    hf_bus *bus = work->cli->bus;
    hf_status status = hf_subscription_get(bus, work->name, note_stored, &work->stored);
    int code;

    if (status != HF_OK && status != HF_NOTFOUND)
        return cli_fail(status);
    code = check_fit(work);
    if (code)
        return code;
    for (size_t i = 0; i < work->pattern_count; i++) {
        status = hf_subscribe(bus, work->name, work->patterns[i], deliver_event, &work->deliver,
                              &options, NULL);
        if (status != HF_OK)
            return cli_fail(status);
    }
    code = cli_fail(hf_subscription_get(bus, work->name, note_stored, &work->stored));
    if (code)
        return code;
    work->deliver.handler_timeout_ms = work->stored.options.handler_timeout_ms;
    work->deliver.inherit_stdout = work->stored.options.concurrency == 1;
    return 0;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* hf_wait on a thread of its own, so that the main thread can answer signals. */
struct waiter {
    struct work *work;
    pthread_t thread;
    int done_fd; /* readable when it has answered */
    hf_status status;
    char message[1024]; /* hf_errmsg belongs to its thread */
};

static void *wait_until_empty(void *ctx)
{
    struct waiter *waiter = ctx;
    uint64_t one = 1;

    waiter->status = hf_wait(waiter->work->cli->bus, waiter->work->name, -1, -1);
    snprintf(waiter->message, sizeof(waiter->message), "%s", hf_errmsg());
    if (write(waiter->done_fd, &one, sizeof(one)) < 0)
        stop_request();
    return NULL;
}

static bool is_readable(int fd)
{
    uint64_t count;
    return fd >= 0 && read(fd, &count, sizeof(count)) == (ssize_t)sizeof(count);
}

/* True when everything is settled; false when it was stopped or the time is up. */
static bool wait_for_end(struct work *work, int done_fd)
{
    struct deadline deadline =
        deadline_after_ms(args_number(&work->cli->args, "max-time", -1));

    while (!stop_requested() && !deadline_passed(deadline)) {
        stop_wait(done_fd, deadline_left_ms(deadline));
        if (is_readable(done_fd))
            return true;
    }
    return false;
}

/* ---- Stopping -------------------------------------------------------------------------------- */

static int stop_working(struct work *work)
{
    hf_stats stats = {.size = sizeof(stats)};
    hf_status status;

    atomic_store(&work->deliver.drain_until_us,
                 clock_mono_us() + (work->drain_ms - work->margin_ms) * 1000);
    status = hf_stop(work->cli->bus, work->drain_ms);
    if (hf_stats_get(work->cli->bus, &stats) == HF_OK)
        out_say("%" PRId64 " done, %" PRId64 " failed attempt%s.", stats.delivered, stats.failed,
                stats.failed == 1 ? "" : "s");
    return cli_fail(status);
}

/* A wait that nobody needs any more ends with the bus. */
static void end_waiter(struct work *work, struct waiter *waiter)
{
    struct timespec until;

    hf_shutdown(work->cli->bus, 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += JOIN_MS / 1000;
    if (pthread_timedjoin_np(waiter->thread, NULL, &until) != 0)
        work->cli->bus = NULL; /* it still uses the handle: leave that to the exit */
}

static int work_until_end(struct work *work)
{
    bool until_empty = args_given(&work->cli->args, "until-empty");
    static struct waiter waiter = {.done_fd = -1, .status = HF_OK};
    bool empty;
    int code;

    waiter.work = work;
    code = cli_fail(hf_start(work->cli->bus));
    if (code)
        return code;
    out_say("Working for %s. Ctrl-C stops.", work->name);
    if (until_empty) {
        waiter.done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        code = cli_fail(thread_start(&waiter.thread, "wait", wait_until_empty, &waiter));
        if (code)
            return code;
    }
    empty = wait_for_end(work, waiter.done_fd);
    if (!empty && stop_requested())
        out_say("Stopping: running commands may finish. Ctrl-C again kills them.");
    code = stop_working(work);
    if (until_empty && empty)
        pthread_join(waiter.thread, NULL);
    else if (until_empty)
        end_waiter(work, &waiter);
    if (code)
        return code;
    if (empty && waiter.status != HF_OK)
        out_complain("%s", waiter.message);
    if (empty)
        return cli_exit_code(waiter.status);
    if (out_failed() || (until_empty && stop_requested()))
        return EXIT_ERROR;
    if (until_empty)
        out_complain("not everything was settled in time");
    return until_empty ? EXIT_TIMEOUT : EXIT_OK;
}

static int run_work(struct cli *cli)
{
    static struct work work; /* too large for a stack */
    const struct args *args = &cli->args;
    hf_options options = cli_options(cli, HF_OPEN_CREATE);
    const char *patterns[HF_PATTERNS_MAX + 1];
    size_t count = args_all(args, "on", patterns, HF_PATTERNS_MAX + 1);
    int code;

    if (!args_given(args, "exec"))
        return args_usage(args, "--exec is missing: the command to run for each event");
    if (count > HF_PATTERNS_MAX)
        return args_usage(args, "more than %d patterns", HF_PATTERNS_MAX);
    work.cli = cli;
    work.name = args->words[0];
    work.pattern_count = count;
    memcpy(work.patterns, patterns, count * sizeof(patterns[0]));
    work.drain_ms = args_number(args, "drain", DRAIN_MS);
    work.margin_ms = work.drain_ms / 4 < DRAIN_MARGIN_MS ? work.drain_ms / 4 : DRAIN_MARGIN_MS;
    work.deliver.stop_grace_ms = work.margin_ms * 2 / 3;
    work.deliver.command = args_text(args, "exec");
    work.deliver.url = cli->url;
    work.deliver.namespace_name = cli->namespace_name;
    if (!guard_start() || !deliver_init(&work.deliver))
        return EXIT_ERROR;
    work_log_options(&options, cli->json);
    options.node_name = args_text(args, "node");
    options.shutdown_ms = work.drain_ms;
    code = cli_open_with(cli, &options);
    if (!code)
        code = subscribe(&work);
    if (!code) {
        stop_catch();
        code = work_until_end(&work);
    }
    if (!cli->bus || hf_close(&cli->bus) == HF_OK)
        deliver_release(&work.deliver); /* no handler uses it any more */
    return code;
}

static const struct option_row options_rows[] = {
    {"exec", 0, OPTION_TEXT, "COMMAND", NULL, 0, 0, "run by /bin/sh -c for each event"},
    SUBOPTIONS_PATTERNS,
    {"until-empty", 0, OPTION_FLAG, NULL, NULL, 0, 0,
     "end when everything published so far is settled"},
    {"max-time", 0, OPTION_DURATION, "TIME", NULL, 0, 0, "end after this time"},
    {"drain", 0, OPTION_DURATION, "TIME", NULL, 0, 0,
     "when stopping, let running commands finish for so long (30s)"},
    {"node", 0, OPTION_TEXT, "NAME", NULL, 0, 0, "shown as the owner of the work (HOST:PID)"},
    OPTION_END,
};

const struct command command_work = {
    .name = "work",
    .usage = "SUB --exec COMMAND",
    .summary = "runs a command for each event of a subscription",
    .examples =
        "  holdfast work mailer --on 'user.*' --from start --exec './send-mail'\n"
        "  holdfast work mailer --exec 'jq -r .payload.email | xargs ./welcome'\n"
        "  holdfast work ledger --on 'order.**' --from now --mode shared --concurrency 8 \\\n"
        "      --timeout 1m --retries 5 --exec ./book\n"
        "  holdfast work report --on '*' --from 24h --exec ./count --until-empty\n",
    .details =
        "The command gets the event as one JSON object on stdin and its fields in the\n"
        "environment: HOLDFAST_ID, _TYPE, _POSITION, _KEY, _TENANT, _SUBSCRIPTION, _ATTEMPT ...\n"
        "Exit status 0: done. 65: dead letter now. 75 and any other: failed, tried again by the\n"
        "retry policy, then dead letter. The end of its stderr is kept as the attempt's error.\n"
        "Just before the timeout its whole process group gets SIGTERM, a second later SIGKILL.\n"
        "A subscription that does not exist is created and needs --on and --from.\n",
    .options = options_rows,
    .more = suboptions_rows,
    .words_min = 1,
    .words_max = 1,
    .run = run_work,
};
