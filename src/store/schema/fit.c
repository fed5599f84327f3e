/*
 * fit.c - see fit.h.
 */
#include "store/schema/fit.h"

#include <stdio.h>

#include "base/err.h"

bool fit_is_older(const struct fit_program *program, const struct fit_schema *schema)
{
    return schema->number < program->number;
}

static int64_t programs_from(const struct fit_schema *schema)
{
    return schema->programs_from > 0 ? schema->programs_from : schema->number;
}

enum fit fit_of(const struct fit_program *program, const struct fit_schema *schema)
{
    if (fit_is_older(program, schema)) {
        return schema->number >= program->works_from ? FIT_WORKS : FIT_LOOKS;
    }
    return programs_from(schema) <= program->number || schema->number == program->number
               ? FIT_WORKS
               : FIT_REFUSED;
}

/* What to install for a schema that is newer than this program. */
static const char *remedy(const struct fit_schema *schema, char out[64])
{
    snprintf(out, 64, "install %s%s", schema->release[0] ? "Holdfast " : "the release that made it",
             schema->release);
    return out;
}

hf_status fit_check(const struct fit_program *program, const struct fit_schema *schema,
                    const char *place, bool looks)
{
    char what[64];
    switch (fit_of(program, schema)) {
    case FIT_WORKS:
        return HF_OK;
    case FIT_LOOKS:
        return looks ? HF_OK
                     : fail(HF_SCHEMA,
                            "%s has schema version %lld, and this program needs version %lld to "
                            "work on it: run `holdfast migrate`",
                            place, (long long)schema->number, (long long)program->number);
    case FIT_REFUSED:
        break;
    }
    return fail(HF_SCHEMA,
                "%s has schema version %lld, which takes programs from version %lld on; this "
                "program, Holdfast " HF_VERSION ", is of version %lld: %s, or a newer one",
                place, (long long)schema->number, (long long)programs_from(schema),
                (long long)program->number, remedy(schema, what));
}

hf_status fit_fail_missing(const struct fit_program *program, const struct fit_schema *schema,
                           const char *place, const char *why)
{
    char what[64];
    if (fit_is_older(program, schema)) {
        return fail(HF_SCHEMA,
                    "%s has schema version %lld, and this needs version %lld (%s): run `holdfast "
                    "migrate`",
                    place, (long long)schema->number, (long long)program->number, why);
    }
    return fail(
        HF_SCHEMA,
        "%s has schema version %lld, and this program, Holdfast " HF_VERSION
        ", is of version %lld and asks for what is not there any more (%s): %s, or a newer one",
        place, (long long)schema->number, (long long)program->number, why, remedy(schema, what));
}

const char *fit_advice(const struct fit_program *program, const struct fit_schema *schema)
{
    if (!fit_is_older(program, schema)) {
        return NULL;
    }
    return fit_of(program, schema) == FIT_WORKS
               ? "older than this program, which does not use what is new until you run `holdfast "
                 "migrate`"
               : "older than this program, which can only look until you run `holdfast migrate`";
}
