/*
 * sqlite.h - what a test asks a SQLite file directly, as another program would.
 */
#ifndef HF_TESTS_SUPPORT_SQLITE_H
#define HF_TESTS_SUPPORT_SQLITE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

/* The first column of the first row, of which there must be one. */
int64_t sqlite_number(sqlite3 *db, const char *sql);
/* The same on a connection of its own. */
int64_t sqlite_number_in(const char *path, const char *sql);

/*
 * Makes the file with the schema and without a namespace, if scripts/run-tests has made one to copy
 * (TEST_SQLITE_READY); else there is none, and the first to open it makes the schema. To make it
 * takes longer than most tests do; under a sanitizer it was two thirds of their CPU time. All of
 * these have one identity, so none can be copied into another.
 */
void sqlite_make_ready(const char *path);

#endif
