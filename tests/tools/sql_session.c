/*
 * sql_session.c - runs the statements of a shell test as `psql -qXAt -c` does, but in one session.
 *
 * sql_session FILE: reads requests from stdin, each four texts that end with a zero byte: the role,
 * the database, the options of the session (PGOPTIONS), and the statements. Writes what psql would
 * write to stdout and stderr into FILE, and then its exit status as a line to stdout. A request
 * without statements ends the session; the next one opens another.
 *
 * A new session costs a server several milliseconds, and a new psql costs as much; most statements
 * of tests cost less than one. The session is kept while role, database and options are the same
 * ones. After each request it is as it was at its beginning: an open transaction is rolled back,
 * and DISCARD ALL takes away settings, temporary tables, locks, prepared statements and what it
 * listens to. A session that the server has ended meanwhile is replaced before the statements are
 * sent, never after that.
 *
 * As with psql -c, all statements of a request are one transaction, unless they say otherwise.
 */
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_FAILED = 1, EXIT_UNCONNECTED = 2 };

struct request {
    char *user;
    char *database;
    char *options;
    char *statements;
};

struct client {
    PGconn *pg;           /* NULL: there is no session */
    struct request about; /* role, database and options of the session */
    FILE *out;
};

/* ---- Requests -------------------------------------------------------------------------------- */

/* One text from stdin; NULL: there is none. */
static char *read_text(void)
{
    char *text = NULL;
    size_t bytes = 0;
    if (getdelim(&text, &bytes, '\0', stdin) < 0) {
        free(text);
        return NULL;
    }
    return text;
}

static void release(struct request *request)
{
    free(request->user);
    free(request->database);
    free(request->options);
    free(request->statements);
    *request = (struct request){0};
}

static bool read_request(struct request *request)
{
    request->user = read_text();
    request->database = read_text();
    request->options = read_text();
    request->statements = read_text();
    if (!request->statements) {
        release(request);
        return false;
    }
    return true;
}

/* ---- The session ----------------------------------------------------------------------------- */

static void leave(struct client *client)
{
    PQfinish(client->pg);
    client->pg = NULL;
    release(&client->about);
}

static void print_notice(void *ctx, const char *message)
{
    struct client *client = ctx;
    fputs(message, client->out);
}

/* Whether the session is of this kind and the server has not ended it. */
static bool is_usable(const struct client *client, const struct request *request)
{
    return client->pg && strcmp(client->about.user, request->user) == 0 &&
           strcmp(client->about.database, request->database) == 0 &&
           strcmp(client->about.options, request->options) == 0 && PQconsumeInput(client->pg) &&
           PQstatus(client->pg) == CONNECTION_OK;
}

/* Takes role, database and options out of the request. */
static bool enter(struct client *client, struct request *request)
{
    leave(client);
    client->about = *request;
    client->about.statements = NULL;
    *request = (struct request){.statements = request->statements};
    const char *keywords[] = {"user", "dbname", "options", "application_name", NULL};
    const char *values[] = {client->about.user, client->about.database, client->about.options,
                            "psql", NULL};
    client->pg = PQconnectdbParams(keywords, values, 0);
    if (PQstatus(client->pg) != CONNECTION_OK) {
        fprintf(client->out, "psql: error: %s", PQerrorMessage(client->pg));
        leave(client);
        return false;
    }
    PQsetErrorVerbosity(client->pg, PQERRORS_VERBOSE);
    PQsetNoticeProcessor(client->pg, print_notice, client);
    return true;
}

/* ---- Statements ------------------------------------------------------------------------------ */

static void print_rows(FILE *out, const PGresult *rows)
{
    int row_count = PQnfields(rows) > 0 ? PQntuples(rows) : 0; /* psql shows no rows of nothing */
    for (int row = 0; row < row_count; row++) {
        for (int column = 0; column < PQnfields(rows); column++) {
            fprintf(out, "%s%s", column > 0 ? "|" : "", PQgetvalue(rows, row, column));
        }
        fputc('\n', out);
    }
}

/* COPY TO STDOUT. */
static void print_copy(struct client *client)
{
    char *line;
    for (int bytes; (bytes = PQgetCopyData(client->pg, &line, 0)) > 0; PQfreemem(line)) {
        fwrite(line, 1, (size_t)bytes, client->out);
    }
}

/* Whether the statement succeeded whose result this is. */
static bool print_result(struct client *client, const PGresult *result)
{
    switch (PQresultStatus(result)) {
    case PGRES_TUPLES_OK:
        print_rows(client->out, result);
        return true;
    case PGRES_COMMAND_OK:
    case PGRES_EMPTY_QUERY:
        return true;
    case PGRES_COPY_OUT:
        print_copy(client);
        return true;
    case PGRES_COPY_IN:
        return PQputCopyEnd(client->pg, "there is no input") > 0;
    default:
        fputs(PQresultErrorMessage(result), client->out);
        return false;
    }
}

/* The exit status of psql. */
static int run(struct client *client, const char *statements)
{
    bool succeeded = PQsendQuery(client->pg, statements);
    if (!succeeded) {
        fputs(PQerrorMessage(client->pg), client->out);
    }
    PGresult *result;
    while ((result = PQgetResult(client->pg))) {
        succeeded = print_result(client, result) && succeeded;
        PQclear(result);
    }
    if (PQstatus(client->pg) != CONNECTION_OK) {
        return EXIT_UNCONNECTED;
    }
    return succeeded ? 0 : EXIT_FAILED;
}

/* Gives the session the state that it had at its beginning, or ends it. */
static void forget(struct client *client)
{
    bool is_open = PQtransactionStatus(client->pg) != PQTRANS_IDLE;
    PGresult *result = is_open ? PQexec(client->pg, "ROLLBACK") : NULL;
    PQclear(result);
    result = PQexec(client->pg, "DISCARD ALL");
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        leave(client);
    }
    PQclear(result);
}

static int serve(struct client *client, struct request *request)
{
    if (request->statements[0] == '\0') {
        leave(client);
        return 0;
    }
    if (!is_usable(client, request) && !enter(client, request)) {
        return EXIT_UNCONNECTED;
    }
    int status = run(client, request->statements);
    forget(client);
    return status;
}

int main(int argc, char **argv)
{
    struct client client = {.pg = NULL};
    struct request request;
    if (argc != 2) {
        fprintf(stderr, "usage: sql_session FILE\n");
        return EXIT_FAILED;
    }
    while (read_request(&request)) {
        client.out = fopen(argv[1], "w");
        if (!client.out) {
            perror(argv[1]);
            return EXIT_FAILED;
        }
        int status = serve(&client, &request);
        release(&request);
        fclose(client.out);
        printf("%d\n", status);
        fflush(stdout);
    }
    leave(&client);
    return 0;
}
