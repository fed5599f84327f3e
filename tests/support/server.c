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

/* Runs one statement on a database of its own connection; the number of its first value. */
static int64_t server_ask(const char *url, const char *sql, const char *parameter)
{
    PGconn *pg = PQconnectdb(url);
    if (PQstatus(pg) != CONNECTION_OK) {
        check_fail(__FILE__, __LINE__, "%s", PQerrorMessage(pg));
    }
    PQsetNoticeProcessor(pg, NULL, NULL);
    PGresult *result = PQexecParams(pg, sql, parameter ? 1 : 0, NULL, &parameter, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        check_fail(__FILE__, __LINE__, "%s: %s", sql, PQerrorMessage(pg));
    }
    int64_t number = PQntuples(result) > 0 ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    PQfinish(pg);
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

static void make(const char *pattern, bool ready, char *out, size_t out_bytes)
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
    bool copied = ready && server_ask(admin, COUNT_NAMED, SERVER_READY) > 0;
    snprintf(sql, sizeof sql, "CREATE DATABASE %s TEMPLATE %s", name,
             copied ? SERVER_READY : "template1");
    server_ask(admin, sql, NULL);
    url_with(pattern, MARK, name, out, out_bytes);
}

void server_make(const char *pattern, char *out, size_t out_bytes)
{
    make(pattern, false, out, out_bytes);
}

void server_make_ready(const char *pattern, char *out, size_t out_bytes)
{
    make(pattern, true, out, out_bytes);
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
