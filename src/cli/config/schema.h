/*
 * schema.h - the keys of a configuration file: one table for parser, help, docs and sample.
 *
 *     database:                 CONFIG_DATABASE
 *       url: ...
 *     subscriptions:            CONFIG_SUBSCRIPTION, for each member of the list
 *       - name: ...
 *         retry:
 *           base: ...           path "retry.base"
 *     schedules:                CONFIG_SCHEDULE, for each member of the list
 *     retention:                CONFIG_RETENTION
 *     serve:                    CONFIG_SERVE, for `serve` alone
 *
 * The keys of a subscription are, but for a few, the options of a subscription (suboptions.h): an
 * option that is added there is a key here.
 */
#ifndef HF_CLI_CONFIG_SCHEMA_H
#define HF_CLI_CONFIG_SCHEMA_H

#include "base/text/buf.h"
#include "cli/config/suboptions.h"

#define CONFIG_KEYS_MAX (SUBOPTIONS_MAX + 24) /* of one scope */
#define CONFIG_PATH_BYTES 128                 /* of a path with its NUL */

enum config_scope {
    CONFIG_DATABASE,
    CONFIG_SUBSCRIPTION,
    CONFIG_SCHEDULE,
    CONFIG_RETENTION,
    CONFIG_SERVE
};

/* What a text must be beyond being a text. */
enum config_text {
    CONFIG_TEXT_ANY,
    CONFIG_TEXT_SUBSCRIPTION, /* a subscription's name */
    CONFIG_TEXT_NAMESPACE,
    CONFIG_TEXT_NODE,
    CONFIG_TEXT_PATTERN,
    CONFIG_TEXT_PARTITIONS, /* 3,5-7 */
    CONFIG_TEXT_FILE,
    CONFIG_TEXT_SCHEDULE, /* a schedule's name */
    CONFIG_TEXT_CRON,
    CONFIG_TEXT_ZONE,
    CONFIG_TEXT_TYPE,
    CONFIG_TEXT_JSON,
    CONFIG_TEXT_OBJECT, /* JSON, an object */
    CONFIG_TEXT_COMMAND,
    CONFIG_TEXT_URL, /* of a webhook */
    CONFIG_TEXT_NETWORK,
    CONFIG_TEXT_LISTEN, /* 127.0.0.1:7070, [::1]:7070, unix:PATH */
    CONFIG_TEXT_HOST    /* the name of a host, without a port */
};

struct config_key {
    const char *path;              /* in its scope */
    const struct option_row *row;  /* kind, limits, choices, help */
    const char *initial;           /* the default as one would write it; NULL: there is none */
    const char *flag;              /* of `work` or `serve`, wins over the file; NULL: none */
    const char *variable;          /* of the environment, wins over the file; NULL: none */
    const struct suboption *field; /* where it is stored; NULL: not in the options */
    enum config_text text;
    bool required;
    bool list; /* a list of texts, or one text */
};

/* How many indexes a scope has, and the key of one. Its path is NULL if the index stands for an
 * option that is none of the file. */
size_t config_key_count(enum config_scope scope);
struct config_key config_key_at(enum config_scope scope, size_t index);

/* The index of a path; false if there is none. For config_key_known there is one (asserted). */
bool config_key_find(enum config_scope scope, const char *path, size_t *ret_index);
size_t config_key_known(enum config_scope scope, const char *path);

/* True for "retry" if there is "retry.base". */
bool config_is_section(enum config_scope scope, const char *path);

/* The words that may follow `prefix` ("" or "retry."), the nth of them; false when there are no
 * more. */
bool config_word_at(enum config_scope scope, const char *prefix, size_t nth,
                    char ret_word[CONFIG_PATH_BYTES]);

/* Why a path that people may well try is not allowed; NULL: no special reason. */
const char *config_refusal(enum config_scope scope, const char *path);

/* A section may be one word that stands for one of its keys: `checkpoint: each`. The nth way of
 * the section; false when there are no more. */
struct config_short {
    const char *section;
    const char *word;
    const char *path;
    const char *value;
};
bool config_short_at(const char *section, size_t nth, struct config_short *ret_short);

/* The default of a key, read by its row; text NULL: it has none. */
struct arg_value config_initial(const struct config_key *key);

/* What a key takes, in words: "a whole number from 1 to 100". */
void config_key_takes(const struct config_key *key, char *ret_form, size_t bytes);

#endif
