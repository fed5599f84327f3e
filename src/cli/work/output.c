/*
 * output.c - files in a directory, made as late as possible and never written over.
 *
 * What is kept is for people and decides nothing: when the disk is full or the directory was
 * removed, that is said once, and events are delivered as before. A subscription's name may have
 * any character, so all but letters, digits, '_' and '.' are written as %XX, and a long name is
 * cut: the position and the attempt still tell runs apart. Files are opened below the directory's
 * descriptor and must not exist, so no link that was planted there is followed.
 */
#include "cli/work/output.h"

#include "base/banned.h"
#include "cli/terminal/out.h"
#include "cli/work/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX ((size_t)64 * 1024 * 1024)
#define BASE_BYTES_MAX 128 /* of a subscription's name in the name of a file */
#define RUNS_MAX 1000      /* of one attempt */

bool output_open(struct output_dir *dir, const char *path)
{
    dir->path = path;
    dir->fd = -1;
    if (!path) {
        return true;
    }
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        out_complain("--output: the directory %s cannot be made: %s", path, strerror(errno));
        return false;
    }
    dir->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir->fd < 0 || faccessat(dir->fd, ".", W_OK | X_OK, AT_EACCESS) != 0) {
        out_complain("--output: no files can be made in %s: %s", path, strerror(errno));
        output_close(dir);
        return false;
    }
    return true;
}

void output_close(struct output_dir *dir)
{
    if (dir->path && dir->fd >= 0) {
        close(dir->fd);
    }
    dir->fd = -1;
}

/* The subscription's name as a part of a file's name. */
static void encode(const char *name, char ret_base[BASE_BYTES_MAX + 1])
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.";
    size_t length = 0;

    for (const char *at = name; *at && length + 3 <= BASE_BYTES_MAX; at++) {
        bool is_plain = strchr(plain, *at) && (at != name || *at != '.');
        length += (size_t)snprintf(ret_base + length, BASE_BYTES_MAX + 1 - length,
                                   is_plain ? "%c" : "%%%02X", (unsigned char)*at);
    }
    ret_base[length] = '\0';
}

static bool is_taken(const struct output_dir *dir, const char *name)
{
    struct stat found;
    return fstatat(dir->fd, name, &found, AT_SYMLINK_NOFOLLOW) == 0;
}

void output_begin(struct output_file *out, struct output_file *err, struct output_dir *dir,
                  const hf_event *const *events, size_t count, const hf_delivery *delivery)
{
    const char *subscription = hf_delivery_subscription(delivery);
    char base[BASE_BYTES_MAX + 1];
    char batch[24] = "";
    char run[24] = "";

    *out = (struct output_file){.dir = dir, .subscription = subscription, .fd = -1};
    *err = *out;
    if (!dir->path) {
        return;
    }
    encode(subscription, base);
    if (count > 1) {
        snprintf(batch, sizeof batch, "+%zu", count);
    }
    for (int number = 1; number <= RUNS_MAX; number++) {
        if (number > 1) {
            snprintf(run, sizeof run, "-%d", number);
        }
        snprintf(out->name, sizeof out->name, "%s-%" PRId64 "%s-%d%s.out", base,
                 events[0]->position, batch, (int)hf_delivery_attempt(delivery), run);
        snprintf(err->name, sizeof err->name, "%.*s.err", (int)strlen(out->name) - 4, out->name);
        if (!is_taken(dir, out->name) && !is_taken(dir, err->name)) {
            return;
        }
    }
}

/* Says it once for the directory. */
static void give_up(struct output_file *file, const char *why)
{
    file->is_over = true;
    if (!atomic_exchange(&file->dir->has_failed, true)) {
        work_log_complain(file->subscription,
                          "the output of commands cannot be kept: %s/%s: %s; events are delivered "
                          "all the same",
                          file->dir->path, file->name, why);
    }
}

static bool write_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t count = write(fd, bytes, length);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return false;
        }
        bytes += count;
        length -= (size_t)count;
    }
    return true;
}

void output_write(struct output_file *file, const char *bytes, size_t length)
{
    static const char cut[] = "\n[holdfast: more was printed than is kept]\n";

    if (!file || !file->dir || !file->dir->path || file->is_over) {
        return;
    }
    if (file->fd < 0) {
        file->fd = openat(file->dir->fd, file->name,
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
        if (file->fd < 0) {
            give_up(file, strerror(errno));
            return;
        }
    }
    size_t kept = length < FILE_BYTES_MAX - file->bytes ? length : FILE_BYTES_MAX - file->bytes;
    if (!write_all(file->fd, bytes, kept)) {
        give_up(file, strerror(errno));
        return;
    }
    file->bytes += kept;
    if (kept < length) {
        file->is_over = true;
        write_all(file->fd, cut, sizeof cut - 1);
    }
}

void output_end(struct output_file *file)
{
    if (file->fd >= 0) {
        close(file->fd);
    }
    file->fd = -1;
}
