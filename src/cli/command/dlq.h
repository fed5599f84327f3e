/*
 * dlq.h - what the dead letter commands share: the filter's options and one letter as JSON.
 */
#ifndef HF_CLI_COMMAND_DLQ_H
#define HF_CLI_COMMAND_DLQ_H

#include "base/text/json_write.h"
#include "cli/core/cli.h"

/* The rows of the filter, for list, retry and purge. */
extern const struct option_row dlq_filter_rows[];

/* What the command line says. */
hf_dead_filter dlq_filter(const struct cli *cli);

/* Whether the command line names any condition. */
bool dlq_filter_given(const struct cli *cli);

/* Calls back for all dead letters that match, newest first, page by page; the filter's limit is the
 * most (-1: no limit). */
hf_status dlq_each(hf_bus *bus, const hf_dead_filter *filter, hf_dead_letter_fn found, void *ctx);

/* Counts by a field and prints the groups, the largest first. The exit code. */
int dlq_group(struct cli *cli, const hf_dead_filter *filter, const char *field);

/* Reads the dead letter's number from a word; usage error if it is none. */
int dlq_id(const struct cli *cli, const char *word, int64_t *ret_dead_id);

#endif
