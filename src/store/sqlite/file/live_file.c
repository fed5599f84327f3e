/*
 * live_file.c - live files as they are on the disk. See live_file.h.
 */
#include "store/sqlite/file/live_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text/hex.h"
#include "store/sqlite/sqlite.h"

#define TOKEN_HEX_BYTES ((size_t)2 * STORE_TOKEN_BYTES)

/* ---- Names ----------------------------------------------------------------------------------- */

char *live_file_path(const struct sqlite_engine *engine, const uint8_t token[STORE_TOKEN_BYTES],
                     const char *suffix)
{
    size_t prefix = strlen(engine->files.live);
    size_t bytes = prefix + TOKEN_HEX_BYTES + strlen(suffix) + 1;
    char *path = mem_alloc(bytes);
    if (path) {
        memcpy(path, engine->files.live, prefix);
        snprintf(hex_write(path + prefix, token, STORE_TOKEN_BYTES),
                 bytes - prefix - TOKEN_HEX_BYTES, "%s", suffix);
    }
    return path;
}

/* The token in the end of a name, behind which the suffix stands and nothing else. */
static bool token_parse(const char *hex, const char *suffix, uint8_t out[STORE_TOKEN_BYTES])
{
    return strspn(hex, "0123456789abcdef") == TOKEN_HEX_BYTES &&
           strcmp(hex + TOKEN_HEX_BYTES, suffix) == 0 && hex_read(hex, STORE_TOKEN_BYTES, out);
}

/* ---- One file -------------------------------------------------------------------------------- */

bool live_file_lock(int fd)
{
    return files_lock_bytes(fd, 0, 0, F_WRLCK);
}

bool live_file_is_locked(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

static bool is_genuine(int fd, const struct live_head *head)
{
    struct stat found;
    return head->magic == LIVE_MAGIC && fstat(fd, &found) == 0 && found.st_ino == head->inode;
}

bool live_file_read_head(int fd, struct live_head *out)
{
    return pread(fd, out, sizeof *out, 0) == (ssize_t)sizeof *out && is_genuine(fd, out);
}

bool live_file_read(int fd, struct live_file *out)
{
    size_t done = 0;
    ssize_t length;
    do {
        length = pread(fd, (char *)out + done, sizeof *out - done, (off_t)done);
        done += length > 0 ? (size_t)length : 0;
    } while (done < sizeof *out && (length > 0 || (length < 0 && errno == EINTR)));
    return done == sizeof *out && is_genuine(fd, &out->head);
}

/* ---- All files ------------------------------------------------------------------------------- */

static void open_one(struct sqlite_engine *engine, const uint8_t token[STORE_TOKEN_BYTES],
                     const char *suffix, live_file_fn found, void *ctx)
{
    char *path = live_file_path(engine, token, suffix);
    int fd = path ? files_open_read(&engine->files, path) : -1;
    mem_free(path);
    if (fd >= 0) {
        found(engine, fd, token, ctx);
        close(fd);
    }
}

void live_file_each(struct sqlite_engine *engine, const char *suffix, live_file_fn found, void *ctx)
{
    const char *base = engine->files.live + (engine->files.name - engine->files.db);
    size_t base_length = strlen(base);
    int fd = openat(engine->files.directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        uint8_t token[STORE_TOKEN_BYTES];
        if (strncmp(entry->d_name, base, base_length) == 0 &&
            token_parse(entry->d_name + base_length, suffix, token) &&
            memcmp(token, engine->token, STORE_TOKEN_BYTES) != 0) {
            open_one(engine, token, suffix, found, ctx);
        }
    }
    if (directory) {
        closedir(directory);
    } else if (fd >= 0) {
        close(fd);
    }
}
