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

enum kin_column { KIN_SERVER_START, KIN_BIRTH, KIN_PID };

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

/* Whether a row tells of this process. */
static bool is_row_of(const PGresult *result, int row, struct kin kin)
{
    return result_int8(result, row, KIN_PID, 0) == kin.pid &&
           result_time(result, row, KIN_BIRTH, 0) == kin.birth_us;
}

/* What the server answers about the processes of `kin`, and of the session itself. */
static struct answer read_kin(const struct session *session, const PGresult *result,
                              const struct kin *kin, size_t count)
{
    struct answer answer = {.server_start_us = result_time(result, 0, KIN_SERVER_START, 0)};
    for (int row = 0; row < PQntuples(result); row++) {
        if (result_int8(result, row, KIN_PID, 0) == PQbackendPID(session->pg)) {
            answer.birth_us = result_time(result, row, KIN_BIRTH, 0);
        }
        for (size_t i = 0; i < count; i++) {
            answer.found = answer.found || is_row_of(result, row, kin[i]);
        }
    }
    return answer;
}

/* Asks when the server was started and the session's process began, and for the processes of
 * `kin`. */
static hf_status query_kin(struct session *session, const struct kin *kin, size_t count,
                           PGresult **ret_result)
{
    struct params *params = session_params(session);
    if (count == 0) {
        return session_execute(session, POSTGRES_QUERY_SESSION_BIRTH, true, ret_result);
    }
    param_array(params, PARAM_INT4, count + 1);
    element_int4(params, PQbackendPID(session->pg));
    for (size_t i = 0; i < count; i++) {
        element_int4(params, kin[i].pid);
    }
    return session_execute(session, POSTGRES_QUERY_SESSION_KIN, true, ret_result);
}

/* Asks the server of the session for processes of sessions of this era. A server that does not let
 * us see its processes proves nothing. */
static hf_status ask(struct session *session, uint64_t era, struct answer *ret_answer)
{
    struct kin kin[KIN_MAX];
    size_t count = engine_list_kin(session->engine, era, kin, KIN_MAX);
    PGresult *result;
    hf_status status = query_kin(session, kin, count, &result);
    if (status) {
        *ret_answer = (struct answer){0};
        return status == HF_DENIED ? HF_OK : status;
    }
    if (count == 0) {
        *ret_answer = (struct answer){
            .server_start_us = result_time(result, 0, KIN_SERVER_START, 0),
            .birth_us = result_time(result, 0, KIN_BIRTH, 0),
        };
    } else {
        *ret_answer = read_kin(session, result, kin, count);
    }
    PQclear(result);
    return HF_OK;
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
