/*
 * subscription.c - subscriptions: creating, changing, removing, pausing, and looking at them.
 *
 * A subscription is one row that people change and every worker reads, a row per partition that
 * says who works there (a single one, without an owner, if it is shared), and the newest rows of
 * the journal, which say how far it is. `generation` rises with every change of the first, and
 * every settle answers it, so a busy owner learns of a change by the next settle at the latest, and
 * an idle one by the bell. A change that changes nothing (the same patterns again, as every start
 * of a program puts them) leaves the generation alone.
 *
 * Two processes that create the same subscription at the same moment meet at the unique name: the
 * second waits for the first one's commit and then only compares. Removing frees the name at once;
 * the id is never used again, so a process that still works for the removed one finds nothing to
 * settle.
 */
#include "base/err.h"
#include "store/common/missing.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/pg_lookup.h"
#include "store/postgres/wire/row.h"

/* ---- Reading --------------------------------------------------------------------------------- */

static struct subscription_row read_row(const PGresult *result, int row)
{
    return (struct subscription_row){
        .id = result_int8(result, row, 0, 0),
        .name = result_text(result, row, 1),
        .patterns_json = result_text(result, row, 2),
        .options_json = result_text(result, row, 3),
        .mode = (hf_mode)result_int8(result, row, 4, 0),
        .partitions = (int32_t)result_int8(result, row, 5, 0),
        .generation = result_int8(result, row, 6, 0),
        .created_at_us = result_time(result, row, 7, 0),
        .start = result_int8(result, row, 8, 0),
        .paused_at_us = result_time(result, row, 9, -1),
        .paused_by = result_text(result, row, 10),
        .paused_reason = result_text(result, row, 11),
        .breaker_json = result_text(result, row, 12),
        .wanted = (int32_t)result_int8(result, row, 13, 0),
        .dropped_through = result_int8(result, row, 14, -1),
        .dropped = result_int8(result, row, 15, 0),
    };
}

/* Asks, and hands each row to the callback until it has had enough. Whether there was an answer. */
static bool hand_up(struct pg_lookup *lookup, subscription_row_fn found, void *ctx)
{
    pg_lookup_run(lookup);
    for (int row = 0, enough = 0; !enough && row < lookup->rows; row++) {
        struct subscription_row subscription = read_row(lookup->result, row);
        enough = found(&subscription, ctx);
    }
    return lookup->status == HF_OK;
}

hf_status postgres_subscription_get(struct engine *engine, struct text name,
                                    subscription_row_fn found, void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_SUBSCRIPTION_GET);
    param_int4(params, postgres_of(engine)->namespace_id);
    param_text(params, name);
    if (hand_up(&lookup, found, ctx) && lookup.rows == 0) {
        lookup.status = fail(HF_NOTFOUND, "there is no subscription %" TEXT_PRI, TEXT_ARG(name));
    }
    return pg_lookup_end(&lookup);
}

hf_status postgres_subscription_by_id(struct engine *engine, int64_t id, subscription_row_fn found,
                                      void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_SUBSCRIPTION_BY_ID);
    param_int4(params, postgres_of(engine)->namespace_id);
    param_int8(params, id);
    if (hand_up(&lookup, found, ctx) && lookup.rows == 0) {
        lookup.status = missing_subscription(id);
    }
    return pg_lookup_end(&lookup);
}

hf_status postgres_subscription_list(struct engine *engine, subscription_row_fn found, void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_SUBSCRIPTION_LIST);
    param_int4(params, postgres_of(engine)->namespace_id);
    hand_up(&lookup, found, ctx);
    return pg_lookup_end(&lookup);
}

hf_status postgres_standing(struct engine *engine, int64_t id, struct standing *ret_standing,
                            epoch_fn found, void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_SUBSCRIPTION_STANDING);
    param_int4(params, postgres_of(engine)->namespace_id);
    param_int8(params, id);
    param_uuid(params, postgres_of(engine)->token);
    pg_lookup_run(&lookup);
    const PGresult *result = lookup.result;
    int enough = 0;
    if (lookup.rows > 0) {
        ret_standing->generation = result_int8(result, 0, 0, 0);
        ret_standing->members_version = result_int8(result, 0, 1, 0);
    } else if (!lookup.status) {
        lookup.status = missing_subscription(id);
    }
    for (int row = 0; !enough && row < lookup.rows && !result_is_null(result, row, 2); row++) {
        int32_t partition = (int32_t)result_int8(result, row, 2, 0);
        enough = found(partition, result_int8(result, row, 3, 0), ctx);
    }
    return pg_lookup_end(&lookup);
}

/* ---- Changes --------------------------------------------------------------------------------- */

static hf_status put_fill(struct postgres_engine *engine, struct params *params,
                          struct change *change)
{
    const struct subscription_put *put = (const struct subscription_put *)change;
    param_int4(params, engine->namespace_id);
    param_text(params, put->name);
    param_text(params, put->patterns_json);
    param_text(params, put->options_json);
    param_int4(params, put->mode);
    param_int4(params, put->partitions);
    param_int8(params, put->start);
    param_int8(params, put->expect_generation);
    param_local(params, change->now_us);
    return HF_OK;
}

static hf_status put_read(struct postgres_engine *engine, struct change *change,
                          const PGresult *result, bool *ret_ring)
{
    struct subscription_put *put = (struct subscription_put *)change;
    hf_status status = postgres_read_ringing(engine, change, result, ret_ring);
    if (!status) {
        put->ret_id = result_int8(result, 0, 2, 0);
        put->ret_created = result_bool(result, 0, 3);
    }
    return status;
}

const struct verb postgres_verb_subscription_put = {
    .query = POSTGRES_QUERY_CHANGE_SUBSCRIPTION_PUT,
    .fill = put_fill,
    .read = put_read,
};

static hf_status remove_fill(struct postgres_engine *engine, struct params *params,
                             struct change *change)
{
    param_int4(params, engine->namespace_id);
    param_text(params, ((const struct subscription_remove *)change)->name);
    return HF_OK;
}

const struct verb postgres_verb_subscription_remove = {
    .query = POSTGRES_QUERY_CHANGE_SUBSCRIPTION_REMOVE,
    .fill = remove_fill,
    .read = postgres_read_ringing,
};

static hf_status pause_fill(struct postgres_engine *engine, struct params *params,
                            struct change *change)
{
    const struct pause *pause = (const struct pause *)change;
    param_int4(params, engine->namespace_id);
    param_int8(params, pause->subscription_id);
    param_bool(params, pause->paused);
    param_text(params, pause->by);
    param_text(params, pause->reason);
    param_local(params, change->now_us);
    return HF_OK;
}

const struct verb postgres_verb_pause = {
    .query = POSTGRES_QUERY_CHANGE_PAUSE,
    .fill = pause_fill,
    .read = postgres_read_ringing,
};

static hf_status breaker_fill(struct postgres_engine *engine, struct params *params,
                              struct change *change)
{
    const struct breaker_put *put = (const struct breaker_put *)change;
    param_int4(params, engine->namespace_id);
    param_int8(params, put->subscription_id);
    param_text(params, put->state_json);
    return HF_OK;
}

static hf_status breaker_read(struct postgres_engine *engine, struct change *change,
                              const PGresult *result, bool *ret_ring)
{
    (void)engine;
    (void)change;
    (void)ret_ring;
    return postgres_answer(result, 0, 0);
}

const struct verb postgres_verb_breaker_put = {
    .query = POSTGRES_QUERY_CHANGE_BREAKER,
    .fill = breaker_fill,
    .read = breaker_read,
};

static hf_status seek_fill(struct postgres_engine *engine, struct params *params,
                           struct change *change)
{
    const struct seek *seek = (const struct seek *)change;
    param_int4(params, engine->namespace_id);
    param_int8(params, seek->subscription_id);
    param_int8(params, seek->position);
    param_local(params, change->now_us);
    return HF_OK;
}

const struct verb postgres_verb_seek = {
    .query = POSTGRES_QUERY_CHANGE_SEEK,
    .fill = seek_fill,
    .read = postgres_read_ringing,
};
