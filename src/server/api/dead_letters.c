/*
 * dead_letters.c - dead letters: looking at them, retrying, resolving and purging.
 */
#include "base/banned.h"
#include "base/err.h"
#include "base/text/json_read.h"
#include "base/time/time.h"
#include "server/api/api.h"

#include <microhttpd.h>

/* ---- Which ones ------------------------------------------------------------------------------ */

static bool query_time(struct exchange *exchange, const char *name, int64_t *ret_us)
{
    const char *text = exchange_query(exchange, name);

    if (text && time_parse(text_of(text), ret_us)) {
        return answer_problem(exchange, MHD_HTTP_BAD_REQUEST,
                              "the parameter %s takes a time such as 2026-01-31T12:00:00Z", name);
    }
    return true;
}

/* The filter of a list, from the query. False after a refusal. */
static bool query_filter(struct exchange *exchange, hf_dead_filter *ret_filter)
{
    hf_dead_filter filter = HF_DEAD_FILTER_INIT;
    bool resolved = false;

    filter.subscription = exchange_query(exchange, "subscription");
    filter.type = exchange_query(exchange, "type");
    filter.error = exchange_query(exchange, "error");
    filter.reason = exchange_query(exchange, "reason");
    if (!query_time(exchange, "failed_before", &filter.failed_before_us) ||
        !query_time(exchange, "failed_after", &filter.failed_after_us) ||
        !exchange_query_number(exchange, "after", 1, INT64_MAX, &filter.before_dead_id) ||
        !exchange_query_flag(exchange, "resolved", &resolved)) {
        return false;
    }
    filter.resolved = resolved ? HF_ON : HF_OFF;
    *ret_filter = filter;
    return true;
}

/* The filter of a change, from the body. At least one condition must be given, or "all": true. */
static hf_dead_filter take_filter(struct members *members)
{
    hf_dead_filter filter = HF_DEAD_FILTER_INIT;
    bool all;

    filter.subscription = members_text(members, "subscription");
    filter.type = members_text(members, "type");
    filter.error = members_text(members, "error");
    filter.reason = members_text(members, "reason");
    filter.failed_before_us = members_time(members, "failed_before");
    filter.failed_after_us = members_time(members, "failed_after");
    all = members_flag(members, "all", false);
    if (!all && !filter.subscription && !filter.type && !filter.error && !filter.reason &&
        filter.failed_before_us == -1 && filter.failed_after_us == -1) {
        members_mistake(members, "which ones? Give a condition, or \"all\": true");
    }
    return filter;
}

/* The number in the path. False after a refusal. */
static bool dead_id(struct exchange *exchange, int64_t *ret_dead_id)
{
    const char *word = exchange_param(exchange, "dead_id");

    if (json_int_decode(text_of(word), ret_dead_id) || *ret_dead_id < 1) {
        return answer_problem(exchange, MHD_HTTP_BAD_REQUEST,
                              "'%.64s' is not the number of a dead letter", word);
    }
    return true;
}

/* ---- Looking --------------------------------------------------------------------------------- */

struct letters {
    struct list list;
    int64_t last;
};

static int list_letter(const hf_dead_letter *letter, void *ctx)
{
    struct letters *letters = ctx;

    letters->last = letter->dead_id;
    show_dead_letter(list_item(&letters->list), letter);
    list_item_end(&letters->list);
    return 0;
}

void dead_letters_list(struct exchange *exchange)
{
    struct letters letters = {.last = 0};
    hf_dead_filter filter;
    char next[24];
    hf_status status;

    if (!query_filter(exchange, &filter) || !list_begin(&letters.list, exchange)) {
        return;
    }
    filter.limit = (int32_t)letters.list.limit;
    status = hf_dead_list(exchange->bus, &filter, list_letter, &letters);
    snprintf(next, sizeof next, "%" PRId64, letters.last);
    list_end(&letters.list, status, letters.list.count == letters.list.limit ? next : NULL);
}

static int view_letter(const hf_dead_letter *letter, void *ctx)
{
    struct json_out json = answer_json(ctx, MHD_HTTP_OK);

    json_object_begin(&json);
    show_dead_letter(&json, letter);
    json_object_end(&json);
    return 0;
}

void dead_letters_show(struct exchange *exchange)
{
    int64_t id;

    if (dead_id(exchange, &id)) {
        hf_status status = hf_dead_get(exchange->bus, id, view_letter, exchange);
        if (status) {
            answer_failure(exchange, status);
        }
    }
}

static int view_payload(const hf_dead_letter *letter, void *ctx)
{
    answer_static(ctx, "application/json",
                  (struct text){letter->event.payload, letter->event.payload_bytes});
    return 0;
}

void dead_letters_payload(struct exchange *exchange)
{
    int64_t id;

    if (dead_id(exchange, &id)) {
        hf_status status = hf_dead_get(exchange->bus, id, view_payload, exchange);
        if (status) {
            answer_failure(exchange, status);
        }
    }
}

/* ---- Changing -------------------------------------------------------------------------------- */

void dead_letters_retry(struct exchange *exchange)
{
    struct members members;
    struct text payload;
    int64_t id;

    if (!dead_id(exchange, &id)) {
        return;
    }
    members_begin(&members, exchange);
    payload = arena_text(&exchange->memory, members_raw(&members, "payload"));
    if (members_end(&members)) {
        answer_done(exchange, hf_dead_retry(exchange->bus, id, payload.bytes, payload.length));
    }
}

void dead_letters_resolve(struct exchange *exchange)
{
    struct members members;
    const char *note;
    int64_t id;

    if (!dead_id(exchange, &id)) {
        return;
    }
    members_begin(&members, exchange);
    note = members_text(&members, "note");
    if (members_end(&members)) {
        answer_done(exchange, hf_dead_resolve(exchange->bus, id, exchange->actor, note));
    }
}

void dead_letters_retry_all(struct exchange *exchange)
{
    struct members members;
    hf_dead_filter filter;
    bool dry_run;
    int64_t count = 0;

    members_begin(&members, exchange);
    filter = take_filter(&members);
    filter.limit = (int32_t)members_number(&members, "limit", 1, INT32_MAX, -1);
    dry_run = members_flag(&members, "dry_run", false);
    if (members_end(&members)) {
        hf_status status = dry_run ? hf_dead_count(exchange->bus, &filter, &count)
                                   : hf_dead_retry_all(exchange->bus, &filter, &count);
        answer_count(exchange, status, "dead_letters", count);
    }
}

void dead_letters_purge(struct exchange *exchange)
{
    struct members members;
    hf_dead_filter filter;
    bool dry_run;
    int64_t count = 0;

    members_begin(&members, exchange);
    filter = take_filter(&members);
    filter.resolved = members_flag(&members, "resolved", false) ? HF_ON : HF_OFF;
    dry_run = members_flag(&members, "dry_run", false);
    if (members_end(&members)) {
        hf_status status = dry_run ? hf_dead_count(exchange->bus, &filter, &count)
                                   : hf_dead_purge(exchange->bus, &filter, &count);
        answer_count(exchange, status, "dead_letters", count);
    }
}
