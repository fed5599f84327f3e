/*
 * help.c - prints the tables for people.
 *
 * The help of a command leads with examples: a user who asks for help wants to see the line to
 * type. Nothing here knows a command or an option by name.
 */
#include "cli/core/help.h"

#include "base/banned.h"
#include "base/text/json_write.h"
#include "cli/core/cli.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"

#define HELP_COLUMN 26 /* where the texts of options begin */
#define HELP_WIDTH 80

/* The title of the section that begins with this command, if one does. */
static void print_section(FILE *to, const struct command *command)
{
    for (const struct command_section *section = command_sections; section->title; section++) {
        if (section->first == command) {
            fprintf(to, "\nCommands %s:\n", section->title);
        }
    }
}

void help_overview(FILE *to)
{
    fputs("Holdfast, a durable event bus.\n\n"
          "Examples:\n"
          "  holdfast demo\n"
          "  holdfast publish user.created '{\"id\": 1}' --key user-1\n"
          "  holdfast tail --from start\n"
          "  holdfast work mailer --on 'user.*' --from start --exec './send-mail'\n"
          "  holdfast sub show mailer\n"
          "  holdfast dlq list --group-by error\n",
          to);
    for (size_t i = 0; commands[i]; i++) {
        print_section(to, commands[i]);
        fprintf(to, "  %-17s %s\n", commands[i]->name, commands[i]->summary);
    }
    fputs("\nThe database is --db URL, else $HOLDFAST_URL, else that of ./holdfast.yaml, else\n"
          "sqlite:holdfast.db; `holdfast config show --origin` says which, and why.\n"
          "'holdfast help COMMAND' shows the examples and options of a command.\n",
          to);
}

void help_group(FILE *to, const char *group)
{
    size_t length = strlen(group);

    fprintf(to, "Commands of 'holdfast %s':\n", group);
    for (size_t i = 0; commands[i]; i++) {
        if (strncmp(commands[i]->name, group, length) == 0 && commands[i]->name[length] == ' ') {
            fprintf(to, "  %-17s %s\n", commands[i]->name, commands[i]->summary);
        }
    }
    fprintf(to, "\n'holdfast help %s COMMAND' shows the examples and options of one.\n", group);
}

void help_text(FILE *to, const char *text, size_t from)
{
    size_t column = from;

    while (*text) {
        size_t length = strcspn(text, " ");
        if (column + 1 + length > HELP_WIDTH) {
            fprintf(to, "\n%*s", (int)from, "");
            column = from;
        } else if (column > from) {
            putc(' ', to);
            column++;
        }
        fprintf(to, "%.*s", (int)length, text);
        column += length;
        text += length + (text[length] == ' ');
    }
    putc('\n', to);
}

static void print_options(FILE *to, const struct option_row *row)
{
    for (; row && row->name; row++) {
        const char letter[] = {'-', row->letter, ',', ' ', '\0'};
        const char *value = row->choices ? row->choices : row->argument;
        char left[128];
        int length = snprintf(left, sizeof left, "  %s--%s%s%s", row->letter ? letter : "",
                              row->name, value ? " " : "", value ? value : "");

        if (length + 2 > HELP_COLUMN) {
            fprintf(to, "%s\n%*s", left, HELP_COLUMN, "");
        } else {
            fprintf(to, "%-*s", HELP_COLUMN, left);
        }
        help_text(to, row->help, HELP_COLUMN);
    }
}

void help_command(FILE *to, const struct command *command)
{
    char title[256];

    snprintf(title, sizeof title, "holdfast %s: %s.", command->name, command->summary);
    help_text(to, title, 0);
    fprintf(to, "\nExamples:\n%s\n", command->examples);
    fprintf(to, "Usage: holdfast %s%s%s [options]\n", command->name, command->usage[0] ? " " : "",
            command->usage);
    if (command->details) {
        fprintf(to, "\n%s", command->details);
    }
    if (command->options || command->more) {
        fputs("\nOptions:\n", to);
        print_options(to, command->options);
        print_options(to, command->more);
    }
    fputs("\nOptions of every command:\n", to);
    print_options(to, args_global);
}

static void options_json(struct json_out *json, const struct option_row *row)
{
    for (; row && row->name; row++) {
        const char letter[] = {row->letter, '\0'};

        json_object_begin(json);
        show_string(json, "name", row->name);
        show_string(json, "letter", row->letter ? letter : NULL);
        show_string(json, "value", row->choices ? row->choices : row->argument);
        show_string(json, "help", row->help);
        json_object_end(json);
    }
}

/* A command as an object, with its options but those of every command. */
static void command_json(const struct command *command)
{
    struct show_line line;
    struct json_out *json = show_line_begin(&line);

    show_string(json, "name", command->name);
    show_string(json, "usage", command->usage);
    show_string(json, "summary", command->summary);
    show_string(json, "examples", command->examples);
    show_string(json, "details", command->details);
    json_key(json, "options");
    json_array_begin(json);
    options_json(json, command->options);
    options_json(json, command->more);
    json_array_end(json);
    show_line_end(&line);
}

/* Those whose names begin with `prefix`, and a space behind it if it is not "". */
static void commands_json(const char *prefix)
{
    size_t length = strlen(prefix);

    for (size_t i = 0; commands[i]; i++) {
        if (strncmp(commands[i]->name, prefix, length) == 0 &&
            (length == 0 || commands[i]->name[length] == ' ')) {
            command_json(commands[i]);
        }
    }
}

/* The help of a command, of a group, or of all, for people or as objects. */
static void print_help(const struct cli *cli, const struct command *command, const char *group)
{
    if (command && cli->json) {
        command_json(command);
    } else if (command) {
        help_command(stdout, command);
    } else if (cli->json) {
        commands_json(group ? group : "");
    } else if (group) {
        help_group(stdout, group);
    } else {
        help_overview(stdout);
    }
}

static int run_help(struct cli *cli)
{
    const struct args *args = &cli->args;
    const char *group = args->word_count > 0 ? args->words[0] : NULL;
    size_t used = 0;
    const struct command *command = NULL;

    if (group) {
        command = command_find(args->words, args->word_count, &used);
    }
    if (!group || (command && used == args->word_count) ||
        (args->word_count == 1 && command_is_group(group))) {
        print_help(cli, command, group);
        return EXIT_OK;
    }
    return args_no_command(args, args->word_count > 1 ? args->words[0] : NULL,
                           args->words[args->word_count - 1]);
}

const struct command command_help = {
    .name = "help",
    .usage = "[COMMAND]",
    .summary = "shows all commands, or the examples and options of one",
    .examples = "  holdfast help\n"
                "  holdfast help dlq retry\n",
    .words_max = 2,
    .places_itself = true,
    .run = run_help,
};
