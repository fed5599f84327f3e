/*
 * guard.c - the guard process and the pipe to it.
 *
 * The guard reads a pipe: a positive number is a group that began, a negative one a group that
 * ended. Each message is far below PIPE_BUF, so messages of several threads do not mix. The end of
 * the pipe is the end of the worker, because no other process holds its writing end: it is closed
 * on exec.
 *
 * A group is removed while its leader is still a zombie, so that its number cannot have been given
 * to another process when it is killed.
 */
#include "cli/core/guard.h"

#include "base/banned.h"
#include "cli/terminal/out.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>

static int guard_pipe = -1; /* the worker's end */

/* Replaces the first `from` of the list by `to`; 0 is a free place. */
static void list_change(pid_t *groups, pid_t from, pid_t to)
{
    for (size_t i = 0; i < GUARD_GROUPS_MAX; i++) {
        if (groups[i] == from) {
            groups[i] = to;
            return;
        }
    }
}

static void run_guard(int fd)
{
    pid_t groups[GUARD_GROUPS_MAX] = {0};
    int32_t message;

    /* A Ctrl-C of the terminal is for the worker; the guard goes when the worker has gone. */
    setsid();
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    prctl(PR_SET_NAME, "holdfast-guard");
    /* A process that waits for the end of our output must not wait for the guard. */
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    for (;;) {
        ssize_t count = read(fd, &message, sizeof message);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count != (ssize_t)sizeof message) {
            break;
        }
        if (message > 0) {
            list_change(groups, 0, message);
        } else {
            list_change(groups, -message, 0);
        }
    }
    for (size_t i = 0; i < GUARD_GROUPS_MAX; i++) {
        if (groups[i] > 0) {
            kill(-groups[i], SIGKILL);
        }
    }
    _exit(0);
}

bool guard_start(void)
{
    int ends[2];
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        out_complain("cannot make a pipe: %s", strerror(errno));
        return false;
    }
    child = fork();
    if (child < 0) {
        out_complain("cannot start the guard process: %s", strerror(errno));
        close(ends[0]);
        close(ends[1]);
        return false;
    }
    if (child == 0) {
        close(ends[1]);
        run_guard(ends[0]);
    }
    close(ends[0]);
    guard_pipe = ends[1];
    return true;
}

static void tell(int32_t message)
{
    while (guard_pipe >= 0 && write(guard_pipe, &message, sizeof message) < 0 && errno == EINTR) {
        ;
    }
}

void guard_add(pid_t group)
{
    tell(group);
}

void guard_remove(pid_t group)
{
    tell(-group);
}
