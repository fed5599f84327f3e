/*
 * config.h - a configuration file that was read and checked: values with their places.
 *
 * config_read turns bytes into a struct config or into a list of everything that is wrong with
 * them; nothing half right comes out. What a value means together with the command line and the
 * environment is setting.h.
 */
#ifndef HF_CLI_CONFIG_CONFIG_H
#define HF_CLI_CONFIG_CONFIG_H

#include "base/arena.h"
#include "cli/config/problem.h"
#include "cli/config/schema.h"

#define CONFIG_FILE_DEFAULT "holdfast.yaml"
#define CONFIG_SUBSCRIPTIONS_MAX 64
#define CONFIG_SCHEDULES_MAX 256

struct config_value {
    struct config_place place; /* line 0: not given */
    struct arg_value value;    /* read by the key's row; text in the arena */
    const char *const *items;  /* of a key that may be a list: its texts, else NULL */
    size_t item_count;
    bool is_list; /* written as a list */
};

/* A member of a list: a subscription or a schedule. */
struct config_entry {
    struct config_place place;
    const char *name;
    struct config_value values[CONFIG_KEYS_MAX]; /* by the index of the key */
};

struct config {
    struct arena arena; /* owns all texts */
    struct config_value database[CONFIG_KEYS_MAX];
    struct config_entry *subscriptions[CONFIG_SUBSCRIPTIONS_MAX];
    size_t subscription_count;
    struct config_entry *schedules[CONFIG_SCHEDULES_MAX];
    size_t schedule_count;
    struct config_value retention[CONFIG_KEYS_MAX];
    struct config_value serve[CONFIG_KEYS_MAX];
};

/* `now_us` is what a place given as a duration counts back from. False: there are problems, and
 * nothing to release. */
bool config_read(struct config *ret_config, struct text bytes, int64_t now_us,
                 struct config_problems *problems);
void config_release(struct config *config);

/* Reads a file and tells its problems. It has subscriptions, or a section `serve`. 0, or the exit
 * code. */
int config_open(struct config *ret_config, const char *file, int64_t now_us);
/* The same, and answers the problems, too; none if the file cannot be read. */
int config_open_judged(struct config *ret_config, const char *file, int64_t now_us,
                       struct config_problems *ret_problems);
/* The same for the section `database` alone: the others are not read, and not judged, but by their
 * names. */
int config_open_database(struct config *ret_config, const char *file, int64_t now_us);
/* The same for all of it, which may have no subscriptions. */
int config_open_serve(struct config *ret_config, const char *file, int64_t now_us);

#endif
