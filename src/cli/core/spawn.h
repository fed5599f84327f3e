/*
 * spawn.h - starts a shell command from a process with many threads.
 */
#ifndef HF_CLI_CORE_SPAWN_H
#define HF_CLI_CORE_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

/* What the child gets as its stdin, stdout and stderr. Descriptors above 2, or 1 for "as ours". */
struct spawn_files {
    int in;
    int out;
    int err;
};

/*
 * Runs /bin/sh -c command as the leader of a new process group, with default signals, dying with
 * the thread that started it. 0, or an errno. All other descriptors must be closed on exec.
 */
int spawn_shell(const char *command, char *const *environment, const struct spawn_files *files,
                pid_t *ret_pid);

#endif
