/*
 * main.c - reads the command line, runs the command, makes its exit code.
 *
 * The bus is closed here, whatever the command answered, and the output is flushed and checked:
 * a listing that could not be written completely must not exit 0.
 */
#include "base/banned.h"
#include "base/time/clock.h"
#include "cli/config/place.h"
#include "cli/core/args.h"
#include "cli/core/cli.h"
#include "cli/core/help.h"
#include "cli/terminal/out.h"

#include <fcntl.h>
#include <locale.h>
#include <signal.h>

/* A program started without stdin, stdout or stderr would open the database as one of them. */
static void keep_standard_descriptors(void)
{
    for (;;) {
        int fd = open("/dev/null", O_RDWR);
        if (fd < 0) {
            _exit(EXIT_ERROR);
        }
        if (fd > STDERR_FILENO) {
            close(fd);
            return;
        }
    }
}

static int show_help(const struct args *args)
{
    if (args->command) {
        help_command(stdout, args->command);
    } else if (args->group) {
        help_group(stdout, args->group);
    } else {
        help_overview(stdout);
    }
    return EXIT_OK;
}

/* The exit code of a command that could not begin. */
static int mistake(const struct cli *cli, int code)
{
    const struct command *command = cli->args.command;
    char words[OUT_COMPLAINT_BYTES];

    return command && command->mistaken ? command->mistaken(out_complaint(words), cli->argv + 1)
                                        : code;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct args *args = &cli->args;
    int code = args_parse(args, argc, argv, cli->started_at_us);
    if (code) {
        return mistake(cli, code);
    }
    out_init(args_given(args, "quiet"), args_given(args, "no-color"));
    if (args_given(args, "wide")) {
        out_be_wide();
    }
    if (args_given(args, "help")) {
        return show_help(args);
    }
    if (!args->command) {
        if (args->group) {
            help_group(stderr, args->group);
        } else {
            help_overview(stderr);
        }
        return EXIT_USAGE;
    }
    code = args_check_words(args);
    if (!code) {
        code = config_place(cli);
    }
    if (code) {
        return mistake(cli, code);
    }
    cli->json = args_given(args, "json");
    return args->command->run(cli);
}

int main(int argc, char **argv)
{
    static struct cli cli; /* the table of values is too large for a stack */
    hf_status status;
    int code;

    keep_standard_descriptors();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of write, seen and answered there */
    setlocale(LC_CTYPE, "C.UTF-8");
    out_begin();
    out_init(false, false);
    cli.started_at_us = clock_wall_us();

    cli.argv = argv;
    code = run(&cli, argc, argv);
    status = hf_close(&cli.bus);
    if (status && code == EXIT_OK) {
        code = cli_fail(status);
    }
    if (!out_finish() && code == EXIT_OK) {
        code = EXIT_ERROR;
    }
    return code;
}
