/*
 * transfer.c - rows of a namespace as they are, out of this file and into it. See transfer.h.
 *
 * One statement reads a table and one writes a row of it (queries/transfer.sql); between them a row
 * is what SQLite says of each column, so this file knows no table but one: the positions of a
 * lease, which are a blob here, travel as the text of a range ("{[3,5),[9,10)}").
 *
 * The mark of a namespace that is being copied into is "<identity of the source> <run>". Every step
 * compares all of it under the gate, so of two runs only the later one writes. A step is part of
 * one write transaction: rows, floor and mark change together or not at all, and a process that
 * dies leaves a marked namespace that a later run goes on with.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "store/sqlite/file/lookup.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/lease.h"
#include "store/sqlite/write/span.h"

#define MARK_BYTES_MAX 256
#define RANGES_BYTES_MAX ((size_t)48 * LEASE_POSITIONS_MAX)
#define LEASE_COLUMN_COUNT 5 /* of a lease's row */
#define LEASE_COLUMN_POSITIONS 6

static const enum sqlite_query read_queries[TRANSFER_TABLES] = {
    [TRANSFER_EVENTS] = SQLITE_QUERY_TRANSFER_READ_EVENTS,
    [TRANSFER_KEYS] = SQLITE_QUERY_TRANSFER_READ_KEYS,
    [TRANSFER_UNIQUES] = SQLITE_QUERY_TRANSFER_READ_UNIQUES,
    [TRANSFER_SUBSCRIPTIONS] = SQLITE_QUERY_TRANSFER_READ_SUBSCRIPTIONS,
    [TRANSFER_PARTITIONS] = SQLITE_QUERY_TRANSFER_READ_PARTITIONS,
    [TRANSFER_RETRIES] = SQLITE_QUERY_TRANSFER_READ_RETRIES,
    [TRANSFER_COPIES] = SQLITE_QUERY_TRANSFER_READ_COPIES,
    [TRANSFER_SETTLED] = SQLITE_QUERY_TRANSFER_READ_SETTLED,
    [TRANSFER_OUTCOMES] = SQLITE_QUERY_TRANSFER_READ_OUTCOMES,
    [TRANSFER_CANCELS] = SQLITE_QUERY_TRANSFER_READ_CANCELS,
    [TRANSFER_LEASES] = SQLITE_QUERY_TRANSFER_READ_LEASES,
    [TRANSFER_NUMBERS] = SQLITE_QUERY_TRANSFER_READ_NUMBERS,
    [TRANSFER_DEAD_LETTERS] = SQLITE_QUERY_TRANSFER_READ_DEAD_LETTERS,
    [TRANSFER_SCHEDULES] = SQLITE_QUERY_TRANSFER_READ_SCHEDULES,
    [TRANSFER_RUNS] = SQLITE_QUERY_TRANSFER_READ_RUNS,
    [TRANSFER_DELAYED] = SQLITE_QUERY_TRANSFER_READ_DELAYED,
    [TRANSFER_NAMESPACE] = SQLITE_QUERY_TRANSFER_READ_NAMESPACE,
};

static const enum sqlite_query write_queries[TRANSFER_TABLES] = {
    [TRANSFER_EVENTS] = SQLITE_QUERY_TRANSFER_WRITE_EVENTS,
    [TRANSFER_KEYS] = SQLITE_QUERY_TRANSFER_WRITE_KEYS,
    [TRANSFER_UNIQUES] = SQLITE_QUERY_TRANSFER_WRITE_UNIQUES,
    [TRANSFER_SUBSCRIPTIONS] = SQLITE_QUERY_TRANSFER_WRITE_SUBSCRIPTIONS,
    [TRANSFER_PARTITIONS] = SQLITE_QUERY_TRANSFER_WRITE_PARTITIONS,
    [TRANSFER_RETRIES] = SQLITE_QUERY_TRANSFER_WRITE_RETRIES,
    [TRANSFER_COPIES] = SQLITE_QUERY_TRANSFER_WRITE_COPIES,
    [TRANSFER_SETTLED] = SQLITE_QUERY_TRANSFER_WRITE_SETTLED,
    [TRANSFER_OUTCOMES] = SQLITE_QUERY_TRANSFER_WRITE_OUTCOMES,
    [TRANSFER_CANCELS] = SQLITE_QUERY_TRANSFER_WRITE_CANCELS,
    [TRANSFER_LEASES] = SQLITE_QUERY_TRANSFER_WRITE_LEASES,
    [TRANSFER_NUMBERS] = SQLITE_QUERY_TRANSFER_WRITE_NUMBERS,
    [TRANSFER_DEAD_LETTERS] = SQLITE_QUERY_TRANSFER_WRITE_DEAD_LETTERS,
    [TRANSFER_SCHEDULES] = SQLITE_QUERY_TRANSFER_WRITE_SCHEDULES,
    [TRANSFER_RUNS] = SQLITE_QUERY_TRANSFER_WRITE_RUNS,
    [TRANSFER_DELAYED] = SQLITE_QUERY_TRANSFER_WRITE_DELAYED,
    [TRANSFER_NAMESPACE] = SQLITE_QUERY_TRANSFER_WRITE_NAMESPACE,
};

/* ---- Positions of a lease as a text ---------------------------------------------------------- */

static void ranges_write(const int64_t *positions, size_t count, struct buf *out)
{
    buf_char(out, '{');
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && positions[end] == positions[end - 1] + 1) {
            end++;
        }
        buf_printf(out, "%s[%" PRId64 ",%" PRId64 ")", i > 0 ? "," : "", positions[i],
                   positions[end - 1] + 1);
        i = end;
    }
    buf_char(out, '}');
}

/* A number of decimal digits and the byte behind it. */
static bool take_number(struct text *rest, char end, int64_t *ret_number)
{
    int64_t number = 0;
    while (rest->length > 0 && rest->bytes[0] >= '0' && rest->bytes[0] <= '9') {
        if (number > PLACE_POSITION_MAX) {
            return false;
        }
        number = number * 10 + (rest->bytes[0] - '0');
        rest->bytes++;
        rest->length--;
    }
    *ret_number = number;
    return text_take(rest, end);
}

/* Exactly `count` positions, ascending. */
static hf_status ranges_read(struct text text, int64_t *ret_positions, size_t count)
{
    size_t at = 0;
    int64_t last = 0;
    bool good = text_take(&text, '{');
    while (good && text_take(&text, '[')) {
        int64_t low = 0;
        int64_t high = 0;
        good = take_number(&text, ',', &low) && take_number(&text, ')', &high) && low > last &&
               high > low && (uint64_t)(high - low) <= count - at;
        for (; good && low < high; low++) {
            ret_positions[at++] = last = low;
        }
        text_take(&text, ',');
    }
    if (!good || !text_take(&text, '}') || text.length > 0 || at != count) {
        return fail(HF_CORRUPT, "the positions of a lease cannot be read");
    }
    return HF_OK;
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct sqlite_exporter {
    struct exporter head; /* first: engine.h */
    struct conn *conn;
    struct buf ranges;
};

hf_status sqlite_identity(struct engine *engine, char ret_identity[TRANSFER_IDENTITY_BYTES])
{
    struct lookup lookup;
    lookup_begin(&lookup, engine, SQLITE_QUERY_TRANSFER_IDENTITY);
    if (lookup_next(&lookup)) {
        snprintf(ret_identity, TRANSFER_IDENTITY_BYTES, "%" TEXT_PRI,
                 TEXT_ARG(column_text(lookup.stmt, 0)));
    } else if (!lookup.status) {
        lookup.status = fail(HF_CORRUPT, "the database does not know who it is");
    }
    return lookup_end(&lookup);
}

/* Positions become visible in their order, so the newest one is the floor. */
hf_status sqlite_transfer_facts(struct engine *engine, struct text name,
                                struct transfer_facts *ret_facts)
{
    struct lookup lookup;
    struct transfer_facts facts = {0};
    if (lookup_begin(&lookup, engine, SQLITE_QUERY_TRANSFER_FACTS)) {
        bind_text(lookup.stmt, 1, name);
    }
    if (lookup_next(&lookup)) {
        facts.namespace_id = sqlite3_column_int64(lookup.stmt, 0);
        facts.head = facts.floor = sqlite3_column_int64(lookup.stmt, 1);
        facts.copying = sqlite3_column_int(lookup.stmt, 3) != 0;
        if (sqlite3_column_int(lookup.stmt, 2) != 0) {
            lookup.status =
                fail(HF_BUSY, "namespace %" TEXT_PRI " is being removed", TEXT_ARG(name));
        }
    } else if (!lookup.status) {
        lookup.status = fail(HF_NOTFOUND, "there is no namespace %" TEXT_PRI, TEXT_ARG(name));
    }
    hf_status status = lookup_end(&lookup);
    if (!status) {
        facts.processes =
            live_count(sqlite_of(engine), facts.namespace_id, facts.names, sizeof facts.names);
        *ret_facts = facts;
    }
    return status;
}

hf_status sqlite_export_open(struct engine *engine, struct exporter **ret_exporter)
{
    struct sqlite_exporter *exporter = mem_calloc(1, sizeof *exporter);
    if (!exporter) {
        return fail(HF_NOMEM, "no memory for an export");
    }
    exporter->head.engine = engine;
    buf_init(&exporter->ranges, RANGES_BYTES_MAX);
    hf_status status = pool_take_snapshot(sqlite_of(engine), &exporter->conn);
    if (status) {
        mem_free(exporter);
        return status;
    }
    *ret_exporter = &exporter->head;
    return HF_OK;
}

void sqlite_export_close(struct exporter *base)
{
    struct sqlite_exporter *exporter = (struct sqlite_exporter *)base;
    pool_give(sqlite_of(base->engine), exporter->conn);
    buf_release(&exporter->ranges);
    mem_free(exporter);
}

static struct transfer_value read_value(sqlite3_stmt *stmt, int column)
{
    switch (sqlite3_column_type(stmt, column)) {
    case SQLITE_INTEGER:
        return (struct transfer_value){.kind = TRANSFER_NUMBER,
                                       .number = sqlite3_column_int64(stmt, column)};
    case SQLITE_TEXT:
        return (struct transfer_value){.kind = TRANSFER_TEXT, .text = column_text(stmt, column)};
    case SQLITE_BLOB: {
        const char *bytes = sqlite3_column_blob(stmt, column);
        size_t length = (size_t)sqlite3_column_bytes(stmt, column);
        return (struct transfer_value){.kind = TRANSFER_BYTES,
                                       .text = {bytes ? bytes : "", length}};
    }
    default:
        return (struct transfer_value){.kind = TRANSFER_NULL};
    }
}

/* Puts a text in the place of the blob. */
static hf_status read_positions(struct sqlite_exporter *exporter, struct transfer_value *values)
{
    struct transfer_value *value = &values[LEASE_COLUMN_POSITIONS];
    int64_t count = values[LEASE_COLUMN_COUNT].number;
    if (count < 1 || count > LEASE_POSITIONS_MAX || value->kind != TRANSFER_BYTES) {
        return fail(HF_CORRUPT, "the positions of a lease cannot be read");
    }
    int64_t *positions = mem_alloc((size_t)count * sizeof *positions);
    if (!positions) {
        return fail(HF_NOMEM, "no memory for the positions of a lease");
    }
    hf_status status =
        lease_decode(value->text.bytes, value->text.length, positions, (size_t)count);
    if (!status) {
        buf_clear(&exporter->ranges);
        ranges_write(positions, (size_t)count, &exporter->ranges);
        status = buf_status(&exporter->ranges);
        value->kind = TRANSFER_TEXT;
        value->text = buf_text(&exporter->ranges);
    }
    mem_free(positions);
    return status;
}

hf_status sqlite_export_rows(struct exporter *base, int64_t namespace_id, enum transfer_table table,
                             int64_t after, int64_t upto, transfer_row_fn row, void *ctx)
{
    struct sqlite_exporter *exporter = (struct sqlite_exporter *)base;
    struct transfer_value values[TRANSFER_COLUMNS_MAX];
    sqlite3_stmt *stmt = conn_statement(exporter->conn, read_queries[table]);
    bool more = true;
    if (!stmt) {
        return conn_error(exporter->conn);
    }
    int columns = sqlite3_column_count(stmt);
    assert(columns <= TRANSFER_COLUMNS_MAX);
    bind_int(stmt, 1, namespace_id);
    if (table == TRANSFER_EVENTS) {
        bind_int(stmt, 2, after);
        bind_int(stmt, 3, upto);
    }
    hf_status status = conn_row(exporter->conn, stmt, &more);
    while (!status && more) {
        for (int i = 0; i < columns; i++) {
            values[i] = read_value(stmt, i);
        }
        if (table == TRANSFER_LEASES) {
            status = read_positions(exporter, values);
        }
        if (!status) {
            status = row(values, columns, ctx);
        }
        if (!status) {
            status = conn_row(exporter->conn, stmt, &more);
        }
    }
    conn_done(stmt);
    return status;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void bind_value(sqlite3_stmt *stmt, int at, const struct transfer_value *value)
{
    switch (value->kind) {
    case TRANSFER_NULL:
        bind_null(stmt, at);
        break;
    case TRANSFER_NUMBER:
        bind_int(stmt, at, value->number);
        break;
    case TRANSFER_TEXT:
        bind_text(stmt, at, value->text);
        break;
    case TRANSFER_BYTES:
        bind_blob(stmt, at, value->text.bytes, value->text.length);
        break;
    }
}

/* Binds the blob in the place of the text, and the lowest position behind all columns. */
static hf_status bind_positions(sqlite3_stmt *stmt, const struct transfer *transfer,
                                const struct transfer_value *values, struct buf *blob)
{
    int64_t count = values[LEASE_COLUMN_COUNT].number;
    if (count < 1 || count > LEASE_POSITIONS_MAX) {
        return fail(HF_CORRUPT, "the positions of a lease cannot be read");
    }
    int64_t *positions = mem_alloc((size_t)count * sizeof *positions);
    if (!positions) {
        return fail(HF_NOMEM, "no memory for the positions of a lease");
    }
    hf_status status = ranges_read(values[LEASE_COLUMN_POSITIONS].text, positions, (size_t)count);
    if (!status) {
        buf_clear(blob);
        lease_encode(positions, (size_t)count, blob);
        status = buf_status(blob);
        bind_blob(stmt, 2 + LEASE_COLUMN_POSITIONS, blob->bytes, blob->length);
        bind_int(stmt, 2 + transfer->columns, positions[0]);
    }
    mem_free(positions);
    return status;
}

static hf_status write_rows(struct conn *conn, int64_t id, const struct transfer *transfer)
{
    struct buf blob;
    hf_status status = HF_OK;
    buf_init(&blob, (size_t)LEASE_VARINT_BYTES_MAX * LEASE_POSITIONS_MAX);
    for (size_t row = 0; row < transfer->rows && !status; row++) {
        const struct transfer_value *values = transfer->values + row * (size_t)transfer->columns;
        sqlite3_stmt *stmt = conn_statement(conn, write_queries[transfer->table]);
        if (!stmt) {
            status = conn_error(conn);
            break;
        }
        bind_int(stmt, 1, id);
        for (int i = 0; i < transfer->columns; i++) {
            bind_value(stmt, i + 2, &values[i]);
        }
        if (transfer->table == TRANSFER_LEASES) {
            status = bind_positions(stmt, transfer, values, &blob);
        } else if (transfer->table == TRANSFER_PARTITIONS) {
            bind_int(stmt, 2 + transfer->columns, span_number(transfer->change.now_us));
        }
        status = status ? status : conn_run(conn, stmt);
        if (!status && conn_changes(conn) != 1) {
            status = fail(HF_CORRUPT, "a row of %s has no subscription",
                          transfer_table_name(transfer->table));
        }
    }
    buf_release(&blob);
    return status;
}

/* ---- The mark -------------------------------------------------------------------------------- */

struct target_mark {
    char text[MARK_BYTES_MAX]; /* "": none */
    int64_t floor;
    bool full; /* there is something in the namespace */
};

static hf_status mark_read(struct conn *conn, int64_t id, struct target_mark *ret_mark)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_TRANSFER_MARK_READ);
    bool row;
    *ret_mark = (struct target_mark){.floor = 0};
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, id);
    hf_status status = conn_row(conn, stmt, &row);
    if (!status && row) {
        snprintf(ret_mark->text, sizeof ret_mark->text, "%" TEXT_PRI,
                 TEXT_ARG(column_text(stmt, 0)));
        ret_mark->floor = sqlite3_column_int64(stmt, 1);
        ret_mark->full = sqlite3_column_int(stmt, 2) != 0;
        conn_done(stmt);
    }
    return status;
}

static void mark_of(const struct transfer *transfer, char out[MARK_BYTES_MAX])
{
    snprintf(out, MARK_BYTES_MAX, "%" TEXT_PRI " %" TEXT_PRI, TEXT_ARG(transfer->source),
             TEXT_ARG(transfer->run));
}

/* Whether the namespace can be copied into; `mark` is what it carries. */
static hf_status may_begin(struct sqlite_engine *engine, int64_t id,
                           const struct transfer *transfer, const struct target_mark *mark)
{
    char names[TRANSFER_NAMES_BYTES];
    struct text name = transfer->name;
    if (mark->text[0]) {
        return strncmp(mark->text, transfer->source.bytes, transfer->source.length) == 0
                   ? HF_OK
                   : fail(HF_CONFLICT,
                          "namespace %" TEXT_PRI " of the target is the unfinished copy of "
                          "another database",
                          TEXT_ARG(name));
    }
    if (mark->full) {
        return fail(HF_CONFLICT, "namespace %" TEXT_PRI " of the target is not empty",
                    TEXT_ARG(name));
    }
    hf_status status = gate_lock_door(&engine->gate);
    if (status) {
        return status;
    }
    int32_t count = live_count(engine, id, names, sizeof names);
    return count == 0 ? HF_OK
                      : fail(HF_CONFLICT,
                             "namespace %" TEXT_PRI " of the target is open in %d process%s: %s",
                             TEXT_ARG(name), (int)count, count == 1 ? "" : "es", names);
}

/* A namespace that is not there yet can be copied into. */
static hf_status check(struct sqlite_engine *engine, struct conn *conn,
                       const struct transfer *transfer)
{
    struct target_mark mark;
    int64_t id = 0;
    bool made = false;
    bool copying = false;
    hf_status status = sqlite_namespace_find(conn, transfer->name, false, 0, &id, &made, &copying);
    if (status == HF_NOTFOUND) {
        return HF_OK;
    }
    if (!status) {
        status = mark_read(conn, id, &mark);
    }
    return status ? status : may_begin(engine, id, transfer, &mark);
}

static hf_status begin(struct sqlite_engine *engine, struct conn *conn, struct transfer *transfer)
{
    char text[MARK_BYTES_MAX];
    struct target_mark mark;
    int64_t id = 0;
    bool made = false;
    bool copying = false;
    hf_status status = sqlite_namespace_find(conn, transfer->name, true, transfer->change.now_us,
                                             &id, &made, &copying);
    if (!status) {
        status = mark_read(conn, id, &mark);
    }
    if (!status) {
        status = may_begin(engine, id, transfer, &mark);
    }
    if (status) {
        return status;
    }
    mark_of(transfer, text);
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_TRANSFER_MARK_PUT);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, id);
    bind_text(stmt, 2, text_of(text));
    transfer->ret_resumed = copying;
    transfer->ret_floor = mark.floor;
    return conn_run(conn, stmt);
}

static hf_status end(struct conn *conn, const struct transfer *transfer)
{
    char text[MARK_BYTES_MAX];
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_TRANSFER_END);
    if (!stmt) {
        return conn_error(conn);
    }
    mark_of(transfer, text);
    bind_text(stmt, 1, text_of(text));
    bind_text(stmt, 2, transfer->name);
    conn->ring = RING_ALL;
    hf_status status = conn_run(conn, stmt);
    return status || conn_changes(conn) > 0
               ? status
               : fail(HF_STALE, "another run of the copy has taken over");
}

static hf_status clear(struct conn *conn, int64_t id, struct transfer *transfer)
{
    int64_t left = TRANSFER_CLEAR_ROWS_MAX;
    hf_status status =
        STATEMENT_RUN(conn, SQLITE_QUERY_TRANSFER_CLEAR_EVENTS, id, left, transfer->floor);
    left -= status == HF_OK ? conn_changes(conn) : 0;
    if (!status && left > 0) {
        status = sqlite_namespace_empty(conn, id, &left);
    }
    transfer->ret_more = left <= 0;
    return status;
}

hf_status sqlite_transfer(struct sqlite_engine *engine, struct conn *conn,
                          struct transfer *transfer)
{
    char text[MARK_BYTES_MAX];
    struct target_mark mark;
    int64_t id = 0;
    bool made = false;
    bool copying = false;
    if (transfer->step == TRANSFER_CHECK) {
        return check(engine, conn, transfer);
    }
    if (transfer->step == TRANSFER_BEGIN) {
        return begin(engine, conn, transfer);
    }
    if (transfer->step == TRANSFER_END) {
        return end(conn, transfer);
    }
    hf_status status = sqlite_namespace_find(conn, transfer->name, false, 0, &id, &made, &copying);
    if (!status) {
        status = mark_read(conn, id, &mark);
    }
    if (status) {
        return status;
    }
    mark_of(transfer, text);
    if (strcmp(text, mark.text) != 0) {
        return fail(HF_STALE, "another run of the copy has taken over");
    }
    if (transfer->step == TRANSFER_CLEAR) {
        return clear(conn, id, transfer);
    }
    status = write_rows(conn, id, transfer);
    if (!status && transfer->table == TRANSFER_EVENTS) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_TRANSFER_FLOOR_PUT, id, transfer->floor);
    } else if (!status && transfer->table == TRANSFER_NAMESPACE) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_DEAD_KINDS_BUILD, id);
    }
    return status;
}
