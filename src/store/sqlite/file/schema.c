/*
 * schema.c - whether the schema of a file is the one that this program makes. See schema.h.
 *
 * What is expected is made, not written down: the migrations run in a database in memory, as many
 * as the file has gone through, and its sqlite_schema is compared with that of the file. Only what
 * bears a name that begins with holdfast_, or lies on such a table, is looked at; the rest of the
 * file is the application's.
 *
 * A program that works on a schema newer than itself cannot make it. So a migration that lets older
 * programs work on leaves a record of what is expected in holdfast_meta: the rows of sqlite_schema,
 * each column as its length, a colon, and its bytes.
 *
 * The statements in sqlite_schema are compared without white space, comments and the quotes of
 * names, in lower case outside of literals: a table that a person has made again, from a dump for
 * instance, is as good as ours if it means the same.
 */
#include "store/sqlite/file/schema.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/text/buf.h"
#include "store/sqlite/file/version.h"

#define SQL_BYTES_MAX 1048576
#define SENTENCE_BYTES 1024
#define SHOWN_BYTES 60 /* of two statements, from where they differ */

enum object_column { OBJECT_TYPE, OBJECT_NAME, OBJECT_TABLE, OBJECT_SQL, OBJECT_COLUMNS };

/* A row of sqlite_schema. */
struct object {
    char *texts[OBJECT_COLUMNS]; /* NUL-terminated; the statement in the form that is compared */
    bool seen;                   /* the file has it */
};

struct schema {
    struct object *objects;
    size_t count;
    size_t room;
};

/* ---- Statements ------------------------------------------------------------------------------ */

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

/* Where white space or a comment that begins at `at` ends; `at` itself if there is none. */
static size_t blank_end(struct text sql, size_t at)
{
    const char *bytes = sql.bytes + at;
    size_t left = sql.length - at;
    const char *end = NULL;
    if (isspace((unsigned char)bytes[0])) {
        return at + 1;
    }
    if (left >= 2 && memcmp(bytes, "--", 2) == 0) {
        end = memchr(bytes, '\n', left);
        return end ? (size_t)(end - sql.bytes) + 1 : sql.length;
    }
    if (left >= 2 && memcmp(bytes, "/*", 2) == 0) {
        end = memmem(bytes + 2, left - 2, "*/", 2);
        return end ? (size_t)(end - sql.bytes) + 2 : sql.length;
    }
    return at;
}

/* Where a literal or quoted name that begins at `at` ends; `at` itself if there is none. */
static size_t quoted_end(struct text sql, size_t at)
{
    char quote = sql.bytes[at];
    if (!strchr("'\"`[", quote) || quote == '\0') {
        return at;
    }
    quote = quote == '[' ? ']' : quote;
    for (size_t i = at + 1; i < sql.length; i++) {
        if (sql.bytes[i] != quote) {
            continue;
        }
        if (quote == ']' || i + 1 == sql.length || sql.bytes[i + 1] != quote) {
            return i + 1;
        }
        i++;
    }
    return sql.length;
}

static bool is_plain_name(struct text name)
{
    for (size_t i = 0; i < name.length; i++) {
        if (!is_word(name.bytes[i])) {
            return false;
        }
    }
    return name.length > 0;
}

/* A word or a single character; a blank stands only between two words. */
static void append_part(struct buf *out, struct text part)
{
    struct text before = buf_text(out);
    if (before.length > 0 && is_word(before.bytes[before.length - 1]) && is_word(part.bytes[0])) {
        buf_char(out, ' ');
    }
    for (size_t i = 0; i < part.length; i++) {
        buf_char(out, (char)tolower((unsigned char)part.bytes[i]));
    }
}

/* Appends a statement in the form that is compared. */
static void append_normal(struct buf *out, struct text sql)
{
    size_t end;
    for (size_t at = 0; at < sql.length; at = end) {
        if ((end = blank_end(sql, at)) > at) {
            continue;
        }
        if ((end = quoted_end(sql, at)) > at) {
            struct text inner = {sql.bytes + at + 1, end - at >= 2 ? end - at - 2 : 0};
            if (sql.bytes[at] != '\'' && is_plain_name(inner)) {
                append_part(out, inner);
            } else {
                buf_append(out, sql.bytes + at, end - at);
            }
            continue;
        }
        for (end = at + 1; is_word(sql.bytes[at]) && end < sql.length && is_word(sql.bytes[end]);) {
            end++;
        }
        append_part(out, (struct text){sql.bytes + at, end - at});
    }
}

/* ---- What this program makes ----------------------------------------------------------------- */

static void object_release(struct object *object)
{
    for (int i = 0; i < OBJECT_COLUMNS; i++) {
        mem_free(object->texts[i]);
    }
}

static hf_status object_make(const struct text texts[OBJECT_COLUMNS], struct object *object)
{
    struct buf sql;
    memset(object, 0, sizeof *object);
    for (int i = 0; i < OBJECT_SQL; i++) {
        object->texts[i] = mem_dup(texts[i].bytes, texts[i].length);
    }
    buf_init(&sql, SQL_BYTES_MAX);
    append_normal(&sql, texts[OBJECT_SQL]);
    hf_status status = buf_status(&sql);
    buf_terminate(&sql);
    object->texts[OBJECT_SQL] = buf_detach(&sql, NULL);
    buf_release(&sql);
    for (int i = 0; i < OBJECT_COLUMNS && !status; i++) {
        status = object->texts[i] ? HF_OK : HF_NOMEM;
    }
    if (status) {
        object_release(object);
        return fail(status, "no memory for the schema");
    }
    return HF_OK;
}

static hf_status object_read(sqlite3_stmt *stmt, struct object *object)
{
    struct text texts[OBJECT_COLUMNS];
    for (int i = 0; i < OBJECT_COLUMNS; i++) {
        texts[i] = column_text(stmt, i);
    }
    return object_make(texts, object);
}

static void schema_release(struct schema *schema)
{
    for (size_t i = 0; i < schema->count; i++) {
        object_release(&schema->objects[i]);
    }
    mem_free(schema->objects);
}

static hf_status schema_add(struct schema *schema, const struct text texts[OBJECT_COLUMNS])
{
    if (schema->count == schema->room) {
        size_t room = schema->room ? 2 * schema->room : 64;
        struct object *grown = mem_realloc(schema->objects, room * sizeof *grown);
        if (!grown) {
            return fail(HF_NOMEM, "no memory for the schema");
        }
        schema->objects = grown;
        schema->room = room;
    }
    hf_status status = object_make(texts, &schema->objects[schema->count]);
    schema->count += status == HF_OK;
    return status;
}

/* Calls `row` with the columns of each row that is looked at. */
typedef hf_status (*object_row_fn)(const struct text texts[OBJECT_COLUMNS], void *ctx);

static hf_status each_object(struct conn *conn, object_row_fn found, void *ctx)
{
    sqlite3_stmt *stmt = NULL;
    hf_status status = conn_first(conn, SQLITE_QUERY_VERIFY_SCHEMA, &stmt);
    bool row = status == HF_OK && stmt;
    while (!status && row) {
        struct text texts[OBJECT_COLUMNS];
        for (int i = 0; i < OBJECT_COLUMNS; i++) {
            texts[i] = column_text(stmt, i);
        }
        status = found(texts, ctx);
        if (status) {
            conn_done(stmt);
        } else {
            status = conn_row(conn, stmt, &row);
        }
    }
    return status;
}

/* Makes what the first `steps` migrations make, in a database in memory, and calls `found` with its
 * rows. */
static hf_status make_objects(int64_t steps, object_row_fn found, void *ctx)
{
    struct conn conn;
    sqlite3 *db = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    int code = sqlite3_open_v2(":memory:", &db, flags, NULL);
    conn_wrap(&conn, db, DEADLINE_NEVER);
    hf_status status =
        code == SQLITE_OK ? HF_OK : conn_fail_code(&conn, code, "open a database in memory");
    status = status ? status : conn_functions(&conn);
    for (int64_t i = 0; i < steps && !status; i++) {
        if (sqlite3_exec(conn.db, sqlite_migrations[i].sql, NULL, NULL, NULL) != SQLITE_OK) {
            status = conn_fail(&conn, "make the schema in memory");
        }
    }
    if (!status) {
        status = each_object(&conn, found, ctx);
    }
    conn_close(&conn);
    sqlite3_close(db);
    return status;
}

static hf_status keep_object(const struct text texts[OBJECT_COLUMNS], void *ctx)
{
    return schema_add(ctx, texts);
}

/* ---- The record ------------------------------------------------------------------------------ */

static hf_status write_object(const struct text texts[OBJECT_COLUMNS], void *ctx)
{
    for (int i = 0; i < OBJECT_COLUMNS; i++) {
        buf_printf(ctx, "%zu:", texts[i].length);
        buf_append_text(ctx, texts[i]);
    }
    return buf_status(ctx);
}

/* The next column of a record; false at its end, and where it is not what was written. */
static bool next_column(struct text *record, struct text *ret_column)
{
    size_t length = 0;
    size_t at = 0;
    while (at < record->length && at < 8 && isdigit((unsigned char)record->bytes[at])) {
        length = length * 10 + (size_t)(record->bytes[at++] - '0');
    }
    if (at == 0 || at >= record->length || record->bytes[at] != ':' ||
        length > record->length - at - 1) {
        return false;
    }
    *ret_column = (struct text){record->bytes + at + 1, length};
    record->bytes += at + 1 + length;
    record->length -= at + 1 + length;
    return true;
}

static hf_status read_record(struct text record, struct schema *schema)
{
    struct text texts[OBJECT_COLUMNS];
    hf_status status = HF_OK;
    int column = 0;
    while (!status && next_column(&record, &texts[column])) {
        column = (column + 1) % OBJECT_COLUMNS;
        if (column == 0) {
            status = schema_add(schema, texts);
        }
    }
    if (!status && (column > 0 || record.length > 0 || schema->count == 0)) {
        status = fail(HF_SCHEMA, "what a newer program recorded of the schema cannot be read");
    }
    return status;
}

static hf_status load_record(struct conn *conn, struct schema *schema)
{
    bool row = false;
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_META_GET);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_text(stmt, 1, text_of("schema_objects"));
    hf_status status = conn_row(conn, stmt, &row);
    if (!status && row) {
        status = read_record(column_text(stmt, 0), schema);
        conn_done(stmt);
    } else if (!status) {
        status = fail(HF_SCHEMA, "what belongs to a schema of a newer program is not recorded");
    }
    return status;
}

hf_status schema_record(struct conn *conn, int64_t steps, bool is_wanted)
{
    struct buf record;
    hf_status status = HF_OK;
    buf_init(&record, SQL_BYTES_MAX);
    if (is_wanted) {
        status = make_objects(steps, write_object, &record);
    }
    if (!status) {
        status = schema_put(conn, "schema_objects", buf_text(&record));
    }
    buf_release(&record);
    return status;
}

hf_status schema_put(struct conn *conn, const char *name, struct text value)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_META_PUT);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_text(stmt, 1, text_of(name));
    bind_text(stmt, 2, value.length > 0 ? value : text_of(""));
    return conn_run(conn, stmt);
}

/* What the file has to have by its number. */
static hf_status schema_wanted(struct conn *conn, struct schema *wanted)
{
    struct fit_schema schema;
    hf_status status = version_read(conn, &schema);
    if (status) {
        return status;
    }
    if (schema.number > SQLITE_MIGRATION_COUNT) {
        return load_record(conn, wanted);
    }
    int64_t steps = schema.number > 0 ? schema.number : SQLITE_MIGRATION_COUNT;
    return make_objects(steps, keep_object, wanted);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* Triggers have names of their own: one may be called as a table is. */
static bool is_same_name(const struct object *one, const struct object *other)
{
    bool trigger = strcmp(one->texts[OBJECT_TYPE], "trigger") == 0;
    return trigger == (strcmp(other->texts[OBJECT_TYPE], "trigger") == 0) &&
           sqlite3_stricmp(one->texts[OBJECT_NAME], other->texts[OBJECT_NAME]) == 0;
}

static struct object *schema_find(const struct schema *schema, const struct object *object)
{
    for (size_t i = 0; i < schema->count; i++) {
        if (is_same_name(&schema->objects[i], object)) {
            return &schema->objects[i];
        }
    }
    return NULL;
}

static bool is_on_itself(const struct object *object)
{
    return sqlite3_stricmp(object->texts[OBJECT_NAME], object->texts[OBJECT_TABLE]) == 0;
}

/* 'index holdfast_x on holdfast_events', and what is the matter with it. */
static void say(const struct object *object, const char *what, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s %s%s%s %s", object->texts[OBJECT_TYPE], object->texts[OBJECT_NAME],
             is_on_itself(object) ? "" : " on ",
             is_on_itself(object) ? "" : object->texts[OBJECT_TABLE], what);
}

/* What the file has is not what is wanted: in what, or "" if it is. */
static void compare(const struct object *wanted, const struct object *found, char *out,
                    size_t bytes)
{
    char what[SENTENCE_BYTES / 2];
    out[0] = '\0';
    if (strcmp(wanted->texts[OBJECT_TYPE], found->texts[OBJECT_TYPE]) != 0) {
        snprintf(what, sizeof what, "is in the place of the %s of that name",
                 wanted->texts[OBJECT_TYPE]);
        say(found, what, out, bytes);
        return;
    }
    if (sqlite3_stricmp(wanted->texts[OBJECT_TABLE], found->texts[OBJECT_TABLE]) != 0) {
        snprintf(what, sizeof what, "belongs on %s", wanted->texts[OBJECT_TABLE]);
        say(found, what, out, bytes);
        return;
    }
    const char *wants = wanted->texts[OBJECT_SQL];
    const char *has = found->texts[OBJECT_SQL];
    size_t same = 0;
    while (wants[same] && wants[same] == has[same]) {
        same++;
    }
    if (wants[same] || has[same]) {
        while (same > 0 && is_word(wants[same - 1])) {
            same--;
        }
        snprintf(what, sizeof what,
                 "is not as this program makes it: it has '%.*s' where '%.*s' belongs", SHOWN_BYTES,
                 has + same, SHOWN_BYTES, wants + same);
        say(found, what, out, bytes);
    }
}

/* Looks at a row of the file's sqlite_schema; "" if it is as it should be. */
static hf_status look_at_object(struct schema *wanted, sqlite3_stmt *stmt, char *out, size_t bytes)
{
    struct object found;
    hf_status status = object_read(stmt, &found);
    if (status) {
        return status;
    }
    struct object *same = schema_find(wanted, &found);
    if (same) {
        same->seen = true;
        compare(same, &found, out, bytes);
    } else {
        say(&found, "does not belong to Holdfast", out, bytes);
    }
    object_release(&found);
    return HF_OK;
}

/* The objects of the file, then those that it does not have. */
static hf_status compare_all(struct schema *wanted, struct conn *conn, int32_t max,
                             verify_said_fn said, void *ctx)
{
    char sentence[SENTENCE_BYTES];
    sqlite3_stmt *stmt = NULL;
    hf_status status = conn_first(conn, SQLITE_QUERY_VERIFY_SCHEMA, &stmt);
    bool row = status == HF_OK && stmt;
    while (row && max > 0) {
        status = look_at_object(wanted, stmt, sentence, sizeof sentence);
        if (!status && sentence[0]) {
            max = said(text_of(sentence), ctx) == 0 ? max - 1 : 0;
        }
        row = false;
        if (!status) {
            status = conn_row(conn, stmt, &row);
        }
    }
    if (row || status) {
        conn_done(stmt);
    }
    for (size_t i = 0; i < wanted->count && !status && max > 0; i++) {
        if (!wanted->objects[i].seen) {
            say(&wanted->objects[i], "is missing", sentence, sizeof sentence);
            max = said(text_of(sentence), ctx) == 0 ? max - 1 : 0;
        }
    }
    return status;
}

hf_status schema_compare(struct conn *conn, int32_t max, verify_said_fn said, void *ctx)
{
    struct schema wanted = {0};
    hf_status status = schema_wanted(conn, &wanted);
    if (!status) {
        status = compare_all(&wanted, conn, max, said, ctx);
    }
    schema_release(&wanted);
    return status;
}

static int keep_sentence(struct text sentence, void *ctx)
{
    snprintf(ctx, SENTENCE_BYTES, "%" TEXT_PRI, TEXT_ARG(sentence));
    return 1;
}

hf_status schema_expect(struct conn *conn, const char *path)
{
    char sentence[SENTENCE_BYTES] = "";
    hf_status status = schema_compare(conn, 1, keep_sentence, sentence);
    if (!status && sentence[0]) {
        status = fail(HF_SCHEMA,
                      "%s: %s. Make it as it is in a new database, and remove what does not belong "
                      "to Holdfast",
                      path, sentence);
    }
    return status;
}
