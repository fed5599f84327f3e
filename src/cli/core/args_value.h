/*
 * args_value.h - the values of options, checked by the kind of their row; and how a mistake on the
 * command line is reported.
 */
#ifndef HF_CLI_CORE_ARGS_VALUE_H
#define HF_CLI_CORE_ARGS_VALUE_H

#include "base/text/suggest.h"
#include "cli/core/args.h"

/* What a value may be, as part of a sentence: "takes a whole number from 1 to 9". */
struct value_form {
    char form[192];
    char hint[SUGGEST_WORD_BYTES_MAX]; /* the word that was probably meant; "": none is near */
};

/* Reads value->text by value->row. False: it is not such a value, and *ret_form says what would
 * be one. */
bool args_value_check(struct arg_value *value, int64_t now_us, struct value_form *ret_form);

/* What a row takes, without a value to judge. */
void args_value_describe(const struct option_row *row, char *ret_form, size_t bytes);

/* The same for an option of the command line. 0, or the exit code of a usage error that was
 * explained. */
int args_value_read(const struct args *args, struct arg_value *value, int64_t now_us);

/* Explains a usage error on stderr, names the help to read, and returns its exit code, 2. */
int args_usage(const struct args *args, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
