/*
 * absent.c - a static library without the PostgreSQL engine. See store/engine.h.
 *
 * A program that was linked statically chose its engines then, and opens no modules.
 */
#include "base/err.h"
#include "store/engine.h"

hf_status postgres_class_get(const struct engine_class **ret_class)
{
    (void)ret_class;
    return fail(HF_UNAVAILABLE, "this program was linked with libholdfast.a, which has no "
                                "PostgreSQL engine; link it with libholdfast-postgres.a instead");
}
