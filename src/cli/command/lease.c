/*
 * lease.c - the commands about leases: `lease list` and `lease revoke`.
 */
#include "base/banned.h"
#include "base/mem.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/table.h"

#define TEXTS_BYTES_MAX 4194304
#define LIST_LIMIT 100

/* ---- list ------------------------------------------------------------------------------------ */

struct list {
    const struct cli *cli;
    struct buf line;
    struct out_table table;
    int64_t left;
    bool ended; /* only those that have ended */
};

/* "3-7,9" */
static void print_positions(const hf_lease_info *info, struct buf *out)
{
    for (size_t i = 0; i < info->count;) {
        size_t last = i;

        while (last + 1 < info->count && info->positions[last + 1] == info->positions[last] + 1) {
            last++;
        }
        buf_printf(out, i == last ? "%s%" PRId64 : "%s%" PRId64 "-%" PRId64, i > 0 ? "," : "",
                   info->positions[i], info->positions[last]);
        i = last + 1;
    }
}

static void print_row(struct list *list, const hf_lease_info *info)
{
    int64_t now_us = list->cli->started_at_us;
    char words[OUT_WORDS_BYTES];

    out_table_cell(&list->table, info->subscription);
    out_table_cell(&list->table, info->lease);
    out_table_cell(&list->table, info->node ? info->node : "-");
    out_table_cell(&list->table, out_ago(info->claimed_at_us, now_us, words));
    if (info->ended == 1) {
        out_table_printf(&list->table, "ended %s", out_ago(info->expires_at_us, now_us, words));
        out_table_mark(&list->table, OUT_RED);
    } else if (info->kept == 1) {
        out_table_cell(&list->table, "its node stops");
    } else {
        out_table_cell(&list->table, out_when(info->expires_at_us, now_us, words));
    }
    out_table_number(&list->table, (int64_t)info->count);
    print_positions(info, &list->line);
    out_table_cell(&list->table, buf_terminate(&list->line));
    buf_clear(&list->line);
}

static int list_one(const hf_lease_info *info, void *ctx)
{
    struct list *list = ctx;

    if (list->ended && info->ended == 0) {
        return 0;
    }
    if (list->left == 0) {
        out_say("There are more: --limit.");
        return 1;
    }
    list->left--;
    if (list->cli->json) {
        struct show_line line;
        show_lease(show_line_begin(&line), info);
        show_line_end(&line);
    } else {
        print_row(list, info);
    }
    return out_failed();
}

static int run_list(struct cli *cli)
{
    static const struct out_column columns[] = {
        {"SUBSCRIPTION", false, 48, 0}, {"LEASE", false, 0, 0}, {"NODE", false, 40, 0},
        {"SINCE", false, 0, 1},         {"UNTIL", false, 0, 0}, {"EVENTS", true, 0, 0},
        {"POSITIONS", false, 40, 2},
    };
    const struct args *args = &cli->args;
    struct list list = {
        .cli = cli,
        .left = args_number(args, "limit", LIST_LIMIT),
        .ended = args_given(args, "ended"),
    };
    const char *name = args->word_count > 0 ? args->words[0] : NULL;
    int code = cli_open(cli, HF_OPEN_NOMIGRATE);

    if (code) {
        return code;
    }
    buf_init(&list.line, TEXTS_BYTES_MAX);
    out_table_init(&list.table, columns, sizeof columns / sizeof columns[0]);
    code = cli_fail(hf_lease_list(cli->bus, name, list_one, &list));
    out_table_end(&list.table);
    buf_release(&list.line);
    if (!code && !cli->json && out_table_was_empty(&list.table)) {
        out_say(list.ended ? "No leases that have ended." : "No leases.");
    }
    return code;
}

static const struct option_row list_options[] = {
    {"ended", 0, OPTION_FLAG, NULL, NULL, 0, 0, "only those that ended without an answer"},
    {"limit", 'n', OPTION_NUMBER, "N", NULL, 1, INT64_MAX, "at most so many (100)"},
    OPTION_END,
};

const struct command command_lease_list = {
    .name = "lease list",
    .usage = "[SUB]",
    .word_names = "subscriptions",
    .summary = "lists what is claimed: who has it, since when, until when",
    .examples = "  holdfast lease list\n"
                "  holdfast lease list mailer --ended\n"
                "  holdfast lease list mailer --json | jq -r '[.node, .positions[]] | @tsv'\n",
    .details = "Shared subscriptions hand out events under leases. A lease of `work` or another\n"
               "started process lasts until its node stops, one of `claim` until its time is\n"
               "over. The next claim hands out what an ended lease has left.\n",
    .options = list_options,
    .words_max = 1,
    .run = run_list,
};

/* ---- revoke ---------------------------------------------------------------------------------- */

/* The leases that a revoke is about, before it begins: their texts, each with its NUL. */
struct chosen {
    const char *node; /* NULL: of all */
    bool ended;
    struct buf texts;
    int64_t leases;
    int64_t events;
};

static int choose(const hf_lease_info *info, void *ctx)
{
    struct chosen *chosen = ctx;

    if ((chosen->node && (!info->node || strcmp(chosen->node, info->node) != 0)) ||
        (chosen->ended && info->ended == 0)) {
        return 0;
    }
    buf_append(&chosen->texts, info->lease, HF_LEASE_BYTES);
    chosen->leases++;
    chosen->events += (int64_t)info->count;
    return 0;
}

static void print_revoked(const struct cli *cli, int64_t leases, int64_t events)
{
    struct show_line line;

    if (!cli->json) {
        out_say("%" PRId64 " lease%s revoked: %" PRId64 " event%s free for the next claim.", leases,
                leases == 1 ? "" : "s", events, events == 1 ? " is" : "s are");
        return;
    }
    struct json_out *json = show_line_begin(&line);
    show_int(json, "leases", leases);
    show_int(json, "events", events);
    show_line_end(&line);
}

/* Those that were chosen; what has been settled meanwhile is left out. */
static int revoke_chosen(struct cli *cli, const char *name, const struct chosen *chosen)
{
    int64_t leases = 0;
    int64_t events = 0;

    for (int64_t i = 0; i < chosen->leases; i++) {
        int64_t count = 0;
        hf_status status =
            hf_lease_revoke(cli->bus, name, chosen->texts.bytes + i * HF_LEASE_BYTES, &count);

        if (status && status != HF_NOTFOUND) {
            return cli_fail(status);
        }
        leases += status == HF_OK;
        events += count;
    }
    print_revoked(cli, leases, events);
    return EXIT_OK;
}

static int revoke_some(struct cli *cli, const char *name)
{
    const struct args *args = &cli->args;
    struct chosen chosen = {.node = args_text(args, "node"), .ended = args_given(args, "ended")};
    int code;

    buf_init(&chosen.texts, TEXTS_BYTES_MAX);
    code = cli_fail(hf_lease_list(cli->bus, name, choose, &chosen));
    if (!code && buf_status(&chosen.texts)) {
        code = cli_fail(buf_status(&chosen.texts));
    }
    if (!code && chosen.leases > 0) {
        code = cli_confirm(cli,
                           "Revoke %" PRId64 " leases of %s with %" PRId64
                           " events, which are handed out again",
                           chosen.leases, name, chosen.events);
    }
    if (!code) {
        code = revoke_chosen(cli, name, &chosen);
    }
    buf_release(&chosen.texts);
    return code;
}

static int run_revoke(struct cli *cli)
{
    const struct args *args = &cli->args;
    bool some = args_given(args, "node") || args_given(args, "ended") || args_given(args, "all");
    int64_t leases = 0;
    int64_t events = 0;
    int code;

    if (some == (args->word_count > 1)) {
        return args_usage(args, "name leases, or say which with --node, --ended or --all");
    }
    code = cli_open(cli, HF_OPEN_EXISTING);
    if (code) {
        return code;
    }
    if (some) {
        return revoke_some(cli, args->words[0]);
    }
    for (size_t i = 1; i < args->word_count && !code; i++) {
        int64_t count = 0;

        code = cli_fail(hf_lease_revoke(cli->bus, args->words[0], args->words[i], &count));
        leases += code == EXIT_OK;
        events += count;
    }
    if (!code) {
        print_revoked(cli, leases, events);
    }
    return code;
}

static const struct option_row revoke_options[] = {
    {"node", 0, OPTION_TEXT, "NAME", NULL, 0, 0, "all that this node has"},
    {"ended", 0, OPTION_FLAG, NULL, NULL, 0, 0, "all that ended without an answer"},
    {"all", 0, OPTION_FLAG, NULL, NULL, 0, 0, "all of the subscription"},
    CLI_OPTION_YES,
    OPTION_END,
};

const struct command command_lease_revoke = {
    .name = "lease revoke",
    .usage = "SUB LEASE...",
    .word_names = "subscriptions",
    .summary = "takes leases away; their events are handed out again",
    .examples = "  holdfast lease revoke mailer 0f1e2d3c4b5a69788796a5b4c3d2e1f0\n"
                "  holdfast lease revoke mailer --node web-3:4711\n"
                "  holdfast lease revoke mailer --ended --yes\n",
    .details = "For a worker that hangs. The events are free for the next claim at once, and the\n"
               "attempt does not count. What the worker settles afterwards is refused (exit\n"
               "status 4); what it has settled already stays settled. Exits with 3 if a lease\n"
               "that is named has ended meanwhile.\n",
    .options = revoke_options,
    .words_min = 1,
    .words_max = ARGS_WORDS_MAX,
    .run = run_revoke,
};
