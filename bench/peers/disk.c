/*
 * disk.c - the disk alone: what is due is written over a file and synced, and nothing else is done.
 *
 * No durable system on this disk can be quicker. Like a write-ahead log the file has its size
 * already, and a write begins where the last one ended.
 */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define FILE_BYTES (4 << 20)
#define BLOCK_BYTES 4096
#define BLOCK_EVENTS (BLOCK_BYTES / PAYLOAD_BYTES)

static int file_make(const char *path)
{
    static char zeros[FILE_BYTES];
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, zeros, sizeof zeros) != sizeof zeros || fsync(fd) != 0) {
        die(path, strerror(errno));
    }
    return fd;
}

/* Writes and syncs so many blocks. */
static void file_sync(int fd, int64_t blocks, off_t *at)
{
    static char data[FILE_BYTES];
    size_t bytes = (size_t)blocks * BLOCK_BYTES;
    bytes = bytes < sizeof data ? bytes : sizeof data;
    *at = *at + (off_t)bytes > FILE_BYTES ? 0 : *at;
    if (pwrite(fd, data, bytes, *at) != (ssize_t)bytes || fdatasync(fd) != 0) {
        die("a write", strerror(errno));
    }
    *at += (off_t)bytes;
}

void disk_latency(const struct task *task, struct result *ret_result)
{
    struct latencies latencies = {0};
    long long events = (long long)(task->rate * task->seconds);
    double gap_ns = 1e9 / task->rate;
    int fd = file_make(task->address);
    off_t at = 0;
    struct cost before = cost_now(task->server);
    int64_t start_ns = now_ns() + 1000000;
    for (long long done = 0; done < events;) {
        int64_t due_ns = start_ns + (int64_t)((double)done * gap_ns);
        if (due_ns > now_ns()) {
            sleep_until_ns(due_ns);
        }
        long long due = (long long)((double)(now_ns() - start_ns) / gap_ns) + 1;
        due = due < events ? due : events;
        file_sync(fd, (due - done + BLOCK_EVENTS - 1) / BLOCK_EVENTS, &at);
        for (int64_t end_ns = now_ns(); done < due; done++) {
            double was_due_ns = (double)start_ns + (double)done * gap_ns;
            latencies_add(&latencies, ((double)end_ns - was_due_ns) / 1e6);
        }
    }
    ret_result->seconds = (double)(now_ns() - start_ns) / 1e9;
    ret_result->events = events;
    cost_add(ret_result, &before, task->server);
    latencies_end(&latencies, ret_result);
    close(fd);
}
