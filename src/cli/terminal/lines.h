/*
 * lines.h - reads a descriptor line by line without ever waiting unasked.
 *
 * stdio cannot say whether the next line is already here. An import from a live pipe must know: it
 * publishes what it has instead of waiting for a full batch, and it answers Ctrl-C.
 */
#ifndef HF_CLI_TERMINAL_LINES_H
#define HF_CLI_TERMINAL_LINES_H

#include "base/text/text.h"

#include <stdbool.h>
#include <stdint.h>

enum lines_result {
    LINES_LINE, /* here is one */
    LINES_NONE, /* none within the time */
    LINES_END,  /* end of the file */
    LINES_TOO_LONG,
    LINES_FAILED /* errno */
};

struct lines {
    int fd;
    size_t bytes_max; /* of a line */
    char *bytes;
    size_t capacity;
    size_t start;   /* where the next line begins */
    size_t scanned; /* no line end in [start, scanned) */
    size_t end;     /* what has been read ends here */
    bool ended;
    int64_t read_bytes;
};

void lines_init(struct lines *lines, int fd, size_t bytes_max);

/* The next line without its end, valid until the next call. Waits up to wait_ms (-1: for ever), and
 * not once a stop was requested (LINES_NONE). A last line without an end is a line. */
enum lines_result lines_next(struct lines *lines, int64_t wait_ms, struct text *ret_line);

void lines_release(struct lines *lines);

#endif
