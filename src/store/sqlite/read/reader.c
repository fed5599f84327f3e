/*
 * reader.c - the log's reading end.
 *
 * On SQLite commits happen one after another, so positions become visible in order and a reader is
 * no more than the position it has read up to. Each call reads the head first and then the rows up
 * to it: whatever is at or below the head was visible before the rows were read, so when they are
 * exhausted the floor is the head itself, also where retention has emptied the log.
 *
 * Partition and type are looked at before anything else of a row: SQLite decodes a row from the
 * left and only as far as it is asked, so events that the filter leaves out cost little. If it
 * leaves out most of them, and the namespace has an index on types, the next call reads by that.
 */
#include "base/err.h"
#include "base/mem.h"
#include "store/common/batch.h"
#include "store/common/checksum.h"
#include "store/common/filter.h"
#include "store/sqlite/core.h"
#include "store/sqlite/file/row.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/write/append.h"
#include "store/sqlite/write/typed.h"

#define READER_ROWS_MAX 10000 /* looked at in one call, wanted or not */

struct sqlite_reader {
    struct reader head; /* first: engine.h */
    int64_t after;      /* everything up to here was looked at */
    bool sparse;        /* few of the last rows were wanted */
};

hf_status sqlite_reader_open(struct engine *engine, int64_t after, bool strict,
                             struct reader **ret_reader)
{
    (void)strict; /* positions become visible in order anyway */
    struct sqlite_reader *reader = mem_calloc(1, sizeof *reader);
    if (!reader) {
        return fail(HF_NOMEM, "no memory for a reader");
    }
    reader->head.engine = engine;
    reader->after = after;
    *ret_reader = &reader->head;
    return HF_OK;
}

void sqlite_reader_close(struct reader *reader)
{
    mem_free(reader);
}

/* Copies the row into the batch, if it is wanted. */
static hf_status take_row(sqlite3_stmt *stmt, const struct filter *filter, struct batch *batch)
{
    bool ours = filter_owns(filter, row_hash(stmt));
    bool wanted = ours && filter_matches(filter, row_type(stmt));
    if (!wanted && !(ours && filter->unhandled_too)) {
        return HF_OK;
    }
    struct entry *entry;
    hf_status status = row_push(batch, stmt, &entry);
    if (!status) {
        entry->unhandled = !wanted;
    }
    return status;
}

/* Reads rows until the batch is full, READER_ROWS_MAX were looked at or there are no more.
 * last: the last one looked at. */
static hf_status read_rows(struct conn *conn, sqlite3_stmt *stmt, const struct filter *filter,
                           int32_t max, struct batch *batch, int64_t *last, bool *ret_end)
{
    size_t full = batch->count + (size_t)max;
    int rows = 0;
    while (rows++ < READER_ROWS_MAX && batch->count < full && !batch_full(batch)) {
        bool found;
        hf_status status = conn_row(conn, stmt, &found);
        if (status || !found) {
            *ret_end = true;
            return status;
        }
        status = take_row(stmt, filter, batch);
        if (status) {
            conn_done(stmt);
            return status;
        }
        *last = position_of(sqlite3_column_int64(stmt, 0));
    }
    conn_done(stmt);
    *ret_end = false;
    return HF_OK;
}

/* Reads by the index on types. All statements see one snapshot. */
static hf_status read_typed(struct sqlite_engine *engine, struct conn *conn, int64_t *after,
                            const struct filter *filter, int32_t max, struct batch *batch,
                            bool *ret_more, bool *ret_used)
{
    struct typed typed = {0};
    hf_status status = typed_find(engine, conn, filter, *after, max, &typed, ret_used);
    if (status || !*ret_used) {
        return status;
    }
    size_t first = batch->count;
    size_t read = 0;
    while (!status && read < typed.count && !batch_full(batch)) {
        sqlite3_stmt *stmt = NULL;
        status = row_find(engine, conn, 0, typed.positions[read++], false, &stmt);
        if (!status && stmt) {
            status = take_row(stmt, filter, batch);
            conn_done(stmt);
        }
    }
    if (status) {
        batch->count = first;
    } else {
        bool all = read == typed.count;
        *after = all ? typed.through : typed.positions[read - 1];
        *ret_more = !all || typed.cut;
    }
    typed_release(&typed);
    return status;
}

static hf_status read_log(struct sqlite_engine *engine, struct conn *conn, int64_t *after,
                          const struct filter *filter, int32_t max, struct batch *batch,
                          bool *ret_more)
{
    int64_t head = 0;
    hf_status status = head_read(engine, conn, &head);
    if (status) {
        return status;
    }
    head = filter->through > 0 && filter->through < head ? filter->through : head;
    if (*after >= head) {
        *ret_more = false;
        return HF_OK;
    }
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_READ_LOG);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, place_of(engine, *after));
    bind_int(stmt, 2, place_of(engine, head));
    int64_t last = *after;
    size_t first = batch->count;
    bool end = false;
    status = read_rows(conn, stmt, filter, max, batch, &last, &end);
    if (status) {
        batch->count = first;
        return status;
    }
    *after = end ? head : last;
    *ret_more = *after < head;
    return HF_OK;
}

hf_status sqlite_reader_next(struct reader *base, const struct filter *filter, int32_t max,
                             struct batch *batch, int64_t *ret_floor, bool *ret_more)
{
    struct sqlite_reader *reader = (struct sqlite_reader *)base;
    struct sqlite_engine *engine = sqlite_of(base->engine);
    struct conn *conn;
    hf_status status =
        reader->sparse ? pool_take_snapshot(engine, &conn) : pool_take(engine, &conn);
    if (status) {
        return status;
    }
    int64_t after = reader->after;
    bool more = false;
    size_t first = batch->count;
    bool typed = false;
    conn->limit = conn->deadline;
    if (reader->sparse) {
        status = read_typed(engine, conn, &after, filter, max, batch, &more, &typed);
    }
    if (!status && !typed) {
        status = read_log(engine, conn, &after, filter, max, batch, &more);
    }
    pool_give(engine, conn);
    if (status) {
        return status;
    }
    reader->sparse =
        more && filter_is_sparse(filter, after - reader->after, (int64_t)(batch->count - first));
    reader->after = after;
    checksum_check(batch, first);
    *ret_floor = after;
    *ret_more = more;
    return HF_OK;
}
