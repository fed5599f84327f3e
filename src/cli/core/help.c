/*
 * help.c - prints the tables for people.
 *
 * The help of a command leads with examples: a user who asks for help wants to see the line to
 * type. Nothing here knows a command or an option by name.
 */
#include "cli/core/help.h"

#include "base/banned.h"
#include "cli/core/cli.h"

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

/* Text from this column on, broken between words. */
static void print_wrapped(FILE *to, const char *text, size_t from)
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
        print_wrapped(to, row->help, HELP_COLUMN);
    }
}

void help_command(FILE *to, const struct command *command)
{
    char title[256];

    snprintf(title, sizeof title, "holdfast %s: %s.", command->name, command->summary);
    print_wrapped(to, title, 0);
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

static int run_help(struct cli *cli)
{
    const struct args *args = &cli->args;
    size_t used;
    const struct command *command;

    if (args->word_count == 0) {
        help_overview(stdout);
        return EXIT_OK;
    }
    command = command_find(args->words, args->word_count, &used);
    if (command && used == args->word_count) {
        help_command(stdout, command);
        return EXIT_OK;
    }
    if (args->word_count == 1 && command_is_group(args->words[0])) {
        help_group(stdout, args->words[0]);
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
