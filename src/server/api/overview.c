/*
 * overview.c - the namespace as a whole, its nodes, its retention, and the namespaces of the
 * database.
 */
#include "base/banned.h"
#include "server/api/api.h"

#include <microhttpd.h>

static int list_node(const hf_node_info *info, void *ctx)
{
    struct list *list = ctx;

    show_node(list_item(list), info);
    list_item_end(list);
    return 0;
}

void nodes_list(struct exchange *exchange)
{
    struct list list;

    if (list_begin(&list, exchange)) {
        list_end(&list, hf_node_list(exchange->bus, list_node, &list), NULL);
    }
}

static int add_row(const hf_subscription_info *info, void *ctx)
{
    struct json_out *json = ctx;

    json_object_begin(json);
    show_stats_row(json, info);
    json_object_end(json);
    return 0;
}

void stats_show(struct exchange *exchange)
{
    hf_stats stats = {.size = sizeof stats};
    hf_status status = hf_stats_get(exchange->bus, &stats);

    if (!status) {
        struct json_out json = answer_json(exchange, MHD_HTTP_OK);
        stats.nodes += exchange_has_own_bus(exchange);
        json_object_begin(&json);
        show_stats(&json, &stats);
        json_key(&json, "by_subscription");
        json_array_begin(&json);
        status = hf_subscription_list(exchange->bus, add_row, &json);
        json_array_end(&json);
        json_object_end(&json);
    }
    if (status) {
        answer_failure(exchange, status);
    }
}

static int list_namespace(const hf_namespace_info *info, void *ctx)
{
    struct list *list = ctx;

    show_namespace(list_item(list), info);
    list_item_end(list);
    return 0;
}

void namespaces_list(struct exchange *exchange)
{
    struct list list;

    if (list_begin(&list, exchange)) {
        list_end(&list, hf_namespace_list(exchange->bus, list_namespace, &list), NULL);
    }
}

static int view_namespace(const hf_namespace_info *info, void *ctx)
{
    struct json_out json = answer_json(ctx, MHD_HTTP_OK);

    json_object_begin(&json);
    show_namespace(&json, info);
    json_object_end(&json);
    return 0;
}

void namespaces_show(struct exchange *exchange)
{
    hf_status status =
        hf_namespace_get(exchange->bus, exchange_param(exchange, "name"), view_namespace, exchange);

    if (status) {
        answer_failure(exchange, status);
    }
}

void namespaces_put(struct exchange *exchange)
{
    hf_namespace_options options = HF_NAMESPACE_OPTIONS_INIT;
    const char *name = exchange_param(exchange, "name");
    struct members members;
    struct text gapless;
    int32_t created = 0;
    hf_status status;

    members_begin(&members, exchange);
    options.metadata_json = arena_text(&exchange->memory, members_raw(&members, "metadata")).bytes;
    options.retention_ms = members_number(&members, "retention_ms", 0, INT64_MAX, -1);
    options.retention_bytes = members_number(&members, "retention_bytes", 0, INT64_MAX, -1);
    options.lagging = (hf_lagging)members_choice(&members, "lagging", SHOW_LAGGING);
    options.type_index = (hf_toggle)members_choice(&members, "type_index", "off|on");
    gapless = members_raw(&members, "gapless");
    if (gapless.bytes) {
        members.name_count--; /* it is asked for again */
        options.gapless = members_flag(&members, "gapless", false) ? HF_ON : HF_OFF;
    }
    if (!members_end(&members)) {
        return;
    }
    status = hf_namespace_create(exchange->bus, name, &options, &created);
    if (status) {
        answer_failure(exchange, status);
        return;
    }
    namespaces_show(exchange);
    if (created && exchange->status == MHD_HTTP_OK) {
        exchange->status = MHD_HTTP_CREATED;
    }
}

void namespaces_remove(struct exchange *exchange)
{
    const char *name = exchange_param(exchange, "name");
    bool force = false;

    if (!exchange_query_flag(exchange, "force", &force)) {
        return;
    }
    if (!exchange_let_go_of(exchange, name)) {
        answer_problem(exchange, MHD_HTTP_CONFLICT,
                       "namespace %s is the one that this server works for", name);
        return;
    }
    answer_done(exchange, hf_namespace_remove(exchange->bus, name, force ? HF_ON : HF_OFF));
}

/* ---- Retention ------------------------------------------------------------------------------- */

static int note_step(const hf_retention_info *info, void *ctx)
{
    struct retention_result *result = ctx;

    retention_note(result, info);
    return 0;
}

void retention_run(struct exchange *exchange)
{
    struct retention_result result = {.dropped = 0};
    struct members members;
    hf_status status;

    members_begin(&members, exchange);
    result.dry_run = members_flag(&members, "dry_run", false);
    if (!members_end(&members)) {
        return;
    }
    status =
        hf_retention_run(exchange->bus, NULL, result.dry_run ? HF_ON : HF_OFF, note_step, &result);
    if (status) {
        answer_failure(exchange, status);
        return;
    }
    struct json_out json = answer_json(exchange, MHD_HTTP_OK);
    json_object_begin(&json);
    show_retention(&json, &result);
    json_object_end(&json);
}
