/*
 * schedule_next.c - the command `schedule next`: when a cron expression fires in a time zone.
 *
 * It needs no database, unless it is asked about a schedule by its name. What has a space or begins
 * with @ is an expression; a schedule whose name does is meant with --name. Times that are not what
 * the expression says at first sight, because clocks are changed, carry a note.
 */
#include "base/banned.h"
#include "base/time/coming.h"
#include "base/time/time.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/table.h"

#define TIMES_DEFAULT 5
#define TIMES_MAX 10000

static void print_json(const struct coming *coming, const struct zone *zone)
{
    struct show_line line;
    struct json_out *json = show_line_begin(&line);

    show_coming(json, coming, zone);
    show_line_end(&line);
}

static void print_times(const struct cli *cli, const struct cron *cron, const struct zone *zone,
                        int64_t after_us, int64_t count)
{
    static const struct out_column columns[] = {
        {"LOCAL", false, 0, 0}, {"", false, 0, 0},     {"UTC", false, 0, 1},
        {"WHEN", false, 0, 0},  {"NOTE", false, 0, 0},
    };
    struct out_table table;
    int64_t at_us = after_us;
    int64_t found = 0;

    out_table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (; found < count && !out_failed(); found++) {
        char utc[TIME_TEXT_BYTES], words[OUT_WORDS_BYTES];

        struct coming coming;

        if (!coming_next(cron, zone, at_us, &coming)) {
            break;
        }
        at_us = coming.at_us;
        if (cli->json) {
            print_json(&coming, zone);
            continue;
        }
        time_format(at_us, utc);
        out_table_cell(&table, coming.local);
        out_table_cell(&table, coming.abbreviation);
        out_table_printf(&table, "%.19sZ", utc);
        out_table_cell(&table, out_when(at_us, cli->started_at_us, words));
        out_table_cell(&table, coming.note);
    }
    out_table_end(&table);
    if (found < count && !out_failed()) {
        out_say("No %stime is known after that.", found > 0 ? "other " : "");
    }
}

/* What is asked about. */
struct question {
    struct cron cron;
    struct zone *zone; /* owned */
    hf_status status;
    bool paused;
};

static void read_question(const char *expression, const char *zone, struct question *question)
{
    question->status = cron_parse(text_of(expression), &question->cron);
    if (!question->status) {
        question->status = zone_new(text_of(zone ? zone : "UTC"), getenv("TZDIR"), &question->zone);
    }
}

static int read_schedule(const hf_schedule_info *info, void *ctx)
{
    struct question *question = ctx;

    read_question(info->schedule.expression, info->schedule.zone, question);
    question->paused = info->paused_at_us >= 0;
    return 0;
}

static bool is_name(const struct args *args)
{
    const char *word = args->words[0];

    return args_given(args, "name") || (word[0] != '@' && !strpbrk(word, " \t"));
}

/* By the name of a schedule. */
static int ask_by_name(struct cli *cli, struct question *question)
{
    const char *name = cli->args.words[0];
    int code;

    if (args_text(&cli->args, "zone")) {
        return args_usage(&cli->args, "--zone goes with an expression; a schedule has its own");
    }
    code = cli_open(cli, HF_OPEN_NOMIGRATE);
    if (!code) {
        code = cli_fail(hf_schedule_get(cli->bus, name, read_schedule, question));
    }
    if (!code && question->paused) {
        out_say("Schedule %s is paused: nothing fires until `schedule resume`.", name);
    }
    return code;
}

static int run_next(struct cli *cli)
{
    const struct args *args = &cli->args;
    hf_place after = {.kind = HF_PLACE_NOW};
    struct question question = {.zone = NULL};
    int64_t count = args_number(args, "count", TIMES_DEFAULT);
    int code = EXIT_OK;

    args_place(args, "after", &after);
    if (args->word_count > 1 && args_given(args, "count")) {
        return args_usage(args, "the second word and --count say how many times; give one");
    }
    if (args->word_count > 1 && !args_value_number(args->words[1], 1, TIMES_MAX, &count)) {
        return args_usage(args, "the second word is how many times are shown, 1 to 10000");
    }
    if (is_name(args)) {
        code = ask_by_name(cli, &question);
    } else {
        read_question(args->words[0], args_text(args, "zone"), &question);
    }
    if (!code) {
        code = cli_fail(question.status);
    }
    if (!code) {
        print_times(cli, &question.cron, question.zone,
                    after.kind == HF_PLACE_TIME ? after.value : cli->started_at_us, count);
    }
    zone_free(question.zone);
    return code;
}

static const struct option_row next_options[] = {
    {"zone", 0, OPTION_TEXT, "ZONE", NULL, 0, 0,
     "the time zone, such as Europe/Berlin (default: UTC)"},
    {"count", 'n', OPTION_NUMBER, "N", NULL, 1, TIMES_MAX, "so many times (5)"},
    {"after", 0, OPTION_MOMENT, "TIME", NULL, 0, 0,
     "times after this one: a time, now (the default), or how long ago (2h)"},
    {"name", 0, OPTION_FLAG, NULL, NULL, 0, 0, "the word is the name of a schedule in any case"},
    OPTION_END,
};

const struct command command_schedule_next = {
    .name = "schedule next",
    .usage = "EXPRESSION|NAME [COUNT]",
    .summary = "shows when an expression or a schedule fires next",
    .examples = "  holdfast schedule next '0 9 * * MON-FRI' --zone Europe/Berlin\n"
                "  holdfast schedule next report 10\n"
                "  holdfast schedule next @hourly -n 24 --zone America/St_Johns\n"
                "  holdfast schedule next '30 2 * * *' --zone Europe/Berlin --after 2026-03-28\n",
    .details = "Five fields: minute, hour, day of month, month, day of week; or six with the\n"
               "seconds first. A field is * or a list of values and ranges (1-5), each with a\n"
               "step (*/15) or not. Months and weekdays have names (JAN, MON). If both fields of\n"
               "days restrict, one of them is enough. Also @hourly, @daily, @weekly, @monthly,\n"
               "@yearly; and @every 5m, the multiples of a period (1s to 365d) since 1970.\n"
               "\n"
               "With fixed hours a time that the clocks jump over runs when they jump, and one\n"
               "that they show twice runs once, the first time; such times are marked. With * or\n"
               "a step for the hour every real hour counts.\n"
               "\n"
               "A word without spaces is the name of a schedule, unless it begins with @.\n",
    .options = next_options,
    .words_min = 1,
    .words_max = 2,
    .run = run_next,
};
