/*
 * log.h - the bus's log on stderr: a line per failed attempt.
 */
#ifndef HF_CLI_WORK_LOG_H
#define HF_CLI_WORK_LOG_H

#include <holdfast.h>
#include <stdbool.h>

/* Makes the bus log to stderr, as text or as JSON objects. */
void work_log_options(hf_options *options, bool json);

#endif
