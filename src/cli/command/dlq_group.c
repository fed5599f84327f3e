/*
 * dlq_group.c - prints dead letters counted by error, type, subscription or reason.
 */
#include "cli/command/dlq.h"

#include "base/banned.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/table.h"

struct grouping {
    const struct cli *cli;
    hf_dead_by by;
    struct out_table table;
    int64_t groups;
    int64_t letters; /* in them */
};

static int print_group(const hf_dead_group *group, void *ctx)
{
    struct grouping *grouping = ctx;
    struct out_table *table = &grouping->table;
    char words[OUT_WORDS_BYTES];
    struct show_line line;

    grouping->groups++;
    grouping->letters += group->count;
    if (grouping->cli->json) {
        show_dead_group(show_line_begin(&line), grouping->by, group);
        show_line_end(&line);
        return out_failed();
    }
    out_table_number(table, group->count);
    out_table_number(table, group->newest_dead_id);
    out_table_cell(table, out_ago(group->newest_us, grouping->cli->started_at_us, words));
    out_table_cell(table, out_ago(group->oldest_us, grouping->cli->started_at_us, words));
    out_table_cell(table, group->text[0] ? group->text : "-");
    return out_failed();
}

/* What is not in the table. */
static void say_rest(const struct grouping *grouping, const hf_dead_totals *totals)
{
    int64_t groups = totals->groups - grouping->groups;
    int64_t letters = totals->letters - grouping->letters;

    if (totals->letters == 0 && !totals->more) {
        out_say("No dead letters.");
    }
    if (groups > 0) {
        out_say("And %" PRId64 " group%s more, of %" PRId64 " dead letter%s: --limit", groups,
                groups == 1 ? "" : "s", letters, letters == 1 ? "" : "s");
    }
    if (totals->more) {
        out_say("At least: there are so many different ones that not all were looked at.");
    }
}

static hf_dead_by parse_by(const char *word)
{
    hf_dead_by by = HF_DEAD_BY_ERROR;

    while (by < HF_DEAD_BY_REASON && strcmp(dead_by_name(by), word) != 0) {
        by++;
    }
    return by;
}

int dlq_group(struct cli *cli, const hf_dead_filter *filter, const char *field)
{
    const struct out_column columns[] = {{"COUNT", true, 0, 0},
                                         {"NEWEST ID", true, 0, 0},
                                         {"NEWEST", false, 0, 0},
                                         {"OLDEST", false, 0, 0},
                                         {field, false, 0, 0}};
    struct grouping grouping = {.cli = cli, .by = parse_by(field)};
    hf_dead_totals totals = {.size = sizeof totals};
    int code;

    out_table_init(&grouping.table, columns, 5);
    code = cli_fail(hf_dead_groups(cli->bus, grouping.by, filter, print_group, &grouping, &totals));
    out_table_end(&grouping.table);
    fflush(stdout);
    if (!code) {
        say_rest(&grouping, &totals);
    }
    return code;
}
