/*
 * backend_check.c - whether the server is still at work on a statement that it does not answer.
 *
 * A connection can fall silent without an end: the server's process hangs, a firewall has forgotten
 * the connection, something in between swallows what it should pass on. TCP's own alarms
 * (address.c) notice only a peer that does not acknowledge. On the other hand a statement may
 * take its time. Giving one up while the server works wastes that work, or leaves a change of which
 * the caller cannot say whether it happened.
 *
 * So after some seconds without a byte a second connection asks the server about the backend of the
 * first. If the server does not answer that, or says that the backend is idle or gone, no answer
 * will come any more. The check runs twice: between two statements that were sent ahead a backend
 * is idle, too, for a moment.
 *
 * Only one thread of a store checks at a time, so that the second connection has a place among the
 * sessions of the store that no other takes (pool.h). When a server falls silent many sessions are
 * to be checked at once: a thread that waited for the check of another, which the server did not
 * answer, takes that for the answer to its own.
 */
#include <poll.h>

#include "base/thread.h"
#include "store/postgres/postgres.h"
#include "store/postgres/wire/row.h"

#define ASK_MS 3000  /* as long as an answer may take */
#define TWICE_MS 100 /* between the two checks */

enum finding { FINDING_AT_WORK, FINDING_IDLE, FINDING_NO_SERVER };

static enum finding ask(struct session *asker, int pid, bool pooled)
{
    hf_status status = session_connect_once(asker, asker->deadline);
    asker->facts &= ~(unsigned)SESSION_GREETED; /* no other session checks this one */
    if (status) {
        return asker->sqlstate[0] ? FINDING_AT_WORK : FINDING_NO_SERVER;
    }
    if (pooled) {
        return FINDING_AT_WORK; /* only the pooler knows the backend */
    }
    PGresult *result;
    param_int4(session_params(asker), pid);
    status = session_query(asker, POSTGRES_QUERY_SESSION_AT_WORK, &result);
    if (status) {
        return asker->sqlstate[0] ? FINDING_AT_WORK : FINDING_NO_SERVER;
    }
    enum finding finding = result_bool(result, 0, 0) ? FINDING_AT_WORK : FINDING_IDLE;
    PQclear(result);
    return finding;
}

static enum finding check(struct session *session)
{
    struct session asker;
    int pid = PQbackendPID(session->pg);
    bool pooled = session_has(session, SESSION_POOLED);
    session_init(&asker, session->engine, SESSION_CHECKER);
    asker.deadline = deadline_earlier(session->deadline, deadline_after_ms(ASK_MS));
    enum finding finding = ask(&asker, pid, pooled);
    if (finding == FINDING_IDLE && !session_wait(session, POLLIN, deadline_after_ms(TWICE_MS))) {
        finding = ask(&asker, pid, pooled);
    }
    session_release(&asker);
    return finding;
}

/* Checks when no other thread does. */
static enum finding check_in_turn(struct session *session)
{
    struct checker *checker = &session->engine->checker;
    enum finding finding = FINDING_AT_WORK; /* if there was no time to ask */
    pthread_mutex_lock(&checker->mutex);
    uint64_t unanswered = checker->unanswered;
    while (checker->busy && !deadline_passed(session->deadline)) {
        cond_wait_until(&checker->done, &checker->mutex, session->deadline);
    }
    if (checker->unanswered != unanswered) {
        finding = FINDING_NO_SERVER;
    } else if (!checker->busy) {
        checker->busy = true;
        pthread_mutex_unlock(&checker->mutex);
        finding = check(session);
        pthread_mutex_lock(&checker->mutex);
        checker->busy = false;
        checker->unanswered += finding == FINDING_NO_SERVER;
        pthread_cond_broadcast(&checker->done);
    }
    pthread_mutex_unlock(&checker->mutex);
    return finding;
}

bool session_backend_is_lost(struct session *session)
{
    enum finding finding = check_in_turn(session);
    /* What came meanwhile counts more. */
    return finding != FINDING_AT_WORK && !session_wait(session, POLLIN, deadline_after_ms(0));
}

hf_status checker_init(struct checker *checker)
{
    *checker = (struct checker){.busy = false};
    hf_status status = mutex_init(&checker->mutex);
    if (!status) {
        status = cond_init(&checker->done);
        if (status) {
            pthread_mutex_destroy(&checker->mutex);
        }
    }
    return status;
}

void checker_release(struct checker *checker)
{
    pthread_cond_destroy(&checker->done);
    pthread_mutex_destroy(&checker->mutex);
}
