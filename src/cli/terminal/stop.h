/*
 * stop.h - Ctrl-C, politely and then at once.
 *
 * The first SIGINT, SIGTERM or SIGHUP asks: stop_requested() becomes true and stop_fd() readable,
 * and the command finishes what it has begun. The second ends the process where it stands; the
 * database is made for that. Programs send one signal twice: timeout(1) to its child and then to
 * the group of its child, a shell that ends together with its terminal. So a signal that a program
 * sends within STOP_TWICE_MS of the first one is the same request. Ctrl-C, which the terminal
 * sends, counts each time.
 */
#ifndef HF_CLI_TERMINAL_STOP_H
#define HF_CLI_TERMINAL_STOP_H

#include <stdbool.h>
#include <stdint.h>

#define STOP_TWICE_MS 1000
#define STOP_READER_S 3 /* has a command that only reads, from the first signal on */

/* From now on signals are caught. */
void stop_catch(void);
/* The same for a command that only reads. It has nothing to finish: if it has not ended after
 * STOP_READER_S, because the database does not answer, the first signal ends it, too. */
void stop_catch_reader(void);

/* The same for a service: SIGHUP is no stop but a request to reload, unless the kernel sends it
 * because the terminal is gone. */
void stop_catch_service(void);

bool stop_requested(void);

/* Whether a reload was requested since the last call. */
bool stop_take_reload(void);

/* As if a signal had come: the reader of the output is gone. Any thread. */
void stop_request(void);

/* Readable once a stop was requested. */
int stop_fd(void);

/* Waits up to ms (-1: for ever) for a request, also to reload, or until fd (-1: none) is readable;
 * true if it is.
 * May return early: callers loop. */
bool stop_wait(int fd, int64_t ms);

#endif
