/*
 * silence.c - is the server still at work on our statement?
 *
 * A connection can fall silent without an end: the server's process hangs, a firewall has forgotten
 * the connection, something in between swallows what it should pass on. TCP's own alarms
 * (address.c) notice only a peer that does not acknowledge. On the other hand a statement may
 * take its time, and one that is given up while it works is a lot of work done in vain, or a change
 * of which nobody knows whether it happened.
 *
 * So after some seconds of silence another connection asks the server about the first. If the
 * server does not answer that, or says that the process is idle or gone, no answer will come any
 * more. It is asked twice: between two statements that were sent ahead a process is idle, too, for
 * a moment.
 */
#include <poll.h>

#include "store/postgres/postgres.h"
#include "store/postgres/wire/row.h"

#define ASK_MS 3000  /* as long as an answer may take */
#define TWICE_MS 100 /* between the two questions */

enum finding { FINDING_AT_WORK, FINDING_IDLE, FINDING_NO_SERVER };

static enum finding ask(struct session *asker, int pid, bool pooled)
{
    hf_status status = session_connect_once(asker, asker->deadline);
    asker->greeted = false; /* nobody asks about the one who asks */
    if (status != HF_OK) {
        return asker->sqlstate[0] ? FINDING_AT_WORK : FINDING_NO_SERVER;
    }
    if (pooled) {
        return FINDING_AT_WORK; /* whose process it is only the pooler knows */
    }
    PGresult *result;
    param_int4(session_params(asker), pid);
    status = session_query(asker, POSTGRES_QUERY_SESSION_AT_WORK, &result);
    if (status != HF_OK) {
        return asker->sqlstate[0] ? FINDING_AT_WORK : FINDING_NO_SERVER;
    }
    enum finding finding = result_bool(result, 0, 0) ? FINDING_AT_WORK : FINDING_IDLE;
    PQclear(result);
    return finding;
}

bool session_is_forsaken(struct session *session)
{
    struct session asker;
    int pid = PQbackendPID(session->pg);
    session_init(&asker, session->engine, SESSION_READER);
    asker.deadline = deadline_earlier(session->deadline, deadline_after_ms(ASK_MS));
    enum finding finding = ask(&asker, pid, session->pooled);
    if (finding == FINDING_IDLE && !session_wait(session, POLLIN, deadline_after_ms(TWICE_MS))) {
        finding = ask(&asker, pid, session->pooled);
    }
    session_release(&asker);
    /* What came meanwhile counts more. */
    return finding != FINDING_AT_WORK && !session_wait(session, POLLIN, deadline_after_ms(0));
}
