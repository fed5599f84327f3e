/*
 * place.h - which database and namespace a command works on.
 */
#ifndef HF_CLI_CONFIG_PLACE_H
#define HF_CLI_CONFIG_PLACE_H

#include "cli/core/cli.h"

/* Fills in cli->url and cli->namespace_name. 0, or the exit code after the complaint. */
int config_place(struct cli *cli);

#endif
