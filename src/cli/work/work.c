/*
 * work.c - the command `work`: subscriptions whose handlers are shell commands.
 *
 * The main thread waits for a signal, for the end of the backlog (--until-empty) or for the time
 * limit; the bus's threads run the commands (deliver.c). The first signal stops taking events and
 * lets running commands finish; a second one ends this process, and whenever this process dies, the
 * guard ends its commands.
 */
#include "cli/work/work.h"
#include "base/banned.h"
#include "base/err.h"
#include "base/text/glob.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "base/time/deadline.h"
#include "cli/config/suboptions.h"
#include "cli/config/work_options.h"
#include "cli/core/args_value.h"
#include "cli/core/commands.h"
#include "cli/core/guard.h"
#include "cli/core/out.h"
#include "cli/core/stop.h"
#include "cli/work/log.h"

#include <errno.h>
#include <sys/eventfd.h>

#define DRAIN_MARGIN_MS 1500 /* the longest margin_ms */
#define JOIN_MS 5000
#define CHECK_MS 1000   /* between two looks whether the bus can go on */
#define REASONS_MS 5000 /* between two looks at why a backlog does not end */

/* ---- Subscribing ----------------------------------------------------------------------------- */

static int note_stored(const hf_subscription_info *info, void *ctx)
{
    struct work_stored *stored = ctx;

    stored->exists = true;
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
    item->deliver.handler_timeout_ms = item->stored.options.handler_timeout_ms;
    item->deliver.inherit_stdout = work->count == 1 && item->stored.options.concurrency == 1;
    return work_assign(work, item);
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
    const struct work *work = waiter->work;
    hf_bus *bus = work->cli->bus;
    uint64_t one = 1;

    for (size_t i = 0; i < work->count && !waiter->status; i++) {
        waiter->status = hf_wait(bus, work->items[i].name, -1, -1);
    }
    snprintf(waiter->message, sizeof waiter->message, "%s", hf_errmsg());
    if (write(waiter->done_fd, &one, sizeof one) < 0) {
        stop_request();
    }
    return NULL;
}

static bool is_readable(int fd)
{
    uint64_t count;
    return fd >= 0 && read(fd, &count, sizeof count) == (ssize_t)sizeof count;
}

static int note_reason(const hf_subscription_info *info, void *ctx)
{
    struct work_item *item = ctx;

    if (info->not_moving && strcmp(info->not_moving, item->waits_for) != 0) {
        out_say("%s waits: %s.", item->name, info->not_moving);
    }
    snprintf(item->waits_for, sizeof item->waits_for, "%s",
             info->not_moving ? info->not_moving : "");
    return 0;
}

/* Who waits for the end of a backlog is told why it does not come: a blocked key, a pause. */
static void say_reasons(struct work *work)
{
    for (size_t i = 0; i < work->count; i++) {
        hf_subscription_get(work->cli->bus, work->items[i].name, note_reason, &work->items[i]);
    }
}

/* True when everything is settled; false when it was stopped, the time is up, or the bus cannot go
 * on. */
static bool wait_for_end(struct work *work, int done_fd)
{
    struct deadline deadline = deadline_after_ms(args_number(&work->cli->args, "max-time", -1));

    struct deadline reasons = deadline_after_ms(REASONS_MS);

    while (!stop_requested() && !deadline_passed(deadline) && hf_check(work->cli->bus) == HF_OK) {
        int64_t left_ms = deadline_left_ms(deadline);

        stop_wait(done_fd, left_ms < 0 || left_ms > CHECK_MS ? CHECK_MS : left_ms);
        if (is_readable(done_fd)) {
            return true;
        }
        if (done_fd >= 0 && !stop_requested() && deadline_passed(reasons)) {
            say_reasons(work);
            reasons = deadline_after_ms(REASONS_MS);
        }
    }
    return false;
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
        out_say("%" PRId64 " done, %" PRId64 " failed attempt%s.", stats.delivered, stats.failed,
                stats.failed == 1 ? "" : "s");
    }
    return cli_fail(status);
}

/* A wait that is not needed any more ends with the bus. */
static void end_waiter(struct work *work, struct waiter *waiter)
{
    struct timespec until;

    hf_shutdown(work->cli->bus, 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += JOIN_MS / 1000;
    if (pthread_timedjoin_np(waiter->thread, NULL, &until) != 0) {
        work->cli->bus = NULL;
        work->abandoned = true;
    }
}

/* The file was replaced: what runs may finish, although what it answers cannot be stored. The
 * supervisor starts a process that opens the file which is there now. */
static int give_up(struct work *work, struct waiter *waiter, bool until_empty)
{
    int code = cli_fail(hf_check(work->cli->bus));

    hf_stop(work->cli->bus, work->drain_ms);
    if (until_empty) {
        end_waiter(work, waiter);
    }
    return code;
}

static void say_begin(const struct work *work)
{
    if (work->count == 1) {
        out_say("Working for %s. Ctrl-C stops.", work->items[0].name);
    } else {
        out_say("Working for %zu subscriptions of %s. Ctrl-C stops.", work->count, work->file);
    }
}

/* With --until-empty: a thread that waits until everything is settled. */
static int start_waiter(struct waiter *waiter)
{
    waiter->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return cli_fail(thread_start(&waiter->thread, "wait", wait_until_empty, waiter));
}

/* The exit code of a stop with --until-empty that nothing went wrong in. */
static int until_empty_code(const struct waiter *waiter, bool empty)
{
    if (empty) {
        if (waiter->status) {
            out_complain("%s", waiter->message);
        }
        return cli_exit_code(waiter->status);
    }
    if (out_failed() || stop_requested()) {
        return EXIT_ERROR;
    }
    out_complain("not everything was settled in time");
    return EXIT_TIMEOUT;
}

static int work_until_end(struct work *work)
{
    static struct waiter waiter = {.done_fd = -1, .status = HF_OK};
    bool until_empty = args_given(&work->cli->args, "until-empty");
    waiter.work = work;
    int code = cli_fail(hf_start(work->cli->bus));
    if (code) {
        return code;
    }
    say_begin(work);
    code = until_empty ? start_waiter(&waiter) : EXIT_OK;
    if (code) {
        return code;
    }
    bool empty = wait_for_end(work, waiter.done_fd);
    if (!empty && hf_check(work->cli->bus)) {
        return give_up(work, &waiter, until_empty);
    }
    if (!empty && stop_requested()) {
        out_say("Stopping: running commands may finish. Ctrl-C again kills them.");
    }
    code = stop_working(work);
    if (until_empty && empty) {
        pthread_join(waiter.thread, NULL);
    } else if (until_empty) {
        end_waiter(work, &waiter);
    }
    if (code) {
        return code;
    }
    if (until_empty) {
        return until_empty_code(&waiter, empty);
    }
    return out_failed() ? EXIT_ERROR : EXIT_OK;
}

static bool init_items(struct work *work)
{
    for (size_t i = 0; i < work->count; i++) {
        struct deliver *deliver = &work->items[i].deliver;

        deliver->stop_grace_ms = work->margin_ms * 2 / 3;
        deliver->url = work->cli->url;
        deliver->namespace_name = work->cli->namespace_name;
        if (!deliver_init(deliver)) {
            out_complain("out of memory");
            return false;
        }
    }
    return true;
}

static int run_planned(struct work *work, hf_options *options)
{
    struct cli *cli = work->cli;
    int code;

    work->margin_ms = work->drain_ms / 4 < DRAIN_MARGIN_MS ? work->drain_ms / 4 : DRAIN_MARGIN_MS;
    if (!guard_start() || !init_items(work)) {
        return EXIT_ERROR;
    }
    work_log_options(options, cli->json);
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
    WORK_OPTION_CONFIG,
    SUBOPTIONS_PATTERNS,
    WORK_OPTION_PARTITION,
    WORK_OPTION_TOTAL,
    {"until-empty", 0, OPTION_FLAG, NULL, NULL, 0, 0,
     "end when everything published so far is settled"},
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
    .usage = "SUB --exec COMMAND | [SUB ...] --config FILE",
    .summary = "runs a command for each event of a subscription",
    .examples = "  holdfast work mailer --on 'user.*' --from start --exec './send-mail'\n"
                "  holdfast work mailer --exec 'jq -r .payload.email | xargs ./welcome'\n"
                "  holdfast work ledger --on 'order.**' --from now --mode shared \\\n"
                "      --concurrency 8 --timeout 1m --retries 5 --exec ./book\n"
                "  holdfast work report --on '*' --from 24h --exec ./count --until-empty\n"
                "  holdfast work ledger --partition 0-3 --total-partitions 8 --exec ./book\n"
                "  holdfast work totals --on 'order.**' --from now --batch-by key --exec ./add\n"
                "  holdfast work --config shop.yaml\n"
                "  holdfast work mailer ledger --config shop.yaml --concurrency 2\n",
    .details = "The command gets the event as one JSON object on stdin and its fields in the\n"
               "environment: HOLDFAST_ID, _TYPE, _POSITION, _KEY, _TENANT, _SUBSCRIPTION,\n"
               "_ATTEMPT ... Exit status 0: done. 65: dead letter now. 75 and any other: failed,\n"
               "tried again by the retry policy, then dead letter. The end of its stderr is kept\n"
               "as the attempt's error. Just before the timeout its whole process group gets\n"
               "SIGTERM, a second later SIGKILL.\n"
               "With --batch-by it gets several events, one JSON object per line;\n"
               "$HOLDFAST_EVENTS says how many, and the exit status is that of all of them.\n"
               "Processes that work for one subscription share its partitions out. With\n"
               "--partition a process takes exactly those, and the others leave them to it.\n"
               "A subscription that does not exist is created and needs --on and --from.\n"
               "With --config the file says what to work for: all its subscriptions, or those\n"
               "that are named. Options of the command line win over the file. Without SUB and\n"
               "--config the file is holdfast.yaml; `holdfast config keys` lists what may be in\n"
               "it.\n",
    .options = options_rows,
    .more = suboptions_rows,
    .words_max = CONFIG_SUBSCRIPTIONS_MAX,
    .run = run_work,
};
