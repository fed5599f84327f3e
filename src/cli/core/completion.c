/*
 * completion.c - completion scripts for bash, zsh and fish, made from the tables.
 *
 * All three do the same: walk the words before the cursor, skip the values of options, and so find
 * the command; then offer its options, or the words that may follow. Values are completed when they
 * are choices or names; files otherwise. Names of subscriptions, schedules and namespaces are asked
 * of the database (`holdfast names`), the one that the line names so far. Nothing here knows a
 * command by name, but that one.
 */
#include "base/banned.h"
#include "cli/core/args.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"

#define NAMES_MAX 256

/* Options whose values are names, and of what. */
static const char *const named_values[][2] = {
    {"namespace", "namespaces"},
    {"subscription", "subscriptions"},
};

/* What the values of an option name; NULL: nothing. */
static const char *names_of(const struct option_row *row)
{
    for (size_t i = 0; i < sizeof named_values / sizeof named_values[0]; i++) {
        if (strcmp(row->name, named_values[i][0]) == 0) {
            return named_values[i][1];
        }
    }
    return NULL;
}

/* Calls back for every option of every command; the same name may come several times. */
static void each_row(void (*visit)(const struct option_row *row, void *ctx), void *ctx)
{
    for (const struct option_row *row = args_global; row->name; row++) {
        visit(row, ctx);
    }
    for (size_t i = 0; commands[i]; i++) {
        const struct option_row *tables[2] = {commands[i]->options, commands[i]->more};
        for (size_t t = 0; t < 2; t++) {
            for (const struct option_row *row = tables[t]; row && row->name; row++) {
                visit(row, ctx);
            }
        }
    }
}

/* Names that were printed already. */
struct seen {
    const char *names[NAMES_MAX];
    size_t count;
};

static bool seen_before(struct seen *seen, const char *name)
{
    for (size_t i = 0; i < seen->count; i++) {
        if (strcmp(seen->names[i], name) == 0) {
            return true;
        }
    }
    if (seen->count < NAMES_MAX) {
        seen->names[seen->count++] = name;
    }
    return false;
}

static void print_valued(const struct option_row *row, void *ctx)
{
    struct seen *seen = ctx;

    if (row->kind == OPTION_FLAG || seen_before(seen, row->name)) {
        return;
    }
    printf("%s--%s", seen->count > 1 ? "|" : "", row->name);
    if (row->letter) {
        printf("|-%c", row->letter);
    }
}

/* The patterns of all options that take a value: --db|--namespace|... */
static void print_all_valued(void)
{
    struct seen seen = {.count = 0};
    each_row(print_valued, &seen);
}

static void print_choices(const char *choices, const char *separator)
{
    for (const char *at = choices; *at;) {
        size_t length = strcspn(at, "|");
        printf("%s%.*s", at == choices ? "" : separator, (int)length, at);
        at += length + (at[length] == '|');
    }
}

static void print_row_choices(const struct option_row *row, void *ctx)
{
    const char *names = names_of(row);

    if ((row->kind != OPTION_CHOICE && !names) || seen_before(ctx, row->name)) {
        return;
    }
    if (names) {
        printf("    --%s) values=%s ;;\n", row->name, names);
        return;
    }
    printf("    --%s) choices=\"", row->name);
    print_choices(row->choices, " ");
    printf("\" ;;\n");
}

static void print_option_names(const struct command *command)
{
    const struct option_row *tables[3] = {command->options, command->more, args_global};

    for (size_t t = 0; t < 3; t++) {
        for (const struct option_row *row = tables[t]; row && row->name; row++) {
            printf("--%s ", row->name);
        }
    }
}

/* Second words of the group that commands[at] begins; nothing unless it is the first of them. */
static bool first_of_group(size_t at, size_t *ret_length)
{
    const char *space = strchr(commands[at]->name, ' ');

    if (!space) {
        return false;
    }
    *ret_length = (size_t)(space - commands[at]->name) + 1;
    return at == 0 || strncmp(commands[at - 1]->name, commands[at]->name, *ret_length) != 0;
}

static void print_group_words(size_t at, size_t length)
{
    for (size_t i = at; commands[i]; i++) {
        if (strncmp(commands[i]->name, commands[at]->name, length) == 0) {
            printf("%s ", commands[i]->name + length);
        }
    }
}

/* The body shared by bash and zsh: `name` is the command so far, `next` what may come next, `names`
 * of what names may come next, `options` the options of the command; for a value, `choices` or
 * `values`, of what it is a name. */
static void print_cases(void)
{
    struct seen seen = {.count = 0};
    size_t length;

    printf("    case \"$prev\" in\n");
    each_row(print_row_choices, &seen);
    printf("    esac\n    case \"$name\" in\n    '') next=\"");
    for (size_t i = 0; commands[i]; i++) {
        if (first_of_group(i, &length)) {
            printf("%.*s ", (int)length - 1, commands[i]->name);
        } else if (!strchr(commands[i]->name, ' ')) {
            printf("%s ", commands[i]->name);
        }
    }
    printf("\"; options=\"--help --version\" ;;\n");
    for (size_t i = 0; commands[i]; i++) {
        if (first_of_group(i, &length)) {
            printf("    '%.*s') next=\"", (int)length - 1, commands[i]->name);
            print_group_words(i, length);
            printf("\" ;;\n");
        }
        printf("    '%s') options=\"", commands[i]->name);
        print_option_names(commands[i]);
        printf("\"");
        if (commands[i]->word_choices) {
            printf("; next=\"");
            print_choices(commands[i]->word_choices, " ");
            printf("\"");
        }
        if (commands[i]->word_names) {
            printf("; names=%s", commands[i]->word_names);
        }
        printf(" ;;\n");
    }
    printf("    esac\n");
}

static void print_groups(void)
{
    size_t length;
    bool first = true;

    for (size_t i = 0; commands[i]; i++) {
        if (first_of_group(i, &length)) {
            printf("%s%.*s", first ? "" : "|", (int)length - 1, commands[i]->name);
            first = false;
        }
    }
}

static void print_walk(const char *array, int first, const char *end)
{
    printf("    for ((i = %d; i < %s; i++)); do\n        word=${%s[i]}\n        case \"$word\" in\n"
           "        ",
           first, end, array);
    print_all_valued();
    printf(") ((i++)) ;;\n        -*) ;;\n        *)\n            case \"$name\" in\n"
           "            '') name=$word ;;\n            ");
    print_groups();
    printf(") name=\"$name $word\" ;;\n            esac\n            ;;\n        esac\n    done\n");
}

/* Collects the options that say which database and namespace, from `line` before `end`. One whose
 * value is being typed does not say it yet. */
static void print_place(int first, const char *end)
{
    printf("    for ((i = %d; i < %s; i++)); do\n"
           "        case \"${line[i]}\" in\n"
           "        --db | --namespace)\n"
           "            ((i + 1 >= %s)) || place+=(\"${line[i]}\" \"${line[i + 1]}\") ;;\n"
           "        --db=* | --namespace=*) place+=(\"${line[i]}\") ;;\n"
           "        esac\n"
           "    done\n",
           first, end, end);
}

static void print_bash(void)
{
    printf("# bash completion of holdfast: source it, or put it into\n"
           "# ~/.local/share/bash-completion/completions/holdfast\n"
           "_holdfast() {\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} name='' word i last prev\n"
           "    local choices='' values='' next='' names='' options=''\n"
           "    local -a place=() line\n"
           "    # COMP_WORDS has URLs in pieces, because bash ends words at colons.\n"
           "    read -ra line <<<\"${COMP_LINE:0:COMP_POINT}\"\n"
           "    [[ -n $cur ]] || line+=('')\n"
           "    last=$((${#line[@]} - 1))\n"
           "    prev=${line[last - 1]}\n");
    print_place(1, "last");
    print_walk("line", 1, "last");
    print_cases();
    printf("    if [[ -n $choices ]]; then\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"$choices\" -- \"$cur\")\n"
           "    elif [[ -n $values ]]; then\n"
           "        mapfile -t COMPREPLY < <(_holdfast_names $values)\n"
           "    elif [[ $cur == -* ]]; then\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n"
           "    elif [[ -n $names ]]; then\n"
           "        mapfile -t COMPREPLY < <(_holdfast_names $names)\n"
           "    else\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"$next\" -- \"$cur\")\n"
           "    fi\n"
           "}\n"
           "# Names of this kind that begin as the word does, for the shell.\n"
           "_holdfast_names() {\n"
           "    local found\n"
           "    while IFS= read -r found; do\n"
           "        [[ $found != \"$cur\"* ]] || printf '%%q\\n' \"$found\"\n"
           "    done < <(holdfast names \"$1\" \"${place[@]}\" --db-timeout 2s 2>/dev/null)\n"
           "}\n"
           "complete -o default -F _holdfast holdfast\n");
}

static void print_zsh(void)
{
    printf("#compdef holdfast\n"
           "# zsh completion of holdfast: put it into a directory of $fpath as _holdfast\n"
           "_holdfast() {\n"
           "    local cur=${words[CURRENT]} prev=${words[CURRENT-1]}\n"
           "    local -a line=(\"${words[@]}\")\n"
           "    local last=$CURRENT\n"
           "    local name='' word i choices='' values='' next='' names='' options=''\n"
           "    local -a place=() found=()\n");
    print_place(2, "last");
    print_walk("line", 2, "last");
    print_cases();
    printf("    if [[ $cur != -* && -n $values$names && -z $choices ]]; then\n"
           "        found=(\"${(@f)$(holdfast names ${values:-$names} $place --db-timeout 2s "
           "2>/dev/null)}\")\n"
           "        compadd -- $found\n"
           "    elif [[ -n $choices ]]; then\n"
           "        compadd -- ${=choices}\n"
           "    elif [[ $cur == -* ]]; then\n"
           "        compadd -- ${=options}\n"
           "    elif [[ -n $next ]]; then\n"
           "        compadd -- ${=next}\n"
           "    else\n"
           "        _files\n"
           "    fi\n"
           "}\n"
           "if [[ $funcstack[1] == _holdfast ]]; then _holdfast \"$@\"; else compdef _holdfast "
           "holdfast; fi\n");
}

/* A text inside single quotes of fish. */
static void print_fish_quoted(const char *text)
{
    putchar('\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\') {
            putchar('\\');
        }
        putchar(*text);
    }
    putchar('\'');
}

static void print_fish_rows(const char *condition, const struct option_row *row)
{
    for (; row && row->name; row++) {
        printf("complete -c holdfast%s -l %s", condition, row->name);
        if (row->letter) {
            printf(" -s %c", row->letter);
        }
        if (row->kind != OPTION_FLAG) {
            printf(" -r");
        }
        if (row->choices) {
            printf(" -f -a '");
            print_choices(row->choices, " ");
            putchar('\'');
        } else if (names_of(row)) {
            printf(" -f -a '(__holdfast_names %s)'", names_of(row));
        }
        printf(" -d ");
        print_fish_quoted(row->help);
        putchar('\n');
    }
}

static void print_fish_command(size_t at)
{
    const struct command *command = commands[at];
    char condition[128];
    size_t length;

    if (first_of_group(at, &length)) {
        printf("complete -c holdfast -n '__holdfast_is \"\"' -f -a %.*s\n", (int)length - 1,
               command->name);
        printf("complete -c holdfast -n '__holdfast_is \"%.*s\"' -f -a '", (int)length - 1,
               command->name);
        print_group_words(at, length);
        printf("'\n");
    } else if (!strchr(command->name, ' ')) {
        printf("complete -c holdfast -n '__holdfast_is \"\"' -f -a %s -d ", command->name);
        print_fish_quoted(command->summary);
        putchar('\n');
    }
    snprintf(condition, sizeof condition, " -n '__holdfast_is \"%s\"'", command->name);
    if (command->word_choices) {
        printf("complete -c holdfast%s -f -a '", condition);
        print_choices(command->word_choices, " ");
        printf("'\n");
    }
    if (command->word_names) {
        printf("complete -c holdfast%s -f -a '(__holdfast_names %s)'\n", condition,
               command->word_names);
    }
    print_fish_rows(condition, command->options);
    print_fish_rows(condition, command->more);
}

static void print_fish(void)
{
    printf("# fish completion of holdfast: put it into ~/.config/fish/completions/holdfast.fish\n"
           "function __holdfast_is\n"
           "    set -l name ''\n"
           "    set -l skip 0\n"
           "    for word in (commandline -opc)[2..-1]\n"
           "        if test $skip = 1\n"
           "            set skip 0\n"
           "        else if string match -qr '^(");
    print_all_valued();
    printf(")$' -- $word\n"
           "            set skip 1\n"
           "        else if string match -q -- '-*' $word\n"
           "            continue\n"
           "        else if test -z \"$name\"\n"
           "            set name $word\n"
           "        else if string match -qr '^(");
    print_groups();
    printf(
        ")$' -- $name\n"
        "            set name \"$name $word\"\n"
        "        end\n"
        "    end\n"
        "    test \"$name\" = \"$argv[1]\"\n"
        "end\n"
        "function __holdfast_names\n"
        "    set -l place\n"
        "    set -l keep 0\n"
        "    for word in (commandline -opc)[2..-1]\n"
        "        if test $keep = 1; or string match -qr '^--(db|namespace)(=|$)' -- $word\n"
        "            set -a place $word\n"
        "            string match -qr '^--(db|namespace)$' -- $word; and set keep 1; or set keep "
        "0\n"
        "        end\n"
        "    end\n"
        "    test $keep = 1; and set -e place[-1] # its value is being typed\n"
        "    holdfast names $argv[1] $place --db-timeout 2s 2>/dev/null\n"
        "end\n");
    print_fish_rows("", args_global);
    for (size_t i = 0; commands[i]; i++) {
        print_fish_command(i);
    }
}

static int run_completion(struct cli *cli)
{
    const char *shell = cli->args.words[0];

    if (cli->json) {
        return args_usage(&cli->args, "a script is no JSON: leave out --json");
    }
    if (strcmp(shell, "bash") == 0) {
        print_bash();
    } else if (strcmp(shell, "zsh") == 0) {
        print_zsh();
    } else if (strcmp(shell, "fish") == 0) {
        print_fish();
    } else {
        return args_usage(&cli->args, "SHELL is bash, zsh or fish, not '%s'", shell);
    }
    return EXIT_OK;
}

const struct command command_completion = {
    .name = "completion",
    .usage = "SHELL",
    .summary = "prints the completion script of a shell",
    .examples = "  source <(holdfast completion bash)\n"
                "  holdfast completion zsh > ~/.zfunc/_holdfast\n"
                "  holdfast completion fish > ~/.config/fish/completions/holdfast.fish\n",
    .words_min = 1,
    .words_max = 1,
    .word_choices = "bash|zsh|fish",
    .places_itself = true,
    .run = run_completion,
};
