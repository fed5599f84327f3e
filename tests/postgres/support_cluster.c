/*
 * support_cluster.c - see support_cluster.h. The work is done by scripts/postgres-cluster and the
 * server's own programs, as the user that owns the server's files.
 */
#include "postgres/support_cluster.h"

#include "base/time/clock.h"
#include "support/check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMMAND_BYTES 2048

static const char *root(void)
{
    const char *given = getenv("ROOT");
    return given ? given : ".";
}

/* The first line that a command prints. */
static void run_shell(char *out, size_t out_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void run_shell(char *out, size_t out_bytes, const char *format, ...)
{
    char command[COMMAND_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    FILE *pipe = popen(command, "r");
    must_hold(pipe);
    if (!fgets(out, (int)out_bytes, pipe)) {
        out[0] = '\0';
    }
    out[strcspn(out, "\n")] = '\0';
    must_equal(0, pclose(pipe));
}

void cluster_start(struct cluster *cluster)
{
    run_shell(cluster->dir, sizeof cluster->dir,
              "'%s/scripts/postgres-cluster' start --durable --with %d", root(), (int)getpid());
}

void cluster_start_with(struct cluster *cluster, const char *preload)
{
    const char *build = getenv("BUILD");
    run_shell(cluster->dir, sizeof cluster->dir,
              "'%s/scripts/postgres-cluster' start --durable --with %d "
              "--preload '%s/tests/preload/%s.so'",
              root(), (int)getpid(), build ? build : "build/faults", preload);
}

void cluster_stop(struct cluster *cluster)
{
    char none[16];
    run_shell(none, sizeof none, "'%s/scripts/postgres-cluster' stop %s", root(), cluster->dir);
}

void cluster_pattern(const struct cluster *cluster, char *out, size_t out_bytes)
{
    snprintf(out, out_bytes, "postgresql:///{database}?host=%s&user=holdfast", cluster->dir);
}

void cluster_database(const struct cluster *cluster, const char *name, char *out, size_t out_bytes)
{
    char none[16];
    run_shell(none, sizeof none, "'%s/scripts/postgres-cluster' createdb %s %s", root(),
              cluster->dir, name);
    run_shell(out, out_bytes, "'%s/scripts/postgres-cluster' url %s %s", root(), cluster->dir,
              name);
}

/* The directory of the server's programs, as the server noted it when it was started. */
static void programs_of(const struct cluster *cluster, char out[512])
{
    char path[512];
    snprintf(path, sizeof path, "%s/data/postmaster.opts", cluster->dir);
    FILE *options = fopen(path, "r");
    must_hold(options && fgets(out, 512, options));
    fclose(options);
    out[strcspn(out, " \n")] = '\0'; /* .../bin/postgres */
    char *slash = strrchr(out, '/');
    must_hold(slash);
    *slash = '\0';
}

/* Runs words for a shell as the owner of the server's files; the wait status. */
static int run_as_owner(const struct cluster *cluster, const char *command)
{
    char data[300];
    struct stat owner;
    int status;
    snprintf(data, sizeof data, "%s/data", cluster->dir);
    must_equal(0, stat(data, &owner));
    pid_t child = fork();
    must_hold(child >= 0);
    if (child == 0) {
        if (getuid() == 0 && (setgid(owner.st_gid) != 0 || setuid(owner.st_uid) != 0)) {
            _exit(1);
        }
        if (chdir("/") != 0 || !freopen("/dev/null", "w", stdout)) {
            _exit(1);
        }
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(1);
    }
    must_equal(child, waitpid(child, &status, 0));
    return status;
}

void cluster_run(const struct cluster *cluster, const char *program, const char *format, ...)
{
    char programs[512];
    char words[COMMAND_BYTES];
    char command[2 * COMMAND_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    programs_of(cluster, programs);
    snprintf(command, sizeof command, "exec '%s/%s' %s", programs, program, words);
    must_equal(0, run_as_owner(cluster, command));
}

void cluster_crash(struct cluster *cluster)
{
    cluster_run(cluster, "pg_ctl", "-D '%s/data' -m immediate -w -l '%s/log' restart", cluster->dir,
                cluster->dir);
}

void cluster_revive(struct cluster *cluster)
{
    char none[16];
    run_shell(none, sizeof none, "'%s/scripts/postgres-cluster' revive %s", root(), cluster->dir);
}

/* The number of its first process, which notes it; 0: it has ended in good order. */
static pid_t first_process(const struct cluster *cluster)
{
    char path[512];
    char line[64] = "";
    snprintf(path, sizeof path, "%s/data/postmaster.pid", cluster->dir);
    FILE *file = fopen(path, "r");
    if (file) {
        (void)!fgets(line, sizeof line, file);
        fclose(file);
    }
    return (pid_t)strtol(line, NULL, 10);
}

bool cluster_lives(const struct cluster *cluster)
{
    pid_t pid = first_process(cluster);
    return pid > 1 && kill(pid, 0) == 0;
}

void cluster_kill(struct cluster *cluster)
{
    char programs[512];
    char command[COMMAND_BYTES];
    programs_of(cluster, programs);
    pid_t pid = first_process(cluster);
    must_hold(pid > 1);
    must_equal(0, kill(pid, SIGKILL));
    /* While its other processes have not noticed, the server refuses to start. */
    snprintf(command, sizeof command,
             "exec '%s/pg_ctl' -D '%s/data' -w -l '%s/log' start 2>/dev/null", programs,
             cluster->dir, cluster->dir);
    int64_t until_us = clock_mono_us() + DEADLINE_MS * INT64_C(1000);
    while (run_as_owner(cluster, command) != 0) {
        must_hold(clock_mono_us() < until_us);
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
}
