/*
 * child.c - starts the test program anew in a role and talks to it through two pipes.
 */
#include "support/child.h"

#include "base/time/clock.h"
#include "support/check.h"
#include "support/fixture.h"
#include "support/postgres.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

extern char **environ;

/* Its URL: with a server its sessions can be told from ours. */
static const char *url_of(const struct fixture *fixture, struct child *child,
                          char out[2 * TEMP_PATH_BYTES])
{
    static int started;
    snprintf(child->application, sizeof child->application, "child-%d-%d", (int)getpid(),
             ++started);
    int length = snprintf(
        out, 2 * TEMP_PATH_BYTES, "%s%s%s%s", fixture->url,
        fixture->sqlite             ? ""
        : strchr(fixture->url, '?') ? "&"
                                    : "?",
        fixture->sqlite ? "" : "application_name=", fixture->sqlite ? "" : child->application);
    must_hold(length > 0 && length < 2 * TEMP_PATH_BYTES);
    return out;
}

void child_start(struct fixture *fixture, struct child *child, const char *role,
                 const char *argument)
{
    int input[2];
    int report[2];
    must_equal(0, pipe2(input, O_CLOEXEC));
    must_equal(0, pipe2(report, O_CLOEXEC));

    char url[2 * TEMP_PATH_BYTES];
    const char *const arguments[] = {"/proc/self/exe",
                                     "--role",
                                     role,
                                     url_of(fixture, child, url),
                                     fixture->namespace_name,
                                     fixture->dir,
                                     argument,
                                     check_claim_name(),
                                     NULL};
    char self[TEMP_PATH_BYTES];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    must_hold(length > 0);
    self[length] = '\0';

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    /* in this order: input[0] may be CHILD_REPORT_FD itself */
    posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, report[1], CHILD_REPORT_FD);
    char *const *vector = (char *const *)(uintptr_t)arguments;
    int failed = posix_spawn(&child->pid, self, &actions, NULL, vector, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(input[0]);
    close(report[1]);
    child->fixture = fixture;
    child->input = input[1];
    child->report = report[0];
    child->pending_bytes = 0;
    must_equal(0, failed);
}

void child_tell(struct child *child, const char *format, ...)
{
    char line[CHILD_LINE_BYTES];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    must_hold(length >= 0 && length < (int)sizeof line - 1);
    line[length] = '\n';
    must_equal(length + 1, write(child->input, line, (size_t)length + 1));
}

/* Takes a whole line out of what has been read. */
static bool pending_take(struct child *child, char line[CHILD_LINE_BYTES])
{
    char *end = memchr(child->pending, '\n', child->pending_bytes);
    if (!end) {
        return false;
    }
    size_t length = (size_t)(end - child->pending);
    memcpy(line, child->pending, length);
    line[length] = '\0';
    child->pending_bytes -= length + 1;
    memmove(child->pending, end + 1, child->pending_bytes);
    return true;
}

bool child_line(struct child *child, char line[CHILD_LINE_BYTES], int64_t timeout_ms)
{
    int64_t until_us = clock_mono_us() + timeout_ms * 1000;
    while (!pending_take(child, line)) {
        int64_t left_us = until_us - clock_mono_us();
        struct pollfd readable = {.fd = child->report, .events = POLLIN};
        int ready = poll(&readable, 1, left_us > 0 ? (int)(left_us / 1000 + 1) : 0);
        if (ready == 0) {
            return false;
        }
        if (ready < 0) {
            must_equal(EINTR, errno);
            continue;
        }
        size_t room = sizeof child->pending - child->pending_bytes;
        ssize_t got = read(child->report, child->pending + child->pending_bytes, room);
        if (got <= 0) {
            return false;
        }
        child->pending_bytes += (size_t)got;
    }
    return true;
}

int64_t child_hear(struct child *child, const char *word)
{
    char line[CHILD_LINE_BYTES];
    if (!child_line(child, line, DEADLINE_MS)) {
        check_fail(__FILE__, __LINE__, "the child ended or fell silent; \"%s\" was awaited", word);
    }
    size_t length = strlen(word);
    if (strncmp(line, word, length) != 0 || line[length] != ' ') {
        check_fail(__FILE__, __LINE__, "the child said \"%s\"; \"%s\" was awaited", line, word);
    }
    return strtoll(line + length + 1, NULL, 10);
}

static void child_close(struct child *child)
{
    close(child->input);
    close(child->report);
    child->pid = 0;
}

void child_kill(struct child *child)
{
    must_hold(child->pid > 0);
    const struct fixture *f = child->fixture;
    must_equal(0, kill(child->pid, SIGKILL));
    must_equal(child->pid, waitpid(child->pid, NULL, 0));
    child_close(child);
    if (!f->sqlite) {
        postgres_await_end(f->url, child->application);
    }
}

void child_freeze(struct child *child)
{
    int status;
    must_hold(child->pid > 0);
    must_equal(0, kill(child->pid, SIGSTOP));
    must_equal(child->pid, waitpid(child->pid, &status, WUNTRACED));
    must_hold(WIFSTOPPED(status));
}

void child_thaw(struct child *child)
{
    must_equal(0, kill(child->pid, SIGCONT));
}

void child_finish(struct child *child)
{
    int status;
    must_hold(child->pid > 0);
    close(child->input);
    child->input = -1;
    must_equal(child->pid, waitpid(child->pid, &status, 0));
    child->pid = 0;
    close(child->report);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        check_fail(__FILE__, __LINE__, "the child ended with wait status 0x%x", (unsigned)status);
    }
}

void child_discard(struct child *child)
{
    if (child->pid > 0) {
        kill(child->pid, SIGKILL);
        waitpid(child->pid, NULL, 0);
        child_close(child);
    }
}

/* ---- The child's side ------------------------------------------------------------------------ */

static void leave_process(void)
{
    _exit(70);
}

void role_prepare(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_DFL);
    check_escape(leave_process);
}

bool role_listen(char line[CHILD_LINE_BYTES])
{
    if (!fgets(line, CHILD_LINE_BYTES, stdin)) {
        return false;
    }
    line[strcspn(line, "\n")] = '\0';
    return true;
}

void role_report(const char *word, int64_t number)
{
    char line[CHILD_LINE_BYTES];
    int length = snprintf(line, sizeof line, "%s %" PRId64 "\n", word, number);
    must_hold(length > 0 && length < (int)sizeof line);
    must_equal(length, write(CHILD_REPORT_FD, line, (size_t)length));
}
