/*
 * suboptions.h - hf_subscription_options as options of the command line, and back.
 *
 * `work` and `sub create` take the same rows and `sub show` prints by the same table, so a field
 * exists in all of them or in none.
 */
#ifndef HF_CLI_SUBOPTIONS_H
#define HF_CLI_SUBOPTIONS_H

#include "base/json_write.h"
#include "cli/args.h"

#include <holdfast.h>

/* The `more` rows of `work` and of `sub create`. */
extern const struct option_row suboptions_rows[];

#define SUBOPTIONS_PATTERNS                                                                        \
    {"on", 0, OPTION_TEXT, "PATTERN", NULL, 0, 0,                                                  \
     "types to take: user.created, user.*, user.**, * (may be repeated)"}

/* What the command line says; everything else stays "not given". */
hf_subscription_options suboptions_read(const struct args *args);

/* Writes all fields but `from` into the open object. */
void suboptions_json(struct json_out *json, const hf_subscription_options *options);

/* Prints all fields but `from`, one per line. */
void suboptions_print(const hf_subscription_options *options);

#endif
