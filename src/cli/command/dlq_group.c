/*
 * dlq_group.c - prints dead letters counted by error, type, subscription or reason
 * (watch/dead_groups.h).
 */
#include "cli/command/dlq.h"

#include "base/banned.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/table.h"
#include "cli/watch/dead_groups.h"

static void group_json(const char *field, const struct dead_group *group)
{
    struct show_line line;

    dead_group_show(show_line_begin(&line), field, group);
    show_line_end(&line);
}

static void print_groups(const struct cli *cli, const struct dead_groups *groups)
{
    const struct out_column columns[] = {{"COUNT", true, 0, 0},
                                         {"NEWEST ID", true, 0, 0},
                                         {"NEWEST", false, 0, 0},
                                         {"OLDEST", false, 0, 0},
                                         {groups->field, false, 0, 0}};
    struct out_table table;

    out_table_init(&table, columns, 5);
    for (size_t i = 0; i < groups->count; i++) {
        const struct dead_group *group = &groups->slots[i];
        char words[OUT_WORDS_BYTES];
        if (cli->json) {
            group_json(groups->field, group);
            continue;
        }
        out_table_number(&table, group->count);
        out_table_number(&table, group->newest_dead_id);
        out_table_cell(&table, out_ago(group->newest_us, cli->started_at_us, words));
        out_table_cell(&table, out_ago(group->oldest_us, cli->started_at_us, words));
        out_table_cell(&table, group->text[0] ? group->text : "-");
    }
    out_table_end(&table);
    fflush(stdout);
    if (groups->count == 0) {
        out_say("No dead letters.");
    }
    if (groups->rest.count > 0) {
        out_say("%" PRId64 " more with other texts: only %d different ones are kept apart.",
                groups->rest.count, DEAD_GROUPS_MAX);
    }
}

int dlq_group(struct cli *cli, const hf_dead_filter *filter, const char *field)
{
    struct dead_groups groups;
    int code = cli_fail(dead_groups_count(&groups, cli->bus, filter, field));

    if (!code) {
        print_groups(cli, &groups);
    }
    dead_groups_release(&groups);
    return code;
}
