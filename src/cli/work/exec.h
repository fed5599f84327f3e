/*
 * exec.h - runs one shell command with an input, a time limit, and its output passed on.
 */
#ifndef HF_CLI_WORK_EXEC_H
#define HF_CLI_WORK_EXEC_H

#include "base/text/text.h"
#include "cli/work/output.h"

#include <holdfast.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct exec_job {
    const char *command;
    const char *input; /* written to its stdin, which is then closed */
    size_t input_bytes;
    char *const *environment;
    int64_t timeout_ms;           /* then SIGTERM to its process group, */
    int64_t grace_ms;             /* and after this SIGKILL */
    int64_t cancel_grace_ms;      /* the same when it was cancelled */
    bool inherit_stdout;          /* its stdout is ours; else whole lines are passed on */
    bool (*cancelled)(void *ctx); /* asked ten times a second: end it now? */
    /* Each gets the lines of one stream, without the newline; NULL: they are passed on to ours. */
    void (*stdout_line)(struct text line, void *ctx);
    void (*stderr_line)(struct text line, void *ctx);
    void *ctx;
    struct output_file *out_copy; /* gets all of its stdout, which is not inherited; NULL: none */
    struct output_file *err_copy; /* and its stderr */
};

enum exec_end {
    EXEC_EXITED,    /* with `code` */
    EXEC_SIGNALLED, /* by the signal `code` */
    EXEC_TIMED_OUT, /* it was killed */
    EXEC_CANCELLED, /* it was killed because cancelled() said so */
    EXEC_FAILED     /* it did not start; `code` is an errno */
};

struct exec_result {
    enum exec_end end;
    int code;
    bool killed_hard; /* SIGTERM was not enough */
    int64_t ran_ms;
    char tail[HF_ERROR_BYTES_MAX + 1]; /* the last of its stderr, with a NUL */
    size_t tail_bytes;
};

void exec_run(const struct exec_job *job, struct exec_result *ret_result);

#endif
