/*
 * timers.c - schedules, the ledger of their firings, and delayed events. See store/timers.h for the
 * contract; firing is in firing.c.
 *
 * Planned times and due times are the server's and travel as they are; only now_us is moved by the
 * difference of the clocks (skew.h).
 */
#include "store/timers.h"
#include "base/err.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/event_columns.h"
#include "store/postgres/wire/pg_lookup.h"
#include "store/postgres/wire/row.h"

static void param_timer_time(struct params *params, int64_t us)
{
    if (us == STORE_NEVER) {
        param_null(params, PARAM_TIME);
    } else {
        param_time(params, us);
    }
}

/* ---- Reading --------------------------------------------------------------------------------- */

#define PAGE_BYTES 19 /* the column of a page that says how much it holds up to this row */

static hf_status hand_up(struct pg_lookup *lookup, schedule_row_fn found, void *ctx)
{
    pg_lookup_run(lookup);
    int enough = 0;
    for (int row = 0; !enough && row < lookup->rows; row++) {
        const PGresult *result = lookup->result;
        struct schedule_row schedule = {
            .name = result_text(result, row, 1),
            .generation = result_int8(result, row, 2, 0),
            .next_us = result_time(result, row, 3, STORE_NEVER),
            .created_at_us = result_time(result, row, 4, -1),
            .definition =
                {
                    .policy = (int32_t)result_int8(result, row, 5, 0),
                    .cap = (int32_t)result_int8(result, row, 6, 0),
                    .grace_us = result_int8(result, row, 7, 0),
                    .expression = result_text(result, row, 8),
                    .zone = result_text(result, row, 9),
                    .type = result_text(result, row, 10),
                    .payload = result_text(result, row, 11),
                    .key = result_text(result, row, 12),
                    .tenant = result_text(result, row, 13),
                    .metadata = result_text(result, row, 14),
                },
            .paused_at_us = result_time(result, row, 15, -1),
            .paused_by = result_text(result, row, 16),
            .paused_reason = result_text(result, row, 17),
        };
        schedule.definition.driver = result_bool(result, row, 18) ? DRIVER_PG_CRON : DRIVER_OWN;
        if (!result_uuid(result, row, 0, schedule.id)) {
            return lookup->status = fail(HF_CORRUPT, "a schedule's id is damaged");
        }
        enough = found(&schedule, ctx);
    }
    return lookup->status;
}

hf_status postgres_schedule_get(struct engine *engine, struct text name, schedule_row_fn found,
                                void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_SCHEDULE_GET);
    param_int4(params, postgres_of(engine)->namespace_id);
    param_text(params, name);
    if (hand_up(&lookup, found, ctx) == HF_OK && lookup.rows == 0) {
        lookup.status = fail(HF_NOTFOUND, "there is no schedule %" TEXT_PRI, TEXT_ARG(name));
    }
    return pg_lookup_end(&lookup);
}

/* Whether the server has cut the page there, by its own count. */
static bool is_full(const struct pg_lookup *lookup, int32_t max)
{
    int last = lookup->rows - 1;
    return last >= 0 && (lookup->rows >= max ||
                         result_int8(lookup->result, last, PAGE_BYTES, 0) >= STORE_BATCH_BYTES_MAX);
}

hf_status postgres_schedule_list(struct engine *engine, struct text after, int32_t max,
                                 bool *ret_more, schedule_row_fn found, void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_SCHEDULE_LIST);
    param_int4(params, postgres_of(engine)->namespace_id);
    param_text(params, after);
    param_int8(params, max);
    param_int8(params, STORE_BATCH_BYTES_MAX);
    hand_up(&lookup, found, ctx);
    *ret_more = is_full(&lookup, max);
    return pg_lookup_end(&lookup);
}

hf_status postgres_schedules_due(struct engine *engine, const struct due_page *page, bool *ret_more,
                                 schedule_row_fn found, void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_SCHEDULES_DUE);
    params->shift_us = skew_shift(postgres_of(engine), page->now_us);
    param_int4(params, postgres_of(engine)->namespace_id);
    param_local(params, page->now_us);
    param_timer_time(params, page->after_us);
    param_uuid(params, page->after_id);
    param_int8(params, page->max);
    param_int8(params, STORE_BATCH_BYTES_MAX);
    hand_up(&lookup, found, ctx);
    *ret_more = is_full(&lookup, page->max);
    return pg_lookup_end(&lookup);
}

hf_status postgres_schedule_runs(struct engine *engine, const uint8_t schedule_id[16],
                                 int64_t before_us, int32_t max, schedule_run_fn found, void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_RUNS_LIST);
    param_uuid(params, schedule_id);
    param_timer_time(params, before_us);
    param_int8(params, max);
    pg_lookup_run(&lookup);
    int enough = 0;
    for (int row = 0; !enough && row < lookup.rows; row++) {
        struct schedule_run run = {
            .kind = (enum run_kind)result_int8(lookup.result, row, 0, 0),
            .planned_us = result_time(lookup.result, row, 1, -1),
            .until_us = result_time(lookup.result, row, 2, -1),
            .fired_us = result_time(lookup.result, row, 3, -1),
            .position = result_int8(lookup.result, row, 4, -1),
            .node = result_text(lookup.result, row, 5),
        };
        enough = found(&run, ctx);
    }
    return pg_lookup_end(&lookup);
}

hf_status postgres_timers_due(struct engine *engine, int64_t *ret_due_us)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_TIMERS_NEXT);
    param_int4(params, postgres_of(engine)->namespace_id);
    pg_lookup_run(&lookup);
    if (lookup.rows > 0) {
        *ret_due_us = result_time(lookup.result, 0, 0, STORE_NEVER);
    }
    return pg_lookup_end(&lookup);
}

int64_t postgres_time(struct engine *engine, int64_t now_us)
{
    return now_us + skew_shift(postgres_of(engine), now_us);
}

/* ---- Changing -------------------------------------------------------------------------------- */

static hf_status put_fill(struct postgres_engine *engine, struct params *params,
                          struct change *change)
{
    const struct schedule_put *put = (const struct schedule_put *)change;
    const struct schedule_definition *definition = &put->definition;
    param_int4(params, engine->namespace_id);
    param_uuid(params, put->id);
    param_text(params, put->name);
    param_text(params, definition->expression);
    param_text(params, definition->zone);
    param_text(params, definition->type);
    param_json(params, definition->payload);
    param_text(params, definition->key);
    param_text(params, definition->tenant);
    param_json(params, definition->metadata);
    param_int4(params, definition->policy);
    param_int4(params, definition->cap);
    param_int8(params, definition->grace_us);
    param_timer_time(params, put->next_us);
    param_local(params, change->now_us);
    param_text(params, text_of(definition->driver == DRIVER_PG_CRON ? "pg_cron" : NULL));
    param_bool(params, put->paused);
    param_text(params, put->paused_by);
    param_text(params, put->paused_reason);
    return HF_OK;
}

static hf_status put_read(struct postgres_engine *engine, struct change *change,
                          const PGresult *result, bool *ret_ring)
{
    hf_status status = postgres_read_ringing(engine, change, result, ret_ring);
    if (!status) {
        ((struct schedule_put *)change)->ret_created = result_bool(result, 0, 2);
    }
    return status;
}

const struct verb postgres_verb_schedule_put = {
    .query = POSTGRES_QUERY_CHANGE_SCHEDULE_PUT,
    .fill = put_fill,
    .read = put_read,
};

static hf_status remove_fill(struct postgres_engine *engine, struct params *params,
                             struct change *change)
{
    param_int4(params, engine->namespace_id);
    param_text(params, ((const struct schedule_remove *)change)->name);
    return HF_OK;
}

const struct verb postgres_verb_schedule_remove = {
    .query = POSTGRES_QUERY_CHANGE_SCHEDULE_REMOVE,
    .fill = remove_fill,
    .read = postgres_read_ringing,
};

static hf_status pause_fill(struct postgres_engine *engine, struct params *params,
                            struct change *change)
{
    const struct schedule_pause *pause = (const struct schedule_pause *)change;
    param_int4(params, engine->namespace_id);
    param_text(params, pause->name);
    param_bool(params, pause->paused);
    param_text(params, pause->by);
    param_text(params, pause->reason);
    param_timer_time(params, pause->next_us);
    param_local(params, change->now_us);
    return HF_OK;
}

const struct verb postgres_verb_schedule_pause = {
    .query = POSTGRES_QUERY_CHANGE_SCHEDULE_PAUSE,
    .fill = pause_fill,
    .read = postgres_read_ringing,
};

/* ---- Events ---------------------------------------------------------------------------------- */

static hf_status delay_fill(struct postgres_engine *engine, struct params *params,
                            struct change *change)
{
    const struct delay *delay = (const struct delay *)change;
    param_int4(params, engine->namespace_id);
    param_time(params, delay->due_us);
    event_columns_fill_one(params, NEW_COLUMNS_DELAY, change);
    param_bool(params, delay->replace);
    return HF_OK;
}

static hf_status delay_read(struct postgres_engine *engine, struct change *change,
                            const PGresult *result, bool *ret_ring)
{
    struct delay *delay = (struct delay *)change;
    hf_status status = postgres_answer(result, 0, 0);
    if (status) {
        return status;
    }
    struct result_array positions = result_array(result, 0, 2);
    struct result_array duplicates = result_array(result, 0, 3);
    struct result_array firsts = result_array(result, 0, 4);
    struct result_array replaced = result_array(result, 0, 5);
    if (positions.count != delay->count || duplicates.count != delay->count ||
        replaced.count != delay->count) {
        return fail(HF_CORRUPT, "%s: %zu positions were answered for %zu events", engine->place,
                    positions.count, delay->count);
    }
    for (size_t i = 0; i < delay->count; i++) {
        struct new_event *event = &delay->events[i];
        event->position = array_int8(&positions, 0);
        event->duplicate = array_int8(&duplicates, 0) != 0;
        event->replaced = array_int8(&replaced, 0) != 0;
        event->key_version = -1;
        unique_read(&firsts, event);
    }
    *ret_ring = true;
    return HF_OK;
}

const struct verb postgres_verb_delay = {
    .query = POSTGRES_QUERY_CHANGE_DELAY,
    .fill = delay_fill,
    .read = delay_read,
};

static hf_status release_fill(struct postgres_engine *engine, struct params *params,
                              struct change *change)
{
    param_int4(params, engine->namespace_id);
    param_int4(params, ((const struct release *)change)->max);
    param_int8(params, STORE_BATCH_BYTES_MAX);
    param_local(params, change->now_us);
    return HF_OK;
}

static hf_status release_read(struct postgres_engine *engine, struct change *change,
                              const PGresult *result, bool *ret_ring)
{
    (void)engine;
    struct release *release = (struct release *)change;
    hf_status status = postgres_answer(result, 0, 0);
    if (!status) {
        release->ret_count = result_int8(result, 0, 2, 0);
        release->ret_next_us = result_time(result, 0, 3, STORE_NEVER);
        *ret_ring = release->ret_count > 0;
    }
    return status;
}

const struct verb postgres_verb_release = {
    .query = POSTGRES_QUERY_CHANGE_RELEASE,
    .fill = release_fill,
    .read = release_read,
};
