/*
 * sign.c - a sign of life: a lock on the database's directory. See sign.h.
 *
 * The locks are OFD locks like those of the gate: they belong to the open directory, work between
 * two stores of one process, and go with the process however it ends. They are shared locks,
 * because a directory cannot be opened for writing; a process that checks one asks as if for an
 * exclusive lock.
 *
 * The range of a token begins at its first 47 bits: two of the stores that are open at once share a
 * range about never. The next byte is locked before the last one is let go, so there is always one.
 */
#include "store/sqlite/file/sign.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "store/sqlite/file/files.h"

static off_t sign_base(const uint8_t token[STORE_TOKEN_BYTES])
{
    uint64_t first = 0;
    for (int i = 0; i < 8; i++) {
        first = first << 8 | token[i];
    }
    return (off_t)(first >> 1 & ~SIGN_COUNTER_MASK);
}

int sign_open(const struct files *files, const uint8_t token[STORE_TOKEN_BYTES], uint64_t counter)
{
    int fd = openat(files->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && !files_lock_bytes(fd, sign_base(token) + (off_t)(counter & SIGN_COUNTER_MASK), 1,
                                     F_RDLCK)) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

void sign_move(int fd, const uint8_t token[STORE_TOKEN_BYTES], uint64_t counter)
{
    off_t base = sign_base(token);
    if (fd >= 0 && files_lock_bytes(fd, base + (off_t)(counter & SIGN_COUNTER_MASK), 1, F_RDLCK)) {
        files_lock_bytes(fd, base + (off_t)((counter - 1) & SIGN_COUNTER_MASK), 1, F_UNLCK);
    }
}

void sign_drop(int fd, const uint8_t token[STORE_TOKEN_BYTES])
{
    if (fd >= 0) {
        files_lock_bytes(fd, sign_base(token), (off_t)SIGN_COUNTER_MASK + 1, F_UNLCK);
    }
}

bool sign_read(int fd, const uint8_t token[STORE_TOKEN_BYTES], uint64_t *ret_counter)
{
    off_t base = sign_base(token);
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = base,
                         .l_len = (off_t)SIGN_COUNTER_MASK + 1};
    if (fd < 0 || fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) {
        return false;
    }
    *ret_counter = (uint64_t)(lock.l_start - base) & SIGN_COUNTER_MASK;
    return true;
}
