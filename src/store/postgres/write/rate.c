/*
 * rate.c - the rate of a subscription: a bucket that all processes take from, by the server's
 * clock. See struct rate_take in store/membership.h, and sql/postgres/functions/deliver/rates.sql.
 */
#include "store/membership.h"

#include "store/postgres/verbs.h"
#include "store/postgres/wire/row.h"

static hf_status take_fill(struct postgres_engine *engine, struct params *params,
                           struct change *change)
{
    const struct rate_take *take = (const struct rate_take *)change;
    param_int4(params, engine->namespace_id);
    param_int8(params, take->subscription_id);
    param_int8(params, take->events);
    param_int8(params, take->period_us);
    param_int8(params, take->want);
    return HF_OK;
}

static hf_status take_read(struct postgres_engine *engine, struct change *change,
                           const PGresult *result, bool *ret_ring)
{
    struct rate_take *take = (struct rate_take *)change;
    hf_status status = postgres_answer(result, 0, 0);
    (void)engine;
    (void)ret_ring;
    if (!status) {
        take->ret_granted = result_int8(result, 0, 2, 0);
        take->ret_wait_us = result_int8(result, 0, 3, 0);
    }
    return status;
}

const struct verb postgres_verb_rate_take = {
    .query = POSTGRES_QUERY_CHANGE_RATE_TAKE,
    .fill = take_fill,
    .read = take_read,
};
