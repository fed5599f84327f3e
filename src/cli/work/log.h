/*
 * log.h - what `work` writes to stderr: dated lines of its own and of the bus, or JSON objects.
 */
#ifndef HF_CLI_WORK_LOG_H
#define HF_CLI_WORK_LOG_H

#include "base/text/text.h"

#include <holdfast.h>
#include <stdatomic.h>
#include <stdbool.h>

/* What the records of the bus have said so far. Written by any thread. */
struct work_log {
    _Atomic int64_t dead;  /* dead letters that this process made */
    atomic_bool attention; /* the bus warned about a subscription: look whether it is still there */
    bool says_pauses;      /* the command itself says which subscriptions are paused */
};

/* Makes the bus log to stderr and count in `log`, which outlives the bus. */
void work_log_options(hf_options *options, struct work_log *log);

/* An hf_log_fn; ctx is a struct work_log. */
void work_log_record(const hf_log_record *record, void *ctx);

/* A dated line about a subscription (NULL: about none); not with --quiet. */
void work_log_say(const char *subscription, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same for what went wrong: always shown. */
void work_log_complain(const char *subscription, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A line that a command has printed; event_id NULL: for a batch. `stream` is "stdout" or
 * "stderr". */
void work_log_command(const char *subscription, const char *event_id, const char *stream,
                      struct text line);

#endif
