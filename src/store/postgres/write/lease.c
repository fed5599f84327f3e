/*
 * lease.c - who is alive: the memory of signs of life, and giving everything back at the end.
 *
 * Dead and frozen are two things. The server knows who is dead: the process's advisory lock is gone
 * with its connection, and every takeover asks for that by itself. Frozen is what only time can
 * tell, and lease.h says whose.
 *
 * What is remembered is about a server that was there all the time. While it is away no process
 * can raise a number, so after a new connection of the writer's everything is forgotten and watched
 * anew: an owner gets a whole lease to show itself.
 *
 * The memory has room for as many as work for one subscription. Those who are gone leave it by not
 * being seen any more; who is still there and frozen is seen again and again.
 */
#include "store/postgres/write/lease.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/time/clock.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/row.h"

#define SIGNS_MAX STORE_MEMBERS_MAX
#define FORGET_US INT64_C(3600000000) /* who was not seen for so long makes room */
#define LOOK_EVERY_US 50000

struct sign {
    uint8_t token[STORE_TOKEN_BYTES];
    int64_t renewals;
    int64_t since_us; /* the number is at least as old as this */
    int64_t seen_us;
};

struct signs {
    struct sign list[SIGNS_MAX];
    size_t count;
    uint64_t session; /* the writer's connection that all this was seen on */
    int64_t looked_us;
    bool busy; /* the last claim brought something */
};

hf_status signs_new(struct signs **ret_signs)
{
    struct signs *signs = mem_calloc(1, sizeof *signs);
    if (!signs) {
        return fail(HF_NOMEM, "no memory for the signs of life of other processes");
    }
    signs->looked_us = INT64_MIN / 2;
    *ret_signs = signs;
    return HF_OK;
}

void signs_free(struct signs *signs)
{
    mem_free(signs);
}

/* The memory, emptied if the server may have been away. */
static struct signs *signs_of(struct postgres_engine *engine)
{
    struct signs *signs = engine->signs;
    if (signs->session != engine->writer.number) {
        signs->session = engine->writer.number;
        signs->count = 0;
    }
    return signs;
}

/* So that not every change hands down those who left long ago. */
static void forget_old(struct signs *signs, int64_t now_us)
{
    size_t kept = 0;
    for (size_t i = 0; i < signs->count; i++) {
        if (now_us - signs->list[i].seen_us < FORGET_US) {
            signs->list[kept++] = signs->list[i];
        }
    }
    signs->count = kept;
}

static struct sign *oldest_of(struct signs *signs)
{
    struct sign *oldest = &signs->list[0];
    for (size_t i = 1; i < signs->count; i++) {
        oldest = signs->list[i].seen_us < oldest->seen_us ? &signs->list[i] : oldest;
    }
    return oldest;
}

/* The place of this token, or one for it. */
static struct sign *place_of(struct signs *signs, const uint8_t token[STORE_TOKEN_BYTES],
                             int64_t now_us)
{
    for (size_t i = 0; i < signs->count; i++) {
        if (memcmp(signs->list[i].token, token, sizeof signs->list[i].token) == 0) {
            return &signs->list[i];
        }
    }
    forget_old(signs, now_us);
    struct sign *sign = signs->count < SIGNS_MAX ? &signs->list[signs->count++] : oldest_of(signs);
    memcpy(sign->token, token, sizeof sign->token);
    sign->renewals = -1;
    return sign;
}

void signs_see(struct postgres_engine *engine, const uint8_t token[STORE_TOKEN_BYTES],
               int64_t renewals)
{
    int64_t now_us = clock_mono_us();
    struct sign *sign = place_of(signs_of(engine), token, now_us);
    sign->seen_us = now_us;
    if (sign->renewals != renewals) {
        sign->renewals = renewals;
        sign->since_us = sign->seen_us;
    }
}

void signs_fill(struct postgres_engine *engine, struct params *params, int64_t lease_ms,
                bool how_long)
{
    const struct signs *signs = signs_of(engine);
    int64_t now_us = clock_mono_us();
    const struct sign *still[SIGNS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < signs->count; i++) {
        if ((now_us - signs->list[i].since_us) / 1000 >= lease_ms) {
            still[count++] = &signs->list[i];
        }
    }
    param_array(params, PARAM_UUID, count);
    for (size_t i = 0; i < count; i++) {
        element_uuid(params, still[i]->token);
    }
    param_array(params, PARAM_INT8, count);
    for (size_t i = 0; i < count; i++) {
        element_int8(params, still[i]->renewals);
    }
    if (!how_long) {
        return;
    }
    param_array(params, PARAM_INT8, count);
    for (size_t i = 0; i < count; i++) {
        element_int8(params, (now_us - still[i]->since_us) / 1000);
    }
}

bool signs_look(struct postgres_engine *engine)
{
    int64_t now_us = clock_mono_us();
    struct signs *signs = engine->signs;
    if (signs->busy && now_us - signs->looked_us < LOOK_EVERY_US) {
        return false;
    }
    signs->looked_us = now_us;
    return true;
}

void signs_claimed(struct postgres_engine *engine, int count)
{
    engine->signs->busy = count > 0;
}

hf_status postgres_give_back_all(struct postgres_engine *engine, struct session *session,
                                 int64_t now_us, bool *ret_ring)
{
    struct params *params = session_params(session);
    param_int4(params, engine->namespace_id);
    param_uuid(params, engine->token);
    params->shift_us = skew_shift(engine, now_us);
    param_local(params, now_us);
    PGresult *result;
    hf_status status = session_query_once(session, POSTGRES_QUERY_PROCESS_CLOSE, &result);
    if (!status) {
        *ret_ring = result_bool(result, 0, 0);
        PQclear(result);
    }
    return status;
}
