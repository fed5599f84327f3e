/*
 * later.c - the commands of events that wait for their time: `later list`, `show`, `cancel` and
 * `move`.
 *
 * Lists are in the order in which events are due, and paged by the time and number of the last one
 * shown (--after), which stays right while events are kept, brought and cancelled.
 */
#include "cli/command/later.h"

#include "base/banned.h"
#include "base/time/time.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/core/moment.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/table.h"

#define LIST_LIMIT 100
#define DELAY_MS_MAX (INT64_C(86400000) * 366 * 1000)
#define CURSOR_BYTES 64

/* ---- list ------------------------------------------------------------------------------------ */

struct listing {
    const struct cli *cli;
    int64_t left;
    int64_t last_us; /* of the last one shown */
    int64_t last_number;
    struct out_table table;
};

static int list_one(const hf_later_info *info, void *ctx)
{
    struct listing *listing = ctx;
    const hf_event *event = &info->event;
    char words[OUT_WORDS_BYTES];

    listing->last_us = info->due_at_us;
    listing->last_number = info->number;
    listing->left--;
    if (listing->cli->json) {
        struct show_line line;
        show_later_row(show_line_begin(&line), info);
        show_line_end(&line);
    } else {
        out_table_cell(&listing->table,
                       out_when(info->due_at_us, listing->cli->started_at_us, words));
        out_table_cell(&listing->table, event->id);
        out_table_cell(&listing->table, event->type);
        out_table_cell(&listing->table, event->key);
        out_table_cell(&listing->table, event->tenant);
        out_table_cell(&listing->table, out_bytes((int64_t)event->payload_bytes, words));
    }
    return out_failed() || listing->left == 0;
}

/* "2026-11-20T17:00:00.000000Z/17", as the hint behind a full page says it. */
static bool read_cursor(const char *text, hf_later_filter *filter)
{
    const char *slash = strrchr(text, '/');
    char time[CURSOR_BYTES];

    if (!slash || (size_t)(slash - text) >= sizeof time) {
        return false;
    }
    snprintf(time, sizeof time, "%.*s", (int)(slash - text), text);
    return time_parse(text_of(time), &filter->after_due_at_us) == HF_OK &&
           args_value_number(slash + 1, 0, INT64_MAX, &filter->after_number);
}

static void say_more(const struct listing *listing)
{
    char words[OUT_WORDS_BYTES];

    if (listing->left == 0) {
        out_say("There may be more: --after %s/%" PRId64, out_time(listing->last_us, words),
                listing->last_number);
    }
}

static int run_list(struct cli *cli)
{
    static const struct out_column columns[] = {{"DUE", false, 0, 0},     {"ID", false, 0, 0},
                                                {"TYPE", false, 48, 0},   {"KEY", false, 32, 1},
                                                {"TENANT", false, 32, 3}, {"SIZE", true, 0, 2}};
    const struct args *args = &cli->args;
    struct listing listing = {.cli = cli, .left = args_number(args, "limit", LIST_LIMIT)};
    hf_later_filter filter = HF_LATER_FILTER_INIT;
    hf_place before = {HF_PLACE_TIME, -1};
    int code;

    filter.type = args_text(args, "type");
    filter.key = args_text(args, "key");
    filter.limit = (int32_t)listing.left;
    if (args_given(args, "overdue")) {
        filter.due_before_us = cli->started_at_us;
    }
    if (args_place(args, "due-before", &before)) {
        filter.due_before_us = before.value;
    }
    if (args_given(args, "after") && !read_cursor(args_text(args, "after"), &filter)) {
        return args_usage(args, "--after takes TIME/NUMBER, as the page before said it");
    }
    code = cli_open(cli, HF_OPEN_NOMIGRATE);
    if (code) {
        return code;
    }
    out_table_init(&listing.table, columns, sizeof columns / sizeof columns[0]);
    code = cli_fail(hf_later_list(cli->bus, &filter, list_one, &listing));
    out_table_end(&listing.table);
    fflush(stdout);
    if (!code && !cli->json && out_table_was_empty(&listing.table)) {
        bool all = !filter.type && !filter.key && filter.due_before_us == -1 &&
                   filter.after_due_at_us == -1;
        out_say(all ? "No event waits for its time. `holdfast publish --delay` makes one."
                    : "No event that waits for its time is like that.");
    } else if (!code) {
        say_more(&listing);
    }
    return code;
}

static const struct option_row list_options[] = {
    {"type", 0, OPTION_TEXT, "PATTERN", NULL, 0, 0, "only types that match"},
    {"key", 0, OPTION_TEXT, "KEY", NULL, 0, 0, "only of this key"},
    {"due-before", 0, OPTION_TIME, "TIME", NULL, 0, 0,
     "only those that are due before this time (18:00, 2026-11-20T17:00:00Z)"},
    {"overdue", 0, OPTION_FLAG, NULL, NULL, 0, 0, "only those whose time has come"},
    {"limit", 'n', OPTION_NUMBER, "N", NULL, 1, HF_LATER_MAX, "at most so many (100)"},
    {"after", 0, OPTION_TEXT, "TIME/NUMBER", NULL, 0, 0,
     "the next page, as the one before says it"},
    OPTION_END,
};

const struct command command_later_list = {
    .name = "later list",
    .usage = "",
    .summary = "lists events that wait for their time",
    .examples = "  holdfast later list\n"
                "  holdfast later list --type 'reminder.*' --due-before 18:00\n"
                "  holdfast later list --overdue\n",
    .options = list_options,
    .run = run_list,
};

/* ---- show ------------------------------------------------------------------------------------ */

void later_print(const hf_later_info *info, int64_t now_us)
{
    show_field_when("due_at", info->due_at_us, now_us);
    show_event_block(&info->event, now_us);
}

static int show_one(const hf_later_info *info, void *ctx)
{
    const struct cli *cli = ctx;

    if (args_given(&cli->args, "payload")) {
        out_payload(info->event.payload, info->event.payload_bytes);
    } else if (cli->json) {
        struct show_line line;
        show_later(show_line_begin(&line), info);
        show_line_end(&line);
    } else {
        later_print(info, cli->started_at_us);
    }
    return 0;
}

static int run_show(struct cli *cli)
{
    int code = cli_open(cli, HF_OPEN_NOMIGRATE);

    return code ? code : cli_fail(hf_later_get(cli->bus, cli->args.words[0], show_one, cli));
}

static const struct option_row show_options[] = {
    {"payload", 0, OPTION_FLAG, NULL, NULL, 0, 0, "print only the payload, byte for byte"},
    OPTION_END,
};

const struct command command_later_show = {
    .name = "later show",
    .usage = "ID",
    .summary = "shows an event that waits for its time",
    .examples = "  holdfast later show 0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55\n",
    .details = "`event show` finds it, too, before and after it has entered the log.\n",
    .options = show_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_show,
};

/* ---- cancel, move ---------------------------------------------------------------------------- */

/* What became of it: `done` is the field of the object. due_at_us: of a move; -1: a cancel. */
static int say_outcome(const struct cli *cli, const char *done, int64_t position, int64_t due_at_us)
{
    const char *id = cli->args.words[0];

    if (cli->json) {
        struct show_line line;
        struct json_out *json = show_line_begin(&line);
        show_string(json, "id", id);
        show_bool(json, done, position == 0);
        show_int(json, "position", position == 0 ? -1 : position);
        if (due_at_us != -1) {
            show_time(json, "due_at", position == 0 ? due_at_us : -1);
        }
        show_line_end(&line);
    }
    if (position != 0) {
        out_say("Event %s is in the log already, at position %" PRId64 ".", id, position);
        return EXIT_CONFLICT;
    }
    return EXIT_OK;
}

static int run_cancel(struct cli *cli)
{
    int64_t position = 0;
    int code = cli_open(cli, HF_OPEN_EXISTING);

    if (!code) {
        code = cli_fail(hf_later_cancel(cli->bus, cli->args.words[0], &position));
    }
    if (!code) {
        code = say_outcome(cli, "cancelled", position, -1);
    }
    if (!code) {
        out_say("Event %s is cancelled.", cli->args.words[0]);
    }
    return code;
}

const struct command command_later_cancel = {
    .name = "later cancel",
    .usage = "ID",
    .summary = "cancels an event that waits for its time",
    .examples = "  holdfast later cancel 0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55\n",
    .details = "An event that has entered the log stays there: the command says at which\n"
               "position, and exits with 4.\n",
    .words_min = 1,
    .words_max = 1,
    .run = run_cancel,
};

static int run_move(struct cli *cli)
{
    const struct args *args = &cli->args;
    hf_place at = {HF_PLACE_NOW, -1};
    int64_t due_at_us = cli->started_at_us + args_number(args, "delay", 0) * 1000;
    int64_t position = 0;
    char words[MOMENT_BYTES];
    int code;

    if (args_given(args, "at") == args_given(args, "delay")) {
        return args_usage(args, "--at or --delay says when it enters the log; give one");
    }
    if (args_place(args, "at", &at)) {
        due_at_us = at.value;
    }
    code = cli_open(cli, HF_OPEN_EXISTING);
    if (!code) {
        code = cli_fail(hf_later_move(cli->bus, args->words[0], due_at_us, &position));
    }
    if (!code) {
        code = say_outcome(cli, "moved", position, due_at_us);
    }
    if (!code) {
        out_say("Event %s enters the log at %s.", args->words[0], moment_format(due_at_us, words));
    }
    return code;
}

static const struct option_row move_options[] = {
    {"delay", 0, OPTION_DURATION, "TIME", NULL, 0, DELAY_MS_MAX,
     "so much later from now (10m, 1h30m, 2w)"},
    {"at", 0, OPTION_TIME, "TIME", NULL, 0, 0,
     "at this time: 18:00, 2026-11-20, '2026-11-20 18:00' (local), 2026-11-20T17:00:00Z"},
    OPTION_END,
};

const struct command command_later_move = {
    .name = "later move",
    .usage = "ID",
    .summary = "gives an event that waits another time",
    .examples = "  holdfast later move 0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55 --delay 2h\n"
                "  holdfast later move 0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55 --at 18:00\n",
    .details = "An event that has entered the log stays there: the command says at which\n"
               "position, and exits with 4.\n",
    .options = move_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_move,
};
