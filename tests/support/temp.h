/*
 * temp.h - a directory of its own for every test, removed with all that is in it.
 *
 * It is made below $TMPDIR (default /tmp). Its name has a space in it, because users' paths do.
 */
#ifndef HF_TESTS_SUPPORT_TEMP_H
#define HF_TESTS_SUPPORT_TEMP_H

#include <stddef.h>

#define TEMP_PATH_BYTES 1024

/* Makes the directory and writes its path. Aborts if it cannot: no test can run then. */
void temp_open(char path[TEMP_PATH_BYTES]);

/* Removes it. */
void temp_close(const char *path);

/* path/name, in a buffer that is good for a few calls. */
const char *temp_file(const char *path, const char *name);

#endif
