/*
 * migration_plan.h - putting together what a migration would do (hf_migration), for engines.
 */
#ifndef HF_STORE_SCHEMA_MIGRATION_PLAN_H
#define HF_STORE_SCHEMA_MIGRATION_PLAN_H

#include "store/schema/fit.h"

#define PLAN_STEPS_MAX 1000

struct migration_plan {
    hf_migration told; /* its steps point into what follows */
    hf_migration_step *steps;
    const hf_migration_step **list;
    size_t room;
};

/* Begins a plan for this program and a schema, which must live as long as the plan; `from`: the
 * oldest program that may use what the migration makes. */
hf_status migration_plan_init(struct migration_plan *plan, const char *engine,
                              const struct fit_program *program, const struct fit_schema *schema,
                              int64_t from);
/* Adds a step; those that the schema has already are left out. */
void migration_plan_step(struct migration_plan *plan, int64_t number, const char *name,
                         bool older_programs);
/* Tells the plan, and frees it. */
void migration_plan_tell(struct migration_plan *plan, hf_migration_fn found, void *ctx);

#endif
