/*
 * pace.c - how durably a transaction of the writer's commits. See pace.h.
 */
#include "store/postgres/wire/pace.h"

#include "store/postgres/postgres.h"

/* A kept lease does not end while its process lives. If the server crashed and lost the settle that
 * we were told of, the lease would be there again and nobody would ever work on it. */
enum pace pace_of(const struct change *change)
{
    if (change->kind == CHANGE_SETTLE_LEASE && ((const struct settle_lease *)change)->kept) {
        return PACE_FIRM;
    }
    return change->relaxed ? PACE_RELAXED : PACE_NORMAL;
}

/* What synchronous_commit must be; absent: as the server has it. */
static struct text commit_of(const struct session *session, enum pace pace)
{
    bool process = session->engine->durability == HF_DURABILITY_PROCESS;
    bool off = pace == PACE_RELAXED || (pace == PACE_NORMAL && process);
    bool on = !off && (process || session->weak_commit);
    return off ? text_of("off") : on ? text_of("on") : TEXT_ABSENT;
}

/* Whether the session commits in another way than this. */
static bool is_other(const struct session *session, enum pace pace)
{
    bool power = session->engine->durability == HF_DURABILITY_POWER;
    return pace == (power ? PACE_RELAXED : PACE_FIRM);
}

bool pace_has_statement(const struct session *session, enum pace pace, bool rides)
{
    return session->pooled || (is_other(session, pace) && !rides);
}

void pace_fill(struct session *session, enum pace pace)
{
    struct params *params = session_params(session);
    param_text(params, commit_of(session, pace));
    param_text(params, session->pooled ? text_of(WRITER_LOCK_TIMEOUT) : TEXT_ABSENT);
}

struct text pace_riding(const struct session *session, enum pace pace)
{
    bool rides = !session->pooled && is_other(session, pace);
    return rides ? commit_of(session, pace) : TEXT_ABSENT;
}
