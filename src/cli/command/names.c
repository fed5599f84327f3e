/*
 * names.c - `holdfast names`: the names of what there is, one per line.
 *
 * For scripts and for the shell's completion, which asks for them while a command is typed: nothing
 * is made, and a database that is not there has no names.
 */
#include "base/banned.h"
#include "base/text/json_write.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"

static int print_name(const struct cli *cli, const char *name)
{
    if (cli->json) {
        struct show_line line;
        struct json_out *json = show_line_begin(&line);

        show_string(json, "name", name);
        show_line_end(&line);
    } else {
        out_text(name);
        putchar('\n');
    }
    return out_failed();
}

static int see_subscription(const hf_subscription_info *info, void *ctx)
{
    return print_name(ctx, info->name);
}

static int see_schedule(const hf_schedule_info *info, void *ctx)
{
    return print_name(ctx, info->schedule.name);
}

static int see_namespace(const hf_namespace_info *info, void *ctx)
{
    return print_name(ctx, info->name);
}

static int run_names(struct cli *cli)
{
    const char *kind = cli->args.words[0];
    bool namespaces = strcmp(kind, "namespaces") == 0;
    bool schedules = strcmp(kind, "schedules") == 0;
    int code;

    if (!namespaces && !schedules && strcmp(kind, "subscriptions") != 0) {
        return args_usage(&cli->args, "KIND is subscriptions, schedules or namespaces, not '%s'",
                          kind);
    }
    code = namespaces ? cli_open_whole(cli, HF_OPEN_NOMIGRATE) : cli_open(cli, HF_OPEN_NOMIGRATE);
    if (code) {
        return code;
    }
    if (namespaces) {
        return cli_fail(hf_namespace_list(cli->bus, see_namespace, cli));
    }
    if (schedules) {
        return cli_fail(hf_schedule_list(cli->bus, see_schedule, cli));
    }
    return cli_fail(hf_subscription_list(cli->bus, see_subscription, cli));
}

const struct command command_names = {
    .name = "names",
    .usage = "KIND",
    .summary = "prints names of subscriptions, schedules or namespaces",
    .examples = "  holdfast names subscriptions\n"
                "  holdfast names namespaces | xargs -n1 holdfast stats --namespace\n",
    .words_min = 1,
    .words_max = 1,
    .word_choices = "subscriptions|schedules|namespaces",
    .run = run_names,
};
