/*
 * support_tables.c - see support_tables.h.
 */
#include "support_tables.h"

#include "support/postgres.h"

#include <sqlite3.h>

/* ---- A connection of its own ----------------------------------------------------------------- */

static sqlite3 *open_file(struct scene *scene)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open_v2(scene->path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_busy_timeout(db, 10000);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    return db;
}

static PGresult *ask_server(struct scene *scene, const char *sql)
{
    PGresult *result = postgres_ask(scene->url, sql);
    ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", sql, PQresultErrorMessage(result));
    }
    return result;
}

void tables_run(struct scene *scene, const char *sql)
{
    char *why = NULL;
    sqlite3 *db;

    if (!scene->path) {
        PQclear(ask_server(scene, sql));
        return;
    }
    db = open_file(scene);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK) {
        fail_msg("%s: %s", sql, why);
    }
    sqlite3_close(db);
}

int64_t tables_number(struct scene *scene, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    int64_t value = -1;
    sqlite3 *db;

    if (!scene->path) {
        PGresult *result = ask_server(scene, sql);

        if (PQntuples(result) > 0 && !PQgetisnull(result, 0, 0)) {
            value = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
        }
        PQclear(result);
        return value;
    }
    db = open_file(scene);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    if (sqlite3_step(statement) == SQLITE_ROW) {
        value = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return value;
}

int64_t tables_events(struct scene *scene)
{
    return tables_number(scene, scene->path ? "SELECT count(*) FROM holdfast_events"
                                            : "SELECT count(*) FROM holdfast_private.events");
}

/* ---- The handler's --------------------------------------------------------------------------- */

bool delivery_run(hf_delivery *delivery, const char *format, ...)
{
    sqlite3 *db = hf_delivery_sqlite(delivery);
    PGconn *pg = hf_delivery_postgres(delivery);
    char sql[512];
    bool ok = false;
    va_list args;

    va_start(args, format);
    vsnprintf(sql, sizeof sql, format, args);
    va_end(args);
    if (db) {
        return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
    }
    if (pg) {
        PGresult *result = PQexec(pg, sql);
        ExecStatusType status = PQresultStatus(result);

        ok = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
        PQclear(result);
    }
    return ok;
}

bool delivery_has_connection(hf_delivery *delivery)
{
    return hf_delivery_sqlite(delivery) || hf_delivery_postgres(delivery);
}
