/*
 * fit.h - whether a program and a schema go together, if their numbers differ.
 *
 * A schema has a number: how many steps (sql/ENGINE/tables) made it. A program has one, too: how
 * many steps it knows. They need not be the same. Each step says whether programs that do not know
 * it can work on a schema that has it, and whether programs that know it can work on a schema that
 * lacks it; scripts/embed-sql makes two numbers of that:
 *
 *   programs_from   of a schema, stored in it: the oldest program that may use it
 *   works_from      of a program: the oldest schema that it can work on; at an older one it can
 *                   only look
 *
 * The rules are the same on both engines and stand here, with what is said to people.
 */
#ifndef HF_STORE_SCHEMA_FIT_H
#define HF_STORE_SCHEMA_FIT_H

#include <holdfast.h>
#include <stdbool.h>

#define FIT_RELEASE_BYTES 32

enum fit {
    FIT_WORKS,  /* everything that the schema has can be used */
    FIT_LOOKS,  /* the schema is too old: nothing may be written */
    FIT_REFUSED /* the schema is too new */
};

/* What this program knows. */
struct fit_program {
    int64_t number;
    int64_t works_from;
};

/* What is stored of a schema. */
struct fit_schema {
    int64_t number;                  /* 0: there is no schema */
    int64_t programs_from;           /* 0: not stored, and so its own number */
    char release[FIT_RELEASE_BYTES]; /* of the program that made it so; "": not stored */
};

enum fit fit_of(const struct fit_program *program, const struct fit_schema *schema);

/* Whether a schema is to be brought up to date by this program. */
bool fit_is_older(const struct fit_program *program, const struct fit_schema *schema);

/* HF_OK, or HF_SCHEMA with both numbers and what to do. `place` names the database. `looks`: the
 * caller does not write. */
hf_status fit_check(const struct fit_program *program, const struct fit_schema *schema,
                    const char *place, bool looks);

/* HF_SCHEMA for a statement that needs what the schema does not have; `why` are the words of the
 * database. Numbers that are the same are no explanation: then it is the caller's to say. */
hf_status fit_fail_missing(const struct fit_program *program, const struct fit_schema *schema,
                           const char *place, const char *why);

/* What `doctor` advises; NULL: nothing. */
const char *fit_advice(const struct fit_program *program, const struct fit_schema *schema);

#endif
