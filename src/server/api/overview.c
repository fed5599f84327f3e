/*
 * overview.c - the namespace as a whole, its nodes, and the namespaces of the database.
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
