/*
 * members_refresh.c - who works for an ordered subscription: its members, and whose its partitions
 * are.
 *
 * A member is a row with the token of a process. The server knows who of them is dead, and we know
 * who has stood still for a lease (lease.h); both are struck off by the function that is called
 * here, whose transaction is one moment. What it saw of the others' signs of life comes back and is
 * remembered, so that one that freezes is found out after a lease.
 *
 * Another number of partitions: the function does it, in its one transaction. If the answer is lost
 * it is asked again, and finds the request still there or fulfilled.
 */
#include <string.h>

#include "base/err.h"
#include "base/point.h"
#include "store/claimants.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/row.h"
#include "store/postgres/write/lease.h"

/* Columns of the answer. */
enum {
    MEMBERS_REFRESH_RING = 2,
    MEMBERS_REFRESH_VERSION,
    MEMBERS_REFRESH_MEMBERS,
    MEMBERS_REFRESH_ASSIGNED,
    MEMBERS_REFRESH_OWNERS,
    MEMBERS_REFRESH_SEEN,
    MEMBERS_REFRESH_SEEN_RENEWALS,
    MEMBERS_REFRESH_OTHER_NAME,
    MEMBERS_REFRESH_LOWEST,
    MEMBERS_REFRESH_HIGHEST
};

static hf_status members_refresh_fill(struct postgres_engine *engine, struct params *params,
                                      struct change *change)
{
    const struct members_refresh *refresh = (const struct members_refresh *)change;
    param_int4(params, engine->namespace_id);
    param_int8(params, refresh->subscription_id);
    param_uuid(params, engine->token);
    param_bool(params, refresh->leaves);
    param_int4(params, STORE_MEMBERS_MAX);
    param_text(params, refresh->assigned);
    signs_fill(engine, params, refresh->lease_ms, false);
    return HF_OK;
}

static void see_signs(struct postgres_engine *engine, const PGresult *result)
{
    struct result_array tokens = result_array(result, 0, MEMBERS_REFRESH_SEEN);
    struct result_array renewals = result_array(result, 0, MEMBERS_REFRESH_SEEN_RENEWALS);
    for (size_t i = 0; i < tokens.count && i < renewals.count; i++) {
        uint8_t token[STORE_TOKEN_BYTES];
        bool known = array_uuid(&tokens, token);
        int64_t number = array_int8(&renewals, -1);
        if (known) {
            signs_see(engine, token, number);
        }
    }
}

/* The place of a token among the members; -1: none. */
static int32_t find_member(const PGresult *result, const uint8_t token[STORE_TOKEN_BYTES])
{
    struct result_array members = result_array(result, 0, MEMBERS_REFRESH_MEMBERS);
    for (size_t i = 0; i < members.count; i++) {
        uint8_t member[STORE_TOKEN_BYTES];
        if (array_uuid(&members, member) && memcmp(member, token, sizeof member) == 0) {
            return (int32_t)i;
        }
    }
    return -1;
}

static void read_owners(struct postgres_engine *engine, struct members_refresh *refresh,
                        const PGresult *result)
{
    struct result_array owners = result_array(result, 0, MEMBERS_REFRESH_OWNERS);
    refresh->ret_partitions = 0;
    for (size_t i = 0; i < owners.count && i < HF_PARTITIONS_MAX; i++) {
        uint8_t owner[STORE_TOKEN_BYTES];
        int32_t whose = MEMBERS_REFRESH_FREE;
        if (array_uuid(&owners, owner)) {
            whose = find_member(result, owner);
            if (whose < 0) {
                bool self = memcmp(owner, engine->token, sizeof owner) == 0;
                whose = self ? MEMBERS_REFRESH_SELF : MEMBERS_REFRESH_OTHER;
            }
        }
        refresh->ret_owners[refresh->ret_partitions++] = whose;
    }
}

static void read_claimants(const PGresult *result, struct claimants *claimants)
{
    struct result_array assigned = result_array(result, 0, MEMBERS_REFRESH_ASSIGNED);
    claimants_init(claimants);
    for (size_t i = 0; i < assigned.count && i < STORE_MEMBERS_MAX; i++) {
        claimants_note(claimants, (int32_t)i, array_text(&assigned));
    }
}

static hf_status members_refresh_read(struct postgres_engine *engine, struct change *change,
                                      const PGresult *result, bool *ret_ring)
{
    struct members_refresh *refresh = (struct members_refresh *)change;
    hf_status status = postgres_answer(result, 0, 0);
    if (status) {
        return status;
    }
    *ret_ring = result_bool(result, 0, MEMBERS_REFRESH_RING);
    size_t members = result_array(result, 0, MEMBERS_REFRESH_MEMBERS).count;
    if (members > STORE_MEMBERS_MAX) { /* by a program with another limit */
        return fail(HF_BUSY, "%zu processes work for this subscription; the limit is %d", members,
                    STORE_MEMBERS_MAX);
    }
    refresh->ret_members = (int32_t)members;
    refresh->ret_self = find_member(result, engine->token);
    refresh->ret_lowest = result_int8(result, 0, MEMBERS_REFRESH_LOWEST, 0);
    refresh->ret_highest = result_int8(result, 0, MEMBERS_REFRESH_HIGHEST, 0);
    refresh->ret_members_version = result_int8(result, 0, MEMBERS_REFRESH_VERSION, 0);
    snprintf(refresh->ret_other_name, sizeof refresh->ret_other_name, "%" TEXT_PRI,
             TEXT_ARG(result_text(result, 0, MEMBERS_REFRESH_OTHER_NAME)));
    read_owners(engine, refresh, result);
    read_claimants(result, &refresh->ret_claimants);
    see_signs(engine, result);
    if (refresh->ret_members > 1 || refresh->ret_other_name[0]) {
        keeper_guard(engine);
    }
    return HF_OK;
}

const struct verb postgres_verb_members_refresh = {
    .query = POSTGRES_QUERY_CHANGE_MEMBERS_REFRESH,
    .fill = members_refresh_fill,
    .read = members_refresh_read,
};

static hf_status repartition_fill(struct postgres_engine *engine, struct params *params,
                                  struct change *change)
{
    const struct repartition *repartition = (const struct repartition *)change;
    param_int4(params, engine->namespace_id);
    param_int8(params, repartition->subscription_id);
    param_uuid(params, engine->token);
    param_local(params, change->now_us);
    signs_fill(engine, params, repartition->lease_ms, false);
    HF_POINT("mid_repartition");
    return HF_OK;
}

static hf_status repartition_read(struct postgres_engine *engine, struct change *change,
                                  const PGresult *result, bool *ret_ring)
{
    struct repartition *repartition = (struct repartition *)change;
    hf_status status = postgres_answer(result, 0, 0);
    uint8_t owner[STORE_TOKEN_BYTES];
    if (status == HF_BUSY && result_uuid(result, 0, 3, owner)) {
        signs_see(engine, owner, result_int8(result, 0, 4, -1));
    }
    repartition->ret_changed = status == HF_OK && result_bool(result, 0, 2);
    *ret_ring = repartition->ret_changed;
    return status;
}

const struct verb postgres_verb_repartition = {
    .query = POSTGRES_QUERY_CHANGE_REPARTITION,
    .fill = repartition_fill,
    .read = repartition_read,
};
