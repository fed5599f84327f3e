/*
 * setting.c - one value out of four places. See setting.h.
 *
 * A flag is the user's last word, the environment is the machine's, the file the project's. What is
 * in none of them has its default, also if the stored subscription says something else: the file
 * is meant to be the whole truth about its subscriptions, or deleting a line from it would do
 * nothing.
 *
 * Secrets: a url or a password may be in a file of its own. The password belongs to the url of the
 * configuration file; if a flag or the environment names another database, it is not sent there.
 */
#include "cli/config/setting.h"

#include "base/banned.h"
#include "cli/config/secret.h"
#include "cli/core/cli.h"
#include "cli/terminal/out.h"

#include <assert.h>

#define COMMAND_BYTES_MAX 524288

/* ---- Flags ----------------------------------------------------------------------------------- */

/* `--retries 3` is `--attempts-max 4` for people who do not count the first try. */
static bool by_retries(struct config *config, const struct args *args, const struct config_key *key,
                       struct config_setting *setting)
{
    char text[OUT_WORDS_BYTES];

    if (!key->field || strcmp(key->field->option, "attempts-max") != 0 ||
        !args_takes(args, "retries") || !args_given(args, "retries")) {
        return false;
    }
    setting->value =
        (struct arg_value){.row = key->row, .number = args_number(args, "retries", 0) + 1};
    out_number(setting->value.number, text);
    setting->value.text = arena_text(&config->arena, text_of(text)).bytes;
    setting->source = "retries";
    return true;
}

static bool by_flag(struct config *config, const struct args *args, const struct config_key *key,
                    struct config_setting *setting)
{
    bool has_flag = key->flag && args_takes(args, key->flag);
    const struct arg_value *value = has_flag ? args_value(args, key->flag) : NULL;

    setting->origin = CONFIG_BY_FLAG;
    setting->source = key->flag;
    if (!value) {
        return by_retries(config, args, key, setting);
    }
    setting->value = *value;
    if (value->row->kind == OPTION_FLAG) {
        struct arg_value on = {.row = key->row, .text = "on", .number = HF_ON};
        setting->value = on;
    }
    if (key->list) {
        size_t max = HF_PATTERNS_MAX + 1;
        const char **items = arena_alloc(&config->arena, max * sizeof items[0]);
        setting->item_count = items ? args_all(args, key->flag, items, max) : 0;
        setting->items = items;
    }
    return true;
}

/* ---- The order of the places ----------------------------------------------------------------- */

struct config_setting config_setting(struct config *config, const struct config_value *values,
                                     const struct args *args, enum config_scope scope, size_t index)
{
    struct config_key key = config_key_at(scope, index);
    const struct config_value *value = &values[index];
    const char *variable = key.variable ? getenv(key.variable) : NULL;
    struct config_setting setting = {.origin = CONFIG_BY_FLAG};

    if (by_flag(config, args, &key, &setting)) {
        return setting;
    }
    if (variable && variable[0]) {
        return (struct config_setting){.origin = CONFIG_BY_ENVIRONMENT,
                                       .source = key.variable,
                                       .value = {.row = key.row, .text = variable}};
    }
    if (value->place.line) {
        return (struct config_setting){.origin = CONFIG_BY_FILE,
                                       .line = value->place.line,
                                       .value = value->value,
                                       .items = value->items,
                                       .item_count = value->item_count,
                                       .is_list = value->is_list};
    }
    return (struct config_setting){.origin = CONFIG_BY_DEFAULT, .value = config_initial(&key)};
}

struct config_setting config_setting_of(struct config *config, const struct config_value *values,
                                        const struct args *args, enum config_scope scope,
                                        const char *path)
{
    return config_setting(config, values, args, scope, config_key_known(scope, path));
}

/* ---- Two files ------------------------------------------------------------------------------- */

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool is_same(const struct config_setting *a, const struct config_setting *b)
{
    bool same = is_same_text(a->value.text, b->value.text) && a->item_count == b->item_count &&
                a->is_list == b->is_list;

    for (size_t i = 0; i < a->item_count && same; i++) {
        same = is_same_text(a->items[i], b->items[i]);
    }
    return same;
}

bool config_differs(struct config *a, const struct config_value *values_a, struct config *b,
                    const struct config_value *values_b, const struct args *args,
                    enum config_scope scope, struct config_difference *ret_difference)
{
    for (size_t i = ret_difference->index; i < config_key_count(scope); i++) {
        struct config_setting before = config_setting(a, values_a, args, scope, i);
        struct config_setting after = config_setting(b, values_b, args, scope, i);
        if (!is_same(&before, &after)) {
            *ret_difference = (struct config_difference){i, config_key_at(scope, i), after};
            return true;
        }
    }
    return false;
}

/* ---- What is made of them -------------------------------------------------------------------- */

hf_subscription_options config_options(struct config *config,
                                       const struct config_entry *subscription,
                                       const struct args *args)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;

    for (size_t i = 0; i < config_key_count(CONFIG_SUBSCRIPTION); i++) {
        struct config_key key = config_key_at(CONFIG_SUBSCRIPTION, i);
        struct config_setting setting =
            config_setting(config, subscription->values, args, CONFIG_SUBSCRIPTION, i);

        /* What is none of the file's keys can still be a flag. */
        if (key.field && (key.path || setting.origin == CONFIG_BY_FLAG)) {
            suboptions_set(&options, key.field, &setting.value);
        }
    }
    options.from =
        config_setting_of(config, subscription->values, args, CONFIG_SUBSCRIPTION, "from")
            .value.place;
    return options;
}

const char *config_command(struct config *config, const struct config_setting *setting)
{
    struct buf command;
    const char *copy = NULL;

    if (!setting->is_list) {
        return setting->value.text;
    }
    buf_init(&command, COMMAND_BYTES_MAX);
    buf_append(&command, "exec", 4);
    for (size_t i = 0; i < setting->item_count; i++) {
        buf_char(&command, ' ');
        out_quote(&command, setting->items[i]);
    }
    if (buf_status(&command) == HF_OK) {
        copy = arena_text(&config->arena, buf_text(&command)).bytes;
    }
    buf_release(&command);
    return copy;
}

int config_url(struct config *config, const struct args *args, const char **ret_url)
{
    const struct config_value *values = config->database;
    struct config_setting url = config_setting_of(config, values, args, CONFIG_DATABASE, "url");
    struct config_setting url_file =
        config_setting_of(config, values, args, CONFIG_DATABASE, "url_file");
    struct config_setting password =
        config_setting_of(config, values, args, CONFIG_DATABASE, "password_file");
    const char *text = url.value.text;
    const char *secret = NULL;

    if (url.origin == CONFIG_BY_FLAG || url.origin == CONFIG_BY_ENVIRONMENT) {
        *ret_url = text;
        return EXIT_OK;
    }
    if (url_file.value.text) {
        text = config_secret_read(&config->arena, "database.url_file", url_file.value.text);
        if (!text) {
            return EXIT_USAGE;
        }
    }
    if (password.value.text) {
        secret = config_secret_read(&config->arena, "database.password_file", password.value.text);
        text = secret ? config_secret_add(&config->arena, text, secret) : NULL;
        if (!text) {
            return EXIT_USAGE;
        }
    }
    *ret_url = text;
    return EXIT_OK;
}
