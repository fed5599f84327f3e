/*
 * config_show.c - the commands `config check`, `config show` and `config keys`.
 *
 * `config show` takes the words and options of `work` and `serve`: put `config show` where that
 * stood and see what it would do, and on whose word. `config keys` prints the table that the parser
 * reads by; the documentation is compared with it by a test.
 */
#include "base/banned.h"
#include "cli/config/serve_options.h"
#include "cli/config/setting.h"
#include "cli/config/webhook_options.h"
#include "cli/config/work_options.h"
#include "cli/core/args_value.h"
#include "cli/core/commands.h"
#include "cli/core/help.h"
#include "cli/core/url.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/table.h"
#include "cli/webhook/webhook.h"
#include "cli/work/work.h"

#define VALUE_BYTES_MAX 1048576
#define ORIGIN_BYTES 512
#define KEY_INDENT 4

/* ---- check ----------------------------------------------------------------------------------- */

/* What was looked at and what is wrong with it. `config` NULL: it has mistakes, so what it would
 * make is not known. */
static void check_json(const char *file, const struct config *config,
                       const struct config_problems *problems)
{
    size_t kept = problems->count < CONFIG_PROBLEMS_MAX ? problems->count : CONFIG_PROBLEMS_MAX;
    struct show_line line;
    struct json_out *json = show_line_begin(&line);

    show_string(json, "file", file);
    show_int(json, "subscriptions", config ? (int64_t)config->subscription_count : -1);
    show_int(json, "schedules", config ? (int64_t)config->schedule_count : -1);
    json_key(json, "problems");
    json_array_begin(json);
    for (size_t i = 0; i < kept; i++) {
        const struct config_problem *problem = &problems->kept[i];
        json_object_begin(json);
        show_int(json, "line", problem->place.line);
        show_int(json, "column", problem->place.column);
        show_string(json, "message", problem->text);
        json_object_end(json);
    }
    json_array_end(json);
    show_int(json, "problems_more", (int64_t)(problems->count - kept));
    show_line_end(&line);
}

static int run_check(struct cli *cli)
{
    static struct config config;
    static struct config_problems problems;
    const char *file = cli->args.word_count ? cli->args.words[0] : CONFIG_FILE_DEFAULT;
    int code = config_open_judged(&config, file, cli->started_at_us, &problems);

    file = strcmp(file, "-") == 0 ? "stdin" : file;
    if (cli->json && (!code || problems.count > 0)) {
        check_json(file, code ? NULL : &config, &problems);
    }
    if (code) {
        return code;
    }
    out_say("%s is good: %zu subscription%s, %zu schedule%s.", file, config.subscription_count,
            config.subscription_count == 1 ? "" : "s", config.schedule_count,
            config.schedule_count == 1 ? "" : "s");
    config_release(&config);
    return EXIT_OK;
}

const struct command command_config_check = {
    .name = "config check",
    .json_messages = true,
    .usage = "[FILE]",
    .summary = "lists all mistakes of a configuration file",
    .examples = "  holdfast config check\n"
                "  holdfast config check shop.yaml\n"
                "  generate-config | holdfast config check -\n",
    .details = "Without FILE: holdfast.yaml; - is stdin. Exit status 0: it has no mistakes.\n"
               "The database is not opened and secrets are not read. With --json it prints an\n"
               "object that has the mistakes as a list.\n",
    .words_max = 1,
    .places_itself = true,
    .run = run_check,
};

/* ---- show ------------------------------------------------------------------------------------ */

struct show {
    struct cli *cli;
    struct config config;
    const char *file;
    bool origin;
    struct out_table table;
    struct buf text; /* of one value */
    struct buf key;  /* and of its key */
};

/* Whose settings they are. */
struct owner {
    const char *section;      /* "subscriptions" */
    const char *subscription; /* NULL: it is none */
    const char *schedule;     /* NULL: it is none */
    enum config_scope scope;
    const struct config_value *values;
};

static void key_text(const struct owner *owner, const struct config_key *key, struct buf *ret_text)
{
    const char *name = owner->subscription ? owner->subscription : owner->schedule;

    buf_clear(ret_text);
    buf_printf(ret_text, "%s%s%s.%s", owner->section, name ? "." : "", name ? name : "", key->path);
}

static const char *origin_word(enum config_origin origin)
{
    switch (origin) {
    case CONFIG_BY_DEFAULT:
        return "default";
    case CONFIG_BY_FILE:
        return "file";
    case CONFIG_BY_ENVIRONMENT:
        return "environment";
    case CONFIG_BY_FLAG:
        return "flag";
    }
    return "default";
}

static void origin_text(const struct show *show, const struct config_setting *setting,
                        char ret_text[ORIGIN_BYTES])
{
    switch (setting->origin) {
    case CONFIG_BY_DEFAULT:
        snprintf(ret_text, ORIGIN_BYTES, "default");
        return;
    case CONFIG_BY_FILE:
        snprintf(ret_text, ORIGIN_BYTES, "%s:%d", show->file, setting->line);
        return;
    case CONFIG_BY_ENVIRONMENT:
        snprintf(ret_text, ORIGIN_BYTES, "environment %s", setting->source);
        return;
    case CONFIG_BY_FLAG:
        snprintf(ret_text, ORIGIN_BYTES, "flag --%s", setting->source);
        return;
    }
}

/* The value in one line; NULL: there is none. */
static const char *value_text(struct show *show, const struct config_setting *setting, bool is_url)
{
    char shown[URL_SHOWN_BYTES];

    buf_clear(&show->text);
    if (!setting->value.text) {
        return NULL;
    }
    if (is_url) {
        buf_printf(&show->text, "%s", url_shown(setting->value.text, shown));
    } else if (setting->value.row && strcmp(setting->value.row->name, "http") == 0) {
        buf_printf(&show->text, "%s", webhook_url_shown(setting->value.text, shown, sizeof shown));
    } else if (setting->item_count > 1 || setting->is_list) {
        for (size_t i = 0; i < setting->item_count; i++) {
            buf_printf(&show->text, "%s%s", i ? " " : "", setting->items[i]);
        }
    } else {
        buf_append(&show->text, setting->value.text, strlen(setting->value.text));
    }
    return buf_terminate(&show->text);
}

static void show_setting(struct show *show, const struct owner *owner, const struct config_key *key,
                         const struct config_setting *setting)
{
    bool is_url = owner->scope == CONFIG_DATABASE && strcmp(key->path, "url") == 0;
    const char *value = value_text(show, setting, is_url);
    char origin[ORIGIN_BYTES];
    struct show_line line;
    struct json_out *json;

    key_text(owner, key, &show->key);
    if (!show->cli->json) {
        out_table_cell(&show->table, buf_terminate(&show->key));
        out_table_cell(&show->table, value);
        origin_text(show, setting, origin);
        if (show->origin) {
            out_table_cell(&show->table, origin);
        }
        return;
    }
    json = show_line_begin(&line);
    show_string(json, "key", buf_terminate(&show->key));
    show_string(json, "subscription", owner->subscription);
    if (owner->schedule) {
        show_string(json, "schedule", owner->schedule);
    }
    show_string(json, "path", key->path);
    show_string(json, "value", value);
    if (show->origin) {
        show_string(json, "origin", origin_word(setting->origin));
        show_string(json, "file", setting->origin == CONFIG_BY_FILE ? show->file : NULL);
        show_int(json, "line", setting->origin == CONFIG_BY_FILE ? setting->line : -1);
        show_string(json, "source", setting->source);
    }
    show_line_end(&line);
}

static void show_owner(struct show *show, const struct owner *owner)
{
    const struct args *args = &show->cli->args;
    const struct config_value *url_file =
        &show->config.database[config_key_known(CONFIG_DATABASE, "url_file")];

    for (size_t i = 0; i < config_key_count(owner->scope); i++) {
        struct config_key key = config_key_at(owner->scope, i);
        struct config_setting setting =
            config_setting(&show->config, owner->values, args, owner->scope, i);

        if (!key.path) {
            continue;
        }
        /* The url is in a file that is not opened here, so it has no default either. */
        if (owner->scope == CONFIG_DATABASE && strcmp(key.path, "url") == 0 &&
            setting.origin == CONFIG_BY_DEFAULT && url_file->place.line) {
            setting =
                (struct config_setting){.origin = CONFIG_BY_FILE, .line = url_file->place.line};
        }
        show_setting(show, owner, &key, &setting);
    }
}

static int show_all(struct show *show)
{
    static const struct out_column columns[] = {
        {"key", false, 60, 0}, {"value", false, 100, 0}, {"origin", false, 60, 0}};
    const struct config *config = &show->config;
    struct config_entry *chosen[CONFIG_SUBSCRIPTIONS_MAX] = {NULL};
    size_t count = 0;

    if (show->file && !work_select(&show->cli->args, &show->config, show->file, chosen, &count)) {
        return EXIT_USAGE;
    }
    buf_init(&show->text, VALUE_BYTES_MAX);
    buf_init(&show->key, VALUE_BYTES_MAX);
    out_table_init(&show->table, columns, show->origin ? 3 : 2);
    show_owner(show, &(struct owner){"database", NULL, NULL, CONFIG_DATABASE, config->database});
    for (size_t i = 0; i < count; i++) {
        show_owner(show, &(struct owner){"subscriptions", chosen[i]->name, NULL,
                                         CONFIG_SUBSCRIPTION, chosen[i]->values});
    }
    for (size_t i = 0; i < config->schedule_count; i++) {
        show_owner(show, &(struct owner){"schedules", NULL, config->schedules[i]->name,
                                         CONFIG_SCHEDULE, config->schedules[i]->values});
    }
    if (show->file) {
        show_owner(show,
                   &(struct owner){"retention", NULL, NULL, CONFIG_RETENTION, config->retention});
    }
    show_owner(show, &(struct owner){"serve", NULL, NULL, CONFIG_SERVE, config->serve});
    out_table_end(&show->table);
    buf_release(&show->text);
    buf_release(&show->key);
    return EXIT_OK;
}

static int run_show(struct cli *cli)
{
    static struct show show; /* too large for a stack */
    const char *file = work_config_file(&cli->args);
    int code = suboptions_check(&cli->args);

    if (code) {
        return code;
    }
    show.cli = cli;
    show.file = file || cli->args.word_count > 0 ? (file ? file : CONFIG_FILE_DEFAULT) : NULL;
    show.origin = args_given(&cli->args, "origin");
    code = show.file ? config_open_serve(&show.config, show.file, cli->started_at_us) : EXIT_OK;
    if (code) {
        return code;
    }
    code = show_all(&show);
    config_release(&show.config);
    return code;
}

static const struct option_row show_options[] = {
    {"origin", 0, OPTION_FLAG, NULL, NULL, 0, 0,
     "also show where each is set: a flag, the environment, a line of the file, or the default"},
    WORK_OPTION_CONFIG,
    WORK_OPTION_EXEC,
    WORK_OPTION_OUTPUT,
    WEBHOOK_OPTIONS,
    SUBOPTIONS_PATTERNS,
    WORK_OPTION_PARTITION,
    WORK_OPTION_TOTAL,
    WORK_OPTION_DRAIN,
    WORK_OPTIONS_NODE,
    SERVE_OPTIONS,
    OPTION_END,
};

const struct command command_config_show = {
    .name = "config show",
    .usage = "[SUB ...]",
    .summary = "shows the settings that `work` and `serve` would use",
    .examples = "  holdfast config show --origin\n"
                "  holdfast config show mailer --config shop.yaml --concurrency 4 --origin\n",
    .details = "It takes the words and options of `work` and of `serve`. Passwords are shown as\n"
               "***; files with secrets are not opened. Without a file it shows the database and\n"
               "the server. Url and namespace are those of every command that is run in this\n"
               "folder.\n",
    .options = show_options,
    .more = suboptions_rows,
    .words_max = CONFIG_SUBSCRIPTIONS_MAX,
    .places_itself = true,
    .run = run_show,
};

/* ---- keys ------------------------------------------------------------------------------------ */

static void key_json(const struct config_key *key, const char *path, const char *form)
{
    struct show_line line;
    struct json_out *json = show_line_begin(&line);

    show_string(json, "key", path);
    show_string(json, "takes", form);
    show_string(json, "default", key->initial);
    show_bool(json, "required", key->required);
    show_string(json, "flag", key->flag);
    show_string(json, "environment", key->variable);
    show_string(json, "help", key->row->help);
    show_line_end(&line);
}

static void list_keys(enum config_scope scope, const char *prefix, bool json)
{
    for (size_t i = 0; i < config_key_count(scope); i++) {
        struct config_key key = config_key_at(scope, i);
        const char *initial = key.required ? "required" : key.initial ? key.initial : "none";
        char path[CONFIG_PATH_BYTES + 32];
        char form[192];
        const char *what = form;

        if (!key.path) {
            continue;
        }
        snprintf(path, sizeof path, "%s%s", prefix, key.path);
        config_key_takes(&key, form, sizeof form);
        if (strncmp(form, "takes ", 6) == 0) {
            what = form + 6;
        } else if (strncmp(form, "is ", 3) == 0) {
            what = form + 3;
        }
        if (json) {
            key_json(&key, path, what);
        } else {
            printf("%s%s%s (%s)\n%*s", out_on(OUT_BOLD), path, out_off(), initial, KEY_INDENT, "");
            help_text(stdout, key.row->help, KEY_INDENT);
            printf("%*s", KEY_INDENT, "");
            help_text(stdout, what, KEY_INDENT);
        }
    }
}

static int run_keys(struct cli *cli)
{
    list_keys(CONFIG_DATABASE, "database.", cli->json);
    list_keys(CONFIG_SUBSCRIPTION, "subscriptions[].", cli->json);
    list_keys(CONFIG_SCHEDULE, "schedules[].", cli->json);
    list_keys(CONFIG_RETENTION, "retention.", cli->json);
    list_keys(CONFIG_SERVE, "serve.", cli->json);
    return EXIT_OK;
}

const struct command command_config_keys = {
    .name = "config keys",
    .usage = "",
    .summary = "lists the keys that a configuration file may have",
    .examples = "  holdfast config keys\n"
                "  holdfast config keys --json\n",
    .places_itself = true,
    .run = run_keys,
};
