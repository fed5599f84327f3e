/*
 * claim.c - handing out events of a shared subscription under a lease.
 *
 * Two statements in one transaction. The function holdfast.claim_<id> decides what is handed out,
 * under the lock of the subscription's cursor: due retries, what is left of ended leases, positions
 * that were not visible when the cursor passed them, the log after the cursor. It answers the
 * batch: the lease, and when to look again. The second statement reads the events of that lease.
 * Both are sent at once, so the token of the lease is made here. Whatever is handed out is in the
 * lease before the transaction commits, so there is no moment at which an event is neither before
 * the cursor nor in a lease.
 *
 * What a process must bring is what it has seen of others (lease.h): that an owner is frozen is
 * known only to a process that has watched it for a while.
 *
 * A claim whose answer is lost may have happened: its caller, who made the token, renounces the
 * lease by that, or its end comes with time. One that is lost with the server's memory (it may be
 * relaxed) takes its cursor with it, and the events come again.
 */
#include "base/err.h"
#include "base/point.h"
#include "base/uuid.h"
#include "store/common/batch.h"
#include "store/common/checksum.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/row.h"
#include "store/postgres/write/lease.h"

/* Columns of the batch. */
enum batch_column {
    BATCH_STATUS,
    BATCH_MESSAGE,
    BATCH_LEASE,
    BATCH_EXPIRES_AT,
    BATCH_WAKE_AT,
    BATCH_PAUSED,
    BATCH_MORE,
    BATCH_CAREFUL,
    BATCH_OWNERS,
    BATCH_OWNER_RENEWALS,
    BATCH_UNHANDLED
};

/* Columns of an event after those that all events have. */
enum leased_column {
    LEASED_ATTEMPTS = EVENT_COLUMNS,
    LEASED_UNCOUNTED,
    LEASED_STORY,
    LEASED_CAUSE,
    LEASED_UNIT_FIRST,
    LEASED_UNIT_EVENTS,
    LEASED_WAITED,
    LEASED_DELIVERIES,
    LEASED_END
};
_Static_assert(LEASED_END == LEASED_COLUMNS, "the columns of an event of a lease");

static hf_status claim_fill(struct postgres_engine *engine, struct params *params,
                            struct change *change)
{
    static const uint8_t none[STORE_TOKEN_BYTES];
    struct claim *claim = (struct claim *)change;
    if (memcmp(claim->lease, none, sizeof none) != 0) {
        memcpy(claim->ret_lease, claim->lease, sizeof claim->ret_lease);
    } else {
        random_bytes(claim->ret_lease, sizeof claim->ret_lease);
    }
    param_int4(params, engine->namespace_id);
    param_int8(params, claim->subscription_id);
    param_int8(params, claim->generation);
    param_uuid(params, claim->ret_lease);
    param_uuid(params, engine->token);
    param_text(params, engine->node_name);
    param_array(params, PARAM_TEXT, claim->filter.count);
    for (size_t i = 0; i < claim->filter.count; i++) {
        element_text(params, claim->filter.patterns[i]);
    }
    param_bool(params, claim->filter.unhandled_too);
    param_int4(params, claim->max);
    param_int8(params, claim->lease_ms);
    param_bool(params, claim->bound);
    param_bool(params, claim->kept);
    signs_fill(engine, params, claim->lease_ms, true);
    param_bool(params, signs_look(engine));
    param_local(params, change->now_us);
    HF_POINT("mid_claim");
    return HF_OK;
}

static void events_fill(struct params *params, const struct change *change)
{
    const struct claim *claim = (const struct claim *)change;
    param_int8(params, claim->subscription_id);
    param_uuid(params, claim->ret_lease);
}

hf_status postgres_leased_push(struct batch *batch, const PGresult *result, int row)
{
    struct entry *entry;
    hf_status status = event_push(batch, result, row, 0, &entry);
    if (status) {
        return status;
    }
    entry->attempts = (int32_t)result_int8(result, row, LEASED_ATTEMPTS, 0);
    entry->uncounted = (int32_t)result_int8(result, row, LEASED_UNCOUNTED, 0);
    entry->attempts_json = arena_text(&batch->arena, result_text(result, row, LEASED_STORY));
    entry->cause = cause_of(result_text(result, row, LEASED_CAUSE));
    entry->unit.first = result_int8(result, row, LEASED_UNIT_FIRST, 0);
    entry->unit.events = (int32_t)result_int8(result, row, LEASED_UNIT_EVENTS, 0);
    entry->waited = result_bool(result, row, LEASED_WAITED);
    entry->handed = (int32_t)result_int8(result, row, LEASED_DELIVERIES, 0) - 1;
    return arena_status(&batch->arena);
}

/* Owners whose leases should be over, but who may only be slow. */
static void see_owners(struct postgres_engine *engine, const PGresult *result)
{
    struct result_array owners = result_array(result, 0, BATCH_OWNERS);
    struct result_array renewals = result_array(result, 0, BATCH_OWNER_RENEWALS);
    for (size_t i = 0; i < owners.count && i < renewals.count; i++) {
        uint8_t owner[STORE_TOKEN_BYTES];
        bool known = array_uuid(&owners, owner);
        int64_t number = array_int8(&renewals, -1);
        if (known) {
            signs_see(engine, owner, number);
        }
    }
}

static hf_status claim_read(struct postgres_engine *engine, struct change *change,
                            const PGresult *result, bool *ret_ring)
{
    (void)ret_ring;
    struct claim *claim = (struct claim *)change;
    hf_status status = postgres_answer(result, 0, BATCH_STATUS);
    if (status) {
        return status;
    }
    memset(claim->ret_lease, 0, sizeof claim->ret_lease);
    result_uuid(result, 0, BATCH_LEASE, claim->ret_lease);
    claim->ret_expires_at_us = skew_local(engine, result_time(result, 0, BATCH_EXPIRES_AT, -1));
    claim->ret_wake_us = skew_local(engine, result_time(result, 0, BATCH_WAKE_AT, -1));
    claim->ret_paused = result_bool(result, 0, BATCH_PAUSED);
    claim->ret_more = result_bool(result, 0, BATCH_MORE);
    claim->ret_prerecord = result_bool(result, 0, BATCH_CAREFUL);
    see_owners(engine, result);
    return HF_OK;
}

/* The events come by position, and so do the positions that no pattern matches. */
static void mark_unhandled(struct batch *batch, size_t first, const PGresult *result)
{
    struct result_array unhandled = result_array(result, 0, BATCH_UNHANDLED);
    size_t at = first;
    for (size_t i = 0; i < unhandled.count; i++) {
        int64_t position = array_int8(&unhandled, 0);
        while (at < batch->count && batch->entries[at].event.position < position) {
            at++;
        }
        if (at < batch->count && batch->entries[at].event.position == position) {
            batch->entries[at].unhandled = true;
        }
    }
}

static hf_status events_read(struct postgres_engine *engine, struct change *change,
                             const PGresult *first, const PGresult *second)
{
    struct batch *batch = ((struct claim *)change)->batch;
    size_t before = batch->count;
    int rows = PQntuples(second);
    hf_status status = HF_OK;
    for (int row = 0; !status && row < rows; row++) {
        status = postgres_leased_push(batch, second, row);
    }
    if (status) {
        batch->count = before;
        /* The server has leased what we cannot take. */
        return fail(HF_UNKNOWN, "claimed events got lost on their way: %s", err_message());
    }
    checksum_check(batch, before);
    mark_unhandled(batch, before, first);
    signs_claimed(engine, rows);
    return HF_OK;
}

static const struct verb_second events = {
    .query = POSTGRES_QUERY_CLAIM_EVENTS,
    .fill = events_fill,
    .read = events_read,
};

const struct verb postgres_verb_claim = {
    .query = POSTGRES_QUERY_CHANGE_CLAIM,
    .fill = claim_fill,
    .read = claim_read,
    .second = &events,
    .sets_commit = true,
};
