/* support_actor.c - see support_actor.h. */
#include "support_actor.h"

#include "support/rig.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define MARK "--part="

extern char **environ;

bool actor_is_asked_for(int argc, char **argv)
{
    return argc > 1 && strncmp(argv[1], MARK, strlen(MARK)) == 0;
}

int actor_run(int argc, char **argv, const struct part *parts, size_t count)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(argv[1] + strlen(MARK), parts[i].name) == 0) {
            return parts[i].run(argc - 2, argv + 2);
        }
    }
    fprintf(stderr, "no part %s\n", argv[1]);
    return 99;
}

pid_t actor_start(const char *part, ...)
{
    char mark[64];
    char *argv[ACTOR_ARGS_MAX + 3] = {(char[]){"child"}, mark};
    va_list args;
    pid_t pid = -1;
    int argc = 2;

    snprintf(mark, sizeof mark, MARK "%s", part);
    va_start(args, part);
    while (argc < ACTOR_ARGS_MAX + 2 && (argv[argc] = va_arg(args, char *))) {
        argc++;
    }
    va_end(args);
    argv[argc] = NULL;
    assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
    return pid;
}

int actor_wait(pid_t pid)
{
    int64_t begin_us = mono_us();
    int status = -1;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (mono_us() > begin_us + 2 * DEADLINE_MS * 1000) {
            actor_kill(pid);
            return -1;
        }
        rest_since(begin_us);
    }
    return status;
}

void actor_kill(pid_t pid)
{
    if (pid <= 0) {
        return;
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* Returns when every thread of it stands: until then one may still take a lock. */
static void stop_all_threads(pid_t pid)
{
    int status = 0;

    kill(pid, SIGSTOP);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
}

void actor_freeze(struct scene *scene, pid_t pid)
{
    const char *patterns[] = {"none"};
    hf_subscription_options options = quick_options();
    hf_options impatient = scene->options;
    hf_status status = HF_TIMEOUT;
    hf_bus *probe = scene_open(scene, NULL);

    assert_ok(hf_subscription_create(probe, "probe", patterns, 1, &options, NULL));
    scene_close(scene, probe);
    impatient.timeout_ms = 3000;
    probe = scene_open(scene, &impatient);
    for (int i = 0; i < 10 && status != HF_OK; i++) {
        stop_all_threads(pid);
        status = hf_pause(probe, "probe", "is the database free?");
        if (!status) {
            status = hf_resume(probe, "probe");
        }
        if (status) {
            kill(pid, SIGCONT);
        }
    }
    scene_close(scene, probe);
    if (status) {
        actor_kill(pid);
    }
    assert_ok(status);
}

int actor_consume(const char *url, const char *diary, hf_handler_fn handle, hf_handler_fn second)
{
    hf_bus *bus = NULL;

    if (hf_open(url, NULL, &bus) != HF_OK ||
        hf_subscribe(bus, "a", "*", handle, NULL, NULL, NULL) != HF_OK ||
        (second && hf_subscribe(bus, "b", "*", second, NULL, NULL, NULL) != HF_OK) ||
        hf_start(bus) != HF_OK) {
        fprintf(stderr, "%s\n", hf_errmsg());
        return 1;
    }
    while (diary_count(diary, "END") == 0) {
        usleep(5000);
    }
    return hf_close(&bus) == HF_OK ? 0 : 1;
}

void diary_write(const char *path, const char *format, ...)
{
    int fd = rig_append_open(path);
    va_list args;

    va_start(args, format);
    rig_append_args(fd, format, args);
    va_end(args);
    close(fd);
}

/* Takes the padding off a whole line (rig.c). */
static void trim(char *line)
{
    char *end = strchr(line, '\n');

    if (!end) {
        return;
    }
    while (end > line && end[-1] == ' ') {
        end--;
    }
    end[0] = '\n';
    end[1] = '\0';
}

/* The number of lines with the prefix; of `max` of them, from `index` on, the numbers behind it. */
static size_t diary_each(const char *path, const char *prefix, size_t index, int64_t *numbers,
                         size_t max)
{
    FILE *file = fopen(path, "re");
    size_t prefix_bytes = strlen(prefix);
    char line[1024];
    size_t count = 0;

    if (!file) {
        return 0;
    }
    while (fgets(line, sizeof line, file)) {
        trim(line); /* first: a prefix may have the end of its line */
        if (strncmp(line, prefix, prefix_bytes) != 0) {
            continue;
        }
        if (count >= index && count - index < max) {
            numbers[count - index] = strtoll(line + prefix_bytes, NULL, 10);
        }
        count++;
    }
    fclose(file);
    return count;
}

size_t diary_count(const char *path, const char *prefix)
{
    return diary_each(path, prefix, 0, NULL, 0);
}

bool diary_wait(const char *path, const char *prefix, size_t count)
{
    int64_t begin_us = mono_us();

    while (diary_count(path, prefix) < count) {
        if (mono_us() > begin_us + DEADLINE_MS * 1000) {
            return false;
        }
        rest_since(begin_us);
    }
    return true;
}

int64_t diary_number(const char *path, const char *prefix, size_t index)
{
    int64_t number = -1;

    diary_each(path, prefix, index, &number, 1);
    return number;
}

size_t diary_numbers(const char *path, const char *prefix, int64_t *numbers, size_t max)
{
    size_t count = diary_each(path, prefix, 0, numbers, max);

    return count < max ? count : max;
}
