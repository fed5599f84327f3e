/*
 * namespace.c - the namespaces of the database: making, changing, listing, removing them.
 *
 * The functions of functions/schema/namespaces.sql do the work, each call in a transaction of its
 * own. Removing is many calls; what they leave if this process dies is a namespace that is marked
 * as being removed, and the next one who removes it goes on. A call that meets a lock on the log
 * gives up after a moment and is made again (change.again), so that publishers do not queue
 * behind it. If an answer is lost (HF_UNKNOWN) the caller asks again: every step looks first at
 * what is there.
 */
#include "store/postgres/verbs.h"
#include "store/postgres/wire/pg_lookup.h"
#include "store/postgres/wire/row.h"

hf_status postgres_namespace_list(struct engine *engine, struct text name, namespace_row_fn found,
                                  void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_NAMESPACE_LIST);
    param_text(params, name);
    pg_lookup_run(&lookup);
    for (int row = 0, enough = 0; !enough && row < lookup.rows; row++) {
        const PGresult *result = lookup.result;
        struct namespace_row one = {
            .name = result_text(result, row, 0),
            .metadata_json = result_text(result, row, 1),
            .created_at_us = result_time(result, row, 2, -1),
            .removing_at_us = result_time(result, row, 3, -1),
            .gapless = result_bool(result, row, 4),
            .head = result_int8(result, row, 5, -1),
            .subscriptions = result_int8(result, row, 6, -1),
            .retention_ms = result_int8(result, row, 7, -1),
            .retention_bytes = result_int8(result, row, 8, -1),
            .drops_lagging = result_bool(result, row, 9),
            .grants_json = result_text(result, row, 10),
            .copying = result_bool(result, row, 11),
            .type_index = (enum type_index)result_int8(result, row, 12, TYPE_INDEX_OFF),
        };
        enough = found(&one, ctx);
    }
    return pg_lookup_end(&lookup);
}

/* NULL: as it is. */
static void param_given(struct params *params, bool given, int64_t value)
{
    if (given) {
        param_int8(params, value);
    } else {
        param_null(params, PARAM_INT8);
    }
}

static void param_given_bool(struct params *params, bool given, bool value)
{
    param_text(params, !given ? TEXT_ABSENT : text_of(value ? "true" : "false"));
}

static hf_status put_fill(struct postgres_engine *engine, struct params *params,
                          struct change *change)
{
    (void)engine;
    const struct namespace_put *put = (const struct namespace_put *)change;
    param_text(params, put->name);
    param_text(params, put->metadata_json);
    param_given_bool(params, put->gapless != HF_TOGGLE_DEFAULT, put->gapless == HF_ON);
    param_bool(params, put->create);
    param_given(params, put->retention_ms >= 0, put->retention_ms);
    param_given(params, put->retention_bytes >= 0, put->retention_bytes);
    param_given_bool(params, put->lagging != HF_LAGGING_DEFAULT, put->lagging == HF_LAGGING_DROP);
    param_given_bool(params, put->type_index != HF_TOGGLE_DEFAULT, put->type_index == HF_ON);
    return HF_OK;
}

static hf_status put_read(struct postgres_engine *engine, struct change *change,
                          const PGresult *result, bool *ret_ring)
{
    (void)engine;
    (void)ret_ring;
    hf_status status = postgres_answer(result, 0, 0);
    if (!status) {
        ((struct namespace_put *)change)->ret_created = result_bool(result, 0, 2);
    }
    return status;
}

const struct verb postgres_verb_namespace_put = {
    .query = POSTGRES_QUERY_CHANGE_NAMESPACE_PUT,
    .fill = put_fill,
    .read = put_read,
};

static hf_status grant_fill(struct postgres_engine *engine, struct params *params,
                            struct change *change)
{
    (void)engine;
    const struct namespace_grant *grant = (const struct namespace_grant *)change;
    param_text(params, grant->role);
    param_text(params, grant->name);
    param_text(params, grant->grantee);
    return HF_OK;
}

static hf_status grant_read(struct postgres_engine *engine, struct change *change,
                            const PGresult *result, bool *ret_ring)
{
    (void)engine;
    (void)ret_ring;
    ((struct namespace_grant *)change)->ret_changed = result_bool(result, 0, 2);
    return HF_OK;
}

const struct verb postgres_verb_namespace_grant = {
    .query = POSTGRES_QUERY_CHANGE_NAMESPACE_GRANT,
    .fill = grant_fill,
    .read = grant_read,
};

const struct verb postgres_verb_namespace_revoke = {
    .query = POSTGRES_QUERY_CHANGE_NAMESPACE_REVOKE,
    .fill = grant_fill,
    .read = grant_read,
};

static hf_status remove_fill(struct postgres_engine *engine, struct params *params,
                             struct change *change)
{
    const struct namespace_remove *remove = (const struct namespace_remove *)change;
    param_int4(params, engine->namespace_id);
    param_text(params, remove->name);
    param_bool(params, remove->force);
    param_int8(params, STORE_REMOVE_STEP_ROWS);
    return HF_OK;
}

static hf_status remove_read(struct postgres_engine *engine, struct change *change,
                             const PGresult *result, bool *ret_ring)
{
    (void)engine;
    (void)ret_ring; /* those who have it open are told by the function: it is not our namespace */
    hf_status status = postgres_answer(result, 0, 0);
    if (!status) {
        ((struct namespace_remove *)change)->ret_more = result_bool(result, 0, 2);
    }
    return status;
}

const struct verb postgres_verb_namespace_remove = {
    .query = POSTGRES_QUERY_CHANGE_NAMESPACE_REMOVE,
    .fill = remove_fill,
    .read = remove_read,
};
