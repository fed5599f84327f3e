/*
 * lines.c - a buffer that grows up to the longest line, and poll() before every read.
 */
#include "cli/terminal/lines.h"

#include "base/banned.h"
#include "base/mem.h"
#include "base/time/deadline.h"
#include "cli/terminal/stop.h"

#include <errno.h>
#include <poll.h>

#define READ_BYTES 65536

void lines_init(struct lines *lines, int fd, size_t bytes_max)
{
    *lines = (struct lines){.fd = fd, .bytes_max = bytes_max};
}

/* Makes room for READ_BYTES after `end`. */
static bool make_room(struct lines *lines)
{
    if (lines->start > 0) {
        memmove(lines->bytes, lines->bytes + lines->start, lines->end - lines->start);
        lines->end -= lines->start;
        lines->scanned -= lines->start;
        lines->start = 0;
    }
    if (lines->capacity - lines->end < READ_BYTES) {
        size_t capacity = lines->capacity * 2 + READ_BYTES;
        char *bytes = mem_realloc(lines->bytes, capacity);
        if (!bytes) {
            return false;
        }
        lines->bytes = bytes;
        lines->capacity = capacity;
    }
    return true;
}

/* Finds a complete line in what was read. */
static bool take_line(struct lines *lines, struct text *ret_line)
{
    char *newline = NULL;
    size_t length;

    if (lines->scanned < lines->end) {
        newline = memchr(lines->bytes + lines->scanned, '\n', lines->end - lines->scanned);
    }
    lines->scanned = lines->end;
    if (!newline && !(lines->ended && lines->start < lines->end)) {
        return false;
    }
    length = newline ? (size_t)(newline - lines->bytes) - lines->start : lines->end - lines->start;
    *ret_line = (struct text){lines->bytes + lines->start, length};
    if (length > 0 && ret_line->bytes[length - 1] == '\r') {
        ret_line->length--;
    }
    lines->start += length + (newline != NULL);
    lines->scanned = lines->start;
    return true;
}

/* Waits until there is something to read; false if not in time. */
static bool wait_readable(struct lines *lines, struct deadline deadline)
{
    struct pollfd fds[2] = {{.fd = lines->fd, .events = POLLIN},
                            {.fd = stop_fd(), .events = POLLIN}};

    for (;;) {
        int64_t left_ms = deadline_left_ms(deadline);
        int count;

        if (stop_requested()) {
            return false;
        }
        count = poll(fds, 2, left_ms < 0 || left_ms > 1000 ? 1000 : (int)left_ms);
        if (count > 0 && fds[0].revents) {
            return true;
        }
        if (deadline_passed(deadline)) {
            return false;
        }
    }
}

enum lines_result lines_next(struct lines *lines, int64_t wait_ms, struct text *ret_line)
{
    struct deadline deadline = deadline_after_ms(wait_ms);

    for (;;) {
        ssize_t count;

        if (take_line(lines, ret_line)) {
            return LINES_LINE;
        }
        if (lines->ended) {
            return LINES_END;
        }
        if (lines->end - lines->start > lines->bytes_max) {
            return LINES_TOO_LONG;
        }
        if (!make_room(lines)) {
            errno = ENOMEM;
            return LINES_FAILED;
        }
        if (!wait_readable(lines, deadline)) {
            return LINES_NONE;
        }
        count = read(lines->fd, lines->bytes + lines->end, lines->capacity - lines->end);
        if (count < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        if (count < 0) {
            return LINES_FAILED;
        }
        lines->ended = count == 0;
        lines->end += (size_t)count;
        lines->read_bytes += count;
    }
}

void lines_release(struct lines *lines)
{
    mem_free(lines->bytes);
    lines->bytes = NULL;
}
