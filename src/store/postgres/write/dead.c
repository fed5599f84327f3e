/*
 * dead.c - dead letters: retrying, resolving, purging, listing, grouping.
 *
 * A dead letter is a complete copy and refers to its subscription by name only. Retrying moves it
 * back: a row in retries and a copy of the event beside it, because the log may have forgotten the
 * event or the payload was edited. The dead letter goes in the same transaction, so the delivery is
 * in one place at any time. A lane that it blocked is freed when it is retried, resolved or purged.
 *
 * Lists are read in the order of numbers, page by page, so that neither side holds more than a page
 * in memory, and all pages are of one snapshot. Everything is filtered by the server. The session
 * stays with the listing while its callback runs; the callback may change what is listed.
 */
#include "base/err.h"
#include "base/point.h"
#include "base/time/clock.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/pg_lookup.h"
#include "store/postgres/wire/row.h"

#define PAGE_ROWS 64 /* each may be a megabyte */

/* Columns after the event's. */
enum dead_column {
    DEAD_ID = EVENT_COLUMNS,
    DEAD_SUBSCRIPTION,
    DEAD_REASON,
    DEAD_ERROR,
    DEAD_ATTEMPTS,
    DEAD_STORY,
    DEAD_FAILED_AT,
    DEAD_RESOLVED_AT,
    DEAD_RESOLVED_BY,
    DEAD_RESOLVED_NOTE,
    DEAD_CAUSE,
    DEAD_DELIVERIES
};

/* ---- Changes --------------------------------------------------------------------------------- */

static void fill_ids(struct params *params, const int64_t *dead_ids, size_t count)
{
    param_array(params, PARAM_INT8, count);
    for (size_t i = 0; i < count; i++) {
        element_int8(params, dead_ids[i]);
    }
}

/* How many were meant. */
static hf_status read_count(const PGresult *result, bool *ret_ring, int64_t *ret_count)
{
    hf_status status = postgres_answer(result, 0, 0);
    if (!status) {
        *ret_count = result_int8(result, 0, 2, 0);
        *ret_ring = true;
    }
    return status;
}

static hf_status retry_fill(struct postgres_engine *engine, struct params *params,
                            struct change *change)
{
    const struct dead_retry *retry = (const struct dead_retry *)change;
    param_int4(params, engine->namespace_id);
    fill_ids(params, retry->dead_ids, retry->count);
    param_json(params, retry->payload);
    param_local(params, change->now_us);
    HF_POINT("mid_dead_retry");
    return HF_OK;
}

static hf_status retry_read(struct postgres_engine *engine, struct change *change,
                            const PGresult *result, bool *ret_ring)
{
    (void)engine;
    struct dead_retry *retry = (struct dead_retry *)change;
    hf_status status = read_count(result, ret_ring, &retry->ret_count);
    if (!status) {
        retry->ret_resolved = result_int8(result, 0, 3, 0);
    }
    return status;
}

const struct verb postgres_verb_dead_retry = {
    .query = POSTGRES_QUERY_CHANGE_DEAD_RETRY,
    .fill = retry_fill,
    .read = retry_read,
};

static hf_status resolve_fill(struct postgres_engine *engine, struct params *params,
                              struct change *change)
{
    const struct dead_resolve *resolve = (const struct dead_resolve *)change;
    param_int4(params, engine->namespace_id);
    param_int8(params, resolve->dead_id);
    param_text(params, resolve->by);
    param_text(params, resolve->note);
    param_local(params, change->now_us);
    return HF_OK;
}

const struct verb postgres_verb_dead_resolve = {
    .query = POSTGRES_QUERY_CHANGE_DEAD_RESOLVE,
    .fill = resolve_fill,
    .read = postgres_read_ringing,
};

static hf_status purge_fill(struct postgres_engine *engine, struct params *params,
                            struct change *change)
{
    const struct dead_purge *purge = (const struct dead_purge *)change;
    param_int4(params, engine->namespace_id);
    fill_ids(params, purge->dead_ids, purge->count);
    param_local(params, change->now_us);
    return HF_OK;
}

static hf_status purge_read(struct postgres_engine *engine, struct change *change,
                            const PGresult *result, bool *ret_ring)
{
    (void)engine;
    return read_count(result, ret_ring, &((struct dead_purge *)change)->ret_count);
}

const struct verb postgres_verb_dead_purge = {
    .query = POSTGRES_QUERY_CHANGE_DEAD_PURGE,
    .fill = purge_fill,
    .read = purge_read,
};

/* ---- Listing --------------------------------------------------------------------------------- */

static hf_status hand_up(const PGresult *result, int row, hf_dead_letter_fn found, void *ctx,
                         int *ret_answer)
{
    char id_text[HF_ID_BYTES];
    hf_dead_letter letter = {
        .dead_id = result_int8(result, row, DEAD_ID, 0),
        .subscription = result_text(result, row, DEAD_SUBSCRIPTION).bytes,
        .reason = result_text(result, row, DEAD_REASON).bytes,
        .error = result_text(result, row, DEAD_ERROR).bytes,
        .attempts = (int32_t)result_int8(result, row, DEAD_ATTEMPTS, 0),
        .attempts_json = result_text(result, row, DEAD_STORY).bytes,
        .failed_at_us = result_time(result, row, DEAD_FAILED_AT, 0),
        .resolved_at_us = result_time(result, row, DEAD_RESOLVED_AT, -1),
        .resolved_by = result_text(result, row, DEAD_RESOLVED_BY).bytes,
        .resolved_note = result_text(result, row, DEAD_RESOLVED_NOTE).bytes,
        .cause = result_text(result, row, DEAD_CAUSE).bytes,
    };
    hf_status status = event_view(result, row, 0, id_text, &letter.event);
    letter.event.deliveries = (int32_t)result_int8(result, row, DEAD_DELIVERIES, -1);
    if (!status) {
        *ret_answer = found(&letter, ctx);
    }
    return status;
}

hf_status postgres_dead_get(struct engine *engine, int64_t dead_id, hf_dead_letter_fn found,
                            void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_DEAD_GET);
    param_int4(params, postgres_of(engine)->namespace_id);
    param_int8(params, dead_id);
    if (pg_lookup_run(&lookup)) {
        int answer;
        lookup.status = lookup.rows > 0
                            ? hand_up(lookup.result, 0, found, ctx, &answer)
                            : fail(HF_NOTFOUND, "there is no dead letter %lld", (long long)dead_id);
    }
    return pg_lookup_end(&lookup);
}

static void fill_time(struct params *params, int64_t us)
{
    if (us >= 0) {
        param_local(params, us);
    } else {
        param_null(params, PARAM_TIME);
    }
}

/* All but the numbers. */
static void fill_conditions(struct postgres_engine *engine, struct params *params,
                            const struct dead_query *query)
{
    param_text(params, query->subscription);
    param_bool(params, query->resolved_too);
    param_text(params, query->type);
    param_text(params, query->error);
    param_text(params, query->reason);
    params->shift_us = skew_shift(engine, clock_wall_us());
    fill_time(params, query->failed_before_us);
    fill_time(params, query->failed_after_us);
}

static void fill_limit(struct params *params, int64_t limit, int64_t offset)
{
    if (limit >= 0) {
        param_int8(params, limit);
    } else {
        param_null(params, PARAM_INT8);
    }
    param_int8(params, offset > 0 ? offset : 0);
}

/* Numbers between `after` and `before`, at most `limit` (-1: all), without the first `offset`. */
static void fill_query(struct postgres_engine *engine, struct params *params,
                       const struct dead_query *query, int64_t after, int64_t before, int64_t limit,
                       int64_t offset)
{
    param_int4(params, engine->namespace_id);
    param_int8(params, after);
    param_int8(params, before);
    fill_conditions(engine, params, query);
    fill_limit(params, limit, offset);
}

/* What is read at once. */
struct page {
    int64_t after; /* ids between these two, neither included */
    int64_t before;
    int64_t rows; /* at most */
    int64_t offset;
};

/* Hands up the rows of a page. ret_over: the callback has had enough. */
static hf_status hand_up_page(const PGresult *result, hf_dead_letter_fn found, void *ctx,
                              bool *ret_over)
{
    for (int row = 0; row < PQntuples(result); row++) {
        int answer = 0;
        hf_status status = hand_up(result, row, found, ctx, &answer);
        if (status) {
            return status;
        }
        if (answer != 0) {
            *ret_over = true;
            break;
        }
    }
    return HF_OK;
}

/* One page, on a session that is given back before any of it is handed up: the callback may make
 * queries of its own. */
static hf_status read_page(struct engine *engine, const struct dead_query *query,
                           const struct page *page, bool oldest_first, PGresult **ret_result)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(
        &lookup, engine, oldest_first ? POSTGRES_QUERY_DEAD_OLDEST : POSTGRES_QUERY_DEAD_NEWEST);
    lookup.plan_anew = true;
    fill_query(postgres_of(engine), params, query, page->after, page->before, page->rows,
               page->offset);
    if (pg_lookup_run(&lookup)) {
        *ret_result = lookup.result;
        lookup.result = NULL;
    }
    return pg_lookup_end(&lookup);
}

/* From the oldest on: letters that come while the pages are read are no part of the list, or it
 * would not end while a callback makes new ones. */
static hf_status bound_page(struct engine *engine, const struct dead_query *query,
                            struct page *page)
{
    struct page newest = {.after = page->after, .before = page->before, .rows = 1};
    PGresult *result = NULL;
    hf_status status = read_page(engine, query, &newest, false, &result);
    if (!status && PQntuples(result) > 0) {
        page->before = result_int8(result, 0, DEAD_ID, 0) + 1;
    }
    PQclear(result);
    return status;
}

hf_status postgres_dead_list(struct engine *engine, const struct dead_query *query,
                             hf_dead_letter_fn found, void *ctx)
{
    int64_t left = query->limit >= 0 ? query->limit : INT64_MAX;
    struct page page = {
        .after = query->after_dead_id >= 0 ? query->after_dead_id : 0,
        .before = query->before_dead_id >= 0 ? query->before_dead_id : INT64_MAX,
        .offset = query->offset,
    };
    bool over = false;
    hf_status status = HF_OK;
    if (query->oldest_first && left > PAGE_ROWS) {
        status = bound_page(engine, query, &page);
    }
    while (!status && !over && left > 0) {
        PGresult *result = NULL;
        page.rows = left < PAGE_ROWS ? left : PAGE_ROWS;
        status = read_page(engine, query, &page, query->oldest_first, &result);
        int count = PQntuples(result);
        if (count > 0) {
            int64_t last = result_int8(result, count - 1, DEAD_ID, 0);
            *(query->oldest_first ? &page.after : &page.before) = last;
            status = hand_up_page(result, found, ctx, &over);
        }
        PQclear(result);
        over = over || count < page.rows;
        left -= count;
        page.offset = 0;
    }
    return status;
}

hf_status postgres_dead_count(struct engine *engine, const struct dead_query *query,
                              int64_t *ret_count)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_DEAD_COUNT);
    lookup.plan_anew = true;
    fill_query(postgres_of(engine), params, query,
               query->after_dead_id >= 0 ? query->after_dead_id : 0,
               query->before_dead_id >= 0 ? query->before_dead_id : INT64_MAX, query->limit,
               query->offset);
    if (pg_lookup_run(&lookup)) {
        *ret_count = result_int8(lookup.result, 0, 0, 0);
    }
    return pg_lookup_end(&lookup);
}

/* ---- Groups ---------------------------------------------------------------------------------- */

enum group_column {
    GROUP_TEXT,
    GROUP_LETTERS,
    GROUP_NEWEST_ID,
    GROUP_NEWEST_AT,
    GROUP_OLDEST_AT,
    GROUP_GROUPS,
    GROUP_ALL_LETTERS,
    GROUP_MORE
};

static const char *name_of(hf_dead_by by)
{
    static const char *const names[] = {[HF_DEAD_BY_ERROR] = "error",
                                        [HF_DEAD_BY_TYPE] = "type",
                                        [HF_DEAD_BY_SUBSCRIPTION] = "subscription",
                                        [HF_DEAD_BY_REASON] = "reason"};
    return names[by];
}

static void fill_groups(struct postgres_engine *engine, struct params *params,
                        const struct dead_query *query, hf_dead_by by)
{
    param_int4(params, engine->namespace_id);
    param_text(params, text_of(name_of(by)));
    param_int8(params, query->after_dead_id >= 0 ? query->after_dead_id : 0);
    param_int8(params, query->before_dead_id >= 0 ? query->before_dead_id : INT64_MAX);
    fill_conditions(engine, params, query);
    param_bool(params, dead_query_is_of_kinds(query));
    fill_limit(params, query->limit, query->offset);
}

static void hand_up_groups(const PGresult *result, hf_dead_group_fn found, void *ctx)
{
    for (int row = 0; row < PQntuples(result) && !PQgetisnull(result, row, GROUP_TEXT); row++) {
        hf_dead_group group = {
            .text = result_text(result, row, GROUP_TEXT).bytes,
            .count = result_int8(result, row, GROUP_LETTERS, 0),
            .newest_dead_id = result_int8(result, row, GROUP_NEWEST_ID, 0),
            .newest_us = result_time(result, row, GROUP_NEWEST_AT, 0),
            .oldest_us = result_time(result, row, GROUP_OLDEST_AT, 0),
        };
        if (found(&group, ctx) != 0) {
            break;
        }
    }
}

/* The session is given back before anything is handed up, as for a page of a list. */
hf_status postgres_dead_groups(struct engine *engine, const struct dead_query *query, hf_dead_by by,
                               hf_dead_group_fn found, void *ctx, hf_dead_totals *ret_totals)
{
    struct pg_lookup lookup;
    PGresult *result = NULL;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_DEAD_GROUPS);
    fill_groups(postgres_of(engine), params, query, by);
    if (pg_lookup_run(&lookup)) {
        result = lookup.result;
        lookup.result = NULL;
    }
    hf_status status = pg_lookup_end(&lookup);
    if (!status) {
        ret_totals->groups = result_int8(result, 0, GROUP_GROUPS, 0);
        ret_totals->letters = result_int8(result, 0, GROUP_ALL_LETTERS, 0);
        ret_totals->more = result_bool(result, 0, GROUP_MORE);
        hand_up_groups(result, found, ctx);
    }
    PQclear(result);
    return status;
}
