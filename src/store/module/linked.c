/*
 * linked.c - the PostgreSQL engine is part of the program. See store/engine.h.
 */
#include "store/engine.h"

hf_status postgres_class_get(const struct engine_class **ret_class)
{
    *ret_class = &postgres_engine_class;
    return HF_OK;
}
