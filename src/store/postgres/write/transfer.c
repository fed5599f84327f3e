/*
 * transfer.c - rows of a namespace as they are, out of this database and into it. See transfer.h.
 *
 * Reading. An exporter is a session in a REPEATABLE READ transaction. Its first statement locks the
 * tables that are kept short by TRUNCATE, which would empty them for an older snapshot; so no
 * process truncates them while it lives. A table is one statement whose rows arrive one by one
 * (single-row mode), so memory does not grow with it. What a column means is said by its type.
 *
 * Writing. A chunk of rows is one statement with an array for each column (queries/transfer.sql,
 * functions/schema/copying.sql), which locks the namespace's row and compares the mark: of two runs
 * only the later one writes. If the connection is lost it is not known whether it happened
 * (HF_UNKNOWN); the next run looks at what is there.
 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/uuid.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/pg_lookup.h"
#include "store/postgres/wire/row.h"

#define MARK_BYTES_MAX 256
#define EVENT_COLUMN_ID 1
#define EXPORT_SILENCE_MS 600000 /* how long the server may be at the next row */

/* Types of the server, by which a column is read. */
enum {
    OID_BOOL = 16,
    OID_INT8 = 20,
    OID_INT2 = 21,
    OID_INT4 = 23,
    OID_TIMESTAMPTZ = 1184,
    OID_UUID = 2950
};

/* How a table is read and written. Columns: i number, t text, j JSON, u 16 bytes, T time. */
static const struct {
    enum postgres_query read;
    enum postgres_query write;
    const char *columns;
} tables[TRANSFER_TABLES] = {
    [TRANSFER_EVENTS] = {POSTGRES_QUERY_TRANSFER_READ_EVENTS, POSTGRES_QUERY_TRANSFER_WRITE_EVENTS,
                         "iutiTTittttjji"},
    [TRANSFER_KEYS] = {POSTGRES_QUERY_TRANSFER_READ_KEYS, POSTGRES_QUERY_TRANSFER_WRITE_KEYS, "ti"},
    [TRANSFER_UNIQUES] = {POSTGRES_QUERY_TRANSFER_READ_UNIQUES,
                          POSTGRES_QUERY_TRANSFER_WRITE_UNIQUES, "tuiTT"},
    [TRANSFER_SUBSCRIPTIONS] = {POSTGRES_QUERY_TRANSFER_READ_SUBSCRIPTIONS,
                                POSTGRES_QUERY_TRANSFER_WRITE_SUBSCRIPTIONS, "tttiiiiiTtttTii"},
    [TRANSFER_PARTITIONS] = {POSTGRES_QUERY_TRANSFER_READ_PARTITIONS,
                             POSTGRES_QUERY_TRANSFER_WRITE_PARTITIONS, "tiiTuiiiT"},
    [TRANSFER_RETRIES] = {POSTGRES_QUERY_TRANSFER_READ_RETRIES,
                          POSTGRES_QUERY_TRANSFER_WRITE_RETRIES, "tiiiiiiTTttiii"},
    [TRANSFER_COPIES] = {POSTGRES_QUERY_TRANSFER_READ_COPIES, POSTGRES_QUERY_TRANSFER_WRITE_COPIES,
                         "tiutiTTittttjji"},
    [TRANSFER_SETTLED] = {POSTGRES_QUERY_TRANSFER_READ_SETTLED,
                          POSTGRES_QUERY_TRANSFER_WRITE_SETTLED, "tii"},
    [TRANSFER_OUTCOMES] = {POSTGRES_QUERY_TRANSFER_READ_OUTCOMES,
                           POSTGRES_QUERY_TRANSFER_WRITE_OUTCOMES, "tiTiitt"},
    [TRANSFER_CANCELS] = {POSTGRES_QUERY_TRANSFER_READ_CANCELS,
                          POSTGRES_QUERY_TRANSFER_WRITE_CANCELS, "tiiTTtt"},
    [TRANSFER_LEASES] = {POSTGRES_QUERY_TRANSFER_READ_LEASES, POSTGRES_QUERY_TRANSFER_WRITE_LEASES,
                         "tuiiiit"},
    [TRANSFER_NUMBERS] = {POSTGRES_QUERY_TRANSFER_READ_NUMBERS,
                          POSTGRES_QUERY_TRANSFER_WRITE_NUMBERS, "i"},
    [TRANSFER_DEAD_LETTERS] = {POSTGRES_QUERY_TRANSFER_READ_DEAD_LETTERS,
                               POSTGRES_QUERY_TRANSFER_WRITE_DEAD_LETTERS,
                               "tuiiTTitttttiTTittttjjtiti"},
    [TRANSFER_SCHEDULES] = {POSTGRES_QUERY_TRANSFER_READ_SCHEDULES,
                            POSTGRES_QUERY_TRANSFER_WRITE_SCHEDULES, "tuiTTTiiitttttttjj"},
    [TRANSFER_RUNS] = {POSTGRES_QUERY_TRANSFER_READ_RUNS, POSTGRES_QUERY_TRANSFER_WRITE_RUNS,
                       "tTiTTit"},
    [TRANSFER_DELAYED] = {POSTGRES_QUERY_TRANSFER_READ_DELAYED,
                          POSTGRES_QUERY_TRANSFER_WRITE_DELAYED, "TutiTtttjji"},
    [TRANSFER_NAMESPACE] = {POSTGRES_QUERY_TRANSFER_READ_NAMESPACE,
                            POSTGRES_QUERY_TRANSFER_WRITE_NAMESPACE, "iTjiiii"},
};

/* ---- Facts ----------------------------------------------------------------------------------- */

hf_status postgres_identity(struct engine *engine, char ret_identity[TRANSFER_IDENTITY_BYTES])
{
    struct pg_lookup lookup;
    pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_TRANSFER_IDENTITY);
    if (pg_lookup_run(&lookup)) {
        struct text identity = lookup.rows > 0 ? result_text(lookup.result, 0, 0) : TEXT_ABSENT;
        snprintf(ret_identity, TRANSFER_IDENTITY_BYTES, "%" TEXT_PRI, TEXT_ARG(identity));
        if (identity.length == 0) {
            lookup.status = fail(HF_CORRUPT, "the database does not know who it is");
        }
    }
    return pg_lookup_end(&lookup);
}

/* Whether a publisher is at work that may still fill a position up to the head that was read. */
static hf_status count_holders(struct engine *engine, int64_t namespace_id, int64_t *ret_count)
{
    struct pg_lookup lookup;
    param_int8(pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_TRANSFER_HOLDERS), namespace_id);
    if (pg_lookup_run(&lookup)) {
        *ret_count = lookup.rows > 0 ? result_int8(lookup.result, 0, 0, 1) : 1;
    }
    return pg_lookup_end(&lookup);
}

hf_status postgres_transfer_facts(struct engine *engine, struct text name,
                                  struct transfer_facts *ret_facts)
{
    struct pg_lookup lookup;
    struct transfer_facts facts = {0};
    bool gapless = false;
    param_text(pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_TRANSFER_FACTS), name);
    if (pg_lookup_run(&lookup)) {
        const PGresult *result = lookup.result;
        if (lookup.rows == 0) {
            lookup.status = fail(HF_NOTFOUND, "there is no namespace %" TEXT_PRI, TEXT_ARG(name));
        } else if (result_bool(result, 0, 2)) {
            lookup.status =
                fail(HF_BUSY, "namespace %" TEXT_PRI " is being removed", TEXT_ARG(name));
        } else {
            facts.namespace_id = result_int8(result, 0, 0, 0);
            facts.head = result_int8(result, 0, 1, 0);
            facts.copying = result_bool(result, 0, 3);
            gapless = result_bool(result, 0, 4);
            facts.processes = (int32_t)result_int8(result, 0, 5, 0);
            facts.driven = result_int8(result, 0, 7, 0);
            snprintf(facts.names, sizeof facts.names, "%" TEXT_PRI,
                     TEXT_ARG(result_text(result, 0, 6)));
        }
    }
    int64_t holders = 0;
    hf_status status = pg_lookup_end(&lookup);
    if (!status && !gapless) {
        status = count_holders(engine, facts.namespace_id, &holders);
    }
    if (!status) {
        facts.floor = holders == 0 ? facts.head : -1;
        *ret_facts = facts;
    }
    return status;
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct postgres_exporter {
    struct exporter head; /* first: engine.h */
    struct session *session;
};

hf_status postgres_export_open(struct engine *engine, struct exporter **ret_exporter)
{
    struct postgres_exporter *exporter = mem_calloc(1, sizeof *exporter);
    if (!exporter) {
        return fail(HF_NOMEM, "no memory for an export");
    }
    exporter->head.engine = engine;
    hf_status status = session_take(postgres_of(engine), &exporter->session);
    if (!status) {
        status = session_script(exporter->session,
                                postgres_queries[POSTGRES_QUERY_TRANSFER_SNAPSHOT].sql);
        exporter->session->in_tx = true;
    }
    if (status) {
        postgres_export_close(&exporter->head);
        return status;
    }
    *ret_exporter = &exporter->head;
    return HF_OK;
}

void postgres_export_close(struct exporter *base)
{
    struct postgres_exporter *exporter = (struct postgres_exporter *)base;
    session_give(postgres_of(base->engine), exporter->session);
    mem_free(exporter);
}

static struct transfer_value read_value(const PGresult *result, int column)
{
    if (result_is_null(result, 0, column)) {
        return (struct transfer_value){.kind = TRANSFER_NULL};
    }
    switch (PQftype(result, column)) {
    case OID_BOOL:
    case OID_INT2:
    case OID_INT4:
    case OID_INT8:
        return (struct transfer_value){.kind = TRANSFER_NUMBER,
                                       .number = result_int8(result, 0, column, 0)};
    case OID_TIMESTAMPTZ:
        return (struct transfer_value){.kind = TRANSFER_NUMBER,
                                       .number = result_time(result, 0, column, 0)};
    case OID_UUID:
        return (struct transfer_value){.kind = TRANSFER_BYTES,
                                       .text = result_text(result, 0, column)};
    default:
        return (struct transfer_value){.kind = TRANSFER_TEXT,
                                       .text = result_text(result, 0, column)};
    }
}

struct stream {
    enum transfer_table table;
    transfer_row_fn row;
    void *ctx;
};

static hf_status stream_row(const PGresult *result, void *ctx)
{
    const struct stream *stream = ctx;
    struct transfer_value values[TRANSFER_COLUMNS_MAX];
    int columns = PQnfields(result);
    if (columns != (int)strlen(tables[stream->table].columns)) {
        return fail(HF_CORRUPT, "a row of %s has %d columns", transfer_table_name(stream->table),
                    columns);
    }
    for (int i = 0; i < columns; i++) {
        values[i] = read_value(result, i);
    }
    return stream->row(values, columns, stream->ctx);
}

hf_status postgres_export_rows(struct exporter *base, int64_t namespace_id,
                               enum transfer_table table, int64_t after, int64_t upto,
                               transfer_row_fn row, void *ctx)
{
    struct session *session = ((struct postgres_exporter *)base)->session;
    struct stream stream = {table, row, ctx};
    struct params *params = session_params(session);
    param_int8(params, namespace_id);
    if (table == TRANSFER_EVENTS) {
        param_int8(params, after);
        param_int8(params, upto);
    }
    return session_stream(session, tables[table].read, EXPORT_SILENCE_MS, stream_row, &stream);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static enum postgres_query choose(const struct change *change)
{
    const struct transfer *transfer = (const struct transfer *)change;
    switch (transfer->step) {
    case TRANSFER_CHECK:
        return POSTGRES_QUERY_TRANSFER_CHECK;
    case TRANSFER_BEGIN:
        return POSTGRES_QUERY_TRANSFER_BEGIN;
    case TRANSFER_CLEAR:
        return POSTGRES_QUERY_TRANSFER_CLEAR;
    case TRANSFER_END:
        return POSTGRES_QUERY_TRANSFER_END;
    case TRANSFER_PUT:
        break;
    }
    return tables[transfer->table].write;
}

static void put_value(struct params *params, char type, const struct transfer_value *value)
{
    switch (value->kind) {
    case TRANSFER_NULL:
        element_null(params);
        break;
    case TRANSFER_NUMBER:
        if (type == 'T') {
            element_time(params, value->number);
        } else {
            element_int8(params, value->number);
        }
        break;
    case TRANSFER_TEXT:
    case TRANSFER_BYTES:
        element_text(params, value->text);
        break;
    }
}

static enum param_type type_of(char type)
{
    switch (type) {
    case 'i':
        return PARAM_INT8;
    case 'u':
        return PARAM_UUID;
    case 'T':
        return PARAM_TIME;
    case 'j':
        return PARAM_JSON;
    default:
        return PARAM_TEXT;
    }
}

/* The times inside the ids of events, which the server would take much longer to find. */
static void put_id_times(struct params *params, const struct transfer *transfer)
{
    param_array(params, PARAM_TIME, transfer->rows);
    for (size_t row = 0; row < transfer->rows; row++) {
        struct text id = transfer->values[row * (size_t)transfer->columns + EVENT_COLUMN_ID].text;
        int64_t time_us = id.length == UUID_BYTES ? uuid_v7_time_us((const uint8_t *)id.bytes) : -1;
        if (time_us >= 0) {
            element_time(params, time_us);
        } else {
            element_null(params);
        }
    }
}

static hf_status put_columns(struct params *params, const struct transfer *transfer)
{
    const char *types = tables[transfer->table].columns;
    if (transfer->columns != (int)strlen(types)) {
        return fail(HF_INVALID, "a row of %s has %d columns", transfer_table_name(transfer->table),
                    transfer->columns);
    }
    for (int column = 0; types[column]; column++) {
        param_array(params, type_of(types[column]), transfer->rows);
        for (size_t row = 0; row < transfer->rows; row++) {
            put_value(params, types[column],
                      &transfer->values[row * (size_t)transfer->columns + (size_t)column]);
        }
    }
    if (transfer->table == TRANSFER_EVENTS) {
        put_id_times(params, transfer);
        param_int8(params, transfer->floor);
    }
    return HF_OK;
}

static hf_status transfer_fill(struct postgres_engine *engine, struct params *params,
                               struct change *change)
{
    (void)engine;
    const struct transfer *transfer = (const struct transfer *)change;
    char mark[MARK_BYTES_MAX];
    param_text(params, transfer->name);
    if (transfer->step == TRANSFER_CHECK || transfer->step == TRANSFER_BEGIN) {
        param_text(params, transfer->source);
        param_text(params, transfer->gapless == HF_ON ? text_of("true") : TEXT_ABSENT);
        if (transfer->step == TRANSFER_BEGIN) {
            param_text(params, transfer->run);
        }
        return HF_OK;
    }
    snprintf(mark, sizeof mark, "%" TEXT_PRI " %" TEXT_PRI, TEXT_ARG(transfer->source),
             TEXT_ARG(transfer->run));
    param_text(params, text_of(mark));
    if (transfer->step == TRANSFER_CLEAR) {
        param_int8(params, transfer->floor);
        param_int8(params, TRANSFER_CLEAR_ROWS_MAX);
    }
    return transfer->step == TRANSFER_PUT ? put_columns(params, transfer) : HF_OK;
}

static hf_status transfer_read(struct postgres_engine *engine, struct change *change,
                               const PGresult *result, bool *ret_ring)
{
    (void)engine;
    (void)ret_ring; /* no process has the namespace open */
    struct transfer *transfer = (struct transfer *)change;
    hf_status status = postgres_answer(result, 0, 0);
    if (!status && transfer->step == TRANSFER_BEGIN) {
        transfer->ret_resumed = result_bool(result, 0, 2);
        transfer->ret_floor = result_int8(result, 0, 3, 0);
    } else if (!status && transfer->step == TRANSFER_CLEAR) {
        transfer->ret_more = result_bool(result, 0, 2);
    } else if (status == HF_STALE) {
        return fail(HF_STALE, "another run of the copy has taken over");
    }
    return status;
}

const struct verb postgres_verb_transfer = {
    .choose = choose,
    .fill = transfer_fill,
    .read = transfer_read,
};
