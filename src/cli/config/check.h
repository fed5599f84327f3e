/*
 * check.h - what one text must be, and what values must be together.
 */
#ifndef HF_CLI_CONFIG_CHECK_H
#define HF_CLI_CONFIG_CHECK_H

#include "cli/config/config.h"

/* A text by its key, beyond its row. `shown` is the path for the message. */
void config_check_text(const struct config_key *key, const char *text, const char *shown,
                       struct config_place place, struct config_problems *problems);

/* Values that are each right and do not fit. */
void config_check_database(const struct config *config, struct config_problems *problems);
void config_check_serve(const struct config *config, struct config_problems *problems);
/* The last entry so far of the list `key`, by itself and beside those before it. */
void config_check_entry(struct config_entry *const *entries, size_t index, const char *key,
                        enum config_scope scope, struct config_problems *problems);
void config_check_all(const struct config *config, struct config_problems *problems);

/* Whether a command says nothing, which the shell would run with success. */
bool config_blank(const char *command);

#endif
