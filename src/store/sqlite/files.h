/*
 * files.h - the database's path, the names beside it, and whether it is still the same file.
 *
 * Never open, read or close the database, its -wal or its -shm by a descriptor of our own: that
 * drops SQLite's locks of this process. Everything here works on names.
 */
#ifndef HF_STORE_SQLITE_FILES_H
#define HF_STORE_SQLITE_FILES_H

#include <holdfast.h>
#include <stdbool.h>
#include <stdint.h>

struct file_identity {
    uint64_t inode; /* 0: not known yet */
    uint64_t device;
};

struct files {
    char *db; /* absolute, as SQLite knows it */
    const char *name;    /* its last component, in db */
    const char *wal_name; /* the same of wal */
    int directory;        /* that they are in; -1: none */
    char *wal;
    char *gate;
    char *bell;
    char *live; /* prefix: the token follows */
    char *spare;
    uint32_t mode;  /* permissions, owner and group of the database: */
    uint32_t owner; /* the files beside it get the same */
    uint32_t group;
    struct file_identity db_identity;
    struct file_identity wal_identity;
};

/* Refuses what cannot be a database of ours: an empty path, ":memory:", a URI, a network
 * filesystem. HF_INVALID. */
hf_status files_check(const char *path);
hf_status files_init(struct files *files, const char *db_path);
void files_release(struct files *files);

/* Remembers what the names stand for now. The WAL need not exist yet. */
hf_status files_remember(struct files *files);
/* Whether the names still stand for it; remembers the WAL when it first appears. */
bool files_same(struct files *files);

/* Opens a file beside the database, read-write, close-on-exec; a new one gets the permissions of
 * the database. `exclusive`: it must be new. -1: see errno. */
int files_open(const struct files *files, const char *path, bool exclusive);
/* What errno means for a file beside the database. */
hf_status files_status(int system_errno);

/* What a path stands for; false if it does not exist. */
bool file_identify(const char *path, struct file_identity *ret_identity);

#endif
