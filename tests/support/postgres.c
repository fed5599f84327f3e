/*
 * postgres.c - see postgres.h.
 */
#include "support/postgres.h"

#include "base/clock.h"
#include "support/check.h"

#include <stdio.h>
#include <time.h>

#define PROCESSES                                                                                  \
    "SELECT count(*) FROM holdfast.processes p "                                                   \
    "JOIN holdfast.namespaces n ON n.id = p.namespace_id "                                         \
    "WHERE n.name = $1 AND holdfast.dead_of(n.id, ARRAY[p.token]) = '{}'"

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

static int count_alive(PGconn *pg, const char *namespace_name)
{
    int alive = -1;
    PGresult *result = PQexecParams(pg, PROCESSES, 1, NULL, &namespace_name, NULL, NULL, 0);
    if (PQresultStatus(result) == PGRES_TUPLES_OK) {
        alive = (int)strtol(PQgetvalue(result, 0, 0), NULL, 10);
    }
    PQclear(result);
    return alive;
}

int postgres_alive(const char *url, const char *namespace_name)
{
    PGconn *pg = PQconnectdb(url);
    int alive = count_alive(pg, namespace_name);
    PQfinish(pg);
    return alive;
}

void postgres_await_death(const char *url, const char *namespace_name, int before)
{
    PGconn *pg = PQconnectdb(url);
    int64_t until_us = clock_mono_us() + PATIENCE_MS * INT64_C(1000);
    while (before > 0 && count_alive(pg, namespace_name) >= before) {
        must_hold(clock_mono_us() < until_us);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    PQfinish(pg);
}
