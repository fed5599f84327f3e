/*
 * era.c - which sessions speak to the same life of the same server. See era.h.
 *
 * A new session proves that it belongs to the present era by what its server says: one of the
 * server's processes at this moment is that of a session of the era. A process is known by its
 * number and by the time when it began, and it ends with the life of the server. So if the server
 * of the new session has such a process it is the same server, and it has lived without
 * interruption since the other session was connected. It does not matter whether that one has lost
 * its connection meanwhile.
 *
 * If no such process is found nothing is proven: the server may have crashed, or it is another one
 * (several hosts, a name that resolves to several addresses). Then the new session begins a new
 * era. That is always safe: what was remembered is forgotten, and read again.
 *
 * Two threads that connect at the same time after a crash find nothing of the old era. The first
 * begins the new one; the other sees that the era has changed since it asked, and asks again.
 *
 * Behind a transaction pooler the processes are not those of sessions. There the only sign is when
 * the server was started; readers compare it with every look (reader.c).
 */
#include "store/postgres/wire/era.h"

#include "base/err.h"
#include "base/thread.h"
#include "store/postgres/postgres.h"
#include "store/postgres/wire/row.h"

#define KIN_MAX 16 /* sessions that are asked for: one that is found is enough */
#define ASK_MAX 4  /* times, while others begin eras at the same moment */

enum birth_column { BIRTH_SERVER_START, BIRTH_OWN, BIRTH_KIN };

struct answer {
    int64_t server_start_us;
    int64_t birth_us; /* of the session's own process */
    bool found;
};

hf_status era_init(struct era *era)
{
    *era = (struct era){.server_start_us = 0};
    return mutex_init(&era->mutex);
}

void era_release(struct era *era)
{
    pthread_mutex_destroy(&era->mutex);
}

uint64_t era_now(const struct postgres_engine *engine)
{
    return atomic_load(&engine->era.number);
}

bool era_is_over(const struct session *session)
{
    return session->era != era_now(session->engine);
}

/* Asks when the server was started and the session's process began, and for the first of `kin`,
 * which nearly always proves enough. */
static hf_status ask_birth(struct session *session, const struct kin *kin, size_t count,
                           struct answer *ret_answer)
{
    PGresult *result;
    param_int4(session_params(session), count > 0 ? kin[0].pid : 0);
    hf_status status = session_execute(session, POSTGRES_QUERY_SESSION_BIRTH, true, &result);
    if (!status) {
        *ret_answer = (struct answer){
            .server_start_us = result_time(result, 0, BIRTH_SERVER_START, 0),
            .birth_us = result_time(result, 0, BIRTH_OWN, 0),
            .found = count > 0 && result_time(result, 0, BIRTH_KIN, 0) == kin[0].birth_us,
        };
        PQclear(result);
    }
    return status;
}

/* Asks for all of `kin`. */
static hf_status ask_kin(struct session *session, const struct kin *kin, size_t count,
                         bool *ret_found)
{
    struct params *params = session_params(session);
    param_array(params, PARAM_INT4, count);
    for (size_t i = 0; i < count; i++) {
        element_int4(params, kin[i].pid);
    }
    param_array(params, PARAM_TIME, count);
    for (size_t i = 0; i < count; i++) {
        element_time(params, kin[i].birth_us);
    }
    PGresult *result;
    hf_status status = session_execute(session, POSTGRES_QUERY_SESSION_KIN, true, &result);
    if (!status) {
        *ret_found = result_bool(result, 0, 0);
        PQclear(result);
    }
    return status;
}

/* Asks the server of the session for processes of sessions of this era. A server that does not let
 * us see its processes proves nothing. */
static hf_status ask(struct session *session, uint64_t era, struct answer *ret_answer)
{
    struct kin kin[KIN_MAX];
    size_t count = engine_list_kin(session->engine, era, kin, KIN_MAX);
    *ret_answer = (struct answer){0};
    hf_status status = ask_birth(session, kin, count, ret_answer);
    if (!status && !ret_answer->found && count > 1) {
        status = ask_kin(session, kin, count, &ret_answer->found);
    }
    if (status) {
        *ret_answer = (struct answer){0};
    }
    return status == HF_DENIED ? HF_OK : status;
}

/* The era that the answer proves, asked about era `asked`; 0: it proves none, and the present one
 * is another than was asked about. */
static uint64_t judge(struct session *session, uint64_t asked, const struct answer *answer,
                      bool last)
{
    struct era *era = &session->engine->era;
    uint64_t proven = 0;
    pthread_mutex_lock(&era->mutex);
    bool same_start =
        answer->server_start_us != 0 && answer->server_start_us == era->server_start_us;
    bool pooled = session_has(session, SESSION_POOLED);
    if (pooled ? same_start : answer->found) {
        proven = pooled ? atomic_load(&era->number) : asked;
    } else if (atomic_load(&era->number) == asked || last) {
        era->server_start_us = answer->server_start_us;
        proven = atomic_fetch_add(&era->number, 1) + 1;
    }
    pthread_mutex_unlock(&era->mutex);
    return proven;
}

hf_status era_join(struct session *session)
{
    struct params in_hand = session->params; /* those of a statement that is to be run again */
    struct answer answer = {0};
    hf_status status = HF_OK;
    uint64_t era = 0;
    params_init(&session->params);
    for (int i = 1; !status && era == 0; i++) {
        uint64_t asked = era_now(session->engine);
        status = ask(session, asked, &answer);
        era = status ? 0 : judge(session, asked, &answer, i == ASK_MAX);
    }
    params_release(&session->params);
    session->params = in_hand;
    if (!status) {
        engine_date_session(session, era, answer.birth_us);
    }
    return status;
}
