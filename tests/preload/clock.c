/*
 * clock.c - another time of day, for a server that was started with this library in LD_PRELOAD
 * (scripts/postgres-cluster start --preload).
 *
 * The file `clock` beside the server's data directory says by how many seconds its clock is ahead
 * of ours, or behind it; without the file it is right. It may be written at any time: all processes
 * of the server read it whenever they look at the clock, which is then set for them. The server
 * works in its data directory, so the file is at ../clock for all of them.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define OFFSET "../clock"

#define EXPORTED __attribute__((visibility("default")))
#define NEXT(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

/* Keeps errno. */
static long long ahead_s(void)
{
    int kept = errno;
    char text[32];
    long long seconds = 0;
    int file = open(OFFSET, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        ssize_t length = read(file, text, sizeof text - 1);
        text[length > 0 ? length : 0] = '\0';
        seconds = strtoll(text, NULL, 10);
        close(file);
    }
    errno = kept;
    return seconds;
}

EXPORTED int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int result = NEXT(gettimeofday)(now, zone);
    now->tv_sec += ahead_s();
    return result;
}

EXPORTED int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = NEXT(clock_gettime)(clock, now);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
        now->tv_sec += ahead_s();
    }
    return result;
}

EXPORTED time_t time(time_t *ret_now)
{
    time_t now = NEXT(time)(NULL) + ahead_s();
    if (ret_now) {
        *ret_now = now;
    }
    return now;
}
