/*
 * deliveries.c - for people who look: what waits for its next attempt, what is held behind it, and
 * what runs (store/deliveries.h).
 *
 * Each is one statement. Which retries are on a page is worked out in SQL
 * (functions/watch/deliveries.sql). What runs is what processes have said within the last seconds.
 */
#include "store/deliveries.h"
#include "base/err.h"
#include "store/common/missing.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/pg_lookup.h"
#include "store/postgres/wire/row.h"
#include "store/postgres/wire/skew.h"

/* The event in the columns from `first` on: id, type, tenant, key. */
static struct event_label read_label(const PGresult *result, int row, int first)
{
    struct event_label label = {
        .type = result_text(result, row, first + 1),
        .tenant = result_text(result, row, first + 2),
        .key = result_text(result, row, first + 3),
    };
    label.known = result_uuid(result, row, first, label.id);
    return label;
}

static int64_t read_local(struct pg_lookup *lookup, int row, int column)
{
    return skew_local(lookup->engine, result_time(lookup->result, row, column, -1));
}

/* ---- Retries --------------------------------------------------------------------------------- */

enum retry_column {
    RETRIES_POSITION,
    RETRIES_PARTITION,
    RETRIES_KIND,
    RETRIES_ATTEMPTS,
    RETRIES_CAUSE,
    RETRIES_STORY,
    RETRIES_FAILED_AT,
    RETRIES_DUE,
    RETRIES_FIRST,
    RETRIES_HELD,
    RETRIES_EVENT
};

static struct waiting_row read_retry(struct pg_lookup *lookup, int row)
{
    const PGresult *result = lookup->result;
    int64_t due = result_time(result, row, RETRIES_DUE, 0);
    int64_t position = result_int8(result, row, RETRIES_POSITION, 0);
    return (struct waiting_row){
        .position = position,
        .partition = (int32_t)result_int8(result, row, RETRIES_PARTITION, 0),
        .kind = (enum retry_kind)result_int8(result, row, RETRIES_KIND, RETRY_NONE),
        .attempts = (int32_t)result_int8(result, row, RETRIES_ATTEMPTS, 0),
        .cause = cause_of(result_text(result, row, RETRIES_CAUSE)),
        .story = result_text(result, row, RETRIES_STORY),
        .failed_at_us = read_local(lookup, row, RETRIES_FAILED_AT),
        .due = due,
        .next_attempt_us = due == 0 ? 0 : skew_local(lookup->engine, due),
        .first = result_int8(result, row, RETRIES_FIRST, position),
        .held = result_int8(result, row, RETRIES_HELD, 0),
        .event = read_label(result, row, RETRIES_EVENT),
    };
}

static void fill_retries(struct params *params, struct engine *engine,
                         const struct retry_query *query)
{
    param_int4(params, postgres_of(engine)->namespace_id);
    param_int8(params, query->subscription_id);
    if (query->behind >= 0) {
        param_int8(params, query->behind);
    } else {
        param_null(params, PARAM_INT8);
    }
    if (query->after >= 0) {
        param_time(params, query->after_due);
        param_int8(params, query->after);
    } else {
        param_null(params, PARAM_TIME);
        param_null(params, PARAM_INT8);
    }
    param_int4(params, query->max);
    param_int8(params, query->held_max);
}

hf_status postgres_retry_list(struct engine *engine, const struct retry_query *query,
                              waiting_row_fn found, void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_RETRY_LIST);
    fill_retries(params, engine, query);
    if (pg_lookup_run(&lookup) && lookup.rows == 0) {
        lookup.status = missing_subscription(query->subscription_id);
    }
    for (int row = 0, enough = 0; !enough && row < lookup.rows; row++) {
        if (!result_is_null(lookup.result, row, RETRIES_POSITION)) {
            struct waiting_row retry = read_retry(&lookup, row);
            enough = found(&retry, ctx);
        }
    }
    return pg_lookup_end(&lookup);
}

/* ---- What runs ------------------------------------------------------------------------------- */

enum running_column {
    RUNNING_POSITION,
    RUNNING_PARTITION,
    RUNNING_SINCE,
    RUNNING_NODE,
    RUNNING_HOST,
    RUNNING_PID,
    RUNNING_EVENT
};

static struct handler_row read_running(struct pg_lookup *lookup, int row)
{
    const PGresult *result = lookup->result;
    return (struct handler_row){
        .position = result_int8(result, row, RUNNING_POSITION, 0),
        .partition = (int32_t)result_int8(result, row, RUNNING_PARTITION, -1),
        .since_us = read_local(lookup, row, RUNNING_SINCE),
        .node = result_text(result, row, RUNNING_NODE),
        .host = result_text(result, row, RUNNING_HOST),
        .pid = result_int8(result, row, RUNNING_PID, -1),
        .event = read_label(result, row, RUNNING_EVENT),
    };
}

hf_status postgres_running_list(struct engine *engine, int64_t subscription_id, int64_t after,
                                int32_t max, handler_row_fn found, void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_RUNNING_LIST);
    param_int4(params, postgres_of(engine)->namespace_id);
    param_int8(params, subscription_id);
    param_int8(params, after);
    param_int4(params, max);
    param_uuid(params, postgres_of(engine)->token);
    if (pg_lookup_run(&lookup) && lookup.rows == 0) {
        lookup.status = missing_subscription(subscription_id);
    }
    for (int row = 0, enough = 0; !enough && row < lookup.rows; row++) {
        if (!result_is_null(lookup.result, row, RUNNING_POSITION)) {
            struct handler_row running = read_running(&lookup, row);
            enough = found(&running, ctx);
        }
    }
    return pg_lookup_end(&lookup);
}
