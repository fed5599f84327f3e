/*
 * args.c - reads a command line by the tables of the commands.
 *
 * One pass from left to right. Until the command is known, a word is (part of) its name and only
 * the options of every command are understood; from then on its own options are, too, and words
 * are collected. Values are checked by args_value.c while they are read, so the first mistake is
 * the one that is reported, with the nearest known name if there is one.
 */
#include "cli/core/args.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/text/suggest.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/terminal/out.h"

#include <assert.h>
#include <string.h>

const struct option_row args_global[] = {
    {"db", 0, OPTION_TEXT, "URL", NULL, 0, 0,
     "the database: sqlite:PATH, a path, or postgres://... (else $HOLDFAST_URL, else database.url "
     "of ./holdfast.yaml, else sqlite:holdfast.db)"},
    {"namespace", 0, OPTION_TEXT, "NAME", NULL, 0, 0,
     "the namespace (else $HOLDFAST_NAMESPACE, else that of ./holdfast.yaml, else default)"},
    OPTION_DB_TIMEOUT,
    {"json", 0, OPTION_FLAG, NULL, NULL, 0, 0, "print JSON, one object per line"},
    {"quiet", 'q', OPTION_FLAG, NULL, NULL, 0, 0, "print only errors on stderr"},
    {"wide", 0, OPTION_FLAG, NULL, NULL, 0, 0, "all of each table, however narrow the terminal is"},
    {"no-color", 0, OPTION_FLAG, NULL, NULL, 0, 0, "no colours (also $NO_COLOR)"},
    {"help", 'h', OPTION_FLAG, NULL, NULL, 0, 0, "show examples and options"},
    OPTION_END,
};

#define COMMANDS_MAX 128

/* What the parser knows while it walks. */
struct parser {
    struct args *args;
    int64_t now_us;
    bool ended; /* "--" was seen */
};

/* ---- Finding commands and rows --------------------------------------------------------------- */

bool command_is_group(const char *word)
{
    size_t length = strlen(word);

    for (size_t i = 0; commands[i]; i++) {
        if (strncmp(commands[i]->name, word, length) == 0 && commands[i]->name[length] == ' ') {
            return true;
        }
    }
    return false;
}

static const struct command *find_exact(const char *first, const char *second)
{
    size_t length = strlen(first);

    for (size_t i = 0; commands[i]; i++) {
        const char *name = commands[i]->name;
        if (strncmp(name, first, length) != 0) {
            continue;
        }
        if (!second && name[length] == '\0') {
            return commands[i];
        }
        if (second && name[length] == ' ' && strcmp(name + length + 1, second) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

const struct command *command_find(const char *const *words, size_t count, size_t *ret_used)
{
    const struct command *command = count >= 2 ? find_exact(words[0], words[1]) : NULL;

    if (command) {
        *ret_used = 2;
        return command;
    }
    command = count >= 1 ? find_exact(words[0], NULL) : NULL;
    if (command) {
        *ret_used = 1;
    }
    return command;
}

static const struct option_row *table_find(const struct option_row *table, const char *name,
                                           size_t length, char letter)
{
    for (; table && table->name; table++) {
        if (letter ? table->letter == letter
                   : strlen(table->name) == length && strncmp(table->name, name, length) == 0) {
            return table;
        }
    }
    return NULL;
}

static const struct option_row *row_find(const struct command *command, const char *name,
                                         size_t length, char letter)
{
    const struct option_row *row = table_find(args_global, name, length, letter);

    if (!row && command) {
        row = table_find(command->options, name, length, letter);
    }
    if (!row && command) {
        row = table_find(command->more, name, length, letter);
    }
    return row;
}

/* ---- Mistakes -------------------------------------------------------------------------------- */

static int bad_option(const struct args *args, const char *shown, const char *name)
{
    struct suggest suggest;
    const struct option_row *tables[3] = {args_global, NULL, NULL};

    if (args->command) {
        tables[1] = args->command->options;
        tables[2] = args->command->more;
    }
    suggest_init(&suggest, name);
    for (size_t i = 0; i < 3; i++) {
        for (const struct option_row *row = tables[i]; row && row->name; row++) {
            suggest_offer(&suggest, row->name);
        }
    }
    if (suggest.best) {
        return args_usage(args, "there is no option %s; did you mean --%s?", shown, suggest.best);
    }
    if (!args->command) {
        return args_usage(args, "there is no option %s before the command's name", shown);
    }
    return args_usage(args, "there is no option %s", shown);
}

/* Of a group its second words are near, else the first words of all commands. */
int args_no_command(const struct args *args, const char *group, const char *word)
{
    char firsts[COMMANDS_MAX][SUGGEST_WORD_BYTES_MAX]; /* which are no strings in the table */
    const char *before = group ? group : "";
    const char *space = group ? " " : "";
    struct suggest suggest;

    suggest_init(&suggest, word);
    for (size_t i = 0; commands[i] && i < COMMANDS_MAX; i++) {
        const char *name = commands[i]->name;
        size_t length = strcspn(name, " ");

        if (!group) {
            snprintf(firsts[i], sizeof firsts[i], "%.*s", (int)length, name);
            suggest_offer(&suggest, firsts[i]);
        } else if (strlen(group) == length && strncmp(name, group, length) == 0 && name[length]) {
            suggest_offer(&suggest, name + length + 1);
        }
    }
    if (suggest.other) {
        return args_usage(args, "there is no command '%s%s%s'; did you mean '%s%s%s' or '%s%s%s'?",
                          before, space, word, before, space, suggest.best, before, space,
                          suggest.other);
    }
    if (suggest.best) {
        return args_usage(args, "there is no command '%s%s%s'; did you mean '%s%s%s'?", before,
                          space, word, before, space, suggest.best);
    }
    return args_usage(args, "there is no command '%s%s%s'", before, space, word);
}

/* ---- Walking --------------------------------------------------------------------------------- */

static int add_value(struct parser *parser, const struct option_row *row, const char *text)
{
    struct args *args = parser->args;
    struct arg_value *value = &args->values[args->value_count];

    if (args->value_count == ARGS_VALUES_MAX) {
        return args_usage(args, "more than %d options", ARGS_VALUES_MAX);
    }
    *value = (struct arg_value){.row = row, .text = text, .place = {HF_PLACE_NONE, -1}};
    if (row->kind != OPTION_FLAG) {
        int code = args_value_read(args, value, parser->now_us);
        if (code) {
            return code;
        }
    }
    args->value_count++;
    return 0;
}

/* "--name", "--name value", "--name=value". *at moves past a value that is the next argument. */
static int read_long(struct parser *parser, int argc, char **argv, int *at)
{
    const char *name = argv[*at] + 2;
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    char shown[128];
    const struct option_row *row = row_find(parser->args->command, name, length, 0);

    snprintf(shown, sizeof shown, "--%.*s", length > 100 ? 100 : (int)length, name);
    if (!row) {
        return bad_option(parser->args, shown, shown + 2);
    }
    if (row->kind == OPTION_FLAG) {
        if (equals) {
            return args_usage(parser->args, "%s takes no value", shown);
        }
        return add_value(parser, row, NULL);
    }
    if (equals) {
        return add_value(parser, row, equals + 1);
    }
    if (*at + 1 >= argc) {
        return args_usage(parser->args, "%s needs a value: %s %s", shown, shown, row->argument);
    }
    return add_value(parser, row, argv[++*at]);
}

/* "-f", "-n 5", "-n5", "-fq". */
static int read_short(struct parser *parser, int argc, char **argv, int *at)
{
    for (const char *letter = argv[*at] + 1; *letter; letter++) {
        const struct option_row *row = row_find(parser->args->command, "", 0, *letter);
        char shown[3] = {'-', *letter, '\0'};
        int code;

        if (!row) {
            return bad_option(parser->args, shown, shown + 1);
        }
        if (row->kind == OPTION_FLAG) {
            code = add_value(parser, row, NULL);
            if (code) {
                return code;
            }
            continue;
        }
        if (letter[1]) {
            return add_value(parser, row, letter + 1);
        }
        if (*at + 1 >= argc) {
            return args_usage(parser->args, "%s needs a value: %s %s", shown, shown, row->argument);
        }
        return add_value(parser, row, argv[++*at]);
    }
    return 0;
}

static int read_word(struct args *args, const char *word)
{
    if (args->command) {
        if (args->word_count == ARGS_WORDS_MAX) {
            return args_usage(args, "more than %d words", ARGS_WORDS_MAX);
        }
        args->words[args->word_count++] = word;
        return 0;
    }
    if (args->group) {
        args->command = find_exact(args->group, word);
        return args->command ? 0 : args_no_command(args, args->group, word);
    }
    args->command = find_exact(word, NULL);
    if (args->command) {
        return 0;
    }
    if (!command_is_group(word)) {
        return args_no_command(args, NULL, word);
    }
    args->group = word;
    return 0;
}

/* Mistakes in the command line are messages, too, so this is known before the options are read. */
static void choose_messages(const struct command *command, int argc, char **argv)
{
    for (int at = 1; command && command->json_messages && at < argc; at++) {
        if (strcmp(argv[at], "--json") == 0) {
            out_json_messages();
        }
    }
}

int args_parse(struct args *args, int argc, char **argv, int64_t now_us)
{
    struct parser parser = {args, now_us, false};

    args->command = NULL;
    args->group = NULL;
    args->value_count = 0;
    args->word_count = 0;
    for (int at = 1; at < argc; at++) {
        const char *arg = argv[at];
        int code;

        if (!parser.ended && strcmp(arg, "--") == 0) {
            parser.ended = true;
            continue;
        }
        if (!parser.ended && !args->command && !args->group && strcmp(arg, "--version") == 0) {
            code = read_word(args, "version");
        } else if (!parser.ended && arg[0] == '-' && arg[1] == '-') {
            code = read_long(&parser, argc, argv, &at);
        } else if (!parser.ended && arg[0] == '-' && arg[1]) {
            code = read_short(&parser, argc, argv, &at);
        } else {
            code = read_word(args, arg);
            choose_messages(args->command, argc, argv);
        }
        if (code) {
            return code;
        }
    }
    return 0;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

const struct arg_value *args_value(const struct args *args, const char *name)
{
    assert(row_find(args->command, name, strlen(name), 0));
    for (size_t i = args->value_count; i > 0; i--) {
        if (strcmp(args->values[i - 1].row->name, name) == 0) {
            return &args->values[i - 1];
        }
    }
    return NULL;
}

bool args_takes(const struct args *args, const char *name)
{
    return row_find(args->command, name, strlen(name), 0) != NULL;
}

bool args_given(const struct args *args, const char *name)
{
    return args_value(args, name) != NULL;
}

const char *args_text(const struct args *args, const char *name)
{
    const struct arg_value *value = args_value(args, name);
    return value ? value->text : NULL;
}

int64_t args_number(const struct args *args, const char *name, int64_t otherwise)
{
    const struct arg_value *value = args_value(args, name);
    return value ? value->number : otherwise;
}

double args_decimal(const struct args *args, const char *name, double otherwise)
{
    const struct arg_value *value = args_value(args, name);
    return value ? value->decimal : otherwise;
}

bool args_place(const struct args *args, const char *name, hf_place *ret_place)
{
    const struct arg_value *value = args_value(args, name);

    if (!value) {
        return false;
    }
    *ret_place = value->place;
    return true;
}

size_t args_all(const struct args *args, const char *name, const char **ret_texts, size_t max)
{
    size_t count = 0;

    for (size_t i = 0; i < args->value_count && count < max; i++) {
        if (strcmp(args->values[i].row->name, name) == 0) {
            ret_texts[count++] = args->values[i].text;
        }
    }
    return count;
}
