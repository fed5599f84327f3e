/*
 * timers.c - what happens by the clock: events for later, and schedules.
 */
#include "base/banned.h"
#include "base/err.h"
#include "base/text/json_read.h"
#include "base/time/clock.h"
#include "server/api/api.h"

#include <microhttpd.h>

#define RUNS_SHOWN 20
#define COMING_SHOWN 5
#define COMING_LOOKED_AT 400 /* a year of a daily one */

/* ---- Events for later ------------------------------------------------------------------------ */

struct waiting {
    struct list list;
    int64_t last_us;
    int64_t last_number;
};

static int list_one(const hf_later_info *info, void *ctx)
{
    struct waiting *waiting = ctx;

    waiting->last_us = info->due_at_us;
    waiting->last_number = info->number;
    show_later_row(list_item(&waiting->list), info);
    list_item_end(&waiting->list);
    return 0;
}

/* "DUE_US-NUMBER", as `next` of the list says it. False after a refusal. */
static bool query_after(struct exchange *exchange, hf_later_filter *filter)
{
    const char *after = exchange_query(exchange, "after");
    char *end = NULL;

    if (!after) {
        return true;
    }
    filter->after_due_at_us = strtoll(after, &end, 10);
    if (*end == '-' && end != after) {
        filter->after_number = strtoll(end + 1, &end, 10);
    }
    if (*end || filter->after_number < 0 || filter->after_due_at_us < 0) {
        return answer_problem(exchange, MHD_HTTP_BAD_REQUEST,
                              "the parameter after takes what the list before has as next");
    }
    return true;
}

void later_list(struct exchange *exchange)
{
    struct waiting waiting = {.last_us = -1};
    hf_later_filter filter = HF_LATER_FILTER_INIT;
    char next[64];
    hf_status status;

    filter.type = exchange_query(exchange, "type");
    filter.key = exchange_query(exchange, "key");
    if (!query_after(exchange, &filter) || !list_begin(&waiting.list, exchange)) {
        return;
    }
    filter.limit = (int32_t)waiting.list.limit;
    status = hf_later_list(exchange->bus, &filter, list_one, &waiting);
    snprintf(next, sizeof next, "%" PRId64 "-%" PRId64, waiting.last_us, waiting.last_number);
    list_end(&waiting.list, status, waiting.list.count == waiting.list.limit ? next : NULL);
}

static int view_one(const hf_later_info *info, void *ctx)
{
    struct json_out json = answer_json(ctx, MHD_HTTP_OK);

    json_object_begin(&json);
    show_later(&json, info);
    json_object_end(&json);
    return 0;
}

void later_show(struct exchange *exchange)
{
    hf_status status =
        hf_later_get(exchange->bus, exchange_param(exchange, "id"), view_one, exchange);

    if (status) {
        answer_failure(exchange, status);
    }
}

/* Exactly one of two things has happened: it was changed, or it had entered the log before. */
static void answer_later(struct exchange *exchange, hf_status status, int64_t position)
{
    if (!status && position > 0) {
        status =
            fail(HF_CONFLICT, "it has entered the log already, at position %" PRId64, position);
    }
    answer_done(exchange, status);
}

void later_cancel(struct exchange *exchange)
{
    int64_t position = 0;
    hf_status status = hf_later_cancel(exchange->bus, exchange_param(exchange, "id"), &position);

    answer_later(exchange, status, position);
}

void later_move(struct exchange *exchange)
{
    struct members members;
    int64_t at_us;
    int64_t position = 0;

    members_begin(&members, exchange);
    at_us = members_time(&members, "deliver_at");
    if (at_us == -1) {
        members_mistake(&members, "\"deliver_at\" is missing: when should it come?");
    }
    if (members_end(&members)) {
        hf_status status =
            hf_later_move(exchange->bus, exchange_param(exchange, "id"), at_us, &position);
        answer_later(exchange, status, position);
    }
}

void later_tick(struct exchange *exchange)
{
    hf_tick_info info = {.size = sizeof info};
    hf_status status = hf_tick(exchange->bus, &info);

    if (status) {
        answer_failure(exchange, status);
        return;
    }
    struct json_out json = answer_json(exchange, MHD_HTTP_OK);
    json_object_begin(&json);
    show_tick(&json, &info);
    json_object_end(&json);
}

/* ---- Schedules ------------------------------------------------------------------------------- */

static int list_schedule(const hf_schedule_info *info, void *ctx)
{
    struct list *list = ctx;

    show_schedule(list_item(list), info);
    list_item_end(list);
    return 0;
}

void schedules_list(struct exchange *exchange)
{
    struct list list;

    if (list_begin(&list, exchange)) {
        list_end(&list, hf_schedule_list(exchange->bus, list_schedule, &list), NULL);
    }
}

static void show_one_coming(struct json_out *json, const struct coming *coming,
                            const struct zone *zone)
{
    json_object_begin(json);
    show_coming(json, coming, zone);
    json_object_end(json);
}

/* The next times, and the first one behind them that has a note: a time that is not what the
 * expression says, because the clocks are changed, is rarely among the next ones. */
static void show_times(struct json_out *json, const struct cron *cron, const struct zone *zone)
{
    struct coming coming = {.at_us = clock_wall_us()};
    bool noted = false;

    for (int i = 0; i < COMING_LOOKED_AT && coming_next(cron, zone, coming.at_us, &coming); i++) {
        if (i >= COMING_SHOWN && noted) {
            break;
        }
        noted |= coming.note[0] != '\0';
        if (i < COMING_SHOWN || noted) {
            show_one_coming(json, &coming, zone);
        }
    }
}

/* None if the zone cannot be read any more. */
static void show_coming_times(struct json_out *json, const hf_schedule *schedule)
{
    struct zone *zone = NULL;
    struct cron cron;

    json_key(json, "coming");
    json_array_begin(json);
    if (!cron_parse(text_of(schedule->expression), &cron) &&
        !zone_new(text_of(schedule->zone ? schedule->zone : "UTC"), getenv("TZDIR"), &zone)) {
        show_times(json, &cron, zone);
    }
    json_array_end(json);
    zone_free(zone);
}

struct schedule_view {
    struct exchange *exchange;
    struct json_out json;
};

static int view_schedule(const hf_schedule_info *info, void *ctx)
{
    struct schedule_view *view = ctx;

    view->json = answer_json(view->exchange, MHD_HTTP_OK);
    json_object_begin(&view->json);
    show_schedule(&view->json, info);
    show_coming_times(&view->json, &info->schedule);
    return 0;
}

static int view_run(const hf_schedule_run_info *run, void *ctx)
{
    struct schedule_view *view = ctx;

    json_object_begin(&view->json);
    show_schedule_run(&view->json, run);
    json_object_end(&view->json);
    return 0;
}

void schedules_show(struct exchange *exchange)
{
    struct schedule_view view = {.exchange = exchange};
    const char *name = exchange_param(exchange, "name");
    hf_status status = hf_schedule_get(exchange->bus, name, view_schedule, &view);

    if (!status) {
        json_key(&view.json, "runs");
        json_array_begin(&view.json);
        status = hf_schedule_runs(exchange->bus, name, -1, RUNS_SHOWN, view_run, &view);
        json_array_end(&view.json);
        json_object_end(&view.json);
    }
    if (status) {
        answer_failure(exchange, status);
    }
}

void schedules_put(struct exchange *exchange)
{
    hf_schedule schedule = HF_SCHEDULE_INIT;
    struct members members;
    struct text raw;
    int32_t created = 0;
    hf_status status;

    members_begin(&members, exchange);
    schedule.name = exchange_param(exchange, "name");
    schedule.expression = members_text(&members, "expression");
    schedule.zone = members_text(&members, "zone");
    schedule.type = members_text(&members, "type");
    raw = arena_text(&exchange->memory, members_raw(&members, "payload"));
    schedule.payload = raw.bytes;
    schedule.payload_bytes = raw.bytes ? raw.length : 0;
    schedule.key = members_text(&members, "key");
    schedule.tenant = members_text(&members, "tenant");
    schedule.metadata = arena_text(&exchange->memory, members_raw(&members, "metadata")).bytes;
    schedule.misfire = (hf_misfire)members_choice(&members, "misfire", SHOW_MISFIRES);
    schedule.misfire_cap =
        (int32_t)members_number(&members, "misfire_cap", 1, HF_MISFIRE_CAP_MAX, -1);
    schedule.grace_ms = members_number(&members, "grace_ms", 0, INT64_C(86400000), -1);
    schedule.driver = (hf_driver)members_choice(&members, "driver", SHOW_DRIVERS);
    if (!schedule.expression || !schedule.type) {
        members_mistake(&members, "\"expression\" and \"type\" are needed");
    }
    if (!members_end(&members)) {
        return;
    }
    status = hf_schedule_put(exchange->bus, &schedule, &created);
    if (status) {
        answer_failure(exchange, status);
        return;
    }
    schedules_show(exchange);
    if (created && exchange->status == MHD_HTTP_OK) {
        exchange->status = MHD_HTTP_CREATED;
    }
}

void schedules_remove(struct exchange *exchange)
{
    answer_done(exchange, hf_schedule_remove(exchange->bus, exchange_param(exchange, "name")));
}

void schedules_pause(struct exchange *exchange)
{
    struct members members;
    const char *reason;

    members_begin(&members, exchange);
    reason = members_text(&members, "reason");
    if (members_end(&members)) {
        answer_done(exchange,
                    hf_schedule_pause(exchange->bus, exchange_param(exchange, "name"), reason));
    }
}

void schedules_resume(struct exchange *exchange)
{
    answer_done(exchange, hf_schedule_resume(exchange->bus, exchange_param(exchange, "name")));
}

void schedules_run(struct exchange *exchange)
{
    hf_receipt receipt;
    hf_status status = hf_schedule_run(exchange->bus, exchange_param(exchange, "name"), &receipt);

    if (status) {
        answer_failure(exchange, status);
        return;
    }
    struct json_out json = answer_json(exchange, MHD_HTTP_CREATED);
    json_object_begin(&json);
    show_receipt(&json, &receipt, -1);
    json_object_end(&json);
}
