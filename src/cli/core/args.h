/*
 * args.h - the command line: one table of commands and options, and the parser that reads by it.
 *
 * Every command is a `struct command`: its name, how to call it, examples, and rows of options.
 * The parser, `help`, the shell completions and the check that every option is in the manual all
 * read these tables, so an option exists everywhere or nowhere.
 *
 * The parser checks values by the row's kind (a number within its limits, a duration, a place), so
 * that a command finds only values that mean something. Options may stand before and after other
 * words, as "--name value" or "--name=value"; "--" ends them. Options of every command may even
 * stand before the command's name.
 */
#ifndef HF_CLI_CORE_ARGS_H
#define HF_CLI_CORE_ARGS_H

#include <holdfast.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARGS_VALUES_MAX 512 /* options given on one command line */
#define ARGS_WORDS_MAX 4096 /* other words on one command line */

enum option_kind {
    OPTION_FLAG,     /* no value */
    OPTION_TEXT,     /* any text */
    OPTION_NUMBER,   /* a whole number from min to max */
    OPTION_DECIMAL,  /* a number with a fraction from min to max */
    OPTION_DURATION, /* "250ms", "30s", "5m", "12h", "30d" or "0"; kept as milliseconds */
    OPTION_PLACE,    /* start, now (or end), a position, a time, or a duration: so long ago */
    OPTION_TIME,     /* a time; kept as a place */
    OPTION_MOMENT,   /* a time, now, or a duration: so long ago; kept as a place */
    OPTION_CHOICE,   /* one of `choices` */
    OPTION_RATE,     /* "50/s", "100/m"; kept as a decimal, per second */
    OPTION_SIZE      /* "100", "64KiB" or "64K", "16MiB" or "16M", "2GiB" or "2G": bytes */
};

struct option_row {
    const char *name; /* without the dashes; NULL ends a table */
    char letter;      /* of the short form; 0: none */
    enum option_kind kind;
    const char *argument; /* what the help calls the value; NULL for a flag */
    const char *choices;  /* "ordered|shared"; NULL unless OPTION_CHOICE */
    int64_t min;          /* limits of OPTION_NUMBER, OPTION_DECIMAL and OPTION_SIZE, and, in ms, */
    int64_t max;          /* of OPTION_DURATION, for which a max of 0 is no limit */
    const char *help;     /* one line, without a full stop */
};

/* Also a key of the configuration file. */
#define OPTION_DB_TIMEOUT                                                                          \
    {                                                                                              \
        "db-timeout", 0, OPTION_DURATION, "TIME", NULL, 1, 86400000,                               \
            "the longest that a call waits for the database (10s)"                                 \
    }

#define OPTION_END                                                                                 \
    {                                                                                              \
        NULL, 0, OPTION_FLAG, NULL, NULL, 0, 0, NULL                                               \
    }

struct cli;

struct command {
    const char *name;                 /* "publish", "sub list" */
    const char *usage;                /* "TYPE [JSON|-]": the words after the name */
    const char *summary;              /* one line: what it does */
    const char *examples;             /* lines, each ends in \n */
    const char *details;              /* paragraphs for the help, or NULL */
    const struct option_row *options; /* its own; NULL: none */
    const struct option_row *more;    /* shared with other commands; NULL: none */
    size_t words_min;
    size_t words_max;
    const char *word_choices;    /* what completion offers for the first word, or NULL */
    const char *word_names;      /* "subscriptions": it offers their names (`names`), or NULL */
    bool json_messages;          /* with --json its messages on stderr are JSON objects, too */
    bool places_itself;          /* holdfast.yaml does not say which database it works on */
    int (*run)(struct cli *cli); /* the exit code */
    /* Answers a command line that cannot be followed, after the complaint; it gets the program's
     * words. NULL: the exit code is all. */
    int (*mistaken)(const char *complaint, char **words);
};

/* The options of every command. */
extern const struct option_row args_global[];

/* All commands in the order of the help, and a NULL. */
extern const struct command *const commands[];

/* A section of the overview: "Commands for events:". A title of NULL ends the table. */
struct command_section {
    const char *title;
    const struct command *first; /* it goes on to the first one of the next section */
};

extern const struct command_section command_sections[];

struct arg_value {
    const struct option_row *row;
    const char *text; /* as it was given; NULL for a flag */
    int64_t number;   /* NUMBER, DURATION (ms), SIZE; for CHOICE: 1 for the first */
    double decimal;   /* DECIMAL, RATE */
    hf_place place;   /* PLACE */
};

struct args {
    const struct command *command; /* NULL: none was named */
    const char *group;             /* the first word if it only begins commands' names ("sub") */
    struct arg_value values[ARGS_VALUES_MAX];
    size_t value_count;
    const char *words[ARGS_WORDS_MAX]; /* what is neither an option nor the command's name */
    size_t word_count;
};

/* 0, or the exit code of a usage error that has been explained on stderr. `now_us` is what a place
 * given as a duration counts back from. */
int args_parse(struct args *args, int argc, char **argv, int64_t now_us);

/* 0, or the usage error that words are missing or too many. */
int args_check_words(const struct args *args);

/* Of the option `name`, which the command has (asserted); the last one given counts. */
const struct arg_value *args_value(const struct args *args, const char *name); /* or NULL */
bool args_given(const struct args *args, const char *name);
const char *args_text(const struct args *args, const char *name);
int64_t args_number(const struct args *args, const char *name, int64_t otherwise);
double args_decimal(const struct args *args, const char *name, double otherwise);
bool args_place(const struct args *args, const char *name, hf_place *ret_place);

/* Whether the command has an option of this name. */
bool args_takes(const struct args *args, const char *name);

/* All values of an option that may be repeated: how many were stored. */
size_t args_all(const struct args *args, const char *name, const char **ret_texts, size_t max);

/* A command or group by its words; NULL if there is none. *ret_used: how many words the name is. */
const struct command *command_find(const char *const *words, size_t count, size_t *ret_used);
bool command_is_group(const char *word);

/* Explains that there is no such command (of that group, or NULL), and which one is near. The exit
 * code of a usage error. */
int args_no_command(const struct args *args, const char *group, const char *word);

/* Parsers of values, for words as well as options. False: not such a value. */
bool args_value_number(const char *text, int64_t min, int64_t max, int64_t *ret_number);
bool args_value_place(const char *text, int64_t now_us, hf_place *ret_place);

#endif
