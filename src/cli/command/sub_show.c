/*
 * sub_show.c - the commands `sub list` and `sub show`.
 *
 * `sub show` answers one question before any other: why is it not moving?
 */
#include "base/banned.h"
#include "cli/command/sub_parts.h"
#include "cli/config/suboptions.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/table.h"
#include "cli/watch/sub_state.h"

#define REASONS_BYTES_MAX 4194304
#define REASONS_MAX 10 /* subscriptions of which `sub list` says why they do not move */

/* With the partitions, what runs and blocked keys, up to the limit each, unless that is -1. */
static hf_status print_json(const hf_subscription_info *info, hf_bus *bus, int64_t limit)
{
    struct show_line line;
    struct json_out *json = show_line_begin(&line);
    hf_status status = HF_OK;

    show_subscription(json, info);
    if (limit >= 0) {
        status = sub_parts_json(json, bus, info, limit);
    }
    if (status) {
        show_line_drop(&line);
    } else {
        show_line_end(&line);
    }
    return status;
}

/* ---- sub list -------------------------------------------------------------------------------- */

struct listing {
    const struct cli *cli;
    struct out_table table;
    int64_t count;
    struct buf reasons; /* of those that do not move, each with its NUL */
    int reason_count;
};

static int list_one(const hf_subscription_info *info, void *ctx)
{
    struct listing *listing = ctx;
    char words[OUT_WORDS_BYTES];

    listing->count++;
    if (listing->cli->json) {
        print_json(info, NULL, -1);
        return out_failed();
    }
    out_table_cell(&listing->table, info->name);
    out_table_cell(&listing->table, info->options.mode == HF_MODE_SHARED ? "shared" : "ordered");
    out_table_cell(&listing->table, sub_state_word(info));
    out_table_mark(&listing->table, sub_state_style(info));
    out_table_number(&listing->table, info->checkpoint);
    out_table_cell(&listing->table, out_at_least(info->pending, info->pending_more == 1, words));
    out_table_number(&listing->table, info->lag);
    out_table_cell(&listing->table, out_rate(info->rate, words));
    out_table_number(&listing->table, info->in_flight);
    out_table_number(&listing->table, info->retrying);
    out_table_number(&listing->table, info->held);
    out_table_trouble(&listing->table, info->dead);
    out_table_cell(&listing->table,
                   out_ago(info->oldest_waiting_us, listing->cli->started_at_us, words));
    out_table_cell(&listing->table, info->owner ? info->owner : "-");
    if (info->not_moving && info->paused_at_us == -1 && listing->reason_count < REASONS_MAX) {
        buf_printf(&listing->reasons, "%s: %s.%c", info->name, info->not_moving, '\0');
        listing->reason_count++;
    }
    return out_failed();
}

/* Why the first of those that do not move do not, a line each. */
static void say_reasons(const struct listing *listing)
{
    const char *line = listing->reasons.bytes;

    for (int i = 0; i < listing->reason_count; i++) {
        out_say("%s", line);
        line += strlen(line) + 1;
    }
}

static int run_list(struct cli *cli)
{
    static const struct out_column columns[] = {
        {"NAME", false, 48, 0},     {"MODE", false, 0, 5},     {"STATE", false, 0, 0},
        {"CHECKPOINT", true, 0, 4}, {"PENDING", true, 0, 0},   {"LAG", true, 0, 3},
        {"PER SECOND", true, 0, 2}, {"IN FLIGHT", true, 0, 1}, {"RETRYING", true, 0, 0},
        {"HELD", true, 0, 6},       {"DEAD", true, 0, 0},      {"OLDEST", false, 0, 0},
        {"OWNER", false, 40, 7}};
    struct listing listing = {.cli = cli};
    int code = cli_open(cli, HF_OPEN_NOMIGRATE);

    if (code) {
        return code;
    }
    buf_init(&listing.reasons, REASONS_BYTES_MAX);
    out_table_init(&listing.table, columns, sizeof columns / sizeof columns[0]);
    code = cli_fail(hf_subscription_list(cli->bus, list_one, &listing));
    out_table_end(&listing.table);
    fflush(stdout);
    say_reasons(&listing);
    buf_release(&listing.reasons);
    if (!code && listing.count == 0) {
        out_say("No subscriptions. `holdfast sub create` or `holdfast work` makes one.");
    }
    return code;
}

const struct command command_sub_list = {
    .name = "sub list",
    .usage = "",
    .summary = "lists the subscriptions with their progress",
    .examples = "  holdfast sub list\n"
                "  holdfast sub list --json | jq 'select(.pending > 1000) | .name'\n",
    .details = "PENDING counts events that match and have not been handed out, up to 10000: 17+\n"
               "is 17 or more. LAG is the distance to the end of the log, whatever is there.\n"
               "Below the table it says why a subscription does not move.\n",
    .run = run_list,
};

/* ---- sub show -------------------------------------------------------------------------------- */

static void show_number(const char *name, int64_t number)
{
    char words[OUT_WORDS_BYTES];
    if (number != -1) {
        show_field(name, out_number(number, words));
    }
}

static void show_rate(double rate)
{
    char words[OUT_WORDS_BYTES];
    snprintf(words, sizeof words, "%.1f positions/s in the last minute", rate);
    show_field("rate", rate < 0 ? "not known yet" : words);
}

static void show_why(const hf_subscription_info *info, int64_t now_us)
{
    struct buf sentence;

    if (info->not_moving) {
        printf("%sNot moving: ", out_on(OUT_YELLOW));
        out_text(info->not_moving);
        printf("%s\n\n", out_off());
        return;
    }
    buf_init(&sentence, REASONS_BYTES_MAX);
    sub_state_say(info, now_us, &sentence);
    printf("%s.\n\n", buf_terminate(&sentence));
    buf_release(&sentence);
}

/* What `sub show` shows, and how that went. */
struct showing {
    const struct cli *cli;
    int64_t limit;
    int code;
};

/* What waits, and who has it. */
static void show_standing(const hf_subscription_info *info, int64_t now_us)
{
    char words[OUT_WORDS_BYTES];

    show_field("pending", out_at_least(info->pending, info->pending_more == 1, words));
    show_field_time("oldest_waiting", info->oldest_waiting_us, now_us);
    show_number("in_flight", info->in_flight);
    if (info->lease_ended > 0) {
        show_number("lease_ended", info->lease_ended);
    }
    if (info->options.mode == HF_MODE_SHARED && info->claimed_at_us == -1) {
        show_field("claimed_at", "never");
    } else {
        show_field_time("claimed_at", info->claimed_at_us, now_us);
    }
}

static void show_fields(const hf_subscription_info *info, int64_t now_us)
{
    show_why(info, now_us);
    show_field("name", info->name);
    for (size_t i = 0; i < info->pattern_count; i++) {
        show_field(i == 0 ? "patterns" : "", info->patterns[i]);
    }
    show_field_time("created_at", info->created_at_us, now_us);
    show_number("start_position", info->start_position);
    show_number("checkpoint", info->checkpoint);
    show_field_time("checkpoint_at", info->checkpoint_at_us, now_us);
    show_field("last event", info->checkpoint_event_id);
    if (info->options.mode == HF_MODE_SHARED) {
        show_number("cursor", info->cursor);
    }
    show_number("head", info->head);
    show_number("lag", info->lag);
    show_rate(info->rate);
    show_standing(info, now_us);
    show_number("retrying", info->retrying);
    show_number("held", info->held);
    show_number("blocked", info->blocked);
    show_number("dead", info->dead);
    if (info->dropped > 0) {
        show_number("dropped", info->dropped);
        show_number("dropped_through", info->dropped_through);
    }
    show_field_time("paused_at", info->paused_at_us, now_us);
    show_field("paused_by", info->paused_by);
    show_field("paused_reason", info->paused_reason);
    show_field("breaker", info->breaker);
    show_field_when("breaker_until", info->breaker_until_us, now_us);
    show_field("owner", info->owner);
    if (info->owner) {
        show_field("owner_alive", info->owner_alive == 1 ? "yes" : "no");
    }
    printf("options:\n");
    suboptions_print(&info->options);
}

static int show_one(const hf_subscription_info *info, void *ctx)
{
    struct showing *showing = ctx;
    const struct cli *cli = showing->cli;
    hf_status status;

    if (cli->json) {
        status = print_json(info, cli->bus, showing->limit);
    } else {
        show_fields(info, cli->started_at_us);
        status = sub_parts_print(cli->bus, info, showing->limit, cli->started_at_us);
    }
    showing->code = cli_fail(status);
    return 0;
}

static int run_show(struct cli *cli)
{
    struct showing showing = {cli, args_number(&cli->args, "limit", SUB_PARTS_LIMIT), 0};
    int code = cli_open(cli, HF_OPEN_NOMIGRATE);

    if (code) {
        return code;
    }
    code = cli_fail(hf_subscription_get(cli->bus, cli->args.words[0], show_one, &showing));
    return code ? code : showing.code;
}

static const struct option_row show_options[] = {
    {"limit", 0, OPTION_NUMBER, "N", NULL, 0, HF_BLOCKED_LIST_MAX,
     "show at most so many partitions, events in flight, and blocked keys (20)"},
    OPTION_END,
};

const struct command command_sub_show = {
    .name = "sub show",
    .usage = "SUB",
    .word_names = "subscriptions",
    .summary = "shows all about a subscription: first, why it is not moving",
    .examples = "  holdfast sub show mailer\n"
                "  holdfast sub show mailer --json\n"
                "  holdfast sub show ledger --limit 1000 --json | jq '.blocked_keys[].key'\n",
    .details = "With several partitions it shows the owner of each, its checkpoint, and how many\n"
               "processes stand by; of an ordered one which events run, where and since when;\n"
               "and which keys wait for a dead letter, since when, and how many events are held\n"
               "behind it. `holdfast retry list` has what waits for its next attempt, `holdfast\n"
               "lease list` who has the events of a shared one.\n",
    .options = show_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_show,
};
