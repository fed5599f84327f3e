/*
 * errors.c - what the server's codes mean to us, and what to tell the user.
 *
 * Only SQLSTATEs are looked at, never texts: those are in the server's language. A failure to
 * connect has no code of its own in libpq, so dial.c asks for verbose messages while it
 * connects, in which the code stands between the severity and the text.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "store/postgres/postgres.h"
#include "store/postgres/wire/errors.h"

/* By the first characters; the longest that fits counts, so the special comes before the
 * general. */
static const struct meaning {
    const char *prefix;
    hf_status status;
    const char *advice; /* what to do; NULL: the server's text says enough */
} meanings[] = {
    {"08", HF_UNAVAILABLE, NULL},
    {"22", HF_INVALID, NULL},
    {"23505", HF_CONFLICT, NULL}, /* but see is_numbered */
    {"23514", HF_IO, "if a table of the log is missing, holdfast verify says which"},
    {"25006", HF_UNAVAILABLE,
     "the server is in recovery, or the role may only read (default_transaction_read_only): "
     "connect to the primary, or as another role"},
    {"26000", HF_BUSY, NULL},
    {"28", HF_DENIED, "check user and password of the URL, and the server's pg_hba.conf"},
    {"3D000", HF_NOTFOUND, "create the database first: createdb NAME"},
    {"3F000", HF_SCHEMA, "the schema holdfast is gone: open the store again"},
    {"40", HF_BUSY, NULL},
    {"42501", HF_DENIED, NULL}, /* fail_denied says what to run */
    {"42P01", HF_SCHEMA, NULL}, /* fail_missing says what it means */
    {"42883", HF_SCHEMA, NULL},
    {"42703", HF_SCHEMA, NULL},
    {"42704", HF_SCHEMA, NULL},
    {"53100", HF_NOSPACE, "the server's disk is full"},
    {"53300", HF_UNAVAILABLE,
     "the server has no connection left: raise max_connections, or use fewer processes, or fewer "
     "sessions for each (holdfast_sessions)"},
    {"53", HF_UNAVAILABLE, NULL},
    {"55P03", HF_BUSY,
     "it did not get a lock that another transaction holds, and changed nothing: end that "
     "transaction (holdfast doctor names those that stay open), or repeat"},
    {"55", HF_BUSY, NULL},
    {"57014", HF_TIMEOUT, NULL},
    {"57", HF_UNAVAILABLE, NULL},
    {"58", HF_IO, NULL},
    {"XX001", HF_CORRUPT, NULL},
    {"XX002", HF_CORRUPT, NULL},
};

static const struct meaning *meaning_of(const char *sqlstate)
{
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        if (strncmp(sqlstate, meanings[i].prefix, strlen(meanings[i].prefix)) == 0) {
            return &meanings[i];
        }
    }
    return NULL;
}

/* The status for a SQLSTATE. */
static hf_status status_of(const char *sqlstate)
{
    if (sqlstate[0] == 'H' && sqlstate[1] == 'F' && isdigit((unsigned char)sqlstate[2])) {
        int number = (sqlstate[3] - '0') * 10 + (sqlstate[4] - '0');
        return number > 0 && number <= (int)HF_IO ? (hf_status)number : HF_IO;
    }
    const struct meaning *meaning = meaning_of(sqlstate);
    return meaning ? meaning->status : HF_IO;
}

bool postgres_is_passing(const char *sqlstate)
{
    return strcmp(sqlstate, "40001") == 0 || strcmp(sqlstate, "40P01") == 0 ||
           strcmp(sqlstate, "55P03") == 0 || strcmp(sqlstate, "26000") == 0 ||
           strcmp(sqlstate, "57P01") == 0 || strcmp(sqlstate, "57P02") == 0 ||
           strcmp(sqlstate, "57P03") == 0 || strncmp(sqlstate, "08", 2) == 0;
}

bool session_leaves_open(const struct session *session, const char *sqlstate)
{
    return strncmp(sqlstate, "08", 2) == 0 ||
           (session_has(session, SESSION_POOLED) && strncmp(sqlstate, "57P", 3) == 0);
}

/* The first line, without what libpq puts around it. */
static void first_line(const char *message, char *out, size_t out_bytes)
{
    size_t length = strcspn(message, "\n");
    snprintf(out, out_bytes, "%.*s", (int)length, message);
}

/* With what an administrator has to run. Only scripts make the schema, and only that needs CREATE:
 * who may not use what is there must not be told to ask for so much. */
static hf_status fail_denied(struct session *session, const char *line, bool script)
{
    const char *place = session->engine->place;
    char *database = PQescapeIdentifier(session->pg, PQdb(session->pg), strlen(PQdb(session->pg)));
    char *role = PQescapeIdentifier(session->pg, PQuser(session->pg), strlen(PQuser(session->pg)));
    hf_status status;
    if (!database || !role) {
        status = fail(HF_DENIED, "%s: %s (42501)", place, line);
    } else if (script) {
        status = fail(HF_DENIED,
                      "%s: %s (42501); to make the schema, the role needs: GRANT CREATE ON "
                      "DATABASE %s TO %s",
                      place, line, database, role);
    } else {
        status = fail(HF_DENIED,
                      "%s: %s (42501); holdfast namespace grant ROLE NAMESPACE %s says what the "
                      "role may do in a namespace; the rest is for the owner of the schema",
                      place, line, role);
    }
    PQfreemem(database);
    PQfreemem(role);
    return status;
}

/* The primary keys whose numbers come from a sequence: one of them is taken only if its sequence is
 * behind its table, because rows were restored without it. Nothing was stored. */
static bool is_numbered(const PGresult *result)
{
    static const char *const keys[] = {"delayed_pkey",         "letters_pkey",
                                       "subscriptions_pkey",   "namespaces_pkey",
                                       "checkpoints_0_newest", "checkpoints_1_newest"};
    const char *name = PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME);
    for (size_t i = 0; name && i < sizeof keys / sizeof keys[0]; i++) {
        if (strcmp(name, keys[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Does the text name something that the engine's namespace has of its own: the table or sequence
 * events_7 or events_7_..., the functions append_7, claim_7, log_7, ...? Names are the same in
 * every language of the server. */
static bool names_own(const struct postgres_engine *engine, const char *line)
{
    static const char *const own[] = {"events_",  "append_",       "claim_", "lease_events_",
                                      "pending_", "holdfast.log_", "times_", "drawn_"};
    for (size_t i = 0; engine->namespace_id > 0 && i < sizeof own / sizeof own[0]; i++) {
        char name[32];
        int length = snprintf(name, sizeof name, "%s%d", own[i], (int)engine->namespace_id);
        const char *at = strstr(line, name);
        if (at && !isdigit((unsigned char)at[length])) {
            return true;
        }
    }
    return false;
}

/* A table or a function is missing that a statement of ours uses. Each namespace has some of its
 * own, which go when it is removed. */
static hf_status fail_missing(struct session *session, const char *line, const char *sqlstate)
{
    const struct postgres_engine *engine = session->engine;
    if (names_own(engine, line)) {
        return fail(HF_NOTFOUND,
                    "namespace %s is gone: it was removed while this process had it open, or its "
                    "objects were dropped (%s: %s, %s)",
                    engine->namespace_name, engine->place, line, sqlstate);
    }
    char why[HF_ERR_BYTES_MAX];
    struct fit_schema schema = postgres_schema(engine);
    snprintf(why, sizeof why, "%.800s, %s", line, sqlstate);
    if (schema.number != 0 && schema.number != postgres_program.number) {
        return fit_fail_missing(&postgres_program, &schema, engine->place, why);
    }
    return fail(HF_SCHEMA, "%s: the schema holdfast is not what this program expects: %.800s%s",
                engine->place, why,
                engine->functions == HF_FUNCTIONS_NONE || engine->functions == HF_FUNCTIONS_SAME
                    ? ""
                    : "; its functions are those of another build: run `holdfast migrate`");
}

/* Codes of what is not there: a table, a function, a column, a type. */
static bool is_missing(const char *sqlstate)
{
    return strcmp(sqlstate, "42P01") == 0 || strcmp(sqlstate, "42883") == 0 ||
           strcmp(sqlstate, "42703") == 0 || strcmp(sqlstate, "42704") == 0;
}

static hf_status fail_behind(struct session *session, const char *line)
{
    return fail(HF_CORRUPT,
                "%s: %s (23505): its sequence is behind its table, as after a restore of rows "
                "alone; the owner of the schema runs SELECT holdfast.mend_sequences()",
                session->engine->place, line);
}

static hf_status fail_unnamed(struct session *session, hf_status status, const char *line,
                              const char *sqlstate, enum postgres_query query)
{
    const struct meaning *meaning = meaning_of(sqlstate);
    bool advised = meaning && meaning->advice;
    return fail(status, "%s: %s: %s (%s)%s%s", session->engine->place,
                query < POSTGRES_QUERY_COUNT ? postgres_queries[query].name : "script", line,
                sqlstate, advised ? "; " : "", advised ? meaning->advice : "");
}

static hf_status fail_lost(struct session *session)
{
    char line[HF_ERR_BYTES_MAX];
    first_line(session->pg ? PQerrorMessage(session->pg) : "not connected", line, sizeof line);
    return fail(HF_UNAVAILABLE, "%s: the connection was lost: %s", session->engine->place, line);
}

hf_status session_fail(struct session *session, const PGresult *result, enum postgres_query query)
{
    const char *sqlstate = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *primary = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    char line[HF_ERR_BYTES_MAX];
    snprintf(session->sqlstate, sizeof session->sqlstate, "%s", sqlstate ? sqlstate : "");
    if (!sqlstate) {
        return fail_lost(session);
    }
    first_line(primary ? primary : "", line, sizeof line);
    hf_status status = status_of(sqlstate);
    if (strncmp(sqlstate, "HF", 2) == 0) {
        return fail(status, "%s", line);
    }
    if (strcmp(sqlstate, "42501") == 0) {
        return fail_denied(session, line, query >= POSTGRES_QUERY_COUNT);
    }
    if (strcmp(sqlstate, "23505") == 0 && is_numbered(result)) {
        return fail_behind(session, line);
    }
    if (is_missing(sqlstate)) {
        return fail_missing(session, line, sqlstate);
    }
    return fail_unnamed(session, status, line, sqlstate, query);
}

/* ---- Failures to connect --------------------------------------------------------------------- */

/* The code in a verbose message, "FATAL:  28P01: password ...": five characters between blanks
 * and a colon. The last one counts: with several hosts, that of the last host. */
static bool find_code(const char *message, char ret_code[6], const char **ret_text)
{
    bool found = false;
    for (const char *at = strstr(message, ":  "); at; at = strstr(at + 1, ":  ")) {
        const char *code = at + 3;
        size_t length = strspn(code, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (length == 5 && code[5] == ':') {
            memcpy(ret_code, code, 5);
            ret_code[5] = '\0';
            *ret_text = code + 6 + strspn(code + 6, " ");
            found = true;
        }
    }
    return found;
}

hf_status errors_connect(struct session *session)
{
    const char *message = PQerrorMessage(session->pg);
    const char *text = message;
    char code[6] = "";
    char line[HF_ERR_BYTES_MAX];
    bool coded = find_code(message, code, &text);
    snprintf(session->sqlstate, sizeof session->sqlstate, "%s", code);
    first_line(text, line, sizeof line);
    const struct meaning *meaning = coded ? meaning_of(code) : NULL;
    if (!coded && PQconnectionNeedsPassword(session->pg)) {
        return fail(HF_DENIED,
                    "cannot connect to %s: the server asks for a password and none was given; put "
                    "it into a password file (PGPASSFILE) or into PGPASSWORD",
                    session->engine->place);
    }
    hf_status status = meaning ? meaning->status : HF_UNAVAILABLE;
    bool advised = meaning && meaning->advice;
    return fail(status, "cannot connect to %s: %s%s%s%s%s%s", session->engine->place, line,
                coded ? " (" : "", code, coded ? ")" : "", advised ? "; " : "",
                advised ? meaning->advice : "");
}
