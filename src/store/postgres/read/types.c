/*
 * types.c - reading events by the index on types. See sql/postgres/functions/log/types.sql.
 *
 * What the index does not have below a position may still come there: a publisher that has drawn a
 * position and not committed. So it is asked first up to where nothing can come any more
 * (postgres_now), and read up to there; what is behind is for the reader of the log. Publishers
 * that are under way are waited for a moment only: if they last longer, the log is read as if there
 * were no index.
 */
#include "store/postgres/read/types.h"

#include "base/err.h"
#include "base/mem.h"
#include "store/common/batch.h"
#include "store/common/checksum.h"
#include "store/common/filter.h"
#include "store/namespace.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/pg_lookup.h"
#include "store/postgres/wire/row.h"

#define NEAR 5000           /* positions that are read about as fast without the index */
#define PUBLISHERS_MS 300   /* that publishers under way are waited for */
#define KNOWN EVENT_COLUMNS /* the column behind the event's */

/* Is there a complete index, and enough of the log for it to be worth while? */
static hf_status is_worth_it(struct engine *engine, int64_t after, bool *ret_worth)
{
    struct pg_lookup lookup;
    pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_TYPES_STATE);
    *ret_worth = false;
    if (pg_lookup_run(&lookup) && lookup.rows > 0) {
        *ret_worth = result_int8(lookup.result, 0, 0, TYPE_INDEX_OFF) == TYPE_INDEX_ON &&
                     result_int8(lookup.result, 0, 1, 0) - after > NEAR;
    }
    return pg_lookup_end(&lookup);
}

/* What is asked: patterns, after and up to which position, and how many events. */
static void fill(struct params *params, const struct filter *filter, int64_t after, int64_t through,
                 int32_t max)
{
    param_array(params, PARAM_TEXT, filter->count);
    for (size_t i = 0; i < filter->count; i++) {
        element_text(params, filter->patterns[i]);
    }
    param_int8(params, after);
    param_int8(params, through);
    param_int4(params, max);
}

static hf_status push_events(const PGresult *result, const struct filter *filter,
                             struct batch *batch, int64_t *ret_last)
{
    size_t first = batch->count;
    hf_status status = HF_OK;
    for (int row = 0; !status && row < PQntuples(result) && !batch_full(batch) &&
                      !result_is_null(result, row, EVENT_POSITION);
         row++) {
        struct entry *entry;
        status = event_push(batch, result, row, 0, &entry);
        if (!status) {
            *ret_last = entry->event.position;
            batch->count -= filter_matches(filter, text_of(entry->event.type)) ? 0 : 1;
        }
    }
    if (status) {
        batch->count = first;
    }
    checksum_check(batch, first);
    return status;
}

/* Asks for the events up to the horizon. */
static hf_status ask(struct engine *engine, const struct filter *filter, int64_t after,
                     int64_t horizon, int32_t max, struct batch *batch, bool *ret_used,
                     int64_t *ret_through)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_READ_TYPES);
    fill(params, filter, after, horizon, max);
    if (pg_lookup_run(&lookup) && lookup.rows > 0 && result_bool(lookup.result, 0, KNOWN)) {
        int64_t last = after;
        lookup.status = push_events(lookup.result, filter, batch, &last);
        bool cut = lookup.rows == max || batch_full(batch);
        *ret_through = cut ? last : horizon;
        *ret_used = !lookup.status;
    }
    return pg_lookup_end(&lookup);
}

/* Up to where nothing can become visible any more; `after` if that is not worth while, or not known
 * in time. */
static hf_status find_horizon(struct engine *engine, int64_t after, int64_t wait_ms,
                              int64_t *ret_horizon)
{
    bool worth;
    *ret_horizon = after;
    hf_status status = is_worth_it(engine, after, &worth);
    if (status || !worth) {
        return status;
    }
    int64_t horizon = 0;
    status = postgres_now(engine, deadline_after_ms(wait_ms), &horizon);
    if (status == HF_TIMEOUT || status == HF_BUSY || status == HF_DENIED) {
        return HF_OK;
    }
    *ret_horizon = !status && horizon > after ? horizon : after;
    return status;
}

hf_status postgres_read_types(struct engine *engine, const struct filter *filter, int64_t after,
                              int32_t max, struct batch *batch, bool *ret_used,
                              int64_t *ret_through)
{
    int64_t horizon = 0;
    *ret_used = false;
    hf_status status = find_horizon(engine, after, PUBLISHERS_MS, &horizon);
    return status || horizon == after
               ? status
               : ask(engine, filter, after, horizon, max, batch, ret_used, ret_through);
}

hf_status types_find(struct engine *engine, const struct filter *filter, int64_t after, int32_t max,
                     int64_t wait_ms, struct typed *ret_typed, bool *ret_used)
{
    int64_t horizon = 0;
    *ret_used = false;
    hf_status status = find_horizon(engine, after, wait_ms, &horizon);
    if (status || horizon == after) {
        return status;
    }
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_TYPE_POSITIONS);
    fill(params, filter, after, horizon, max);
    if (pg_lookup_run(&lookup) && !result_is_null(lookup.result, 0, 0)) {
        struct result_array array = result_array(lookup.result, 0, 0);
        struct typed typed = {.count = array.count, .through = horizon};
        typed.places = mem_calloc(array.count, sizeof *typed.places);
        for (size_t i = 0; typed.places && i < typed.count; i++) {
            int64_t position = array_int8(&array, 0);
            typed.places[i] = (struct gap_hole){.first = position, .last = position};
        }
        if (typed.places && typed.count == (size_t)max) {
            typed.through = typed.places[typed.count - 1].last;
        }
        *ret_typed = typed;
        *ret_used = typed.places != NULL;
        lookup.status = *ret_used ? HF_OK : fail(HF_NOMEM, "no memory for positions of types");
    }
    return pg_lookup_end(&lookup);
}
