/*
 * cost.c - what a measurement costs, small things that all measurements need, and the program's
 * errors.
 *
 * The kernel counts for each process its CPU time and the bytes that it gave to write() (wchar). Of
 * a server that is a family of processes all are counted: a parent has the counters of children
 * that have ended. Bytes are those of the server, or of this process if there is none. They are
 * what a system chose to write: a file system makes whole blocks of them at each sync, and adds its
 * journal. (write_bytes, which is to count blocks, counts up to 64 times as many where the page
 * cache has large folios.) Redis and beanstalkd answer their clients by write(), too: these few
 * bytes are in the figure.
 */
#include "peer.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

void die(const char *what, const char *why)
{
    fprintf(stderr, BENCH ": %s: %s\n", what, why);
    exit(1);
}

void *need(void *memory)
{
    if (!memory) {
        die("memory", "there is none left");
    }
    return memory;
}

void payload_make(char ret_payload[PAYLOAD_BYTES + 1], int64_t number)
{
    static const char head[] = "{\"t\":                   ,\"pad\":\"";
    /* Not by printf, which would take a tenth of the time in which SQLite stores an event. */
    memcpy(ret_payload, head, sizeof head - 1);
    for (int at = 23; at > 4 && (number > 0 || at == 23); at--) {
        ret_payload[at] = (char)('0' + number % 10);
        number /= 10;
    }
    memset(ret_payload + sizeof head - 1, 'x', PAYLOAD_BYTES - sizeof head - 1);
    memcpy(ret_payload + PAYLOAD_BYTES - 2, "\"}", 3);
}

int64_t payload_number(const char *payload)
{
    const char *colon = memchr(payload, ':', PAYLOAD_BYTES);
    return colon ? strtoll(colon + 1, NULL, 10) : 0;
}

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void sleep_until_ns(int64_t at_ns)
{
    struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {
        ;
    }
}

/* ---- Cost ------------------------------------------------------------------------------------ */

/* Reads a small file of /proc/PID; false: the process has gone, or may not be looked at. */
static bool read_of(long pid, const char *name, char *ret_text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/%s", pid, name);
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(ret_text, 1, size - 1, file) : 0;
    ret_text[length] = '\0';
    if (file) {
        fclose(file);
    }
    return length > 0;
}

static void add_process(struct cost *cost, long pid, bool with_ended)
{
    char text[2048];
    unsigned long user = 0;
    unsigned long system = 0;
    long ended_user = 0;
    long ended_system = 0;
    const char *at = read_of(pid, "stat", text, sizeof text) ? strrchr(text, ')') : NULL;
    if (at) {
        sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld", &user,
               &system, &ended_user, &ended_system);
    }
    double ticks = (double)(user + system);
    ticks += with_ended ? (double)(ended_user + ended_system) : 0;
    cost->cpu += ticks / (double)sysconf(_SC_CLK_TCK);
    at = read_of(pid, "io", text, sizeof text) ? strstr(text, "\nwchar:") : NULL;
    cost->bytes += at ? strtod(at + 7, NULL) : 0;
}

static long parent_of(long pid)
{
    char text[2048];
    const char *at = read_of(pid, "stat", text, sizeof text) ? strrchr(text, ')') : NULL;
    long parent = 0;
    if (at) {
        sscanf(at + 1, " %*c %ld", &parent);
    }
    return parent;
}

struct cost cost_now(long server)
{
    struct cost cost = {0};
    struct rusage own;
    getrusage(RUSAGE_SELF, &own);
    add_process(&cost, server == 0 ? getpid() : server, true);
    cost.cpu = server == 0 ? 0 : cost.cpu;
    cost.cpu += (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec) +
                (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec) / 1e6;
    if (server == 0) {
        return cost;
    }
    DIR *dir = opendir("/proc");
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        long pid = strtol(entry->d_name, NULL, 10);
        if (isdigit((unsigned char)entry->d_name[0]) && pid != server && pid != getpid() &&
            parent_of(pid) == server) {
            add_process(&cost, pid, false);
        }
    }
    if (dir) {
        closedir(dir);
    }
    return cost;
}

void cost_add(struct result *result, const struct cost *before, long server)
{
    struct cost now = cost_now(server);
    result->cpu += now.cpu - before->cpu;
    result->bytes += now.bytes - before->bytes;
}

/* ---- Latencies ------------------------------------------------------------------------------- */

void latencies_add(struct latencies *latencies, double ms)
{
    if (latencies->count == latencies->room) {
        latencies->room = latencies->room > 0 ? latencies->room * 2 : 1024;
        latencies->ms =
            need(realloc(latencies->ms, (size_t)latencies->room * sizeof latencies->ms[0]));
    }
    latencies->ms[latencies->count++] = ms;
}

void latencies_end(struct latencies *latencies, struct result *ret_result)
{
    if (latencies->count > 0) {
        qsort(latencies->ms, (size_t)latencies->count, sizeof latencies->ms[0], compare);
        ret_result->p50_ms = latencies->ms[latencies->count / 2];
        ret_result->p99_ms = latencies->ms[latencies->count * 99 / 100];
    }
    free(latencies->ms);
    *latencies = (struct latencies){0};
}
