/*
 * standing.c - what stands before a subscription: pending events, and who holds which lease. The
 * functions are in sql/postgres/functions/watch/standing.sql.
 */
#include "base/err.h"
#include "base/mem.h"
#include "store/common/missing.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/pg_lookup.h"
#include "store/postgres/wire/row.h"

/* ---- Pending events -------------------------------------------------------------------------- */

enum pending_column { PENDING_COUNT, PENDING_MORE, PENDING_FIRST_AT };

/* The patterns are those that are stored: the function reads them there. A brief look asks for
 * nothing: a round trip for each of thousands would take longer than what it looks at. */
hf_status postgres_pending(struct engine *engine, const struct pending_query *query,
                           struct pending *ret_pending)
{
    struct pg_lookup lookup;
    if (query->brief) {
        *ret_pending = (struct pending){.more = true, .first_at_us = -1};
        return HF_OK;
    }
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_PENDING);
    param_int8(params, query->subscription_id);
    param_int8(params, query->max);
    if (pg_lookup_run(&lookup) && result_is_null(lookup.result, 0, PENDING_COUNT)) {
        lookup.status = missing_subscription(query->subscription_id);
    }
    if (!lookup.status) {
        *ret_pending = (struct pending){
            .count = result_int8(lookup.result, 0, PENDING_COUNT, 0),
            .more = result_bool(lookup.result, 0, PENDING_MORE),
            .first_at_us = result_time(lookup.result, 0, PENDING_FIRST_AT, -1),
        };
    }
    return pg_lookup_end(&lookup);
}

/* ---- Leases ---------------------------------------------------------------------------------- */

enum lease_column {
    LEASE_TOKEN,
    LEASE_NODE,
    LEASE_CLAIMED_AT,
    LEASE_EXPIRES_AT,
    LEASE_KEPT,
    LEASE_ENDED,
    LEASE_POSITIONS
};

static int64_t local_time(struct postgres_engine *engine, const PGresult *result, int row,
                          int column)
{
    int64_t us = result_time(result, row, column, -1);
    return us < 0 ? -1 : skew_local(engine, us);
}

static hf_status tell_lease(struct postgres_engine *engine, const PGresult *result, int row,
                            lease_row_fn found, void *ctx, bool *ret_stop)
{
    uint8_t token[STORE_TOKEN_BYTES];
    struct result_array array = result_array(result, row, LEASE_POSITIONS);
    int64_t *positions = mem_calloc(array.count, sizeof *positions);
    if (!positions) {
        return fail(HF_NOMEM, "no memory for a lease of %zu events", array.count);
    }
    size_t count = array.count;
    for (size_t i = 0; i < count; i++) {
        positions[i] = array_int8(&array, 0);
    }
    struct lease_row lease = {
        .token = token,
        .node = result_text(result, row, LEASE_NODE),
        .claimed_at_us = local_time(engine, result, row, LEASE_CLAIMED_AT),
        .expires_at_us = local_time(engine, result, row, LEASE_EXPIRES_AT),
        .kept = result_bool(result, row, LEASE_KEPT),
        .ended = result_bool(result, row, LEASE_ENDED),
        .positions = positions,
        .count = count,
    };
    if (result_uuid(result, row, LEASE_TOKEN, token)) {
        *ret_stop = found(&lease, ctx) != 0;
    }
    mem_free(positions);
    return HF_OK;
}

hf_status postgres_lease_list(struct engine *engine, int64_t subscription_id, int64_t now_us,
                              lease_row_fn found, void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_LEASE_LIST);
    param_int4(params, postgres_of(engine)->namespace_id);
    param_int8(params, subscription_id);
    param_local(params, now_us);
    param_uuid(params, postgres_of(engine)->token);
    if (pg_lookup_run(&lookup) && lookup.rows == 0) {
        lookup.status = missing_subscription(subscription_id);
    }
    bool stop = false;
    for (int row = 0; row < lookup.rows && !lookup.status && !stop; row++) {
        if (!result_is_null(lookup.result, row, LEASE_TOKEN)) {
            lookup.status = tell_lease(postgres_of(engine), lookup.result, row, found, ctx, &stop);
        }
    }
    return pg_lookup_end(&lookup);
}
