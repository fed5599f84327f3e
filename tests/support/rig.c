/* rig.c - see rig.h. */
#include "support/rig.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* ---- Chance ---------------------------------------------------------------------------------- */

void chance_seed(struct chance *chance, uint64_t seed)
{
    chance->state = seed;
}

/* splitmix64 */
uint64_t chance_next(struct chance *chance)
{
    uint64_t z = chance->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t chance_below(struct chance *chance, uint64_t below)
{
    return chance_next(chance) % below;
}

bool chance_percent(struct chance *chance, int percent)
{
    return chance_below(chance, 100) < (uint64_t)percent;
}

void chance_id(struct chance *chance, char id[HF_ID_BYTES])
{
    uint64_t high = chance_next(chance) & UINT64_C(0x7fffffffffff0fff);
    uint64_t low = chance_next(chance) & UINT64_C(0x3fffffffffffffff);

    snprintf(id, HF_ID_BYTES, "%08llx-%04llx-%04llx-%04llx-%012llx",
             (unsigned long long)(high >> 32), (unsigned long long)(high >> 16 & 0xffff),
             (unsigned long long)(high & 0xffff) | 0x4000ULL,
             (unsigned long long)(low >> 48) | 0x8000ULL,
             (unsigned long long)(low & UINT64_C(0xffffffffffff)));
}

void rig_derived_id(const char *id, char derived[HF_ID_BYTES])
{
    const char *digits = "0123456789abcdef";

    memcpy(derived, id, HF_ID_BYTES);
    derived[0] = digits[(strchr(digits, id[0]) - digits) | 8];
}

/* FNV-1a, then mixed. */
uint64_t rig_hash(const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return hash ^ (hash >> 29);
}

int64_t rig_mono_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* ---- Processes ------------------------------------------------------------------------------- */

pid_t rig_start(const char *first, ...)
{
    char *argv[RIG_ARGS_MAX + 3] = {(char[]){"torture"}};
    char *copy = strdup(first);
    va_list args;
    pid_t pid = -1;
    int argc = 2;

    argv[1] = copy;
    va_start(args, first);
    while (argc < RIG_ARGS_MAX + 2 && (argv[argc] = va_arg(args, char *))) {
        argc++;
    }
    va_end(args);
    argv[argc] = NULL;
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ) != 0) {
        abort();
    }
    free(copy);
    return pid;
}

void rig_child(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

int rig_wait(pid_t pid, int64_t timeout_ms)
{
    int64_t end_us = rig_mono_us() + timeout_ms * 1000;
    int status = -1;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (rig_mono_us() > end_us) {
            rig_kill(pid);
            return -1;
        }
        usleep(1000);
    }
    return status;
}

void rig_kill(pid_t pid)
{
    if (pid <= 0) {
        return;
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* ---- Files ----------------------------------------------------------------------------------- */

void rig_directory(char path[RIG_PATH_BYTES])
{
    const char *temp = getenv("TMPDIR");

    snprintf(path, RIG_PATH_BYTES, "%s/torture.XXXXXX", temp ? temp : "/tmp");
    if (!mkdtemp(path)) {
        abort();
    }
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

void rig_remove(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

int rig_append_open(const char *path)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);

    if (fd < 0) {
        abort();
    }
    return fd;
}

void rig_append(int fd, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    rig_append_args(fd, format, args);
    va_end(args);
}

_Static_assert(4096 % RIG_LINE_BYTES == 0, "a line must not lie in two pages");

void rig_append_args(int fd, const char *format, va_list args)
{
    char line[RIG_LINE_BYTES];
    int length = vsnprintf(line, sizeof line, format, args);

    if (length < 0) {
        abort();
    }
    if (length > RIG_LINE_BYTES - 2) {
        length = RIG_LINE_BYTES - 2;
    }
    memset(line + length, ' ', sizeof line - (size_t)length);
    line[RIG_LINE_BYTES - 1] = '\n';
    if (write(fd, line, sizeof line) != (ssize_t)sizeof line) {
        abort();
    }
}

/* ---- Arguments and results ------------------------------------------------------------------- */

int64_t rig_option(int argc, char **argv, const char *name, int64_t otherwise)
{
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return strtoll(argv[i + 1], NULL, 10);
        }
    }
    return otherwise;
}

uint64_t rig_seed(int argc, char **argv)
{
    struct timespec now;
    int64_t drawn;

    clock_gettime(CLOCK_REALTIME, &now);
    drawn = (now.tv_sec * 1000003 + now.tv_nsec / 1000 + getpid()) & 0x7fffffff;
    drawn = rig_option(argc, argv, "--seed", drawn);
    rig_say("seed %lld", (long long)drawn);
    return (uint64_t)drawn;
}

static int results;
static int failures;

void rig_ok(bool passed, const char *format, ...)
{
    va_list args;

    results++;
    failures += !passed;
    printf("%sok %d - ", passed ? "" : "not ", results);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
}

void rig_say(const char *format, ...)
{
    va_list args;

    printf("# ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
}

int rig_done(void)
{
    printf("1..%d\n", results);
    return failures ? 1 : 0;
}
