/*
 * notes.h - which handlers of a store run, in memory that outlives the process.
 *
 * A worker writes a note before it calls a handler. If the process dies in the handler, the next
 * owner reads the note and records the attempt. notes.c tells where notes are kept and why.
 */
#ifndef HF_STORE_SQLITE_FILE_NOTES_H
#define HF_STORE_SQLITE_FILE_NOTES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

#define NOTES_NO_SEGMENT (-1)

struct files;

struct live_note {
    atomic_int_least64_t position; /* 0: none */
    atomic_int_least64_t subscription_id;
    atomic_int_least64_t attempt;
    atomic_int_least64_t since_us; /* wall clock; 0: not known. No note crosses a page */
};

/* The notes of this store. */
struct notes {
    struct live_note *rows;        /* STORE_NOTES_MAX of them */
    struct notes_segment *segment; /* that they are in; NULL: rows are the process's own memory */
    int64_t segment_id;            /* its number, or NOTES_NO_SEGMENT */
};

/* Makes room for notes: a segment with the owner of the database, which those who may read that may
 * read, or, where the system gives none, memory of the process. `path` is that of the live file.
 * False: no memory. */
bool notes_open(struct notes *notes, const uint8_t token[STORE_TOKEN_BYTES], const char *path,
                const struct files *files);
/* Removes them. */
void notes_close(struct notes *notes);
/* In a forked child: lets go of them and leaves the parent's alone. */
void notes_abandon(struct notes *notes);

/* Copies the notes of the store with this token out of a segment. False: the segment is gone, not
 * readable, or not that store's. */
bool notes_read(int64_t segment_id, const uint8_t token[STORE_TOKEN_BYTES],
                struct live_note out[STORE_NOTES_MAX]);
/* Removes the segment of a dead store, if it is that store's. Another user's stays, until a process
 * of that user opens a database (notes_sweep). */
void notes_remove(int64_t segment_id, const uint8_t token[STORE_TOKEN_BYTES]);
/* Removes segments that this user's processes made, that no process has in memory, and whose live
 * file is gone, in whatever directory. Looks at a bounded number of the system's segments. */
void notes_sweep(void);

#endif
