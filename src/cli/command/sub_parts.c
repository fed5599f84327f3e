/*
 * sub_parts.c - the partitions of a subscription, what runs for it, and its blocked keys. See
 * sub_parts.h.
 *
 * The lists are cut at the limit, but a partition that no process may take is reported wherever
 * it is in the list.
 */
#include "cli/command/sub_parts.h"

#include "base/banned.h"
#include "base/ranges.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/table.h"

/* One listing, as table or as JSON. */
struct parts {
    struct out_table table;
    struct json_out *json; /* NULL: a table */
    int64_t limit;
    int64_t now_us;
    int64_t shown;
    int64_t count; /* partitions that there are */
    struct ranges unowned;
};

/* ---- Partitions ------------------------------------------------------------------------------ */

static void partition_row(struct out_table *table, const hf_partition_info *info)
{
    out_table_number(table, info->partition);
    out_table_cell(table, hf_partition_state_name(info->state));
    out_table_printf(table, "%s%s", info->owner ? info->owner : "-",
                     info->owner && info->owner_alive != 1 ? " (dead)" : "");
    if (info->owner && info->owner_alive != 1) {
        out_table_mark(table, OUT_RED);
    }
    out_table_cell(table, info->assigned == 1 ? "yes" : "-");
    out_table_number(table, info->standby);
    out_table_number(table, info->epoch);
    out_table_number(table, info->checkpoint);
    out_table_number(table, info->lag);
    out_table_number(table, info->retrying);
    out_table_number(table, info->held);
    out_table_trouble(table, info->blocked);
}

static int see_partition(const hf_partition_info *info, void *ctx)
{
    struct parts *parts = ctx;

    parts->count++;
    if (info->state == HF_PARTITION_UNOWNED) {
        ranges_put(&parts->unowned, info->partition);
    }
    if (parts->shown >= parts->limit) {
        return 0;
    }
    parts->shown++;
    if (parts->json) {
        json_object_begin(parts->json);
        show_partition(parts->json, info);
        json_object_end(parts->json);
    } else {
        partition_row(&parts->table, info);
    }
    return out_failed();
}

static void say_more(int64_t more, const char *what)
{
    if (more > 0) {
        printf("  … and %" PRId64 " more %s (--limit)\n", more, what);
    }
}

static void warn_of_unowned(const struct parts *parts)
{
    char numbers[RANGES_BYTES_MAX];
    int32_t count = ranges_count(&parts->unowned);

    if (count == 0 || count == parts->count) { /* then no worker runs at all */
        return;
    }
    ranges_format(&parts->unowned, numbers);
    printf("%sWarning: partition%s %s %s no owner, and no process that runs may take %s.%s\n",
           out_on(OUT_YELLOW), count == 1 ? "" : "s", numbers, count == 1 ? "has" : "have",
           count == 1 ? "it" : "them", out_off());
}

static hf_status print_partitions(hf_bus *bus, const char *name, struct parts *parts)
{
    static const struct out_column columns[] = {
        {"PARTITION", true, 0, 0},  {"STATE", false, 0, 0},  {"OWNER", false, 40, 0},
        {"ASSIGNED", false, 0, 5},  {"STANDBY", true, 0, 4}, {"EPOCH", true, 0, 3},
        {"CHECKPOINT", true, 0, 0}, {"LAG", true, 0, 0},     {"RETRYING", true, 0, 0},
        {"HELD", true, 0, 0},       {"BLOCKED", true, 0, 0}};
    hf_status status;

    printf("\n");
    out_table_init(&parts->table, columns, 11);
    status = hf_partition_list(bus, name, see_partition, parts);
    out_table_end(&parts->table);
    say_more(parts->count - parts->shown, "partitions");
    warn_of_unowned(parts);
    return status;
}

/* ---- Blocked keys ---------------------------------------------------------------------------- */

static int see_blocked(const hf_blocked_key *blocked, void *ctx)
{
    struct parts *parts = ctx;
    char words[OUT_WORDS_BYTES];

    parts->shown++;
    if (parts->json) {
        json_object_begin(parts->json);
        show_blocked_key(parts->json, blocked);
        json_object_end(parts->json);
        return 0;
    }
    out_table_cell(&parts->table, blocked->key);
    out_table_cell(&parts->table, blocked->tenant);
    out_table_number(&parts->table, blocked->partition);
    out_table_number(&parts->table, blocked->position);
    out_table_cell(&parts->table, blocked->type);
    out_table_cell(&parts->table, out_ago(blocked->since_us, parts->now_us, words));
    out_table_number(&parts->table, blocked->held);
    out_table_number(&parts->table, blocked->dead_id);
    return out_failed();
}

static hf_status print_blocked(hf_bus *bus, const hf_subscription_info *info, struct parts *parts)
{
    static const struct out_column columns[] = {
        {"BLOCKED KEY", false, 40, 0}, {"TENANT", false, 24, 2},   {"PARTITION", true, 0, 0},
        {"POSITION", true, 0, 0},      {"TYPE", false, 40, 0},     {"SINCE", false, 0, 0},
        {"HELD", true, 0, 0},          {"DEAD LETTER", true, 0, 0}};
    hf_status status;

    printf("\n");
    out_table_init(&parts->table, columns, 8);
    status = hf_blocked_list(bus, info->name, 0, (size_t)parts->limit, see_blocked, parts);
    out_table_end(&parts->table);
    say_more(info->blocked - parts->shown, "blocked keys");
    if (parts->shown > 0) {
        out_say("`holdfast dlq retry N` or `holdfast dlq resolve N` of its dead letter releases a "
                "key.");
    }
    return status;
}

/* ---- What runs ------------------------------------------------------------------------------- */

static int see_running(const hf_running_info *info, void *ctx)
{
    struct parts *parts = ctx;
    char words[OUT_WORDS_BYTES];

    parts->shown++;
    if (parts->json) {
        json_object_begin(parts->json);
        show_running(parts->json, info);
        json_object_end(parts->json);
        return 0;
    }
    out_table_number(&parts->table, info->position);
    out_table_cell(&parts->table, info->type);
    out_table_cell(&parts->table, info->key);
    out_table_number(&parts->table, info->partition);
    out_table_cell(&parts->table, info->node);
    out_table_number(&parts->table, info->pid);
    out_table_cell(&parts->table, info->host);
    out_table_cell(&parts->table, out_ago(info->since_us, parts->now_us, words));
    return out_failed();
}

static hf_status print_running(hf_bus *bus, const hf_subscription_info *info, struct parts *parts)
{
    static const struct out_column columns[] = {
        {"IN FLIGHT", true, 0, 0}, {"TYPE", false, 40, 0}, {"KEY", false, 40, 0},
        {"PARTITION", true, 0, 3}, {"NODE", false, 40, 0}, {"PID", true, 0, 4},
        {"HOST", false, 40, 5},    {"SINCE", false, 0, 0}};
    hf_status status;

    printf("\n");
    out_table_init(&parts->table, columns, 8);
    status = hf_running_list(bus, info->name, 0, (size_t)parts->limit, see_running, parts);
    out_table_end(&parts->table);
    say_more(info->in_flight - parts->shown, "events in flight");
    return status;
}

/* ---- All ------------------------------------------------------------------------------------- */

hf_status sub_parts_print(hf_bus *bus, const hf_subscription_info *info, int64_t limit,
                          int64_t now_us)
{
    struct parts parts = {.limit = limit, .now_us = now_us};
    struct parts running = {.limit = limit, .now_us = now_us};
    struct parts blocked = {.limit = limit, .now_us = now_us};
    bool ordered = info->options.mode == HF_MODE_ORDERED;
    hf_status status = HF_OK;

    if (ordered && info->options.partitions > 1) {
        status = print_partitions(bus, info->name, &parts);
    }
    if (!status && ordered && info->in_flight > 0) {
        status = print_running(bus, info, &running);
    }
    if (!status && info->blocked > 0) {
        status = print_blocked(bus, info, &blocked);
    }
    return status;
}

/* What a list left out. It was read a moment after it was counted, so it may be longer. */
static void show_more(struct json_out *json, const char *name, int64_t more)
{
    show_int(json, name, more > 0 ? more : 0);
}

hf_status sub_parts_json(struct json_out *json, hf_bus *bus, const hf_subscription_info *info,
                         int64_t limit)
{
    struct parts parts = {.limit = limit, .json = json};
    struct parts running = {.limit = limit, .json = json};
    struct parts blocked = {.limit = limit, .json = json};
    bool ordered = info->options.mode == HF_MODE_ORDERED;
    hf_status status;

    json_key(json, "partitions");
    json_array_begin(json);
    status = hf_partition_list(bus, info->name, see_partition, &parts);
    json_array_end(json);
    show_int(json, "partitions_more", parts.count - parts.shown);
    json_key(json, "running");
    json_array_begin(json);
    if (!status) {
        status = hf_running_list(bus, info->name, 0, (size_t)limit, see_running, &running);
    }
    json_array_end(json);
    show_more(json, "running_more", (ordered ? info->in_flight : 0) - running.shown);
    json_key(json, "blocked_keys");
    json_array_begin(json);
    if (!status) {
        status = hf_blocked_list(bus, info->name, 0, (size_t)limit, see_blocked, &blocked);
    }
    json_array_end(json);
    show_more(json, "blocked_keys_more", info->blocked - blocked.shown);
    return status;
}
