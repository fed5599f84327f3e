/*
 * place.c - the database and the namespace: options, else the environment, else holdfast.yaml of
 * the current folder, else the defaults. See place.h.
 *
 * `work` without SUB is described by holdfast.yaml. A `publish` beside it that used another one
 * would publish into the void, so every command that opens a database takes these two from the same
 * file. Of the file only the section `database` is read here; mistakes in other sections are the
 * business of `work` and `config check`, but for a section whose name is unknown: it may be this
 * one, misspelt. A file that cannot be read is an error, and where an option or a variable names
 * something else than the file a line says so: nothing ends up in another database silently.
 */
#include "cli/config/place.h"

#include "base/banned.h"
#include "cli/config/setting.h"
#include "cli/core/args_value.h"
#include "cli/core/url.h"
#include "cli/terminal/out.h"

/* A script whose variable is not set must not end up in another database. */
static int refuse_empty(const struct args *args)
{
    static const char *const places[] = {"db", "namespace"};

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (args_given(args, places[i]) && !args_text(args, places[i])[0]) {
            return args_usage(args, "--%s is empty; leave it out for the default", places[i]);
        }
    }
    return EXIT_OK;
}

static const char *option_or_variable(const struct args *args, const char *option,
                                      const char *variable, const char *otherwise)
{
    const char *text = args_text(args, option);

    if (!text) {
        text = getenv(variable);
    }
    return text && text[0] ? text : otherwise;
}

/* Passwords are no difference: a command of `work` gets the url without them. */
static bool is_same_url(const char *a, const char *b)
{
    char *bare_a = url_without_secrets(a);
    char *bare_b = url_without_secrets(b);
    bool same = bare_a && bare_b && strcmp(bare_a, bare_b) == 0;

    free(bare_a);
    free(bare_b);
    return same;
}

/* Says that the file names something else than what is used; `is_url` hides passwords. */
static void say_difference(const struct config_value *value, const struct config_setting *setting,
                           bool is_url)
{
    char file[URL_SHOWN_BYTES];
    char used[URL_SHOWN_BYTES];
    const char *in_file = value->value.text;
    const char *text = setting->value.text;

    if (value->place.line == 0 || setting->origin == CONFIG_BY_FILE ||
        (is_url ? is_same_url(in_file, text) : strcmp(in_file, text) == 0)) {
        return;
    }
    out_say("%s:%d: not used: %s; %s%s is %s.", CONFIG_FILE_DEFAULT, value->place.line,
            is_url ? url_shown(in_file, file) : in_file,
            setting->origin == CONFIG_BY_FLAG ? "--" : "$", setting->source,
            is_url ? url_shown(text, used) : text);
}

static int place_by_file(struct cli *cli)
{
    static struct config config; /* its texts are used until the end of the process */
    const struct args *args = &cli->args;
    int code = config_open_database(&config, CONFIG_FILE_DEFAULT, cli->started_at_us);

    if (code) {
        return code;
    }
    struct config_setting url =
        config_setting_of(&config, config.database, args, CONFIG_DATABASE, "url");
    struct config_setting name =
        config_setting_of(&config, config.database, args, CONFIG_DATABASE, "namespace");
    const struct config_value *values = config.database;

    say_difference(&values[config_key_known(CONFIG_DATABASE, "url")], &url, true);
    say_difference(&values[config_key_known(CONFIG_DATABASE, "namespace")], &name, false);
    if (url.origin != CONFIG_BY_FLAG && url.origin != CONFIG_BY_ENVIRONMENT &&
        values[config_key_known(CONFIG_DATABASE, "url_file")].place.line) {
        url.origin = CONFIG_BY_FILE;
    }
    cli->url_is_configured = url.origin == CONFIG_BY_FILE;
    if (name.origin == CONFIG_BY_FILE) {
        cli->namespace_name = name.value.text;
    }
    return config_url(&config, args, &cli->url);
}

/* `work` and `serve` with --config FILE take them from that file. */
static bool names_its_file(const struct args *args)
{
    return args_takes(args, "config") && args_given(args, "config");
}

int config_place(struct cli *cli)
{
    const struct args *args = &cli->args;
    int code = refuse_empty(args);

    cli->url = option_or_variable(args, "db", "HOLDFAST_URL", "sqlite:holdfast.db");
    cli->namespace_name = option_or_variable(args, "namespace", "HOLDFAST_NAMESPACE", NULL);
    if (code || args->command->places_itself || names_its_file(args) ||
        access(CONFIG_FILE_DEFAULT, F_OK) != 0) {
        return code;
    }
    return place_by_file(cli);
}
