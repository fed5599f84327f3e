/*
 * exec.c - the life of one child process.
 *
 * One poll loop serves its stdin, stdout, stderr and its end (a pidfd), so nothing can block
 * something else: a child that never reads, one that writes much, one that closes its output and
 * goes on. Its end is what counts, not the end of its output: a background process that it leaves
 * behind may keep the pipes open for ever.
 *
 * At the time limit the whole process group gets SIGTERM and after the grace SIGKILL. Signals are
 * sent only while the child has not been waited for, so its number cannot belong to another
 * process.
 */
#include "cli/work/exec.h"

#include "base/banned.h"
#include "base/time/clock.h"
#include "cli/core/guard.h"
#include "cli/core/spawn.h"
#include "cli/terminal/out.h"
#include "cli/terminal/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#define LINE_BYTES_MAX 65536    /* of a line that is kept whole */
#define DRAIN_BYTES_MAX 1048576 /* read after the child's end */
#define CANCEL_PERIOD_MS 100

/* A pipe from the child, passed on to one of our descriptors by whole lines. */
struct pass {
    int fd; /* -1: closed */
    int target;
    char *bytes; /* LINE_BYTES_MAX, NULL if nothing is passed */
    size_t length;
};

struct child {
    const struct exec_job *job;
    struct exec_result *result;
    pid_t pid;
    int pidfd;
    int in;         /* -1: closed */
    size_t written; /* of the input */
    struct pass out;
    struct pass err;
    int64_t started_us;
    int64_t term_us; /* when SIGTERM is or was sent; monotonic */
    int64_t kill_us; /* when SIGKILL follows; INT64_MAX: SIGTERM has not been sent */
};

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

/* ---- Output ---------------------------------------------------------------------------------- */

static void keep_tail(struct exec_result *result, const char *bytes, size_t length)
{
    size_t max = HF_ERROR_BYTES_MAX;

    if (length >= max) {
        memcpy(result->tail, bytes + length - max, max);
        result->tail_bytes = max;
        return;
    }
    if (result->tail_bytes + length > max) {
        size_t drop = result->tail_bytes + length - max;
        memmove(result->tail, result->tail + drop, result->tail_bytes - drop);
        result->tail_bytes -= drop;
    }
    memcpy(result->tail + result->tail_bytes, bytes, length);
    result->tail_bytes += length;
}

/* Hands the lines of a stream to the job, one by one. */
static void report_lines(void (*report)(struct text line, void *ctx), const struct exec_job *job,
                         const char *bytes, size_t length)
{
    while (length > 0) {
        const char *newline = memchr(bytes, '\n', length);
        size_t line = newline ? (size_t)(newline - bytes) : length;
        size_t used = newline ? line + 1 : line;

        report((struct text){bytes, line}, job->ctx);
        bytes += used;
        length -= used;
    }
}

/* Passes on complete lines, or, with `all`, whatever there is. */
static void pass_flush(const struct child *child, struct pass *pass, bool all)
{
    const struct exec_job *job = child->job;
    void (*report)(struct text line, void *ctx) =
        pass == &child->err ? job->stderr_line : job->stdout_line;
    const char *newline = pass->length ? memrchr(pass->bytes, '\n', pass->length) : NULL;
    size_t length = newline ? (size_t)(newline - pass->bytes) + 1 : 0;

    if (all || (length == 0 && pass->length == LINE_BYTES_MAX)) {
        length = pass->length;
    }
    if (length == 0) {
        return;
    }
    if (report) {
        report_lines(report, job, pass->bytes, length);
    } else if (!out_write(pass->target, pass->bytes, length) && pass->target == STDOUT_FILENO) {
        stop_request(); /* the reader of the commands' output is gone */
    }
    memmove(pass->bytes, pass->bytes + length, pass->length - length);
    pass->length -= length;
}

/* Reads once. False when there is nothing (more) to read now. */
static bool pass_read(struct child *child, struct pass *pass)
{
    ssize_t count;

    if (pass->fd < 0) {
        return false;
    }
    count = read(pass->fd, pass->bytes + pass->length, LINE_BYTES_MAX - pass->length);
    if (count < 0 && errno == EINTR) {
        return true;
    }
    if (count < 0 && errno == EAGAIN) {
        return false;
    }
    if (count <= 0) {
        close_fd(&pass->fd);
        return false;
    }
    if (pass == &child->err) {
        keep_tail(child->result, pass->bytes + pass->length, (size_t)count);
    }
    output_write(pass == &child->err ? child->job->err_copy : child->job->out_copy,
                 pass->bytes + pass->length, (size_t)count);
    pass->length += (size_t)count;
    pass_flush(child, pass, false);
    return true;
}

static void pass_end(struct child *child, struct pass *pass)
{
    for (size_t i = 0; i < DRAIN_BYTES_MAX / LINE_BYTES_MAX && pass_read(child, pass); i++) {
        ;
    }
    if (pass->length > 0 && pass->bytes[pass->length - 1] != '\n' &&
        pass->length < LINE_BYTES_MAX) {
        pass->bytes[pass->length++] = '\n';
    }
    if (pass->bytes) {
        pass_flush(child, pass, true);
    }
    close_fd(&pass->fd);
    free(pass->bytes);
    pass->bytes = NULL;
}

static void feed(struct child *child)
{
    const struct exec_job *job = child->job;
    ssize_t count =
        write(child->in, job->input + child->written, job->input_bytes - child->written);

    if (count < 0 && (errno == EINTR || errno == EAGAIN)) {
        return;
    }
    if (count > 0) {
        child->written += (size_t)count;
    }
    /* It has read all, or it does not want to. Neither is our business: its exit status counts. */
    if (count < 0 || child->written == job->input_bytes) {
        close_fd(&child->in);
    }
}

/* ---- Time ------------------------------------------------------------------------------------ */

static void begin_end(struct child *child, enum exec_end why, int64_t now_us)
{
    const struct exec_job *job = child->job;

    child->result->end = why;
    child->kill_us = now_us + (why == EXEC_CANCELLED ? job->cancel_grace_ms : job->grace_ms) * 1000;
    kill(-child->pid, SIGTERM);
}

static void check_time(struct child *child)
{
    int64_t now_us = clock_mono_us();

    if (child->kill_us == INT64_MAX) {
        if (now_us >= child->term_us) {
            begin_end(child, EXEC_TIMED_OUT, now_us);
        } else if (child->job->cancelled(child->job->ctx)) {
            begin_end(child, EXEC_CANCELLED, now_us);
        }
    } else if (now_us >= child->kill_us && !child->result->killed_hard) {
        child->result->killed_hard = true;
        kill(-child->pid, SIGKILL);
    }
}

static int poll_timeout_ms(const struct child *child)
{
    int64_t until_us = child->kill_us == INT64_MAX ? child->term_us : child->kill_us;
    int64_t left_ms = (until_us - clock_mono_us() + 999) / 1000;

    if (left_ms < 0) {
        left_ms = 0;
    }
    return left_ms < CANCEL_PERIOD_MS ? (int)left_ms : CANCEL_PERIOD_MS;
}

/* ---- The loop -------------------------------------------------------------------------------- */

static void serve(struct child *child)
{
    for (;;) {
        struct pollfd fds[4] = {{.fd = child->pidfd, .events = POLLIN},
                                {.fd = child->in, .events = POLLOUT},
                                {.fd = child->out.fd, .events = POLLIN},
                                {.fd = child->err.fd, .events = POLLIN}};

        if (poll(fds, 4, poll_timeout_ms(child)) > 0) {
            if (fds[1].revents) {
                feed(child);
            }
            if (fds[2].revents) {
                pass_read(child, &child->out);
            }
            if (fds[3].revents) {
                pass_read(child, &child->err);
            }
            if (fds[0].revents) {
                return;
            }
        }
        check_time(child);
    }
}

/* The child has ended: waits for it and notes how. */
static void reap(struct child *child)
{
    struct exec_result *result = child->result;
    int status = 0;

    if (child->kill_us != INT64_MAX) {
        kill(-child->pid, SIGKILL); /* whatever of its group did not obey */
    }
    guard_remove(child->pid);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
        ;
    }
    result->ran_ms = (clock_mono_us() - child->started_us) / 1000;
    if (child->kill_us != INT64_MAX) {
        return; /* how it took the signal does not matter */
    }
    if (WIFSIGNALED(status)) {
        result->end = EXEC_SIGNALLED;
        result->code = WTERMSIG(status);
    } else {
        result->end = EXEC_EXITED;
        result->code = WEXITSTATUS(status);
    }
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* Our end does not block; the child's end does, as it expects. */
static bool open_pipe(int *ours, int *theirs, bool we_write)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    *ours = ends[we_write];
    *theirs = ends[!we_write];
    fcntl(*ours, F_SETFL, O_NONBLOCK);
    return true;
}

static int start(struct child *child)
{
    struct spawn_files files = {-1, STDOUT_FILENO, -1};
    bool inherit = child->job->inherit_stdout;
    int error = 0;

    child->err.bytes = malloc(LINE_BYTES_MAX);
    child->out.bytes = inherit ? NULL : malloc(LINE_BYTES_MAX);
    if (!child->err.bytes || (!inherit && !child->out.bytes)) {
        error = ENOMEM;
    } else if (!open_pipe(&child->in, &files.in, true) ||
               !open_pipe(&child->err.fd, &files.err, false) ||
               (!inherit && !open_pipe(&child->out.fd, &files.out, false))) {
        error = errno;
    } else {
        error = spawn_shell(child->job->command, child->job->environment, &files, &child->pid);
    }
    close_fd(&files.in);
    close_fd(&files.err);
    if (!inherit && files.out != STDOUT_FILENO) {
        close_fd(&files.out);
    }
    if (error) {
        return error;
    }
    guard_add(child->pid);
    child->pidfd = pidfd_open(child->pid, 0);
    return child->pidfd < 0 ? errno : 0;
}

void exec_run(const struct exec_job *job, struct exec_result *ret_result)
{
    struct child child = {.job = job,
                          .result = ret_result,
                          .pid = -1,
                          .pidfd = -1,
                          .in = -1,
                          .out = {-1, STDOUT_FILENO, NULL, 0},
                          .err = {-1, STDERR_FILENO, NULL, 0},
                          .started_us = clock_mono_us(),
                          .kill_us = INT64_MAX};
    int error;

    ret_result->killed_hard = false;
    ret_result->code = 0;
    ret_result->ran_ms = 0;
    ret_result->tail_bytes = 0;
    child.term_us = child.started_us + job->timeout_ms * 1000;
    error = start(&child);
    if (!error) {
        serve(&child);
        reap(&child);
    } else {
        ret_result->end = EXEC_FAILED;
        ret_result->code = error;
        if (child.pid > 0) { /* it runs, but cannot be watched */
            kill(-child.pid, SIGKILL);
            guard_remove(child.pid);
            waitpid(child.pid, NULL, 0);
        }
    }
    pass_end(&child, &child.out);
    pass_end(&child, &child.err);
    close_fd(&child.in);
    close_fd(&child.pidfd);
    ret_result->tail[ret_result->tail_bytes] = '\0';
}
