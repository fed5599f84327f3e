/*
 * schedule.c - the commands of schedules: `schedule add`, `list`, `show`, `pause`, `resume`, `run`,
 * `rm`. `schedule next` is in schedule_next.c.
 */
#include "base/banned.h"
#include "base/mem.h"
#include "cli/command/schedule_runs.h"
#include "cli/config/schedule_options.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/table.h"

#define RUNS_BYTES_MAX (512 << 20)
#define RUNS_DEFAULT 10
#define OVERDUE_MS 5000 /* a schedule that should have fired so long ago is in trouble */

/* ---- add ------------------------------------------------------------------------------------- */

static int run_add(struct cli *cli)
{
    const struct args *args = &cli->args;
    hf_schedule schedule = HF_SCHEDULE_INIT;
    char *owned = NULL;
    int32_t created = 0;
    int code;

    schedule.name = args->words[0];
    schedule.expression = args->words[1];
    schedule.type = args->words[2];
    schedule.zone = args_text(args, "zone");
    schedule.key = args_text(args, "key");
    schedule.tenant = args_text(args, "tenant");
    schedule.metadata = args_text(args, "metadata");
    schedule.misfire = (hf_misfire)args_number(args, "misfire", 0);
    schedule.misfire_cap = (int32_t)args_number(args, "misfire-cap", -1);
    schedule.grace_ms = args_number(args, "grace", -1);
    schedule.driver = (hf_driver)args_number(args, "driver", 0);
    schedule.paused = args_given(args, "paused") ? "" : NULL;
    if (args->word_count > 3 &&
        !cli_payload(args->words[3], &schedule.payload, &schedule.payload_bytes, &owned)) {
        return EXIT_ERROR;
    }
    code = cli_open(cli, HF_OPEN_CREATE);
    if (!code) {
        code = cli_fail(hf_schedule_put(cli->bus, &schedule, &created));
    }
    mem_free(owned);
    if (!code && cli->json) {
        show_created(args->words[0], created != 0);
    } else if (!code) {
        out_say("Schedule %s %s.", args->words[0], created ? "added" : "changed");
    }
    return code;
}

static const struct option_row add_options[] = {
    SCHEDULE_OPTION_ZONE,
    SCHEDULE_OPTION_KEY,
    SCHEDULE_OPTION_TENANT,
    SCHEDULE_OPTION_METADATA,
    SCHEDULE_OPTION_MISFIRE,
    SCHEDULE_OPTION_CAP,
    SCHEDULE_OPTION_GRACE,
    SCHEDULE_OPTION_DRIVER,
    {"paused", 0, OPTION_FLAG, NULL, NULL, 0, 0, "a new one is paused from the beginning"},
    OPTION_END,
};

const struct command command_schedule_add = {
    .name = "schedule add",
    .usage = "NAME EXPRESSION TYPE [JSON|-]",
    .word_names = "schedules",
    .summary = "adds a schedule that publishes an event, or changes it",
    .examples = "  holdfast schedule add report '0 9 * * MON-FRI' report.due --zone Europe/Berlin\n"
                "  holdfast schedule add beat '*/10 * * * * *' beat '{\"from\": \"cron\"}'\n"
                "  holdfast schedule add bill '0 0 1 * *' bill.due --misfire once\n"
                "  holdfast schedule add nightly '0 3 * * *' night --driver pg_cron\n",
    .details = "Every process that works (`holdfast work`, or a program with the library) fires\n"
               "what is due, and so do `claim`, `tail --follow` and `tick`; each planned time is\n"
               "published once. `schedule next` explains expressions. With --driver pg_cron\n"
               "(PostgreSQL where that extension is installed, UTC, no seconds) the database\n"
               "fires it, also while no process works.\n",
    .options = add_options,
    .words_min = 3,
    .words_max = 4,
    .run = run_add,
};

/* ---- list, show ------------------------------------------------------------------------------ */

struct schedule_view {
    const struct cli *cli;
    struct out_table table;
};

/* With the ledger, if there is one to show. */
static void print_json(const hf_schedule_info *info, struct buf *runs)
{
    struct show_line line;
    struct json_out *json = show_line_begin(&line);

    show_schedule(json, info);
    if (runs) {
        show_raw(json, "runs", buf_terminate(runs), runs->length);
    }
    show_line_end(&line);
}

static int list_one(const hf_schedule_info *info, void *ctx)
{
    struct schedule_view *view = ctx;
    char words[OUT_WORDS_BYTES];

    if (view->cli->json) {
        print_json(info, NULL);
        return out_failed();
    }
    out_table_cell(&view->table, info->schedule.name);
    out_table_cell(&view->table, info->schedule.expression);
    out_table_cell(&view->table, info->schedule.zone);
    out_table_cell(&view->table, info->paused_at_us >= 0
                                     ? "paused"
                                     : out_when(info->next_at_us, view->cli->started_at_us, words));
    if (info->paused_at_us >= 0) {
        out_table_mark(&view->table, OUT_YELLOW);
    } else if (info->next_at_us >= 0 &&
               info->next_at_us < view->cli->started_at_us - OVERDUE_MS * 1000) {
        out_table_mark(&view->table, OUT_RED);
    }
    out_table_cell(&view->table,
                   show_choice_word(SHOW_DRIVERS, (int)info->schedule.driver, words, sizeof words));
    out_table_cell(&view->table, info->schedule.type);
    return out_failed();
}

static int run_list(struct cli *cli)
{
    static const struct out_column columns[] = {
        {"SCHEDULE", false, 40, 0}, {"EXPRESSION", false, 32, 0}, {"ZONE", false, 32, 1},
        {"NEXT", false, 0, 0},      {"DRIVER", false, 0, 2},      {"TYPE", false, 40, 0},
    };
    struct schedule_view view = {.cli = cli};
    int code = cli_open(cli, HF_OPEN_NOMIGRATE);

    if (code) {
        return code;
    }
    out_table_init(&view.table, columns, sizeof columns / sizeof columns[0]);
    code = cli_fail(hf_schedule_list(cli->bus, list_one, &view));
    out_table_end(&view.table);
    if (!code && !cli->json && out_table_was_empty(&view.table)) {
        out_say("No schedules. `holdfast schedule add` makes one.");
    }
    return code;
}

const struct command command_schedule_list = {
    .name = "schedule list",
    .usage = "",
    .summary = "lists schedules and when they fire next",
    .examples = "  holdfast schedule list\n"
                "  holdfast schedule list --json\n",
    .run = run_list,
};

static int show_one(const hf_schedule_info *info, void *ctx)
{
    struct buf *runs = ctx;
    const hf_schedule *schedule = &info->schedule;
    char words[OUT_WORDS_BYTES];

    if (runs) {
        print_json(info, runs);
        return 0;
    }
    show_field("schedule", schedule->name);
    show_field("id", info->id);
    show_field("expression", schedule->expression);
    show_field("zone", schedule->zone);
    show_field("next", out_time(info->next_at_us, words));
    show_field("driver",
               show_choice_word(SHOW_DRIVERS, (int)schedule->driver, words, sizeof words));
    show_field("misfire",
               show_choice_word(SHOW_MISFIRES, (int)schedule->misfire, words, sizeof words));
    show_field("grace", out_duration(schedule->grace_ms, words));
    show_field("type", schedule->type);
    show_field("key", schedule->key);
    show_field("tenant", schedule->tenant);
    show_field("metadata", schedule->metadata);
    if (info->paused_at_us >= 0) {
        show_field("paused", out_time(info->paused_at_us, words));
        show_field("by", info->paused_by);
        show_field("reason", info->paused_reason);
    }
    show_field("payload", schedule->payload);
    return 0;
}

static int run_show(struct cli *cli)
{
    const char *name = cli->args.words[0];
    int32_t count = (int32_t)args_number(&cli->args, "runs", RUNS_DEFAULT);
    struct buf runs;
    int code = cli_open(cli, HF_OPEN_NOMIGRATE);

    buf_init(&runs, RUNS_BYTES_MAX);
    if (!code && cli->json) {
        code = schedule_runs_json(cli->bus, name, count, &runs);
    }
    if (!code) {
        code = cli_fail(hf_schedule_get(cli->bus, name, show_one, cli->json ? &runs : NULL));
    }
    if (!code && !cli->json) {
        code = schedule_runs_print(cli->bus, name, count);
    }
    buf_release(&runs);
    return code;
}

static const struct option_row show_options[] = {
    {"runs", 0, OPTION_NUMBER, "N", NULL, 0, HF_SCHEDULE_RUNS_MAX,
     "the last so many firings; 0 is none (10)"},
    OPTION_END,
};

const struct command command_schedule_show = {
    .name = "schedule show",
    .usage = "NAME",
    .word_names = "schedules",
    .summary = "shows a schedule, and what became of its planned times",
    .examples = "  holdfast schedule show report\n"
                "  holdfast schedule show report --runs 100\n",
    .details = "The last 100 are kept: those that fired, those that were run by hand, and those\n"
               "that were missed and skipped.\n",
    .options = show_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_show,
};

/* ---- pause, resume, run, rm ------------------------------------------------------------------ */

static int run_pause(struct cli *cli)
{
    const struct args *args = &cli->args;
    int code = cli_open(cli, HF_OPEN_EXISTING);

    if (code) {
        return code;
    }
    code = cli_fail(hf_schedule_pause(cli->bus, args->words[0], args_text(args, "reason")));
    if (!code && cli->json) {
        show_changed(args->words[0], "paused", true);
    }
    return code;
}

static const struct option_row pause_options[] = {
    {"reason", 0, OPTION_TEXT, "TEXT", NULL, 0, 0, "why; shown by `schedule show`"},
    OPTION_END,
};

const struct command command_schedule_pause = {
    .name = "schedule pause",
    .usage = "NAME",
    .word_names = "schedules",
    .summary = "stops a schedule until `schedule resume`",
    .examples = "  holdfast schedule pause report --reason holidays\n",
    .details = "Nothing fires meanwhile; times missed during a pause are skipped.\n",
    .options = pause_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_pause,
};

static int run_resume(struct cli *cli)
{
    int code = cli_open(cli, HF_OPEN_EXISTING);

    if (!code) {
        code = cli_fail(hf_schedule_resume(cli->bus, cli->args.words[0]));
    }
    if (!code && cli->json) {
        show_changed(cli->args.words[0], "paused", false);
    }
    return code;
}

const struct command command_schedule_resume = {
    .name = "schedule resume",
    .usage = "NAME",
    .word_names = "schedules",
    .summary = "ends a pause; times missed meanwhile are skipped",
    .examples = "  holdfast schedule resume report\n",
    .words_min = 1,
    .words_max = 1,
    .run = run_resume,
};

static int run_run(struct cli *cli)
{
    hf_receipt receipt;
    int code = cli_open(cli, HF_OPEN_EXISTING);

    if (!code) {
        code = cli_fail(hf_schedule_run(cli->bus, cli->args.words[0], &receipt));
    }
    if (!code) {
        show_receipt_line(cli->json, &receipt, -1);
    }
    return code;
}

const struct command command_schedule_run = {
    .name = "schedule run",
    .usage = "NAME",
    .word_names = "schedules",
    .summary = "publishes the event of a schedule now",
    .examples = "  holdfast schedule run report\n",
    .words_min = 1,
    .words_max = 1,
    .run = run_run,
};

static int exists(const hf_schedule_info *info, void *ctx)
{
    (void)info, (void)ctx;
    return 0;
}

static int run_rm(struct cli *cli)
{
    const char *name = cli->args.words[0];
    int code = cli_open(cli, HF_OPEN_EXISTING);

    if (!code) {
        code = cli_fail(hf_schedule_get(cli->bus, name, exists, NULL));
    }
    if (!code) {
        code = cli_confirm(cli, "Remove schedule %s", name);
    }
    if (!code) {
        code = cli_fail(hf_schedule_remove(cli->bus, name));
    }
    if (!code && cli->json) {
        show_changed(name, "removed", true);
    } else if (!code) {
        out_say("Schedule %s removed. Its events stay.", name);
    }
    return code;
}

static const struct option_row rm_options[] = {CLI_OPTION_YES, OPTION_END};

const struct command command_schedule_rm = {
    .name = "schedule rm",
    .usage = "NAME",
    .word_names = "schedules",
    .summary = "removes a schedule; its events stay",
    .examples = "  holdfast schedule rm report --yes\n",
    .options = rm_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_rm,
};
