/*
 * retry.c - the command `retry list`: what waits for its next attempt, and what is held behind it.
 *
 * The list is in the order in which the next attempts are due, and paged by the cursor of the last
 * one shown (--after), which stays right while others come and go.
 */
#include "base/banned.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/table.h"

#define LIST_LIMIT 100
#define CURSOR_BYTES 64

struct listing {
    const struct cli *cli;
    struct out_table table;
    int64_t left;
    char cursor[CURSOR_BYTES]; /* of the last one shown */
};

static void print_next(struct listing *listing, const hf_retry_info *info)
{
    int64_t now_us = listing->cli->started_at_us;
    char words[OUT_WORDS_BYTES];

    if (info->state == HF_STATE_PROCESSING) {
        out_table_cell(&listing->table, "runs now");
    } else if (info->state == HF_STATE_RETRYING && info->next_attempt_at_us <= now_us) {
        out_table_cell(&listing->table, "due");
    } else if (info->state == HF_STATE_RETRYING) {
        out_table_cell(&listing->table, out_when(info->next_attempt_at_us, now_us, words));
    } else {
        out_table_printf(&listing->table, "behind %" PRId64, info->behind);
    }
}

static void print_row(struct listing *listing, const hf_retry_info *info)
{
    char words[OUT_WORDS_BYTES];

    print_next(listing, info);
    out_table_number(&listing->table, info->position);
    out_table_cell(&listing->table, info->type);
    out_table_cell(&listing->table, info->key);
    out_table_number(&listing->table, info->attempts);
    out_table_cell(&listing->table,
                   out_ago(info->failed_at_us, listing->cli->started_at_us, words));
    out_table_cell(&listing->table, out_at_least(info->held, info->held_more == 1, words));
    out_table_cell(&listing->table, info->error ? info->error : "-");
}

static int list_one(const hf_retry_info *info, void *ctx)
{
    struct listing *listing = ctx;

    listing->left--;
    snprintf(listing->cursor, sizeof listing->cursor, "%s", info->cursor);
    if (listing->cli->json) {
        struct show_line line;
        show_retry(show_line_begin(&line), info);
        show_line_end(&line);
    } else {
        print_row(listing, info);
    }
    return out_failed();
}

static void say_end(const struct listing *listing, const char *name, bool first_page, bool behind)
{
    if (listing->left == 0) {
        out_say("There may be more: --after %s", listing->cursor);
    } else if (!listing->cli->json && out_table_was_empty(&listing->table)) {
        if (!first_page) {
            out_say("No more.");
        } else if (behind) {
            out_say("Nothing is held behind it.");
        } else {
            out_say("No event of %s waits for another attempt.", name);
        }
    }
}

static int run_list(struct cli *cli)
{
    static const struct out_column columns[] = {
        {"NEXT ATTEMPT", false, 0, 0}, {"POSITION", true, 0, 0}, {"TYPE", false, 40, 3},
        {"KEY", false, 32, 0},         {"FAILED", true, 0, 0},   {"LAST", false, 0, 4},
        {"HELD", true, 0, 2},          {"ERROR", false, 0, 0}};
    const struct args *args = &cli->args;
    const char *name = args->words[0];
    struct listing listing = {.cli = cli, .left = args_number(args, "limit", LIST_LIMIT)};
    hf_retry_filter filter = HF_RETRY_FILTER_INIT;
    int code;

    filter.behind = args_number(args, "behind", -1);
    filter.after = args_text(args, "after");
    filter.limit = (int32_t)listing.left;
    code = cli_open(cli, HF_OPEN_NOMIGRATE);
    if (code) {
        return code;
    }
    out_table_init(&listing.table, columns, sizeof columns / sizeof columns[0]);
    code = cli_fail(hf_retry_list(cli->bus, name, &filter, list_one, &listing));
    out_table_end(&listing.table);
    fflush(stdout);
    if (!code) {
        say_end(&listing, name, !filter.after, filter.behind >= 0);
    }
    return code;
}

static const struct option_row list_options[] = {
    {"behind", 0, OPTION_NUMBER, "POSITION", NULL, 0, INT64_MAX,
     "those that are held behind the event at this position"},
    {"limit", 'n', OPTION_NUMBER, "N", NULL, 1, HF_RETRY_LIST_MAX, "at most so many (100)"},
    {"after", 0, OPTION_TEXT, "CURSOR", NULL, 0, 0, "the next page, as the one before says it"},
    OPTION_END,
};

const struct command command_retry_list = {
    .name = "retry list",
    .usage = "SUB",
    .word_names = "subscriptions",
    .summary = "lists what waits for its next attempt, and why",
    .examples = "  holdfast retry list mailer\n"
                "  holdfast retry list mailer --json | jq -r '[.next_attempt_at, .error] | @tsv'\n"
                "  holdfast retry list ledger --behind 8127\n",
    .details = "Those that are due first come first. FAILED counts attempts. HELD counts the\n"
               "events of the same key that wait behind one of an ordered subscription;\n"
               "--behind lists them.\n",
    .options = list_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_list,
};
