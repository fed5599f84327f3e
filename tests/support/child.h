/*
 * child.h - other processes that a test can command, freeze and kill.
 *
 * A child is the test program itself, executed anew with "--role NAME URL NAMESPACE DIR ARGUMENT",
 * so that it shares nothing with its parent but the database. It speaks to its parent in lines: the
 * parent's commands come on its standard input, its reports go to descriptor CHILD_REPORT_FD. A
 * child dies with its parent and when its input ends.
 *
 *     parent                                  child (role)
 *     child_start(f, &child, "owner", "7")    argument "7"
 *     child_tell(&child, "settle")            role_listen(line)
 *     child_hear(&child, "settled")           role_report("settled", value)
 */
#ifndef HF_TESTS_SUPPORT_CHILD_H
#define HF_TESTS_SUPPORT_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CHILD_LINE_BYTES 512
#define CHILD_REPORT_FD 3

struct fixture;

struct child {
    pid_t pid; /* 0: none, or ended */
    const struct fixture *fixture;
    char application[48]; /* what its sessions with a server are called */
    int input;            /* we write */
    int report;           /* we read */
    char pending[CHILD_LINE_BYTES];
    size_t pending_bytes;
};

/* ---- The parent's side ----------------------------------------------------------------------- */

void child_start(struct fixture *fixture, struct child *child, const char *role,
                 const char *argument);
/* Sends one line. */
void child_tell(struct child *child, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Waits (bounded) for a line "WORD NUMBER", answers the number; any other line fails the test. */
int64_t child_hear(struct child *child, const char *word);
/* Reads a line if one comes within timeout_ms; false at the end or when the time is over. */
bool child_line(struct child *child, char line[CHILD_LINE_BYTES], int64_t timeout_ms);
/* SIGKILL, if it is not dead already, and waits until it is gone, also for the database: whatever
 * it had asked a server for has happened, or never will. */
void child_kill(struct child *child);
/* SIGSTOP, and waits until it stands still. */
void child_freeze(struct child *child);
/* SIGCONT. */
void child_thaw(struct child *child);
/* Ends its input and waits until it has left; it must have left in peace. */
void child_finish(struct child *child);
/* Kills what is left; for teardown. */
void child_discard(struct child *child);

/* ---- The child's side ------------------------------------------------------------------------ */

/* Prepares the process; called by fixture_main before a role runs. */
void role_prepare(void);
/* Waits for a command; false when there will be no more. */
bool role_listen(char line[CHILD_LINE_BYTES]);
/* Reports "WORD NUMBER". */
void role_report(const char *word, int64_t number);

#endif
