/*
 * typed.c - finding events by the index on types. See typed.h, and types.c for the index.
 *
 * The types that match are found by skipping from one to the next behind it, so that costs a search
 * for each of them, not for each event. Then each of them has its positions in order, and they are
 * merged.
 */
#include "store/sqlite/write/typed.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/text/glob.h"
#include "store/common/batch.h"
#include "store/common/checksum.h"
#include "store/sqlite/file/row.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/append.h"
#include "store/sqlite/write/types.h"

/* ---- Positions ------------------------------------------------------------------------------- */

/* One search on its way. */
struct search {
    struct sqlite_engine *engine;
    struct conn *conn;
    int64_t after;
    int32_t max;
    size_t types;       /* that match */
    size_t walked;      /* types that were compared with patterns */
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

static bool push(struct search *search, int64_t position)
{
    if (search->count == search->capacity) {
        size_t capacity = search->capacity ? 2 * search->capacity : 256;
        int64_t *grown = mem_realloc(search->positions, capacity * sizeof *grown);
        if (!grown) {
            return false;
        }
        search->positions = grown;
        search->capacity = capacity;
    }
    search->positions[search->count++] = position;
    return true;
}

/* Adds the next positions of a type. */
static hf_status add_type(struct search *search, struct text type)
{
    sqlite3_stmt *stmt = conn_statement(search->conn, SQLITE_QUERY_TYPES_POSITIONS);
    if (!stmt) {
        return conn_error(search->conn);
    }
    bind_int(stmt, 1, search->engine->namespace_id);
    bind_text(stmt, 2, type);
    bind_int(stmt, 3, search->after);
    bind_int(stmt, 4, search->max);
    hf_status status = HF_OK;
    bool row = true;
    int32_t rows = 0;
    while (!status && row) {
        status = conn_row(search->conn, stmt, &row);
        if (!status && row) {
            rows++;
            status = push(search, sqlite3_column_int64(stmt, 0))
                         ? HF_OK
                         : fail(HF_NOMEM, "no memory for positions of a type");
        }
    }
    conn_done(stmt);
    search->types++;
    search->cut |= rows == search->max;
    return status;
}

/* Whether the search is worth going on with. */
static bool is_bounded(const struct search *search)
{
    return search->types <= STORE_TYPES_MAX && search->walked <= STORE_TYPES_WALK_MAX;
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
static hf_status next_type(struct search *search, bool first, struct text type,
                           char found[HF_TYPE_BYTES_MAX + 1], size_t *ret_length)
{
    sqlite3_stmt *stmt =
        conn_statement(search->conn, first ? SQLITE_QUERY_TYPES_NEXT : SQLITE_QUERY_TYPES_AFTER);
    if (!stmt) {
        return conn_error(search->conn);
    }
    bind_int(stmt, 1, search->engine->namespace_id);
    bind_text(stmt, 2, type);
    bool row;
    hf_status status = conn_row(search->conn, stmt, &row);
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
static hf_status add_matching(struct search *search, const struct filter *filter, size_t pattern,
                              size_t prefix)
{
    struct text wanted = filter->patterns[pattern];
    char bytes[HF_TYPE_BYTES_MAX + 1];
    size_t length = 0;
    hf_status status = next_type(search, true, (struct text){wanted.bytes, prefix}, bytes, &length);
    while (!status && length >= prefix && length > 0 && memcmp(bytes, wanted.bytes, prefix) == 0 &&
           is_bounded(search)) {
        struct text type = {bytes, length};
        search->walked++;
        if (glob_match(wanted, type) && !is_added(filter, pattern, type)) {
            status = add_type(search, type);
        }
        if (!status) {
            char next[HF_TYPE_BYTES_MAX + 1];
            status = next_type(search, false, type, next, &length);
            memcpy(bytes, next, length);
        }
    }
    return status;
}

static hf_status add_types(struct search *search, const struct filter *filter)
{
    hf_status status = HF_OK;
    for (size_t i = 0; !status && i < filter->count && is_bounded(search); i++) {
        struct text pattern = filter->patterns[i];
        const char *star = memchr(pattern.bytes, '*', pattern.length);
        if (star) {
            status = add_matching(search, filter, i, (size_t)(star - pattern.bytes));
        } else if (!is_added(filter, i, pattern)) {
            status = add_type(search, pattern);
        }
    }
    return status;
}

/* Puts what was found into order, and leaves out what is too much or too far. */
static struct typed finish(struct search *search, int64_t through)
{
    struct typed typed = {search->positions, search->count, through, false};
    if (typed.count > 0) {
        qsort(typed.positions, typed.count, sizeof *typed.positions, compare);
    }
    if (search->cut || typed.count > (size_t)search->max) {
        /* A type that was cut may have more behind the last of the first `max`. */
        typed.count = typed.count < (size_t)search->max ? typed.count : (size_t)search->max;
        typed.cut = true;
        int64_t last = typed.positions[typed.count - 1];
        typed.through = last < through ? last : through;
    }
    while (typed.count > 0 && typed.positions[typed.count - 1] > typed.through) {
        typed.count--;
    }
    typed.through = typed.through > search->after ? typed.through : search->after;
    return typed;
}

hf_status typed_find(struct sqlite_engine *engine, struct conn *conn, const struct filter *filter,
                     int64_t after, int32_t max, struct typed *ret_typed, bool *ret_used)
{
    struct search search = {.engine = engine, .conn = conn, .after = after, .max = max};
    enum type_index state = TYPE_INDEX_OFF;
    int64_t through = 0;
    *ret_used = false;
    hf_status status = types_state(conn, engine->namespace_id, &state, &through);
    if (status || state != TYPE_INDEX_ON) {
        return status;
    }
    status = head_read(engine, conn, &through);
    if (!status) {
        status = add_types(&search, filter);
    }
    if (status || !is_bounded(&search)) {
        mem_free(search.positions);
        return status;
    }
    through = filter->through > 0 && filter->through < through ? filter->through : through;
    *ret_typed = finish(&search, through);
    *ret_used = true;
    return HF_OK;
}

void typed_release(struct typed *typed)
{
    mem_free(typed->positions);
    typed->positions = NULL;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static hf_status push_events(struct sqlite_engine *engine, struct conn *conn, struct typed *typed,
                             struct batch *batch)
{
    hf_status status = HF_OK;
    size_t taken = 0;
    while (!status && taken < typed->count && !batch_full(batch)) {
        sqlite3_stmt *stmt = NULL;
        status = row_find(engine, conn, 0, typed->positions[taken++], false, &stmt);
        if (!status && stmt) {
            struct entry *entry;
            status = row_push(batch, stmt, &entry);
            conn_done(stmt);
        }
    }
    typed->through = taken < typed->count ? typed->positions[taken - 1] : typed->through;
    return status;
}

hf_status sqlite_read_types(struct engine *base, const struct filter *filter, int64_t after,
                            int32_t max, struct batch *batch, bool *ret_used, int64_t *ret_through)
{
    struct sqlite_engine *engine = sqlite_of(base);
    struct conn *conn;
    hf_status status = pool_take_snapshot(engine, &conn);
    if (status) {
        return status;
    }
    struct typed typed = {0};
    size_t first = batch->count;
    bool used;
    status = typed_find(engine, conn, filter, after, max, &typed, &used);
    if (!status && used) {
        status = push_events(engine, conn, &typed, batch);
    }
    pool_give(engine, conn);
    typed_release(&typed);
    if (status) {
        batch->count = first;
        return status;
    }
    checksum_check(batch, first);
    *ret_used = used;
    *ret_through = used ? typed.through : *ret_through;
    return HF_OK;
}
