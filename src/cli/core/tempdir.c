/*
 * tempdir.c - makes and removes a flat directory.
 *
 * /var/tmp comes before /tmp because /tmp is often in memory, and a benchmark of durable writes to
 * memory says nothing.
 */
#include "cli/core/tempdir.h"

#include "base/banned.h"
#include "cli/terminal/out.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

bool tempdir_make(struct tempdir *dir, const char *parent)
{
    const char *below = parent ? parent : getenv("TMPDIR");
    int length;

    if (!below || !below[0]) {
        below = access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp";
    }
    length = snprintf(dir->path, sizeof dir->path, "%s/holdfast-XXXXXX", below);
    if (length < 0 || (size_t)length >= sizeof dir->path) {
        out_complain("the path of the temporary directory is too long");
        return false;
    }
    if (!mkdtemp(dir->path)) {
        out_complain("cannot make a directory in %s: %s", below, strerror(errno));
        return false;
    }
    tempdir_database(dir, "holdfast.db");
    return true;
}

void tempdir_database(struct tempdir *dir, const char *name)
{
    snprintf(dir->url, sizeof dir->url, "sqlite:%s/%.32s", dir->path, name);
}

bool tempdir_in_memory(const struct tempdir *dir)
{
    struct statfs info;
    return statfs(dir->path, &info) == 0 && info.f_type == TMPFS_MAGIC;
}

void tempdir_clear(const struct tempdir *dir)
{
    DIR *stream = opendir(dir->path);
    struct dirent *entry;

    while (stream && (entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            unlinkat(dirfd(stream), entry->d_name, 0);
        }
    }
    if (stream) {
        closedir(stream);
    }
}

void tempdir_remove(const struct tempdir *dir)
{
    tempdir_clear(dir);
    rmdir(dir->path);
}
