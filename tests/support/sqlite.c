/*
 * sqlite.c - see sqlite.h.
 */
#include "support/sqlite.h"

#include "support/check.h"

int64_t sqlite_number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    must_equal(SQLITE_OK, sqlite3_prepare_v2(db, sql, -1, &statement, NULL));
    must_equal(SQLITE_ROW, sqlite3_step(statement));
    int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return number;
}

int64_t sqlite_number_in(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    must_equal(SQLITE_OK, sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL));
    sqlite3_busy_timeout(db, PATIENCE_MS);
    int64_t number = sqlite_number(db, sql);
    sqlite3_close(db);
    return number;
}
