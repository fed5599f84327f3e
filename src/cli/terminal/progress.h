/*
 * progress.h - one line on stderr that says how far long work has come.
 *
 * Only if stderr is a terminal and --quiet was not given; else nothing is printed at all.
 */
#ifndef HF_CLI_TERMINAL_PROGRESS_H
#define HF_CLI_TERMINAL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool shown;
    const char *what;   /* "published" */
    int64_t started_us; /* monotonic */
    int64_t drawn_us;   /* monotonic; when the line was last drawn */
};

void progress_begin(struct progress *progress, const char *what);

/* `count` things are done. `part` of `whole` is for the bar; a whole of 0: no bar. Draws at most
 * ten times per second. */
void progress_update(struct progress *progress, int64_t count, int64_t part, int64_t whole);

/* Removes the line. */
void progress_end(struct progress *progress);

#endif
