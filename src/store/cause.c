/*
 * cause.c - the names of causes. See cause.h.
 */
#include "store/cause.h"

static const struct text names[] = {[CAUSE_NONE] = {NULL, 0},
#define CAUSE(name, text) [CAUSE_##name] = TEXT_LITERAL(text),
                                    CAUSES(CAUSE)
#undef CAUSE
};

struct text cause_name(enum cause cause)
{
    return names[cause];
}

enum cause cause_of(struct text name)
{
    for (size_t i = CAUSE_NONE + 1; i < sizeof names / sizeof names[0]; i++) {
        if (text_equal(name, names[i])) {
            return (enum cause)i;
        }
    }
    return CAUSE_NONE;
}
