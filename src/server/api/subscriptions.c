/*
 * subscriptions.c - looking at subscriptions, and steering them.
 */
#include "base/banned.h"
#include "base/text/json_read.h"
#include "server/api/api.h"

#include <microhttpd.h>

/* ---- Looking --------------------------------------------------------------------------------- */

static int list_subscription(const hf_subscription_info *info, void *ctx)
{
    struct list *list = ctx;

    show_subscription(list_item(list), info);
    list_item_end(list);
    return 0;
}

void subscriptions_list(struct exchange *exchange)
{
    struct list list;

    if (list_begin(&list, exchange)) {
        list_end(&list, hf_subscription_list(exchange->bus, list_subscription, &list), NULL);
    }
}

struct subscription_view {
    struct exchange *exchange;
    struct json_out json;
};

static int view_subscription(const hf_subscription_info *info, void *ctx)
{
    struct subscription_view *view = ctx;

    view->json = answer_json(view->exchange, MHD_HTTP_OK);
    json_object_begin(&view->json);
    show_subscription(&view->json, info);
    return 0;
}

static int view_partition(const hf_partition_info *info, void *ctx)
{
    struct subscription_view *view = ctx;

    json_object_begin(&view->json);
    show_partition(&view->json, info);
    json_object_end(&view->json);
    return 0;
}

static int view_running(const hf_running_info *running, void *ctx)
{
    struct subscription_view *view = ctx;

    json_object_begin(&view->json);
    show_running(&view->json, running);
    json_object_end(&view->json);
    return 0;
}

static int view_blocked(const hf_blocked_key *blocked, void *ctx)
{
    struct subscription_view *view = ctx;

    json_object_begin(&view->json);
    show_blocked_key(&view->json, blocked);
    json_object_end(&view->json);
    return 0;
}

void subscriptions_show(struct exchange *exchange)
{
    struct subscription_view view = {.exchange = exchange};
    const char *name = exchange_param(exchange, "name");
    hf_status status = hf_subscription_get(exchange->bus, name, view_subscription, &view);

    if (!status) {
        json_key(&view.json, "partitions");
        json_array_begin(&view.json);
        status = hf_partition_list(exchange->bus, name, view_partition, &view);
        json_array_end(&view.json);
    }
    if (!status) {
        json_key(&view.json, "running");
        json_array_begin(&view.json);
        status = hf_running_list(exchange->bus, name, 0, LIST_LIMIT, view_running, &view);
        json_array_end(&view.json);
    }
    if (!status) {
        json_key(&view.json, "blocked_keys");
        json_array_begin(&view.json);
        status = hf_blocked_list(exchange->bus, name, 0, LIST_LIMIT, view_blocked, &view);
        json_array_end(&view.json);
        json_object_end(&view.json);
    }
    if (status) {
        answer_failure(exchange, status);
    }
}

/* ---- Changing -------------------------------------------------------------------------------- */

/* Takes the members that are options, each by its name in the struct. */
static void take_options(struct members *members, hf_subscription_options *options)
{
#define CHOICE(field, last, initial, others, flag, key, help)                                      \
    options->field = members_choice(members, #field, initial "|" others);
#define NUMBER(field, initial, min, max, flag, unit, key, help)                                    \
    options->field = (int32_t)members_number(members, #field, min, max, -1);
#define PERIOD(field, initial, min, max, flag, key, help)                                          \
    options->field = members_number(members, #field, min, max, -1);
#define FACTOR(field, initial, min, max, flag, unit, key, help)                                    \
    options->field = members_decimal(members, #field, -1.0);
#include "bus/options.def"
}

/* The strings of an array. */
static size_t take_patterns(struct members *members, const char *ret_patterns[HF_PATTERNS_MAX])
{
    struct text raw = members_raw(members, "patterns");
    struct json_iter iter;
    struct text element;
    size_t count = 0;

    if (json_kind(raw) != JSON_ARRAY) {
        members_mistake(members, "\"patterns\" takes an array of strings, such as [\"user.*\"]");
        return 0;
    }
    json_iter_init(&iter, raw);
    while (json_iter_next(&iter, NULL, &element)) {
        const char *pattern = members_string(members, "patterns", element);
        if (count == HF_PATTERNS_MAX || !pattern) {
            members_mistake(members, "\"patterns\" takes up to %d strings", HF_PATTERNS_MAX);
            return count;
        }
        ret_patterns[count++] = pattern;
    }
    return count;
}

void subscriptions_put(struct exchange *exchange)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    const char *name = exchange_param(exchange, "name");
    const char *patterns[HF_PATTERNS_MAX];
    struct members members;
    size_t count;
    int32_t created = 0;
    hf_status status;

    members_begin(&members, exchange);
    count = take_patterns(&members, patterns);
    options.from = members_place(&members, "from");
    take_options(&members, &options);
    if (!members_end(&members)) {
        return;
    }
    status = hf_subscription_create(exchange->bus, name, patterns, count, &options, &created);
    if (status) {
        answer_failure(exchange, status);
        return;
    }
    subscriptions_show(exchange);
    if (created && exchange->status == MHD_HTTP_OK) {
        exchange->status = MHD_HTTP_CREATED;
    }
}

void subscriptions_remove(struct exchange *exchange)
{
    answer_done(exchange, hf_subscription_remove(exchange->bus, exchange_param(exchange, "name")));
}

void subscriptions_pause(struct exchange *exchange)
{
    struct members members;
    const char *reason;

    members_begin(&members, exchange);
    reason = members_text(&members, "reason");
    if (members_end(&members)) {
        answer_done(exchange, hf_pause(exchange->bus, exchange_param(exchange, "name"), reason));
    }
}

void subscriptions_resume(struct exchange *exchange)
{
    answer_done(exchange, hf_resume(exchange->bus, exchange_param(exchange, "name")));
}

void subscriptions_seek(struct exchange *exchange)
{
    struct members members;
    hf_place to;
    hf_toggle dry_run;
    int64_t count = 0;

    members_begin(&members, exchange);
    to = members_place(&members, "to");
    dry_run = members_flag(&members, "dry_run", false) ? HF_ON : HF_OFF;
    if (to.kind == HF_PLACE_NONE) {
        members_mistake(&members, "\"to\" is missing: where should it go?");
    }
    if (members_end(&members)) {
        hf_status status =
            hf_seek(exchange->bus, exchange_param(exchange, "name"), to, dry_run, &count);
        answer_count(exchange, status, "positions", count);
    }
}
