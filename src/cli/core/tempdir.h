/*
 * tempdir.h - a private directory for the files of a demonstration or a benchmark.
 */
#ifndef HF_CLI_CORE_TEMPDIR_H
#define HF_CLI_CORE_TEMPDIR_H

#include <stdbool.h>

#define TEMPDIR_PATH_BYTES_MAX 3072

struct tempdir {
    char path[TEMPDIR_PATH_BYTES_MAX];
    char url[TEMPDIR_PATH_BYTES_MAX + 64]; /* of the database in it */
};

/* Makes one below `parent`, or, if that is NULL, below $TMPDIR, /var/tmp or /tmp. False after a
 * complaint. */
bool tempdir_make(struct tempdir *dir, const char *parent);

/* Sets url to a database of that name in the directory. */
void tempdir_database(struct tempdir *dir, const char *name);

/* Whether it is on a file system in memory, where durability costs nothing. */
bool tempdir_in_memory(const struct tempdir *dir);

/* Removes the files in it. */
void tempdir_clear(const struct tempdir *dir);

/* Removes the directory and the files in it. */
void tempdir_remove(const struct tempdir *dir);

#endif
