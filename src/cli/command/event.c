/*
 * event.c - the commands `event show` and `event list`: the event, and where it is everywhere.
 */
#include "base/banned.h"
#include "base/text/utf8.h"
#include "cli/command/event_find.h"
#include "cli/command/later.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/table.h"

#define READ_EVENTS 500
#define LIST_LIMIT 100

/* ---- event show ------------------------------------------------------------------------------ */

struct view {
    const struct cli *cli;
    struct show_line line;
    struct json_out *json; /* of the line, once the event is there; NULL: text for people */
    struct out_table table;
    bool attempts; /* the second pass: the attempts of those that have some */
};

static int view_event(const hf_event *event, void *ctx)
{
    struct view *view = ctx;

    if (args_given(&view->cli->args, "payload")) {
        out_payload(event->payload, event->payload_bytes);
        return 0;
    }
    if (view->cli->json) {
        view->json = show_line_begin(&view->line);
        show_event(view->json, event);
        json_key(view->json, "states");
        json_array_begin(view->json);
    } else {
        show_event_block(event, view->cli->started_at_us);
        putchar('\n');
    }
    return 0;
}

/* Says since when, by whom and why it is cancelled, or is to be. */
static void view_cancel(const struct view *view, const hf_event_state *state)
{
    char words[OUT_WORDS_BYTES];

    if (state->state != HF_STATE_CANCELLED && !state->cancel_requested) {
        return;
    }
    putchar('\n');
    out_text(state->subscription);
    if (state->state == HF_STATE_CANCELLED) {
        printf(": cancelled %s", out_ago(state->cancelled_at_us, view->cli->started_at_us, words));
    } else {
        fputs(": to be cancelled, as soon as the process that has it answers", stdout);
    }
    if (state->cancelled_by) {
        fputs(", by ", stdout);
        out_text(state->cancelled_by);
    }
    if (state->cancel_reason) {
        fputs(": ", stdout);
        out_text(state->cancel_reason);
    }
    putchar('\n');
}

static int view_state(const hf_event_state *state, void *ctx)
{
    struct view *view = ctx;
    char words[OUT_WORDS_BYTES];

    if (view->json) {
        json_object_begin(view->json);
        show_event_state(view->json, state);
        json_object_end(view->json);
    } else if (view->attempts) {
        view_cancel(view, state);
        if (!state->attempts_json || strcmp(state->attempts_json, "[]") == 0) {
            return 0;
        }
        putchar('\n');
        out_text(state->subscription);
        putchar('\n');
        show_attempts(state->attempts_json);
    } else {
        out_table_cell(&view->table, state->subscription);
        out_table_cell(&view->table, hf_state_name(state->state));
        if (state->state == HF_STATE_DEAD) {
            out_table_mark(&view->table, OUT_RED);
        }
        out_table_number(&view->table, state->attempts);
        out_table_number(&view->table, state->deliveries);
        out_table_number(&view->table, state->dead_id);
        out_table_cell(&view->table,
                       out_when(state->next_attempt_at_us, view->cli->started_at_us, words));
        out_table_cell(&view->table, state->node ? state->node : "-");
        out_table_cell(&view->table, out_ago(state->since_us, view->cli->started_at_us, words));
    }
    return 0;
}

/* One that waits for its time: it has no states yet. */
static int view_later(const hf_later_info *info, void *ctx)
{
    struct view *view = ctx;

    if (args_given(&view->cli->args, "payload")) {
        out_payload(info->event.payload, info->event.payload_bytes);
    } else if (view->cli->json) {
        struct show_line line;
        struct json_out *json = show_line_begin(&line);

        show_later(json, info);
        json_key(json, "states");
        json_array_begin(json);
        json_array_end(json);
        show_line_end(&line);
    } else {
        later_print(info, view->cli->started_at_us);
    }
    return 0;
}

static hf_status view_all(struct cli *cli, struct view *view, const char *id)
{
    static const struct out_column columns[] = {
        {"SUBSCRIPTION", false, 48, 0},  {"STATE", false, 0, 0},
        {"FAILED ATTEMPTS", true, 0, 0}, {"DELIVERIES", true, 0, 2},
        {"DEAD LETTER", true, 0, 3},     {"NEXT ATTEMPT", false, 0, 1},
        {"NODE", false, 40, 0},          {"SINCE", false, 0, 0}};
    hf_status status = hf_event_get(cli->bus, id, view_event, view);

    if (status || args_given(&cli->args, "payload")) {
        return status;
    }
    out_table_init(&view->table, columns, sizeof columns / sizeof columns[0]);
    status = hf_event_states(cli->bus, id, view_state, view);
    out_table_end(&view->table);
    if (view->json && status) {
        show_line_drop(&view->line);
    } else if (view->json) {
        json_array_end(view->json);
        show_line_end(&view->line);
    }
    if (status || view->json) {
        return status;
    }
    view->attempts = true;
    return hf_event_states(cli->bus, id, view_state, view);
}

/* What waits for its time is looked for first: it may enter the log, and nothing leaves that. */
static int show_word(struct cli *cli, struct view *view, const char *word)
{
    struct event_name name;
    int code;

    if (hf_later_get(cli->bus, word, view_later, view) == HF_OK) {
        return EXIT_OK;
    }
    code = event_find(cli, word, &name);
    return code ? code : cli_fail(view_all(cli, view, name.id));
}

static int run_show(struct cli *cli)
{
    struct view view = {.cli = cli};
    int code = cli_open(cli, HF_OPEN_NOMIGRATE);

    return code ? code : show_word(cli, &view, cli->args.words[0]);
}

static const struct option_row show_options[] = {
    {"payload", 0, OPTION_FLAG, NULL, NULL, 0, 0, "print only the payload, byte for byte"},
    OPTION_END,
};

const struct command command_event_show = {
    .name = "event show",
    .usage = "ID|POSITION",
    .summary = "shows an event and its state in every subscription",
    .examples = "  holdfast event show 0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55\n"
                "  holdfast event show 4711\n"
                "  holdfast event show 0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55 --payload > p.json\n",
    .details = "An event that waits for its time has no states yet; due_at says when it enters\n"
               "the log.\n",
    .options = show_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_show,
};

/* ---- event list ------------------------------------------------------------------------------ */

struct listing {
    const struct cli *cli;
    int64_t left;
    struct out_table table;
};

static int list_one(const hf_event *event, void *ctx)
{
    struct listing *listing = ctx;
    char words[OUT_WORDS_BYTES];

    if (listing->cli->json) {
        struct show_line line;
        show_event(show_line_begin(&line), event);
        show_line_end(&line);
    } else {
        out_table_number(&listing->table, event->position);
        out_table_cell(&listing->table, event->id);
        out_table_cell(&listing->table, event->type);
        out_table_cell(&listing->table, event->key);
        out_table_cell(&listing->table, event->tenant);
        out_table_cell(&listing->table, out_bytes((int64_t)event->payload_bytes, words));
        out_table_cell(&listing->table,
                       out_ago(event->entered_at_us, listing->cli->started_at_us, words));
    }
    listing->left--;
    return out_failed() || listing->left == 0;
}

static int run_list(struct cli *cli)
{
    static const struct out_column columns[] = {{"POSITION", true, 0, 0}, {"ID", false, 0, 0},
                                                {"TYPE", false, 48, 0},   {"KEY", false, 32, 0},
                                                {"TENANT", false, 32, 2}, {"SIZE", true, 0, 1},
                                                {"ENTERED", false, 0, 0}};
    const struct args *args = &cli->args;
    struct listing listing = {.cli = cli, .left = args_number(args, "limit", LIST_LIMIT)};
    hf_place from = {HF_PLACE_START, -1};
    int64_t cursor = 0;
    int64_t before = -1;
    hf_status status;
    int code = cli_open(cli, HF_OPEN_NOMIGRATE);

    if (code) {
        return code;
    }
    args_place(args, "from", &from);
    status = hf_locate(cli->bus, from, &cursor);
    out_table_init(&listing.table, columns, 7);
    while (!status && listing.left > 0 && cursor != before && !out_failed()) {
        before = cursor;
        status = hf_read(cli->bus, args_text(args, "type"),
                         listing.left < READ_EVENTS ? (size_t)listing.left : READ_EVENTS, 0,
                         &cursor, list_one, &listing);
    }
    out_table_end(&listing.table);
    fflush(stdout);
    if (!status && !cli->json && out_table_was_empty(&listing.table)) {
        out_say("No events.");
    }
    if (!status && listing.left == 0) {
        out_say("There may be more: --from %" PRId64, cursor);
    }
    return cli_fail(status);
}

static const struct option_row list_options[] = {
    {"type", 0, OPTION_TEXT, "PATTERN", NULL, 0, 0, "only types that match"},
    {"from", 0, OPTION_PLACE, "PLACE", NULL, 0, 0,
     "start (the default), a position (the first event after it), a time, or how long ago (2h)"},
    {"limit", 'n', OPTION_NUMBER, "N", NULL, 0, INT64_MAX, "at most so many (100)"},
    OPTION_END,
};

const struct command command_event_list = {
    .name = "event list",
    .usage = "",
    .summary = "lists events of the log by position",
    .examples = "  holdfast event list\n"
                "  holdfast event list --type 'order.**' --from 1h\n"
                "  holdfast event list --from 1000 --limit 50 --json\n",
    .options = list_options,
    .run = run_list,
};
