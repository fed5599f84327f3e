/*
 * child.c - starts this program again as the consumer and reads what it prints: a line when
 * it is ready, then its report, which is passed on as it is.
 */
#include "cli/bench/child.h"

#include "base/banned.h"
#include "cli/terminal/out.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#define ARGUMENTS_MAX 24

/* posix_spawn wants strings that may be changed, but does not change them. */
static char *unconst(const char *string)
{
    union {
        const char *in;
        char *out;
    } both = {.in = string};
    return both.out;
}

static size_t add_options(const struct bench *bench, char **arguments, size_t count)
{
    static const char *const passed[] = {"batch", "concurrency", "durability", "namespace"};
    const struct args *args = &bench->cli->args;
    static char texts[4][128];

    for (size_t i = 0; i < 4; i++) {
        if (!args_given(args, passed[i])) {
            continue;
        }
        snprintf(texts[i], sizeof texts[i], "--%s=%s", passed[i], args_text(args, passed[i]));
        arguments[count++] = texts[i];
    }
    if (bench->cli->json) {
        arguments[count++] = unconst("--json");
    }
    return count;
}

int bench_child_start(struct bench_child *child, const struct bench *bench, double rate,
                      int64_t events)
{
    char rate_text[64];
    char seconds[32];
    char *arguments[ARGUMENTS_MAX] = {unconst("holdfast"),  unconst("bench"),
                                      unconst("e2e"),       unconst("--consumer"),
                                      unconst("--db"),      unconst(bench->url),
                                      unconst("--rate"),    rate_text,
                                      unconst("--seconds"), seconds};
    posix_spawn_file_actions_t actions;
    int ends[2];
    int error;

    snprintf(rate_text, sizeof rate_text, "%.6f", rate);
    snprintf(seconds, sizeof seconds, "%" PRId64, (int64_t)((double)events / rate + 0.5));
    arguments[add_options(bench, arguments, 10)] = NULL;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        out_complain("cannot make a pipe: %s", strerror(errno));
        return EXIT_ERROR;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    error = posix_spawn(&child->pid, "/proc/self/exe", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    child->out = error ? NULL : fdopen(ends[0], "r");
    if (error || !child->out) {
        out_complain("cannot start the consumer: %s", strerror(error ? error : errno));
        close(ends[0]);
        return EXIT_ERROR;
    }
    return 0;
}

int bench_child_ready(struct bench_child *child)
{
    char line[64];

    if (fgets(line, sizeof line, child->out) && strcmp(line, BENCH_CHILD_READY "\n") == 0) {
        return 0;
    }
    out_complain("the consumer did not become ready");
    return EXIT_ERROR;
}

int bench_child_end(struct bench_child *child, int code)
{
    char line[4096];
    int status = 0;

    if (code) {
        kill(child->pid, SIGTERM);
    }
    while (!code && fgets(line, sizeof line, child->out)) {
        fputs(line, stdout);
    }
    fclose(child->out);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
        ;
    }
    if (code) {
        return code;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_ERROR;
}
