/*
 * event_find.h - the event that a word of the command line names, by its id or its position.
 */
#ifndef HF_CLI_COMMAND_EVENT_FIND_H
#define HF_CLI_COMMAND_EVENT_FIND_H

#include "cli/core/cli.h"

struct event_name {
    char id[HF_ID_BYTES];
    int64_t position;
};

/* The position that a word says; -1: it is none. */
int64_t event_position(const char *word);
/* 0, or an exit status after a complaint. */
int event_find(struct cli *cli, const char *word, struct event_name *ret_name);

#endif
