/*
 * dead_letters.c - dead letters: looking at them, retrying, resolving and purging.
 */
#include "base/banned.h"
#include "base/err.h"
#include "base/text/json_read.h"
#include "base/time/clock.h"
#include "base/time/time.h"
#include "server/api/api.h"

#include <microhttpd.h>

#define WORK_MS_DEFAULT 10000
#define WORK_MS_MAX 60000
#define PACED_MAX 1000  /* dead letters at once */
#define PACE_STEP_MS 20 /* between two looks how many are due */

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

/* The conditions of a filter, from the query. False after a refusal. */
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

static bool parse_dead_id(const char *word, int64_t *ret_dead_id)
{
    return json_int_decode(text_of(word), ret_dead_id) == HF_OK && *ret_dead_id >= 1;
}

/* The number in the path. False after a refusal. */
static bool dead_id(struct exchange *exchange, int64_t *ret_dead_id)
{
    const char *word = exchange_param(exchange, "dead_id");

    if (!parse_dead_id(word, ret_dead_id)) {
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
    return list_is_full(&letters->list);
}

void dead_letters_list(struct exchange *exchange)
{
    struct letters letters = {.last = 0};
    hf_dead_filter filter;
    char next[24];
    hf_status status;

    if (!query_filter(exchange, &filter) ||
        !exchange_query_number(exchange, "after", 1, INT64_MAX, &filter.before_dead_id) ||
        !list_begin(&letters.list, exchange)) {
        return;
    }
    filter.limit = (int32_t)letters.list.limit;
    status = hf_dead_list(exchange->bus, &filter, list_letter, &letters);
    snprintf(next, sizeof next, "%" PRId64, letters.last);
    list_end(&letters.list, status, list_is_full(&letters.list) ? next : NULL);
}

struct groups {
    struct list list;
    hf_dead_by by;
};

static int list_group(const hf_dead_group *group, void *ctx)
{
    struct groups *groups = ctx;

    show_dead_group(list_item(&groups->list), groups->by, group);
    list_item_end(&groups->list);
    return 0;
}

void dead_letters_groups(struct exchange *exchange)
{
    hf_dead_totals totals = {.size = sizeof totals};
    struct groups groups;
    hf_dead_filter filter;
    hf_status status;
    int by = HF_DEAD_BY_ERROR;

    if (!exchange_query_choice(exchange, "by", SHOW_DEAD_BY, &by) ||
        !query_filter(exchange, &filter) || !list_begin(&groups.list, exchange)) {
        return;
    }
    filter.limit = (int32_t)groups.list.limit;
    groups.by = (hf_dead_by)by;
    status = hf_dead_groups(exchange->bus, groups.by, &filter, list_group, &groups, &totals);
    if (!status) {
        struct json_out *rest = list_rest(&groups.list);
        show_int(rest, "groups", totals.groups);
        show_int(rest, "dead_letters", totals.letters);
        show_bool(rest, "more", totals.more == 1);
    }
    list_end(&groups.list, status, NULL);
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

/* So many a second, for a time. */
struct pace {
    double rate; /* 0: as fast as it goes */
    int64_t work_ms;
};

static struct pace take_pace(struct members *members)
{
    const char *rate = members_text(members, "rate");
    struct pace pace = {.work_ms =
                            members_number(members, "work_ms", 0, WORK_MS_MAX, WORK_MS_DEFAULT)};

    if (rate && (rate_parse(rate, &pace.rate) || pace.rate * WORK_MS_MAX < 1000)) {
        members_mistake(members, "\"rate\" takes a rate such as 50/s, from 1/m on");
    } else if (rate && pace.work_ms * pace.rate < 1000) {
        pace.work_ms = (int64_t)(1000 / pace.rate) + 1; /* so that each request retries one */
    }
    return pace;
}

static int64_t take_before(struct members *members)
{
    const char *word = members_text(members, "before_dead_id");
    int64_t dead_id = -1;

    if (word && !parse_dead_id(word, &dead_id)) {
        members_mistake(members, "\"before_dead_id\" takes the number of a dead letter, as \"7\"");
    }
    return dead_id;
}

static int note_dead_id(const hf_dead_letter *letter, void *ctx)
{
    *(int64_t *)ctx = letter->dead_id;
    return 0;
}

/* Only those that are there now: one that dies again at once gets another number. */
static hf_status bound_filter(struct exchange *exchange, hf_dead_filter *filter)
{
    hf_dead_filter newest = *filter;
    int64_t dead_id = 0;
    hf_status status;

    if (filter->before_dead_id != -1) {
        return HF_OK;
    }
    newest.limit = 1;
    status = hf_dead_list(exchange->bus, &newest, note_dead_id, &dead_id);
    filter->before_dead_id = dead_id + 1;
    return status;
}

static hf_status retry_paced(struct exchange *exchange, hf_dead_filter filter,
                             const struct pace *pace, int64_t *ret_count)
{
    int64_t began_us = clock_mono_us();
    int64_t limit = filter.limit == -1 ? INT64_MAX : filter.limit;

    while (!exchange_is_stopping(exchange) && *ret_count < limit) {
        int64_t past_us = clock_mono_us() - began_us;
        int64_t due = (int64_t)(pace->rate * (double)past_us / 1e6) - *ret_count;
        due = due < limit - *ret_count ? due : limit - *ret_count;
        if (due > 0) {
            int64_t count = 0;
            filter.limit = due < PACED_MAX ? (int32_t)due : PACED_MAX;
            hf_status status = hf_dead_retry_all(exchange->bus, &filter, &count);
            *ret_count += count;
            if (status || count < filter.limit) {
                return status;
            }
        }
        if (past_us >= pace->work_ms * 1000) {
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = PACE_STEP_MS * 1000000}, NULL);
    }
    return HF_OK;
}

/* Answers how far it is. */
static void retry_at_rate(struct exchange *exchange, hf_dead_filter filter, struct pace pace)
{
    int64_t count = 0;
    int64_t left = 0;
    hf_status status;

    if (!exchange_begins_long(exchange)) {
        answer_header(exchange, "Retry-After", "5");
        answer_problem(exchange, MHD_HTTP_SERVICE_UNAVAILABLE,
                       "too many requests work at a rate already");
        return;
    }
    status = bound_filter(exchange, &filter);
    status = status ? status : retry_paced(exchange, filter, &pace, &count);
    exchange_ends_long(exchange);
    filter.limit = -1;
    status = status ? status : hf_dead_count(exchange->bus, &filter, &left);
    if (status) {
        answer_failure(exchange, status);
        return;
    }
    struct json_out json = answer_json(exchange, MHD_HTTP_OK);
    json_object_begin(&json);
    show_int(&json, "dead_letters", count);
    show_int(&json, "left", left);
    show_id(&json, "before_dead_id", filter.before_dead_id);
    json_object_end(&json);
}

void dead_letters_retry_all(struct exchange *exchange)
{
    struct members members;
    hf_dead_filter filter;
    struct pace pace;
    bool dry_run;
    int64_t count = 0;
    hf_status status;

    members_begin(&members, exchange);
    filter = take_filter(&members);
    filter.limit = (int32_t)members_number(&members, "limit", 1, INT32_MAX, -1);
    filter.before_dead_id = take_before(&members);
    pace = take_pace(&members);
    dry_run = members_flag(&members, "dry_run", false);
    if (!members_end(&members)) {
        return;
    }
    if (pace.rate > 0 && !dry_run) {
        retry_at_rate(exchange, filter, pace);
        return;
    }
    status = dry_run ? hf_dead_count(exchange->bus, &filter, &count)
                     : hf_dead_retry_all(exchange->bus, &filter, &count);
    answer_count(exchange, status, "dead_letters", count);
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
