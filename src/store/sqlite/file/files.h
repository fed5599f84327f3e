/*
 * files.h - the database's path, the names beside it, and whether it is still the same file.
 *
 * Never open, read or close the database, its -wal or its -shm by a descriptor of our own: that
 * drops SQLite's locks of this process. Everything here works on names.
 */
#ifndef HF_STORE_SQLITE_FILE_FILES_H
#define HF_STORE_SQLITE_FILE_FILES_H

#include <holdfast.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct file_identity {
    uint64_t inode; /* 0: not known yet */
    uint64_t device;
};

/* Whether the names still stand for the files that were opened. */
enum files_answer {
    FILES_SAME,
    FILES_REPLACED, /* another file has the name, or none has */
    FILES_UNSURE    /* it could not be looked at: a passing condition */
};

/* What to do with a file of the right name that may not be used: a symbolic link, a FIFO, a file
 * with a second name, one of a stranger. */
enum files_unfit {
    FILES_REFUSE, /* leave it and fail: others may hold locks on it */
    FILES_REPLACE /* remove the name and make a new file */
};

struct files {
    char *db;             /* absolute, as SQLite knows it */
    const char *name;     /* its last component, in db */
    const char *wal_name; /* the same of wal */
    const char *shm_name; /* and of shm */
    int directory;        /* that they are in, O_PATH; -1: none */
    char *wal;
    char *shm;
    char *gate;
    char *bell;
    char *live; /* prefix: the token follows */
    char *spare;
    uint32_t mode;  /* permissions, owner and group of the database: */
    uint32_t owner; /* the files beside it get the same */
    uint32_t group;
    struct file_identity db_identity;
    struct file_identity wal_identity;
    struct file_identity shm_identity;
    bool wal_known; /* there was a WAL at opening */
};

/* Refuses what cannot be a database of ours: an empty path, ":memory:", a URI, a network
 * filesystem. HF_INVALID. */
hf_status files_check(const char *path);
/* Before SQLite opens the file: refuses what is no regular file in the place of one of SQLite's own
 * beside it, for a FIFO of which it would wait for ever. HF_DENIED. */
hf_status files_check_beside(const char *path);
/* The same: whether its -wal was deleted, by its -shm that is still there.
 * SQLite would go on without the commits that were in it. HF_UNAVAILABLE: and a store is still open
 * on it; or one is, and the -shm was deleted, so that SQLite would make another. ret_missing: the
 * -wal is missing, and no store uses it. */
hf_status files_check_wal(const char *path, bool *ret_missing);
/* Why the file `path`, or a new one of that name, cannot be written, as the end of a sentence. */
const char *files_unwritable(const char *path);
hf_status files_init(struct files *files, const char *db_path);
void files_release(struct files *files);

/* Remembers what the names stand for now. The WAL need not exist yet. */
hf_status files_remember(struct files *files);
/* Whether the names still stand for it; remembers the WAL when it first appears. ret_errno: why
 * FILES_UNSURE. Under the gate. */
enum files_answer files_look(struct files *files, int *ret_errno);
/* The same of the database and the -shm, and whether there still is a WAL; any thread. */
enum files_answer files_look_db(const struct files *files);
/* The same of the -shm alone, before a write. A process that opens the database when its -shm is
 * gone makes another one, in which the end of the WAL is another: each would write over the commits
 * of the other. Any thread. */
enum files_answer files_look_shm(const struct files *files);

/*
 * A file beside the database, of which only the name below files->directory counts, so that it is
 * the same file when the directory is moved. What is opened is a regular file and belongs to a
 * user who may write the database; symbolic links are not followed, FIFOs not waited for.
 */
/* Opens it for reading and writing; makes it, with the owner and the permissions of the database,
 * if it is not there. The thread's message names the file and what is wrong with it. */
hf_status files_open(const struct files *files, const char *path, enum files_unfit unfit,
                     int *ret_fd);
/* Makes a file under this name, which must be free. -1: see errno. */
int files_make(const struct files *files, const char *path);
/* Opens a file that is there for reading, whichever user it belongs to. -1: see errno. */
int files_open_read(const struct files *files, const char *path);
/* Puts the file `from` in the place of `to`, whatever is there. 0, or -1: see errno. */
int files_rename(const struct files *files, const char *from, const char *to);
/* Removes the name. 0, or -1: see errno. */
int files_unlink(const struct files *files, const char *path);
/* What a path beside the database stands for. 0, or an errno. */
int files_identify(const struct files *files, const char *path, struct file_identity *ret_identity);
/* Locks these bytes of an open file or directory (F_RDLCK, F_WRLCK), or lets them go (F_UNLCK),
 * without waiting; count 0: to the end. The lock belongs to the open file: it works between two
 * stores of one process, and ends with the last descriptor of it. False: see errno. */
bool files_lock_bytes(int fd, off_t first, off_t count, short type);
/* What errno means for a file beside the database. */
hf_status files_status(int system_errno);

static inline bool file_identity_equal(struct file_identity a, struct file_identity b)
{
    return a.inode == b.inode && a.device == b.device;
}

/* What a path stands for; false if it does not exist. */
bool file_identify(const char *path, struct file_identity *ret_identity);

#endif
