/*
 * help.h - the help texts, made from the tables.
 */
#ifndef HF_CLI_CORE_HELP_H
#define HF_CLI_CORE_HELP_H

#include "cli/core/args.h"

#include <stdio.h>

/* All commands with their summaries. */
void help_overview(FILE *to);

/* The commands of a group ("sub"). */
void help_group(FILE *to, const char *group);

/* One command: examples first, then usage and options. */
void help_command(FILE *to, const struct command *command);

/* Text from this column on, broken between words, up to 80 columns. */
void help_text(FILE *to, const char *text, size_t from);

#endif
