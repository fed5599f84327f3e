/*
 * api.c - see api.h.
 */
#include "server/api/api.h"

#include "base/banned.h"
#include "base/text/json_read.h"

#include <microhttpd.h>

#define ROUTE(method, template_text, scope, role, function, query, body, answers, summary)         \
    {#method,   template_text, SCOPE_##scope, ROLE_##role, function,                               \
     #function, query,         body,          answers,     summary},
const struct route routes[] = {
#include "server/api/routes.def"
};
#undef ROUTE

const size_t route_count = sizeof routes / sizeof routes[0];

/* ---- Lists ----------------------------------------------------------------------------------- */

bool list_begin(struct list *list, struct exchange *exchange)
{
    *list = (struct list){.exchange = exchange, .limit = LIST_LIMIT};
    if (!exchange_query_number(exchange, "limit", 1, LIST_LIMIT_MAX, &list->limit)) {
        return false;
    }
    list->json = answer_json(exchange, MHD_HTTP_OK);
    json_object_begin(&list->json);
    json_key(&list->json, "items");
    json_array_begin(&list->json);
    return true;
}

struct json_out *list_item(struct list *list)
{
    list->count++;
    json_object_begin(&list->json);
    return &list->json;
}

void list_item_end(struct list *list)
{
    json_object_end(&list->json);
}

struct json_out *list_rest(struct list *list)
{
    json_array_end(&list->json);
    list->ended = true;
    return &list->json;
}

bool list_is_full(const struct list *list)
{
    return list->count == list->limit || list->exchange->answer.length > LIST_BYTES_MAX;
}

void list_end(struct list *list, hf_status status, const char *next)
{
    if (status) {
        answer_failure(list->exchange, status);
        return;
    }
    if (!list->ended) {
        list_rest(list);
    }
    show_string(&list->json, "next", next);
    json_object_end(&list->json);
}

/* ---- Answers --------------------------------------------------------------------------------- */

void answer_done(struct exchange *exchange, hf_status status)
{
    if (status) {
        answer_failure(exchange, status);
    } else {
        answer_empty(exchange, MHD_HTTP_NO_CONTENT);
    }
}

void answer_count(struct exchange *exchange, hf_status status, const char *name, int64_t count)
{
    if (status) {
        answer_failure(exchange, status);
        return;
    }
    struct json_out json = answer_json(exchange, MHD_HTTP_OK);
    json_object_begin(&json);
    show_int(&json, name, count);
    json_object_end(&json);
}

/* ---- Requests -------------------------------------------------------------------------------- */

hf_place members_place(struct members *members, const char *name)
{
    struct text raw = members_raw(members, name);
    hf_place place = {HF_PLACE_NONE, -1};
    const char *text;

    members->name_count--; /* it is asked for again */
    if (json_kind(raw) == JSON_NUMBER) {
        place.kind = HF_PLACE_POSITION;
        place.value = members_number(members, name, 0, INT64_MAX, -1);
        return place;
    }
    text = members_text(members, name);
    if (text && !place_parse(text, &place)) {
        members_mistake(members,
                        "\"%s\" takes \"start\", \"now\", a position, or a time such as "
                        "\"2026-01-31T12:00:00Z\"",
                        name);
    }
    return place;
}
