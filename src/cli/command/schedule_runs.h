/*
 * schedule_runs.h - the ledger of a schedule, as `schedule show` shows it.
 */
#ifndef HF_CLI_COMMAND_SCHEDULE_RUNS_H
#define HF_CLI_COMMAND_SCHEDULE_RUNS_H

#include "base/text/buf.h"

#include <holdfast.h>

/* The newest `count` rows (0: none) as a list in `ret_json`, or as a table on stdout. 0, or the
 * exit code after a complaint. */
int schedule_runs_json(hf_bus *bus, const char *name, int32_t count, struct buf *ret_json);
int schedule_runs_print(hf_bus *bus, const char *name, int32_t count);

#endif
