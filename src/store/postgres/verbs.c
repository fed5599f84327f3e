/*
 * verbs.c - the table of all changes: which verb is which kind's. See verbs.h.
 */
#include "store/postgres/verbs.h"

static const struct verb *const verbs[CHANGE_KINDS] = {
#define CHANGE(KIND, name) [CHANGE_##KIND] = &postgres_verb_##name,
#include "store/changes.def"
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
