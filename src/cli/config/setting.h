/*
 * setting.h - what counts: flag over environment over file over default.
 *
 * `work` acts on these settings and `config show` prints them, so what is shown is what is done.
 */
#ifndef HF_CLI_CONFIG_SETTING_H
#define HF_CLI_CONFIG_SETTING_H

#include "cli/config/config.h"

enum config_origin { CONFIG_BY_DEFAULT, CONFIG_BY_FILE, CONFIG_BY_ENVIRONMENT, CONFIG_BY_FLAG };

struct config_setting {
    enum config_origin origin;
    int line;                 /* CONFIG_BY_FILE */
    const char *source;       /* CONFIG_BY_FLAG: "db"; CONFIG_BY_ENVIRONMENT: "HOLDFAST_URL" */
    struct arg_value value;   /* text NULL: there is none */
    const char *const *items; /* of a key that may be a list */
    size_t item_count;
    bool is_list; /* written as a list */
};

/* Of the key `index`; `values` are those of its scope in the file. Texts live as long as the
 * config, the command line and the environment. */
struct config_setting config_setting(struct config *config, const struct config_value *values,
                                     const struct args *args, enum config_scope scope,
                                     size_t index);

/* The same by the path of a key that exists (asserted). */
struct config_setting config_setting_of(struct config *config, const struct config_value *values,
                                        const struct args *args, enum config_scope scope,
                                        const char *path);

/* The first key of a scope, from ret_difference->index on, that has another value in `b` than in
 * `a`; false: none. What the command line and the environment say is the same in both. */
struct config_difference {
    size_t index;
    struct config_key key;
    struct config_setting setting; /* in `b` */
};
bool config_differs(struct config *a, const struct config_value *values_a, struct config *b,
                    const struct config_value *values_b, const struct args *args,
                    enum config_scope scope, struct config_difference *ret_difference);

/* The options of a subscription, complete: what is given nowhere is at its default. */
hf_subscription_options config_options(struct config *config,
                                       const struct config_entry *subscription,
                                       const struct args *args);

/* The command of a subscription for the shell. A list is quoted, so that its members reach the
 * program as they are. NULL: no memory. */
const char *config_command(struct config *config, const struct config_setting *setting);

/* The url of the database with the secrets that belong to it. 0, or the exit code after the
 * complaint. */
int config_url(struct config *config, const struct args *args, const char **ret_url);

#endif
