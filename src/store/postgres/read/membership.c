/*
 * membership.c - for people who look: whose each partition is, and which keys are blocked.
 *
 * Each answer is one statement, so it is of one moment. Whether a process lives is asked in it;
 * nothing here counts as a sign that a process stands still.
 *
 * As in progress.c a checkpoint that is missing means that the journal has just been emptied, and
 * the statement is run again.
 */
#include "store/membership.h"
#include "base/err.h"
#include "store/common/missing.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/pg_lookup.h"
#include "store/postgres/wire/row.h"

#define AGAIN_MAX 10 /* rotations in a row */

enum members_column {
    MEMBERS_WHAT,
    MEMBERS_NUMBER,
    MEMBERS_WORD, /* a member's assignment, or an owner's name */
    MEMBERS_EPOCH,
    MEMBERS_CHECKPOINT,
    MEMBERS_CHECKPOINT_AT,
    MEMBERS_OWNER_ALIVE,
    MEMBERS_MEMBER,
    MEMBERS_RETRYING,
    MEMBERS_HELD,
    MEMBERS_BLOCKED
};

static bool is_partition(const PGresult *result, int row)
{
    return result_int8(result, row, MEMBERS_WHAT, 0) == 1;
}

/* Every partition has its checkpoint. */
static bool is_whole(const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        if (is_partition(result, row) && result_is_null(result, row, MEMBERS_CHECKPOINT)) {
            return false;
        }
    }
    return true;
}

/* Asks until every partition has its checkpoint. */
static bool ask(struct pg_lookup *lookup, int64_t subscription_id)
{
    bool whole = false;
    for (int i = 0; !whole && i < AGAIN_MAX && pg_lookup_execute(lookup); i++) {
        whole = is_whole(lookup->result);
    }
    pg_lookup_return_session(lookup);
    if (!lookup->status && !whole) {
        lookup->status = fail(HF_UNAVAILABLE, "the journal of checkpoints keeps moving: try again");
    } else if (!lookup->status && lookup->rows == 0) {
        lookup->status = missing_subscription(subscription_id);
    }
    return lookup->status == HF_OK;
}

static struct partition_row read_partition(const PGresult *result, int row)
{
    return (struct partition_row){
        .partition = (int32_t)result_int8(result, row, MEMBERS_NUMBER, 0),
        .epoch = result_int8(result, row, MEMBERS_EPOCH, 0),
        .checkpoint = result_int8(result, row, MEMBERS_CHECKPOINT, 0),
        .checkpoint_at_us = result_time(result, row, MEMBERS_CHECKPOINT_AT, -1),
        .owned = !result_is_null(result, row, MEMBERS_OWNER_ALIVE),
        .owner_alive = result_bool(result, row, MEMBERS_OWNER_ALIVE),
        .member = (int32_t)result_int8(result, row, MEMBERS_MEMBER, -1),
        .owner_name = result_text(result, row, MEMBERS_WORD),
        .retrying = result_int8(result, row, MEMBERS_RETRYING, 0),
        .held = result_int8(result, row, MEMBERS_HELD, 0),
        .blocked = result_int8(result, row, MEMBERS_BLOCKED, 0),
    };
}

hf_status postgres_partitions(struct engine *engine, int64_t subscription_id, member_row_fn member,
                              partition_row_fn partition, void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_PARTITIONS);
    param_int4(params, postgres_of(engine)->namespace_id);
    param_int8(params, subscription_id);
    param_uuid(params, postgres_of(engine)->token);
    bool known = ask(&lookup, subscription_id);
    for (int row = 0, enough = 0; known && !enough && row < lookup.rows; row++) {
        if (is_partition(lookup.result, row)) {
            struct partition_row found = read_partition(lookup.result, row);
            enough = partition(&found, ctx);
        } else {
            enough = member(result_text(lookup.result, row, MEMBERS_WORD), ctx);
        }
    }
    return pg_lookup_end(&lookup);
}

/* ---- Blocked keys ---------------------------------------------------------------------------- */

enum blocked_column {
    BLOCKED_POSITION,
    BLOCKED_PARTITION,
    BLOCKED_SINCE,
    BLOCKED_HELD,
    BLOCKED_DEAD_ID,
    BLOCKED_EVENT_ID,
    BLOCKED_TYPE,
    BLOCKED_TENANT,
    BLOCKED_KEY
};

static struct blocked_row read_blocked(const PGresult *result, int row)
{
    struct blocked_row blocked = {
        .position = result_int8(result, row, BLOCKED_POSITION, 0),
        .partition = (int32_t)result_int8(result, row, BLOCKED_PARTITION, 0),
        .since_us = result_time(result, row, BLOCKED_SINCE, -1),
        .held = result_int8(result, row, BLOCKED_HELD, 0),
        .dead_id = result_int8(result, row, BLOCKED_DEAD_ID, -1),
        .type = result_text(result, row, BLOCKED_TYPE),
        .tenant = result_text(result, row, BLOCKED_TENANT),
        .key = result_text(result, row, BLOCKED_KEY),
    };
    blocked.has_event = result_uuid(result, row, BLOCKED_EVENT_ID, blocked.event_id);
    return blocked;
}

hf_status postgres_blocked(struct engine *engine, int64_t subscription_id, int64_t after,
                           int32_t max, blocked_row_fn found, void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_BLOCKED);
    param_int4(params, postgres_of(engine)->namespace_id);
    param_int8(params, subscription_id);
    param_int8(params, after);
    param_int4(params, max);
    if (pg_lookup_run(&lookup) && lookup.rows == 0) {
        lookup.status = missing_subscription(subscription_id);
    }
    for (int row = 0, enough = 0; !enough && row < lookup.rows; row++) {
        if (!result_is_null(lookup.result, row, BLOCKED_POSITION)) {
            struct blocked_row blocked = read_blocked(lookup.result, row);
            enough = found(&blocked, ctx);
        }
    }
    return pg_lookup_end(&lookup);
}
