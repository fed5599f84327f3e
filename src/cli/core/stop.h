/*
 * stop.h - Ctrl-C, politely and then at once.
 *
 * The first SIGINT, SIGTERM or SIGHUP asks: stop_requested() becomes true and stop_fd() readable,
 * and the command finishes what it has begun. The second ends the process where it stands; the
 * database is made for that.
 */
#ifndef HF_CLI_CORE_STOP_H
#define HF_CLI_CORE_STOP_H

#include <stdbool.h>
#include <stdint.h>

/* From now on signals are caught. */
void stop_catch(void);

bool stop_requested(void);

/* As if a signal had come: the reader of the output is gone. Any thread. */
void stop_request(void);

/* Readable once a stop was requested. */
int stop_fd(void);

/* Waits up to ms (-1: for ever) for a request or until fd (-1: none) is readable; true if it is.
 * May return early: callers loop. */
bool stop_wait(int fd, int64_t ms);

#endif
