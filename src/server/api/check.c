/*
 * check.c - is everything as it should be? The findings of the command `check`.
 */
#include "base/banned.h"
#include "base/time/clock.h"
#include "cli/watch/findings.h"
#include "server/api/api.h"

#include <microhttpd.h>

#define NAMES_MAX 64

/* The limits of the query. False after a refusal. */
static bool take_limits(struct exchange *exchange, struct check_limits *limits)
{
    return exchange_query_number(exchange, "max_wait_ms", 0, INT64_MAX, &limits->max_wait_ms) &&
           exchange_query_number(exchange, "max_dead", 0, INT64_MAX, &limits->max_dead) &&
           exchange_query_number(exchange, "max_lag", 0, INT64_MAX, &limits->max_lag) &&
           exchange_query_number(exchange, "nodes", 0, INT64_MAX, &limits->nodes);
}

void check_show(struct exchange *exchange)
{
    const char *names[NAMES_MAX];
    struct findings findings;
    hf_status status;

    findings_init(&findings, clock_wall_us());
    findings.names = names;
    findings.own_nodes = exchange_has_own_bus(exchange);
    if (exchange_query_words(exchange, "subscription", names, NAMES_MAX, &findings.name_count) &&
        take_limits(exchange, &findings.limits)) {
        status = findings_look(&findings, exchange->bus);
        if (status) {
            answer_failure(exchange, status);
        } else {
            struct json_out json = answer_json(exchange, MHD_HTTP_OK);
            json_object_begin(&json);
            findings_show(&json, &findings);
            json_object_end(&json);
        }
    }
    findings_release(&findings);
}
