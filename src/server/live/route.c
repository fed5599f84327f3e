/*
 * route.c - the route GET live: from the query to a view.
 */
#include "base/banned.h"
#include "server/live/sampler.h"

#include <microhttpd.h>

void live_show(struct exchange *exchange);

#define FROM_MAX 1000000000

static bool query_text(struct exchange *exchange, const char *name, char *ret_text, size_t bytes)
{
    const char *text = exchange_query(exchange, name);

    if (text && strlen(text) >= bytes) {
        return answer_problem(exchange, MHD_HTTP_BAD_REQUEST,
                              "the parameter %s is at most %zu bytes long", name, bytes - 1);
    }
    snprintf(ret_text, bytes, "%s", text ? text : "");
    return true;
}

void live_show(struct exchange *exchange)
{
    struct live_view view = {.rows = 50};
    int64_t range_s = 900;
    int only = VIEW_ALL;
    int sort = 0;

    if (!exchange_query_number(exchange, "range", 0, HISTORY_MS / 1000, &range_s) ||
        !exchange_query_number(exchange, "limit", 0, VIEW_ROWS_MAX, &view.rows) ||
        !exchange_query_number(exchange, "from", 0, FROM_MAX, &view.from) ||
        !exchange_query_flag(exchange, "flow", &view.flow) ||
        !exchange_query_choice(exchange, "only", "all|attention|paused|dead", &only) ||
        !exchange_query_choice(exchange, "sort", "attention|name", &sort) ||
        !query_text(exchange, "query", view.query, sizeof view.query) ||
        !query_text(exchange, "subscription", view.subscription, sizeof view.subscription)) {
        return;
    }
    view.range_ms = range_s * 1000;
    view.only = (enum view_only)only;
    view.by_name = sort == 1;
    sampler_answer(sampler_of(exchange), exchange, &view);
}
