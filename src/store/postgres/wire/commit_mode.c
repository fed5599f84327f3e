/*
 * commit_mode.c - how durably a transaction of the writer's commits. See commit_mode.h.
 */
#include "store/postgres/wire/commit_mode.h"

#include "store/postgres/postgres.h"

/* A kept lease does not end while its process lives. If the server crashed and lost a settle that
 * it had confirmed, the lease would be there again and no worker would ever work on it. */
enum commit_mode commit_mode_of(const struct change *change)
{
    if (change->kind == CHANGE_SETTLE_LEASE && ((const struct settle_lease *)change)->kept) {
        return COMMIT_FIRM;
    }
    return change->relaxed ? COMMIT_RELAXED : COMMIT_NORMAL;
}

/* What synchronous_commit must be; absent: as the server has it. */
static struct text commit_of(const struct session *session, enum commit_mode mode)
{
    bool process = session->engine->durability == HF_DURABILITY_PROCESS;
    bool off = mode == COMMIT_RELAXED || (mode == COMMIT_NORMAL && process);
    bool on = !off && (process || session_has(session, SESSION_WEAK_COMMIT));
    return off ? text_of("off") : on ? text_of("on") : TEXT_ABSENT;
}

/* Whether the session commits in another way than this. */
static bool is_other(const struct session *session, enum commit_mode mode)
{
    bool power = session->engine->durability == HF_DURABILITY_POWER;
    return mode == (power ? COMMIT_RELAXED : COMMIT_FIRM);
}

bool commit_mode_has_statement(const struct session *session, enum commit_mode mode, bool rides)
{
    return session_has(session, SESSION_POOLED) || (is_other(session, mode) && !rides);
}

void commit_mode_fill(struct session *session, enum commit_mode mode)
{
    struct params *params = session_params(session);
    param_text(params, commit_of(session, mode));
    param_text(params,
               session_has(session, SESSION_POOLED) ? text_of(WRITER_LOCK_TIMEOUT) : TEXT_ABSENT);
}

struct text commit_mode_riding(const struct session *session, enum commit_mode mode)
{
    bool rides = !session_has(session, SESSION_POOLED) && is_other(session, mode);
    return rides ? commit_of(session, mode) : TEXT_ABSENT;
}
