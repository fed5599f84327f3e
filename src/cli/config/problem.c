/*
 * problem.c - a short sorted list of mistakes. See problem.h.
 *
 * A new mistake is inserted behind those that stand before it in the file; when the list is full,
 * the last one makes room. Two mistakes at one place stay in the order in which they were found.
 */
#include "cli/config/problem.h"

#include "base/banned.h"
#include "cli/terminal/out.h"

#include <stdarg.h>

static bool is_before(struct config_place a, struct config_place b)
{
    return a.line != b.line ? a.line < b.line : a.column < b.column;
}

void config_problem(struct config_problems *problems, struct config_place place, const char *format,
                    ...)
{
    size_t kept = problems->count < CONFIG_PROBLEMS_MAX ? problems->count : CONFIG_PROBLEMS_MAX;
    size_t at = kept;
    va_list list;

    problems->count++;
    while (at > 0 && is_before(place, problems->kept[at - 1].place)) {
        at--;
    }
    if (at == CONFIG_PROBLEMS_MAX) {
        return;
    }
    if (kept == CONFIG_PROBLEMS_MAX) {
        kept--;
    }
    memmove(&problems->kept[at + 1], &problems->kept[at], (kept - at) * sizeof problems->kept[0]);
    problems->kept[at].place = place;
    va_start(list, format);
    vsnprintf(problems->kept[at].text, CONFIG_PROBLEM_BYTES, format, list);
    va_end(list);
}

void config_problems_print(const struct config_problems *problems, const char *file)
{
    for (size_t i = 0; i < problems->count && i < CONFIG_PROBLEMS_MAX; i++) {
        const struct config_problem *problem = &problems->kept[i];
        out_complain("%s:%d:%d: %s", file, problem->place.line, problem->place.column,
                     problem->text);
    }
    if (problems->count > CONFIG_PROBLEMS_MAX) {
        out_hint("... and %zu more mistakes in %s.", problems->count - CONFIG_PROBLEMS_MAX, file);
    }
}
