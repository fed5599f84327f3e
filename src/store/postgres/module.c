/*
 * module.c - the one name that libholdfast-postgres.so exports. See store/module/module.h.
 */
#include "store/module/module.h"

#include <stdatomic.h>

#include "base/err.h"
#include "build.h"

static const struct engine_class *attach(char *(*slot)(void))
{
    static char *(*_Atomic owner)(void);
    char *(*before)(void) = NULL;
    if (!atomic_compare_exchange_strong(&owner, &before, slot) && before != slot) {
        return NULL;
    }
    err_share(slot);
    return &postgres_engine_class;
}

__attribute__((visibility("default"))) const struct engine_module holdfast_postgres_module = {
    .identity = BUILD_IDENTITY,
    .attach = attach,
};
