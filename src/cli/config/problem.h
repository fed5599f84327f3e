/*
 * problem.h - the mistakes of a configuration file, collected and then printed at once.
 *
 * A user who corrects a file wants to see all its mistakes, not the first of them ten times. The
 * mistakes that stand first in the file are kept, in the order of their places; the others are
 * counted.
 */
#ifndef HF_CLI_CONFIG_PROBLEM_H
#define HF_CLI_CONFIG_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>

#define CONFIG_PROBLEMS_MAX 10
#define CONFIG_PROBLEM_BYTES 1024

struct config_place {
    int line; /* from 1; 0: nowhere */
    int column;
};

struct config_problem {
    struct config_place place;
    char text[CONFIG_PROBLEM_BYTES];
};

struct config_problems {
    struct config_problem kept[CONFIG_PROBLEMS_MAX];
    size_t count; /* also those that are not kept */
};

void config_problem(struct config_problems *problems, struct config_place place, const char *format,
                    ...) __attribute__((format(printf, 3, 4)));

/* On stderr, one line each: "FILE:LINE:COLUMN: text". */
void config_problems_print(const struct config_problems *problems, const char *file);

#endif
