/*
 * postgres.c - see postgres.h.
 */
#include "support/postgres.h"

#include "base/time/clock.h"
#include "support/check.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define SESSIONS "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1"

bool postgres_run(const char *url, const char *sql)
{
    PGconn *pg = PQconnectdb(url);
    PGresult *result = PQexec(pg, sql);
    bool ok = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    PQfinish(pg);
    return ok;
}

bool postgres_each(const char *url, const char *sql, void (*found)(const char *value, void *ctx),
                   void *ctx)
{
    PGconn *pg = PQconnectdb(url);
    PGresult *result = PQexec(pg, sql);
    bool ok = PQresultStatus(result) == PGRES_TUPLES_OK;
    for (int i = 0; ok && i < PQntuples(result); i++) {
        found(PQgetvalue(result, i, 0), ctx);
    }
    PQclear(result);
    PQfinish(pg);
    return ok;
}

PGconn *postgres_lock(const char *url, const char *tables)
{
    PGconn *pg = PQconnectdb(url);
    char sql[256];
    snprintf(sql, sizeof sql, "BEGIN; LOCK TABLE %s IN ACCESS EXCLUSIVE MODE", tables);
    PGresult *result = PQexec(pg, sql);
    bool ok = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    if (!ok) {
        PQfinish(pg);
    }
    return ok ? pg : NULL;
}

void postgres_await_end(const char *url, const char *application_name)
{
    PGconn *pg = PQconnectdb(url);
    int64_t until_us = clock_mono_us() + PATIENCE_MS * INT64_C(1000);
    bool ended = false;
    for (long rest_ms = 1; !ended; rest_ms = rest_ms < 20 ? 2 * rest_ms : rest_ms) {
        must_hold(clock_mono_us() < until_us);
        PGresult *result = PQexecParams(pg, SESSIONS, 1, NULL, &application_name, NULL, NULL, 0);
        must_equal(PGRES_TUPLES_OK, PQresultStatus(result));
        ended = strcmp(PQgetvalue(result, 0, 0), "0") == 0;
        PQclear(result);
        nanosleep(&(struct timespec){.tv_nsec = ended ? 0 : rest_ms * 1000000}, NULL);
    }
    PQfinish(pg);
}
