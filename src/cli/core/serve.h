/*
 * serve.h - running the HTTP server, which is in a program of its own.
 *
 * The libraries that an HTTP server needs take several times as long to load as a command takes.
 * So `holdfast` is linked without them, and `holdfast serve` becomes the program holdfast-serve,
 * which is the same command with src/server in it. serve_run is in either: in serve_exec.c, which
 * starts that program, and in src/server/serve.c.
 */
#ifndef HF_CLI_CORE_SERVE_H
#define HF_CLI_CORE_SERVE_H

#include "cli/core/cli.h"

#define SERVE_PROGRAM "holdfast-serve"

/* Serves until the end. Answers an exit status. */
int serve_run(struct cli *cli);

/* Becomes the program that has the server, with the arguments of this one; only in the program
 * without it. Returns an exit status after a complaint, in which `why` says what for: "which has
 * the HTTP server". */
int serve_become(struct cli *cli, const char *why);

#endif
