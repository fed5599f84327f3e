/*
 * tick.c - the command `tick`: fires schedules that are due and brings events for later into the
 * log, for those who run no process that works, from cron for example.
 */
#include "base/banned.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"

static void print_json(const hf_tick_info *info)
{
    struct show_line line;

    show_tick(show_line_begin(&line), info);
    show_line_end(&line);
}

static void print_text(const struct cli *cli, const hf_tick_info *info)
{
    char words[OUT_WORDS_BYTES];

    show_field("fired", out_number(info->fired, words));
    show_field("for later", out_number(info->released, words));
    if (info->refused > 0) {
        show_field("cannot be read", out_number(info->refused, words));
    }
    show_field("next due", info->next_due_at_us == -1
                               ? "nothing waits"
                               : out_when(info->next_due_at_us, cli->started_at_us, words));
}

static int run_tick(struct cli *cli)
{
    hf_tick_info info = {.size = sizeof info};
    int code = cli_open(cli, HF_OPEN_EXISTING);

    if (!code) {
        code = cli_fail(hf_tick(cli->bus, &info));
    }
    if (!code && cli->json) {
        print_json(&info);
    } else if (!code) {
        print_text(cli, &info);
    }
    return code;
}

const struct command command_tick = {
    .name = "tick",
    .usage = "",
    .summary = "fires what is due, and brings events for later",
    .examples = "  holdfast tick\n"
                "  * * * * * holdfast tick --db postgres:///shop >/dev/null    (crontab)\n",
    .details = "For a database that no process works on: `work`, `claim`, `tail --follow` and\n"
               "programs with the library do this by themselves. Any number of them may do it\n"
               "at the same time; everything is published once.\n",
    .run = run_tick,
};
