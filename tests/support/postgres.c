/*
 * postgres.c - see postgres.h.
 */
#include "support/postgres.h"

#include "base/clock.h"
#include "support/check.h"

#include <libpq-fe.h>
#include <time.h>

#define PROCESSES                                                                                  \
    "SELECT count(*) FROM holdfast.processes p "                                                   \
    "JOIN holdfast.namespaces n ON n.id = p.namespace_id "                                         \
    "WHERE n.name = $1 AND holdfast.dead_of(n.id, ARRAY[p.token]) = '{}'"

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
