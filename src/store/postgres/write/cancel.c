/*
 * cancel.c - settling a delivery as cancelled. See store/cancel.h; it is done by
 * sql/postgres/functions/deliver/cancels.sql, which looks at the event itself.
 */
#include "store/cancel.h"

#include "store/postgres/verbs.h"
#include "store/postgres/wire/pg_lookup.h"
#include "store/postgres/wire/row.h"

enum answer_column {
    ANSWER_STATUS,
    ANSWER_MESSAGE,
    ANSWER_STATE,
    ANSWER_WAITED,
    ANSWER_LANE_BUSY,
    ANSWER_RING
};

static hf_status cancel_fill(struct postgres_engine *engine, struct params *params,
                             struct change *change)
{
    const struct cancel *cancel = (const struct cancel *)change;
    bool holds = cancel->part != CANCEL_REQUEST && cancel->part != CANCEL_WITHDRAW;
    param_int4(params, engine->namespace_id);
    param_int8(params, cancel->subscription_id);
    param_int8(params, cancel->position);
    param_int4(params, (int32_t)cancel->part);
    param_uuid(params, engine->token);
    param_int8(params, holds ? cancel->hold.epoch : 0);
    param_uuid(params, holds && cancel->hold.leased ? cancel->hold.lease : NULL);
    param_text(params, cancel->by);
    param_text(params, cancel->reason);
    param_local(params, change->now_us);
    return HF_OK;
}

static hf_status cancel_read(struct postgres_engine *engine, struct change *change,
                             const PGresult *result, bool *ret_ring)
{
    struct cancel *cancel = (struct cancel *)change;
    hf_status status = postgres_answer(result, 0, ANSWER_STATUS);
    (void)engine;
    if (!status) {
        cancel->ret_state = (enum cancel_state)result_int8(result, 0, ANSWER_STATE, CANCEL_NONE);
        cancel->ret_waited = result_bool(result, 0, ANSWER_WAITED);
        cancel->ret_lane_busy = result_bool(result, 0, ANSWER_LANE_BUSY);
        *ret_ring = result_bool(result, 0, ANSWER_RING);
    }
    return status;
}

const struct verb postgres_verb_cancel = {
    .query = POSTGRES_QUERY_CHANGE_CANCEL,
    .fill = cancel_fill,
    .read = cancel_read,
};

hf_status postgres_cancels(struct engine *engine, int64_t subscription_id, int32_t max,
                           cancel_fn found, void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_CANCELS_REQUESTED);
    param_int8(params, subscription_id);
    param_int8(params, max);
    pg_lookup_run(&lookup);
    for (int row = 0, enough = 0; !enough && row < lookup.rows; row++) {
        int64_t position = result_int8(lookup.result, row, 0, 0);
        enough = found(position, result_int8(lookup.result, row, 1, 0), ctx);
    }
    return pg_lookup_end(&lookup);
}
