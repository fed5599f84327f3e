/*
 * live_file.h - live files as they are on the disk: their names, their contents, their locks.
 *
 * live.h says what they are for. Everything here takes a descriptor, so that what is said about a
 * file (its lock, its contents) is said about one and the same file, whatever becomes of its name.
 */
#ifndef HF_STORE_SQLITE_LIVE_FILE_H
#define HF_STORE_SQLITE_LIVE_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/sqlite/file/live.h"
#include "store/sqlite/file/notes.h"

#define LIVE_MAGIC UINT64_C(0x34306576696c6668) /* "hflive04" */
#define LIVE_NOTES_AT 8192                      /* where the notes begin: on a page of their own */
#define LIVE_NEW ".new"                         /* the name's end while the file is being made */
#define BOOT_ID_BYTES 36

/* What the file begins with. */
struct live_head {
    uint64_t magic;
    uint64_t inode;     /* of the file itself */
    int64_t segment_id; /* of the notes; NOTES_NO_SEGMENT: they follow in the file */
    char boot_id[BOOT_ID_BYTES + 4];
    atomic_uint_least64_t counter;
    struct live_card card;
};

/* What the file holds. Written by its owner alone. */
struct live_file {
    struct live_head head;
    char unused[LIVE_NOTES_AT - sizeof(struct live_head)];
    struct live_note notes[STORE_NOTES_MAX];
};

_Static_assert(offsetof(struct live_file, notes) == LIVE_NOTES_AT, "no note crosses a page");

/* <db>-live-<token><suffix>; suffix "" or LIVE_NEW. NULL: no memory. */
char *live_file_path(const struct sqlite_engine *engine, const uint8_t token[STORE_TOKEN_BYTES],
                     const char *suffix);

bool live_file_lock(int fd);
/* True also if it cannot be known: taking over from the living is the worse mistake. */
bool live_file_is_locked(int fd);

/* The beginning of the file, or all of it. False: it says nothing about its store, because it is
 * not whole, or does not hold the number of its own inode: it was copied, truncated, or put there
 * by another program. */
bool live_file_read_head(int fd, struct live_head *out);
bool live_file_read(int fd, struct live_file *out);

/* What to do with the file of another store, open for reading. */
typedef void (*live_file_fn)(struct sqlite_engine *engine, int fd,
                             const uint8_t token[STORE_TOKEN_BYTES], void *ctx);
/* Calls `found` for the file of every other store, living or dead, whose name has this suffix. */
void live_file_each(struct sqlite_engine *engine, const char *suffix, live_file_fn found,
                    void *ctx);

#endif
