/*
 * support_side.c - see support_side.h.
 */
#include "postgres/support_side.h"

#include "support/fixture.h"
#include "support/make.h"

#include <poll.h>
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
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    PQclear(run_text(pg, text));
}

int64_t side_number(PGconn *pg, const char *format, ...)
{
    char text[4096];
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
    return side_number(pg, "SELECT id FROM holdfast_private.namespaces WHERE name = '%s'",
                       fixture->namespace_name);
}

/* When the store last began the statement that looks, in microseconds; 0 while it is at work on it,
 * and before. Preparing it counts, too. */
static int64_t last_look(PGconn *pg, const char *node)
{
    return side_number(pg,
                       "SELECT coalesce(max((extract(epoch FROM query_start) * 1000000)::bigint), "
                       "0) FROM pg_stat_activity WHERE datname = current_database() AND "
                       "application_name = '%s' AND state = 'idle' AND "
                       "query LIKE '%%publishing_now%%'",
                       node);
}

/* What is seen first may be that the statement was prepared, what comes after it is a look. */
void side_await_look(PGconn *pg, const char *node)
{
    int64_t until_ms = mono_ms() + DEADLINE_MS;
    int64_t first = 0;
    int64_t last = 0;
    while (first == 0 || last <= first) {
        must_hold(mono_ms() < until_ms);
        poll(NULL, 0, 2);
        first = first ? first : last;
        last = last_look(pg, node);
    }
}
