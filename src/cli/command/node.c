/*
 * node.c - the commands about nodes: `node list` and `node show`.
 *
 * A command that looks has the namespace open, so it is a node itself; the list leaves that one
 * out.
 */
#include "base/banned.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/table.h"

static void print_json(const hf_node_info *info)
{
    struct show_line line;

    show_node(show_line_begin(&line), info);
    show_line_end(&line);
}

/* What became of it, in a word. */
static const char *state_word(const hf_node_info *info)
{
    switch (info->state) {
    case HF_NODE_LIVE:
        return "live";
    case HF_NODE_STALE:
        return "stale";
    case HF_NODE_GONE:
        break;
    }
    return info->stopped_at_us == -1 ? "gone (died)" : "gone (stopped)";
}

static const char *pid_words(const hf_node_info *info, char words[OUT_WORDS_BYTES])
{
    snprintf(words, OUT_WORDS_BYTES, "%" PRId64, info->pid);
    return info->pid == -1 ? NULL : words;
}

/* ---- list ------------------------------------------------------------------------------------ */

struct list {
    const struct cli *cli;
    struct out_table table;
    bool all;
};

static int list_one(const hf_node_info *info, void *ctx)
{
    struct list *list = ctx;
    int64_t now_us = list->cli->started_at_us;
    char words[OUT_WORDS_BYTES];

    if (info->self || (info->state == HF_NODE_GONE && !list->all)) {
        return 0;
    }
    if (list->cli->json) {
        print_json(info);
        return out_failed();
    }
    out_table_cell(&list->table, info->node_id);
    out_table_cell(&list->table, state_word(info));
    if (info->state == HF_NODE_STALE) {
        out_table_mark(&list->table, OUT_RED);
    }
    out_table_cell(&list->table, out_ago(info->seen_at_us, now_us, words));
    out_table_cell(&list->table, out_ago(info->started_at_us, now_us, words));
    out_table_cell(&list->table, info->host ? info->host : "");
    out_table_cell(&list->table, info->pid == -1 ? "" : pid_words(info, words));
    out_table_cell(&list->table, info->name);
    return out_failed();
}

static int run_list(struct cli *cli)
{
    static const struct out_column columns[] = {
        {"ID", false, 40, 0},     {"STATE", false, 0, 0}, {"SEEN", false, 0, 0},
        {"STARTED", false, 0, 2}, {"HOST", false, 32, 1}, {"PID", true, 0, 3},
        {"NAME", false, 40, 0},
    };
    struct list list = {.cli = cli, .all = args_given(&cli->args, "all")};
    int code = cli_open(cli, HF_OPEN_NOMIGRATE);

    if (code) {
        return code;
    }
    out_table_init(&list.table, columns, sizeof columns / sizeof columns[0]);
    code = cli_fail(hf_node_list(cli->bus, list_one, &list));
    out_table_end(&list.table);
    if (!code && !cli->json && out_table_was_empty(&list.table)) {
        out_say("No nodes.%s", list.all ? "" : " --all shows those that are gone, too.");
    }
    return code;
}

static const struct option_row list_options[] = {
    {"all", 'a', OPTION_FLAG, NULL, NULL, 0, 0, "also those that are gone, for a day"},
    OPTION_END,
};

const struct command command_node_list = {
    .name = "node list",
    .usage = "",
    .summary = "lists the processes that have the namespace open",
    .examples = "  holdfast node list\n"
                "  holdfast node list --all --json | jq -r 'select(.state != \"live\").node_id'\n",
    .details = "live: its last sign of life is at most three heartbeats old. stale: it is older,\n"
               "but nothing shows that the process ended. gone: it stopped, or its process died.\n"
               "A node that stopped within its first heartbeat is listed only if it has an id of\n"
               "its own (--node-id).\n",
    .options = list_options,
    .run = run_list,
};

/* ---- show ------------------------------------------------------------------------------------ */

static int show_one(const hf_node_info *info, void *ctx)
{
    const struct cli *cli = ctx;
    char words[OUT_WORDS_BYTES];

    if (cli->json) {
        print_json(info);
        return 0;
    }
    show_field("id", info->node_id);
    show_field("state", state_word(info));
    show_field("name", info->name);
    show_field("description", info->description);
    show_field("host", info->host);
    show_field("pid", pid_words(info, words));
    show_field("version", info->version);
    show_field_time("started", info->started_at_us, cli->started_at_us);
    show_field_time("last seen", info->seen_at_us, cli->started_at_us);
    show_field_time("stopped", info->stopped_at_us, cli->started_at_us);
    show_field("metadata", info->metadata_json);
    return 0;
}

static int run_show(struct cli *cli)
{
    int code = cli_open(cli, HF_OPEN_NOMIGRATE);

    if (code) {
        return code;
    }
    return cli_fail(hf_node_get(cli->bus, cli->args.words[0], show_one, cli));
}

const struct command command_node_show = {
    .name = "node show",
    .usage = "ID",
    .summary = "shows one node with its description and metadata",
    .examples = "  holdfast node show api-1\n",
    .details = "The id is the one that `node list` shows, or the one that was given (--node-id).\n",
    .words_min = 1,
    .words_max = 1,
    .run = run_show,
};
