/*
 * files.c - the database's path, the names beside it, and whether it is still the same file.
 *
 * Why identity matters: a program that replaces the database by a copy (mv, a restore, an editor),
 * or that deletes it, leaves us writing to a file that no name leads to. SQLite does not notice,
 * and everything acknowledged from then on is lost when we close. So before each acknowledgement
 * the inodes behind the names are compared with those of the beginning, by statx of the inode
 * number alone: asking for times, as stat does, makes newer kernels write them more precisely from
 * then on, which costs a third of the commit rate. The names are looked up in the directory
 * itself, which is kept open, because that too is paid for by every commit.
 */
#include "store/sqlite/files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"

#ifndef CIFS_SUPER_MAGIC
#define CIFS_SUPER_MAGIC 0xFF534D42
#endif
#ifndef SMB2_SUPER_MAGIC
#define SMB2_SUPER_MAGIC 0xFE534D42
#endif
#ifndef AFS_SUPER_MAGIC
#define AFS_SUPER_MAGIC 0x5346414F
#endif
#ifndef CEPH_SUPER_MAGIC
#define CEPH_SUPER_MAGIC 0x00c36400
#endif
#ifndef LUSTRE_SUPER_MAGIC
#define LUSTRE_SUPER_MAGIC 0x0BD00BD0
#endif

static bool identify_at(int directory, const char *path, struct file_identity *ret_identity)
{
    struct statx found;
    if (statx(directory, path, AT_STATX_DONT_SYNC, STATX_INO, &found) != 0) {
        return false;
    }
    ret_identity->inode = found.stx_ino;
    ret_identity->device = makedev(found.stx_dev_major, found.stx_dev_minor);
    return true;
}

bool file_identify(const char *path, struct file_identity *ret_identity)
{
    return identify_at(AT_FDCWD, path, ret_identity);
}

/* The network filesystem that the directory of `path` is on; NULL if it is none. */
static const char *network_filesystem(const char *path)
{
    char directory[4096];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    if (length >= sizeof directory) {
        return NULL;
    }
    if (slash && length == 0) {
        snprintf(directory, sizeof directory, "/");
    } else if (slash) {
        memcpy(directory, path, length);
        directory[length] = '\0';
    } else {
        snprintf(directory, sizeof directory, ".");
    }
    struct statfs found;
    if (statfs(path, &found) != 0 && statfs(directory, &found) != 0) {
        return NULL; /* opening it will say why */
    }
    switch ((uint32_t)found.f_type) {
    case NFS_SUPER_MAGIC:
        return "NFS";
    case SMB_SUPER_MAGIC:
    case CIFS_SUPER_MAGIC:
    case SMB2_SUPER_MAGIC:
        return "SMB";
    case AFS_SUPER_MAGIC:
    case AFS_FS_MAGIC:
        return "AFS";
    case CODA_SUPER_MAGIC:
        return "Coda";
    case CEPH_SUPER_MAGIC:
        return "Ceph";
    case LUSTRE_SUPER_MAGIC:
        return "Lustre";
    case V9FS_MAGIC:
        return "9p";
    default:
        return NULL;
    }
}

hf_status files_check(const char *path)
{
    if (!path || !path[0]) {
        return fail(HF_INVALID, "the path of the database is empty");
    }
    if (path[0] == ':') {
        return fail(HF_INVALID, "%s is not a file: a durable bus needs a database on disk", path);
    }
    if (strncmp(path, "file:", 5) == 0) {
        return fail(HF_INVALID, "SQLite URIs are not accepted: give the plain path instead of %s",
                    path);
    }
    struct stat found;
    if (stat(path, &found) == 0 && !S_ISREG(found.st_mode)) {
        return fail(HF_INVALID, "%s is not a regular file", path);
    }
    const char *network = network_filesystem(path);
    if (network) {
        return fail(HF_INVALID, "%s is on a network filesystem (%s), where SQLite cannot share a "
                    "database safely: put it on a local disk", path, network);
    }
    return HF_OK;
}

static char *path_beside(const char *db_path, const char *suffix)
{
    size_t bytes = strlen(db_path) + strlen(suffix) + 1;
    char *path = mem_alloc(bytes);
    if (path) {
        snprintf(path, bytes, "%s%s", db_path, suffix);
    }
    return path;
}

hf_status files_init(struct files *files, const char *db_path)
{
    memset(files, 0, sizeof *files);
    files->directory = -1;
    struct stat found;
    if (stat(db_path, &found) != 0) {
        return fail(HF_UNAVAILABLE, "cannot look at %s: %s", db_path, strerror(errno));
    }
    files->mode = found.st_mode & 0666;
    files->owner = found.st_uid;
    files->group = found.st_gid;
    files->db = path_beside(db_path, "");
    files->wal = path_beside(db_path, "-wal");
    files->gate = path_beside(db_path, "-gate");
    files->bell = path_beside(db_path, "-bell");
    files->live = path_beside(db_path, "-live-");
    files->spare = path_beside(db_path, "-spare");
    if (!files->db || !files->wal || !files->gate || !files->bell || !files->live ||
        !files->spare) {
        files_release(files);
        return fail(HF_NOMEM, "no memory for the names of the database's files");
    }
    char *slash = strrchr(files->db, '/'); /* SQLite's path is absolute */
    assert(slash);
    files->name = slash + 1;
    files->wal_name = files->wal + (files->name - files->db);
    *slash = '\0';
    files->directory = open(slash == files->db ? "/" : files->db, O_PATH | O_DIRECTORY | O_CLOEXEC);
    *slash = '/';
    if (files->directory < 0) {
        hf_status status = fail(HF_UNAVAILABLE, "cannot open the directory of %s: %s", files->db,
                                strerror(errno));
        files_release(files);
        return status;
    }
    return HF_OK;
}

void files_release(struct files *files)
{
    if (files->db && files->directory >= 0) {
        close(files->directory);
    }
    mem_free(files->db);
    mem_free(files->wal);
    mem_free(files->gate);
    mem_free(files->bell);
    mem_free(files->live);
    mem_free(files->spare);
    memset(files, 0, sizeof *files);
}

int files_open(const struct files *files, const char *path, bool exclusive)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, files->mode);
    if (fd < 0) {
        return exclusive || errno != EEXIST ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC,
                                                        files->mode);
    }
    /* What the umask took away, and what root's ownership would. Failing leaves it to the next
     * process to say that it may not open the file. */
    int code = fchmod(fd, files->mode);
    if (geteuid() == 0) {
        code = fchown(fd, files->owner, files->group);
    }
    (void)code;
    return fd;
}

hf_status files_status(int system_errno)
{
    switch (system_errno) {
    case EACCES:
    case EPERM:
    case EROFS:
        return HF_DENIED;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return HF_NOSPACE;
    case ENOMEM:
        return HF_NOMEM;
    case EIO:
        return HF_IO;
    default:
        return HF_UNAVAILABLE;
    }
}

hf_status files_remember(struct files *files)
{
    struct file_identity db;
    if (!file_identify(files->db, &db)) {
        return fail(HF_UNAVAILABLE, "%s is gone", files->db);
    }
    files->db_identity = db;
    files->wal_identity = (struct file_identity){0};
    file_identify(files->wal, &files->wal_identity);
    return HF_OK;
}

static bool identity_equal(struct file_identity a, struct file_identity b)
{
    return a.inode == b.inode && a.device == b.device;
}

bool files_same(struct files *files)
{
    struct file_identity db;
    struct file_identity wal;
    if (!identify_at(files->directory, files->name, &db) ||
        !identity_equal(db, files->db_identity) ||
        !identify_at(files->directory, files->wal_name, &wal)) {
        return false;
    }
    if (files->wal_identity.inode == 0) {
        files->wal_identity = wal;
    }
    return identity_equal(wal, files->wal_identity);
}
