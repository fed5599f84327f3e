/*
 * stats.c - the command `stats`: the numbers of a namespace, the age of the oldest waiting event
 * first, because that is what tells whether an operator has to get up at night.
 */
#include "cli/watch/stats.h"

#include "base/banned.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/table.h"

struct stats_view {
    const struct cli *cli;
    struct out_table table;
};

static int subscription_json(const hf_subscription_info *info, void *ctx)
{
    struct json_out *json = ctx;

    json_object_begin(json);
    show_stats_row(json, info);
    json_object_end(json);
    return 0;
}

hf_status stats_json(hf_bus *bus, const hf_stats *stats)
{
    hf_status status = HF_OK;
    struct show_line line;
    struct json_out *json = show_line_begin(&line);

    show_stats(json, stats);
    json_key(json, "by_subscription");
    json_array_begin(json);
    if (stats->subscriptions > 0) {
        status = hf_subscription_list(bus, subscription_json, json);
    }
    if (status) {
        show_line_drop(&line);
        return status;
    }
    json_array_end(json);
    show_line_end(&line);
    return HF_OK;
}

static int add_subscription(const hf_subscription_info *info, void *ctx)
{
    struct stats_view *view = ctx;
    char words[OUT_WORDS_BYTES];

    out_table_cell(&view->table, info->name);
    out_table_cell(&view->table, out_ago(info->oldest_waiting_us, view->cli->started_at_us, words));
    out_table_cell(&view->table, out_at_least(info->pending, info->pending_more == 1, words));
    out_table_number(&view->table, info->lag);
    out_table_cell(&view->table, out_rate(info->rate, words));
    out_table_number(&view->table, info->in_flight);
    out_table_number(&view->table, info->retrying);
    out_table_number(&view->table, info->held);
    out_table_trouble(&view->table, info->dead);
    return out_failed();
}

static void field_later(const struct cli *cli, const hf_stats *stats)
{
    char words[OUT_WORDS_BYTES];
    char when[OUT_WORDS_BYTES];
    char both[2 * OUT_WORDS_BYTES + 16];

    if (stats->later > 0) {
        snprintf(both, sizeof both, "%s, the first due %s", out_number(stats->later, words),
                 out_when(stats->later_next_us, cli->started_at_us, when));
        show_field("for later", both);
    } else {
        show_field("for later", out_number(stats->later, words));
    }
}

static int print_text(struct cli *cli, const hf_stats *stats)
{
    static const struct out_column columns[] = {{"SUBSCRIPTION", false, 48, 0},
                                                {"OLDEST WAITING", false, 0, 0},
                                                {"PENDING", true, 0, 0},
                                                {"LAG", true, 0, 4},
                                                {"PER SECOND", true, 0, 2},
                                                {"IN FLIGHT", true, 0, 1},
                                                {"RETRYING", true, 0, 0},
                                                {"HELD", true, 0, 3},
                                                {"DEAD", true, 0, 0}};
    struct stats_view view = {.cli = cli};
    char words[OUT_WORDS_BYTES];
    int64_t oldest_us = stats->oldest_waiting_us;
    bool hidden = stats->subscriptions == -1; /* from the role that asks */
    int code;

    show_field("oldest waiting", oldest_us == -1 && !hidden
                                     ? "nothing waits"
                                     : out_ago(oldest_us, cli->started_at_us, words));
    show_field("newest position", out_number(stats->head, words));
    show_field("oldest position",
               stats->first > stats->head ? "-" : out_number(stats->first, words));
    snprintf(words, sizeof words, "%.1f events/s in the last minute", stats->rate);
    show_field("rate", words);
    show_field("subscriptions", out_number(stats->subscriptions, words));
    show_field("in flight", out_number(stats->in_flight, words));
    show_field("retrying", out_number(stats->retrying, words));
    show_field("held", out_number(stats->held, words));
    show_field("dead letters", out_number(stats->dead, words));
    field_later(cli, stats);
    show_field("database", out_bytes(stats->store_bytes, words));
    show_field("write-ahead log", out_bytes(stats->wal_bytes, words));
    if (stats->subscriptions <= 0) {
        return EXIT_OK;
    }
    putchar('\n');
    out_table_init(&view.table, columns, sizeof columns / sizeof columns[0]);
    code = cli_fail(hf_subscription_list(cli->bus, add_subscription, &view));
    out_table_end(&view.table);
    return code;
}

static int run_stats(struct cli *cli)
{
    hf_stats stats = {.size = sizeof stats};
    int code = cli_open(cli, HF_OPEN_NOMIGRATE);

    if (code) {
        return code;
    }
    code = cli_fail(hf_stats_get(cli->bus, &stats));
    if (code) {
        return code;
    }
    if (!cli->json) {
        return print_text(cli, &stats);
    }
    return cli_fail(stats_json(cli->bus, &stats));
}

const struct command command_stats = {
    .name = "stats",
    .usage = "",
    .summary = "shows the numbers of the namespace",
    .examples = "  holdfast stats\n"
                "  holdfast stats --json\n",
    .details = "With --json, by_subscription has a row for each subscription.\n"
               "A number that is not known is shown as '-' (null in JSON), never as 0.\n",
    .run = run_stats,
};
