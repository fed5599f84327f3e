/*
 * claim.c - handing out events of a shared subscription under a lease.
 *
 * The function holdfast.change_claim does it all in one statement, under the lock of the
 * subscription's cursor: due retries, what is left of ended leases, positions that were not visible
 * when the cursor passed them, the log after the cursor. It answers a row per event and a last one
 * with the lease. Whatever is handed out is in the lease before the transaction commits, so there
 * is no moment at which an event is neither before the cursor nor in anybody's hands.
 *
 * What a process must bring is what it has seen of others (lease.h), because only who watches for a
 * while knows that an owner is frozen.
 *
 * A claim whose answer is lost may have happened: its caller, who made the token, renounces the
 * lease by that, or its end comes with time. One that is lost with the server's memory (it may be
 * relaxed) takes its cursor with it, and the events come again.
 */
#include "base/err.h"
#include "base/point.h"
#include "store/batch.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/row.h"
#include "store/postgres/write/lease.h"

/* Columns after the event's. */
enum claim_column {
    CLAIM_ATTEMPTS = EVENT_COLUMNS,
    CLAIM_UNCOUNTED,
    CLAIM_STORY,
    CLAIM_CAUSE,
    CLAIM_UNIT_FIRST,
    CLAIM_UNIT_EVENTS,
    CLAIM_WAITED,
    CLAIM_UNHANDLED,
    CLAIM_STATUS = CLAIMED_STATUS,
    CLAIM_MESSAGE,
    CLAIM_LEASE,
    CLAIM_EXPIRES_AT,
    CLAIM_WAKE_AT,
    CLAIM_PAUSED,
    CLAIM_MORE,
    CLAIM_OWNERS,
    CLAIM_OWNER_RENEWALS,
    CLAIM_CAREFUL
};

static hf_status claim_fill(struct postgres_engine *engine, struct params *params,
                            struct change *change)
{
    static const uint8_t none[STORE_TOKEN_BYTES];
    const struct claim *claim = (const struct claim *)change;
    bool named = memcmp(claim->lease, none, sizeof none) != 0;
    param_int4(params, engine->namespace_id);
    param_int8(params, claim->subscription_id);
    param_int8(params, claim->generation);
    param_uuid(params, named ? claim->lease : NULL);
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

hf_status postgres_claimed_push(struct batch *batch, const PGresult *result, int row)
{
    struct entry *entry;
    hf_status status = event_push(batch, result, row, 0, &entry);
    if (status) {
        return status;
    }
    entry->attempts = (int32_t)result_int8(result, row, CLAIM_ATTEMPTS, 0);
    entry->uncounted = (int32_t)result_int8(result, row, CLAIM_UNCOUNTED, 0);
    entry->attempts_json = arena_text(&batch->arena, result_text(result, row, CLAIM_STORY));
    entry->cause = cause_of(result_text(result, row, CLAIM_CAUSE));
    entry->unit.first = result_int8(result, row, CLAIM_UNIT_FIRST, 0);
    entry->unit.events = (int32_t)result_int8(result, row, CLAIM_UNIT_EVENTS, 0);
    entry->waited = result_bool(result, row, CLAIM_WAITED);
    entry->unhandled = result_bool(result, row, CLAIM_UNHANDLED);
    return arena_status(&batch->arena);
}

/* Owners whose leases should be over, but who may only be slow. */
static void see_owners(struct postgres_engine *engine, const PGresult *result, int row)
{
    struct result_array owners = result_array(result, row, CLAIM_OWNERS);
    struct result_array renewals = result_array(result, row, CLAIM_OWNER_RENEWALS);
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
    int last = PQntuples(result) - 1;
    hf_status status = postgres_answer(result, last, CLAIM_STATUS);
    if (status) {
        return status;
    }
    size_t first = claim->batch->count;
    for (int row = 0; !status && row < last; row++) {
        status = postgres_claimed_push(claim->batch, result, row);
    }
    if (status) {
        claim->batch->count = first;
        /* The server has leased what we cannot take. */
        return fail(HF_UNKNOWN, "claimed events got lost on their way: %s", err_message());
    }
    signs_claimed(engine, last);
    memset(claim->ret_lease, 0, sizeof claim->ret_lease);
    result_uuid(result, last, CLAIM_LEASE, claim->ret_lease);
    claim->ret_expires_at_us = skew_local(engine, result_time(result, last, CLAIM_EXPIRES_AT, -1));
    claim->ret_wake_us = skew_local(engine, result_time(result, last, CLAIM_WAKE_AT, -1));
    claim->ret_paused = result_bool(result, last, CLAIM_PAUSED);
    claim->ret_more = result_bool(result, last, CLAIM_MORE);
    claim->ret_prerecord = result_bool(result, last, CLAIM_CAREFUL);
    see_owners(engine, result, last);
    return HF_OK;
}

const struct verb postgres_verb_claim = {
    .query = POSTGRES_QUERY_CHANGE_CLAIM,
    .fill = claim_fill,
    .read = claim_read,
    .sets_commit = true,
};
