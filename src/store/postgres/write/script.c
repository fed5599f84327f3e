/*
 * script.c - the SQL that makes the schema `holdfast` or brings it up to date. See script.h.
 *
 * The parts are statements of sql/postgres/queries/install.sql, around the texts of
 * sql/postgres/tables and sql/postgres/functions. The engine runs the same text that
 * `holdfast migrate --print` writes for psql, so a rule of migrating stands once, in SQL.
 *
 * A part is a DO block, and what it may have to run is a literal inside of it: psql, a driver and
 * the engine need no way to branch.
 */
#include "store/postgres/write/script.h"

#define TEXT_OF(number) #number
#define DIGITS(number) TEXT_OF(number)

const char program_release[] =
    DIGITS(HF_VERSION_MAJOR) "." DIGITS(HF_VERSION_MINOR) "." DIGITS(HF_VERSION_PATCH);

/* What stands between braces in a part, and what is put there: a text, or all files of functions.
 */
struct blank {
    const char *name;
    const char *text; /* NULL: the functions */
};

/* The blank that `at` (a brace) begins; NULL if it begins none. */
static const struct blank *blank_at(const struct blank *blanks, const char *at)
{
    for (const struct blank *blank = blanks; blank->name; blank++) {
        size_t length = strlen(blank->name);
        if (strncmp(at + 1, blank->name, length) == 0 && at[1 + length] == '}') {
            return blank;
        }
    }
    return NULL;
}

/* All files of functions are one text: PostgreSQL sees one statement, and so one subtransaction,
 * whatever its client makes of statements (functions/schema/finish.sql counts on it). */
static void append_blank(struct buf *out, const struct blank *blank)
{
    if (blank->text) {
        buf_append_text(out, text_of(blank->text));
        return;
    }
    for (int i = 0; i < POSTGRES_FUNCTIONS_COUNT; i++) {
        buf_append_text(out, text_of(postgres_functions[i].sql));
    }
}

/* Appends a part with its blanks filled in, as statements that end with a semicolon. */
static void append_part(struct buf *out, enum postgres_query query, const struct blank *blanks)
{
    const char *from = postgres_queries[query].sql;
    size_t end = strlen(from);
    while (end > 0 && strchr("; \n", from[end - 1])) {
        end--;
    }
    const char *stop = from + end;
    for (const char *at = from; (at = memchr(at, '{', (size_t)(stop - at)));) {
        const struct blank *blank = blank_at(blanks, at);
        if (!blank) {
            at++;
            continue;
        }
        buf_append(out, from, (size_t)(at - from));
        append_blank(out, blank);
        at += strlen(blank->name) + 2;
        from = at;
    }
    buf_append(out, from, (size_t)(stop - from));
    buf_append_text(out, text_of(";\n\n"));
}

static void append_steps(struct buf *out)
{
    for (int i = 0; i < POSTGRES_MIGRATION_COUNT; i++) {
        char step[16];
        snprintf(step, sizeof step, "%d", postgres_migrations[i].version);
        const struct blank blanks[] = {
            {"step", step}, {"text", postgres_migrations[i].sql}, {NULL, NULL}};
        append_part(out, POSTGRES_QUERY_INSTALL_STEP, blanks);
    }
}

/* Appends a part that has blanks of the program and of statements. */
static void append_check(struct buf *out, enum postgres_query query)
{
    char version[16];
    char from[16];
    snprintf(version, sizeof version, "%d", POSTGRES_MIGRATION_COUNT);
    snprintf(from, sizeof from, "%d", POSTGRES_PROGRAMS_FROM);
    const struct blank blanks[] = {
        {"version", version},
        {"from", from},
        {"release", program_release},
        {"digest", POSTGRES_FUNCTIONS_DIGEST},
        {"schema_exists", postgres_queries[POSTGRES_QUERY_SCHEMA_EXISTS].sql},
        {"schema_use", postgres_queries[POSTGRES_QUERY_SCHEMA_USE].sql},
        {"schema_fault", postgres_queries[POSTGRES_QUERY_SCHEMA_FAULT].sql},
        {"schema_state", postgres_queries[POSTGRES_QUERY_SCHEMA_STATE].sql},
        {"schema_objects", postgres_queries[POSTGRES_QUERY_SCHEMA_OBJECTS].sql},
        {"verify_schema", postgres_queries[POSTGRES_QUERY_VERIFY_SCHEMA].sql},
        {NULL, NULL},
    };
    append_part(out, query, blanks);
}

void script_checks(struct buf *out)
{
    append_check(out, POSTGRES_QUERY_INSTALL_FAULT);
    append_check(out, POSTGRES_QUERY_INSTALL_CHECK);
}

void script_body(struct buf *out)
{
    static const struct blank functions[] = {{"text", NULL}, {NULL, NULL}};
    script_checks(out);
    append_steps(out);
    append_part(out, POSTGRES_QUERY_INSTALL_FUNCTIONS, functions);
    append_check(out, POSTGRES_QUERY_INSTALL_RECORD);
}

void script_whole(struct buf *out)
{
    static const struct blank none[] = {{NULL, NULL}};
    buf_printf(
        out,
        "-- The schema of Holdfast %s for PostgreSQL: version %d, functions %s.\n"
        "-- Written by `holdfast migrate --print`. On an empty database it makes the schema\n"
        "-- holdfast; it brings an older one up to date, and leaves its own and a newer one as\n"
        "-- they are, or refuses a newer one that does not take programs of this version. Run\n"
        "-- it as the role that owns the schema, or is to own it:\n"
        "--\n"
        "--     psql -X -v ON_ERROR_STOP=1 -f holdfast.sql\n\n"
        "BEGIN;\n",
        program_release, POSTGRES_MIGRATION_COUNT, POSTGRES_FUNCTIONS_DIGEST);
    append_part(out, POSTGRES_QUERY_INSTALL_SETTINGS, none);
    append_check(out, POSTGRES_QUERY_INSTALL_FAULT);
    append_part(out, POSTGRES_QUERY_SCHEMA_LOCK, none);
    script_body(out);
    buf_append_text(out, text_of("COMMIT;\n"));
}
