/*
 * migration_plan.c - see migration_plan.h.
 */
#include "store/schema/migration_plan.h"

#include <assert.h>

#include "base/err.h"
#include "base/mem.h"

hf_status migration_plan_init(struct migration_plan *plan, const char *engine,
                              const struct fit_program *program, const struct fit_schema *schema,
                              int64_t from)
{
    bool newer = schema->number > program->number;
    assert(program->number <= PLAN_STEPS_MAX);
    *plan = (struct migration_plan){.room = (size_t)program->number};
    plan->steps = mem_calloc(plan->room, sizeof *plan->steps);
    plan->list = mem_calloc(plan->room, sizeof *plan->list);
    if (!plan->steps || !plan->list) {
        mem_free(plan->steps);
        mem_free(plan->list);
        return fail(HF_NOMEM, "no memory for the steps of a migration");
    }
    plan->told = (hf_migration){
        .size = sizeof plan->told,
        .engine = engine,
        .version = schema->number,
        .version_after = newer ? schema->number : program->number,
        .programs_from = schema->programs_from > 0 ? schema->programs_from : schema->number,
        .release = schema->release[0] ? schema->release : NULL,
        .functions = HF_FUNCTIONS_NONE,
        .steps = plan->list,
    };
    plan->told.programs_from_after = newer ? plan->told.programs_from : from;
    return HF_OK;
}

void migration_plan_step(struct migration_plan *plan, int64_t number, const char *name,
                         bool older_programs)
{
    size_t at = plan->told.step_count;
    if (number <= plan->told.version || at == plan->room) {
        return;
    }
    plan->steps[at] = (hf_migration_step){sizeof plan->steps[at], number, name, older_programs};
    plan->list[at] = &plan->steps[at];
    plan->told.step_count++;
}

void migration_plan_tell(struct migration_plan *plan, hf_migration_fn found, void *ctx)
{
    found(&plan->told, ctx);
    mem_free(plan->steps);
    mem_free(plan->list);
}
