/*
 * spawn.c - vfork and exec.
 *
 * fork() would run the library's atfork handlers and copy the page tables of the whole process;
 * posix_spawn cannot set PR_SET_PDEATHSIG. After vfork the child borrows our memory until it execs,
 * so it makes system calls and nothing else. All signals are blocked meanwhile, so that no handler
 * of ours runs in the child; the child resets them to their defaults before it unblocks any.
 */
#include "cli/core/spawn.h"

#include "base/banned.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* Everything the child needs, prepared before. */
struct plan {
    char *const *arguments;
    char *const *environment;
    const struct spawn_files *files;
    pid_t parent;
    volatile int error; /* what the child could not do */
};

static void reset_signals(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int signal = 1; signal < NSIG; signal++) {
        sigaction(signal, &action, NULL); /* refused for some; they need nothing */
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static __attribute__((noreturn)) void run_child(struct plan *plan)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != plan->parent) {
        _exit(127); /* the parent died before it could be asked for */
    }
    setpgid(0, 0);
    reset_signals();
    if (dup2(plan->files->in, STDIN_FILENO) >= 0 &&
        (plan->files->out == STDOUT_FILENO || dup2(plan->files->out, STDOUT_FILENO) >= 0) &&
        dup2(plan->files->err, STDERR_FILENO) >= 0) {
        execve("/bin/sh", plan->arguments, plan->environment);
    }
    plan->error = errno;
    _exit(127);
}

static __attribute__((noinline)) pid_t start_child(struct plan *plan)
{
    pid_t pid = vfork();

    if (pid == 0) {
        run_child(plan);
    }
    return pid;
}

int spawn_shell(const char *command, char *const *environment, const struct spawn_files *files,
                pid_t *ret_pid)
{
    char shell[] = "sh";
    char dash_c[] = "-c";
    char *copy = strdup(command);
    char *arguments[] = {shell, dash_c, copy, NULL};
    struct plan plan = {arguments, environment, files, getpid(), 0};
    sigset_t all;
    sigset_t before;
    pid_t pid;

    if (!copy) {
        return ENOMEM;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = start_child(&plan);
    if (pid < 0) {
        plan.error = errno;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    free(copy);
    if (pid > 0 && plan.error) {
        waitpid(pid, NULL, 0);
    } else if (pid > 0) {
        *ret_pid = pid;
    }
    return plan.error;
}
