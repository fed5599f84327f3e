/*
 * guard.h - a small process that outlives a worker by a moment, to end the commands it left behind.
 *
 * PR_SET_PDEATHSIG reaches the shell that `work` started, but not what that shell started. The
 * guard knows the process groups of all running commands; when the worker is gone, however it went,
 * the guard kills them and ends.
 */
#ifndef HF_CLI_CORE_GUARD_H
#define HF_CLI_CORE_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

#define GUARD_GROUPS_MAX 1024 /* commands running at once */

/* Starts the guard. Before any thread exists, because it forks. False after a complaint. */
bool guard_start(void);

/* The process group `group` runs a command; it has ended. Any thread. */
void guard_add(pid_t group);
void guard_remove(pid_t group);

#endif
