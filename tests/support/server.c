/* server.c - see server.h. */
#include "support/server.h"

#include "support/check.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK "{database}"
#define PREFIX "hf_test_"
#define COUNT_NAMED "SELECT count(*) FROM pg_database WHERE datname = $1"

static int databases_made;

bool server_is(const char *url)
{
    return strncmp(url, "postgres:", 9) == 0 || strncmp(url, "postgresql:", 11) == 0;
}

/*
 * The session that makes and removes databases. A session costs the server more than the statements
 * that run in it, so it is kept until another server is asked, or, in a forked child, another
 * process asks.
 */
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
    if (PQstatus(kept) != CONNECTION_OK) {
        check_fail(__FILE__, __LINE__, "%s", PQerrorMessage(kept));
    }
    PQsetNoticeProcessor(kept, NULL, NULL);
}

/* Runs one statement; NULL: the session has been lost, for example because the server stopped. */
static PGresult *kept_run(const char *sql, const char *parameter)
{
    PGresult *result = PQexecParams(kept, sql, parameter ? 1 : 0, NULL, &parameter, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(result);
    bool good = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
    /* A session that is lost while the statement is sent may still look like a good one; but then
     * the error has no code, or that of a server which shuts down. */
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (!good && sqlstate && strncmp(sqlstate, "57P", 3) != 0) {
        check_fail(__FILE__, __LINE__, "%s: %s", sql, PQerrorMessage(kept));
    }
    if (!good) {
        PQclear(result);
    }
    return good ? result : NULL;
}

/* Runs one statement on a database; the number of its first value. */
static int64_t server_ask(const char *url, const char *sql, const char *parameter)
{
    bool mine = kept && kept_by == getpid() && strcmp(kept_url, url) == 0;
    PGresult *result = mine ? kept_run(sql, parameter) : NULL;
    if (!result) {
        kept_open(url);
        result = kept_run(sql, parameter);
    }
    must_hold(result);
    int64_t number = PQntuples(result) > 0 ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    return number;
}

/* The pattern with another database in it. */
static void url_with(const char *pattern, const char *mark, const char *database, char *out,
                     size_t out_bytes)
{
    const char *at = strstr(pattern, mark);
    must_hold(at);
    int length = snprintf(out, out_bytes, "%.*s%s%s", (int)(at - pattern), pattern, database,
                          at + strlen(mark));
    must_hold(length > 0 && (size_t)length < out_bytes);
}

/* Makes a copy of this database, or, if there is none of this name, an empty one. */
static void make(const char *pattern, const char *from, char *out, size_t out_bytes)
{
    if (!strstr(pattern, MARK)) {
        must_hold(strlen(pattern) < out_bytes);
        snprintf(out, out_bytes, "%s", pattern);
        return;
    }
    char name[SERVER_NAME_BYTES];
    char admin[1024];
    char sql[128];
    snprintf(name, sizeof name, PREFIX "%d_%d", (int)getpid(), ++databases_made);
    url_with(pattern, MARK, "postgres", admin, sizeof admin);
    bool copied = server_ask(admin, COUNT_NAMED, from) > 0;
    /* Copying files is cheaper than logging each page, and what all servers before 15 do. */
    snprintf(sql, sizeof sql, "CREATE DATABASE %s TEMPLATE %s%s", name, copied ? from : "template1",
             PQserverVersion(kept) < 150000 ? "" : " STRATEGY file_copy");
    server_ask(admin, sql, NULL);
    url_with(pattern, MARK, name, out, out_bytes);
}

void server_make(const char *pattern, char *out, size_t out_bytes)
{
    make(pattern, "template1", out, out_bytes);
}

void server_make_ready(const char *pattern, char *out, size_t out_bytes)
{
    make(pattern, SERVER_READY, out, out_bytes);
}

void server_make_default(const char *pattern, char *out, size_t out_bytes)
{
    make(pattern, SERVER_DEFAULT, out, out_bytes);
}

void server_remove(const char *url)
{
    const char *at = server_is(url) ? strstr(url, PREFIX) : NULL;
    if (!at) {
        return;
    }
    char name[SERVER_NAME_BYTES];
    char admin[1024];
    char sql[128];
    snprintf(name, sizeof name, "%.*s", (int)strspn(at, PREFIX "0123456789"), at);
    snprintf(sql, sizeof sql, "DROP DATABASE IF EXISTS %s WITH (FORCE)", name);
    url_with(url, name, "postgres", admin, sizeof admin);
    server_ask(admin, sql, NULL);
}
