/*
 * sub.c - the commands that change subscriptions: `sub create`, `pause`, `resume`, `seek`, `rm`.
 *
 * What loses something asks first: rm loses progress; a seek back makes work be done again; a seek
 * forward, or any seek while retries wait, loses deliveries. The question says how much.
 */
#include "base/banned.h"
#include "cli/config/suboptions.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"

/* ---- create ---------------------------------------------------------------------------------- */

/* Another number of partitions may have to wait: says what for. */
static int say_waiting(const hf_subscription_info *info, void *ctx)
{
    const hf_subscription_options *wanted = ctx;

    if (wanted->partitions != -1 && info->options.partitions != wanted->partitions &&
        info->not_moving) {
        out_say("Not yet: %s.", info->not_moving);
    }
    return 0;
}

static int ignore_info(const hf_subscription_info *info, void *ctx)
{
    (void)info;
    (void)ctx;
    return 0;
}

static int run_create(struct cli *cli)
{
    const struct args *args = &cli->args;
    hf_subscription_options options = suboptions_read(args);
    const char *patterns[HF_PATTERNS_MAX + 1];
    size_t count = args_all(args, "on", patterns, HF_PATTERNS_MAX + 1);
    int32_t created = 0;
    int code = suboptions_check(args);

    if (code) {
        return code;
    }
    if (count == 0) {
        return args_usage(args, "no pattern: say which types with --on, for example --on 'user.*'");
    }
    if (count > HF_PATTERNS_MAX) {
        return args_usage(args, "more than %d patterns", HF_PATTERNS_MAX);
    }
    code = cli_open(cli, HF_OPEN_CREATE);
    if (code) {
        return code;
    }
    if (hf_subscription_get(cli->bus, args->words[0], ignore_info, NULL) == HF_NOTFOUND) {
        suboptions_for_commands(&options);
    }
    code = cli_fail(
        hf_subscription_create(cli->bus, args->words[0], patterns, count, &options, &created));
    if (code) {
        return code;
    }
    if (cli->json) {
        show_created(args->words[0], created != 0);
    } else {
        out_say("Subscription %s %s.", args->words[0], created ? "created" : "changed");
        code = cli_fail(hf_subscription_get(cli->bus, args->words[0], say_waiting, &options));
    }
    return code;
}

static const struct option_row create_options[] = {SUBOPTIONS_PATTERNS, OPTION_END};

const struct command command_sub_create = {
    .name = "sub create",
    .usage = "SUB --on PATTERN --from PLACE",
    .word_names = "subscriptions",
    .summary = "creates a subscription, or changes its patterns and options",
    .examples = "  holdfast sub create mailer --on 'user.*' --from now --mode shared\n"
                "  holdfast sub create ledger --on 'order.**' --on refund.paid --from start\n"
                "  holdfast sub create mailer --on 'user.*' --retries 10 --retry-max 5m\n",
    .details = "A new subscription needs --from. For one that exists, patterns that are given\n"
               "replace the stored ones, and so do options; mode and order cannot change. A new\n"
               "number of partitions takes effect when all have the same checkpoint.\n",
    .options = create_options,
    .more = suboptions_rows,
    .words_min = 1,
    .words_max = 1,
    .run = run_create,
};

/* ---- pause, resume --------------------------------------------------------------------------- */

static int run_pause(struct cli *cli)
{
    const struct args *args = &cli->args;
    int code = cli_open(cli, HF_OPEN_EXISTING);

    if (code) {
        return code;
    }
    code = cli_fail(hf_pause(cli->bus, args->words[0], args_text(args, "reason")));
    if (!code && cli->json) {
        show_changed(args->words[0], "paused", true);
    }
    return code;
}

static int run_resume(struct cli *cli)
{
    int code = cli_open(cli, HF_OPEN_EXISTING);

    if (code) {
        return code;
    }
    code = cli_fail(hf_resume(cli->bus, cli->args.words[0]));
    if (!code && cli->json) {
        show_changed(cli->args.words[0], "paused", false);
    }
    return code;
}

static const struct option_row pause_options[] = {
    {"reason", 0, OPTION_TEXT, "TEXT", NULL, 0, 0, "why; shown by `sub show`"},
    OPTION_END,
};

const struct command command_sub_pause = {
    .name = "sub pause",
    .usage = "SUB",
    .word_names = "subscriptions",
    .summary = "stops handing out events until `sub resume`",
    .examples = "  holdfast sub pause mailer --reason 'smtp server is being moved'\n",
    .details = "Running handlers finish, and their results are stored.\n",
    .options = pause_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_pause,
};

const struct command command_sub_resume = {
    .name = "sub resume",
    .usage = "SUB",
    .word_names = "subscriptions",
    .summary = "ends a pause, and closes an open breaker",
    .examples = "  holdfast sub resume mailer\n",
    .words_min = 1,
    .words_max = 1,
    .run = run_resume,
};

/* ---- seek ------------------------------------------------------------------------------------ */

/* What a seek would do. */
struct seek {
    int64_t checkpoint;
    int64_t waiting; /* retries and held events that it drops */
    int64_t target;
    int64_t count; /* positions that will come (again) */
};

static int note_progress(const hf_subscription_info *info, void *ctx)
{
    struct seek *seek = ctx;

    seek->checkpoint = info->checkpoint;
    seek->waiting = (info->retrying > 0 ? info->retrying : 0) + (info->held > 0 ? info->held : 0);
    return 0;
}

static int confirm_seek(const struct cli *cli, const char *name, const struct seek *seek)
{
    if (seek->target < seek->checkpoint) {
        return cli_confirm(cli,
                           "Move %s back from position %" PRId64 " to %" PRId64 ", so that %" PRId64
                           " positions come again, and drop %" PRId64 " waiting retries",
                           name, seek->checkpoint, seek->target, seek->count, seek->waiting);
    }
    if (seek->target > seek->checkpoint || seek->waiting > 0) {
        return cli_confirm(cli,
                           "Move %s forward from position %" PRId64 " to %" PRId64
                           ", skip what is between, and drop %" PRId64 " waiting retries",
                           name, seek->checkpoint, seek->target, seek->waiting);
    }
    return 0;
}

static void print_seek(const struct cli *cli, const char *name, const struct seek *seek,
                       bool dry_run)
{
    struct show_line line;

    if (!cli->json) {
        out_text(name);
        printf(" %s at position %" PRId64 "; %" PRId64 " positions %s come\n",
               dry_run ? "would be" : "is", seek->target, seek->count, dry_run ? "would" : "will");
        return;
    }
    struct json_out *json = show_line_begin(&line);
    show_int(json, "position", seek->target);
    show_int(json, "count", seek->count);
    show_int(json, "dropped_retries", seek->waiting);
    show_bool(json, "dry_run", dry_run);
    show_line_end(&line);
}

static int run_seek(struct cli *cli)
{
    const struct args *args = &cli->args;
    const char *name = args->words[0];
    bool dry_run = args_given(args, "dry-run");
    struct seek seek = {0, 0, 0, 0};
    hf_place place;
    hf_status status;
    int code;

    if (!args_place(args, "to", &place)) {
        return args_usage(args, "where to? --to start, end, a position, a time, or how long ago");
    }
    code = cli_open(cli, HF_OPEN_EXISTING);
    if (code) {
        return code;
    }
    status = hf_subscription_get(cli->bus, name, note_progress, &seek);
    if (!status) {
        status = hf_locate(cli->bus, place, &seek.target);
    }
    if (!status) {
        status = hf_seek(cli->bus, name, place, HF_ON, &seek.count);
    }
    if (status) {
        return cli_fail(status);
    }
    if (!dry_run) {
        code = confirm_seek(cli, name, &seek);
        if (code) {
            return code;
        }
        code = cli_fail(hf_seek(cli->bus, name, place, HF_OFF, &seek.count));
        if (code) {
            return code;
        }
    }
    print_seek(cli, name, &seek, dry_run);
    return EXIT_OK;
}

static const struct option_row seek_options[] = {
    {"to", 0, OPTION_PLACE, "PLACE", NULL, 0, 0,
     "start, end, a position (the first event after it), a time, or how long ago (2h)"},
    {"dry-run", 0, OPTION_FLAG, NULL, NULL, 0, 0, "change nothing; say how many events would come"},
    CLI_OPTION_YES,
    OPTION_END,
};

const struct command command_sub_seek = {
    .name = "sub seek",
    .usage = "SUB --to PLACE",
    .word_names = "subscriptions",
    .summary = "moves a subscription to another place of the log",
    .examples = "  holdfast sub seek ledger --to start --dry-run\n"
                "  holdfast sub seek ledger --to 2h --yes\n"
                "  holdfast sub seek mailer --to end\n",
    .details = "Leases end, waiting retries and held events go, dead letters stay. Works while\n"
               "the subscription is being processed. Asks first if it moves or drops anything.\n",
    .options = seek_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_seek,
};

/* ---- rm -------------------------------------------------------------------------------------- */

static int run_rm(struct cli *cli)
{
    const char *name = cli->args.words[0];
    struct seek seek = {0, 0, 0, 0};
    int code = cli_open(cli, HF_OPEN_EXISTING);

    if (code) {
        return code;
    }
    code = cli_fail(hf_subscription_get(cli->bus, name, note_progress, &seek));
    if (code) {
        return code;
    }
    code = cli_confirm(cli,
                       "Remove subscription %s with its progress (position %" PRId64
                       ") and %" PRId64 " waiting retries",
                       name, seek.checkpoint, seek.waiting);
    if (code) {
        return code;
    }
    code = cli_fail(hf_subscription_remove(cli->bus, name));
    if (!code && cli->json) {
        show_changed(name, "removed", true);
    } else if (!code) {
        out_say("Subscription %s removed. Its dead letters stay.", name);
    }
    return code;
}

static const struct option_row rm_options[] = {CLI_OPTION_YES, OPTION_END};

const struct command command_sub_rm = {
    .name = "sub rm",
    .usage = "SUB",
    .word_names = "subscriptions",
    .summary = "removes a subscription; its dead letters stay",
    .examples = "  holdfast sub rm mailer\n"
                "  holdfast sub rm mailer --yes\n",
    .options = rm_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_rm,
};
