/*
 * sqlite.c - see sqlite.h.
 */
#include "support/sqlite.h"

#include "support/check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

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
    sqlite3_busy_timeout(db, DEADLINE_MS);
    int64_t number = sqlite_number(db, sql);
    sqlite3_close(db);
    return number;
}

void sqlite_make_ready(const char *path)
{
    const char *ready = getenv("TEST_SQLITE_READY");
    if (!ready || !ready[0]) {
        return;
    }
    struct stat found;
    int from = open(ready, O_RDONLY | O_CLOEXEC);
    int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    must_hold(from >= 0 && to >= 0 && fstat(from, &found) == 0);
    must_equal(found.st_size, sendfile(to, from, NULL, (size_t)found.st_size));
    close(from);
    close(to);
}
