/*
 * version.c - see version.h.
 *
 * A program that has a file open is not told when another one migrates it, and its statements go on
 * by themselves: SQLite prepares them again. So the number is looked at in each write transaction.
 * That is one read of a small table, and it is left out while the pager's data version says that no
 * other connection has changed the file since the last look. Commits of the connection itself
 * change that version, too: conn_commit takes the look over to the new one. What a connection
 * remembers of the log's end from one transaction to the next holds for as long.
 */
#include "store/sqlite/file/version.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"

const struct fit_program sqlite_program = {SQLITE_MIGRATION_COUNT, SQLITE_WORKS_FROM};

static const char *place_of(struct conn *conn)
{
    const char *path = sqlite3_db_filename(conn->db, "main");
    return path ? path : "the database";
}

static hf_status read_facts(struct conn *conn, struct fit_schema *ret_schema)
{
    sqlite3_stmt *stmt;
    hf_status status = conn_first(conn, SQLITE_QUERY_SCHEMA_FACTS, &stmt);
    if (!status && stmt) {
        struct text release = column_text(stmt, 2);
        ret_schema->number = sqlite3_column_int64(stmt, 0);
        ret_schema->programs_from = sqlite3_column_int64(stmt, 1);
        snprintf(ret_schema->release, sizeof ret_schema->release, "%" TEXT_PRI, TEXT_ARG(release));
        conn_done(stmt);
    }
    return status;
}

hf_status version_read(struct conn *conn, struct fit_schema *ret_schema)
{
    int64_t exists = 0;
    *ret_schema = (struct fit_schema){0};
    hf_status status = conn_number(conn, SQLITE_QUERY_SCHEMA_EXISTS, 0, &exists);
    return status || !exists ? status : read_facts(conn, ret_schema);
}

static bool read_data_version(struct conn *conn, unsigned *ret_data)
{
    /* NULL is the main database, for which no name has to be looked up in each commit. */
    return sqlite3_file_control(conn->db, NULL, SQLITE_FCNTL_DATA_VERSION, ret_data) == SQLITE_OK;
}

bool version_is_checked(struct conn *conn)
{
    unsigned data = 0;
    return conn->checked && read_data_version(conn, &data) && data == conn->checked_data;
}

void version_keep_check(struct conn *conn)
{
    conn->checked = read_data_version(conn, &conn->checked_data);
}

hf_status version_check(struct conn *conn)
{
    unsigned data = 0;
    struct fit_schema schema = {0};
    if (version_is_checked(conn)) {
        return HF_OK;
    }
    conn->head_known = false; /* another connection may have appended */
    bool known = read_data_version(conn, &data);
    hf_status status = read_facts(conn, &schema);
    if (!status && schema.number > 0) {
        status = fit_check(&sqlite_program, &schema, place_of(conn), false);
    }
    conn->checked = status == HF_OK && known;
    conn->checked_data = data;
    return status;
}

bool version_explains(struct conn *conn, const char *why)
{
    struct fit_schema schema;
    if (strncmp(why, "no such ", 8) != 0 && !strstr(why, " has no column named ")) {
        return false;
    }
    if (version_read(conn, &schema) != HF_OK || schema.number == 0 ||
        schema.number == sqlite_program.number) {
        return false;
    }
    fit_fail_missing(&sqlite_program, &schema, place_of(conn), why);
    return true;
}
