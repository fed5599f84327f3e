/*
 * doctor.c - sizes, and settings and conditions that matter to the operator of the database.
 *
 * Everything is read without opening a file by descriptor (files.h), and nothing scans the log.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "store/common/doctor.h"
#include "store/sqlite/core.h"
#include "store/sqlite/file/version.h"
#include "store/sqlite/sqlite.h"

#define WAL_LARGE_BYTES (INT64_C(256) << 20)
#define FREE_LARGE_PERCENT 50
#define DISK_LOW_PERCENT 5
#define DISK_LOW_BYTES_MIN WAL_LARGE_BYTES
#define DISK_LOW_BYTES_MAX (INT64_C(16) << 30)

static int64_t file_bytes(const char *path)
{
    struct statx found;
    return statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_SIZE, &found) == 0
               ? (int64_t)found.stx_size
               : -1;
}

static hf_status read_value(struct conn *conn, enum sqlite_query query, char *out, size_t bytes)
{
    sqlite3_stmt *stmt = conn_statement(conn, query);
    bool found;
    if (!stmt) {
        return conn_error(conn);
    }
    hf_status status = conn_row(conn, stmt, &found);
    if (!status) {
        out[0] = '\0';
    }
    if (!status && found) {
        snprintf(out, bytes, "%" TEXT_PRI, TEXT_ARG(column_text(stmt, 0)));
        conn_done(stmt);
    }
    return status;
}

hf_status sqlite_sizes_get(struct engine *base, struct store_sizes *ret_sizes)
{
    struct sqlite_engine *engine = sqlite_of(base);
    struct conn *conn;
    hf_status status = pool_take(engine, &conn);
    if (status) {
        return status;
    }
    int64_t pages = 0;
    int64_t page_bytes = 0;
    status = conn_number(conn, SQLITE_QUERY_READ_PAGE_COUNT, 0, &pages);
    if (!status) {
        status = conn_number(conn, SQLITE_QUERY_READ_PAGE_SIZE, 0, &page_bytes);
    }
    pool_give(engine, conn);
    if (!status) {
        int64_t wal_bytes = file_bytes(engine->files.wal);
        *ret_sizes = (struct store_sizes){
            .store_bytes = pages * page_bytes,
            .wal_bytes = wal_bytes < 0 ? 0 : wal_bytes,
            .commits = atomic_load(&engine->commits),
        };
    }
    return status;
}

/* The values that findings are made of, read before the callback runs. */
struct condition {
    char journal_mode[32];
    int64_t page_bytes;
    int64_t pages;
    int64_t free_pages;
    int64_t auto_vacuum;
    int64_t wal_bytes;
    int64_t spare_bytes;
    int64_t disk_bytes;
    int64_t disk_free_bytes; /* -1: not known */
    bool same;
    struct fit_schema schema;
};

static hf_status doctor_look(struct sqlite_engine *engine, struct condition *out)
{
    struct conn *conn;
    hf_status status = pool_take(engine, &conn);
    if (status) {
        return status;
    }
    status = read_value(conn, SQLITE_QUERY_READ_JOURNAL_MODE, out->journal_mode,
                        sizeof out->journal_mode);
    if (!status) {
        status = conn_number(conn, SQLITE_QUERY_READ_PAGE_SIZE, 0, &out->page_bytes);
    }
    if (!status) {
        status = conn_number(conn, SQLITE_QUERY_READ_PAGE_COUNT, 0, &out->pages);
    }
    if (!status) {
        status = conn_number(conn, SQLITE_QUERY_READ_FREELIST_COUNT, 0, &out->free_pages);
    }
    if (!status) {
        status = conn_number(conn, SQLITE_QUERY_READ_AUTO_VACUUM, 0, &out->auto_vacuum);
    }
    if (!status) {
        status = version_read(conn, &out->schema);
    }
    pool_give(engine, conn);
    struct file_identity db;
    out->wal_bytes = file_bytes(engine->files.wal);
    out->spare_bytes = file_bytes(engine->files.spare);
    out->disk_free_bytes = spare_disk_free(&engine->spare, &out->disk_bytes);
    out->same = file_identify(engine->files.db, &db) &&
                db.inode == engine->files.db_identity.inode &&
                db.device == engine->files.db_identity.device;
    return status;
}

static void doctor_number(struct doctor *doctor, const char *name, int64_t value,
                          const char *advice)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    doctor_say(doctor, name, text, advice);
}

/* A share of the disk, but not less than the log may need, and of a large disk not more than
 * leaves the operator a day to act. */
static bool disk_is_low(const struct condition *now)
{
    int64_t wanted = now->disk_bytes / 100 * DISK_LOW_PERCENT;
    if (wanted < DISK_LOW_BYTES_MIN) {
        wanted = DISK_LOW_BYTES_MIN;
    } else if (wanted > DISK_LOW_BYTES_MAX) {
        wanted = DISK_LOW_BYTES_MAX;
    }
    return now->disk_free_bytes < wanted;
}

static void say_engine(struct doctor *doctor, const struct sqlite_engine *engine,
                       const struct condition *now)
{
    bool power = engine->durability == HF_DURABILITY_POWER;
    doctor_say(doctor, "engine", "sqlite", NULL);
    doctor_number(doctor, "schema_version", now->schema.number,
                  fit_advice(&sqlite_program, &now->schema));
    doctor_say(doctor, "sqlite_version", sqlite3_libversion(), NULL);
    doctor_say(doctor, "automatic_checkpoints", "off", NULL);
    doctor_say(doctor, "path", engine->files.db,
               now->same ? NULL : "the file was replaced or deleted while in use: restart");
    doctor_say(doctor, "journal_mode", now->journal_mode,
               strcmp(now->journal_mode, "wal") == 0 ? NULL
                                                     : "another program switched WAL mode off");
    doctor_say(doctor, "durability", power ? "power" : "process",
               power ? NULL : "what was published last may be lost in a power failure");
}

static void say_space(struct doctor *doctor, const struct condition *now)
{
    static const char *const vacuum[] = {"none", "full", "incremental"};
    doctor_number(doctor, "page_bytes", now->page_bytes, NULL);
    doctor_number(doctor, "store_bytes", now->pages * now->page_bytes, NULL);
    doctor_number(doctor, "free_bytes", now->free_pages * now->page_bytes,
                  now->pages > 0 && now->free_pages * 100 / now->pages >= FREE_LARGE_PERCENT
                      ? "more than half of the file is free space: VACUUM gives it back"
                      : NULL);
    doctor_say(doctor, "auto_vacuum",
               now->auto_vacuum >= 0 && now->auto_vacuum <= 2 ? vacuum[now->auto_vacuum]
                                                              : "unknown",
               NULL);
    doctor_number(doctor, "wal_bytes", now->wal_bytes < 0 ? 0 : now->wal_bytes,
                  now->wal_bytes > WAL_LARGE_BYTES
                      ? "a long-running reader keeps the log from starting over"
                      : NULL);
    if (now->disk_free_bytes >= 0) {
        doctor_number(doctor, "disk_free_bytes", now->disk_free_bytes,
                      disk_is_low(now) ? "the disk is nearly full: make room, or let retention "
                                         "take old events"
                                       : NULL);
    }
    doctor_say(doctor, "spare", now->spare_bytes > 0 ? "kept" : "missing",
               now->spare_bytes > 0
                   ? NULL
                   : "the disk is full: publishing is refused until there is space");
}

hf_status sqlite_doctor(struct engine *base, hf_finding_fn found, void *ctx)
{
    struct sqlite_engine *engine = sqlite_of(base);
    struct condition now = {0};
    hf_status status = doctor_look(engine, &now);
    if (status) {
        return status;
    }
    struct doctor doctor = {found, ctx, false};
    say_engine(&doctor, engine, &now);
    say_space(&doctor, &now);
    return HF_OK;
}
