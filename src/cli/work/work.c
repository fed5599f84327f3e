/*
 * work.c - the command `work`: subscriptions whose handlers are shell commands.
 *
 * The main thread waits for the end (wait.c); the bus's threads run the commands (deliver.c). The
 * first signal, or a closed stdout, stops taking events and lets running commands finish; a second
 * signal ends this process, and whenever this process dies, the guard ends its commands.
 */
#include "cli/work/work.h"
#include "base/banned.h"
#include "base/err.h"
#include "base/text/glob.h"
#include "base/time/clock.h"
#include "cli/config/suboptions.h"
#include "cli/config/webhook_options.h"
#include "cli/config/work_options.h"
#include "cli/core/args_value.h"
#include "cli/core/commands.h"
#include "cli/core/guard.h"
#include "cli/core/out.h"
#include "cli/core/stop.h"
#include "cli/core/url.h"

#define DRAIN_MARGIN_MS 1500 /* the longest margin_ms */

/* ---- Subscribing ----------------------------------------------------------------------------- */

static int note_stored(const hf_subscription_info *info, void *ctx)
{
    struct work_stored *stored = ctx;

    stored->exists = true;
    stored->created_at_us = info->created_at_us;
    stored->options = info->options;
    stored->pattern_count = 0;
    for (size_t i = 0; i < info->pattern_count && i < HF_PATTERNS_MAX; i++) {
        snprintf(stored->patterns[stored->pattern_count++], HF_TYPE_BYTES_MAX + 1, "%s",
                 info->patterns[i]);
    }
    return 0;
}

static bool is_covered(const struct work_item *item, const char *stored)
{
    for (size_t i = 0; i < item->pattern_count; i++) {
        if (glob_check_pattern(text_of(item->patterns[i])) == HF_OK &&
            glob_covers(text_of(item->patterns[i]), text_of(stored))) {
            return true;
        }
    }
    return false;
}

/* The stored subscription and the command line must fit; 0 or the exit code. */
static int check_fit(const struct args *args, struct work_item *item)
{
    struct work_stored *stored = &item->stored;

    if (!stored->exists && item->pattern_count == 0) {
        return args_usage(args,
                          "subscription %s does not exist yet: say which types it takes with "
                          "--on",
                          item->name);
    }
    if (!stored->exists && item->options.from.kind == HF_PLACE_NONE) {
        return args_usage(args,
                          "subscription %s does not exist yet: say where it starts with "
                          "--from start, now, a position or a time",
                          item->name);
    }
    if (item->pattern_count == 0) {
        for (size_t i = 0; i < stored->pattern_count; i++) {
            item->patterns[item->pattern_count++] = stored->patterns[i];
        }
    }
    for (size_t i = 0; stored->exists && i < stored->pattern_count; i++) {
        if (!is_covered(item, stored->patterns[i])) {
            return args_usage(args,
                              "subscription %s also takes '%s', which --on does not cover, "
                              "so nothing would be delivered; add --on '%s', or change the "
                              "subscription with `holdfast sub create`",
                              item->name, stored->patterns[i], stored->patterns[i]);
        }
    }
    return 0;
}

/* Makes the stored subscription what the file says. */
static int declare(struct work *work, struct work_item *item)
{
    hf_status status = hf_subscription_create(work->cli->bus, item->name, item->patterns,
                                              item->pattern_count, &item->options, NULL);

    if (status) {
        out_complain("%s:%d: subscription %s: %s", work->file, item->line, item->name, hf_errmsg());
    }
    return cli_exit_code(status);
}

/* A command cannot run inside a transaction of the database. */
static int refuse_transactional(const struct work *work, const struct work_item *item)
{
    bool stored = item->stored.exists && item->stored.options.transactional == HF_ON;
    if (!stored && item->options.transactional != HF_ON) {
        return EXIT_OK;
    }
    return args_usage(&work->cli->args,
                      "subscription %s is transactional: its handlers run inside a "
                      "transaction of the database, which a command cannot",
                      item->name);
}

static hf_status register_handlers(struct work *work, struct work_item *item)
{
    static const hf_subscription_options nothing = HF_SUBSCRIPTION_OPTIONS_INIT;
    const hf_subscription_options *options = work->file ? &nothing : &item->options;
    hf_bus *bus = work->cli->bus;
    hf_status status = HF_OK;
    for (size_t i = 0; i < item->pattern_count && !status; i++) {
        status = item->batches ? hf_subscribe_batch(bus, item->name, item->patterns[i],
                                                    deliver_batch, &item->deliver, options, NULL)
                               : hf_subscribe(bus, item->name, item->patterns[i], deliver_event,
                                              &item->deliver, options, NULL);
    }
    return status;
}

/* How the commands of a subscription run, now that its stored options are known. */
static void plan_runs(const struct work *work, struct work_item *item)
{
    struct deliver *deliver = &item->deliver;
    deliver->handler_timeout_ms = item->stored.options.handler_timeout_ms;
    deliver->timeout_option = work->file ? "handler.timeout" : "--timeout";
    deliver->inherit_stdout =
        work->count == 1 && item->stored.options.concurrency == 1 && !deliver->output.path;
}

static int subscribe(struct work *work, struct work_item *item)
{
    hf_bus *bus = work->cli->bus;
    hf_status status = hf_subscription_get(bus, item->name, note_stored, &item->stored);
    if (status && status != HF_NOTFOUND) {
        return cli_fail(status);
    }
    int code = refuse_transactional(work, item);
    if (!code) {
        code = work_assign_check(work, item);
    }
    if (!code && !item->stored.exists) {
        suboptions_for_commands(&item->options);
    }
    if (!code) {
        code = work->file ? declare(work, item) : check_fit(&work->cli->args, item);
    }
    if (code) {
        return code;
    }
    item->batches |=
        !work->file && item->stored.exists && item->stored.options.batch_by == HF_BATCH_KEY;
    status = register_handlers(work, item);
    if (!status) {
        status = hf_subscription_get(bus, item->name, note_stored, &item->stored);
    }
    if (status) {
        return cli_fail(status);
    }
    plan_runs(work, item);
    return work_assign(work, item);
}

/* ---- Stopping -------------------------------------------------------------------------------- */

static int stop_working(struct work *work)
{
    hf_stats stats = {.size = sizeof stats};
    int64_t until_us = clock_mono_us() + (work->drain_ms - work->margin_ms) * 1000;
    hf_status status;

    for (size_t i = 0; i < work->count; i++) {
        atomic_store(&work->items[i].deliver.drain_until_us, until_us);
    }
    status = hf_shutdown(work->cli->bus, work->drain_ms);
    if (status != HF_TIMEOUT && hf_stats_get(work->cli->bus, &stats) == HF_OK) {
        for (size_t i = 0; i < work->count; i++) {
            stats.failed -= atomic_load(&work->items[i].deliver.uncounted);
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
        snprintf(what, sizeof what, "%s", work->items[0].name);
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
    int code = cli_fail(hf_start(work->cli->bus));
    if (code) {
        return code;
    }
    say_begin(work);
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

/* False after a complaint. */
static bool open_webhook(struct work *work, struct work_item *item)
{
    struct deliver *deliver = &item->deliver;

    if (!item->webhook.url) {
        return true;
    }
    deliver->client = webhook_client(work->cli);
    if (!deliver->client) {
        return false;
    }
    item->webhook.log = work_log_record;
    item->webhook.log_ctx = &work->log;
    if (deliver->client->open(&item->webhook, &deliver->webhook)) {
        out_complain("subscription %s: %s", item->name, err_message());
        return false;
    }
    return true;
}

static bool init_items(struct work *work)
{
    for (size_t i = 0; i < work->count; i++) {
        struct deliver *deliver = &work->items[i].deliver;

        deliver->stop_grace_ms = work->margin_ms * 2 / 3;
        deliver->url = work->cli->url;
        if (!deliver_init(deliver)) {
            out_complain("out of memory");
            return false;
        }
        if (!output_open(&deliver->output, work->items[i].output) ||
            !open_webhook(work, &work->items[i])) {
            return false;
        }
    }
    return true;
}

/* If events are to be posted: this program can, or becomes the one that can, before it has begun
 * anything. False after a complaint. */
static bool find_client(struct work *work)
{
    for (size_t i = 0; i < work->count; i++) {
        if (work->items[i].webhook.url) {
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
    work->margin_ms = work->drain_ms / 4 < DRAIN_MARGIN_MS ? work->drain_ms / 4 : DRAIN_MARGIN_MS;
    if (!guard_start() || !init_items(work)) {
        return EXIT_ERROR;
    }
    work_log_options(options, &work->log);
    options->shutdown_ms = work->drain_ms;
    code = cli_open_with(cli, options);
    for (size_t i = 0; i < work->count && !code; i++) {
        code = subscribe(work, &work->items[i]);
    }
    if (!code && work->file) {
        code = work_declare(work);
    }
    if (!code) {
        stop_catch();
        code = work_until_end(work);
    }
    return code;
}

static int run_work(struct cli *cli)
{
    static struct work work; /* too large for a stack */
    hf_options options = cli_options(cli, HF_OPEN_CREATE);
    int code;

    work.cli = cli;
    code = work_plan(&work, &options);
    if (!code) {
        code = run_planned(&work, &options);
    }
    if (work.abandoned || (cli->bus && hf_close(&cli->bus) != HF_OK)) {
        return code; /* a handler or the waiter still uses all of it */
    }
    for (size_t i = 0; i < work.count; i++) {
        deliver_release(&work.items[i].deliver);
    }
    work_plan_release(&work);
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
    WORK_OPTION_NODE,
    WORK_OPTION_NODE_ID,
    WORK_OPTION_NODE_DESCRIPTION,
    WORK_OPTION_NODE_METADATA,
    WORK_OPTION_HEARTBEAT,
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
               "HOLDFAST_PAYLOAD.\n"
               "A command may run for a day; its event stays leased meanwhile. With --timeout\n"
               "its whole process group gets SIGTERM just before that time, and a second later\n"
               "SIGKILL.\n"
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
               "3 if the subscription was removed. With --until-empty also: 5 if it is paused or\n"
               "the time is over, 7 if an event became a dead letter, 1 after a signal.\n"
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
