/*
 * types.c - the index on types of a namespace: building it, dropping it, and reading by it.
 *
 * It is a table of (namespace, type, position), and has rows only of namespaces that ask for it. An
 * append writes its row with the event (append.c), the log's trigger deletes it with the event.
 * What was in the log before is added by steps, in the order of positions, each in a transaction of
 * its own; types_through says how far they have come, so that a process that dies between two of
 * them leaves nothing to be repaired. Appends write their rows from the first step on: whatever the
 * steps have not reached when they come to the end of the log is there already.
 *
 * Reading: the types that match are found by skipping from one to the next behind it, so that costs
 * a search for each of them, not for each event. Then each of them has its positions in order, and
 * they are merged.
 */
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/text/glob.h"
#include "store/batch.h"
#include "store/sqlite/file/row.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/append.h"

/* ---- Building and dropping ------------------------------------------------------------------- */

static hf_status read_state(struct conn *conn, int64_t id, enum type_index *ret_state,
                            int64_t *ret_through)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_TYPES_STATE);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, id);
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    *ret_state = TYPE_INDEX_OFF;
    if (!status && row) {
        *ret_state = (enum type_index)sqlite3_column_int(stmt, 0);
        *ret_through = sqlite3_column_int64(stmt, 1);
        conn_done(stmt);
    }
    return status;
}

/* Up to where the next step gets, and how many events that are. */
static hf_status find_end(struct conn *conn, int64_t id, int64_t through, int64_t *ret_end,
                          int64_t *ret_rows)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_TYPES_BUILD_END);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, id);
    bind_int(stmt, 2, through);
    bind_int(stmt, 3, STORE_TYPES_STEP_ROWS);
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (!status && row) {
        *ret_end = column_int(stmt, 0, through);
        *ret_rows = sqlite3_column_int64(stmt, 1);
        conn_done(stmt);
    }
    return status;
}

static hf_status build(struct conn *conn, int64_t id, int64_t through, bool *ret_more)
{
    int64_t end = through;
    int64_t rows = 0;
    hf_status status = find_end(conn, id, through, &end, &rows);
    if (!status && rows > 0) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_TYPES_BUILD, id, through, STORE_TYPES_STEP_ROWS);
    }
    *ret_more = rows == STORE_TYPES_STEP_ROWS;
    HF_POINT("mid_type_steps");
    return status ? status
                  : STATEMENT_RUN(conn, SQLITE_QUERY_TYPES_NOTE, id,
                                  *ret_more ? TYPE_INDEX_BUILDING : TYPE_INDEX_ON, end);
}

static hf_status drop(struct conn *conn, int64_t id, bool *ret_more)
{
    hf_status status = STATEMENT_RUN(conn, SQLITE_QUERY_TYPES_REMOVE, id, STORE_TYPES_STEP_ROWS);
    *ret_more = !status && conn_changes(conn) == STORE_TYPES_STEP_ROWS;
    return status || *ret_more
               ? status
               : STATEMENT_RUN(conn, SQLITE_QUERY_TYPES_NOTE, id, TYPE_INDEX_OFF, 0);
}

hf_status sqlite_type_steps(struct sqlite_engine *engine, struct conn *conn,
                            struct type_steps *steps)
{
    int64_t id = engine->namespace_id;
    bool created;
    hf_status status = HF_OK;
    if (!text_is_absent(steps->name)) {
        status =
            sqlite_namespace_open(conn, steps->name, false, steps->change.now_us, &id, &created);
    }
    enum type_index state = TYPE_INDEX_OFF;
    int64_t through = 0;
    if (!status) {
        status = read_state(conn, id, &state, &through);
    }
    steps->ret_more = false;
    steps->ret_command[0] = '\0';
    if (!status && state == TYPE_INDEX_BUILDING) {
        status = build(conn, id, through, &steps->ret_more);
    } else if (!status && state == TYPE_INDEX_DROPPING) {
        status = drop(conn, id, &steps->ret_more);
    }
    return status;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* One read on its way. */
struct typed_read {
    struct sqlite_engine *engine;
    struct conn *conn;
    int64_t after;
    int32_t max;
    size_t types;       /* that match */
    int64_t *positions; /* of all of them; owned */
    size_t count;
    size_t capacity;
    bool cut; /* one of them has more */
};

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static bool push(struct typed_read *read, int64_t position)
{
    if (read->count == read->capacity) {
        size_t capacity = read->capacity ? 2 * read->capacity : 256;
        int64_t *grown = mem_realloc(read->positions, capacity * sizeof *grown);
        if (!grown) {
            return false;
        }
        read->positions = grown;
        read->capacity = capacity;
    }
    read->positions[read->count++] = position;
    return true;
}

/* Adds the next positions of a type. */
static hf_status add_type(struct typed_read *read, struct text type)
{
    sqlite3_stmt *stmt = conn_statement(read->conn, SQLITE_QUERY_TYPES_POSITIONS);
    if (!stmt) {
        return conn_error(read->conn);
    }
    bind_int(stmt, 1, read->engine->namespace_id);
    bind_text(stmt, 2, type);
    bind_int(stmt, 3, read->after);
    bind_int(stmt, 4, read->max);
    hf_status status = HF_OK;
    bool row = true;
    int32_t rows = 0;
    while (!status && row) {
        status = conn_row(read->conn, stmt, &row);
        if (!status && row) {
            rows++;
            status = push(read, sqlite3_column_int64(stmt, 0))
                         ? HF_OK
                         : fail(HF_NOMEM, "no memory for positions of a type");
        }
    }
    conn_done(stmt);
    read->types++;
    read->cut |= rows == read->max;
    return status;
}

/* Does an earlier pattern match the type, so that it was added? */
static bool is_added(const struct filter *filter, size_t pattern, struct text type)
{
    for (size_t i = 0; i < pattern; i++) {
        if (glob_match(filter->patterns[i], type)) {
            return true;
        }
    }
    return false;
}

/* The next type at (first) or behind `type`, in `found`; an empty one if there is none. */
static hf_status next_type(struct typed_read *read, bool first, struct text type,
                           char found[HF_TYPE_BYTES_MAX + 1], size_t *ret_length)
{
    sqlite3_stmt *stmt =
        conn_statement(read->conn, first ? SQLITE_QUERY_TYPES_NEXT : SQLITE_QUERY_TYPES_AFTER);
    if (!stmt) {
        return conn_error(read->conn);
    }
    bind_int(stmt, 1, read->engine->namespace_id);
    bind_text(stmt, 2, type);
    bool row;
    hf_status status = conn_row(read->conn, stmt, &row);
    *ret_length = 0;
    if (!status && row) {
        struct text next = column_text(stmt, 0);
        *ret_length = next.length <= HF_TYPE_BYTES_MAX ? next.length : 0;
        memcpy(found, next.bytes, *ret_length);
        conn_done(stmt);
    }
    return status;
}

/* Adds the types that match a pattern with a star. */
static hf_status add_matching(struct typed_read *read, const struct filter *filter, size_t pattern,
                              size_t prefix)
{
    struct text wanted = filter->patterns[pattern];
    char bytes[HF_TYPE_BYTES_MAX + 1];
    size_t length = 0;
    hf_status status = next_type(read, true, (struct text){wanted.bytes, prefix}, bytes, &length);
    while (!status && length >= prefix && length > 0 && memcmp(bytes, wanted.bytes, prefix) == 0 &&
           read->types <= STORE_TYPES_MAX) {
        struct text type = {bytes, length};
        if (glob_match(wanted, type) && !is_added(filter, pattern, type)) {
            status = add_type(read, type);
        }
        if (!status) {
            char next[HF_TYPE_BYTES_MAX + 1];
            status = next_type(read, false, type, next, &length);
            memcpy(bytes, next, length);
        }
    }
    return status;
}

static hf_status add_types(struct typed_read *read, const struct filter *filter)
{
    hf_status status = HF_OK;
    for (size_t i = 0; !status && i < filter->count && read->types <= STORE_TYPES_MAX; i++) {
        struct text pattern = filter->patterns[i];
        const char *star = memchr(pattern.bytes, '*', pattern.length);
        if (star) {
            status = add_matching(read, filter, i, (size_t)(star - pattern.bytes));
        } else if (!is_added(filter, i, pattern)) {
            status = add_type(read, pattern);
        }
    }
    return status;
}

/* Reads the events of the first positions. */
static hf_status push_events(struct typed_read *read, struct batch *batch, int64_t *through)
{
    if (read->count > 0) {
        qsort(read->positions, read->count, sizeof *read->positions, compare);
    }
    hf_status status = HF_OK;
    size_t taken = 0;
    while (!status && taken < read->count && taken < (size_t)read->max && !batch_full(batch)) {
        sqlite3_stmt *stmt = NULL;
        int64_t position = read->positions[taken++];
        status = row_find(read->engine, read->conn, 0, position, false, &stmt);
        if (!status && stmt) {
            struct entry *entry;
            status = row_push(batch, stmt, &entry);
            conn_done(stmt);
        }
    }
    if (read->cut || taken < read->count) {
        *through = taken > 0 ? read->positions[taken - 1] : read->after;
    }
    return status;
}

hf_status sqlite_read_types(struct engine *base, const struct filter *filter, int64_t after,
                            int32_t max, struct batch *batch, bool *ret_used, int64_t *ret_through)
{
    struct sqlite_engine *engine = sqlite_of(base);
    struct typed_read read = {.engine = engine, .after = after, .max = max};
    hf_status status = pool_take_snapshot(engine, &read.conn);
    if (status) {
        return status;
    }
    enum type_index state = TYPE_INDEX_OFF;
    int64_t through = 0;
    size_t first = batch->count;
    *ret_used = false;
    status = read_state(read.conn, engine->namespace_id, &state, &through);
    if (!status && state == TYPE_INDEX_ON) {
        status = head_read(engine, read.conn, &through);
        if (!status) {
            status = add_types(&read, filter);
        }
        if (!status && read.types <= STORE_TYPES_MAX) {
            status = push_events(&read, batch, &through);
            *ret_used = true;
            *ret_through = through > after ? through : after;
        }
    }
    pool_give(engine, read.conn);
    mem_free(read.positions);
    if (status) {
        batch->count = first;
    }
    return status;
}
