/*
 * stats.h - the numbers of a namespace as JSON, for `stats` and `top`.
 */
#ifndef HF_CLI_WATCH_STATS_H
#define HF_CLI_WATCH_STATS_H

#include <holdfast.h>

/* Prints a line. */
hf_status stats_json(hf_bus *bus, const hf_stats *stats);

#endif
