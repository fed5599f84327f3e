/*
 * import.h - publishing a file of events, one JSON object per line.
 */
#ifndef HF_CLI_COMMAND_IMPORT_H
#define HF_CLI_COMMAND_IMPORT_H

#include "cli/core/cli.h"

#define IMPORT_BATCH_LINES 1000    /* lines that are published in one transaction */
#define IMPORT_BATCH_BYTES 8388608 /* bytes of lines that are published in one transaction */

/* Opens the bus by the options and publishes the events of `path` ("-": stdin) from line
 * `first_line` (from 1) on. A file that cannot be read opens, and so creates, nothing. The exit
 * code. */
int import_file(struct cli *cli, const hf_options *options, const char *path, int64_t first_line);

#endif
