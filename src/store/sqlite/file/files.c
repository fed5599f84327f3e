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
 *
 * Only a name that is gone or leads to another inode says that the file was replaced. That it could
 * not be looked at (a directory without permission, an error of the disk) says nothing, and passes.
 *
 * Files beside the database. A user who may make files in the directory, and may not write the
 * database, must not lead us to write elsewhere (a symbolic or a hard link), to wait for ever (a
 * FIFO), or to share our locks with him. So a file is used only if it is a regular file without
 * another name, whose owner could write the database anyway.
 */
#include "store/sqlite/file/files.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"

#define OPEN_TRIES 100 /* while others make and remove the file at the same time */

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

/* 0, or an errno. */
static int identify_at(int directory, const char *path, struct file_identity *ret_identity)
{
    struct statx found;
    if (statx(directory, path, AT_STATX_DONT_SYNC, STATX_INO, &found) != 0) {
        return errno;
    }
    ret_identity->inode = found.stx_ino;
    ret_identity->device = makedev(found.stx_dev_major, found.stx_dev_minor);
    return 0;
}

bool file_identify(const char *path, struct file_identity *ret_identity)
{
    return identify_at(AT_FDCWD, path, ret_identity) == 0;
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
        return fail(HF_INVALID,
                    "%s is on a network filesystem (%s), where SQLite cannot share a "
                    "database safely: put it on a local disk",
                    path, network);
    }
    return HF_OK;
}

/* ---- What cannot be opened, and why ---------------------------------------------------------- */

/* Splits an absolute path after its last slash; NULL: it has none. */
static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : NULL;
}

/* The directory of a path, "." if the path has none; false if it is too long. */
static bool directory_of(const char *path, char out[PATH_MAX])
{
    const char *name = last_part(path);
    int length = name ? (int)(name - path) : 1;
    return snprintf(out, PATH_MAX, "%.*s", length, name ? path : ".") < PATH_MAX;
}

const char *files_unwritable(const char *path)
{
    char directory[PATH_MAX];
    struct statvfs found;
    if (!directory_of(path, directory)) {
        return "its path is too long";
    }
    if (statvfs(directory, &found) == 0 && (found.f_flag & ST_RDONLY)) {
        return "its filesystem is mounted read-only. Reading writes, too (locks, wake-ups): mount "
               "it writable, or copy the database elsewhere";
    }
    if (access(directory, F_OK) != 0) {
        return "its directory does not exist";
    }
    if (access(directory, W_OK | X_OK) != 0) {
        return "this user may not write its directory, where files beside the database are needed "
               "for reading, too";
    }
    return "this user may not write it; reading needs that, too";
}

/* Whether an open store holds the lock on its live file beside the database. */
static bool is_in_use(const char *path)
{
    char name[PATH_MAX];
    char directory_path[PATH_MAX];
    bool used = false;
    int length = snprintf(name, sizeof name, "%s-live-", last_part(path));
    DIR *directory = directory_of(path, directory_path) ? opendir(directory_path) : NULL;
    struct dirent *entry;
    while (directory && !used && (entry = readdir(directory))) {
        if (strncmp(entry->d_name, name, (size_t)length) != 0) {
            continue;
        }
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int fd = openat(dirfd(directory), entry->d_name,
                        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd >= 0) {
            used = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
            close(fd);
        }
    }
    if (directory) {
        closedir(directory);
    }
    return used;
}

hf_status files_check_beside(const char *path)
{
    static const char *const suffixes[] = {"-journal", "-wal", "-shm"};
    char db[PATH_MAX];
    if (!realpath(path, db)) {
        return HF_OK; /* it is new, or opening it will say why not */
    }
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        char beside[PATH_MAX + 16];
        struct stat found;
        snprintf(beside, sizeof beside, "%s%s", db, suffixes[i]);
        if (lstat(beside, &found) == 0 && !S_ISREG(found.st_mode)) {
            return fail(HF_DENIED, "%s is %s: remove it", beside,
                        S_ISLNK(found.st_mode)   ? "a symbolic link"
                        : S_ISDIR(found.st_mode) ? "a directory"
                                                 : "not a regular file");
        }
    }
    return HF_OK;
}

/* Whether there is a file with this name; true also if that cannot be known. */
static bool is_there(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 || errno != ENOENT;
}

static hf_status fail_deleted(const char *path, const char *because)
{
    return fail(HF_UNAVAILABLE,
                "%s was deleted while processes have the database open: %s. End those processes, "
                "%sopen it again and run `holdfast verify`",
                path, because, strstr(path, "-wal") ? "put the file back if you can, " : "");
}

hf_status files_check_wal(const char *path, bool *ret_missing)
{
    char db[PATH_MAX];
    char wal[PATH_MAX + 8];
    char shm[PATH_MAX + 8];
    struct stat found;
    *ret_missing = false;
    if (!realpath(path, db)) {
        return HF_OK; /* it is new, or opening it will say why not */
    }
    snprintf(wal, sizeof wal, "%s-wal", db);
    snprintf(shm, sizeof shm, "%s-shm", db);
    /* The second look: a process that has opened it meanwhile has made the file. */
    if (!is_there(shm) && is_in_use(db) && !is_there(shm)) {
        return fail_deleted(shm, "SQLite would make another, and processes with different ones "
                                 "write over each other's commits");
    }
    if (stat(shm, &found) != 0 || found.st_size == 0 || is_there(wal)) {
        return HF_OK;
    }
    if (is_in_use(db)) {
        return fail_deleted(wal, "the commits in it are lost, and using it now may damage the "
                                 "database");
    }
    *ret_missing = true;
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
    files->shm = path_beside(db_path, "-shm");
    files->gate = path_beside(db_path, "-gate");
    files->bell = path_beside(db_path, "-bell");
    files->live = path_beside(db_path, "-live-");
    files->spare = path_beside(db_path, "-spare");
    if (!files->db || !files->wal || !files->shm || !files->gate || !files->bell || !files->live ||
        !files->spare) {
        files_release(files);
        return fail(HF_NOMEM, "no memory for the names of the database's files");
    }
    char *slash = strrchr(files->db, '/'); /* SQLite's path is absolute */
    assert(slash);
    files->name = slash + 1;
    files->wal_name = files->wal + (files->name - files->db);
    files->shm_name = files->shm + (files->name - files->db);
    *slash = '\0';
    files->directory = open(slash == files->db ? "/" : files->db, O_PATH | O_DIRECTORY | O_CLOEXEC);
    *slash = '/';
    if (files->directory < 0) {
        hf_status status =
            fail(HF_UNAVAILABLE, "cannot open the directory of %s: %s", files->db, strerror(errno));
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
    mem_free(files->shm);
    mem_free(files->gate);
    mem_free(files->bell);
    mem_free(files->live);
    mem_free(files->spare);
    memset(files, 0, sizeof *files);
}

/* ---- Files beside the database --------------------------------------------------------------- */

/* The last component of the path of a file beside the database. */
static const char *name_of(const struct files *files, const char *path)
{
    return path + (files->name - files->db);
}

static int open_beside(const struct files *files, const char *path, int flags)
{
    return openat(files->directory, name_of(files, path),
                  flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, files->mode);
}

int files_make(const struct files *files, const char *path)
{
    int fd = open_beside(files, path, O_RDWR | O_CREAT | O_EXCL);
    if (fd < 0) {
        return -1;
    }
    /* What the umask took away, and what root's ownership would. Failing leaves it to the next
     * process to say that it may not open the file. */
    int code = fchown(fd, geteuid() == 0 ? files->owner : (uid_t)-1, files->group);
    code = fchmod(fd, files->mode);
    (void)code;
    return fd;
}

/* Whether a file's owner could write the database anyway. */
static bool is_trusted(const struct files *files, const struct stat *found)
{
    return found->st_uid == files->owner || found->st_uid == geteuid() || found->st_uid == 0 ||
           ((files->mode & S_IWGRP) && found->st_gid == files->group) || (files->mode & S_IWOTH);
}

/* Why an open file must not be used; NULL: it may. */
static const char *unfit_because(const struct files *files, int fd)
{
    struct stat found;
    if (fstat(fd, &found) != 0) {
        return "cannot be looked at";
    }
    if (!S_ISREG(found.st_mode)) {
        return "is not a regular file";
    }
    if (found.st_nlink > 1) {
        return "has a second name, a hard link";
    }
    return is_trusted(files, &found) ? NULL : "belongs to a user who may not write the database";
}

/* The same of a file that could not be opened; NULL: that has another reason. */
static const char *unfit_unopened(int error)
{
    return error == ELOOP    ? "is a symbolic link"
           : error == EISDIR ? "is a directory"
           : error == ENXIO  ? "is not a regular file"
                             : NULL;
}

hf_status files_open(const struct files *files, const char *path, enum files_unfit unfit,
                     int *ret_fd)
{
    const char *why = NULL;
    for (int i = 0; i < OPEN_TRIES; i++) {
        int fd = files_make(files, path);
        if (fd < 0 && errno == EEXIST) {
            fd = open_beside(files, path, O_RDWR);
            why = fd < 0 ? unfit_unopened(errno) : unfit_because(files, fd);
        }
        if (fd >= 0 && !why) {
            *ret_fd = fd;
            return HF_OK;
        }
        if (fd >= 0) {
            close(fd);
        } else if (!why && errno != ENOENT) { /* ENOENT: it has just been removed */
            bool denied = files_status(errno) == HF_DENIED;
            return fail(files_status(errno), "cannot open %s: %s%s", path, strerror(errno),
                        denied ? "; files beside the database are needed for reading, too" : "");
        }
        if (why && (unfit == FILES_REFUSE || files_unlink(files, path) != 0)) {
            break;
        }
        why = NULL;
    }
    return fail(HF_DENIED, "%s %s: remove it, it is made again", path,
                why ? why : "is made and removed again and again");
}

int files_open_read(const struct files *files, const char *path)
{
    int fd = open_beside(files, path, O_RDONLY);
    struct stat found;
    if (fd >= 0 && (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode))) {
        close(fd);
        errno = ENXIO;
        return -1;
    }
    return fd;
}

int files_rename(const struct files *files, const char *from, const char *to)
{
    return renameat(files->directory, name_of(files, from), files->directory, name_of(files, to));
}

int files_unlink(const struct files *files, const char *path)
{
    return unlinkat(files->directory, name_of(files, path), 0);
}

int files_identify(const struct files *files, const char *path, struct file_identity *ret_identity)
{
    struct statx found;
    if (statx(files->directory, name_of(files, path), AT_STATX_DONT_SYNC | AT_SYMLINK_NOFOLLOW,
              STATX_INO, &found) != 0) {
        return errno;
    }
    ret_identity->inode = found.stx_ino;
    ret_identity->device = makedev(found.stx_dev_major, found.stx_dev_minor);
    return 0;
}

bool files_lock_bytes(int fd, off_t first, off_t count, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = count};
    int done;
    do {
        done = fcntl(fd, F_OFD_SETLK, &lock);
    } while (done != 0 && errno == EINTR);
    return done == 0;
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
    int error = identify_at(files->directory, files->name, &db);
    if (error != 0) {
        return fail(files_status(error), "cannot look at %s: %s", files->db, strerror(error));
    }
    files->db_identity = db;
    files->wal_identity = (struct file_identity){0};
    files->wal_known = identify_at(files->directory, files->wal_name, &files->wal_identity) == 0;
    files->shm_identity = (struct file_identity){0};
    error = identify_at(files->directory, files->shm_name, &files->shm_identity);
    if (error == ENOENT) { /* SQLite has one index in memory for all that a process has open */
        return fail(HF_UNAVAILABLE,
                    "%s was deleted while this process has the database open: close all that it "
                    "has open of it first",
                    files->shm);
    }
    return error == 0
               ? HF_OK
               : fail(files_status(error), "cannot look at %s: %s", files->shm, strerror(error));
}

static enum files_answer answer_of(int error, struct file_identity found,
                                   struct file_identity expected)
{
    if (error != 0) {
        return error == ENOENT ? FILES_REPLACED : FILES_UNSURE;
    }
    return file_identity_equal(found, expected) ? FILES_SAME : FILES_REPLACED;
}

enum files_answer files_look_shm(const struct files *files)
{
    struct file_identity shm = {0};
    int error = identify_at(files->directory, files->shm_name, &shm);
    return answer_of(error, shm, files->shm_identity);
}

enum files_answer files_look_db(const struct files *files)
{
    struct file_identity db = {0};
    struct file_identity wal;
    int error = identify_at(files->directory, files->name, &db);
    enum files_answer answer = answer_of(error, db, files->db_identity);
    if (answer == FILES_SAME && files->wal_known &&
        identify_at(files->directory, files->wal_name, &wal) == ENOENT) {
        return FILES_REPLACED;
    }
    return answer == FILES_SAME ? files_look_shm(files) : answer;
}

enum files_answer files_look(struct files *files, int *ret_errno)
{
    struct file_identity found = {0};
    int error = identify_at(files->directory, files->name, &found);
    enum files_answer answer = answer_of(error, found, files->db_identity);
    if (answer == FILES_SAME) {
        error = identify_at(files->directory, files->wal_name, &found);
        if (error == 0 && files->wal_identity.inode == 0) {
            files->wal_identity = found;
        }
        answer = answer_of(error, found, files->wal_identity);
    }
    if (answer == FILES_SAME) {
        error = identify_at(files->directory, files->shm_name, &found);
        answer = answer_of(error, found, files->shm_identity);
    }
    *ret_errno = error;
    return answer;
}
