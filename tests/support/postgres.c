/*
 * postgres.c - see postgres.h.
 */
#include "support/postgres.h"

#include "base/time/clock.h"
#include "support/check.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SESSIONS "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1"

/*
 * The session of postgres_ask. To make one costs the server more than most statements, so it is
 * kept until another database is asked, or, in a forked child, another process asks.
 */
static pthread_mutex_t kept_mutex = PTHREAD_MUTEX_INITIALIZER;
static PGconn *kept;
static char kept_url[1024];
static pid_t kept_by;

static void kept_open(const char *url)
{
    if (kept_by == getpid()) {
        PQfinish(kept); /* else it belongs to the parent */
    }
    kept_by = getpid();
    snprintf(kept_url, sizeof kept_url, "%s", url);
    kept = PQconnectdb(url);
}

/* Whether the session has ended, for example because the server stopped or the database is a new
 * one of the same name. */
static bool is_lost(const PGresult *result)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    return PQstatus(kept) != CONNECTION_OK || (sqlstate && strncmp(sqlstate, "57P", 3) == 0);
}

static PGresult *kept_ask(const char *url, const char *sql)
{
    bool old = kept && kept_by == getpid() && strcmp(kept_url, url) == 0;
    if (!old) {
        kept_open(url);
    }
    PGresult *result = PQexec(kept, sql);
    if (old && is_lost(result)) {
        PQclear(result);
        kept_open(url);
        result = PQexec(kept, sql);
    }
    return result;
}

PGresult *postgres_ask(const char *url, const char *sql)
{
    if (pthread_mutex_trylock(&kept_mutex) != 0) { /* a statement of another thread may wait long */
        PGconn *pg = PQconnectdb(url);
        PGresult *result = PQexec(pg, sql);
        PQfinish(pg);
        return result;
    }
    PGresult *result = kept_ask(url, sql);
    pthread_mutex_unlock(&kept_mutex);
    return result;
}

bool postgres_run(const char *url, const char *sql)
{
    PGresult *result = postgres_ask(url, sql);
    bool ok = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    return ok;
}

bool postgres_each(const char *url, const char *sql, void (*found)(const char *value, void *ctx),
                   void *ctx)
{
    PGresult *result = postgres_ask(url, sql);
    bool ok = PQresultStatus(result) == PGRES_TUPLES_OK;
    for (int i = 0; ok && i < PQntuples(result); i++) {
        found(PQgetvalue(result, i, 0), ctx);
    }
    PQclear(result);
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
    int64_t until_us = clock_mono_us() + DEADLINE_MS * INT64_C(1000);
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
