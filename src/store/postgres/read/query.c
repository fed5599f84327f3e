/*
 * query.c - reads of the log, of a partition's retries, and of a lease.
 *
 * Each is one lookup (pg_lookup.h) and so reads one snapshot. What goes into a batch is copied; if
 * a query fails midway its batch is as it was, but for the arena's memory.
 *
 * Finding a time. entered_at rises with the positions, but for events of transactions that overlap:
 * each takes the clock when it has drawn its position, and the server's clock may be set back. The
 * binary search (position_before) must not take an early one for the whole upper half: it would
 * skip what lies between. So it looks at a few neighbours and goes up only if all of them are
 * early; and because a clock that was set back concerns many, it looks back in the end as far as it
 * is told to. A single late one only makes reading begin earlier.
 */
#include "base/err.h"
#include "store/common/batch.h"
#include "store/common/checksum.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/pg_lookup.h"
#include "store/postgres/wire/row.h"

/* ---- The log --------------------------------------------------------------------------------- */

hf_status postgres_event_find(struct engine *engine, const uint8_t id[16], struct batch *batch)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_EVENT_FIND);
    param_int4(params, postgres_of(engine)->namespace_id);
    param_uuid(params, id);
    if (pg_lookup_run(&lookup)) {
        struct entry *entry;
        size_t first = batch->count;
        lookup.status = lookup.rows > 0 ? event_push(batch, lookup.result, 0, 0, &entry)
                                        : fail(HF_NOTFOUND, "no event with this id is in the log");
        checksum_check(batch, first);
    }
    return pg_lookup_end(&lookup);
}

hf_status postgres_head(struct engine *engine, int64_t *ret_head, int64_t *ret_first)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_HEAD_AND_FIRST);
    param_int4(params, postgres_of(engine)->namespace_id);
    if (pg_lookup_run(&lookup)) {
        *ret_head = result_int8(lookup.result, 0, 0, 0);
        *ret_first = result_int8(lookup.result, 0, 1, *ret_head + 1);
    }
    return pg_lookup_end(&lookup);
}

hf_status postgres_last(struct engine *engine, int64_t *ret_position)
{
    struct pg_lookup lookup;
    pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_LAST);
    if (pg_lookup_run(&lookup)) {
        *ret_position = result_int8(lookup.result, 0, 0, 0);
    }
    return pg_lookup_end(&lookup);
}

hf_status postgres_position_before(struct engine *engine, int64_t at_us, int64_t disorder,
                                   int64_t *ret_position)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_POSITION_BEFORE);
    param_int4(params, postgres_of(engine)->namespace_id);
    param_time(params, at_us);
    param_int8(params, disorder);
    if (pg_lookup_run(&lookup)) {
        *ret_position = lookup.rows > 0 ? result_int8(lookup.result, 0, 0, 0) : 0;
    }
    return pg_lookup_end(&lookup);
}

/* ---- Retries --------------------------------------------------------------------------------- */

/* Columns after the event's. */
enum due_column {
    DUE_ATTEMPTS = EVENT_COLUMNS,
    DUE_UNCOUNTED,
    DUE_STORY,
    DUE_CAUSE,
    DUE_UNIT_FIRST,
    DUE_UNIT_EVENTS,
    DUE_DELIVERIES,
    DUE_NEXT
};

static hf_status push_due(struct batch *batch, const PGresult *result, int row)
{
    struct entry *entry;
    hf_status status = event_push(batch, result, row, 0, &entry);
    if (status) {
        return status;
    }
    entry->attempts = (int32_t)result_int8(result, row, DUE_ATTEMPTS, 0);
    entry->uncounted = (int32_t)result_int8(result, row, DUE_UNCOUNTED, 0);
    entry->attempts_json = arena_text(&batch->arena, result_text(result, row, DUE_STORY));
    entry->cause = cause_of(result_text(result, row, DUE_CAUSE));
    entry->unit.first = result_int8(result, row, DUE_UNIT_FIRST, 0);
    entry->unit.events = (int32_t)result_int8(result, row, DUE_UNIT_EVENTS, 0);
    entry->waited = true;
    entry->handed = entry->attempts + entry->uncounted;
    entry->certain = !result_is_null(result, row, DUE_DELIVERIES);
    return arena_status(&batch->arena);
}

static hf_status push_all_due(struct batch *batch, const PGresult *result)
{
    hf_status status = HF_OK;
    size_t first = batch->count;
    bool any = PQntuples(result) > 0 && !result_is_null(result, 0, EVENT_POSITION);
    for (int row = 0; !status && any && row < PQntuples(result); row++) {
        status = push_due(batch, result, row);
        if (batch_full(batch)) {
            break;
        }
    }
    if (status) {
        batch->count = first;
    }
    checksum_check(batch, first);
    return status;
}

hf_status postgres_retries_due(struct engine *engine, const struct due_query *query,
                               struct batch *batch, int64_t *ret_next_us)
{
    struct postgres_engine *self = postgres_of(engine);
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_RETRIES_DUE);
    param_int8(params, query->subscription_id);
    param_array(params, PARAM_INT4, query->partition_count);
    for (size_t i = 0; i < query->partition_count; i++) {
        element_int4(params, query->partitions[i]);
    }
    params->shift_us = skew_shift(self, query->now_us);
    param_local(params, query->now_us);
    param_int4(params, query->max > 0 ? query->max : 0);
    param_int8(params, STORE_BATCH_BYTES_MAX);
    param_array(params, PARAM_INT8, query->in_hand_count);
    for (size_t i = 0; i < query->in_hand_count; i++) {
        element_int8(params, query->in_hand[i]);
    }
    if (pg_lookup_run(&lookup)) {
        lookup.status = push_all_due(batch, lookup.result);
    }
    if (!lookup.status) {
        *ret_next_us = skew_local(self, result_time(lookup.result, 0, DUE_NEXT, -1));
    }
    return pg_lookup_end(&lookup);
}

hf_status postgres_lanes(struct engine *engine, int64_t subscription_id, int32_t partition,
                         lane_fn found, void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_LANES);
    param_int8(params, subscription_id);
    param_int4(params, partition);
    pg_lookup_run(&lookup);
    for (int row = 0, enough = 0; !enough && row < lookup.rows; row++) {
        uint64_t lane = (uint64_t)result_int8(lookup.result, row, 0, 0);
        enough = found(lane, result_int8(lookup.result, row, 1, 0), ctx);
    }
    return pg_lookup_end(&lookup);
}

hf_status postgres_ahead(struct engine *engine, int64_t subscription_id, int32_t partition,
                         int64_t checkpoint, position_fn found, void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_AHEAD);
    param_int8(params, subscription_id);
    param_int4(params, partition);
    param_int8(params, checkpoint);
    pg_lookup_run(&lookup);
    for (int row = 0, enough = 0; !enough && row < lookup.rows; row++) {
        enough = found(result_int8(lookup.result, row, 0, 0), ctx);
    }
    return pg_lookup_end(&lookup);
}

/* ---- Leases ---------------------------------------------------------------------------------- */

/* The last column of each row says whether the lease is held; a row without a position has no
 * event. */
static hf_status push_lease(struct batch *batch, const PGresult *result)
{
    size_t first = batch->count;
    int rows = PQntuples(result);
    hf_status status = HF_OK;
    if (!result_bool(result, 0, LEASED_COLUMNS)) {
        return fail(HF_STALE,
                    "the lease has ended: its events were handed out again or are settled");
    }
    for (int row = 0; !status && row < rows && !result_is_null(result, row, EVENT_POSITION);
         row++) {
        status = postgres_leased_push(batch, result, row);
    }
    if (status) {
        batch->count = first;
    }
    checksum_check(batch, first);
    return status;
}

hf_status postgres_lease_read(struct engine *engine, int64_t subscription_id,
                              const uint8_t lease[STORE_TOKEN_BYTES], struct batch *batch)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_LEASE_READ);
    param_int8(params, subscription_id);
    param_uuid(params, lease);
    if (pg_lookup_run(&lookup)) {
        lookup.status = push_lease(batch, lookup.result);
    }
    return pg_lookup_end(&lookup);
}
