/*
 * sqlite.h - what a test asks a SQLite file directly, as another program would.
 */
#ifndef HF_TESTS_SUPPORT_SQLITE_H
#define HF_TESTS_SUPPORT_SQLITE_H

#include <sqlite3.h>
#include <stdint.h>

/* The first column of the first row, of which there must be one. */
int64_t sqlite_number(sqlite3 *db, const char *sql);
/* The same on a connection of its own. */
int64_t sqlite_number_in(const char *path, const char *sql);

#endif
