/*
 * suboptions.h - hf_subscription_options as options of the command line, and back.
 *
 * `work`, `sub create` and the configuration file take the same rows and `sub show` prints by the
 * same table, so a field exists in all of them or in none.
 */
#ifndef HF_CLI_CONFIG_SUBOPTIONS_H
#define HF_CLI_CONFIG_SUBOPTIONS_H

#include "cli/core/args.h"

#include <holdfast.h>

/* The `more` rows of `work` and of `sub create`. */
extern const struct option_row suboptions_rows[];

enum field_kind { FIELD_ENUM, FIELD_INT32, FIELD_INT64, FIELD_DURATION, FIELD_DOUBLE };

/* A field of the struct. */
struct suboption {
    const char *option;  /* its row above */
    const char *name;    /* in the struct, and in JSON */
    const char *key;     /* in a subscription of a configuration file; NULL: not for commands */
    const char *initial; /* the default, as one would write it */
    enum field_kind kind;
    size_t offset;
    const char *choices; /* FIELD_ENUM: the words of 1, 2, ... */
};

#define SUBOPTIONS_MAX 64 /* fields */

extern const struct suboption suboptions_fields[];
extern const size_t suboptions_count;

/* The row of an option that is one of suboptions_rows (asserted). */
const struct option_row *suboptions_row(const char *option);

/* Stores a value that was read by the field's row. */
void suboptions_set(hf_subscription_options *options, const struct suboption *field,
                    const struct arg_value *value);

#define SUBOPTIONS_PATTERNS                                                                        \
    {                                                                                              \
        "on", 0, OPTION_TEXT, "PATTERN", NULL, 0, 0,                                               \
            "types to take: user.created, user.*, user.**, * (may be repeated)"                    \
    }

/* 0, or the exit code of a usage error: options that say the same thing twice. */
int suboptions_check(const struct args *args);

/* A new subscription that the command makes is for commands, which take as long as they take: if no
 * time limit is given it is the longest that there is, and not the one of handlers in C. */
void suboptions_for_commands(hf_subscription_options *options);

/* What the command line says; everything else stays "not given". */
hf_subscription_options suboptions_read(const struct args *args);

/* Prints all fields but `from`, one per line. */
void suboptions_print(const hf_subscription_options *options);

#endif
