/*
 * later.c - looking at delayed events, cancelling and moving them, and having the database bring
 * what is due. See store/timers.h for the contract, and sql/postgres/functions/timers/later.sql for
 * how a cancel and a process that brings the event at the same moment keep apart.
 */
#include "base/err.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/pg_lookup.h"
#include "store/postgres/wire/row.h"
#include "store/timers.h"

static void param_timer_time(struct params *params, int64_t us)
{
    if (us == STORE_NEVER) {
        param_null(params, PARAM_TIME);
    } else {
        param_time(params, us);
    }
}

/* ---- Looking --------------------------------------------------------------------------------- */

static hf_status hand_up(struct pg_lookup *lookup, later_row_fn found, void *ctx)
{
    pg_lookup_run(lookup);
    int enough = 0;
    for (int at = 0; !enough && at < lookup->rows; at++) {
        const PGresult *result = lookup->result;
        struct later_row row = {
            .due_us = result_time(result, at, 1, STORE_NEVER),
            .number = result_int8(result, at, 2, 0),
            .emitted_at_us = result_time(result, at, 3, -1),
            .type = result_text(result, at, 4),
            .payload = result_text(result, at, 5),
            .payload_bytes = result_int8(result, at, 6, 0),
            .key = result_text(result, at, 7),
            .tenant = result_text(result, at, 8),
            .metadata = result_text(result, at, 9),
            .producer = result_text(result, at, 10),
        };
        if (!result_uuid(result, at, 0, row.id)) {
            return lookup->status = fail(HF_CORRUPT, "the id of a delayed event is damaged");
        }
        enough = found(&row, ctx);
    }
    return lookup->status;
}

hf_status postgres_later_list(struct engine *engine, const struct later_query *query,
                              later_row_fn found, void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_LATER_LIST);
    lookup.plan_anew = true;
    param_int4(params, postgres_of(engine)->namespace_id);
    param_timer_time(params, query->after_us);
    param_int8(params, query->after_number);
    param_timer_time(params, query->due_before_us);
    param_text(params, query->key);
    param_text(params, query->type);
    param_int8(params, query->max);
    hand_up(&lookup, found, ctx);
    return pg_lookup_end(&lookup);
}

hf_status postgres_later_get(struct engine *engine, const uint8_t id[16], later_row_fn found,
                             void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_LATER_GET);
    param_int4(params, postgres_of(engine)->namespace_id);
    param_uuid(params, id);
    if (hand_up(&lookup, found, ctx) == HF_OK && lookup.rows == 0) {
        lookup.status = fail(HF_NOTFOUND, "no event with this id waits for its time");
    }
    return pg_lookup_end(&lookup);
}

hf_status postgres_timers_count(struct engine *engine, int64_t now_us,
                                struct timers_count *ret_count)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_TIMERS_COUNT);
    params->shift_us = skew_shift(postgres_of(engine), now_us);
    param_int4(params, postgres_of(engine)->namespace_id);
    param_local(params, now_us);
    if (pg_lookup_run(&lookup)) {
        *ret_count = (struct timers_count){
            .later = result_int8(lookup.result, 0, 0, 0),
            .later_due = result_int8(lookup.result, 0, 1, 0),
            .later_next_us = result_time(lookup.result, 0, 2, STORE_NEVER),
            .schedules_due = result_int8(lookup.result, 0, 3, 0),
            .schedules_next_us = result_time(lookup.result, 0, 4, STORE_NEVER),
        };
    }
    return pg_lookup_end(&lookup);
}

/* ---- Changing -------------------------------------------------------------------------------- */

static hf_status cancel_fill(struct postgres_engine *engine, struct params *params,
                             struct change *change)
{
    param_int4(params, engine->namespace_id);
    param_uuid(params, ((const struct later_cancel *)change)->id);
    return HF_OK;
}

static hf_status cancel_read(struct postgres_engine *engine, struct change *change,
                             const PGresult *result, bool *ret_ring)
{
    (void)engine;
    (void)ret_ring;
    hf_status status = postgres_answer(result, 0, 0);
    if (!status) {
        ((struct later_cancel *)change)->ret_position = result_int8(result, 0, 2, 0);
    }
    return status;
}

const struct verb postgres_verb_later_cancel = {
    .query = POSTGRES_QUERY_CHANGE_LATER_CANCEL,
    .fill = cancel_fill,
    .read = cancel_read,
};

static hf_status move_fill(struct postgres_engine *engine, struct params *params,
                           struct change *change)
{
    const struct later_move *move = (const struct later_move *)change;
    param_int4(params, engine->namespace_id);
    param_uuid(params, move->id);
    param_time(params, move->due_us);
    return HF_OK;
}

static hf_status move_read(struct postgres_engine *engine, struct change *change,
                           const PGresult *result, bool *ret_ring)
{
    hf_status status = postgres_read_ringing(engine, change, result, ret_ring);
    if (!status) {
        ((struct later_move *)change)->ret_position = result_int8(result, 0, 2, 0);
    }
    return status;
}

const struct verb postgres_verb_later_move = {
    .query = POSTGRES_QUERY_CHANGE_LATER_MOVE,
    .fill = move_fill,
    .read = move_read,
};

/* ---- Bringing what is due -------------------------------------------------------------------- */

static hf_status bring_fill(struct postgres_engine *engine, struct params *params,
                            struct change *change)
{
    param_int4(params, engine->namespace_id);
    param_int4(params, ((const struct bring *)change)->max);
    return HF_OK;
}

static hf_status bring_read(struct postgres_engine *engine, struct change *change,
                            const PGresult *result, bool *ret_ring)
{
    (void)engine;
    struct bring *bring = (struct bring *)change;
    hf_status status = postgres_answer(result, 0, 0);
    if (!status) {
        bring->ret_fired = result_int8(result, 0, 2, 0);
        bring->ret_released = result_int8(result, 0, 3, 0);
        bring->ret_next_us = result_time(result, 0, 4, STORE_NEVER);
        *ret_ring = bring->ret_fired + bring->ret_released > 0;
    }
    return status;
}

const struct verb postgres_verb_bring = {
    .query = POSTGRES_QUERY_CHANGE_BRING,
    .fill = bring_fill,
    .read = bring_read,
};
