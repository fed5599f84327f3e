/*
 * support_side.c - see support_side.h.
 */
#include "postgres/support_side.h"

#include "support/fixture.h"

#include <stdio.h>
#include <stdlib.h>

PGconn *side_open_url(const char *url)
{
    PGconn *pg = PQconnectdb(url);
    if (PQstatus(pg) != CONNECTION_OK) {
        check_fail(__FILE__, __LINE__, "%s", PQerrorMessage(pg));
    }
    side_must(pg, "SET client_min_messages = warning");
    return pg;
}

PGconn *side_open(const struct fixture *fixture)
{
    return side_open_url(fixture->url);
}

static PGresult *run_text(PGconn *pg, const char *text)
{
    PGresult *result = PQexec(pg, text);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        check_fail(__FILE__, __LINE__, "%s: %s", text, PQerrorMessage(pg));
    }
    return result;
}

void side_must(PGconn *pg, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    PQclear(run_text(pg, text));
}

int64_t side_number(PGconn *pg, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    PGresult *result = run_text(pg, text);
    must_equal(1, PQntuples(result));
    int64_t number = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return number;
}

int64_t side_publish_in(PGconn *pg, const char *namespace_name, const char *type, const char *key)
{
    return side_number(pg, "SELECT position FROM holdfast.publish('%s', '%s', '{}', key => %s%s%s)",
                       namespace_name, type, key ? "'" : "", key ? key : "NULL", key ? "'" : "");
}

int64_t side_publish(PGconn *pg, const struct fixture *fixture, const char *type, const char *key)
{
    return side_publish_in(pg, fixture->namespace_name, type, key);
}

int64_t side_namespace(PGconn *pg, const struct fixture *fixture)
{
    return side_number(pg, "SELECT id FROM holdfast.namespaces WHERE name = '%s'",
                       fixture->namespace_name);
}
