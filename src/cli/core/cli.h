/*
 * cli.h - what every command gets: the parsed command line, the bus, and the common manners.
 *
 * A command is a function int run(struct cli *cli) that returns an exit code. It opens the bus
 * itself, because the commands differ in whether a missing database is created; main closes it.
 */
#ifndef HF_CLI_CORE_CLI_H
#define HF_CLI_CORE_CLI_H

#include "cli/core/args.h"

#include <holdfast.h>
#include <stdbool.h>
#include <stdint.h>

/* Exit codes. They never change: scripts depend on them. */
enum {
    EXIT_OK = 0,
    EXIT_ERROR = 1,
    EXIT_USAGE = 2,
    EXIT_NOT_FOUND = 3,
    EXIT_CONFLICT = 4, /* also a stale lease */
    EXIT_TIMEOUT = 5,
    EXIT_UNKNOWN = 6, /* the outcome is unknown */
    EXIT_FINDINGS = 7,
    EXIT_UNAVAILABLE = 69
};

/* Those of `check`, which is a plugin of Nagios. */
enum { NAGIOS_OK = 0, NAGIOS_WARNING = 1, NAGIOS_CRITICAL = 2, NAGIOS_UNKNOWN = 3 };

struct cli {
    char **argv; /* as the program was started */
    struct args args;
    const char *url;            /* the database */
    const char *namespace_name; /* NULL: the default one */
    bool json;
    bool url_is_configured; /* holdfast.yaml names the database */
    int64_t started_at_us;  /* wall time; "now" of listings */
    hf_bus *bus;            /* NULL until cli_open */
};

/* The options of a bus by the command line; a command may change them before cli_open_with. */
hf_options cli_options(const struct cli *cli, hf_open_mode mode);
/* The same for the database as a whole, without a namespace. */
hf_options cli_whole_options(const struct cli *cli, hf_open_mode mode);

/* Opens cli->bus. 0, or the exit code after the complaint. */
int cli_open(struct cli *cli, hf_open_mode mode);
int cli_open_with(struct cli *cli, const hf_options *options);
/* The database as a whole, whatever namespace is named. */
int cli_open_whole(struct cli *cli, hf_open_mode mode);
/* The namespace that the command line or the environment names; if none, the whole database. */
int cli_open_named(struct cli *cli, hf_open_mode mode);

/* Which exit code a status is. */
int cli_exit_code(hf_status status);

/* Complains with the thread's last message and returns the exit code; 0 for HF_OK. */
int cli_fail(hf_status status);

/* 0 if the user agrees: --yes, or "y" at a terminal. Else the exit code after the complaint. The
 * command has the option --yes. The question comes without its question mark. */
int cli_confirm(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reads all of a file or, for "-", of stdin: at most bytes_max. The caller frees by mem_free. NULL
 * after a complaint. */
char *cli_read_file(const char *path, size_t bytes_max, size_t *ret_bytes);

/* A payload given as a word: itself, or stdin if it is "-". *ret_owned (to be freed by mem_free) is
 * what was read. False after a complaint. */
bool cli_payload(const char *word, const char **ret_payload, size_t *ret_bytes, char **ret_owned);
/* The same of a file ("-": of stdin), without the newline at its end. */
bool cli_payload_file(const char *path, const char **ret_payload, size_t *ret_bytes,
                      char **ret_owned);

#define CLI_PAYLOAD_BYTES_MAX 268435456 /* the most that the bus can be told to take */

/* Shared rows. */
#define CLI_OPTION_YES                                                                             \
    {                                                                                              \
        "yes", 'y', OPTION_FLAG, NULL, NULL, 0, 0, "do not ask"                                    \
    }

#endif
