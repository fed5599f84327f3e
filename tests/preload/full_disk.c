/*
 * full_disk.c - a disk that is full, for a server that was started with this library in LD_PRELOAD
 * (scripts/postgres-cluster start --preload).
 *
 * While a file `full` lies beside the server's data directory, no file of the data directory grows
 * whose path contains what is written in it: `/base/` are the tables and indexes, `/pg_wal/` is the
 * log, `/data/` is everything. What a file has already can be written again, as on a real disk. The
 * server works in its data directory, so the flag is at ../full for all its processes.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FLAG "../full"
#define PART_BYTES 64

#define EXPORTED __attribute__((visibility("default")))
#define NEXT(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

/* What the flag says; false: there is none. */
static bool read_flag(char part[PART_BYTES])
{
    int flag = open(FLAG, O_RDONLY | O_CLOEXEC);
    if (flag < 0) {
        return false;
    }
    ssize_t length = read(flag, part, PART_BYTES - 1);
    close(flag);
    part[length > 0 ? length : 0] = '\0';
    part[strcspn(part, "\n")] = '\0';
    return part[0] != '\0';
}

/* Whether the disk has no room for a file that ends at `end`. Keeps errno. */
static bool is_full(int fd, off_t end)
{
    int kept = errno;
    struct stat facts;
    char part[PART_BYTES];
    char link[64];
    char path[PATH_MAX];
    bool full = false;
    if (fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && end > facts.st_size &&
        read_flag(part)) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, path, sizeof path - 1);
        path[length > 0 ? length : 0] = '\0';
        full = strstr(path, part) != NULL;
    }
    errno = kept;
    return full;
}

EXPORTED ssize_t write(int fd, const void *bytes, size_t length)
{
    if (is_full(fd, lseek(fd, 0, SEEK_CUR) + (off_t)length)) {
        errno = ENOSPC;
        return -1;
    }
    return NEXT(write)(fd, bytes, length);
}

EXPORTED ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    if (is_full(fd, offset + (off_t)length)) {
        errno = ENOSPC;
        return -1;
    }
    return NEXT(pwrite)(fd, bytes, length, offset);
}

EXPORTED ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    off_t end = offset;
    for (int i = 0; i < count; i++) {
        end += (off_t)parts[i].iov_len;
    }
    if (is_full(fd, end)) {
        errno = ENOSPC;
        return -1;
    }
    return NEXT(pwritev)(fd, parts, count, offset);
}

EXPORTED int posix_fallocate(int fd, off_t offset, off_t length)
{
    if (is_full(fd, offset + length)) {
        return ENOSPC;
    }
    return NEXT(posix_fallocate)(fd, offset, length);
}

/* The names of the same functions in a server that was compiled for large files. */
EXPORTED ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t offset)
    __attribute__((alias("pwrite")));
EXPORTED ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t offset)
    __attribute__((alias("pwritev")));
EXPORTED int posix_fallocate64(int fd, off_t offset, off_t length)
    __attribute__((alias("posix_fallocate")));
