/*
 * args_value.h - the values of options, checked by the kind of their row; and how a mistake on the
 * command line is reported.
 */
#ifndef HF_CLI_ARGS_VALUE_H
#define HF_CLI_ARGS_VALUE_H

#include "cli/args.h"

/* Reads value->text by value->row. 0, or the exit code of a usage error that was explained. */
int args_value_read(const struct args *args, struct arg_value *value, int64_t now_us);

/* Explains a usage error on stderr, names the help to read, and returns its exit code, 2. */
int args_usage(const struct args *args, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
