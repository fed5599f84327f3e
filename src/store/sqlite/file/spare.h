/*
 * spare.h - space kept for settling when the disk is full.
 *
 * Settling needs a few pages of space even when the disk has none left. So a file of SPARE_BYTES is
 * allocated beside the database; when a settle finds no space the file is truncated. Until it can
 * be allocated again appends are refused, so that they do not eat what settling needs.
 *
 * A limit on the size of files (RLIMIT_FSIZE) is a full disk that no spare can help: what is in the
 * WAL must fit into the database. There the same amount is kept below the limit (apply.c).
 */
#ifndef HF_STORE_SQLITE_FILE_SPARE_H
#define HF_STORE_SQLITE_FILE_SPARE_H

#include <holdfast.h>
#include <stdbool.h>
#include <stdint.h>

#define SPARE_BYTES 1048576
#define SPARE_RETRY_MS 100 /* between attempts to allocate it again */

struct files;

struct spare {
    const struct files *files; /* for its path, <db>-spare */
    bool spent;                /* given to the settles; appends wait */
    int64_t tried_us;          /* monotonic */
    char trouble[512];         /* why the file cannot be opened; "": that is not why */
};

/* The most bytes that a file of this process may have (RLIMIT_FSIZE); INT64_MAX: no limit. */
int64_t spare_file_bytes_max(void);
/* How much is kept: SPARE_BYTES, less where files may not become large. */
int64_t spare_bytes(void);

/* Allocates the file if there is room. files must outlive it. */
void spare_open(struct spare *spare, const struct files *files);
/* The same without the gate: only looks whether it is there. */
void spare_look(struct spare *spare, const struct files *files);
/* Gives the space up. False if there was none to give. */
bool spare_spend(struct spare *spare);
/* Tries to allocate it again if it was spent, not too often unless it shall be `now`; true if
 * appends may go on. */
bool spare_restore(struct spare *spare, bool now);
/* The answer for appends that may not: HF_NOSPACE; HF_DENIED: something that is not ours is in the
 * place of the file. */
hf_status spare_refuse(const struct spare *spare);

/* Bytes that the filesystem has free for us, and altogether (NULL: the caller does not need it);
 * -1: not known. */
int64_t spare_disk_free(const struct spare *spare, int64_t *ret_disk_bytes);

#endif
