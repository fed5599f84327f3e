/*
 * guard.c - keeps the list of running process groups, in this process and in the guard.
 *
 * The guard reads a pipe: a positive number is a group that began, a negative one a group that
 * ended. Each message is far below PIPE_BUF, so messages of several threads do not mix. The end of
 * the pipe is the end of the worker, because nobody else holds its writing end: it is closed on
 * exec. The worker's own list exists for the second Ctrl-C, whose handler may not wait for anybody.
 *
 * A group is removed while its leader is still a zombie, so that its number cannot have been given
 * to somebody else when it is killed.
 */
#include "cli/guard.h"

#include "base/banned.h"
#include "cli/out.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>

static int guard_pipe = -1;
static _Atomic pid_t groups[GUARD_GROUPS_MAX];

static void list_add(pid_t group)
{
    for (size_t i = 0; i < GUARD_GROUPS_MAX; i++) {
        pid_t nobody = 0;
        if (atomic_compare_exchange_strong(&groups[i], &nobody, group))
            return;
    }
}

static void list_remove(pid_t group)
{
    for (size_t i = 0; i < GUARD_GROUPS_MAX; i++) {
        pid_t expected = group;
        if (atomic_compare_exchange_strong(&groups[i], &expected, 0))
            return;
    }
}

void guard_kill_all(void)
{
    for (size_t i = 0; i < GUARD_GROUPS_MAX; i++) {
        pid_t group = atomic_load(&groups[i]);
        if (group > 0)
            kill(-group, SIGKILL);
    }
}

static void run_guard(int fd)
{
    int32_t message;

    /* A Ctrl-C of the terminal is for the worker; the guard goes when the worker has gone. */
    setsid();
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    prctl(PR_SET_NAME, "holdfast-guard");
    /* Whoever waits for the end of our output must not wait for the guard. */
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    for (;;) {
        ssize_t count = read(fd, &message, sizeof(message));
        if (count < 0 && errno == EINTR)
            continue;
        if (count != (ssize_t)sizeof(message))
            break;
        if (message > 0)
            list_add(message);
        else
            list_remove(-message);
    }
    guard_kill_all();
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
    while (guard_pipe >= 0 && write(guard_pipe, &message, sizeof(message)) < 0 && errno == EINTR)
        ;
}

void guard_add(pid_t group)
{
    list_add(group);
    tell(group);
}

void guard_remove(pid_t group)
{
    list_remove(group);
    tell(-group);
}
