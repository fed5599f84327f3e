/*
 * dlq_group.c - counts dead letters by error, type, subscription or reason.
 *
 * One pass over all that match, page by page, into a hash table of the field's texts. A text is a
 * group as it stands, so that it can be given to --error. Beyond GROUPS_MAX different texts the
 * rest is counted as one group and said so: memory stays bounded whatever the errors look like.
 */
#include "cli/command/dlq.h"

#include "base/banned.h"
#include "base/mem.h"
#include "cli/core/out.h"
#include "cli/core/show.h"
#include "cli/core/table.h"

#define GROUPS_MAX 8192
#define SLOTS (GROUPS_MAX * 2) /* a power of two */
#define LINE_BYTES_MAX 1048576

struct group {
    char *text; /* NULL: the slot is free; owned */
    int64_t count;
    int64_t newest_dead_id;
    int64_t newest_us;
    int64_t oldest_us;
};

struct groups {
    const char *field;
    struct group *slots;
    struct group rest; /* of the texts beyond GROUPS_MAX */
    size_t count;
    bool no_memory;
};

static uint64_t text_hash(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (; *text; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    }
    return hash;
}

static struct group *find_group(struct groups *groups, const char *text)
{
    size_t at = text_hash(text) & (SLOTS - 1);

    while (groups->slots[at].text && strcmp(groups->slots[at].text, text) != 0) {
        at = (at + 1) & (SLOTS - 1);
    }
    if (groups->slots[at].text) {
        return &groups->slots[at];
    }
    if (groups->count == GROUPS_MAX) {
        return &groups->rest;
    }
    groups->slots[at].text = mem_dup(text, strlen(text));
    if (!groups->slots[at].text) {
        groups->no_memory = true;
        return &groups->rest;
    }
    groups->count++;
    return &groups->slots[at];
}

static const char *field_text(const struct groups *groups, const hf_dead_letter *letter)
{
    const char *text = letter->error;

    if (strcmp(groups->field, "type") == 0) {
        text = letter->event.type;
    } else if (strcmp(groups->field, "subscription") == 0) {
        text = letter->subscription;
    } else if (strcmp(groups->field, "reason") == 0) {
        text = letter->reason;
    }
    return text ? text : "";
}

static int count_one(const hf_dead_letter *letter, void *ctx)
{
    struct groups *groups = ctx;
    struct group *group = find_group(groups, field_text(groups, letter));

    if (group->count == 0) { /* newest first */
        group->newest_dead_id = letter->dead_id;
        group->newest_us = letter->failed_at_us;
    }
    group->oldest_us = letter->failed_at_us;
    group->count++;
    return groups->no_memory;
}

static int by_count(const void *a, const void *b)
{
    const struct group *left = a;
    const struct group *right = b;

    if (left->count != right->count) {
        return left->count < right->count ? 1 : -1;
    }
    return (left->newest_dead_id < right->newest_dead_id) -
           (left->newest_dead_id > right->newest_dead_id); /* free slots are equal */
}

static void group_json(struct buf *line, const char *field, const struct group *group)
{
    struct json_out json;
    char number[OUT_WORDS_BYTES];

    json_out_init(&json, line);
    json_object_begin(&json);
    show_int(&json, "count", group->count);
    show_string(&json, field, group->text);
    show_string(&json, "newest_dead_id", out_number(group->newest_dead_id, number));
    show_time(&json, "newest_failed_at", group->newest_us);
    show_time(&json, "oldest_failed_at", group->oldest_us);
    json_object_end(&json);
    out_json_line(line);
}

static void print_groups(const struct cli *cli, const struct groups *groups)
{
    const struct out_column columns[] = {{"COUNT", true, 0, 0},
                                         {"NEWEST ID", true, 0, 0},
                                         {"NEWEST", false, 0, 0},
                                         {"OLDEST", false, 0, 0},
                                         {groups->field, false, 0, 0}};
    struct out_table table;
    struct buf line;

    out_table_init(&table, columns, 5);
    buf_init(&line, LINE_BYTES_MAX);
    for (size_t i = 0; i < groups->count; i++) {
        const struct group *group = &groups->slots[i];
        char words[OUT_WORDS_BYTES];
        if (cli->json) {
            group_json(&line, groups->field, group);
            continue;
        }
        out_table_number(&table, group->count);
        out_table_number(&table, group->newest_dead_id);
        out_table_cell(&table, out_ago(group->newest_us, cli->started_at_us, words));
        out_table_cell(&table, out_ago(group->oldest_us, cli->started_at_us, words));
        out_table_cell(&table, group->text[0] ? group->text : "-");
    }
    out_table_end(&table);
    buf_release(&line);
    fflush(stdout);
    if (groups->count == 0) {
        out_say("No dead letters.");
    }
    if (groups->rest.count > 0) {
        out_say("%" PRId64 " more with other texts: only %d different ones are kept apart.",
                groups->rest.count, GROUPS_MAX);
    }
}

int dlq_group(struct cli *cli, const hf_dead_filter *filter, const char *field)
{
    struct groups groups = {.field = field};
    int code;

    groups.slots = mem_calloc(SLOTS, sizeof *groups.slots);
    if (!groups.slots) {
        out_complain("out of memory");
        return EXIT_ERROR;
    }
    code = cli_fail(dlq_each(cli->bus, filter, count_one, &groups));
    if (!code && groups.no_memory) {
        out_complain("out of memory");
        code = EXIT_ERROR;
    }
    if (!code) {
        qsort(groups.slots, SLOTS, sizeof *groups.slots, by_count); /* free slots go last */
        print_groups(cli, &groups);
    }
    for (size_t i = 0; i < SLOTS; i++) {
        mem_free(groups.slots[i].text);
    }
    mem_free(groups.slots);
    return code;
}
