/*
 * verbs.c - the table of all changes: which verb is which kind's. See verbs.h.
 */
#include "store/postgres/verbs.h"

static const struct verb *const verbs[CHANGE_KINDS] = {
    [CHANGE_APPEND] = &postgres_verb_append,
    [CHANGE_SUBSCRIPTION_PUT] = &postgres_verb_subscription_put,
    [CHANGE_SUBSCRIPTION_REMOVE] = &postgres_verb_subscription_remove,
    [CHANGE_PAUSE] = &postgres_verb_pause,
    [CHANGE_BREAKER] = &postgres_verb_breaker_put,
    [CHANGE_SEEK] = &postgres_verb_seek,
    [CHANGE_MEMBERS_REFRESH] = &postgres_verb_members_refresh,
    [CHANGE_REPARTITION] = &postgres_verb_repartition,
    [CHANGE_ACQUIRE] = &postgres_verb_acquire,
    [CHANGE_GIVE_BACK] = &postgres_verb_give_back,
    [CHANGE_SETTLE] = &postgres_verb_settle,
    [CHANGE_CHECKPOINTS] = &postgres_verb_checkpoints,
    [CHANGE_CLAIM] = &postgres_verb_claim,
    [CHANGE_SETTLE_LEASE] = &postgres_verb_settle_lease,
    [CHANGE_DEAD_RETRY] = &postgres_verb_dead_retry,
    [CHANGE_DEAD_RESOLVE] = &postgres_verb_dead_resolve,
    [CHANGE_DEAD_PURGE] = &postgres_verb_dead_purge,
    [CHANGE_NAMESPACE_PUT] = &postgres_verb_namespace_put,
    [CHANGE_NAMESPACE_REMOVE] = &postgres_verb_namespace_remove,
    [CHANGE_NAMESPACE_GRANT] = &postgres_verb_namespace_grant,
    [CHANGE_NAMESPACE_REVOKE] = &postgres_verb_namespace_revoke,
    [CHANGE_SCHEDULE_PUT] = &postgres_verb_schedule_put,
    [CHANGE_SCHEDULE_REMOVE] = &postgres_verb_schedule_remove,
    [CHANGE_SCHEDULE_PAUSE] = &postgres_verb_schedule_pause,
    [CHANGE_FIRE] = &postgres_verb_fire,
    [CHANGE_DELAY] = &postgres_verb_delay,
    [CHANGE_RELEASE] = &postgres_verb_release,
    [CHANGE_RETAIN] = &postgres_verb_retain,
    [CHANGE_TRANSFER] = &postgres_verb_transfer,
};

const struct verb *verb_of(const struct change *change)
{
    return verbs[change->kind];
}

enum postgres_query verb_query(const struct change *change)
{
    const struct verb *verb = verb_of(change);
    return verb->choose ? verb->choose(change) : verb->query;
}
