/*
 * partition.c - who works for an ordered subscription, and from where: acquire, give back, depart.
 *
 * The row of the partition decides. Its epoch rises with every acquisition and every seek, and each
 * settle compares owner and epoch while it holds a lock on that row, so a former owner that wakes
 * up finds either its own epoch, and then no other process has worked, or another one, and then it
 * is refused. What it did meanwhile outside the database cannot be taken back; transactional
 * handlers are refused the same way, before their commit.
 *
 * Who may take a partition
 *   it has no owner      any process
 *   we have it           we, with a new epoch: whatever ran under the old one is refused
 *   the owner is dead    any process: its advisory lock is gone
 *   it is frozen         any process: its number has stood still for a lease of our clock (lease.h)
 *   it is alive          only a process that forces it
 *
 * A server that may be far away keeps no notes of which handlers run, so what a dead owner was
 * doing is not known: `unclean`, and the bus is careful with the first events. An acquisition is
 * committed durably, because an epoch must not fall back.
 */
#include "base/err.h"
#include "base/point.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/row.h"
#include "store/postgres/write/lease.h"

static uint64_t owned_key(int64_t subscription_id, int32_t partition)
{
    return (uint64_t)subscription_id << 16 | (uint64_t)(uint32_t)partition;
}

int64_t partition_epoch(const struct postgres_engine *engine, int64_t subscription_id,
                        int32_t partition, int64_t epoch)
{
    int64_t number = 0;
    bool known = set64_get(&engine->owned, owned_key(subscription_id, partition), &number);
    return known && (uint64_t)number == engine->writer.number ? epoch : -1;
}

static hf_status acquire_fill(struct postgres_engine *engine, struct params *params,
                              struct change *change)
{
    const struct acquire *acquire = (const struct acquire *)change;
    param_int4(params, engine->namespace_id);
    param_int8(params, acquire->subscription_id);
    param_int4(params, acquire->partition);
    param_uuid(params, engine->token);
    param_text(params, engine->node_name);
    param_bool(params, acquire->force);
    signs_fill(engine, params, acquire->lease_ms, false);
    HF_POINT("after_acquire_before_commit");
    return HF_OK;
}

static hf_status acquire_read(struct postgres_engine *engine, struct change *change,
                              const PGresult *result, bool *ret_ring)
{
    (void)ret_ring;
    struct acquire *acquire = (struct acquire *)change;
    hf_status status = postgres_answer(result, 0, 0);
    uint8_t owner[STORE_TOKEN_BYTES];
    if (status == HF_BUSY && result_uuid(result, 0, 6, owner)) {
        signs_see(engine, owner, result_int8(result, 0, 7, -1));
        keeper_guard(engine);
    }
    if (!status) {
        acquire->ret_epoch = result_int8(result, 0, 2, 0);
        acquire->ret_checkpoint = result_int8(result, 0, 3, 0);
        acquire->ret_generation = result_int8(result, 0, 4, 0);
        acquire->ret_unclean = result_bool(result, 0, 5);
        acquire->ret_crashed = 0;
        acquire->ret_doubt_through = result_int8(result, 0, 8, 0);
        status = set64_put(&engine->owned, owned_key(acquire->subscription_id, acquire->partition),
                           (int64_t)engine->writer.number);
    }
    return status;
}

const struct verb postgres_verb_acquire = {
    .query = POSTGRES_QUERY_CHANGE_ACQUIRE,
    .fill = acquire_fill,
    .read = acquire_read,
};

static hf_status give_back_fill(struct postgres_engine *engine, struct params *params,
                                struct change *change)
{
    const struct give_back *give_back = (const struct give_back *)change;
    param_int8(params, give_back->subscription_id);
    param_int4(params, give_back->partition);
    param_uuid(params, engine->token);
    param_int8(params, give_back->epoch);
    return HF_OK;
}

const struct verb postgres_verb_give_back = {
    .query = POSTGRES_QUERY_CHANGE_GIVE_BACK,
    .fill = give_back_fill,
    .read = postgres_read_ringing,
};

static hf_status depart_fill(struct postgres_engine *engine, struct params *params,
                             struct change *change)
{
    const struct depart *depart = (const struct depart *)change;
    param_int4(params, engine->namespace_id);
    param_uuid(params, engine->token);
    param_array(params, PARAM_INT8, depart->count);
    for (size_t i = 0; i < depart->count; i++) {
        element_int8(params, depart->subscription_ids[i]);
    }
    return HF_OK;
}

static hf_status depart_read(struct postgres_engine *engine, struct change *change,
                             const PGresult *result, bool *ret_ring)
{
    hf_status status = postgres_read_ringing(engine, change, result, ret_ring);
    if (!status) {
        ((struct depart *)change)->ret_left = result_int8(result, 0, 2, 0);
    }
    return status;
}

const struct verb postgres_verb_depart = {
    .query = POSTGRES_QUERY_CHANGE_DEPART,
    .fill = depart_fill,
    .read = depart_read,
};
